"""Visits, through the test kit: frames of the protocol, as a sidecar would send them."""

import json
import pathlib

import pytest

import millstream
from millstream import messages
from millstream.batch import Batch
from millstream.context import Context
from millstream.errors import ConfigError, ProtocolError, UndeclaredError
from millstream.schema import Schema
from millstream.state import MISSING
from millstream.testing import Fed, RecordFailed, TestKit

START = 1_700_000_000_000


def walking(is_async=False):
    """Commands start and stop the visit `walk` of the store `accounts`; the rows tell which they are."""
    app = millstream.App()

    def command(ctx, record):
        what, *data = record.value if isinstance(record.value, list) else [record.value]
        if what == "set":
            ctx.state("accounts").set(data[0])
        elif what == "fail":
            ctx.visits.start("walk")
            raise ValueError("no")
        else:
            getattr(ctx.visits, what)("walk", *data)

    if is_async:
        @app.on("in")
        async def handle(ctx, record):
            command(ctx, record)

        @app.on_visit("walk")
        async def visit(ctx, row):
            value = await row.value()
            ctx.emit("out", key=row.key, value=[value, row.data])
            if value == "delete next":
                ctx.state("accounts").delete(key=chr(ord(row.key) + 1))
            elif value == "pause":
                ctx.visits.pause("walk")
            elif value == "bad":
                raise ValueError("bad")
            else:
                row.set(f"{value}+")

        @app.on_visit_end("walk")
        async def end(ctx, end):
            ctx.emit("out", value=[end.visit, end.data])
    else:
        app.on("in")(command)

        @app.on_visit("walk")
        def visit(ctx, row):
            ctx.emit("out", key=row.key, value=[row.value, row.data])
            if row.value == "delete next":
                ctx.state("accounts").delete(key=chr(ord(row.key) + 1))
            elif row.value == "pause":
                ctx.visits.pause("walk")
            elif row.value == "bad":
                raise ValueError("bad")
            else:
                row.set(f"{row.value}+")

        @app.on_visit_end("walk")
        def end(ctx, end):
            ctx.emit("out", value=[end.visit, end.data])
    return app


def kit_of(is_async=False, **more):
    kit = TestKit(walking(is_async), stores=["other", "accounts"], outputs=["out"], visits={"walk": "accounts"}, **more)
    for key in "bca":
        kit.state("accounts")[key] = key.upper()
    return kit


def told(kit):
    return [(o.key, o.value) for o in kit.take("out")]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_all_rows_come_in_order_and_then_the_end(is_async, prefetch):
    kit = kit_of(is_async, prefetch=prefetch)
    kit.feed("in", ["start", {"percent": 2}], key="k", timestamp=START)
    outputs = kit.outputs("out")
    assert [(o.key, o.value) for o in outputs] == [
        ("a", ["A", {"percent": 2}]), ("b", ["B", {"percent": 2}]), ("c", ["C", {"percent": 2}]), (None, ["walk", {"percent": 2}])]
    assert {o.timestamp for o in outputs} == {START}, "the time of the record that started it"
    assert dict(kit.state("accounts")) == {"a": "A+", "b": "B+", "c": "C+"}
    assert kit.visits() == []


@pytest.mark.parametrize("is_async", [False, True])
def test_more_rows_than_a_batch(is_async):
    kit = kit_of(is_async)
    for number in range(250):
        kit.state("accounts")[f"n{number:03}"] = number
    kit.visit("walk")
    keys = [key for key, _ in told(kit)]
    assert keys == ["a", "b", "c", *(f"n{number:03}" for number in range(250)), None]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_row_that_is_gone_is_not_visited(is_async, prefetch):
    kit = kit_of(is_async, prefetch=prefetch)
    kit.state("accounts")["a"] = "delete next"
    kit.visit("walk")
    assert told(kit) == [("a", ["delete next", None]), ("c", ["C", None]), (None, ["walk", None])]


@pytest.mark.parametrize("is_async", [False, True])
def test_paused_it_goes_on_where_it_was(is_async):
    kit = kit_of(is_async)
    kit.state("accounts")["b"] = "pause"
    kit.visit("walk", data=1)
    assert told(kit) == [("a", ["A", 1]), ("b", ["pause", 1])], "the batch ended behind the row that paused it"
    assert kit.visits() == ["walk"]
    kit.feed("in", ["set", "D"], key="d")
    assert told(kit) == []
    kit.feed("in", "resume")
    assert told(kit) == [("c", ["C", 1]), ("d", ["D", 1]), (None, ["walk", 1])]


def test_stopped_it_is_gone_and_started_again_it_begins_anew():
    kit = kit_of()
    kit.state("accounts")["b"] = "pause"
    kit.visit("walk")
    kit.feed("in", "stop")
    assert kit.visits() == []
    kit.feed("in", "resume")
    assert told(kit) == [("a", ["A", None]), ("b", ["pause", None])]
    kit.visit("walk", data="again")
    assert told(kit) == [("a", ["A+", "again"]), ("b", ["pause", "again"])]
    kit.feed("in", ["start", "anew"])
    assert told(kit) == [("a", ["A++", "anew"]), ("b", ["pause", "anew"])]


