"""Kafka Streams: the program of bench/kafka/streams."""

import pathlib
import re
import shutil

import kafka_streams
import machine
from peers.peer import Peer

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "streams" / "StreamsPeer.java"
GUARANTEES = {"ExactlyOnce": "exactly_once_v2", "AtLeastOnce": "at_least_once"}
HEAP_MB = 1024


class Streams(Peer):
    """As its documentation sets it up, but for: the cache of the store off (each input has its output, as everywhere here), a static member (else a
    killed one is waited for), and linger 0 where latency is measured."""

    def __init__(self, threads=1):
        self.threads = threads
        self.label = f"Kafka Streams, {threads} thread{'s' if threads > 1 else ''}"

    def prepare(self):
        kafka_streams.classpath(SOURCE)

    def start(self, job):
        properties = {"application.id": job.name, "bootstrap.servers": job.kafka, "processing.guarantee": GUARANTEES[job.guarantee],
                      "num.stream.threads": self.threads, "state.dir": job.folder / "state", "statestore.cache.max.bytes": 0,
                      "replication.factor": 1, "auto.offset.reset": "earliest", "group.instance.id": f"{job.name}-0"}
        if job.low_latency:
            properties["producer.linger.ms"] = 0
        log = job.folder / "streams.log"
        log.unlink(missing_ok=True)  # what restored() reads is about this start
        process = machine.Process(["java", f"-Xmx{HEAP_MB}m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", kafka_streams.classpath(SOURCE),
                                "StreamsPeer", job.task, job.input, job.output, *(f"{name}={value}" for name, value in properties.items())],
                                  log)
        process.record_bytes = job.record_bytes
        return process

    def wipe(self, job):
        shutil.rmtree(job.folder / "state", ignore_errors=True)

    def restored(self, process):
        """From the begin of the first restore to the end of the last one; it tells records, not bytes."""
        log = process.log(1 << 30)
        begins = [int(time) for time in re.findall(r"^RESTORING (\d+) ", log, re.M)]
        ends = [(int(time), int(records)) for time, records in re.findall(r"^RESTORED (\d+) \S+ (\d+)$", log, re.M)]
        if not ends:
            return 0.0, 0
        return (max(time for time, _ in ends) - min(begins)) / 1000, sum(records for _, records in ends) * process.record_bytes
