"""Frames that no sidecar should send. Each ends the connection with ERROR, and the worker comes back."""

import os
import random
import struct

import msgpack
import pytest

import millstream
from conftest import Running
from fake_sidecar import BATCH, CANCEL, ERROR, GET, GOODBYE, HELLO, RESULT, ROWS, SCAN, VALUES, WELCOME, records


def frame(*fields):
    payload = msgpack.packb(list(fields))
    return struct.pack(">I", len(payload)) + payload


GOOD_ITEM = [0, 0, 0, 5, 0, b"1", None, 1]
WRONG = {
    "oversized length": struct.pack(">I", 1 << 31),
    "just over the cap": struct.pack(">I", (16 << 20) + 1),
    "empty": struct.pack(">I", 0),
    "not msgpack": struct.pack(">I", 3) + b"\xc1\xc1\xc1",
    "trailing bytes": struct.pack(">I", 3) + b"\x91\x14\x01",
    "no array": frame() [:0] + struct.pack(">I", 1) + b"\x05",
    "empty array": struct.pack(">I", 1) + b"\x90",
    "kind is text": frame("BATCH"),
    "unknown kind": frame(99, 1),
    "reserved kind": frame(13, 1, 0),
    "a worker's kind": frame(RESULT, 1, 0, None, {}, []),
    "batch without fields": frame(BATCH, 1),
    "batch with numbers for lists": frame(BATCH, 1, 0, 0, 5, 5, 5, None),
    "item is a number": frame(BATCH, 1, 0, 0, [b"k"], [5], {}, None),
    "item too short": frame(BATCH, 1, 0, 0, [b"k"], [[0, 0, 0]], {}, None),
    "timer item": frame(BATCH, 1, 0, 0, [b"k"], [[1, 0, "event", "t", 5]], {}, None),
    "unknown input": frame(BATCH, 1, 0, 0, [b"k"], [[0, 7, 0, 5, 0, b"1", None, 1]], {}, None),
    "negative input": frame(BATCH, 1, 0, 0, [b"k"], [[0, -1, 0, 5, 0, b"1", None, 1]], {}, None),
    "key beyond keys": frame(BATCH, 1, 0, 0, [b"k"], [[0, 0, 0, 5, 1, b"1", None, 1]], {}, None),
    "unknown store": frame(BATCH, 1, 0, 0, [b"k"], [GOOD_ITEM], {9: [None]}, None),
    "state not aligned": frame(BATCH, 1, 0, 0, [b"k"], [GOOD_ITEM], {0: [None, None]}, None),
    "seq is text": frame(BATCH, "1", 0, 0, [b"k"], [GOOD_ITEM], {}, None),
    "task is nil": frame(BATCH, 1, None, 0, [b"k"], [GOOD_ITEM], {}, None),
    "flags are text": frame(BATCH, 1, 0, "trace", [b"k"], [GOOD_ITEM], {}, None),
    "value is a number": frame(BATCH, 1, 0, 0, [b"k"], [[0, 0, 0, 5, 0, 5, None, 1]], {}, None),
    "state is a number": frame(BATCH, 1, 0, 0, [b"k"], [GOOD_ITEM], {0: [5]}, None),
    "unknown extension": frame(BATCH, 1, 0, 0, [b"k"], [GOOD_ITEM], {0: [msgpack.ExtType(9, b"")]}, None),
    "key is a number": frame(BATCH, 1, 0, 0, [5], [GOOD_ITEM], {}, None),
    "second welcome": frame(WELCOME, {}),
    "deep nesting": struct.pack(">I", 5000) + b"\x91" * 4999 + b"\x90",
}


def counting_app():
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").set(1))
    return app


@pytest.mark.parametrize("what", WRONG)
def test_wrong_frames(sidecar, what):
    running = Running(counting_app(), sidecar)
    first = sidecar.accept()
    first.handshake()
    first.raw(WRONG[what])
    error = first.expect(ERROR)
    assert error[1] in ("BadFrame", "FrameTooLarge") and len(error[2]) < 4096
    assert first.receive() is None
    second = sidecar.accept()
    second.handshake()
    assert second.run(1, (b"a", b"1"))[1:4] == [1, 1, None]
    running.worker.stop()
    second.send(GOODBYE, "")
    running.join()
    assert running.error is None


