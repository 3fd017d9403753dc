"""How verify.py of every example reads what came of a run, and says whether it is right."""

import json
import subprocess
import sys


def state(store, data, *options):
    """{key: value} of a store, by the command line."""
    return {row["key"]: row["value"] for row in read("state", "scan", store, *options, "--limit", "1000000", "-o", "json", "--data", data)}


def records(topic, data):
    """[(key, value)] of a topic's committed records, in the order of each partition."""
    return [(row["key"], row["value"]) for row in read("consume", topic, "--from-beginning", "-o", "json", "--data", data)]


def read(*arguments):
    done = subprocess.run(["millstream", *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"millstream {' '.join(arguments)} ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def refuse(wrong):
    """Shows the first of the sentences about what is wrong, and ends the program with 1; returns if there are none."""
    for sentence in wrong[:20]:
        print("WRONG", sentence)
    if wrong:
        sys.exit(f"{len(wrong)} differences")
