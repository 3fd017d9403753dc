"""An external store (PostgreSQL) beside real brokers: killed at every step, by turns, the database and the topics agree to the record."""

import json
import os
import pathlib
import signal

import clients
import external
import pytest
from harness import Group, wait_until

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: events, topic: {input}}}]
  externalStore: {{}}
  outputs: [{{name: seen, topic: {output}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
"""


@pytest.fixture
def server(monkeypatch):
    yield from external.servers(monkeypatch)


class External(Group):
    def __init__(self, folder, cluster, proxy=None, *, server, **options):
        super().__init__(folder, cluster, proxy, worker=external.WORKER, **options)
        self.server = server
        self.manifest.write_text(MANIFEST.format(name=self.name, input=self.input, output=self.output))

    def check(self):
        """Against the events as they lie in the topic."""
        events = [(key, json.loads(value)["n"]) for _, _, _, key, value, _ in clients.read(self.config, self.input)]
        outputs = [(key, value) for _, _, _, key, value, _ in clients.read(self.config, self.output)]
        problems = external.differences(events, outputs, self.server)
        assert not problems, "\n".join(problems) + f"\n{self.logs()}"


# Behind STORE: the database has committed, and the log has not, or has and nobody knows. The first one is before it.
POINTS = ("after-first-append", "after-flush", "after-offsets-sent", "commit-done-not-applied")


def test_the_sidecar_is_killed_at_every_step(group, one, server):
    g = group(one, kind=External, server=server)
    g.produce(200)
    member = g.member(mode="slow", crash_at=f"{POINTS[0]}:2")
    for point in POINTS[1:]:
        g.produce(60)
        member.wait_exit()
        member.start(mode="slow", crash_at=f"{point}:2")
    g.produce(60)
    member.wait_exit()
    member.start()
    g.wait_outputs()
    g.check()
    assert member.stop() == 0, member.log()


def test_worker_and_server_are_killed_under_load(group, one, server):
    g = group(one, kind=External, server=server)
    member = g.member(mode="slow")
    g.produce(300)
    g.produce(1, trouble="kill-once")
    g.produce(300)
    g.wait_outputs(350)
    for _ in range(3):
        done = g.tail.count()
        server.kill()
        g.produce(100)
        server.start()
        g.wait_outputs(done + 1)
    g.wait_outputs()
    g.check()
    assert member.stop() == 0, member.log()


def test_an_owner_that_was_taken_for_dead_commits_nothing(group, one, server):
    """Stopped past its session timeout with rows in its transaction, then continued beside the new owner."""
    g = group(one, kind=External, server=server)
    old = g.member(mode="slow")
    g.produce(400)
    wait_until(lambda: g.tail.count() > 50, g.logs)
    old.pause()
    workers = [int(pid) for pid in pathlib.Path(f"/proc/{old.process.pid}/task/{old.process.pid}/children").read_text().split()]
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    new = g.member()
    g.wait_active(new)
    g.produce(100)
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    old.resume()
    g.produce(100)
    g.wait_outputs()
    g.check()
    for member in (old, new):
        assert member.stop() == 0, member.log()
