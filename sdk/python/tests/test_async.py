"""Async handlers: concurrent for different keys, with the outcome of one after the other."""

import asyncio
import os
import random

import pytest

import millstream
from fake_sidecar import CANCEL, EXTEND, GET, NOT_PREFETCHED, RESULT, ROWS, SCAN, VALUES, records
from millstream.errors import BatchVoided
from millstream.testing import Fed, TestKit


def test_different_keys_run_together_and_effects_keep_item_order(serve):
    app = millstream.App()
    running, most = 0, 0

    @app.on("in")
    async def handle(ctx, record):
        nonlocal running, most
        running += 1
        most = max(most, running)
        n = await ctx.state("s").get(default=0)
        await asyncio.sleep(0.002 * (6 - record.value))
        ctx.state("s").set(n + 1)
        ctx.emit("out", key=record.key, value=[record.value, n])
        running -= 1

    result = serve(app).run(1, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"a", b"5"),
                            state={0: [b"10", None, None]})
    assert result[2:4] == [5, None]
    assert [row[2] for row in result[5]] == [b"[1,10]", b"[2,0]", b"[3,11]", b"[4,0]", b"[5,12]"]
    assert dict(map(tuple, result[4][0])) == {b"a": b"13", b"b": b"1", b"c": b"1"}
    assert most == 3


def test_records_without_key_run_together(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        arrived.append(record.value)
        if len(arrived) == 3:
            together.set()
        await asyncio.wait_for(together.wait(), 10)
        ctx.emit("out", value=record.value)

    arrived, together = [], asyncio.Event()
    result = serve(app).run(1, (None, b"1"), (None, b"2"), (None, b"3"), state={0: []})
    assert result[2:4] == [3, None] and [row[2] for row in result[5]] == [b"1", b"2", b"3"]


def test_the_first_failure_in_item_order_decides(serve):
    app = millstream.App()
    finished = []

    @app.on("in")
    async def handle(ctx, record):
        ctx.state("s").set(record.value)
        ctx.emit("out", value=record.value)
        await asyncio.sleep(0.01 * record.value)
        if record.value in (1, 3):
            raise ValueError(f"no {record.value}")
        finished.append(record.value)

    # item 1 (value 3) and item 3 (value 1) fail; item 3 first
    result = serve(app).run(1, (b"a", b"5"), (b"b", b"3"), (b"c", b"0"), (b"d", b"1"), (b"e", b"2"),
                            state={0: [None] * 5})
    assert result[2] == 1 and result[3]["message"].startswith("ValueError: no 3")
    assert result[4] == {0: [[b"a", b"5"]]} and [row[2] for row in result[5]] == [b"5"]


def test_another_key_is_a_barrier(serve):
    """Item 1 reads what item 0 writes late, and item 2 sees what item 1 wrote to its key, though it began before."""
    app = millstream.App()
    calls = []

    @app.on("in")
    async def handle(ctx, record):
        calls.append(record.value)
        state = ctx.state("s")
        if record.value == 1:
            await asyncio.sleep(0.02)
            state.set("zero was here")
        elif record.value == 2:
            await asyncio.sleep(0.005)
            ctx.emit("out", value=await state.get(key="a"))
            state.set("one was here", key="c")
        else:
            ctx.emit("out", value=await state.get())
            await asyncio.sleep(0.05)

    sidecar = serve(app)
    result = sidecar.run(1, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), state={0: [None, None, b'"old"']})
    assert result[2:4] == [3, None]
    assert [row[2] for row in result[5]] == [b'"zero was here"', b'"one was here"']
    assert dict(map(tuple, result[4][0])) == {b"a": b'"zero was here"', b"c": b'"one was here"'}
    assert calls == [1, 2, 3, 3]  # item 2 was begun again


