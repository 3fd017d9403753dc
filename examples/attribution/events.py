"""Impressions of ads and clicks, the same for the same seed: a made-up site, for there is no public table of such events that one may ship.

    python events.py impressions|clicks [--users N] [--seed N]     prints JSON lines, in the order in which they arrive

Each record arrives up to two minutes late, so times go back and forth. The last lines of both, of the users end-0, end-1 and so on, are so
much later that every window before them is over, in every partition.
"""

import argparse
import json
import random

SEED = 19941027
USERS = 800
START = 1_700_000_000_000
MINUTE = 60_000
LATE = 2 * MINUTE
WITHIN = 10 * MINUTE
ENDS = 40
KINDS = ("impressions", "clicks")


def events(users=USERS, seed=SEED):
    """{kind: events in the order of their arrival}; those of a user: "user", "time", and "ad" or "click"."""
    rng = random.Random(seed)
    happened = {kind: [] for kind in KINDS}
    for user in range(users):
        time, shown = START + rng.randrange(240 * MINUTE), None
        for _ in range(rng.randrange(2, 30)):
            time += rng.choice([rng.randrange(MINUTE), rng.randrange(8 * MINUTE), rng.randrange(40 * MINUTE)])
            kind = "impressions" if rng.random() < 0.75 else "clicks"
            if kind == "impressions":
                shown = time
            elif shown is not None and rng.random() < 0.1:
                time = max(time, shown + WITHIN + rng.choice([0, 1]))  # on the edge
            happened[kind].append({"user": f"user-{user:04}", "time": time})
    last = max(event["time"] for kind in KINDS for event in happened[kind])
    for kind, name in (("impressions", "ad"), ("clicks", "click")):
        arrivals = sorted(happened[kind], key=lambda event: event["time"] + rng.randrange(LATE))
        arrivals += [{"user": f"end-{number}", "time": last + 120 * MINUTE} for number in range(ENDS)]
        happened[kind] = [{**event, name: f"{name}-{number}"} for number, event in enumerate(arrivals)]
    return happened


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    for event in events(options.users, options.seed)[options.kind]:
        print(json.dumps(event))


if __name__ == "__main__":
    main()
