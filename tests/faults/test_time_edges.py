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
  - {name: minutes, type: Window, window: {size: 1m, emit: Final, retention: 8784h}}
  - {name: recent, ttl: 1h}
  outputs: [{topic: fired, create: {partitions: 1}}, {topic: told, create: {partitions: 1}}, {topic: closed, create: {partitions: 1}}]
"""
START = 1_700_000_000_000
CENTURY = 100 * 365 * 86_400_000
# 1,000,000 takes half a minute on a machine that has nothing else to do; the sidecar then comes to 200 MB.
WINDOWS = int(os.environ.get("EDGES_WINDOWS", 100_000))


class Edges(Rig):
    def __init__(self, folder):
        super().__init__(folder, name="edges", partitions=1, worker=[sys.executable, HERE / "edge_time_worker.py"])
        self.manifest.write_text(MANIFEST)
        self.fed = 0

    def feed(self, rows):
        """(time, what to do) each, all of key k unless they say another."""
        lines = [json.dumps({"key": "k", "at": at, **do}) for at, do in rows]
        self.command("produce", "edges", "--data", self.data, "--key", "key", "--timestamp", "at", "--partitions", 1,
                     stdin=("\n".join(lines) + "\n").encode())
        self.fed += len(rows)

    def wait_handled(self, deadline=240.0):
        def lag():
            status, body = self.http("/v1/tasks")
            return status == 200 and [(task["state"], task["records"]) for task in body["tasks"]] == [("active", self.fed)]

        wait_until(lag, lambda: f"{self.http('/v1/tasks')}\n{self.log()[-3000:]}", deadline)

    def wait_active(self):
        def active():
            status, body = self.http("/v1/tasks")
            return status == 200 and [task["state"] for task in body["tasks"]] == ["active"]

        wait_until(active, lambda: self.log()[-3000:], 240)

    def rows(self, store):
        done = self.command("state", "scan", store, "--data", self.data, "--limit", 10_000_000, "-o", "json", deadline=600)
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def told(self, topic):
        return [json.loads(value) for _, _, _, _, value in self.consume(topic)]

    def fired(self):
        return self.told("fired")


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
    edges.wait_active()
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


def test_times_at_the_edges(edges):
    """-1, 0 and the last time there is: each has its windows, sessions, timers and age; nothing overflows, and the last one closes nobody's."""
    last = 2**63 - 1
    edges.feed([(at, {"do": "everything"}) for at in (-1, 0, last, START)])
    edges.start()
    edges.wait_handled()
    edges.kill()
    edges.start()
    edges.feed([(START + 60_000, {"do": "everything"})])

    told, closed, fired = (lambda topic=topic: edges.told(topic) for topic in ("told", "closed", "fired"))
    wait_until(lambda: len(told()) == 5 and len(closed()) == 3 and len(fired()) == 4,
               lambda: f"{told()}\n{closed()}\n{fired()}\n{edges.log()[-3000:]}", 240)
    assert [(one["at"], one["before"], one["windows"]) for one in told()] == [
        (-1, None, 1), (0, -1, 1), (last, 0, 1), (START, last, 1), (START + 60_000, START, 1)]
    minute = START - START % 60_000
    assert closed() == [{"start": start, "end": start + 60_000, "count": 1} for start in (-60_000, 0, minute)]
    assert [one["time"] for one in fired()] == [-1, 0, START, START + 60_000], "the other one waits for the year 9999"
    windows = [(row["start"], row["end"], row["value"]) for row in edges.rows("minutes")]
    assert windows == [(minute, minute + 60_000, 1), (minute + 60_000, minute + 120_000, 1), (last - last % 60_000, last, 1)]
    sessions = [(row["start"], row["end"], row["value"]) for row in edges.rows("visits")]
    assert sessions == [(START, START, 1), (START + 60_000, START + 60_000, 1), (last, last, 1)], "-1 and 0 are beyond their retention"
    assert edges.stop() == 0, edges.log()[-3000:]


def test_a_store_with_ttl_while_clocks_jump(edges):
    """A record decades ahead forgets nothing of others, one of yesterday is old when it is written, and time only goes on with the rest."""
    hour = 3_600_000
    rows = [("a", START), ("ahead", START + CENTURY), ("late", START - 24 * hour), ("a", START + hour // 2), ("late", START + hour // 2)]
    later = [("a", START + 2 * hour), ("ahead", START + 2 * hour)]
    edges.feed([(at, {"key": key, "do": "everything"}) for key, at in rows])
    edges.start()
    edges.wait_handled()
    edges.kill()
    edges.start()
    edges.feed([(at, {"key": key, "do": "everything"}) for key, at in later])
    wait_until(lambda: len(edges.told("told")) == len(rows + later), lambda: edges.log()[-3000:], 240)
    befores = [one["before"] for one in edges.told("told")]
    assert befores == [None, None, None, START, None, None, START + CENTURY]
    assert edges.stop() == 0, edges.log()[-3000:]