@pytest.mark.parametrize("is_async", [False, True])
def test_it_counts_from_the_record_that_started_it_on(is_async):
    kit = kit_of(is_async)
    kit.feed_batch([Fed("in", ["set", "D"], "d"), Fed("in", ["start", 1], "k"), Fed("in", ["set", "E"], "e")])
    assert [key for key, _ in told(kit)] == ["a", "b", "c", "d", None], "the last record came after it, and in a batch of its own"
    assert kit.state("accounts")["e"] == "E"


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_failing_handler_starts_does_not_start(is_async):
    kit = kit_of(is_async, on_failure="skip")
    kit.feed_batch([Fed("in", "fail", "k"), Fed("in", ["set", "D"], "d")])
    assert told(kit) == [] and kit.visits() == []
    assert kit.state("accounts")["d"] == "D"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_row_that_fails_is_passed_over(is_async):
    kit = kit_of(is_async, on_failure="skip")
    kit.state("accounts")["b"] = "bad"
    kit.visit("walk")
    assert [key for key, _ in told(kit)] == ["a", "c", None]
    assert [(f.input, f.error) for f in kit.failures] == [("walk", "ValueError")]
    kit = kit_of(is_async)
    kit.state("accounts")["b"] = "bad"
    with pytest.raises(RecordFailed, match="walk"):
        kit.visit("walk")


def test_without_a_handler_for_its_end():
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    app.on_visit("walk")(lambda ctx, row: row.delete())
    kit = TestKit(app, manifest={
        "kind": "StreamProcessor", "metadata": {"name": "p"},
        "spec": {"inputs": [{"topic": "in"}], "stores": [{"name": "s"}], "visits": [{"name": "walk", "store": "s"}]}})
    kit.state("s")["a"] = 1
    kit.visit("walk")
    assert dict(kit.state("s")) == {} and kit.visits() == []


def test_the_end_has_no_key():
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    app.on_visit("walk")(lambda ctx, row: None)
    app.on_visit_end("walk")(lambda ctx, end: ctx.state("s").set(1))
    kit = TestKit(app, stores=["s"], visits={"walk": "s"})
    with pytest.raises(RecordFailed, match="has no key"):
        kit.visit("walk")


def test_program_and_manifest_must_fit():
    with pytest.raises(ConfigError, match='on_visit\\("walk"\\): no such visit'):
        TestKit(walking(), stores=["accounts"], outputs=["out"])
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.visits.start("wlak"))
    with pytest.raises(ConfigError, match="visit 'walk', for which the program has no handler"):
        TestKit(app, stores=["s"], visits={"walk": "s"})
    app.on_visit("walk")(lambda ctx, row: None)
    with pytest.raises(ConfigError, match="twice"):
        app.on_visit("walk")(lambda ctx, row: None)
    kit = TestKit(app, stores=["s"], visits={"walk": "s"})
    with pytest.raises(RecordFailed, match="did you mean 'walk'") as failed:
        kit.feed("in", 1)
    assert isinstance(failed.value.__cause__, UndeclaredError)
    with pytest.raises(KeyError, match="no visit 'other'"):
        kit.visit("other")


def test_data_has_a_limit():
    kit = kit_of()
    kit.feed("in", ["start", "d" * 4094])
    with pytest.raises(RecordFailed, match="the limit is 4096"):
        kit.feed("in", ["start", "d" * 4095])


def test_capability_only_with_handlers():
    assert walking()._declared.capabilities == ["visits"]
    assert millstream.App()._declared.capabilities == []


FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "conformance" / "frames" / "visits"
FRAMES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def payload_of(name):
    return bytes.fromhex(FRAMES[name]["frame"])[4:]


def golden_batch(name):
    app = millstream.App()
    app.on("in")(lambda ctx, record: None)
    for visit in ("interest", "audit"):
        app.on_visit(visit)(lambda ctx, row: None)
    welcome = messages.decode(payload_of("welcome"))[1]
    welcome["inputs"] = [{"name": "in", "topic": "in"}]
    return Batch(messages.decode(payload_of(name)), Schema.from_welcome(welcome, app._declared), None)


def test_golden_rows():
    batch = golden_batch("batch-rows")
    ctx = Context(batch)
    rows = [batch.due(ctx, item, batch.keys[item[4]]) for item in batch.items[:2]]
    assert [(r.visit, r.store, r.raw_key, r.data, r.time, r.attempt) for r in rows] == [
        ("interest", "accounts", b"a", 2, 1_700_000_000_000, 1), ("interest", "accounts", b"\xff", 2, 1_700_000_000_000, 1)]
    known = []
    for index, row in enumerate(rows):
        ctx._key, ctx._key_index = batch.keys[index], index
        known.append(row._store._known(row.raw_key, True))
    assert known == [b"5", MISSING]
    batch = golden_batch("batch-end")
    end = batch.due(Context(batch), batch.items[0], None)
    assert (end.visit, end.data, end.time, end.attempt) == ("audit", None, -1, 2)
    with pytest.raises(ProtocolError, match="names key 1"):
        golden_batch("refused-key-index")


def test_golden_results():
    encoder = messages.Encoder()
    ops = [(0, 0, None), (0, 0, b""), (1, 0, b"\xff\x00"), (1, 1, None), (0, 2, None), (300, 3, None)]
    assert encoder.payload(messages.result_frame(1, 1, None, {}, [], [], ops)) == payload_of("result")
    assert encoder.payload(messages.result_frame(1, 1, None, {}, [], [(b"k", 0, "t", 1)], [(0, 1, None)])) == payload_of("result-with-timer")
