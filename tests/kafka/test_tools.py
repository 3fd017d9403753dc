"""The commands an operator uses, on real brokers: produce, consume, topics, state, lag, reset, dead-letters, adopt, and how they log in."""

import json
import os
import subprocess
import time
import uuid

import brokers  # noqa: F401  (the test bed is on the path with it)
import clients
import pytest
from harness import BIN, DEADLINE, wait_until

MANIFEST = """\
apiVersion: millstream.dev/v1alpha1
kind: StreamProcessor
metadata: {{name: {name}}}
spec:
  group: {group}
  kafka: {{bootstrapServers: "nowhere:1", {kafka}}}
  inputs: [{{topic: {input}}}]
  stores: [{{name: counts}}]
  outputs: [{{topic: {output}, create: {{partitions: 3}}}}]
  membership: {{sessionTimeout: 6s, rebalanceTimeout: 10s}}
  errors: {{maxAttempts: 1, backoff: {{initial: 10ms, max: 10ms}}, onFailure: DeadLetter}}
"""


class Shop:
    """A counting processor with names of its own on one cluster, and the commands against it."""

    def __init__(self, folder, cluster, kafka="config: {}"):
        self.id = uuid.uuid4().hex[:8]
        self.folder, self.cluster, self.kafka = folder, cluster, kafka
        self.group, self.input, self.output = f"count-{self.id}", f"in-{self.id}", f"out-{self.id}"
        self.changelog, self.letters = f"{self.group}-counts-changelog", f"{self.group}-dead-letter"
        self.manifest = folder / "processor.yaml"
        self.write_manifest("counting")
        self.processes = []

    def write_manifest(self, name):
        self.manifest.write_text(MANIFEST.format(name=name, group=self.group, input=self.input, output=self.output, kafka=self.kafka))

    def run(self, *arguments, stdin=None, code=0, kafka=True, env=None):
        """`millstream ARGUMENTS --kafka ...`: its standard output; standard error is kept in `err`."""
        command = [BIN / "millstream", *arguments, *(["--kafka", self.cluster.bootstrap()] if kafka else [])]
        done = subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True, timeout=DEADLINE,
                              cwd=self.folder, env=dict(os.environ, **(env or {})))
        self.err = done.stderr
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def on_processor(self, *arguments, **options):
        return self.run(*arguments, "-f", self.manifest, **options)

    def produce(self, *keys):
        self.run("produce", self.input, "--format", "keyvalue", "--partitions", "3", stdin="".join(f"{key}=1\n" for key in keys))

    def start(self, *worker):
        log = open(self.folder / f"run-{len(self.processes)}.log", "wb")
        command = [BIN / "millstream", "run", "-f", self.manifest, "--kafka", self.cluster.bootstrap(), "--data", self.folder / "data", "--",
                   BIN / "counting_worker", f"--input={self.input}", f"--output={self.output}", *worker]
        self.processes.append(subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return self.processes[-1]

    def stop(self):
        self.processes[-1].terminate()
        assert self.processes[-1].wait(DEADLINE) == 0, self.log()

    def log(self):
        text = (self.folder / f"run-{len(self.processes) - 1}.log").read_text(errors="replace")[-4000:]
        return f"--- run, exit code {self.processes[-1].poll()}\n{text}"

    def counts(self):
        return {row["key"]: row["value"] for row in map(json.loads, self.on_processor("state", "scan", "counts", "-o", "json").splitlines())}

    def wait_counts(self, expected):
        # The changelog is made when the processor starts.
        def there():
            command = [BIN / "millstream", "state", "scan", "counts", "-o", "json", "-f", self.manifest, "--kafka", self.cluster.bootstrap()]
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=DEADLINE)
            self.last = f"exit code {done.returncode}: {done.stdout}{done.stderr}"
            return done.returncode == 0 and {row["key"]: row["value"] for row in map(json.loads, done.stdout.splitlines())} == expected

        wait_until(there, lambda: f"{expected} is not what is there: {self.last}\n{self.log()}")

    def lag(self):
        return json.loads(self.on_processor("lag", "-o", "json"))

    def wait_no_lag(self):
        wait_until(lambda: self.lag()["lag"] == 0, lambda: f"{self.lag()}\n{self.log()}")

    def wait_no_members(self):
        wait_until(lambda: not self.lag()["members"], lambda: f"{self.lag()}")

    def consume(self, topic, *arguments):
        return [json.loads(line) for line in self.run("consume", topic, *arguments).splitlines()]

    def dead_letters(self, *arguments):
        return [json.loads(line) for line in self.on_processor("dead-letters", "list", "-o", "json", *arguments).splitlines()]

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(DEADLINE)


@pytest.fixture
def shop(tmp_path, one):
    made = Shop(tmp_path, one[0])
    yield made
    made.close()


