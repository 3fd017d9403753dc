"""What must come out of the ledger program, computed from the input alone, and the comparison with what did come out."""

import hashlib


def expected_ledgers(events, skipped=frozenset()):
    """`events`: (key bytes, n) in production order per key. Returns ({key: ledger}, {n: ledger after n})."""
    ledgers, after = {}, {}
    for key, number in events:
        if number in skipped:
            continue
        seen, total, digest = ledgers.get(key, [0, 0, ""])
        ledgers[key] = [seen + 1, total + number, hashlib.sha256(f"{digest}:{number}".encode()).hexdigest()[:16]]
        after[number] = ledgers[key]
    return ledgers, after


def differences(expected, got, limit=5):
    """Human-readable differences of two dicts; empty when they are equal."""
    lines = []
    for key in expected:
        if key not in got:
            lines.append(f"missing {key!r}: expected {expected[key]!r}")
        elif got[key] != expected[key]:
            lines.append(f"{key!r}: expected {expected[key]!r}, got {got[key]!r}")
    lines += [f"unexpected {key!r}: {got[key]!r}" for key in got if key not in expected]
    more = len(lines) - limit
    return lines[:limit] + ([f"... and {more} more"] if more > 0 else [])


def check_exactly_once(events, state, changelog, outputs, skipped=frozenset()):
    """state == changelog replay == model; each event's output seen once, in order per key.

    `state`: {key: ledger}; `changelog`: [(key, ledger or None)] per partition in order, concatenated;
    `outputs`: [(key, {"n", "ledger"})] as a read_committed reader sees them, in order per partition.
    """
    ledgers, after = expected_ledgers(events, skipped)
    problems = [f"state: {line}" for line in differences(ledgers, state)]
    replayed = {}
    for key, ledger in changelog:
        if ledger is None:
            replayed.pop(key, None)
        else:
            replayed[key] = ledger
    problems += [f"changelog: {line}" for line in differences(ledgers, replayed)]
    seen = {}
    for _, value in outputs:
        seen[value["n"]] = seen.get(value["n"], 0) + 1
    doubled = sorted(n for n, times in seen.items() if times > 1)
    lost = sorted(n for n in after if n not in seen)
    extra = sorted(n for n in seen if n not in after)
    problems += [f"output seen {seen[n]} times: n={n}" for n in doubled[:5]]
    problems += [f"output lost: n={n}" for n in lost[:5]] + [f"output nobody wrote: n={n}" for n in extra[:5]]
    wrong = {v["n"]: v["ledger"] for _, v in outputs}
    problems += [f"output: {line}" for line in differences(after, wrong)] if not (lost or extra) else []
    order = {}
    for key, value in outputs:
        order.setdefault(key, []).append(value["ledger"][0])
    problems += [f"order of {key!r}: {counts[:10]}" for key, counts in order.items() if counts != sorted(counts)][:5]
    return problems
