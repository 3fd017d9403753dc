"""The orders example: the program without a sidecar, then the whole."""

import pytest

from millstream.testing import Fed, TestKit


@pytest.fixture
def kit(orders):
    return TestKit(orders.module("orders").app, orders.folder / "processor.yaml")


def feed(kit, *events):
    for event in events:
        kit.feed("order-events", event, key="o1")


CREATED = {"type": "created", "customer": "anna"}
TWO_APPLES = {"type": "item-added", "sku": "apple", "quantity": 2, "cents": 50}


def test_an_order_from_creation_to_shipping(kit):
    feed(kit, CREATED, TWO_APPLES, {"type": "paid", "cents": 100}, {"type": "shipped"})
    assert kit.state("orders")["o1"] == {
        "status": "shipped", "customer": "anna", "items": {"apple": {"quantity": 2, "cents": 50}}, "cents": 100, "events": 4,
    }
    assert [o.value["status"] for o in kit.outputs("order-status")] == ["open", "open", "paid", "shipped"]
    assert kit.outputs("rejected-events") == []


def test_a_cancelled_order_leaves_the_projection(kit):
    feed(kit, CREATED, {"type": "cancelled"}, {"type": "paid", "cents": 0})
    assert [o.value and o.value["status"] for o in kit.outputs("order-status")] == ["open", None]
    assert kit.outputs("rejected-events")[0].headers == [("reason", b"the order is cancelled")]


@pytest.mark.parametrize("before, event, reason", [
    ([], {"type": "shipped"}, "there is no such order"),
    ([CREATED], CREATED, "the order exists already"),
    ([CREATED], {"type": "paid", "cents": 0}, "the order is empty"),
    ([CREATED, TWO_APPLES], {"type": "paid", "cents": 99}, "paid 99 cents, the order is over 100"),
    ([CREATED, TWO_APPLES], {"type": "shipped"}, "the order is open"),
    ([CREATED], {"type": "item-removed", "sku": "pear"}, "no such item in the order"),
    ([CREATED], {**TWO_APPLES, "quantity": 0}, "the quantity is not positive"),
])
def test_events_that_do_not_fit_change_nothing(kit, before, event, reason):
    feed(kit, *before)
    state = dict(kit.state("orders"))
    feed(kit, event)
    assert dict(kit.state("orders")) == state
    (rejected,) = kit.outputs("rejected-events")
    assert rejected.value == event and rejected.headers == [("reason", reason.encode())]


def test_an_unknown_type_is_a_failure(kit):
    with pytest.raises(Exception, match="KeyError: 'exploded'"):
        feed(kit, {"type": "exploded"})


def test_the_computations_agree_and_notice_a_slip(orders, kit):
    events = list(orders.module("events").events(1000))
    for at in range(0, len(events), 500):
        kit.feed_batch([Fed("order-events", event, event["order"]) for event in events[at : at + 500]])
    state = dict(kit.state("orders"))
    statuses, rejected = ([(o.key, o.value) for o in kit.outputs(n)] for n in ("order-status", "rejected-events"))
    differences = orders.module("verify").differences
    assert differences(state, statuses, rejected, orders=1000) == []
    assert len(rejected) > 100
    assert differences(state, statuses + statuses[-1:], rejected, orders=1000)
    assert differences(state, statuses[1:], rejected, orders=1000)
    assert differences(state, statuses, rejected[1:], orders=1000)
    order = next(iter(state))
    assert order in differences({**state, order: {**state[order], "cents": 1}}, statuses, rejected, orders=1000)[0]


def test_the_events_are_the_same_for_the_same_seed(orders):
    events = orders.module("events").events
    assert list(events(50)) == list(events(50)) != list(events(50, seed=1))
    times = [event["time"] for event in events(50)]
    assert times == sorted(times)


def test_all_events_through_a_run_with_kills(orders, tmp_path):
    count = sum(1 for _ in orders.module("events").events())
    said = orders.run_and_verify(tmp_path, "orders.py", count, [], [])
    assert f"{count:,} events in, every result counted once" in said
