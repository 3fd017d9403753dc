"""The floor: a transaction loop on bare librdkafka (rdkafka_loop.cc), without state, group and user code."""

import pathlib

import clients
import machine
from bed import PARTITIONS
from peers.peer import Peer


class Floor(Peer):
    def __init__(self, programs, commit_ms=100):
        self.programs, self.commit_ms = pathlib.Path(programs), commit_ms
        self.label = f"bare librdkafka loop, {commit_ms} ms"

    def start(self, job):
        job.counts = False
        changelog = f"{job.name}-changelog"
        config = {"bootstrap.servers": job.kafka}
        if changelog not in clients.topics(config):
            clients.create_topic(config, changelog, PARTITIONS)
        return machine.Process([self.programs / "rdkafka_loop", f"--bootstrap={job.kafka}", f"--group={job.name}", f"--input={job.input}",
                                f"--output={job.output}", f"--changelog={changelog}", f"--commit-ms={self.commit_ms}"], job.folder / "loop.log")

    def wipe(self, job):
        """It has none."""
