"""Compares what is in the database and in the topics with a computation of its own; shares no code with the processor.

    python verify.py [--data DIR] [--database URL] [--postings N] [--seed N]

Checked exactly: the balance of every account, every entry once, and every record of `balances` and `rejected`, in the order of its
account. Exit code 0 only if all agree.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import accumulate

import postings


def expected(count, seed):
    """(entries, balances per account, rejected per account), account by account rather than posting by posting."""
    by_account = defaultdict(list)
    for posting in postings.postings(count, seed):
        by_account[posting["account"]].append(posting)
    entries, balances, rejected = Counter(), {}, {}
    for account, wanted in by_account.items():
        taken, refused, total = [], [], 0
        for posting in wanted:
            if total + posting["cents"] < 0:
                refused.append({"id": posting["id"], "missing": -total - posting["cents"]})
            else:
                taken.append(posting)
                total += posting["cents"]
        entries.update((one["id"], account, one["cents"]) for one in taken)
        sums = accumulate(one["cents"] for one in taken)
        balances[account] = [{"id": one["id"], "cents": cents} for one, cents in zip(taken, sums)]
        rejected[account] = refused
    return entries, balances, rejected


def differences(accounts, entries, balances, rejected, count=postings.POSTINGS, seed=postings.SEED):
    """Sentences. `accounts`: {id: cents}; `entries`: (posting, account, cents); the other two: (key, value) in topic order."""
    right_entries, right_balances, right_rejected = expected(count, seed)
    wrong = []
    for entry, times in (Counter(entries) - right_entries).items():
        wrong.append(f"entry {entry} is there {times} times more than it should be")
    for entry, times in (right_entries - Counter(entries)).items():
        wrong.append(f"entry {entry} is missing {times} times")
    right_accounts = {account: said[-1]["cents"] for account, said in right_balances.items() if said}
    for account in sorted(right_accounts.keys() | accounts.keys()):
        if accounts.get(account) != right_accounts.get(account):
            wrong.append(f"{account} has {accounts.get(account)} cents, and should have {right_accounts.get(account)}")
    for topic, records, right in (("balances", balances, right_balances), ("rejected", rejected, right_rejected)):
        said = defaultdict(list)
        for key, value in records:
            said[key].append(value)
        for account in sorted(right.keys() | said.keys()):
            if said.get(account, []) != right.get(account, []):
                wrong.append(f"{topic} of {account}: {len(said.get(account, []))} records, not the {len(right.get(account, []))} there should be")
    return wrong


def read(arguments):
    done = subprocess.run(["millstream", *arguments], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


def in_database(url):
    import psycopg

    with psycopg.connect(url) as connection:
        return dict(connection.execute("SELECT id, cents FROM accounts")), list(connection.execute("SELECT posting, account, cents FROM entries"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=".millstream")
    parser.add_argument("--database", default=os.environ.get("LEDGER_DATABASE"))
    parser.add_argument("--postings", type=int, default=postings.POSTINGS)
    parser.add_argument("--seed", type=int, default=postings.SEED)
    options = parser.parse_args()
    if not options.database:
        parser.error("no database: --database, or $LEDGER_DATABASE")
    accounts, entries = in_database(options.database)
    topics = [
        [(row["key"], row["value"]) for row in read(["consume", topic, "--from-beginning", "-o", "json", "--data", options.data])]
        for topic in ("balances", "rejected")
    ]
    wrong = differences(accounts, entries, *topics, count=options.postings, seed=options.seed)
    for sentence in wrong[:20]:
        print("WRONG", sentence)
    if wrong:
        sys.exit(f"{len(wrong)} differences")
    print(f"{options.postings:,} postings in, every one counted once: {len(accounts):,} accounts with {sum(accounts.values()) / 100:,.2f}, "
          f"{len(entries):,} entries and {len(topics[1]):,} rejected postings agree with an independent computation")


if __name__ == "__main__":
    main()
