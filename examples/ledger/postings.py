"""Makes the postings: one JSON object a line, the same for the same seed.

    python postings.py [--postings N]
"""

import argparse
import json
import random

POSTINGS = 20_000
ACCOUNTS = 400
SEED = 20_010_101


def postings(count=POSTINGS, seed=SEED):
    """{"id", "account", "cents"}: more is paid in than taken, but about one in six asks for more than there is."""
    random_ = random.Random(seed)
    for number in range(count):
        cents = random_.randint(1, 10_000)
        if random_.random() < 0.45:
            cents = -2 * cents
        yield {"id": number, "account": f"account-{random_.randrange(ACCOUNTS):03}", "cents": cents}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postings", type=int, default=POSTINGS)
    for posting in postings(parser.parse_args().postings):
        print(json.dumps(posting))


if __name__ == "__main__":
    main()
