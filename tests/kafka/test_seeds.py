"""Mixed kills and pauses of members and brokers under load, from a seed. `./dev soak kafka` runs many long rounds of the same."""

import os

from rounds import Trouble


def test_mixed_trouble(group, three, seed):
    g = group(three, session_timeout="10s", transaction_timeout="5s", partitions=6)
    trouble = Trouble(g, three, seed)
    trouble.start(members=2)
    for number in range(int(os.environ.get("KAFKA_ROUNDS", "2"))):
        trouble.round(float(os.environ.get("KAFKA_ROUND_SECONDS", "10")))
        print(f"round {number + 1}: {trouble.story[-1]}")
    trouble.end()
