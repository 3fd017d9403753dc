"""The verifier must notice what it is there for. A faithful processor is played by hand, then each way of being wrong."""

import hashlib
import json
import uuid

import clients
import pytest
import verifier
from confluent_kafka import Consumer, TopicPartition


def fold(ledger, number):
    seen, total, digest = ledger or [0, 0, ""]
    return [seen + 1, total + number, hashlib.sha256(f"{digest}:{number}".encode()).hexdigest()[:16]]


class Played:
    """A processor by hand: 30 events of 3 keys on 2 partitions, one transaction for each five."""

    def __init__(self, cluster):
        self.config = cluster.client()
        self.id = uuid.uuid4().hex[:8]
        self.input, self.output, self.changelog = (f"{kind}-{self.id}" for kind in ("in", "out", "log"))
        for topic in (self.input, self.output, self.changelog):
            clients.create_topic(self.config, topic, 2)
        self.events = [(n % 3 % 2, f"key-{n % 3}".encode(), n) for n in range(30)]
        clients.write(self.config, self.input, [(partition, key, json.dumps({"n": n})) for partition, key, n in self.events])
        self.tail = verifier.Tail(self.config, self.output)
        self.state = {}
        self.producer = clients.transactional(self.config, self.id)
        self.member = Consumer({**clients.quiet(self.config), "group.id": self.id})

    def process(self, events, commit=True, output=True, log=True, twice=False, offsets=True):
        state = {}
        self.producer.begin_transaction()
        for partition, key, n in events:
            state[key] = fold(state.get(key, self.state.get(key)), n)
            for _ in range((2 if twice else 1) if output else 0):
                self.producer.produce(self.output, json.dumps({"n": n, "ledger": state[key]}), key, partition)
            if log:
                self.producer.produce(self.changelog, json.dumps(state[key]), key, partition)
        if offsets:
            done = [TopicPartition(self.input, at, sum(1 for each in self.events[:self.events.index(events[-1]) + 1] if each[0] == at)) for at in (0, 1)]
            self.producer.send_offsets_to_transaction(done, self.member.consumer_group_metadata(), 30)
        if commit:
            self.producer.commit_transaction(30)
            self.state |= state
        else:
            self.producer.flush(30)
            self.producer.abort_transaction(30)

    def problems(self, **changes):
        self.tail.wait(lambda seen: len(seen) >= 30, 5)
        found = verifier.verify(self.config, **{"group": self.id, "inputs": self.input, "outputs": self.output, "changelog": self.changelog,
                                               "state": self.state, "tail": self.tail, **changes})
        return "\n".join(found)

    def close(self):
        self.tail.close()
        self.member.close()


@pytest.fixture
def played(proxied):
    made = Played(proxied[0])
    yield made
    made.close()


def steps(events):
    return [events[at:at + 5] for at in range(0, 30, 5)]


def test_nothing_is_wrong(played):
    for step in steps(played.events):
        played.process(step, commit=False)  # aborted once: nobody may see that
        played.process(step)
    assert played.problems() == ""


@pytest.mark.parametrize("wrong,noticed", [
    ({"twice": True}, "seen 2 times"), ({"output": False}, "output lost"), ({"log": False}, "changelog: "), ({"offsets": False}, "has committed")])
def test_a_wrong_last_step(played, wrong, noticed):
    for step in steps(played.events)[:-1]:
        played.process(step)
    played.process(steps(played.events)[-1], **wrong)
    assert noticed in played.problems()


def test_a_wrong_order(played):
    first, second, *rest = steps(played.events)
    for step in [second, first, *rest]:
        played.process(step)
    assert "state: " in played.problems()


def test_state_that_is_behind(played):
    for step in steps(played.events):
        played.process(step)
    assert "state: " in played.problems(state={**played.state, b"key-1": [1, 1, "x"]})


def test_an_aborted_record_that_somebody_saw(played):
    for step in steps(played.events):
        played.process(step)
    assert played.problems() == ""
    with played.tail.lock:
        played.tail.seen.append((0, 10_000, 0, b"key-1", b"{}", []))
    assert "aborted?" in played.problems()
