"""Windows, sessions, timers and ttl, through the test kit: frames of the protocol and a virtual clock."""

import json
import pathlib

import pytest

import millstream
from millstream import messages
from millstream.batch import Batch
from millstream.context import Context
from millstream.errors import ConfigError
from millstream.schema import Schema
from millstream.state import MISSING
from millstream.testing import Fed, RecordFailed, TestKit
from millstream.timing import session_row, window_row

MINUTE = {"name": "minutes", "type": "Window", "window": {"size": "60s", "grace": "5s"}}
START = 1_700_000_040_000  # a multiple of a minute


def windowed(**window):
    return {**MINUTE, "window": {**MINUTE["window"], **window}}


def counting(is_async=False):
    app = millstream.App()
    if is_async:
        @app.on("in")
        async def count(ctx, record):
            for window in ctx.windows("minutes"):
                window.set(await window.get(default=0) + 1)
                ctx.emit("out", key=record.key, value=[window.start, await window.get()])
    else:
        @app.on("in")
        def count(ctx, record):
            for window in ctx.windows("minutes"):
                window.set(window.get(default=0) + 1)
                ctx.emit("out", key=record.key, value=[window.start, window.value])
    return app


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_tumbling_counts(is_async, prefetch):
    kit = TestKit(counting(is_async), stores=[MINUTE], outputs=["out"], prefetch=prefetch)
    kit.feed_batch([Fed("in", 1, "a", timestamp=START + t) for t in (0, 59_999, 60_000)] + [Fed("in", 1, "b", timestamp=START)])
    assert [o.value for o in kit.outputs("out") if o.key == "a"] == [[START, 1], [START, 2], [START + 60_000, 1]]
    assert kit.windows("minutes") == {
        ("a", START, START + 60_000): 2, ("a", START + 60_000, START + 120_000): 1, ("b", START, START + 60_000): 1}


def test_hopping_windows_overlap_and_negative_times_count():
    kit = TestKit(counting(), stores=[windowed(size="60s", advance="20s", grace="0s")], outputs=["out"])
    kit.feed("in", 1, key="a", timestamp=-1)
    assert sorted(start for _, start, _ in kit.windows("minutes")) == [-60_000, -40_000, -20_000]


def test_late_records_are_dropped_and_counted():
    kit = TestKit(counting(), stores=[MINUTE], outputs=["out"])
    kit.feed("in", 1, key="a", timestamp=START)
    kit.feed("in", 1, key="a", timestamp=START + 64_999)
    kit.feed("in", 1, key="a", timestamp=START + 1)  # within grace
    kit.feed_batch([Fed("in", 1, "b", timestamp=START + 65_000), Fed("in", 1, "a", timestamp=START + 2)])
    assert kit.late == 1
    assert [o.value for o in kit.outputs("out") if o.key == "a"] == [[START, 1], [START + 60_000, 1], [START, 2]]
    assert ("a", START, START + 60_000) not in kit.windows("minutes"), "retention is size and grace"


def test_late_records_come_with_process():
    app = millstream.App()
    seen = []

    @app.on("in")
    def take(ctx, record):
        seen.append((record.value, len(ctx.windows("minutes"))))

    manifest = {"kind": "StreamProcessor", "metadata": {"name": "p"}, "spec": {
        "inputs": [{"topic": "in"}], "stores": [MINUTE], "latePolicy": "Process"}}
    kit = TestKit(app, manifest)
    kit.feed("in", 1, key="a", timestamp=START + 600_000)
    kit.feed("in", 2, key="a", timestamp=START)
    assert seen == [(1, 1), (2, 0)]


def test_final_windows_come_once():
    app = millstream.App()

    @app.on("in")
    def count(ctx, record):
        for window in ctx.windows("minutes"):
            window.set(window.get(default=0) + 1)

    @app.on_close("minutes")
    def closed(ctx, window):
        ctx.emit("out", key=window.key, value=[window.start, window.value])

    kit = TestKit(app, stores=[windowed(emit="Final", retention="10m")], outputs=["out"])
    for time in (0, 10, 64_999):
        kit.feed("in", 1, key="a", timestamp=START + time)
    assert kit.outputs("out") == []
    kit.feed("in", 1, key="b", timestamp=START + 65_000)
    assert [(o.key, o.value, o.timestamp) for o in kit.take("out")] == [("a", [START, 2], START + 59_999)]
    kit.feed("in", 1, key="b", timestamp=START + 65_001)
    assert kit.take("out") == []
    assert kit.windows("minutes")[("a", START, START + 60_000)] == 2, "readable until its retention"