def test_cut_off_frames(sidecar):
    running = Running(counting_app(), sidecar)
    whole = frame(BATCH, 1, 0, 0, [b"k"], [GOOD_ITEM], {}, None)
    for cut in (1, 3, 4, 5, len(whole) - 1):
        connection = sidecar.accept()
        connection.handshake()
        connection.raw(whole[:cut])
        connection.close()
    last = sidecar.accept()
    last.handshake()
    assert last.run(1, (b"a", b"1"))[1:4] == [1, 1, None]
    running.worker.stop()
    last.send(GOODBYE, "")
    running.join()


@pytest.mark.parametrize("send", [
    lambda c: (c.batch(1, *records((b"a", b"1"))), c.batch(1, *records((b"a", b"1")), task=1)),  # one seq twice
    lambda c: (c.batch(1, *records((b"a", b"1"))), c.batch(2, *records((b"a", b"1")))),  # one task twice
    lambda c: [c.batch(n, *records((b"a", b"1")), task=n) for n in range(3)],  # more than `parallel`
])
def test_batches_out_of_order(sidecar, send):
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").get(key="x"))
    running = Running(app, sidecar)
    connection = sidecar.accept()
    connection.handshake()
    send(connection)
    frames = []
    while (got := connection.receive()) is not None:
        frames.append(got)
    assert frames[-1][:2] == [ERROR, "BadFrame"]
    assert not [f for f in frames if f[0] == RESULT]
    running.worker.stop()


@pytest.mark.parametrize("answer", [
    lambda c, rid: c.send(VALUES, 1, rid, [None, None]),
    lambda c, rid: c.send(VALUES, 1, rid, 5),
    lambda c, rid: c.send(ROWS, 1, rid, [], None),
])
def test_wrong_answers_to_get(sidecar, answer):
    app = millstream.App()
    app.on("in")(lambda ctx, record: ctx.state("s").get(key="x"))
    running = Running(app, sidecar)
    connection = sidecar.accept()
    connection.handshake()
    connection.batch(1, *records((b"a", b"1")))
    answer(connection, connection.expect(GET)[2])
    assert connection.expect(ERROR)[1] == "BadFrame"
    sidecar.accept().handshake()
    running.worker.stop()


def test_unknown_rid_and_unknown_cancel_are_ignored(serve):
    sidecar = serve(counting_app())
    sidecar.send(VALUES, 5, 77, [b"x"])
    sidecar.send(CANCEL, 1234)
    assert sidecar.run(1, (b"a", b"1"))[1:4] == [1, 1, None]


def test_random_frames(sidecar, monkeypatch):
    monkeypatch.setattr("millstream.worker._LONGEST_BACKOFF", 0.02)
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print("SEED", seed)
    rng = random.Random(seed)
    running = Running(counting_app(), sidecar)
    whole = frame(BATCH, 1, 0, 0, [b"k", b"l"], [GOOD_ITEM, GOOD_ITEM], {0: [b"1", None]}, None)
    for _ in range(60):
        connection = sidecar.accept()
        connection.handshake()
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        connection.raw(bytes(data) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 200)))
        connection.close()
    last = sidecar.accept()
    last.handshake()
    assert last.run(1, (b"a", b"1"))[1:4] == [1, 1, None]
    assert running.error is None
    running.worker.stop()
    last.send(GOODBYE, "")
    running.join()


def test_the_announced_frame_cap_holds_both_ways(sidecar):
    app = millstream.App()
    app.on("in")(lambda ctx, record: list(ctx.state("s").scan(prefix="k" * 70_000)))
    running = Running(app, sidecar)
    connection = sidecar.accept()
    connection.handshake(frame=64 << 10)
    failure = connection.run(1, (b"a", b"1"))[3]
    assert failure["class"] == "Output" and "frame cap of 65536" in failure["message"]
    connection.raw(struct.pack(">I", (64 << 10) + 1))
    assert connection.expect(ERROR)[1] == "FrameTooLarge"
    running.worker.stop()
