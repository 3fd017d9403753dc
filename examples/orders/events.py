"""Order events, the same for the same seed: a made-up shop, for there is no public table of such events that one may ship.

    python events.py [--orders N] [--seed N]     prints JSON lines, events of many orders interleaved

About one event in twelve does not fit the state of its order: wrong sums, items that are not there, shipped before paid, events
for orders that do not exist, repeated creations.
"""

import argparse
import json
import random

SEED = 20010101
ORDERS = 20_000
START = 1_700_000_000_000
# So many orders are under way at the same time.
OPEN_AT_ONCE = 500
SKUS = {f"sku-{n:03}": 95 + n * 45 for n in range(200)}


def events(orders=ORDERS, seed=SEED):
    """Yields the events in order; `time` never goes back."""
    rng = random.Random(seed)
    under_way, begun, time, number = [], 0, START, 0
    while begun < orders or under_way:
        if begun < orders and (len(under_way) < OPEN_AT_ONCE and rng.random() < 0.5 or not under_way):
            under_way.append(one_order(rng, f"order-{begun:06}"))
            begun += 1
        at = rng.randrange(len(under_way))
        event = next(under_way[at], None)
        if event is None:
            under_way[at] = under_way[-1]
            under_way.pop()
            continue
        time += rng.randrange(0, 2000)
        yield {"event": number, "time": time, **event}
        number += 1


def one_order(rng, order):
    """The events of one order, mostly sensible."""
    if rng.random() < 0.02:
        yield {"order": order, "type": "shipped"}
    yield {"order": order, "type": "created", "customer": f"customer-{rng.randrange(5000):04}"}
    if rng.random() < 0.01:
        yield {"order": order, "type": "created", "customer": "somebody-else"}
    basket = {}
    for _ in range(rng.randrange(1, 7)):
        sku = rng.choice(list(SKUS))
        quantity = rng.choice([1, 1, 1, 2, 3, 0 if rng.random() < 0.2 else 5])
        cents = SKUS[sku] - rng.choice([0, 0, 10])
        yield {"order": order, "type": "item-added", "sku": sku, "quantity": quantity, "cents": cents}
        if quantity:
            basket[sku] = (basket.get(sku, (0, 0))[0] + quantity, cents)
        if basket and rng.random() < 0.15:
            gone = rng.choice(sorted(basket))
            del basket[gone]
            yield {"order": order, "type": "item-removed", "sku": gone}
        if rng.random() < 0.05:
            yield {"order": order, "type": "item-removed", "sku": "sku-999"}
    cents = sum(quantity * price for quantity, price in basket.values())
    if rng.random() < 0.1:
        yield {"order": order, "type": "cancelled"}
        if rng.random() < 0.5:
            yield {"order": order, "type": "paid", "cents": cents}
        return
    if rng.random() < 0.1:
        yield {"order": order, "type": "paid", "cents": cents + 1}
    yield {"order": order, "type": "paid", "cents": cents}
    if rng.random() < 0.05:
        yield {"order": order, "type": "item-added", "sku": "sku-001", "quantity": 1, "cents": 140}
    if rng.random() < 0.05:
        yield {"order": order, "type": "cancelled"}
    if rng.random() < 0.9:
        yield {"order": order, "type": "shipped"}
        if rng.random() < 0.05:
            yield {"order": order, "type": "cancelled"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    for event in events(options.orders, options.seed):
        print(json.dumps(event))


if __name__ == "__main__":
    main()
