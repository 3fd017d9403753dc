"""Clicks on real brokers: a processor of event time, what it is given, and the kills it has to survive."""

import json
import time

import clients
from harness import Group, wait_until

POINTS = ("after-reply:2", "after-flush:3", "commit-done-not-applied:2")


class ClickGroup(Group):
    """`batch` (of a model in tests/faults) makes clicks of a seed, from a time on; returns them, and the time they have come to."""

    batch = None

    def __init__(self, folder, cluster, proxy=None, **options):
        super().__init__(folder, cluster, proxy, partitions=2, **options)
        self.now = int(time.time() * 1000) - 86_400_000

    def click(self, rows):
        for key, timestamp in rows:
            self.producer.produce(self.input, json.dumps({"n": next(self.numbers)}), key, timestamp=timestamp)
        assert self.producer.flush(60) == 0

    def click_on(self, seed, count):
        """More clicks, later than all before."""
        rows, self.now = type(self).batch(seed, self.now, count)
        self.click(rows)

    def clicks(self):
        """(partition, time, key, n) of all that was given."""
        return [(p, t, key.decode(), json.loads(value)["n"]) for p, _, t, key, value, _ in clients.read(self.config, self.input)]

    def killed_under_load(self, seed, tail):
        """A slow member that dies at each of POINTS while clicks come; every time `tail` gets something, or the member is dead."""
        first = self.member(mode="slow")
        for point in POINTS:
            if not first.process:
                first.start(mode="slow", crash_at=point)
            done = tail.count()
            self.click_on(seed, 300)
            wait_until(lambda: tail.count() > done or not first.alive(), self.logs)
            first.kill()
