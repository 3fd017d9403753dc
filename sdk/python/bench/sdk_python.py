"""Records per second of one worker process: counting per key, 500-record batches, against a fake sidecar that does nothing else.

    python bench/sdk_python.py [--seconds 5] [--handler count|emit|map] [--profile]

The fake sidecar is a process of its own that cycles through batches packed beforehand and keeps two in flight (tasks 0 and
1), so the figure is what the SDK can do where the sidecar is never the bottleneck.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import tempfile
import time

import msgpack

import millstream

RECORDS = 500
DISTINCT = 64
HELLO, WELCOME, OPEN, BATCH, RESULT, GOODBYE = 1, 2, 3, 5, 6, 23


def frame(*fields) -> bytes:
    payload = msgpack.packb(list(fields))
    return struct.pack(">I", len(payload)) + payload


def batch_tail(number: int) -> bytes:
    """The fields after seq and task, packed: 500 records of about 150 bytes, 500 distinct keys of 100,000."""
    keys = [b"key-%06d" % ((number * RECORDS + i) * 7919 % 100_000) for i in range(RECORDS)]
    value = b'{"amount":%d,"currency":"EUR","customer":"c-%06d","items":["apple","pear","plum"],"note":"a note of some length"}'
    items = [[0, 0, i, 1_700_000_000_000 + i, i, value % (i, i), None, 1] for i in range(RECORDS)]
    state = {0: [b"%d" % i for i in range(RECORDS)]}
    return b"".join(msgpack.packb(field) for field in (0, keys, items, state, None))


def serve(path: str, ready: int, report: int, seconds: float) -> None:
    """The fake sidecar, in a child process; writes records per second to `report`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    os.write(ready, b"x")
    tails = [batch_tail(n) for n in range(DISTINCT)]
    connection, _ = listener.accept()
    reader = connection.makefile("rb", buffering=1 << 20)

    def receive() -> bytes:
        return reader.read(struct.unpack(">I", reader.read(4))[0])

    def send_batch(seq: int, task: int) -> None:
        head = b"\x98" + msgpack.packb(BATCH) + msgpack.packb(seq) + msgpack.packb(task)
        tail = tails[seq % DISTINCT]
        connection.sendall(struct.pack(">I", len(head) + len(tail)) + head + tail)

    receive()
    connection.sendall(frame(WELCOME, {
        "protocol": 1, "session": 1, "processor": "bench", "inputs": [{"name": "in", "topic": "in"}],
        "outputs": [{"name": "out", "topic": "out", "max_bytes": 1 << 20}],
        "stores": [{"name": "s", "type": "KeyValue", "prefetched": True, "max_value_bytes": 1 << 20}],
        "joins": [], "lookups": [], "capabilities": [],
        "limits": {"frame": 16 << 20, "deadline_ms": 60_000, "min_timestamp": 0, "max_timestamp": 1 << 50},
    }))
    seq = 0
    for task in (0, 1):
        connection.sendall(frame(OPEN, task))
        send_batch(seq, task)
        seq += 1
    began = time.monotonic()
    done = 0
    while time.monotonic() - began < seconds:
        # RESULT: array, kind, seq, done; the head is enough to know which batch it answers.
        unpacker = msgpack.Unpacker()
        unpacker.feed(receive()[:64])
        unpacker.read_array_header()
        kind, answered, count = unpacker.unpack(), unpacker.unpack(), unpacker.unpack()
        assert kind == RESULT and count == RECORDS, (kind, count)
        done += count
        send_batch(seq, answered % 2)
        seq += 1
    os.write(report, b"%d" % (done / (time.monotonic() - began)))
    connection.sendall(frame(GOODBYE, "bench over"))


def make_app(handler: str) -> millstream.App:
    app = millstream.App()
    if handler == "count":
        @app.on("in")
        def count(ctx, record):
            totals = ctx.state("s")
            totals.set(totals.get(default=0) + 1)
    elif handler == "emit":
        @app.on("in")
        def count_and_emit(ctx, record):
            totals = ctx.state("s")
            spent = totals.get(default=0) + record.value["amount"]
            totals.set(spent)
            ctx.emit("out", key=record.key, value={"spent": spent})
    elif handler == "async":
        @app.on("in")
        async def count_async(ctx, record):
            totals = ctx.state("s")
            totals.set(await totals.get(default=0) + 1)
    else:
        @app.on("in")
        def map_value(ctx, record):
            ctx.emit("out", key=record.key, value=record.value)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--handler", choices=("count", "emit", "map", "async"), default="count")
    parser.add_argument("--profile", action="store_true", help="cProfile of the worker instead of a figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ms") as folder:
        path = os.path.join(folder, "w.sock")
        ready, report = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                serve(path, ready[1], report[1], options.seconds)
            finally:
                os._exit(0)
        os.read(ready[0], 1)
        run(make_app(options.handler), path, options.profile)
        os.waitpid(child, 0)
        print(f"handler={options.handler} records_per_second={os.read(report[0], 32).decode()} "
              f"python={sys.version.split()[0]} cpus={os.cpu_count()}")


def run(app: millstream.App, path: str, profile: bool) -> None:
    arguments = dict(socket_path=path, reconnect_timeout=0.0)
    if profile:
        import cProfile
        import pstats
        profiler = cProfile.Profile()
        profiler.enable()
    try:
        app.run(**arguments)
    except SystemExit:
        pass  # the fake sidecar is gone after its GOODBYE
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
