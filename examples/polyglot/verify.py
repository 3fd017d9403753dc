"""Compares what the pipeline did with a computation of its own over the downloaded table; shares no code with it.

    python verify.py [--data DIR] [--limit N]

Checked exactly: the state of every route (Go) and of every airport of arrival (TypeScript), how many updates each airport got (one for
every flight: one that counted twice or not at all on the way through three programs cannot hide), and the last of them. Exit code 0
only if all agree.
"""

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("flights", "")]
import answers  # noqa: E402
import data  # noqa: E402


def expected(limit=None):
    """destination -> origin -> [(minutes late, miles)]"""
    flights = defaultdict(lambda: defaultdict(list))
    with open(data.csv_path(), encoding="ascii") as file:
        for number, (_, delay, distance, origin, destination) in enumerate(csv.reader(file)):
            if number and (limit is None or number <= limit):
                flights[destination][origin].append((max(int(delay), 0), int(distance)))
    return flights


def sums(legs):
    return {"flights": len(legs), "late": sum(late for late, _ in legs), "miles": sum(miles for _, miles in legs)}


def differences(routes, airports, arrivals, limit=None):
    """Sentences about what is wrong. `routes`, `airports`: {key: value}; `arrivals`: (key, value) in topic order."""
    flights = expected(limit)
    want_routes = {f"{origin}-{to}": sums(legs) for to, origins in flights.items() for origin, legs in origins.items()}
    want_airports = {to: {origin: sums(legs) for origin, legs in origins.items()} for to, origins in flights.items()}
    seen = defaultdict(list)
    for airport, value in arrivals:
        seen[airport].append(value)
    wrong = []
    for name, got, want in (("route", routes, want_routes), ("airport", airports, want_airports)):
        wrong += [f"state of {name} {key}: {got.get(key)}, computed {want.get(key)}" for key in sorted(got.keys() | want.keys()) if got.get(key) != want.get(key)]
    for airport in sorted(seen.keys() | flights.keys()):
        legs = [leg for origin in flights[airport].values() for leg in origin]
        want = {**sums(legs), "routes": len(flights[airport])}
        if len(seen[airport]) != len(legs):
            wrong.append(f"arrivals of {airport}: {len(seen[airport])} updates, {len(legs)} flights")
        elif legs and seen[airport][-1] != want:
            wrong.append(f"arrivals of {airport}: the last is {seen[airport][-1]}, computed {want}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=".millstream", help="folder of the embedded log (default .millstream)")
    parser.add_argument("--limit", type=int, help="only the first N flights were loaded")
    options = parser.parse_args()
    routes, airports = (
        answers.state(store, options.data, "--processor", store)
        for store in ("routes", "airports")
    )
    arrivals = answers.records("arrivals", options.data)
    wrong = differences(routes, airports, arrivals, options.limit)
    answers.refuse(wrong)
    print(f"{len(arrivals):,} flights through three programs, every one counted once: {len(routes):,} routes and {len(airports)} airports agree with an "
          "independent computation")


if __name__ == "__main__":
    main()
