"""Visits on real brokers: kill -9 in the middle of a walk, a walk that moves to a machine without its state, and one during a rebalance."""

import collections
import json
import pathlib

import clients
from harness import Group, wait_until

WORKER = pathlib.Path(__file__).resolve().parents[1] / "faults" / "visits_worker.py"
KEYS = 300
PARTITIONS = 2
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
  transaction: {{timeout: 60s}}
  membership: {{sessionTimeout: 10s, rebalanceTimeout: 20s}}
  batch: {{maxRecords: 20}}
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

    def told(self):
        """How often each row told of the last visit, and its ends."""
        rows = clients.read(self.config, self.output)
        return collections.Counter(key.decode() for _, _, _, key, value, _ in rows if json.loads(value)["number"] == self.visits)

    def settle(self):
        """Every row was visited once by each visit, beside payments that all count."""
        each = KEYS + PARTITIONS
        wait_until(lambda: self.tail.count() >= self.visits * each, lambda: f"{self.tail.count()} of {self.visits * each} rows\n{self.logs()}")
        balances = {key: paid + self.visits for key, paid in self.paid.items()}
        current = lambda: {key.decode(): value for key, value in self.state().items()}
        wait_until(lambda: current() == balances, lambda: f"{current()} instead of {balances}\n{self.logs()}")
        if self.visits:
            assert self.told() == {**dict.fromkeys(balances, 1), **{f"end of {task}": 1 for task in range(PARTITIONS)}}
        assert self.tail.count() == self.visits * each


def test_a_visit_under_kills_moves_and_rebalances(group, one, seed):
    g = group(one, kind=Bank)
    g.pay(range(KEYS))
    first = g.member(mode="slow")
    g.settle()
    g.visit()
    for point in ("after-reply:3", "after-flush:2", "commit-done-not-applied:3"):
        done = g.tail.count()
        if not first.process:
            first.start(mode="slow", crash_at=point)
        wait_until(lambda: g.tail.count() > done or not first.alive(), g.logs)
        first.kill()
    # Another machine: how far the visit is comes from the topics.
    second = g.member(mode="slow")
    g.pay(seed.sample(range(KEYS), 30))
    g.settle()
    # A task goes to the other one while its rows are visited.
    g.visit()
    first.start(mode="slow")
    g.wait_active(first, 1)
    g.settle()
    g.visit()
    second.kill()
    g.settle()
    assert first.stop() == 0, first.log()