def test_cancelled_calls_cannot_write_any_more(serve):
    app = millstream.App()
    stale = []

    @app.on("in")
    async def handle(ctx, record):
        state = ctx.state("s")
        if record.value == 1:
            await asyncio.sleep(0.005)
            await state.get(key="b")
        elif not stale:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                stale.append(1)
                with pytest.raises(BatchVoided):
                    state.set("stale")
                stale.append(2)
                with pytest.raises(BatchVoided):
                    ctx.emit("out", value="stale")
                stale.append(3)
        else:
            await asyncio.sleep(0.02)
            ctx.emit("out", value=await state.get(default="nothing"))

    result = serve(app).run(1, (b"a", b"1"), (b"b", b"2"), state={0: [None, None]})
    assert result[2:4] == [2, None] and stale == [1, 2, 3]
    assert result[4] == {} and [row[2] for row in result[5]] == [b'"nothing"']


def test_get_and_scan_are_awaited(serve):
    app = millstream.App()
    seen = []

    @app.on("in")
    async def handle(ctx, record):
        state = ctx.state("s")
        seen.append(await state.get(default="none"))
        state.set(record.value)
        seen.append([row async for row in state.scan()])
        seen.append(await state.get_many(["a", "x"]))

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")), state={0: [NOT_PREFETCHED]})
    get = sidecar.expect(GET)
    sidecar.send(VALUES, 1, get[2], [None])
    scan = sidecar.expect(SCAN)
    assert scan[9] == {0: [[b"a", b"1", 0]]}
    sidecar.send(ROWS, 1, scan[2], [[b"a", b"1"], [b"b", b"2"]], None)
    many = sidecar.expect(GET)
    assert many[4] == [b"x"]
    sidecar.send(VALUES, 1, many[2], [b"9"])
    assert sidecar.expect(RESULT)[2:4] == [1, None]
    assert seen == ["none", [("a", 1), ("b", 2)], [1, 9]]


def test_trace_runs_one_after_the_other(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        await asyncio.sleep(0.001)

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"b", b"1")), trace=True)
    assert [sidecar.receive() for _ in range(3)] == [[EXTEND, 1, 0], [EXTEND, 1, 1], [RESULT, 1, 2, None, {}, []]]


def test_cancel_stops_coroutines(serve):
    app = millstream.App()
    ended = []

    @app.on("in")
    async def handle(ctx, record):
        try:
            if record.value == 1:
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1"), (b"b", b"1")))
    sidecar.run(2, (b"a", b"2"), task=1)  # the other task is not held up
    sidecar.send(CANCEL, 1)
    assert sidecar.receive() == [RESULT, 1, 0, None, {}, []]
    assert ended == ["cancelled", "cancelled"]
    assert sidecar.run(3, (b"a", b"2"))[1:4] == [3, 1, None]


