#!/usr/bin/env python3
"""Records what a sidecar sends, so that later SDKs can be run against it, and makes conformance cases of it.

    record.py record VERSION [WHAT]   runs the built `millstream` and the Python conformance worker over a few records, and keeps every
                                      frame in tests/conformance/recorded/sidecar-VERSION.json; with `time`, of windows, sessions and
                                      timers, in sidecar-VERSION-time.json
    record.py cases [--check]         writes tests/conformance/cases/recorded.yaml from all recordings, or says whether it is current

Record once per release (and protocol version), before it. The matrix {SDK} x {sidecar} is then: every recording as it is, with what
later revisions of its protocol version left out (an older peer: nil at the end of a frame is not sent), and with what a later revision
may add (a newer peer: fields behind the known ones, unknown map keys, unknown capabilities). `millstream conform` plays them.
"""
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgpack

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = Path(__file__).resolve().parent / "recorded"
CASES = Path(__file__).resolve().parent / "cases" / "recorded.yaml"
WELCOME, OPEN, BATCH, RESULT, GET, VALUES, SCAN, ROWS, PING, GOODBYE = 2, 3, 5, 6, 8, 9, 10, 11, 20, 23

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: recorded}
spec:
  inputs: [{topic: script, prefetch: [counts]}, {topic: echo}, {topic: ints}]
  stores: [{name: counts}, {name: archive}]
  outputs: [{topic: out, create: {partitions: 1}}, {topic: reads, create: {partitions: 1}}]
"""
NOW = 1_700_000_000_000  # of records that no case asks for the time of
RECORDS = [("script", "anna", "count counts"), ("script", "anna", "count counts"), ("script", "bob", "set archive old%ff"), ("echo", "k", "v"),
           ("script", "bob", "get archive"), ("script", "c", "scan counts ~ ~ 0 forward"), ("script", "d", "delete counts"),
           ("script", "anna", "count counts")]

TIME_MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: recorded}
spec:
  inputs: [{topic: script, lateness: 0s}, {topic: echo, idleAfter: 1s}, {topic: ints, idleAfter: 1s}]
  timers: {}
  latePolicy: Process
  stores:
  - {name: minutes, type: Window, window: {size: 1m, grace: 10s}}
  - {name: hops, type: Window, window: {size: 1m, advance: 30s, grace: 10s}}
  - {name: final, type: Window, window: {size: 1m, grace: 5s, emit: Final}}
  - {name: visits, type: Session, session: {gap: 20s, grace: 10m}}
  - {name: stays, type: Session, session: {gap: 20s, grace: 10m}}
  - {name: counts}
  - {name: scripts}
  outputs: [{topic: out, create: {partitions: 1}}, {topic: reads, create: {partitions: 1}}]
"""
MINUTE = 1_700_000_040_000  # a full one
TIME_RECORDS = [
    ("script", "anna", "set scripts count%20counts", 0),
    ("script", "anna", f"count_windows minutes\ncount_windows hops\ncount_windows final\ncount_session visits\ntimer tick {MINUTE + 90_000}", 0),
    ("script", "anna", f"timer other {MINUTE} wall", 10),
    ("script", "anna", "count_windows minutes\ncount_windows hops\nsession visits\ncount_session visits", 30_000),
    ("script", "anna", "session visits", 15_000),                # connects what it does not write: merged
    ("script", "bob", "count_windows final\ncount_session stays", 59_999),
    ("script", "anna", "session visits\ncount counts", 45_000),   # keeps what it has
    ("script", "bob", "windows final\nsession stays\nwatermark", 70_000),
    ("script", "anna", "windows minutes\nwindows hops\nsession visits", 1_000),   # late for most of it
    ("script", "bob", "delete_windows minutes\ncancel tick wall\nwatermark", 95_000),
    ("script", "bob", "watermark", 96_000),
]
# What is recorded: manifest, records, and the features of the kit that a worker needs for it.
KINDS = {"": (MANIFEST, [(*record, None) for record in RECORDS], ["scan"]),
         "time": (TIME_MANIFEST, TIME_RECORDS, ["windows", "closings", "sessions", "timers"])}


# ---------------------------------------------------------------- recording

