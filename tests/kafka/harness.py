"""A processor on real brokers, for breaking: one group with as many members as a test wants, each a `millstream run --kafka` with workers.

The brokers stand behind the fault proxy; the harness itself reads and writes past it. Names are unique, so that tests share a cluster.
"""

import base64
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "testbed" / "kafka")]
import brokers  # noqa: E402
import clients  # noqa: E402
import verifier  # noqa: E402
from confluent_kafka import Producer  # noqa: E402

BIN = pathlib.Path(os.environ.get("MILLSTREAM_BUILD_DIR", ROOT / "build")) / "bin"
WORKER = ROOT / "tests" / "faults" / "ledger_worker.py"
DEADLINE = 150.0  # seconds; generous: it only bounds a failing test

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  guarantee: {guarantee}
  kafka: {{bootstrapServers: "replaced:1"{kafka}}}
  inputs: [{{name: events, topic: {input}}}]
  stores: [{{name: ledger, backend: {backend}}}]
  outputs: [{{name: seen, topic: {output}}}]
  transaction: {{timeout: {transaction_timeout}}}
  membership: {{sessionTimeout: {session_timeout}, rebalanceTimeout: 10s}}
  batch: {{deadline: 60s}}
  errors: {{maxAttempts: 2, backoff: {{initial: 10ms, max: 100ms}}, onFailure: Stop}}
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


class Member:
    """One process of a group, with a data folder and a port of its own."""

    def __init__(self, group, number):
        self.group, self.number = group, number
        self.data = group.folder / f"data-{number}"
        self.port, = brokers.free_ports(1)
        self.process = None
        self.starts = 0
        self.log_path = None

    def start(self, crash_at=None, mode="", flags=()):
        assert self.process is None
        self.starts += 1
        env = dict(os.environ, LEDGER_MODE=mode, LEDGER_FLAG=str(self.group.folder / "flag"))
        env.pop("MILLSTREAM_CRASH_AT", None)
        if crash_at:
            env["MILLSTREAM_CRASH_AT"] = crash_at
        if self.group.mutation:
            env["MILLSTREAM_MUTATION"] = self.group.mutation
        self.log_path = self.group.folder / f"member-{self.number}-{self.starts}.log"
        command = [BIN / "millstream-crashtest", "run", "-f", self.group.manifest, "--kafka", self.group.bootstrap, "--data", self.data,
                   "--http", f"127.0.0.1:{self.port}", *self.group.flags, *flags, "--", sys.executable, self.group.worker]
        with open(self.log_path, "wb") as out:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        return self

    def log(self, tail=3000):
        code = self.process.poll() if self.process else None
        ended = "" if code is None else f" (ended with {code})"
        return f"--- {self.log_path}{ended}\n" + self.log_path.read_text(errors="replace")[-tail:] if self.log_path else "(never started)"

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """SIGKILL; its worker dies with it."""
        if self.process:
            self.process.kill()
            self.process.wait(DEADLINE)
            self.process = None

    def wait_exit(self, deadline=DEADLINE):
        """Waits until it ends by itself; returns the exit code (negative: a signal)."""
        try:
            code = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {deadline:.0f} s\n{self.log()}") from None
        self.process = None
        return code

    def stop(self):
        """SIGTERM and an orderly end; returns the exit code."""
        self.process.terminate()
        return self.wait_exit()

    def pause(self):
        """SIGSTOP of the sidecar alone: its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def http(self, path):
        """(status, JSON); (0, None) while nothing answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (OSError, ValueError):
            return 0, None

    def tasks(self):
        """{task: state} of the tasks that are here."""
        status, body = self.http("/v1/tasks")
        return {each["task"]: each["state"] for each in body["tasks"]} if status == 200 else {}

    def active(self):
        return sorted(task for task, state in self.tasks().items() if state == "active")

    def conditions(self):
        """{reason: message}"""
        status, body = self.http("/v1/tasks")
        return {each["reason"]: each["message"] for each in body.get("conditions", [])} if status == 200 else {}

    def wait_condition(self, reason, deadline=DEADLINE):
        wait_until(lambda: reason in self.conditions(), lambda: f"no condition {reason}, but {self.conditions()}\n{self.log()}", deadline)
        return self.conditions()[reason]

    def wait_log(self, pattern, deadline=DEADLINE):
        return wait_until(lambda: re.search(pattern, self.log(1 << 30)), lambda: f"{pattern!r} never logged\n{self.log()}", deadline)

    def scan(self):
        """{key: value} of the store's rows that are here, of windows {(key, start, end): value}, or None while the tasks are not all open."""
        found, cursor = {}, None
        while True:
            query = {"limit": 1000, "key.format": "base64", **({"cursor": cursor} if cursor else {})}
            status, body = self.http(f"/v1/stores/{self.group.store}/range?{urllib.parse.urlencode(query)}")
            if status != 200:
                return None
            for row in body["rows"]:
                key = base64.b64decode(row["key"])
                if "start" in row:
                    key = (key, row["start"], row["end"])
                assert key not in found, f"{key!r} is in two tasks"
                found[key] = row["value"]
            cursor = body["cursor"]
            if cursor is None:
                return found


