"""Windowed counts beside Kafka Streams: the same input, the same windows and grace; what every window ends with must be the same.

Both read one topic of one broker, each with its own group; a third computation, from the rules as the guide gives them, must agree with
both, so that no difference hides in a misunderstanding they share. Millstream is killed in the middle, Kafka Streams is not: it forgets
how far time had come when it is restarted, and takes records then that it would have dropped.

Where they differ, and why (docs/guides/coming-from-kafka-streams.md):
- records without a key move stream time here, and are skipped before that there;
- windows that begin before 1970 are windows like all others here, and there are none there;
- a record exactly gap + grace behind the end of a session may still join it here; there, with the retention that sessions have by
  default, the session is gone one millisecond earlier than records for it are refused. Kept for longer, both take it.
"""

import csv
import datetime
import itertools
import pathlib
import subprocess
import sys
import uuid
from collections import Counter

import brokers  # noqa: F401  (the test bed is on the path with it)
import clients
import kafka_streams
import pytest
from confluent_kafka import Producer
from harness import BIN, DEADLINE, ROOT, wait_until

HERE = pathlib.Path(__file__).resolve().parent
PARTITIONS = 4
HOUR = 3_600_000
PATIENCE = 600.0  # seconds; a JVM takes its time where the machine is busy
MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  kafka: {{bootstrapServers: "replaced:1"}}
  inputs: [{{name: records, topic: {input}}}]
  stores:
  - {{name: tumbling, type: Window, window: {{size: {size}ms, grace: {grace}ms, emit: Final}}}}
  - {{name: hopping, type: Window, window: {{size: {size}ms, advance: {advance}ms, grace: {grace}ms, emit: Final}}}}
  - {{name: sessions, type: Session, session: {{gap: {gap}ms, grace: {grace}ms}}}}
  - {{name: kept-sessions, type: Session, session: {{gap: {gap}ms, grace: {grace}ms, retention: {retention}ms}}}}
  outputs: [{{name: counts, topic: {output}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
"""


class Rules:
    """Windows in milliseconds, and the counts they must end with."""

    def __init__(self, size, advance, gap, grace, retention):
        self.size, self.advance, self.gap, self.grace = size, advance, gap, grace
        self.retention = retention  # of kept sessions, from their end; the others': gap + grace

    def expected(self, records, as_streams):
        """({KIND|KEY|START|END: count}, how much was too late per kind) for (partition, key, time) in the order of each partition; with the
        differences that are known, as Millstream does it or as Kafka Streams."""
        found, dropped, sessions, now = Counter(), Counter(), {}, {}
        for partition, key, time in records:
            if key is None and as_streams:
                continue
            now[partition] = stream = max(time, now.get(partition, time))
            if key is None:
                continue
            for kind, advance in (("tumbling", self.size), ("hopping", self.advance)):
                for start in range(((time - self.size) // advance + 1) * advance, time + 1, advance):
                    if start + self.size + self.grace <= stream:
                        dropped[kind] += 1
                    elif start >= 0 or not as_streams:
                        found[f"{kind}|{key}|{start}|{start + self.size}"] += 1
            gone = stream - self.gap - self.grace
            for kind, last in (("sessions", gone + as_streams), ("kept-sessions", stream - self.retention)):
                self.session(sessions.setdefault((kind, key), {}), kind, time, gone, last, dropped)
        # The last records of a bout are so far ahead that all windows close but their own.
        found.update({name.replace("|", "-closed|", 1): count for name, count in found.items() if "|end-" not in name})
        for (kind, key), known in sessions.items():
            found.update({f"{kind}|{key}|{start}|{end}": count for (start, end), count in known.items()})
        return dict(found), dropped

    def session(self, known, kind, time, gone, last, dropped):
        """Adds a record to {(start, end): count}. What ended before `gone` takes no record, what ended before `last` is not there any more."""
        joined = [bounds for bounds in known if bounds[0] - self.gap <= time <= bounds[1] + self.gap and bounds[1] >= last]
        start, end = min([time, *(start for start, _ in joined)]), max([time, *(end for _, end in joined)])
        if end < gone:
            dropped[kind] += 1
            return
        dropped["merged"] += len(joined) > 1
        known[start, end] = 1 + sum(known.pop(bounds) for bounds in joined)

    def reach(self):
        return 2 * self.size + self.gap + self.grace


class Bout:
    """One input topic, and what each side makes of it."""

    def __init__(self, folder, cluster, rules, records):
        self.folder, self.rules, self.cluster, self.config = folder, rules, cluster, cluster.client()
        self.id = uuid.uuid4().hex[:8]
        self.input = f"windows-{self.id}"
        clients.create_topic(self.config, self.input, PARTITIONS, retention_ms=-1)
        self.produce(records)
        self.records = [(partition, key and key.decode(), timestamp) for partition, _, timestamp, key, *_ in clients.read(self.config, self.input)]
        self.processes = []

    def produce(self, records):
        """(key, timestamp) in this order; then some that are beyond the reach of all windows, so that every partition gets one."""
        errors = []
        producer = Producer({**clients.quiet(self.config), "acks": "all", "enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random",
                             "sticky.partitioning.linger.ms": 0})
        after = max(timestamp for _, timestamp in records) + self.rules.reach()
        for key, timestamp in [*records, *((f"end-{number}", after) for number in range(40))]:
            producer.produce(self.input, b"x", key, timestamp=timestamp, on_delivery=lambda error, _: errors.append(error) if error else None)
            producer.poll(0)
        assert producer.flush(DEADLINE) == 0 and not errors, errors
        assert all(clients.ends(self.config, self.input).values()), "no record in some partition"

    def output(self, who):
        name = f"{who}-{self.id}"
        clients.create_topic(self.config, name, PARTITIONS, retention_ms=-1)
        return name

    def start(self, name, command, **options):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes.append(subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options))
        self.cluster.watchdog.tell("add", self.processes[-1].pid)  # ends with the brokers, however this process ends
        return self.processes[-1]

    def streams(self):
        rules, output = self.rules, self.output("streams")
        properties = {"application.id": f"streams-{self.id}", "bootstrap.servers": self.cluster.bootstrap(), "processing.guarantee": "exactly_once_v2",
                      "num.stream.threads": 1, "statestore.cache.max.bytes": 0, "state.dir": self.folder / "streams", "replication.factor": 1, "auto.offset.reset": "earliest",
                      # Its windows on disk are a RocksDB for each minute and partition: hundreds of synced files, which a busy disk makes minutes.
                      "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
                      # Nothing of it is to be given up because the machine is busy.
                      "producer.transaction.timeout.ms": 300_000, "session.timeout.ms": 45_000, "max.poll.interval.ms": 600_000,
                      "commit.interval.ms": 500}
        process = self.start("streams", [
            "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.kstream.internals=error",  # a line for each late record
            "-cp", kafka_streams.classpath(HERE / "WindowedCounts.java"), "WindowedCounts", self.input, output,
            rules.size, rules.advance, rules.gap, rules.grace, rules.retention, *(f"{name}={value}" for name, value in properties.items())])
        return output, f"streams-{self.id}", process

    def millstream(self, output=None):
        output = output or self.output("millstream")
        manifest = self.folder / "processor.yaml"
        manifest.write_text(MANIFEST.format(name=f"windows-{self.id}", input=self.input, output=output, **vars(self.rules)))
        process = self.start("millstream", [BIN / "millstream", "run", "-f", manifest, "--kafka", self.cluster.bootstrap(), "--data", self.folder / "data",
                                            "--http", "127.0.0.1:0", "--", sys.executable, HERE / "windows_worker.py"])
        return output, f"default.windows-{self.id}", process

    def log(self, name):
        return f"--- {name}\n" + (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def committed(self, group):
        return sum(clients.committed(self.config, group, self.input, range(PARTITIONS)).values())

    def wait_read(self, name, group, process, share=1.0):
        """Until the group has committed this share of the input."""
        goal = share * sum(clients.ends(self.config, self.input).values())

        def there():
            assert process.poll() is None, f"it ended with {process.returncode}\n{self.log(name)}"
            return self.committed(group) >= goal

        wait_until(there, lambda: f"{self.committed(group)} of {goal} records are committed\n{self.log(name)}", PATIENCE)

    def results(self, output):
        """What every window ended with: the last record of its key. One that is closed must be so once."""
        found, closed = {}, Counter()
        for _, _, _, key, value, _ in clients.read(self.config, output):
            name = key.decode()
            found[name] = None if value is None else int(value)
            closed[name] += "-closed|" in name
        assert max(closed.values()) == 1, [name for name, count in closed.items() if count > 1][:10]
        return {name: count for name, count in found.items() if count is not None}

    def check(self, name, output):
        """The closings that the last records cause may follow them. Returns what was expected, and what was dropped."""
        expected, dropped = self.rules.expected(self.records, as_streams=name == "streams")

        def same():
            self.found = self.results(output)
            return self.found == expected

        try:
            wait_until(same, "", 120)
        except AssertionError:
            differences = {each: (self.found.get(each), expected.get(each)) for each in sorted(self.found.keys() | expected.keys())
                           if self.found.get(each) != expected.get(each)}
            raise AssertionError(f"{name}: {len(differences)} of {len(expected)} windows differ, (found, expected): "
                                 f"{dict(list(differences.items())[:20])}\n{self.log(name)}") from None
        return expected, dropped

    def run(self):
        """Both at once. Returns the names of the windows that differ as they must, and how much was too late here."""
        streams = self.streams()
        output, group, process = self.millstream()
        self.wait_read("millstream", group, process, 0.3)
        process.kill()
        process.wait(DEADLINE)
        _, _, process = self.millstream(output)
        self.wait_read("millstream", group, process)
        here, dropped = self.check("millstream", output)
        output, group, process = streams
        self.wait_read("streams", group, process)
        there, _ = self.check("streams", output)
        return {name for name in here.keys() | there.keys() if here.get(name) != there.get(name)}, dropped

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(DEADLINE)
            self.cluster.watchdog.tell("end", process.pid)
        self.processes.clear()


@pytest.fixture
def bout(tmp_path, one):
    made = []

    def make(rules, records):
        made.append(Bout(tmp_path, one[0], rules, records))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_random_records(bout, seed):
    """Times in whole seconds, so that records lie exactly on every edge: of windows, of gap, of grace."""
    now, records = 1_000_000_000_000, []
    records += [("key-1970", 1000 * second) for second in range(1, 6)]
    # Its second record makes the first one's session as old as can be; the third one is a gap behind it.
    records += [("key-edge", now - 100_000), ("key-edge", now - 100_000 + 3_000 + 5_000), ("key-edge", now - 100_000 + 3_000)]
    # Those without a key go to all partitions; the one behind them is late here.
    records += [("key-after", now), *[(None, now + 60_000)] * 60, ("key-after", now + 1_000)]
    now += 100_000
    for _ in range(2000):
        now += seed.choice([0, 0, 0, 1000, 1000, 2000, 9000]) if seed.random() < 0.5 else 0
        records.append((f"key-{seed.randrange(12)}", now - 1000 * seed.choice([0, 0, 1, 2, 3, 5, 8, 13, 21, 34])))
    differ, dropped = bout(Rules(10_000, 4_000, 3_000, 5_000, 3_600_000), records).run()
    check_late(dropped)
    named = {name.split("|")[1]: set() for name in differ}
    for kind, key, *_ in (name.split("|") for name in differ):
        named[key].add(kind)
    assert named.pop("key-1970") == {"hopping", "hopping-closed"}
    assert named.pop("key-edge") == {"sessions"}
    assert "tumbling" in named.pop("key-after")
    assert all(kinds == {"sessions"} for kinds in named.values()), named


def check_late(dropped):
    """That there was something to get wrong."""
    assert all(dropped[what] > 20 for what in ("tumbling", "hopping", "sessions", "kept-sessions")) and dropped["merged"] > 3, dropped


def test_real_flights(bout, seed):
    """Departures of the flights example, some up to three hours late: hours, hours every twenty minutes, and rushes of an airport."""
    sys.path.insert(0, str(ROOT / "examples" / "flights"))
    import data
    with open(data.csv_path(), newline="", encoding="ascii") as file:
        rows = list(itertools.islice(csv.DictReader(file), 4000))
    flights = []
    for row in rows:
        when = datetime.datetime.strptime("2001" + row["date"], "%Y%m%d%H%M").replace(tzinfo=datetime.timezone.utc)
        departed = int(when.timestamp()) * 1000
        flights.append((departed + seed.choice([0, 0, 0, seed.randrange(3 * HOUR)]), row["origin"], departed))
    rules = Rules(HOUR, HOUR // 3, HOUR // 2, HOUR, 24 * HOUR)
    differ, dropped = bout(rules, [(origin, departed) for _, origin, departed in sorted(flights)]).run()
    check_late(dropped)
    assert {name.split("|")[0] for name in differ} <= {"sessions"}, differ