class Tap:
    """Stands between the sidecar and a worker program, and keeps every frame."""

    def __init__(self, path, sidecar):
        self.frames, self.lock, self.sidecar = [], threading.Lock(), sidecar
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        worker, _ = self.listener.accept()
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(self.sidecar)
        threading.Thread(target=self.pass_on, args=(worker, upstream, "W->S"), daemon=True).start()
        self.pass_on(upstream, worker, "S->W")

    def pass_on(self, source, sink, direction):
        stream = source.makefile("rb")
        while len(head := stream.read(4)) == 4:
            payload = stream.read(struct.unpack(">I", head)[0])
            with self.lock:
                self.frames.append({"direction": direction, "frame": (head + payload).hex()})
                sink.sendall(head + payload)
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def tap_main(out):
    """The worker that `millstream run` starts: a tap with the conformance worker behind it."""
    with tempfile.TemporaryDirectory(prefix="ms-tap-") as folder:
        tap = Tap(f"{folder}/s", os.environ["MILLSTREAM_SOCKET"])
        worker = subprocess.Popen([sys.executable, ROOT / "sdk/python/conformance/conformance_worker.py"],
                                  env={**os.environ, "MILLSTREAM_SOCKET": f"{folder}/s"})
        signal.signal(signal.SIGTERM, lambda *_: worker.terminate())  # told to stop, it serves until GOODBYE
        worker.wait()
        with tap.lock:
            Path(out).write_text(json.dumps(tap.frames), encoding="utf-8")


def record(version, kind):
    text, records, needs = KINDS[kind]
    name = f"{version}-{kind}".rstrip("-")
    with tempfile.TemporaryDirectory(prefix="ms-record-") as folder:
        manifest, data, out = Path(folder) / "p.yaml", f"{folder}/data", f"{folder}/frames.json"
        manifest.write_text(text, encoding="utf-8")
        with open(f"{folder}/log", "wb") as log:
            run = subprocess.Popen(["millstream", "run", "-f", manifest, "--data", data, "--http", "off", "--partitions", "1", "--",
                                    sys.executable, __file__, "tap", out], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                   env={**os.environ, "CONFORMANCE_NEEDS": ",".join(needs)})
        try:
            for n, (topic, key, value, time_of) in enumerate(records, 1):  # one by one, so that batches come one by one
                wait_for(lambda t=topic, k=key, v=value, at=time_of: produce(data, t, k, v, at))
                wait_for(lambda n=n: committed(data) >= n)
                if kind == "time":
                    time.sleep(2)  # other inputs are idle, and what it made due has come
        finally:
            run.terminate()
            run.wait(60)
        frames = json.loads(Path(out).read_text(encoding="utf-8"))
    RECORDINGS.mkdir(exist_ok=True)
    lines = ",\n ".join(json.dumps(frame) for frame in frames if unpack(frame)[0] not in (PING, PING + 1, 12))
    (RECORDINGS / f"sidecar-{name}.json").write_text(f'{{"sidecar": "{name}", "needs": {json.dumps(needs)}, "frames": [\n {lines}\n]}}\n', encoding="utf-8")


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("the run does not get on")
        time.sleep(0.1)


def produce(data, topic, key, value, time_of):
    at = NOW if time_of is None else MINUTE + time_of
    line = b"%d\t%s\t%s\n" % (at, base64.b64encode(key.encode()), base64.b64encode(value.encode()))
    return subprocess.run(["millstream", "produce", topic, "--format", "base64", "--partitions", "1", "--data", data], input=line, capture_output=True, check=False).returncode == 0


def committed(data):
    done = subprocess.run(["millstream", "lag", "-o", "json", "--data", data], capture_output=True, check=False)
    rows = json.loads(done.stdout)["partitions"] if done.returncode == 0 else []
    return sum(max(0, row["committed"] or 0) for row in rows)


# ---------------------------------------------------------------- cases

def unpack(frame):
    return msgpack.unpackb(bytes.fromhex(frame["frame"])[4:], raw=False, strict_map_key=False, unicode_errors="surrogateescape")


def pack(message):
    payload = msgpack.packb(message, use_bin_type=True, unicode_errors="surrogateescape")
    return struct.pack(">I", len(payload)) + payload


def older(message):
    """As a revision without the fields at the end that say nothing: a missing optional field is nil."""
    message = list(message)
    least = {BATCH: 8, VALUES: 4, ROWS: 5}.get(message[0], len(message))
    while len(message) > least and message[-1] is None:
        message.pop()
    return message


