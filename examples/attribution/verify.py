"""Compares what the processor did with a computation of its own; shares no code with it, and knows no windows.

    python verify.py [--data DIR] [--users N] [--seed N]

Every click is held against every impression of its user. Checked exactly: the pairs that came out, each once, and the impressions
that came out as not clicked. Exit code 0 only if all agree.
"""

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

import events

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import answers  # noqa: E402

TEN_MINUTES = 10 * 60 * 1000


def expected(users=events.USERS, seed=events.SEED):
    """({(user, click, ad, ms between)}, {(user, ad)} that nobody clicked)"""
    happened = events.events(users, seed)
    shown = defaultdict(list)
    for seen in happened["impressions"]:
        shown[seen["user"]].append(seen)
    pairs = {
        (click["user"], click["click"], seen["ad"], click["time"] - seen["time"])
        for click in happened["clicks"] for seen in shown[click["user"]] if 0 <= click["time"] - seen["time"] <= TEN_MINUTES
    }
    clicked = {(user, ad) for user, _, ad, _ in pairs}
    return pairs, {(seen["user"], seen["ad"]) for seen in happened["impressions"]} - clicked


def differences(attributed, unclicked, users=events.USERS, seed=events.SEED):
    """Sentences about what is wrong. Both: (key, value) of the topic. Users of the last lines are left out: their windows are not over."""
    pairs, rest = expected(users, seed)
    got_pairs = Counter((user, value["click"], value["ad"], value["after"]) for user, value in attributed)
    got_rest = Counter((user, value["ad"]) for user, value in unclicked)
    wrong = []
    for what, got, want in (("attributed", got_pairs, pairs), ("unclicked", got_rest, rest)):
        got = Counter({row: count for row, count in got.items() if not row[0].startswith("end-")})
        want = {row for row in want if not row[0].startswith("end-")}
        wrong += [f"{what}: {row} is missing" for row in sorted(want - got.keys())]
        wrong += [f"{what}: {row} should not be there" for row in sorted(got.keys() - want)]
        wrong += [f"{what}: {row} is there {count} times" for row, count in sorted(got.items()) if count > 1]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=".millstream", help="folder of the embedded log (default .millstream)")
    parser.add_argument("--users", type=int, default=events.USERS)
    parser.add_argument("--seed", type=int, default=events.SEED)
    options = parser.parse_args()
    attributed, unclicked = (
        answers.records(topic, options.data)
        for topic in ("attributed", "unclicked")
    )
    wrong = differences(attributed, unclicked, options.users, options.seed)
    answers.refuse(wrong)
    total = sum(len(of_kind) for of_kind in events.events(options.users, options.seed).values())
    print(f"{total:,} records in: {len(attributed):,} pairs of click and impression, {len(unclicked):,} impressions without a click, "
          "each once, agree with an independent computation")


if __name__ == "__main__":
    main()
