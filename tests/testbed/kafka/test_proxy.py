"""The fault proxy against a real broker, seen with an independent client."""

import time
import uuid

import clients
import pytest
from confluent_kafka import KafkaException


class Rig:
    """A topic of one partition and transactional producers that go through the proxy."""

    def __init__(self, cluster, proxy):
        self.cluster, self.proxy = cluster, proxy
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        clients.create_topic(cluster.client(), self.topic)

    def producer(self, name, **options):
        return clients.transactional({"bootstrap.servers": self.cluster.bootstrap(), "client.id": name}, name, **options)

    def committed(self):
        """What a read_committed reader gets, without a proxy."""
        return [record[4].decode() for record in clients.read(self.cluster.client(), self.topic)]

    def wait_committed(self, values):
        """Until exactly these are committed: the answer to a commit comes a moment before its markers are in the partitions."""
        end = time.monotonic() + 30
        while (seen := self.committed()) != values:
            assert time.monotonic() < end, seen

    def send(self, producer, value):
        producer.begin_transaction()
        producer.produce(self.topic, value, partition=0)


@pytest.fixture
def rig(proxied):
    yield Rig(*proxied)
    proxied[1].clear()


def test_without_faults_everything_passes(rig):
    producer = rig.producer("plain")
    before = rig.proxy.count("EndTxn", "plain")
    rig.send(producer, "x" * 900_000)
    producer.commit_transaction(30)
    rig.wait_committed(["x" * 900_000])
    assert rig.proxy.count("EndTxn", "plain") == before + 1


def test_a_late_answer_to_a_commit_is_late_and_the_commit_is_not(rig):
    producer = rig.producer("late")
    rig.send(producer, "a")
    fault = rig.proxy.fault("EndTxn", name="late", delay_response=1.5)
    started = time.monotonic()
    with pytest.raises(KafkaException):
        producer.commit_transaction(0.5)
    rig.wait_committed(["a"])  # the broker has committed although the answer is still held
    producer.commit_transaction(30)
    assert time.monotonic() - started > 1.4
    assert fault.hits == 1


def test_a_dropped_answer_is_asked_for_again(rig):
    producer = rig.producer("dropped", **{"socket.timeout.ms": 2000})
    rig.send(producer, "a")
    fault = rig.proxy.fault("EndTxn", name="dropped", drop_response=True)
    producer.commit_transaction(30)
    assert fault.hits == 1
    rig.wait_committed(["a"])


def test_a_held_commit_arrives_although_its_client_is_gone(rig):
    producer = rig.producer("held")
    rig.send(producer, "a")
    producer.flush(30)
    rig.proxy.fault("EndTxn", name="held", delay_request=2.0)
    before = rig.proxy.count("EndTxn", "held")
    with pytest.raises(KafkaException):
        producer.commit_transaction(0.3)
    rig.proxy.wait("EndTxn", name="held", since=before)
    rig.proxy.fault("EndTxn", name="held", cut_before=True, times=1000)  # what the client sends again never arrives
    rig.proxy.cut_all("nobody")
    assert rig.committed() == []
    del producer
    rig.wait_committed(["a"])


@pytest.mark.parametrize("kind", ["cut_before", "cut_after", "hang_up", "drop_request"])
def test_a_cut_connection_is_made_again(rig, kind):
    producer = rig.producer(f"cut-{kind}", **{"socket.timeout.ms": 2000})
    rig.send(producer, "a")
    fault = rig.proxy.fault("EndTxn", name=f"cut-{kind}", **{kind: True})
    producer.commit_transaction(30)
    assert fault.hits == 1
    rig.wait_committed(["a"])


def test_rules_look_at_name_and_content(rig):
    one, other = rig.producer("rule-1"), rig.producer("rule-2")
    ends = rig.proxy.fault("EndTxn", when=lambda request: request.commit is False, delay_request=0.01)
    named = rig.proxy.fault("AddPartitionsToTxn", name="rule-2", delay_request=0.01, times=10)
    for producer in (one, other):
        rig.send(producer, "a")
        producer.flush(30)
    one.abort_transaction(30)
    other.commit_transaction(30)
    assert (ends.hits, named.hits) == (1, 1)
    rig.wait_committed(["a"])


def test_a_hook_runs_before_the_request_is_passed_on(rig):
    producer = rig.producer("hook")
    rig.send(producer, "a")
    producer.flush(30)
    seen = []
    rig.proxy.fault("EndTxn", name="hook", then=lambda: seen.append(rig.committed()))
    producer.commit_transaction(30)
    assert seen == [[]]
    rig.wait_committed(["a"])


def test_a_refused_broker_comes_back(rig):
    producer = rig.producer("refused")
    rig.proxy.refuse()
    rig.send(producer, "a")
    assert producer.flush(1) == 1
    rig.proxy.allow()
    producer.commit_transaction(30)
    rig.wait_committed(["a"])