@pytest.mark.parametrize("is_async", [False, True])
def test_final_sessions_come_once(is_async):
    app = millstream.App()

    @app.on("in")
    def visit(ctx, record):
        session = ctx.session("visits")
        if session is not None and record.value != "quiet":
            session.set(sum(session.values()) + 1)

    def told(ctx, window, value):
        ctx.emit("out", key=window.key, value=[window.start - START, window.end - START, value])

    if is_async:

        @app.on_close("visits")
        async def closed(ctx, window):
            told(ctx, window, await window.get())
    else:

        @app.on_close("visits")
        def closed(ctx, window):
            told(ctx, window, window.value)

    kit = TestKit(app, outputs=["out"], stores=[
        {"name": "visits", "type": "Session", "session": {"gap": "10s", "grace": "5s", "retention": "1h", "emit": "Final"}}])

    def feed(time, key="a", value=1):
        kit.feed("in", value, key=key, timestamp=START + time)

    for time in (0, 10_000, 20_000, 12_000):
        feed(time)
    feed(35_000, "b", "quiet")
    assert kit.outputs("out") == []
    feed(35_001, "c")
    assert [(o.key, o.value, o.timestamp) for o in kit.take("out")] == [("a", [0, 20_000, 4], START + 20_000)]
    feed(30_000)  # would reach the session that was given
    assert kit.windows("visits")[("a", START, START + 20_000)] == 4, "and stays as it is until its retention"
    assert ("a", START + 30_000, START + 30_000) not in kit.windows("visits")
    feed(30_001)  # does not
    feed(60_000, "c")
    assert [(o.key, o.value) for o in kit.take("out")] == [
        ("a", [30_001, 30_001, 1]), ("b", [35_000, 35_000, None]), ("c", [35_001, 35_001, 1])]


def sessions(merge=None):
    app = millstream.App()
    if merge:
        app.store("visits", merge=merge)

    @app.on("in")
    def visit(ctx, record):
        session = ctx.session("visits")
        if record.value != "quiet":
            session.set(session.values() and sum(session.values()) + 1 or 1)

    return TestKit(app, stores=[{"name": "visits", "type": "Session", "session": {"gap": "10s", "retention": "1h", "grace": "1m"}}])


def test_sessions_grow_and_merge():
    kit = sessions()
    for time in (0, 10_000, 30_000, 20_001):
        kit.feed("in", 1, key="a", timestamp=START + time)
    assert kit.windows("visits") == {("a", START, START + 10_000): 2, ("a", START + 20_001, START + 30_000): 2}
    kit.feed_batch([Fed("in", 1, "a", timestamp=START + 15_000), Fed("in", 1, "a", timestamp=START + 40_000)])
    assert kit.windows("visits") == {("a", START, START + 40_000): 6}


def test_a_session_the_handler_does_not_write_keeps_its_value():
    kit = sessions(merge=lambda a, b: a + b)
    kit.feed("in", "quiet", key="a", timestamp=START)
    assert kit.windows("visits") == {("a", START, START): None}
    kit.feed("in", 1, key="a", timestamp=START + 5)
    kit.feed("in", 1, key="a", timestamp=START + 20_000)
    kit.feed("in", "quiet", key="a", timestamp=START + 10_004)
    assert kit.windows("visits") == {("a", START, START + 20_000): 2}


def test_sessions_with_values_and_no_way_to_merge_them():
    kit = sessions()
    kit.feed("in", 1, key="a", timestamp=START)
    kit.feed("in", 1, key="a", timestamp=START + 20_000)
    with pytest.raises(RecordFailed, match="merge"):
        kit.feed("in", "quiet", key="a", timestamp=START + 10_000)


def timers():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        what, *rest = record.value
        getattr(ctx.timers, what)(*rest[:1], **(rest[1] if len(rest) > 1 else {}))

    @app.on_timer("remind")
    def remind(ctx, timer):
        ctx.emit("out", key=timer.key, value=[timer.time, timer.clock])
        if timer.time == START + 7:
            ctx.timers.set("remind", at=START + 8)
            ctx.timers.cancel("remind", key="other")

    return app


