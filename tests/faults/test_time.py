"""Windows, sessions and timers under kill -9 of the sidecar and of the worker, against a model that knows neither batches nor crashes.

Every window is given once with the records that were in time, every timer comes back once, every visit has all its records.
"""

import json

import pytest
from clicks import ClickRig, killed_at_a_point, killed_at_random_times, shops, yesterday
from harness import wait_until
from time_model import GAP, GRACE, SIZE, batch, expected

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: shop}}
spec:
  guarantee: {guarantee}
  inputs: [{{topic: clicks, lateness: 0s}}]
  timers: {{}}
  stores:
  - {{name: counts, type: Window, backend: {backend}, window: {{size: {size}ms, grace: {grace}ms, emit: Final}}}}
  - {{name: visits, type: Session, backend: {backend}, session: {{gap: {gap}ms, grace: 24h, retention: 240h}}}}
  - {{name: stays, type: Session, backend: {backend}, session: {{gap: {gap}ms, grace: {grace}ms, retention: 240h, emit: Final}}}}
  outputs:
  - {{topic: closed, create: {{partitions: 2}}}}
  - {{topic: reminded, create: {{partitions: 2}}}}
"""


class Shop(ClickRig):
    def __init__(self, folder, guarantee="ExactlyOnce", backend="Disk"):
        super().__init__(folder, "time_worker.py", MANIFEST.format(guarantee=guarantee, backend=backend, size=SIZE, grace=GRACE, gap=GAP))

    def closed(self):
        return sorted((k.decode(), json.loads(v)["start"], json.loads(v)["end"], json.loads(v)["count"]) for _, _, _, k, v in self.consume("closed"))

    def reminded(self):
        return sorted((k.decode(), json.loads(v)["time"]) for _, _, _, k, v in self.consume("reminded"))

    def visits(self):
        """{(key, start, end): count} of the sessions."""
        rows = self.scan("visits")
        return None if rows is None else {(row["key"], row["start"], row["end"]): row["value"] for row in rows}


def settle(shop, outputs_once=True):
    """Waits for all that must come, then sees that nothing more came."""
    closed, reminded, visits = expected(shop.input())
    what = lambda: f"{len(shop.closed())} of {len(closed)} windows, {len(shop.reminded())} of {len(reminded)} timers\n{shop.log()[-3000:]}"
    many = lambda rows: rows if outputs_once else sorted(set(rows))
    wait_until(lambda: len(many(shop.closed())) >= len(closed) and len(many(shop.reminded())) >= len(reminded), what)
    wait_until(lambda: shop.visits() == visits, lambda: f"{shop.visits()} instead of {visits}")
    assert many(shop.closed()) == closed
    assert many(shop.reminded()) == reminded
    return closed, reminded, visits


@pytest.fixture
def shop(tmp_path):
    yield from shops(Shop, tmp_path)


def test_nothing_is_killed(shop, seed):
    s = shop()
    rows, _ = batch(seed, yesterday(), 2000)
    s.click(rows)
    s.start()
    closed, reminded, visits = settle(s)
    assert closed and reminded and len(visits) > 1
    assert s.stop() == 0, s.log()[-3000:]
    assert (s.closed(), s.reminded(), s.visits()) == (closed, reminded, visits)


@pytest.mark.parametrize("guarantee,backend", [("ExactlyOnce", "Disk"), ("ExactlyOnce", "Memory"), ("AtLeastOnce", "Disk")])
def test_killed_at_random_times(shop, seed, guarantee, backend):
    s = shop(guarantee=guarantee, backend=backend)
    killed_at_random_times(s, seed, batch, yesterday(), rounds=12, most=300)
    settle(s, outputs_once=guarantee == "ExactlyOnce")


@pytest.mark.parametrize("point", ["after-reply", "after-flush", "commit-done-not-applied", "half-applied-flush"])
def test_killed_at_a_point(shop, seed, point):
    s = shop()
    killed_at_a_point(s, seed, batch, yesterday(), point, 2)
    settle(s)
