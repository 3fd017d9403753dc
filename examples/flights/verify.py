"""Compares what the processor did with a computation of its own over the downloaded table; shares no code with it.

    python verify.py [--data DIR] [--limit N] [--top N]

Checked exactly: the state of every airport; every record of airport-delays, per airport in order, so a flight that counted
twice or not at all cannot hide; every record of long-delays. Exit code 0 only if all agree.
"""

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

import data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import answers  # noqa: E402


def expected(limit=None):
    """(state by airport, airport -> its outputs in order, airport -> its long delays in order)"""
    flights = defaultdict(list)
    with open(data.csv_path(), encoding="ascii") as file:
        for number, (_, delay, distance, origin, destination) in enumerate(csv.reader(file)):
            if number and (limit is None or number <= limit):
                flights[origin].append((int(delay), int(distance), destination))
    outputs = {airport: [] for airport in flights}
    long_delays = defaultdict(list)
    for airport, departures in flights.items():
        late = total = worst = miles = 0
        for n, (delay, distance, destination) in enumerate(departures, 1):
            if delay > 0:
                late, total, worst = late + 1, total + delay, max(worst, delay)
            miles += distance
            outputs[airport].append({"flights": n, "late": late, "delay_sum": total, "delay_max": worst, "distance_sum": miles})
            if delay > 180:
                long_delays[airport].append((destination, delay))
    # The state once more, from sums over whole lists: a slip in the running totals above would show.
    state = {
        airport: {
            "flights": len(departures), "late": sum(delay > 0 for delay, _, _ in departures),
            "delay_sum": sum(delay for delay, _, _ in departures if delay > 0),
            "delay_max": max(0, *(delay for delay, _, _ in departures)),
            "distance_sum": sum(distance for _, distance, _ in departures),
        }
        for airport, departures in flights.items()
    }
    assert all(state[airport] == outputs[airport][-1] for airport in state)
    return state, outputs, dict(long_delays)


def differences(state, outputs, long_delays, limit=None):
    """Sentences about what is wrong. `state`: {airport: value}; `outputs` and `long_delays`: (key, value) in topic order."""
    want_state, want_outputs, want_long = expected(limit)
    wrong = [
        f"state of {airport}: {state.get(airport)}, computed {want_state.get(airport)}"
        for airport in sorted(state.keys() | want_state.keys()) if state.get(airport) != want_state.get(airport)
    ]
    for name, got, want in (
        ("airport-delays", by_key(outputs), want_outputs),
        ("long-delays", {k: [(v["destination"], v["delay"]) for v in rows] for k, rows in by_key(long_delays).items()}, want_long),
    ):
        for airport in sorted(got.keys() | want.keys()):
            rows, computed = got.get(airport, []), want.get(airport, [])
            if rows != computed:
                at = next((n for n, pair in enumerate(zip(rows, computed)) if pair[0] != pair[1]), min(len(rows), len(computed)))
                wrong.append(f"{name} of {airport}: {len(rows)} records, computed {len(computed)}; the first difference is at {at}")
    return wrong


def by_key(records):
    grouped = defaultdict(list)
    for key, value in records:
        grouped[key].append(value)
    return dict(grouped)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=".millstream", help="folder of the embedded log (default .millstream)")
    parser.add_argument("--limit", type=int, help="only the first N flights were loaded")
    parser.add_argument("--top", type=int, default=10, help="rows of the table")
    options = parser.parse_args()
    state = answers.state("airports", options.data)
    topics = [
        answers.records(topic, options.data)
        for topic in ("airport-delays", "long-delays")
    ]
    show(state, options.top)
    wrong = differences(state, *topics, limit=options.limit)
    answers.refuse(wrong)
    records = sum(row["flights"] for row in state.values())
    print(f"{records:,} records in, every result counted once: {len(state)} airports, {len(topics[0]):,} updates and "
          f"{len(topics[1]):,} long delays agree with an independent computation")


def show(state, top):
    print(f"{'airport':<8} {'flights':>8} {'late':>8} {'late %':>7} {'avg late min':>13} {'worst':>6}")
    for airport, row in sorted(state.items(), key=lambda item: -item[1]["flights"])[:top]:
        average = row["delay_sum"] / row["late"] if row["late"] else 0
        print(f"{airport:<8} {row['flights']:>8,} {row['late']:>8,} {100 * row['late'] / row['flights']:>6.1f}% {average:>13.1f} {row['delay_max']:>6}")


if __name__ == "__main__":
    main()