def test_topics_records_and_partitions(shop):
    shop.run("produce", shop.input, "--format", "keyvalue", stdin="a=1\n", code=1)
    assert "--partitions N makes it" in shop.err
    shop.run("topics", "create", shop.input, "--partitions", "5", "--config", "retention.ms=3600000")
    assert json.loads(shop.run("topics", "describe", shop.input, "-o", "json"))["config"]["retention.ms"] == "3600000"
    assert shop.input in shop.run("topics", "list")
    keys = [f"key-{n}" for n in range(200)]
    shop.run("produce", shop.input, "--format", "keyvalue", stdin="".join(f"{key}=1\n" for key in keys))
    # As librdkafka's murmur2 does, which is what the Java client does.
    other = f"other-{shop.id}"
    clients.create_topic(shop.cluster.client(), other, 5)
    from confluent_kafka import Producer
    producer = Producer({**clients.quiet(shop.cluster.client()), "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(other, "1", key)
    assert producer.flush(DEADLINE) == 0
    placed = {record["key"]: record["partition"] for record in shop.consume(shop.input)}
    assert placed == {record["key"]: record["partition"] for record in shop.consume(other)}
    assert len(placed) == 200
    assert [record["value"] for record in shop.consume(shop.input, "--offset", "-1", "--partition", placed["key-0"])] == [1]
    shop.run("topics", "delete", shop.input)


def test_produce_warns_of_records_that_the_brokers_delete(shop):
    records = "".join(json.dumps({"k": "a", "at": at}) + "\n" for at in (978307200000, int(time.time() * 1000)))
    shop.run("topics", "create", shop.input, "--partitions", "1", "--config", "retention.ms=3600000")
    shop.run("produce", shop.input, "--key", "k", "--timestamp", "at", stdin=records)
    assert f"warning: 1 of the records are older than retention.ms of {shop.input}" in shop.err
    shop.run("topics", "create", shop.output, "--partitions", "1", "--config", "retention.ms=-1")
    shop.run("produce", shop.output, "--key", "k", "--timestamp", "at", stdin=records)
    assert "warning: 1 of" not in shop.err


def test_uncommitted_records_are_shown_only_when_asked_for(shop):
    from confluent_kafka import Producer
    clients.create_topic(shop.cluster.client(), shop.input, 1)
    producer = Producer({**clients.quiet(shop.cluster.client()), "transactional.id": f"t-{shop.id}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(shop.input, "1", "open")
    assert producer.flush(DEADLINE) == 0
    assert shop.consume(shop.input) == []
    assert [record["key"] for record in shop.consume(shop.input, "--isolation", "uncommitted")] == ["open"]
    producer.commit_transaction(30)
    assert [record["key"] for record in shop.consume(shop.input)] == ["open"]


def test_state_and_lag_of_a_processor(shop):
    shop.produce("a", "b", "a")
    shop.start()
    shop.wait_counts({"a": 2, "b": 1})
    shop.wait_no_lag()
    report = shop.lag()
    assert report["state"] == "Stable" and len(report["members"]) == 1
    assert {row["owner"] for row in report["partitions"]} == set(report["members"])
    assert shop.on_processor("state", "get", "counts", "a").strip() == "2"
    assert "changelog" in shop.err
    shop.on_processor("state", "get", "counts", "nobody", code=1)
    shop.stop()
    shop.wait_no_members()
    shop.produce("a")
    assert shop.lag()["lag"] == 1
    assert json.loads(shop.run("lag", "--group", shop.group, "-o", "json"))["lag"] == 1
    assert shop.counts() == {"a": 2, "b": 1}


def test_a_reset_counts_every_record_once_again(shop):
    shop.produce("a", "b", "a")
    shop.start()
    shop.wait_counts({"a": 2, "b": 1})
    shop.on_processor("reset", "--to", "earliest", "--execute", code=1)
    assert f"group {shop.group} has members" in shop.err
    shop.wait_no_lag()
    shop.stop()
    shop.wait_no_members()
    before = shop.lag()
    assert "nothing was changed" in shop.on_processor("reset", "--to", "earliest")
    assert shop.lag() == before
    done = json.loads(shop.on_processor("reset", "--to", "earliest", "--execute", "-o", "json"))["done"]
    assert done["tasks"] == [0, 1, 2] and done["tombstones"] >= 2
    assert shop.counts() == {}
    shop.produce("a")
    shop.start()  # with the disk of before: it has to follow the changelog
    shop.wait_counts({"a": 3, "b": 1})


def test_a_reset_survives_a_killed_one(shop):
    """A reset that dies with its transaction open: the next one ends it, and nothing of it counts."""
    from confluent_kafka import Producer
    shop.produce("a", "b")
    shop.start()
    shop.wait_counts({"a": 1, "b": 1})
    shop.wait_no_lag()
    shop.stop()
    shop.wait_no_members()
    dead = Producer({**clients.quiet(shop.cluster.client()), "transactional.id": f"{shop.group}-reset", "transaction.timeout.ms": 300000})
    dead.init_transactions(30)
    dead.begin_transaction()
    dead.produce(shop.changelog, None, "a", partition=0)
    assert dead.flush(DEADLINE) == 0
    assert shop.counts() == {"a": 1, "b": 1}
    shop.on_processor("reset", "--to", "earliest", "--execute")
    assert shop.counts() == {}
    shop.start()
    shop.wait_counts({"a": 1, "b": 1})


def test_dead_letters_are_sent_back_once(shop):
    shop.produce("good", "bad", "bad")
    shop.start("--fail-key=bad")
    shop.wait_counts({"good": 1})
    wait_until(lambda: len(shop.dead_letters()) == 2, lambda: shop.log())
    assert {letter["origin"]["topic"] for letter in shop.dead_letters()} == {shop.input}
    shop.wait_no_lag()
    shop.stop()
    assert "2 dead letters to send back; nothing was sent" in shop.on_processor("dead-letters", "replay")
    assert "2 dead letters sent back" in shop.on_processor("dead-letters", "replay", "--execute")
    assert "0 dead letters sent back" in shop.on_processor("dead-letters", "replay", "--execute")
    assert shop.dead_letters() == []
    assert len(shop.consume(shop.input)) == 5
    shop.wait_no_members()
    shop.start()
    shop.wait_counts({"good": 1, "bad": 2})


def test_a_renamed_processor_adopts_its_group(shop):
    shop.produce("a")
    shop.start()
    shop.wait_counts({"a": 1})
    shop.wait_no_lag()
    shop.stop()
    shop.wait_no_members()
    shop.write_manifest("renamed")
    shop.on_processor("reset", "--to", "earliest", code=1)
    assert "GroupOwnedByAnother" in shop.err and "millstream adopt" in shop.err
    assert "local/default/counting" in shop.on_processor("adopt")
    before = clients.committed(shop.cluster.client(), shop.group, shop.input, range(3))
    assert before
    assert "adopted" in shop.on_processor("adopt", "--execute")
    assert "belongs to local/default/renamed already" in shop.on_processor("adopt")
    # Only the owner has changed. (The offsets' metadata is not read here: confluent-kafka hands it out without its end.)
    assert clients.committed(shop.cluster.client(), shop.group, shop.input, range(3)) == before
    shop.produce("a")
    shop.start()
    shop.wait_counts({"a": 2})


# ---------------------------------------------------------------- logging in


def secrets_of(folder, cluster, user):
    """The Secrets that Strimzi writes for a cluster and a user."""
    certificate, key = cluster.certificate(user)
    for path, text in {"main-cluster-ca-cert/ca.crt": cluster.authority.ca.read_text(), "user/user.crt": certificate.read_text(),
                       "user/user.key": key.read_text(), "user/password": cluster.users[user] + "\n"}.items():
        (folder / "secrets" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "secrets" / path).write_text(text)
    return folder / "secrets"


TLS = "tls: {caSecretRef: {name: main-cluster-ca-cert, key: ca.crt}"
PASSWORD = "username: admin, passwordSecretRef: {name: user, key: password}"
WAYS = {
    "SSL": TLS + ", certSecretRef: {name: user, key: user.crt}, keySecretRef: {name: user, key: user.key}}",
    "SASL_SSL": TLS + "}, sasl: {mechanism: SCRAM-SHA-512, " + PASSWORD + "}",
    "SASL_PLAINTEXT": "sasl: {mechanism: SCRAM-SHA-256, " + PASSWORD + "}",
}


@pytest.mark.parametrize("listener", WAYS)
def test_a_manifest_and_its_secrets_log_in(tmp_path, guarded, listener):
    shop = Shop(tmp_path, guarded, kafka=WAYS[listener])
    topic = f"seen-{shop.id}"
    clients.create_topic(guarded.client(), topic, 1)
    folder = secrets_of(tmp_path, guarded, "admin")
    options = ["--manifest", shop.manifest, "--kafka", guarded.bootstrap(listener)]
    shop.run("topics", "describe", topic, *options, kafka=False, code=1)
    assert "--secrets DIR" in shop.err
    shop.run("topics", "describe", topic, *options, "--secrets", folder, kafka=False)
    (folder / "user" / "password").unlink()
    if "SASL" in listener:
        shop.run("topics", "describe", topic, *options, "--secrets", folder, kafka=False, code=1)
        assert f"{folder}/user/password" in shop.err and "user.crt" in shop.err


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_properties_file_logs_in(tmp_path, guarded, mechanism):
    shop = Shop(tmp_path, guarded)
    topic = f"seen-{shop.id}"
    clients.create_topic(guarded.client(), topic, 1)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in guarded.client("SASL_SSL", mechanism, "admin").items()))
    shop.run("topics", "describe", topic, "--kafka-config", file, kafka=False)
    shop.run("produce", topic, "--format", "keyvalue", kafka=False, stdin="a=1\n", env={"MILLSTREAM_KAFKA_CONFIG": str(file)})
    assert '"key":"a"' in shop.run("consume", topic, "--kafka-config", file, kafka=False)
