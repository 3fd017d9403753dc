"""What every measurement stands on: one real broker, topics, input, and an independent look at what was committed."""

import json
import pathlib
import shutil
import subprocess
import sys
import time
import uuid

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "testbed" / "kafka"))
import brokers  # noqa: E402
import clients  # noqa: E402
from confluent_kafka import IsolationLevel, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, OffsetSpec  # noqa: E402

PARTITIONS = 8
SAMPLE_SECONDS = 0.02
SETTLED_SECONDS = 1.0  # outputs that do not grow for so long have all come: several times the pace of commits

# The broker is a measured part: the test bed's settings that make faults quick are put back to Kafka's defaults, and it gets the optimizing compiler.
BROKER_PROPERTIES = {"log.cleaner.backoff.ms": 15000, "log.cleaner.dedupe.buffer.size": 128 << 20, "num.io.threads": 8, "num.network.threads": 3,
                     "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10000, "log.index.size.max.bytes": 10 << 20}
BROKER_HEAP_MB = 1024
BROKER_JVM = ["-XX:TieredStopAtLevel=4"]


class Progress:
    """How many records of a topic a read_committed reader can see, from the last stable offsets (markers of transactions are counted too: under one in a
    thousand at these rates; a run's exact count is checked afterwards)."""

    def __init__(self, config, topic, partitions=PARTITIONS):
        self.client = AdminClient(clients.quiet(config))
        self.asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}

    def __call__(self):
        return clients.patiently(self.ask)  # a topic that was just made has no leader for a moment

    def ask(self):
        answers = self.client.list_offsets(self.asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=30)
        return sum(answer.result(60).offset for answer in answers.values())


class Bed:
    """A broker with a folder; `with` ends and removes both."""

    def __init__(self, folder, programs):
        self.folder, self.programs = pathlib.Path(folder), pathlib.Path(programs)
        self.cluster = brokers.Cluster(self.folder / "broker", heap_mb=BROKER_HEAP_MB, properties=BROKER_PROPERTIES)
        self.cluster.jvm = BROKER_JVM

    def __enter__(self):
        self.cluster.start()
        self.config = self.cluster.client()
        self.bootstrap = self.cluster.bootstrap()
        return self

    def __exit__(self, *_):
        self.cluster.close()

    # ---------------------------------------------------------------- topics

    def topic(self, purpose):
        """A new topic of 8 partitions with a name of its own."""
        name = f"{purpose}-{uuid.uuid4().hex[:8]}"
        clients.create_topic(self.config, name, PARTITIONS)
        return name

    def remove_topics(self, *parts):
        """All topics with one of these in their name: the disk is small."""
        for name in clients.topics(self.config):
            if any(part in name for part in parts):
                clients.delete_topic(self.config, name)

    def load(self, command, **options):
        """Runs kafka_load (its arguments are described in kafka_load.cc) and returns what it printed."""
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        done = subprocess.run([self.programs / "kafka_load", command, f"--bootstrap={self.bootstrap}", *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise machine.Failed(f"kafka_load {command} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    # ---------------------------------------------------------------- jobs

    def job(self, task="count", input=None, guarantee="ExactlyOnce", low_latency=False):
        """A new job with an output topic and a folder of its own."""
        name = f"bench-{uuid.uuid4().hex[:8]}"
        folder = self.folder / name
        folder.mkdir(parents=True)
        output = f"{name}-output"
        clients.create_topic(self.config, output, PARTITIONS)
        return Job(name, self.bootstrap, input or self.topic("input"), output, task, guarantee, low_latency, folder)

    def end(self, job):
        """Removes what the job left on the broker and on the disk, its input apart."""
        self.remove_topics(job.name)
        shutil.rmtree(job.folder, ignore_errors=True)

    def check(self, job):
        """Exactly one output per input, and the right counts; returns what was compared."""
        return self.load("check", input=job.input, output=job.output, values="count" if job.counts else "any")

    def wait_outputs(self, job, process, goal, deadline, progress=None):
        """Until `goal` outputs are committed and no more come; returns the samples [(time, outputs)], of which the last one is where they ended."""
        progress = progress or Progress(self.config, job.output)
        samples = [(time.monotonic(), progress())]
        end = samples[0][0] + deadline
        while True:
            time.sleep(SAMPLE_SECONDS)
            seen, now = progress(), time.monotonic()
            if seen != samples[-1][1]:
                samples.append((now, seen))
            elif seen >= goal and now - samples[-1][0] > SETTLED_SECONDS:
                return samples
            process.check_alive()
            if now > end:
                process.fail(f"{seen} of {goal} outputs after {deadline} s")


class Job:
    """What a peer is asked to do.

    name         unique; group, application id, prefix of everything it makes
    kafka        bootstrap servers
    input, output   topics of the same number of partitions
    task         count: state is the number of records of a key, and so is the output
                 keep: state is the last value of a key, the output its length
    guarantee    ExactlyOnce or AtLeastOnce
    low_latency  whatever makes it answer soonest, at the cost of throughput
    folder       for state and logs; kept when the peer is started again
    counts       whether its outputs are counts: a peer without state (the floor) sets it to False
    record_bytes    key and value of a record of the state
    """

    def __init__(self, name, kafka, input, output, task, guarantee, low_latency, folder):
        self.name, self.kafka, self.input, self.output = name, kafka, input, output
        self.task, self.guarantee, self.low_latency, self.folder = task, guarantee, low_latency, folder
        self.counts, self.record_bytes = task == "count", 0
