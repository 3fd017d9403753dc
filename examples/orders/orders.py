"""Event sourcing: events are folded into one state per order; a projection and the illegal events go to topics."""

import millstream

app = millstream.App()


class Illegal(Exception):
    """The event does not fit the order as it stands."""


def created(order, event):
    if order is not None:
        raise Illegal("the order exists already")
    return {"status": "open", "customer": event["customer"], "items": {}, "cents": 0, "events": 0}


def item_added(order, event):
    demand(order, "open")
    sku, quantity = event["sku"], event["quantity"]
    if quantity <= 0:
        raise Illegal("the quantity is not positive")
    item = order["items"].setdefault(sku, {"quantity": 0, "cents": event["cents"]})
    item["quantity"] += quantity
    item["cents"] = event["cents"]  # the latest price holds for all of them
    return with_sum(order)


def item_removed(order, event):
    demand(order, "open")
    if event["sku"] not in order["items"]:
        raise Illegal("no such item in the order")
    del order["items"][event["sku"]]
    return with_sum(order)


def paid(order, event):
    demand(order, "open")
    if not order["items"]:
        raise Illegal("the order is empty")
    if event["cents"] != order["cents"]:
        raise Illegal(f"paid {event['cents']} cents, the order is over {order['cents']}")
    return {**order, "status": "paid"}


def shipped(order, event):
    demand(order, "paid")
    return {**order, "status": "shipped"}


def cancelled(order, event):
    demand(order, "open", "paid")
    return {**order, "status": "cancelled"}


def demand(order, *statuses):
    if order is None:
        raise Illegal("there is no such order")
    if order["status"] not in statuses:
        raise Illegal(f"the order is {order['status']}")


def with_sum(order):
    order["cents"] = sum(item["quantity"] * item["cents"] for item in order["items"].values())
    return order


FOLDS = {
    "created": created, "item-added": item_added, "item-removed": item_removed, "paid": paid, "shipped": shipped,
    "cancelled": cancelled,
}


@app.on("order-events")
def fold(ctx, record):
    event = record.value
    orders = ctx.state("orders")
    try:
        order = FOLDS[event["type"]](orders.get(), event)
    except Illegal as why:
        ctx.emit("rejected-events", key=record.key, value=event, headers={"reason": str(why)})
        return
    order["events"] += 1
    orders.set(order)
    status = None if order["status"] == "cancelled" else {
        "status": order["status"], "customer": order["customer"], "cents": order["cents"],
        "pieces": sum(item["quantity"] for item in order["items"].values()), "events": order["events"],
    }
    ctx.emit("order-status", key=record.key, value=status)


if __name__ == "__main__":
    app.run()
