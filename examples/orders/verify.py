"""Compares what the processor did with a computation of its own; shares no code with it, and works the other way round.

    python verify.py [--data DIR] [--orders N] [--seed N]

The processor goes event by event and keeps a state. Here every order is taken whole: its list of events is sorted into a life
cycle with plain rules on positions in the list. Checked exactly: the final state of every order, the last status of every order,
how many statuses each order had, and which events were rejected. Exit code 0 only if all agree.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import events

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import answers  # noqa: E402


class History:
    """One order, from all of its events at once."""

    def __init__(self, happened):
        self.accepted, self.rejected = [], []
        birth = next((n for n, event in enumerate(happened) if event["type"] == "created"), len(happened))
        self.customer = happened[birth]["customer"] if birth < len(happened) else None
        phase = "none"
        for n, event in enumerate(happened):
            what = event["type"]
            if n == birth:
                phase, fits = "open", True
            elif phase == "open" and what == "item-added":
                fits = event["quantity"] > 0
            elif phase == "open" and what == "item-removed":
                fits = event["sku"] in self.basket()
            elif phase == "open" and what == "paid":
                fits = bool(self.basket()) and event["cents"] == self.cents()
                phase = "paid" if fits else phase
            elif what == "shipped":
                fits = phase == "paid"
                phase = "shipped" if fits else phase
            elif what == "cancelled":
                fits = phase in ("open", "paid")
                phase = "cancelled" if fits else phase
            else:
                fits = False
            (self.accepted if fits else self.rejected).append(event)
        self.phase = phase

    def basket(self):
        """sku -> [pieces, price], from the accepted events alone."""
        result = {}
        for event in self.accepted:
            if event["type"] == "item-removed":
                result.pop(event["sku"])
            elif event["type"] == "item-added":
                pieces = result.get(event["sku"], [0])[0]
                result[event["sku"]] = [pieces + event["quantity"], event["cents"]]
        return result

    def cents(self):
        return sum(pieces * price for pieces, price in self.basket().values())

    def state(self):
        return {
            "status": self.phase, "customer": self.customer, "cents": self.cents(), "events": len(self.accepted),
            "items": {sku: {"quantity": pieces, "cents": price} for sku, (pieces, price) in self.basket().items()},
        }

    def status(self):
        if self.phase == "cancelled":
            return None
        pieces = sum(pieces for pieces, _ in self.basket().values())
        return {"status": self.phase, "customer": self.customer, "cents": self.cents(), "pieces": pieces, "events": len(self.accepted)}


def expected(orders=events.ORDERS, seed=events.SEED):
    """order -> History"""
    happened = defaultdict(list)
    for event in events.events(orders, seed):
        happened[event["order"]].append(event)
    return {order: History(list_of) for order, list_of in happened.items()}


def differences(state, statuses, rejected, orders=events.ORDERS, seed=events.SEED):
    """Sentences about what is wrong. `state`: {order: value}; the others: (key, value) in topic order."""
    histories = expected(orders, seed)
    wrong = []
    got_statuses, got_rejected = defaultdict(list), defaultdict(list)
    for order, value in statuses:
        got_statuses[order].append(value)
    for order, value in rejected:
        got_rejected[order].append(value)
    for order in sorted(histories.keys() | state.keys() | got_statuses.keys() | got_rejected.keys()):
        history = histories.get(order)
        if history is None:
            wrong.append(f"{order}: there is no such order")
            continue
        want = history.state() if history.accepted else None
        if state.get(order) != want:
            wrong.append(f"{order}: state {state.get(order)}, computed {want}")
        seen = got_statuses[order]
        if len(seen) != len(history.accepted):
            wrong.append(f"{order}: {len(seen)} statuses, {len(history.accepted)} events that fit")
        elif seen and seen[-1] != history.status():
            wrong.append(f"{order}: last status {seen[-1]}, computed {history.status()}")
        elif [value["events"] for value in seen if value] != list(range(1, len(seen) + (history.phase != "cancelled"))):
            wrong.append(f"{order}: statuses are missing, doubled or out of order")
        if got_rejected[order] != history.rejected:
            wrong.append(f"{order}: {len(got_rejected[order])} rejected events, computed {len(history.rejected)}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=".millstream", help="folder of the embedded log (default .millstream)")
    parser.add_argument("--orders", type=int, default=events.ORDERS)
    parser.add_argument("--seed", type=int, default=events.SEED)
    options = parser.parse_args()
    state = answers.state("orders", options.data)
    topics = [
        answers.records(topic, options.data)
        for topic in ("order-status", "rejected-events")
    ]
    by_status = defaultdict(lambda: [0, 0])
    for order in state.values():
        by_status[order["status"]][0] += 1
        by_status[order["status"]][1] += order["cents"]
    print(f"{'status':<10} {'orders':>8} {'sum':>15}")
    for status, (count, cents) in sorted(by_status.items()):
        print(f"{status:<10} {count:>8,} {cents / 100:>15,.2f}")
    wrong = differences(state, *topics, orders=options.orders, seed=options.seed)
    answers.refuse(wrong)
    print(f"{len(topics[0]) + len(topics[1]):,} events in, every result counted once: {len(state):,} orders, {len(topics[0]):,} statuses and "
          f"{len(topics[1]):,} rejected events agree with an independent computation")


if __name__ == "__main__":
    main()
