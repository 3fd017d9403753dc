"""Compares what the processor did with a computation of its own over the downloaded tables; shares no code with it.

    python verify.py [--data DIR] [--limit N]

Checked exactly: the state of every airport of arrival; the last record of arrivals per airport, and how many there are: a
flight that went through the loop twice or not at all cannot hide. Which flights come first at an airport is not defined (they
come from several tasks), so the records in between are not compared. Exit code 0 only if all agree.
"""

import argparse
import csv
import importlib.util
import sys
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("flights_data", HERE.parent / "flights" / "data.py")
flights_data = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(flights_data)
sys.path.insert(0, str(HERE.parent))
import answers  # noqa: E402


def expected(limit=None):
    """airport of arrival -> (flights, minutes late, flights by region of departure)"""
    region_of = {}
    for line in (HERE / "regions.txt").read_text().splitlines():
        region, states = line.split("=")
        region_of.update(dict.fromkeys(states.split(), region))
    with open(flights_data.csv_path("airports.csv"), encoding="utf-8") as file:
        state_of = {row[0]: row[3] for row in csv.reader(file)}
    delays, regions = defaultdict(list), defaultdict(Counter)
    with open(flights_data.csv_path(), encoding="ascii") as file:
        for number, (_, delay, _, origin, destination) in enumerate(csv.reader(file)):
            if number and (limit is None or number <= limit):
                delays[destination].append(max(0, int(delay)))
                regions[destination][region_of.get(state_of[origin], "elsewhere")] += 1
    return {airport: (len(late), sum(late), dict(regions[airport])) for airport, late in delays.items()}


def differences(state, outputs, limit=None):
    """Sentences about what is wrong. `state`: {airport: value}; `outputs`: (key, value) in topic order."""
    want = expected(limit)
    wrong = []
    records, last = Counter(), {}
    for airport, value in outputs:
        records[airport] += 1
        last[airport] = value
    for airport in sorted(state.keys() | want.keys() | records.keys()):
        flights, late, regions = want.get(airport, (0, 0, {}))
        if state.get(airport) != {"flights": flights, "late": late, "from": regions}:
            wrong.append(f"state of {airport}: {state.get(airport)}, computed {want.get(airport)}")
        if records[airport] != flights:
            wrong.append(f"arrivals of {airport}: {records[airport]} records, computed {flights}")
        elif (last[airport]["flights"], last[airport]["late"]) != (flights, late) or last[airport]["city"] == "?":
            wrong.append(f"arrivals of {airport}: the last record is {last[airport]}, computed {want[airport]}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=".millstream", help="folder of the embedded log (default .millstream)")
    parser.add_argument("--limit", type=int, help="only the first N flights were loaded")
    options = parser.parse_args()
    state = answers.state("arrived", options.data)
    outputs = answers.records("arrivals", options.data)
    wrong = differences(state, outputs, options.limit)
    answers.refuse(wrong)
    flights = sum(row["flights"] for row in state.values())
    print(f"{flights:,} flights in, each through the loop once: {len(state)} airports of arrival agree with an independent computation")


if __name__ == "__main__":
    main()
