"""A visit under kill -9 of the sidecar and of the worker: every row is visited once, beside payments that go on."""

import collections
import json
import os
import signal
import sys
import time

import pytest
from harness import HERE, Rig, wait_until

KEYS = 400
PARTITIONS = 2
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: bank}}
spec:
  inputs: [{{topic: payments}}, {{topic: commands}}]
  stores: [{{name: balances, backend: {backend}}}]
  visits: [{{name: interest, store: balances}}]
  outputs: [{{topic: told, create: {{partitions: 2}}}}]
  batch: {{maxRecords: 20}}
"""


class Bank(Rig):
    def __init__(self, folder, backend="Disk"):
        super().__init__(folder, name="bank", partitions=PARTITIONS, worker=[sys.executable, HERE / "visits_worker.py"])
        self.manifest.write_text(MANIFEST.format(backend=backend))
        self.command("topics", "create", "commands", "--data", self.data, "--partitions", PARTITIONS)

    def pay(self, keys, amount):
        lines = [json.dumps({"key": f"key-{key}", "amount": amount}) for key in keys]
        self.command("produce", "payments", "--data", self.data, "--key", "key", "--partitions", PARTITIONS,
                     stdin=("\n".join(lines) + "\n").encode())

    def wait_listening(self):
        """The folder is its own: a command that comes sooner would hold it for a moment, and find no state there."""
        wait_until(lambda: self.http("/healthz")[0] != 0, lambda: f"nothing listens\n{self.log()[-3000:]}")

    def visit(self, number):
        """One command to each partition."""
        for partition in range(PARTITIONS):
            self.command("produce", "commands", "--data", self.data, "--partition", partition,
                         stdin=json.dumps({"number": number}).encode() + b"\n")

    def told(self, number):
        """How often each key told of that visit."""
        return collections.Counter(k.decode() for _, _, _, k, v in self.consume("told") if json.loads(v)["number"] == number)

    def balances(self):
        """{key: balance} by the command line; None while a task is not there."""
        done = self.command("state", "scan", "balances", "--data", self.data, "--limit", 10_000_000, "-o", "json", check=False)
        if done.returncode != 0:
            assert b"UNAVAILABLE" in done.stderr, done.stderr.decode(errors="replace")
            return None
        rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return {row["key"]: row["value"] for row in rows}

    def wait_balances(self, expected):
        wait_until(lambda: self.balances() == expected, lambda: f"{self.balances()} instead of {expected}\n{self.log()[-3000:]}")

    def ended(self, number):
        return all(self.told(number)[f"end of {task}"] for task in range(PARTITIONS))


@pytest.fixture
def bank(tmp_path):
    made = []

    def make(**options):
        made.append(Bank(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def once(number_of_keys=KEYS):
    return {**{f"key-{key}": 1 for key in range(number_of_keys)}, **{f"end of {task}": 1 for task in range(PARTITIONS)}}


def test_nothing_is_killed(bank):
    b = bank()
    b.pay(range(KEYS), 100)
    b.start()
    b.wait_listening()
    b.wait_balances({f"key-{key}": 100 for key in range(KEYS)})
    for number in (1, 2):
        b.visit(number)
        wait_until(lambda: b.ended(number), lambda: b.log()[-3000:])
        assert b.told(number) == once()
    b.wait_balances({f"key-{key}": 102 for key in range(KEYS)})
    assert b.stop() == 0, b.log()[-3000:]


@pytest.mark.parametrize("backend", ["Disk", "Memory"])
def test_killed_at_random_times(bank, seed, backend):
    b = bank(backend=backend)
    b.pay(range(KEYS), 100)
    b.start()
    b.wait_listening()
    b.wait_balances({f"key-{key}": 100 for key in range(KEYS)})
    b.visit(1)
    payments = collections.Counter()
    for _ in range(int(os.environ.get("FAULTS_ROUNDS", "8"))):
        time.sleep(seed.random() * seed.choice([0.1, 0.4, 0.8]))  # a random time, not a wait for anything
        if seed.random() < 0.4 and b.worker_pids():
            b.signal_worker(signal.SIGKILL)
            time.sleep(seed.random() * 0.2)
        b.kill()
        keys = [seed.randrange(KEYS) for _ in range(30)]
        b.pay(keys, 100)
        payments.update(keys)
        b.start(mode="slow")
    b.wait_listening()
    wait_until(lambda: b.ended(1), lambda: f"{b.told(1)}\n{b.log()[-3000:]}")
    assert b.told(1) == once()
    expected = {f"key-{key}": 101 + 100 * payments[key] for key in range(KEYS)}
    b.wait_balances(expected)
    assert b.stop() == 0, b.log()[-3000:]
    assert b.balances() == expected, "read from the folder"
