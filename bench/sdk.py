#!/usr/bin/env python3
"""The SDKs alone: one worker process each, counting per key, against an echo sidecar that does nothing else.

    bench/sdk.py [--seconds 5] [--only go,cpp] [--rounds 3]

Batches of 500 records of 150 bytes with distinct keys and their prefetched counts are packed beforehand; two are in flight
(two tasks). Every handler reads the count, adds one, writes it and emits it. Figures: records per second, and the worker's
processor time per record (/proc), which other load on the machine hardly changes; both also as a ratio to C++ of the same
round. The best of the rounds counts.
"""

import argparse
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

import msgpack

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
RECORDS, DISTINCT, KEYS, TASKS = 500, 64, 100_000, 2
WELCOME, OPEN, BATCH, RESULT, EXTEND, GOODBYE = 2, 3, 5, 6, 12, 23
TICK = os.sysconf("SC_CLK_TCK")

BUILD = """
set -euo pipefail
. tools/dev/lib.sh; . tools/dev/packages.sh; . tools/dev/go.sh; . tools/dev/node.sh; . tools/dev/rust.sh; . tools/dev/java.sh
use_go; (cd sdk/go && go build -o "$1/go" ./examples/wordcount)
use_typescript "$1/typescript"
use_rust; (cd sdk/rust && cargo build --quiet --locked --release --example wordcount && cp "$CARGO_TARGET_DIR/release/examples/wordcount" "$1/rust")
use_java "$1/java" process-test-classes
"""


def java_classpath(target):
    return f"{target}/classes:{target}/test-classes:{(target / 'classpath').read_text()}"


def workers(folder):
    return {
        "cpp": [BIN / "counting_worker", "--input=words", "--store=counts", "--output=word-counts", "--format=binary", "--parallel=2"],
        "rust": [folder / "rust"],
        "go": [folder / "go"],
        "java": ["java", "-cp", java_classpath(folder / "java/sdk/target"), "WordCount"],
        "typescript": ["node", folder / "typescript/dist/fixtures/wordcount.js"],
        "python": [sys.executable, ROOT / "sdk/python/bench/wordcount.py"],
    }


def frame(*fields):
    payload = msgpack.packb(list(fields))
    return struct.pack(">I", len(payload)) + payload


def batch_tail(number):
    """The fields after seq and task."""
    keys = [b"key-%06d" % ((number * RECORDS + i) * 7919 % KEYS) for i in range(RECORDS)]
    value = b'{"amount":%d,"currency":"EUR","customer":"c-%06d","items":["apple","pear","plum"],"note":"a note of some length"}'
    items = [[0, 0, i, 1_700_000_000_000 + i, i, value % (i, i), None, 1] for i in range(RECORDS)]
    state = {0: [struct.pack(">q", i) for i in range(RECORDS)]}
    return b"".join(msgpack.packb(field) for field in (0, keys, items, state, None))


def ports(names, **more):
    return [{"name": name, "topic": name, **more} for name in names]


WELCOME_FRAME = frame(WELCOME, {
    "protocol": 1, "session": 1, "processor": "bench", "inputs": ports(["words"]), "outputs": ports(["word-counts"], max_bytes=1 << 20),
    "stores": ports(["counts"], type="KeyValue", prefetched=True, max_value_bytes=1 << 20), "joins": [], "lookups": [], "capabilities": [],
    "limits": {"frame": 16 << 20, "deadline_ms": 60_000, "min_timestamp": 0, "max_timestamp": 1 << 50},
})


class Echo:
    """The sidecar's end of one worker."""

    def __init__(self, connection, tails):
        self.connection, self.tails = connection, tails
        self.reader = connection.makefile("rb", buffering=1 << 20)
        self.seq, self.done = 0, 0
        self.tasks = {}
        self.receive()
        connection.sendall(WELCOME_FRAME)
        for task in range(TASKS):
            connection.sendall(frame(OPEN, task))
            self.send(task)

    def receive(self):
        return self.reader.read(struct.unpack(">I", self.reader.read(4))[0])

    def send(self, task):
        head = b"\x98" + msgpack.packb(BATCH) + msgpack.packb(self.seq) + msgpack.packb(task)
        tail = self.tails[self.seq % DISTINCT]
        self.tasks[self.seq] = task
        self.seq += 1
        self.connection.sendall(struct.pack(">I", len(head) + len(tail)) + head + tail)

    def serve(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # RESULT: array, kind, seq, done; the head is enough to know which batch it answers.
            head = msgpack.Unpacker()
            head.feed(self.receive()[:32])
            head.read_array_header()
            kind, seq, done = head.unpack(), head.unpack(), head.unpack()
            if kind == EXTEND:
                continue  # it is alive
            if kind != RESULT or done != RECORDS:
                raise SystemExit(f"a frame of kind {kind}, done {done}")
            self.done += done
            self.send(self.tasks.pop(seq))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def measure(command, tails, seconds):
    """(records per second, microseconds of processor time per record)"""
    folder = tempfile.mkdtemp(prefix="ms")
    path = os.path.join(folder, "w.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(30)
        worker = subprocess.Popen([str(part) for part in command], env={**os.environ, "MILLSTREAM_SOCKET": path}, stderr=subprocess.DEVNULL)
        try:
            echo = Echo(listener.accept()[0], tails)
            echo.serve(1.0)  # warm: compilers at run time, caches
            began, busy, done = time.monotonic(), cpu_seconds(worker.pid), echo.done
            echo.serve(seconds)
            records = echo.done - done
            return records / (time.monotonic() - began), (cpu_seconds(worker.pid) - busy) / records * 1e6
        finally:
            worker.kill()
            worker.wait()
            shutil.rmtree(folder)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", default="")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench") as scratch:
        subprocess.run(["bash", "-c", BUILD, "build", scratch], cwd=ROOT, env={**os.environ, "ROOT": str(ROOT)}, check=True)
        chosen = {name: command for name, command in workers(pathlib.Path(scratch)).items() if not options.only or name in options.only.split(",")}
        tails = [batch_tail(number) for number in range(DISTINCT)]
        best = {}
        for _ in range(options.rounds):
            for name, command in chosen.items():
                rate, cost = measure(command, tails, options.seconds)
                old_rate, old_cost = best.get(name, (0.0, float("inf")))
                best[name] = (max(rate, old_rate), min(cost, old_cost))
    base_rate, base_cost = best.get("cpp", (float("nan"), float("nan")))
    print(f"{'SDK':12} {'records/s':>12} {'to C++':>8} {'us CPU/record':>14} {'to C++':>8}")
    for name, (rate, cost) in best.items():
        print(f"{name:12} {rate:12,.0f} {rate / base_rate:8.2f} {cost:14.2f} {cost / base_cost:8.2f}")


if __name__ == "__main__":
    main()
