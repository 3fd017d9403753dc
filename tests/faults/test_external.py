"""An external store (PostgreSQL) with its server and the sidecar killed at every step: the database and the topics agree to the record."""

import json
import sys
import time

import external
import psycopg
import pytest
from harness import DEADLINE, Rig, wait_until

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: totals}
spec:
  inputs: [{topic: events}]
  externalStore: {}
  outputs: [{topic: seen, create: {partitions: 2}}]
"""
# Of the worker: where its server dies, and at which visit. Two tasks, so that the second one to come is of the first transaction.
STEPS = ("before-connect:2", "load-before-commit:2", "load-after-commit:2", "before-statement:30", "after-statement:30",
         "store-before-commit:3", "store-after-commit:3", "committed:2")
# Of the sidecar: before STORE, behind STORED and before the log has it, and when the log has it.
POINTS = ("after-reply", "after-first-append", "after-flush", "after-offsets-sent", "commit-done-not-applied")


class External(Rig):
    def __init__(self, folder, server):
        super().__init__(folder, partitions=2, worker=[sys.executable, external.WORKER])
        self.server = server
        self.manifest.write_text(MANIFEST)

    def feed(self, count):
        """As produce(), but the sidecar may end meanwhile: what is in the topic then counts (see recount)."""
        lines = [json.dumps({"key": f"key-{n % 20}", "n": n}) for n in (next(self.numbers) for _ in range(count))]
        self.command("produce", "events", "--data", self.data, "--key", "key", "--partitions", self.partitions,
                     stdin=("\n".join(lines) + "\n").encode(), check=False)

    def recount(self):
        self.events = [(key, json.loads(value)["n"]) for _, _, _, key, value in self.consume("events")]

    def check(self, skipped=frozenset()):
        events = [(key, json.loads(value)["n"]) for _, _, _, key, value in sorted(self.consume("events"))]
        outputs = [(key, value) for _, _, _, key, value in sorted(self.consume("seen"))]
        assert len(events) == len(self.events)
        problems = external.differences(events, outputs, self.server)
        assert not problems, "\n".join(problems) + f"\n{self.log()[-3000:]}"


@pytest.fixture
def server(monkeypatch):
    yield from external.servers(monkeypatch)


@pytest.fixture
def rig(tmp_path, server):
    made = External(tmp_path, server)
    yield made
    made.close()


def test_the_server_is_killed_at_every_step(rig, server):
    for step in STEPS:
        flag = rig.folder / "flag"
        flag.unlink(missing_ok=True)
        rig.produce(100)
        rig.start(extra_env={"EXTERNAL_KILL_SERVER": step})
        # Work for the steps that are reached in later transactions only.
        while not flag.exists():
            rig.produce(20)
            assert rig.alive() and len(rig.events) < 20_000, f"{step} is never reached\n{rig.log()[-3000:]}"
        server.kill()  # it is dead; its child processes are waited for
        server.start()
        rig.produce(20)
        rig.finish()


def test_the_sidecar_is_killed_at_every_step(rig):
    rig.produce(100)
    for point in POINTS:
        rig.start(mode="slow", crash_at=f"{point}:2")
        until = time.monotonic() + DEADLINE
        while rig.alive():
            rig.feed(20)
            assert time.monotonic() < until, f"{point} is never reached\n{rig.log()[-3000:]}"
        rig.wait_exit()
    rig.recount()
    rig.start()
    rig.finish()


def test_the_server_is_away_when_everything_starts(rig, server):
    server.kill()
    rig.produce(50)
    rig.start()
    rig.wait_log("LOAD failed in the worker's database")
    assert rig.consume("seen") == []
    server.start()
    rig.finish()


def test_an_empty_database_is_refused(rig, server):
    rig.produce(50)
    rig.start()
    rig.finish()
    with psycopg.connect(server.url) as connection:
        connection.execute("DROP TABLE millstream_checkpoints")
    rig.produce(10)
    rig.start()
    wait_until(lambda: "CheckpointLost" in str(rig.http("/v1/tasks")), lambda: f"{rig.http('/v1/tasks')}\n{rig.log()[-3000:]}")
    assert len(rig.consume("seen")) == 50
    rig.kill()
