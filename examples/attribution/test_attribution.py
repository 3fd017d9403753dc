"""The attribution example: the program without a sidecar, then the whole."""

import pytest

from millstream.testing import Fed, TestKit

T = 1_700_000_400_000  # the start of a window
MINUTE = 60_000


@pytest.fixture
def kit(attribution):
    return TestKit(attribution.module("attribution").app, attribution.folder / "processor.yaml")


def see(kit, at, ad="shoes", user="anna"):
    kit.feed("impressions", {"ad": ad}, key=user, timestamp=T + at)


def click(kit, at, name="c", user="anna"):
    kit.feed("clicks", {"click": name}, key=user, timestamp=T + at)


def pairs(kit):
    return [(o.key, o.value["click"], o.value["ad"], o.value["after"]) for o in kit.outputs("attributed")]


def test_within_ten_minutes_over_the_edge_of_a_window(kit):
    see(kit, 9 * MINUTE)
    see(kit, 10 * MINUTE, ad="hats")
    click(kit, 19 * MINUTE)
    click(kit, 19 * MINUTE + 1, name="late")
    click(kit, 9 * MINUTE, user="bob")
    assert pairs(kit) == [("anna", "c", "shoes", 10 * MINUTE), ("anna", "c", "hats", 9 * MINUTE), ("anna", "late", "hats", 9 * MINUTE + 1)]


def test_a_click_that_comes_first(kit):
    click(kit, 2 * MINUTE)
    see(kit, MINUTE)
    see(kit, 3 * MINUTE, ad="hats")  # was shown behind the click
    assert pairs(kit) == [("anna", "c", "shoes", MINUTE)]


def test_what_nobody_clicked_is_known_when_no_click_can_come_any_more(kit):
    see(kit, 0)
    see(kit, MINUTE, ad="hats", user="bob")
    click(kit, 2 * MINUTE)
    see(kit, 23 * MINUTE, user="carl")
    click(kit, 21 * MINUTE, user="carl")
    assert kit.outputs("unclicked") == []
    click(kit, 22 * MINUTE, user="carl")  # both sides are behind the window and its grace
    assert [(o.key, o.value["ad"]) for o in kit.outputs("unclicked")] == [("bob", "hats")]


def test_the_computations_agree_and_notice_a_slip(attribution, kit):
    happened = attribution.module("events").events(100)
    # Side by side, as they come from two topics: each stays in its order.
    both = sorted(((event["time"], kind, event) for kind in happened for event in happened[kind]), key=lambda row: row[0])
    queues = {kind: iter(happened[kind]) for kind in happened}
    fed = [Fed(kind, event, event["user"], timestamp=event["time"]) for _, kind, _ in both for event in [next(queues[kind])]]
    for at in range(0, len(fed), 100):
        kit.feed_batch(fed[at : at + 100])
    attributed, unclicked = ([(o.key, o.value) for o in kit.outputs(name)] for name in ("attributed", "unclicked"))
    differences = attribution.module("verify").differences
    assert differences(attributed, unclicked, users=100) == []
    assert len(attributed) > 300 and len(unclicked) > 100 and any(value["after"] == 10 * MINUTE for _, value in attributed)
    assert differences(attributed + attributed[:1], unclicked, users=100)
    assert differences(attributed[1:], unclicked, users=100)
    assert differences(attributed, unclicked[1:], users=100)


def test_all_events_through_a_run_with_kills(attribution, tmp_path):
    count = sum(len(of_kind) for of_kind in attribution.module("events").events().values())
    said = attribution.run_and_verify(tmp_path, "attribution.py", count, [], [])
    assert f"{count:,} records in" in said and "agree with an independent computation" in said
