"""Visits on real brokers: kill -9 in the middle of a walk, a walk that moves to a machine without its state, one during a rebalance."""

import collections
import contextlib
import json
import pathlib

import clients
import verifier
from harness import Group, wait_until

WORKER = pathlib.Path(__file__).resolve().parents[1] / "faults" / "visits_worker.py"
KEYS = 300
PARTITIONS = 2
EACH = KEYS + PARTITIONS  # outputs of a visit: its rows and the end in each task
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: payments, topic: {input}}}, {{name: commands, topic: {commands}}}]
  stores: [{{name: balances}}]
  visits: [{{name: interest, store: balances}}]
  outputs: [{{name: told, topic: {output}}}]
  transaction: {{timeout: 15s}}
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
  batch: {{maxRecords: 10}}
"""


class Bank(Group):
    store = "balances"

    def __init__(self, folder, cluster, proxy=None, **options):
        super().__init__(folder, cluster, proxy, worker=WORKER, partitions=PARTITIONS, **options)
        self.commands = f"commands-{self.id}"
        clients.create_topic(self.config, self.commands, PARTITIONS)
        self.manifest.write_text(MANIFEST.format(name=self.name, input=self.input, commands=self.commands, output=self.output))
        self.paid = collections.Counter()
        self.visits = 0

    def pay(self, keys):
        for key in keys:
            self.producer.produce(self.input, json.dumps({"amount": 100}), f"key-{key}")
            self.paid[f"key-{key}"] += 100
        assert self.producer.flush(60) == 0

    def visit(self):
        """One command to each partition."""
        self.visits += 1
        for partition in range(PARTITIONS):
            self.producer.produce(self.commands, json.dumps({"number": self.visits}), partition=partition)
        assert self.producer.flush(60) == 0

    @contextlib.contextmanager
    def slowly(self):
        """A row takes a fifth of a second: a visit a minute."""
        flag = self.folder / "flag"
        flag.touch()
        yield
        flag.unlink()

    def wait_told(self, count):
        """Until that many rows and ends of the last visit told."""
        goal = (self.visits - 1) * EACH + count
        wait_until(lambda: self.tail.count() >= goal, lambda: f"{self.tail.count()} of {goal} rows\n{self.logs()}")

    def under_way(self):
        """A row of the last visit is told of, and not all of any task."""
        ends, rows = 0, 0
        for row in list(self.tail.seen):
            if json.loads(row[4])["number"] == self.visits:
                ends += row[3].startswith(b"end of ")
                rows += 1
        return rows > 0 and ends == 0

    def settle(self):
        """Every row was visited once by each visit, beside payments that all count."""
        self.wait_told(EACH if self.visits else 0)
        balances = {key: paid + self.visits for key, paid in self.paid.items()}
        current = lambda: {key.decode(): value for key, value in self.state().items()}
        wait_until(lambda: current() == balances, lambda: f"{current()} instead of {balances}\n{self.logs()}")
        rows = clients.read(self.config, self.output)
        told = collections.Counter((json.loads(value)["number"], key.decode()) for _, _, _, key, value, _ in rows)
        each = [*balances, *(f"end of {task}" for task in range(PARTITIONS))]
        assert told == {(visit, key): 1 for visit in range(1, self.visits + 1) for key in each}
        assert verifier.check_tail(self.tail, rows) == []


def test_a_visit_under_kills_and_on_another_machine(group, one, seed):
    g = group(one, kind=Bank)
    g.pay(range(KEYS))
    first = g.member(mode="slow")
    g.settle()
    with g.slowly():
        g.visit()
        for point in ("after-reply:3", "after-flush:2", "commit-done-not-applied:3"):
            done = g.tail.count()
            if not first.process:
                first.start(mode="slow", crash_at=point)
            g.pay(seed.sample(range(KEYS), 10))
            wait_until(lambda: g.tail.count() > done or not first.alive(), g.logs)
            first.kill()
        assert g.under_way()
        # Another machine: how far the visit is comes from the topics.
        second = g.member(mode="slow")
        g.pay(seed.sample(range(KEYS), 30))
        done = g.tail.count()
        wait_until(lambda: g.tail.count() > done, g.logs)
    g.settle()
    assert second.stop() == 0, second.log()


def test_a_task_moves_while_its_rows_are_visited(group, one, seed):
    g = group(one, kind=Bank)
    g.pay(range(KEYS))
    first = g.member(mode="slow")
    g.settle()
    with g.slowly():
        g.visit()
        g.wait_told(1)
        second = g.member(mode="slow")
        g.wait_active(second, 1)
        assert g.under_way(), "the move took longer than the visit"
        g.pay(seed.sample(range(KEYS), 30))
    g.wait_active(first, 1)
    g.settle()
    # And back, because its owner dies.
    with g.slowly():
        g.visit()
        g.wait_told(1)
        second.kill()
        g.wait_active(first)
    g.settle()
    assert first.stop() == 0, first.log()
