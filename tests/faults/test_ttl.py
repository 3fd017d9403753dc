"""A store with `ttl` under kill -9 of the sidecar and of the worker, against a model that knows neither batches nor crashes."""

import json
import os
import signal
import sys
import time

import pytest
from harness import HERE, Rig, wait_until

TTL = 1000  # ms
STEP = TTL // 100  # docs/design/0004-windows-timers.md
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: shop}}
spec:
  inputs: [{{topic: clicks}}]
  stores: [{{name: recent, ttl: {ttl}ms, backend: {backend}}}]
  outputs: [{{topic: told, create: {{partitions: 2}}}}]
"""


class Shop(Rig):
    def __init__(self, folder, backend="Disk"):
        super().__init__(folder, name="shop", partitions=2, worker=[sys.executable, HERE / "ttl_worker.py"])
        self.manifest.write_text(MANIFEST.format(backend=backend, ttl=TTL))
        self.n = 0

    def click(self, rows):
        """Rows are (key, timestamp); a command that is killed meanwhile may write some of them."""
        lines = []
        for key, timestamp in rows:
            self.n += 1
            lines.append(json.dumps({"key": key, "n": self.n, "at": timestamp}))
        self.command("produce", "clicks", "--data", self.data, "--key", "key", "--timestamp", "at", "--partitions", self.partitions,
                     stdin=("\n".join(lines) + "\n").encode(), check=False)

    def input(self):
        """[(partition, timestamp, key, n)] in the order of each partition."""
        return [(p, t, k.decode(), json.loads(v)["n"]) for p, _, t, k, v in sorted(self.consume("clicks"))]

    def told(self):
        return sorted((k.decode(), json.loads(v)["n"], json.loads(v)["before"]) for _, _, _, k, v in self.consume("told"))

    def remembered(self):
        """{key: n} by the command line; None while the task is not there."""
        done = self.command("state", "scan", "recent", "--data", self.data, "--limit", 10_000_000, "-o", "json", check=False)
        if done.returncode != 0:
            assert b"UNAVAILABLE" in done.stderr, done.stderr.decode(errors="replace")
            return None
        rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return {row["key"]: row["value"] for row in rows}

    def kept(self):
        """The keys that the changelog holds, hidden ones too."""
        last = {}
        for _, _, _, key, value in sorted(self.consume("default.shop-recent-changelog")):
            last[key.decode()] = value
        return {key for key, value in last.items() if value is not None}


def expected(rows):
    """What must have been told, and what is remembered at the end."""
    stream, written, told = {}, {}, []

    def visible(partition, key):
        if (partition, key) not in written:
            return None
        n, at = written[(partition, key)]
        return n if stream[partition] // STEP * STEP < -(-at // STEP) * STEP + TTL else None

    for partition, timestamp, key, n in rows:
        stream[partition] = max(timestamp, stream.get(partition, timestamp))
        told.append((key, n, visible(partition, key)))
        written[(partition, key)] = (n, timestamp)
    remembered = {key: visible(partition, key) for partition, key in written}
    return sorted(told), {key: n for key, n in remembered.items() if n is not None}


def settle(shop):
    told, remembered = expected(shop.input())
    wait_until(lambda: len(shop.told()) >= len(told), lambda: f"{len(shop.told())} of {len(told)}\n{shop.log()[-3000:]}")
    assert shop.told() == told
    wait_until(lambda: shop.remembered() == remembered, lambda: f"{shop.remembered()} instead of {remembered}")
    return told, remembered


def sweep(shop, now):
    """Time passes everything: all that is forgotten goes from the changelog, too."""
    shop.click([(f"last-{i}", now + 10 * TTL) for i in range(20)])
    _, remembered = settle(shop)
    assert remembered and all(key.startswith("last-") for key in remembered)
    wait_until(lambda: shop.kept() == set(remembered), lambda: f"{shop.kept()} instead of {set(remembered)}\n{shop.log()[-3000:]}")
    assert shop.stop() == 0, shop.log()[-3000:]
    assert shop.remembered() == remembered, "read from the folder"


def batch(seed, now, count):
    """Rows around a time that moves on, some of them late; some keys come often, some seldom."""
    rows = []
    for _ in range(count):
        now += seed.choice([0, 1, 5, 20, 20, 200])
        rows.append((f"key-{seed.choice([seed.randrange(5), seed.randrange(200)])}", now - seed.choice([0, 0, 0, 15, 700, 3000])))
    return rows, now


@pytest.fixture
def shop(tmp_path):
    made = []

    def make(**options):
        made.append(Shop(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_nothing_is_killed(shop, seed):
    s = shop()
    rows, now = batch(seed, int(time.time() * 1000) - 86_400_000, 1000)
    s.click(rows)
    s.start()
    told, _ = settle(s)
    assert any(before is not None for _, _, before in told)
    assert len({key for key, _, _ in told}) < sum(before is None for _, _, before in told), "some were forgotten"
    sweep(s, now)


@pytest.mark.parametrize("backend", ["Disk", "Memory"])
def test_killed_at_random_times(shop, seed, backend):
    s = shop(backend=backend)
    now = int(time.time() * 1000) - 86_400_000
    for _ in range(int(os.environ.get("FAULTS_ROUNDS", "8"))):
        rows, now = batch(seed, now, seed.randrange(1, 200))
        s.click(rows)
        s.start(mode=seed.choice(["", "slow"]))
        time.sleep(seed.random() * seed.choice([0.3, 0.8, 1.5]))  # a random time, not a wait for anything
        if seed.random() < 0.3 and s.worker_pids():
            s.signal_worker(signal.SIGKILL)
            rows, now = batch(seed, now, 50)
            s.click(rows)
        s.kill()
    s.start()
    settle(s)
    sweep(s, now)
