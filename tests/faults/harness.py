"""Runs real processes and breaks them: one `millstream run` with a worker, its data folder, and what a person would read of it.

Everything goes through the published commands. Nothing here sleeps for luck: conditions are waited for with deadlines.
"""

import base64
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import model

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
HERE = pathlib.Path(__file__).resolve().parent
DEADLINE = 60.0  # seconds; generous: it only bounds a failing test

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  guarantee: {guarantee}
  inputs: [{{topic: events}}]
  stores: [{{name: ledger, backend: {backend}}}]
  outputs: [{{topic: seen, create: {{partitions: 4}}}}]
  batch: {{deadline: {deadline}}}
  errors: {{maxAttempts: 2, backoff: {{initial: 10ms, max: 100ms}}, onFailure: {on_failure}}}
"""


def wait_until(condition, what, deadline=DEADLINE):
    """Polls until `condition()` is true and returns its value; fails with `what` (a string or a function) otherwise."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {deadline:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def free_port():
    """One below the range that the system hands to outgoing connections: still free when it is used, and after a kill."""
    for port in random.SystemRandom().sample(range(15000, 32000), 1000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port between 15000 and 32000")


def children_of(parent):
    """The process ids of the children that are running, in no order."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            line = re.search(r"^PPid:\s+(\d+)", status.read_text(), re.M)
        except OSError:
            continue
        if line and int(line.group(1)) == parent:
            found.append(int(status.parent.name))
    return found


class Rig:
    """One processor on one data folder."""

    def __init__(self, folder, name="totals", guarantee="ExactlyOnce", backend="Disk", on_failure="Stop", deadline="60s",
                 data=None, partitions=4, worker=None):
        self.folder = pathlib.Path(folder)
        self.data = pathlib.Path(data) if data else self.folder / "data"
        self.name = name
        self.manifest = self.folder / f"{name}.yaml"
        self.manifest.write_text(MANIFEST.format(name=name, guarantee=guarantee, backend=backend, on_failure=on_failure, deadline=deadline))
        self.partitions = partitions
        self.worker = [str(part) for part in (worker or [sys.executable, HERE / "ledger_worker.py"])]
        self.process = None
        self.port = None
        self.events = []  # (key bytes, n) in production order
        self.numbers = itertools.count(1)
        self.starts = 0

    # ---------------------------------------------------------------- the process

    def start(self, crash_at=None, mode="", extra_env=None, run_flags=()):
        assert self.process is None
        self.starts += 1
        self.port = free_port()
        env = dict(os.environ, LEDGER_MODE=mode, LEDGER_FLAG=str(self.folder / "flag"))
        env.pop("MILLSTREAM_CRASH_AT", None)
        if crash_at:
            env["MILLSTREAM_CRASH_AT"] = crash_at
        env.update(extra_env or {})
        self.log_path = self.folder / f"{self.name}-{self.starts}.log"
        command = [BIN / "millstream-crashtest", "run", "-f", self.manifest, "--data", self.data, "--partitions", str(self.partitions),
                   "--http", f"127.0.0.1:{self.port}", *run_flags, "--", *self.worker]
        with open(self.log_path, "wb") as out:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        """SIGKILL of the sidecar; its worker dies with it."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait(DEADLINE)
        self.process = None

    def stop(self):
        """SIGTERM and an orderly end; returns the exit code."""
        self.process.terminate()
        code = self.process.wait(DEADLINE)
        self.process = None
        return code

    def wait_exit(self):
        """Waits until the process ends by itself; returns its exit code (negative: a signal)."""
        code = self.process.wait(DEADLINE)
        self.process = None
        return code

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def worker_pids(self):
        """The worker programs of this run that are running."""
        return children_of(self.process.pid) if self.process else []

    def signal_worker(self, number):
        for pid in wait_until(self.worker_pids, lambda: f"no worker runs\n{self.log()[-2000:]}"):
            os.kill(pid, number)

    # ---------------------------------------------------------------- the commands

    def command(self, *arguments, stdin=None, check=True, binary=BIN / "millstream", deadline=DEADLINE):
        done = subprocess.run([str(binary), *map(str, arguments)], input=stdin, capture_output=True, timeout=deadline)
        if check and done.returncode != 0:
            raise AssertionError(f"millstream {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
        return done

    def produce(self, count, keys=20, trouble=None, key=None):
        """`count` numbered events over `keys` keys; returns their numbers."""
        numbers, lines = [], []
        for _ in range(count):
            n = next(self.numbers)
            name = key if key is not None else f"key-{n % keys}"
            event = {"key": name, "n": n}
            if trouble:
                event["trouble"] = trouble
            lines.append(json.dumps(event))
            numbers.append(n)
            self.events.append((name.encode(), n))
        self.command("produce", "events", "--data", self.data, "--key", "key", "--partitions", self.partitions,
                     stdin=("\n".join(lines) + "\n").encode())
        return numbers

    def consume(self, topic, isolation="committed"):
        """[(partition, offset, timestamp, key, value)] with keys and values as bytes or None."""
        done = self.command("consume", topic, "--data", self.data, "--from-beginning", "--isolation", isolation, "--format", "base64", check=False)
        if done.returncode != 0:
            assert b"not" in done.stderr, done.stderr.decode(errors="replace")
            return []
        rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
        decode = lambda text: None if text == "-" else base64.b64decode(text)
        return [(int(p), int(o), int(t), decode(k), decode(v)) for p, o, t, k, v in rows]

    def outputs(self):
        return [(key, json.loads(value)) for _, _, _, key, value in self.consume("seen")]

    def changelog(self):
        return [(key, None if value is None else json.loads(value)) for _, _, _, key, value in self.consume(f"default.{self.name}-ledger-changelog")]

    def state(self):
        """The whole store. While tasks are being opened the command says UNAVAILABLE: asked again until they are."""
        last = []

        def scan():
            last[:] = [self.command("state", "scan", "ledger", "--data", self.data, "--limit", 10_000_000, "--key-format", "base64",
                                    "-o", "json", check=False)]
            return last[0].returncode == 0 or b"UNAVAILABLE" not in last[0].stderr

        wait_until(scan, lambda: f"the state stays unavailable: {last[0].stderr.decode(errors='replace')}\n{self.log()[-2000:]}")
        done = last[0]
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        rows = [json.loads(line) for line in done.stdout.decode().splitlines() if line]
        return {base64.b64decode(row["key"]): row["value"] for row in rows}

    def http(self, path):
        """(status, body: JSON decoded, other text as it is); (0, None) while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                status, body = answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read().decode(errors="replace")
        except OSError:
            return 0, None
        try:
            return status, json.loads(body)
        except ValueError:
            return status, body

    # ---------------------------------------------------------------- what must be true

    def wait_outputs(self, count, deadline=DEADLINE):
        """Until `count` outputs are committed."""
        try:
            wait_until(lambda: len(self.consume("seen")) >= count, lambda: "", deadline)
        except AssertionError:
            raise AssertionError(f"{len(self.consume('seen'))} of {count} outputs committed\n{self.log()[-3000:]}") from None

    def wait_log(self, pattern, deadline=DEADLINE):
        return wait_until(lambda: re.search(pattern, self.log()), lambda: f"{pattern!r} never logged\n{self.log()[-3000:]}", deadline)

    def check(self, skipped=frozenset()):
        """Everything was processed and committed exactly once, and all three places agree."""
        problems = model.check_exactly_once(self.events, self.state(), self.changelog(), self.outputs(), skipped)
        assert not problems, "\n".join(problems) + f"\n{self.log()[-2000:]}"

    def finish(self, skipped=frozenset()):
        """Lets everything be processed, checks while running, stops in order and checks what is left on disk."""
        self.wait_outputs(len(self.events) - len(skipped))
        self.check(skipped)
        assert self.stop() == 0, self.log()[-3000:]
        self.check(skipped)

    def close(self):
        self.kill()
