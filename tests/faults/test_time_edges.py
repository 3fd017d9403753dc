"""Event time where there is a lot of it: very many windows of one key, sessions made of thousands, timers beyond a lifetime."""

import json
import os
import sys

import pytest
from harness import HERE, Rig, wait_until

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {name: edges}
spec:
  inputs: [{topic: edges, lateness: 0s}]
  timers: {}
  stores:
  - {name: hops, type: Window, window: {size: 1s, advance: 1ms, retention: 8784h}}
  - {name: visits, type: Session, session: {gap: 1s, grace: 8784h, retention: 17568h}}
  outputs: [{topic: fired, create: {partitions: 1}}]
"""
START = 1_700_000_000_000
CENTURY = 100 * 365 * 86_400_000
# 1,000,000 takes half a minute on a machine that has nothing else to do.
WINDOWS = int(os.environ.get("EDGES_WINDOWS", 100_000))


class Edges(Rig):
    def __init__(self, folder):
        super().__init__(folder, name="edges", partitions=1, worker=[sys.executable, HERE / "edge_time_worker.py"])
        self.manifest.write_text(MANIFEST)
        self.fed = 0

    def feed(self, rows):
        """(time, what to do) each, all of one key."""
        lines = [json.dumps({"key": "k", "at": at, **do}) for at, do in rows]
        self.command("produce", "edges", "--data", self.data, "--key", "key", "--timestamp", "at", "--partitions", 1,
                     stdin=("\n".join(lines) + "\n").encode())
        self.fed += len(rows)

    def wait_handled(self, deadline=120.0):
        def lag():
            status, body = self.http("/v1/tasks")
            return status == 200 and [(task["state"], task["records"]) for task in body["tasks"]] == [("active", self.fed)]

        wait_until(lag, lambda: f"{self.http('/v1/tasks')}\n{self.log()[-3000:]}", deadline)

    def rows(self, store):
        done = self.command("state", "scan", store, "--data", self.data, "--limit", 10_000_000, "-o", "json")
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def fired(self):
        return [json.loads(value) for _, _, _, _, value in self.consume("fired")]


@pytest.fixture
def edges(tmp_path):
    made = Edges(tmp_path)
    yield made
    made.close()


def test_very_many_windows_of_one_key(edges):
    """Each record is in a thousand windows that no other is in; all are there after a crash, and in order."""
    records = WINDOWS // 1000
    edges.feed([(START + 1000 * i, {"do": "windows"}) for i in range(records)])
    edges.start()
    edges.wait_handled(deadline=600)
    edges.kill()
    edges.start()
    edges.feed([(START + 1000 * records, {"do": "nothing"})])
    wait_until(lambda: edges.http("/v1/tasks")[0] == 200 and edges.http("/v1/tasks")[1]["tasks"][0]["state"] == "active",
               lambda: edges.log()[-3000:])
    found = [(row["key"], row["start"], row["value"]) for row in edges.rows("hops")]
    assert found == [("k", START - 999 + i, 1) for i in range(1000 * records)]


def test_one_session_of_thousands(edges):
    """Visits two gaps apart, then those between them: what was 5,000 sessions is one."""
    count = 5000
    edges.feed([(START + 2000 * i, {"do": "visit"}) for i in range(count)])
    edges.start()
    edges.wait_handled()
    assert len(edges.rows("visits")) == count
    edges.feed([(START + 2000 * i + 1000, {"do": "visit"}) for i in reversed(range(count - 1))])
    edges.wait_handled()
    assert [(row["start"], row["end"], row["value"]) for row in edges.rows("visits")] == [(START, START + 2000 * (count - 1), 2 * count - 1)]
    assert edges.stop() == 0, edges.log()[-3000:]


def test_timers_beyond_a_lifetime(edges):
    """They wait, over crashes too, and can be moved and cancelled; those of the past come at once."""

    def timer(name, clock, time):
        return {"do": "set", "name": name, "clock": clock, "time": time}

    edges.feed([(START, timer("far", clock, START + CENTURY)) for clock in ("event", "wall")] +
               [(START, timer("moved", clock, START + CENTURY)) for clock in ("event", "wall")] +
               [(START, timer("past", clock, time)) for clock, time in (("event", -1), ("wall", 0))])
    edges.start()
    wait_until(lambda: len(edges.fired()) == 2, lambda: edges.log()[-3000:])
    edges.kill()
    edges.start()
    edges.feed([(START, timer("moved", clock, START + 1)) for clock in ("event", "wall")] +
               [(START, {"do": "cancel", "name": "far", "clock": "wall"}), (START + 1, {"do": "nothing"})])
    wait_until(lambda: len(edges.fired()) == 4, lambda: edges.log()[-3000:])
    assert sorted((one["name"], one["clock"], one["time"]) for one in edges.fired()) == [
        ("moved", "event", START + 1), ("moved", "wall", START + 1), ("past", "event", -1), ("past", "wall", 0)]
    assert edges.stop() == 0, edges.log()[-3000:]
    left = {}
    for _, _, _, key, value in edges.consume("default.edges-timers-changelog"):
        left[key] = value
    pending = [key for key, value in left.items() if key[:1] == b"\x01" and value is not None]
    assert pending == [b"\x01\x00" + b"\x00\x00\x00\x01k" + b"far"], "by event time, which has not come there"