class Group:
    """A processor (tests/faults/ledger_worker.py unless told otherwise) with its topics; close() kills what still runs and says nothing."""

    store = "ledger"  # that state() reads

    def __init__(self, folder, cluster, proxy=None, *, partitions=4, guarantee="ExactlyOnce", backend="Disk", session_timeout="6s",
                 transaction_timeout="15s", bootstrap=None, flags=(), kafka="", create=True, mutation="", worker=WORKER,
                 **topic_settings):
        self.id = uuid.uuid4().hex[:8]
        self.folder = pathlib.Path(folder) / self.id
        self.folder.mkdir(parents=True)
        self.cluster, self.proxy, self.partitions, self.flags = cluster, proxy, partitions, flags
        self.worker = worker
        self.mutation = mutation  # the rule of engine.md that its engines leave out
        self.config = cluster.client()  # the harness's own way in
        self.bootstrap = bootstrap or cluster.bootstrap()
        self.name = f"p-{self.id}"
        self.group = f"default.{self.name}"
        self.input, self.output = f"events-{self.id}", f"seen-{self.id}"
        self.changelog = f"{self.group}-ledger-changelog"
        if create:
            clients.create_topic(self.config, self.input, partitions)
            clients.create_topic(self.config, self.output, partitions, **topic_settings)
        self.manifest = self.folder / "processor.yaml"
        self.manifest.write_text(MANIFEST.format(name=self.name, guarantee=guarantee, backend=backend, input=self.input, output=self.output,
                                                 kafka=kafka, session_timeout=session_timeout, transaction_timeout=transaction_timeout))
        self.numbers = itertools.count(1)
        self.produced = 0
        self.members, self.member_numbers = [], itertools.count()
        self.producer = Producer({**clients.quiet(self.config), "acks": "all", "enable.idempotence": True, "linger.ms": 5,
                                  "partitioner": "murmur2_random", "message.timeout.ms": 120_000})
        self.tail = verifier.Tail(self.config, self.output) if create else None

    def member(self, **options):
        """A new process of the group, started."""
        self.members.append(Member(self, next(self.member_numbers)))
        return self.members[-1].start(**options)

    # ---------------------------------------------------------------- input

    def produce(self, count, keys=20, wait=True, **fields):
        """`count` numbered events over `keys` keys, acknowledged unless wait=False."""
        errors = []
        for _ in range(count):
            n = next(self.numbers)
            event = json.dumps({"key": f"key-{n % keys}", "n": n, **fields})
            self.producer.produce(self.input, event, f"key-{n % keys}", on_delivery=lambda error, _: errors.append(error) if error else None)
            self.produced += 1
        if wait:
            assert self.producer.flush(DEADLINE) == 0, "events are not acknowledged"
            assert not errors, errors[0]

    def feed(self, per_second=200, keys=20):
        """A thread that produces until its close()."""
        return Feeder(self, per_second, keys)

    # ---------------------------------------------------------------- what must be true

    def logs(self):
        return "\n".join(member.log() for member in self.members[-4:])

    def wait_outputs(self, count=None, deadline=DEADLINE):
        """Until `count` outputs (default: one for each event) are committed and seen by the reader that runs all the time."""
        goal = self.produced if count is None else count
        end = time.monotonic() + deadline
        while not self.tail.wait(lambda seen: len(seen) >= goal, 1) and time.monotonic() < end:
            ended = [member for member in self.members if member.process and not member.alive()]
            assert not ended, f"{self.tail.count()} of {goal} outputs, and a member ended by itself\n{ended[0].log()}"
        assert self.tail.count() >= goal, \
            f"{self.tail.count()} of {goal} outputs after {deadline:.0f} s\n{[m.conditions() for m in self.members if m.alive()]}\n{self.logs()}"

    def wait_active(self, member, tasks=None, deadline=DEADLINE):
        """Until the member has these tasks active (a count; default: all)."""
        count = self.partitions if tasks is None else tasks
        wait_until(lambda: len(member.active()) == count, lambda: f"{member.tasks()}, not {count} active\n{self.logs()}", deadline)

    def state(self):
        """The whole store, from whoever has the tasks."""
        def all_open():
            living = [member for member in self.members if member.alive()]
            if sorted(task for member in living for task in member.active()) != list(range(self.partitions)):
                return None
            parts = [member.scan() for member in living]
            return None if None in parts else [parts]

        parts, = wait_until(all_open, lambda: f"not all tasks open: {[m.tasks() for m in self.members if m.alive()]}\n{self.logs()}")
        found = {}
        for part in parts:
            assert not found.keys() & part.keys(), f"two members have {found.keys() & part.keys()}"
            found |= part
        return found

    def check(self, state=True, skipped=frozenset()):
        """Everything exactly once; offsets reach the ends within a moment (they are committed once a second when idle)."""
        found = []

        def right():
            found[:] = verifier.verify(self.config, group=self.group, inputs=self.input, outputs=self.output, changelog=self.changelog,
                                       state=self.state() if state else None, tail=self.tail, skipped=skipped)
            return not found or not all("has committed" in line or line.startswith("state: ") for line in found)

        try:
            wait_until(right, "", 30)
        except AssertionError:
            pass
        assert not found, "\n".join(found) + f"\n{self.logs()}"

    def finish(self):
        """Lets everything be processed, checks, stops in order."""
        self.wait_outputs()
        self.check()
        for member in self.members:
            if member.process:
                assert member.stop() == 0, member.log()

    def close(self):
        for member in self.members:
            member.kill()
        if self.tail:
            self.tail.close()


class Feeder:
    """Produces events in a thread, about so many a second, until close()."""

    def __init__(self, group, per_second, keys):
        self.group, self.pause, self.keys = group, 20 / per_second, keys
        self.ended = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.ended.wait(self.pause):
                self.group.produce(20, keys=self.keys, wait=False)
                self.group.producer.poll(0)
            self.group.produce(0)
        except BaseException as error:
            self.error = error

    def close(self):
        self.ended.set()
        self.thread.join()
        if self.error:
            raise self.error
