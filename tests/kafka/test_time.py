"""Windows, sessions and timers on real brokers, under kill -9, against the model of tests/faults/time_model.py."""

import json
import pathlib

import clients
import verifier
from click_group import ClickGroup
from harness import wait_until
from time_model import GAP, GRACE, SIZE, batch, expected

WORKER = pathlib.Path(__file__).resolve().parents[1] / "faults" / "time_worker.py"
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: clicks, topic: {input}, lateness: 0s}}]
  timers: {{}}
  stores:
  - {{name: counts, type: Window, window: {{size: {size}ms, grace: {grace}ms, emit: Final}}}}
  - {{name: visits, type: Session, session: {{gap: {gap}ms, grace: 24h, retention: 240h}}}}
  - {{name: stays, type: Session, session: {{gap: {gap}ms, grace: {grace}ms, retention: 240h, emit: Final}}}}
  outputs: [{{name: closed, topic: {output}}}, {{name: reminded, topic: {reminded}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
"""


class Shop(ClickGroup):
    store = "visits"
    batch = staticmethod(batch)

    def __init__(self, folder, cluster, proxy=None, **options):
        super().__init__(folder, cluster, proxy, worker=WORKER, **options)
        self.reminded_topic = f"reminded-{self.id}"
        clients.create_topic(self.config, self.reminded_topic, 2)
        self.reminders = verifier.Tail(self.config, self.reminded_topic)
        self.manifest.write_text(MANIFEST.format(name=self.name, input=self.input, output=self.output, reminded=self.reminded_topic,
                                                 size=SIZE, grace=GRACE, gap=GAP))

    def close(self):
        super().close()
        self.reminders.close()

    def closed(self):
        return sorted((key.decode(), json.loads(value)["start"], json.loads(value)["end"], json.loads(value)["count"])
                      for _, _, _, key, value, _ in clients.read(self.config, self.output))

    def reminded(self):
        return sorted((key.decode(), json.loads(value)["time"]) for _, _, _, key, value, _ in clients.read(self.config, self.reminded_topic))

    def visits(self):
        return {(key.decode(), start, end): count for (key, start, end), count in self.state().items()}

    def settle(self):
        """All that must come does, and nothing more."""
        closed, reminded, visits = expected(self.clicks())
        counts = lambda: f"{self.tail.count()} of {len(closed)} windows, {self.reminders.count()} of {len(reminded)} timers\n{self.logs()}"
        wait_until(lambda: self.tail.count() >= len(closed) and self.reminders.count() >= len(reminded), counts)
        wait_until(lambda: self.visits() == visits, lambda: f"{self.visits()} instead of {visits}")
        assert (self.closed(), self.reminded()) == (closed, reminded)
        assert closed and reminded and len(visits) > 1


def test_windows_sessions_and_timers_under_kills(group, one, seed):
    g = group(one, kind=Shop)
    g.killed_under_load(seed, g.reminders)
    # Another machine: all that is known of time comes from the topics, and late is what was late before.
    g.member()
    g.click_on(seed, 300)
    g.settle()
    g.now += 10_000
    g.click_on(seed, 20)
    g.settle()