def test_cancel_right_behind_the_batch(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        await asyncio.sleep(30)

    sidecar = serve(app)
    for seq in range(1, 30):
        sidecar.batch(seq, *records((b"a", b"1")))
        sidecar.send(CANCEL, seq)
        assert sidecar.receive() == [RESULT, seq, 0, None, {}, []]


def test_plain_handlers_beside_async_ones_run_alone(serve):
    app = millstream.App()
    running = 0

    @app.on("slow")
    async def slow(ctx, record):
        nonlocal running
        running += 1
        await asyncio.sleep(0.005)
        ctx.state("s").set(await ctx.state("s").get(default=0) + 1)
        running -= 1

    @app.on("plain")
    def plain(ctx, record):
        ctx.emit("out", value=[running, ctx.state("s").get(key="a"), ctx.state("s").get(key="b")])

    result = serve(app, inputs=("slow", "plain")).run(
        1, (b"a", b"1"), (b"x", b"1", {"input": 1}), (b"b", b"1"), (b"x", b"1", {"input": 1}),
        state={0: [None, None, None]})
    assert result[2:4] == [4, None]
    assert [row[2] for row in result[5]] == [b"[0,1,null]", b"[0,1,1]"]


def test_a_handler_that_something_cancels_fails_its_item(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        raise asyncio.CancelledError

    failure = serve(app).run(1, (b"a", b"1"))[3]
    assert failure["class"] == "Handler" and "cancelled by something it awaited" in failure["message"]


def test_system_exit_in_a_coroutine_ends_the_program(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        raise SystemExit(3)

    sidecar = serve(app)
    sidecar.batch(1, *records((b"a", b"1")))
    assert sidecar.receive() is None
    sidecar.running.join()
    assert isinstance(sidecar.running.error, SystemExit) and sidecar.running.error.code == 3


def test_a_result_that_would_not_fit_is_cut(serve):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        ctx.state("s").set("x" * 20000)
        ctx.emit("out", key=record.key)

    result = serve(app, frame=128 << 10).run(1, *[(b"%d" % n, b"1") for n in range(10)], state={0: [None] * 10})
    assert result[2] == 5 and result[3] is None
    assert sorted(row[0] for row in result[4][0]) == [b"0", b"1", b"2", b"3", b"4"] and len(result[5]) == 5


KEYS = "abcdef"


def steps(rng):
    """A random little program for one record."""
    return [
        [rng.choice(["own", "own", "own", "read", "write", "delete", "scan", "sleep", "emit", "emit"]), rng.choice(KEYS)]
        for _ in range(rng.randrange(1, 5))
    ] + ([["fail", ""]] if rng.random() < 0.04 else [])


def plain_app():
    app = millstream.App()

    @app.on("in")
    def handle(ctx, record):
        state = ctx.state("s")
        for what, key in record.value["steps"]:
            if what == "own":
                state.set(state.get(default=0) * 3 + record.offset)
            elif what == "read":
                ctx.emit("out", value=state.get(key=key))
            elif what == "write":
                state.set(state.get(key=key, default=1) * 2, key=key)
            elif what == "delete":
                state.delete(key=key)
            elif what == "scan":
                ctx.emit("out", value=list(state.scan()))
            elif what == "emit":
                ctx.emit("out", key=record.key, value=state.get())
            elif what == "fail":
                raise ValueError(record.offset)
    return app


def async_app(rng):
    app = millstream.App()

    @app.on("in")
    async def handle(ctx, record):
        state = ctx.state("s")
        for what, key in record.value["steps"]:
            if what == "own":
                before = await state.get(default=0)
                await asyncio.sleep(rng.random() * 0.002)
                state.set(before * 3 + record.offset)
            elif what == "read":
                ctx.emit("out", value=await state.get(key=key))
            elif what == "write":
                state.set(await state.get(key=key, default=1) * 2, key=key)
            elif what == "delete":
                state.delete(key=key)
            elif what == "scan":
                ctx.emit("out", value=[row async for row in state.scan()])
            elif what == "emit":
                ctx.emit("out", key=record.key, value=await state.get())
            elif what == "sleep":
                await asyncio.sleep(rng.random() * 0.002)
            elif what == "fail":
                raise ValueError(record.offset)
    return app


@pytest.mark.parametrize("prefetch", [True, False])
def test_any_program_has_the_outcome_of_one_after_the_other(prefetch):
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print("SEED", seed)
    rng = random.Random(seed)
    for _ in range(25):
        names = dict(stores=["s"], outputs=["out"], on_failure="skip", prefetch=prefetch)
        plain, concurrent = TestKit(plain_app(), **names), TestKit(async_app(rng), **names)
        for _ in range(3):
            batch = [
                Fed("in", {"steps": steps(rng)}, key=rng.choice([*KEYS, *KEYS])) for _ in range(rng.randrange(1, 25))
            ]
            plain.feed_batch(batch)
            concurrent.feed_batch(batch)
            assert dict(plain.state("s")) == dict(concurrent.state("s"))
            assert plain.outputs("out") == concurrent.outputs("out")
            assert [f.offset for f in plain.failures] == [f.offset for f in concurrent.failures]