def newer(message):
    """As a later revision of the same version may send it."""
    message = list(message)
    if message[0] == WELCOME:
        welcome = {**message[1], "later": {"deep": [1, {"a": None}]}, "capabilities": [*message[1]["capabilities"], "later"]}
        for name in ("inputs", "outputs", "stores"):
            welcome[name] = [{**one, "later": [1]} for one in welcome[name]]
        welcome["limits"] = {**welcome["limits"], "later": 5}
        message[1] = welcome
    if message[0] == BATCH:
        # Behind what an item may have today: joins and windows.
        message[5] = [[*item, *[None] * (10 - len(item)), [9], {"later": 1}] if item[0] == 0 else item for item in message[5]]
        # Timers and windows that close have no optional fields.
        message[5] = [[*item, [9], {"later": 1}] if item[0] != 0 else item for item in message[5]]
        message += [None] * (9 - len(message))
    if message[0] in (VALUES, ROWS):
        message += [None] * ((5 if message[0] == VALUES else 6) - len(message))
    return [*message, 8, "later", {"x": [None]}]


def shown(data):
    """Bytes as the kit shows those of a frame."""
    data = data.encode() if isinstance(data, str) else data
    try:
        return data if data is None else data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def steps_of(frames, change):
    """What the sidecar sent, and what the worker has to answer: its RESULTs and reads, whatever its own numbers are."""
    steps, asked = [], False
    for frame in frames:
        message = unpack(frame)
        kind = message[0]
        if frame["direction"] == "W->S":
            if kind == RESULT:
                outputs = [{"output": out[0], "key": shown(out[1]), "value": shown(out[2])} for out in message[5]]
                ops = {str(store): [{"key": shown(key), "value": shown(value)} for key, value in writes] for store, writes in message[4].items()}
                result = {"kind": "RESULT", "seq": message[1], "done": message[2], "failure": None, "ops": ops, "outputs": outputs}
                if len(message) > 6 and message[6]:
                    result["timers"] = [{"key": shown(key), "clock": clock, "name": name, "time": at} for key, clock, name, at in message[6]]
                steps.append({"expect": result})
            elif kind == GET:
                steps.append({"expect": {"kind": "GET", "store": message[3], "keys": [shown(key) for key in message[4]]}})
            elif kind == SCAN:
                steps.append({"expect": {"kind": "SCAN", "store": message[3]}})
            asked = kind in (GET, SCAN)
        elif kind in (VALUES, ROWS):
            assert asked, "an answer without a question"
            steps.append({"answer": {"frame": "hex:" + pack(change(message)).hex()}})
        else:
            steps.append({"bytes": "hex:" + pack(change(message)).hex()})
            if kind == GOODBYE:
                steps.append({"ended": True})
                break
    return steps


def cases():
    lines = ["# Written by tests/conformance/record.py from tests/conformance/recorded/; do not edit.\n"]
    kinds = (("as-it-is", lambda message: message, "what it sent"), ("older", older, "what it sent, without the fields at the end that are nil"),
             ("newer", newer, "what it sent, with fields, map keys and capabilities of a later revision"))
    for path in sorted(RECORDINGS.glob("sidecar-*.json")):
        recording = json.loads(path.read_text(encoding="utf-8"))
        for name, change, about in kinds:
            lines.append(f"- name: sidecar-{recording['sidecar']}-{name}\n  about: \"A sidecar of {recording['sidecar']}: {about}.\"\n  handshake: false\n  needs: [{', '.join(recording.get('needs', ['scan']))}]\n  steps:\n  - hello: {{protocol: [{{max: 1}}, {{min: 1}}]}}\n")
            lines += [f"  - {json.dumps(step, ensure_ascii=False)}\n" for step in steps_of(recording["frames"], change)]
            lines.append("\n")
    return "".join(lines).rstrip() + "\n"


def main():
    words = sys.argv[1:]
    if words[:1] == ["tap"] and len(words) == 2:
        tap_main(words[1])
    elif words[:1] == ["record"] and len(words) in (2, 3) and "".join(words[2:]) in KINDS:
        record(words[1], "".join(words[2:]))
    elif words == ["cases"]:
        CASES.write_text(cases(), encoding="utf-8")
    elif words == ["cases", "--check"]:
        if CASES.read_text(encoding="utf-8") != cases():
            sys.exit(f"{CASES.relative_to(ROOT)} is not current: run  python3 tests/conformance/record.py cases")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