def test_timers_are_set_moved_and_cancelled():
    kit = TestKit(timers(), outputs=["out"], timers=True)
    kit.feed("in", ["set", "remind", {"at": START + 1000}], key="a", timestamp=START)
    kit.feed("in", ["set", "remind", {"at": START + 2000}], key="a", timestamp=START)
    kit.feed("in", ["set", "remind", {"at": START + 1000}], key="b", timestamp=START)
    kit.feed("in", ["cancel", "remind"], key="b", timestamp=START)
    kit.feed("in", ["cancel", "remind"], key="c", timestamp=START + 1999)
    assert kit.outputs("out") == [] and kit.timers() == [("a", "remind", START + 2000)]
    kit.feed("in", ["cancel", "remind"], key="c", timestamp=START + 2000)
    assert [(o.key, o.value, o.timestamp) for o in kit.take("out")] == [("a", [START + 2000, "event"], START + 2000)]
    assert kit.timers() == []


def test_wall_clock_timers_and_timers_in_the_past():
    kit = TestKit(timers(), outputs=["out"], timers=True)
    kit.feed("in", ["set", "remind", {"at": kit.now + 5000, "clock": "wall"}], key="a")
    kit.advance(seconds=4)
    assert kit.take("out") == []
    kit.advance(seconds=1)
    assert len(kit.take("out")) == 1
    kit.feed("in", ["set", "remind", {"at": 0}], key="a")
    assert [o.value for o in kit.take("out")] == [[0, "event"]]
    kit.feed("in", ["set", "remind", {"at": START + 100 * 365 * 86_400_000}], key="a")
    assert kit.outputs("out") == []


def test_a_timer_set_anew_by_another_one_of_its_batch_is_passed_over():
    kit = TestKit(timers(), outputs=["out"], timers=True)
    kit.feed("in", ["set", "remind", {"at": START + 7}], key="a", timestamp=START)
    kit.feed("in", ["set", "remind", {"at": START + 9}], key="other", timestamp=START)
    kit.feed("in", ["cancel", "nothing"], key="a", timestamp=START + 10)
    assert [o.value[0] - START for o in kit.outputs("out")] == [7, 8]


def test_what_cannot_be_is_said():
    app = timers()
    with pytest.raises(ConfigError, match="timers: {}"):
        TestKit(app, outputs=["out"])
    kit = TestKit(app, outputs=["out"], timers=True)
    for value, error in (
        (["set", "remind", {"at": (1 << 63) - 1}], "outside"), (["set", "x" * 256, {"at": 1}], "255"),
        (["set", "remind", {"at": 1, "clock": "moon"}], "moon"), (["set", "remind", {"at": "soon"}], "milliseconds"),
    ):
        with pytest.raises(RecordFailed, match=error):
            kit.feed("in", value, key="a")
    with pytest.raises(RecordFailed, match="no key"):
        kit.feed("in", ["set", "remind", {"at": 1}])
    with pytest.raises(RecordFailed, match="nobody handles"):
        kit.feed("in", ["set", "unknown", {"at": 1}], key="a")
    with pytest.raises(ConfigError, match="on_close"):
        TestKit(counting(), stores=[windowed(emit="Final")], outputs=["out"])
    for window in ({"size": "0s"}, {"size": "-1s"}, {"advance": "2m"}):
        with pytest.raises(ConfigError):
            TestKit(counting(), stores=[windowed(**window)], outputs=["out"])


def test_a_failing_handler_leaves_no_timer():
    app = millstream.App()

    @app.on("in")
    def fail(ctx, record):
        ctx.timers.set("t", at=1)
        raise RuntimeError("no")

    kit = TestKit(app, timers=True, on_failure="skip")
    kit.feed("in", 1, key="a")
    assert kit.timers() == [] and len(kit.failures) == 1


def test_the_wrong_handle_names_the_right_one():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.state("minutes")

    kit = TestKit(app, stores=[MINUTE])
    with pytest.raises(RecordFailed, match=r"ctx.windows\('minutes'\)"):
        kit.feed("in", 1, key="a")


