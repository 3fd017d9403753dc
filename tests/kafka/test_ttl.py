"""A store with `ttl` on real brokers, under kill -9, against the model of tests/faults/ttl_model.py."""

import json
import pathlib

import clients
from click_group import ClickGroup
from harness import wait_until
from ttl_model import TTL, batch, expected

WORKER = pathlib.Path(__file__).resolve().parents[1] / "faults" / "ttl_worker.py"
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: clicks, topic: {input}}}]
  stores: [{{name: recent, ttl: {ttl}ms}}]
  outputs: [{{name: told, topic: {output}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
"""


class Shop(ClickGroup):
    store = "recent"
    batch = staticmethod(batch)

    def __init__(self, folder, cluster, proxy=None, **options):
        super().__init__(folder, cluster, proxy, worker=WORKER, **options)
        self.recent = f"{self.group}-recent-changelog"
        self.manifest.write_text(MANIFEST.format(name=self.name, input=self.input, output=self.output, ttl=TTL))

    def told(self):
        return sorted((key.decode(), json.loads(value)["n"], json.loads(value)["before"])
                      for _, _, _, key, value, _ in clients.read(self.config, self.output))

    def remembered(self):
        return {key.decode(): n for key, n in self.state().items()}

    def kept(self):
        """The keys that the changelog holds, hidden ones too."""
        last = {key.decode(): value for _, _, _, key, value, _ in clients.read(self.config, self.recent)}
        return {key for key, value in last.items() if value is not None}

    def settle(self):
        """Everything was told, and nothing twice; what is remembered is what the model remembers."""
        told, remembered = expected(self.clicks())
        wait_until(lambda: self.tail.count() >= len(told), lambda: f"{self.tail.count()} of {len(told)} outputs\n{self.logs()}")
        wait_until(lambda: self.remembered() == remembered, lambda: f"{self.remembered()} instead of {remembered}\n{self.logs()}")
        assert self.told() == told
        return told, remembered


def test_what_is_forgotten_stays_forgotten_under_kills(group, one, seed):
    g = group(one, kind=Shop)
    g.killed_under_load(seed, g.tail)
    # Another machine: the age of each row, and what time it is, come from the topics.
    g.member()
    g.click_on(seed, 300)
    told, remembered = g.settle()
    assert any(before is not None for _, _, before in told), "some were remembered"
    assert len(remembered) < len({key for key, _, _ in told}), "some were forgotten"
    # Time passes everything: the changelog forgets it too.
    g.click([(f"last-{i}", g.now + 10 * TTL) for i in range(20)])
    _, remembered = g.settle()
    assert remembered and all(key.startswith("last-") for key in remembered)
    wait_until(lambda: g.kept() == set(remembered), lambda: f"{g.kept()} instead of {set(remembered)}\n{g.logs()}")
