"""A store with `ttl` under kill -9 of the sidecar and of the worker, against a model that knows neither batches nor crashes."""

import json

import pytest
from clicks import ClickRig, killed_at_random_times, shops, yesterday
from harness import wait_until
from ttl_model import TTL, batch, expected

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: shop}}
spec:
  inputs: [{{topic: clicks}}]
  stores: [{{name: recent, ttl: {ttl}ms, backend: {backend}}}]
  outputs: [{{topic: told, create: {{partitions: 2}}}}]
"""


class Shop(ClickRig):
    def __init__(self, folder, backend="Disk"):
        super().__init__(folder, "ttl_worker.py", MANIFEST.format(backend=backend, ttl=TTL))

    def told(self):
        return sorted((k.decode(), json.loads(v)["n"], json.loads(v)["before"]) for _, _, _, k, v in self.consume("told"))

    def remembered(self):
        """{key: n} by the command line; None while the task is not there."""
        rows = self.scan("recent")
        return None if rows is None else {row["key"]: row["value"] for row in rows}

    def kept(self):
        """The keys that the changelog holds, hidden ones too."""
        last = {}
        for _, _, _, key, value in sorted(self.consume("default.shop-recent-changelog")):
            last[key.decode()] = value
        return {key for key, value in last.items() if value is not None}


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


@pytest.fixture
def shop(tmp_path):
    yield from shops(Shop, tmp_path)


def test_nothing_is_killed(shop, seed):
    s = shop()
    rows, now = batch(seed, yesterday(), 1000)
    s.click(rows)
    s.start()
    told, _ = settle(s)
    assert any(before is not None for _, _, before in told)
    assert len({key for key, _, _ in told}) < sum(before is None for _, _, before in told), "some were forgotten"
    sweep(s, now)


@pytest.mark.parametrize("backend", ["Disk", "Memory"])
def test_killed_at_random_times(shop, seed, backend):
    s = shop(backend=backend)
    now = killed_at_random_times(s, seed, batch, yesterday(), rounds=8, most=200)
    settle(s)
    sweep(s, now)