def test_ttl_hides_and_forgets_by_record_time():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.emit("out", value=ctx.state("seen").get())
        if record.value:
            ctx.state("seen").set(record.value)

    kit = TestKit(app, stores=[{"name": "seen", "ttl": "10s"}], outputs=["out"])
    kit.feed("in", "x", key="a", timestamp=START)
    kit.feed("in", "y", key="a", timestamp=START + 9_999)
    kit.feed("in", None, key="b", timestamp=START + 19_998)
    assert kit.state("seen")["a"] == "y"
    kit.feed("in", None, key="b", timestamp=START + 19_999)
    assert "a" not in kit.state("seen")
    kit.feed("in", "z", key="a", timestamp=START + 20_000)
    kit.feed("in", None, key="a", timestamp=START + 30_000)
    assert [o.value for o in kit.outputs("out")] == [None, "x", None, None, None, None], "its own record's time hides a key"


def test_ttl_hides_from_each_record_of_a_feed_by_its_own_time():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        ctx.emit("out", value=ctx.state("seen").get())
        ctx.state("seen").set(record.value)

    kit = TestKit(app, stores=[{"name": "seen", "ttl": "10s"}], outputs=["out"])
    kit.feed_batch([Fed("in", value, key="a", timestamp=START + at) for value, at in (("x", 0), ("y", 9_999), ("z", 19_999))])
    assert [o.value for o in kit.outputs("out")] == [None, "x", None]


FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "conformance" / "frames" / "time"
FRAMES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def golden_batch(name):
    """The BATCH of a golden frame, with the schema of the golden WELCOME."""
    app = counting()
    app.on_close("minutes")(lambda ctx, window: None)
    app.on_timer("remind")(lambda ctx, timer: None)
    welcome = messages.decode(bytes.fromhex(FRAMES["welcome"]["frame"])[4:])[1]
    welcome["inputs"] = [{"name": "in", "topic": "in"}]
    schema = Schema.from_welcome(welcome, app._declared)
    return Batch(messages.decode(bytes.fromhex(FRAMES[name]["frame"])[4:]), schema, None)


def test_golden_windows_and_sessions():
    batch = golden_batch("batch-windows")
    assert batch.watermark == 1_700_000_000_000
    ctx = Context(batch)
    ctx._key, ctx._key_index, ctx.record = b"k", 0, None
    assert [(w.start, w.end) for w in ctx.windows("minutes")] == [
        (1_699_999_990_000, 1_700_000_050_000), (1_700_000_000_000, 1_700_000_060_000)]
    known = [ctx.windows("minutes")[n]._store._known(ctx.windows("minutes")[n]._row, False) for n in (0, 1)]
    assert known == [b"7", None]
    session = ctx.session("visits")
    assert (session.start, session.end) == (-5, 1_700_000_000_000)
    assert [session._store._known(row, False) for row in session._parts] == [b"a", MISSING]
    ctx._index, ctx._sessions = 1, {}
    assert ctx.windows("minutes") == [] and ctx.session("visits") is None, "late"


def test_golden_timers_and_closings():
    batch = golden_batch("batch-timer")
    timers = [batch.due(None, item, batch.keys[item[4]]) for item in batch.items]
    assert [(t.name, t.clock, t.time, t.raw_key, t.attempt) for t in timers] == [
        ("remind", "event", 1_700_000_000_000, b"k", 1), ("", "wall", -1, b"\xff", 3)]
    batch = golden_batch("batch-closing")
    ctx = Context(batch)
    windows = [batch.due(ctx, item, batch.keys[item[4]]) for item in batch.items]
    assert [(w.start, w.end, w._store._known(w._row, False)) for w in windows] == [
        (0, 60_000, b"42"), (60_000, 120_000, MISSING)]


def test_golden_results():
    frame = messages.result_frame(1, 1, None, {}, [], [
        (b"k", 0, "remind", 1_700_000_000_000), (b"k", 0, "remind", -1), (b"\xff", 1, "", None)])
    encoder = messages.Encoder()
    payload = encoder.payload(frame)
    assert (encoder.prefix(payload) + payload).hex() == FRAMES["result-timers"]["frame"]
    frame = messages.result_frame(1, 1, None, {0: [(window_row(b"k", 1_700_000_000_000), b"8")]}, [])
    payload = encoder.payload(frame)
    assert (encoder.prefix(payload) + payload).hex() == FRAMES["result-row-keys"]["frame"]
    assert session_row(b"k", -5, 3) < session_row(b"k", 0, 1)
