"""A steady load of numbered events on a processor, and the verdict: nothing lost, nothing doubled (tests/testbed/kafka/verifier.py)."""

import json
import threading
import time

import clients
import verifier
from confluent_kafka import Producer

KEYS = 40


class Load:
    """Writes events from a thread until close(). The topics must be there."""

    def __init__(self, world, namespace, name, rate=100):
        self.world, self.namespace, self.name, self.rate = world, namespace, name, rate
        self.config = world.kafka.client("INTERNAL")
        self.input, self.output, self.group = f"{name}-in", f"{name}-out", f"{namespace}.{name}"
        self.number, self.ended = 0, False
        self.tail = None
        self.writing = threading.Lock()  # held while events are written, and while there must be none
        self.producer = Producer({**clients.quiet(self.config), "acks": "all", "enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random", "message.timeout.ms": 600_000})
        self.thread = threading.Thread(target=self._run, daemon=True, name=f"load {name}")

    def start(self):
        self.tail = verifier.Tail(self.config, self.output)
        self.thread.start()
        return self

    def _run(self):
        while not self.ended:
            began = time.monotonic()
            with self.writing:
                for _ in range(max(1, self.rate // 10)):
                    self.number += 1
                    self.producer.produce(self.input, json.dumps({"n": self.number}).encode(), f"key-{self.number % KEYS}".encode())
            self.producer.poll(0)
            time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))

    def count(self):
        """Outputs that a reader of committed records has seen."""
        return self.tail.count()

    def wait_progress(self, more=50):
        """Until so many more outputs are committed."""
        goal = self.count() + more
        self.world.wait(lambda: self.count() >= goal, f"{self.name} to go on")

    def problems(self):
        """Holds the load, waits until all of it is processed, compares, and goes on."""
        with self.writing:
            assert self.producer.flush(clients.DEADLINE) == 0, "events were never acknowledged"
            self.world.wait(lambda: self.count() >= self.number and not verifier.check_offsets(self.config, self.group, self.input),
                            f"{self.name} to process {self.number} events")
            return verifier.verify(self.config, group=self.group, inputs=self.input, outputs=self.output, changelog=f"{self.group}-ledger-changelog",
                                   state=None, tail=self.tail)

    def close(self):
        self.ended = True
        if self.thread.ident:
            self.thread.join()
        if self.tail:
            self.tail.close()
