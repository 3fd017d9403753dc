"""Did a processor on Kafka do its work exactly once? Everything is read back with an independent read_committed client and compared with a model
that knows the input topic alone.

Found: outputs lost, doubled or out of order per key; records of aborted transactions that a reader got to see; state, replay of the
changelog, and model that differ; inputs that are not committed to their end.
"""

import json
import pathlib
import sys
import threading

import clients
from confluent_kafka import Consumer, KafkaError, TopicPartition

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))
import model  # noqa: E402


class Tail:
    """Reads a topic as committed from its start while things break, and keeps what it saw: what it saw once must stay there.

    A thread of its own; close() ends it. Partitions must exist when it is made.
    """

    def __init__(self, config, topic):
        self.topic = topic
        self.lock = threading.Condition()
        self.seen = []  # (partition, offset, timestamp, key, value, headers); guarded by lock
        self.errors = []  # guarded by lock
        self.last = {}  # offset per partition; of the thread
        self.ended = False
        self.reader = Consumer({**clients.quiet(config), "group.id": "testbed", "isolation.level": clients.READ_COMMITTED,
                                "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 50})
        self.reader.assign([TopicPartition(topic, partition, 0) for partition in clients.topics(config)[topic]])
        self.thread = threading.Thread(target=self._run, daemon=True, name=f"tail {topic}")
        self.thread.start()

    def _run(self):
        while not self.ended:
            for message in self.reader.consume(500, 0.2):
                with self.lock:
                    if message.error() is None:
                        # The client may fetch, and hand out, some again when a leader changes.
                        if message.offset() <= self.last.get(message.partition(), -1):
                            continue
                        self.last[message.partition()] = message.offset()
                        self.seen.append((message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(),
                                          message.headers() or []))
                    elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                        self.errors.append(str(message.error()))
                    self.lock.notify_all()

    def count(self):
        with self.lock:
            return len(self.seen)

    def wait(self, condition, deadline):
        """Until `condition(self.seen)` is true; returns whether it is."""
        with self.lock:
            return self.lock.wait_for(lambda: condition(self.seen), deadline)

    def close(self):
        self.ended = True
        self.thread.join()
        self.reader.close()


def decode_events(records):
    """[(key, n)] of the numbered events in an input topic, in order per key."""
    return [(record[3], json.loads(record[4])["n"]) for record in records]


def verify(config, *, group, inputs, outputs, changelog, state, tail=None, skipped=frozenset()):
    """Problems, as lines for a person; none: everything was processed exactly once.

    group      whose offsets must be at the ends of the input
    inputs, outputs, changelog    topics of the ledger program (tests/faults/ledger_worker.py)
    state      {key: ledger} as the processor serves it; None: not compared
    tail       a Tail over the outputs that has run all the time
    skipped    numbers of events that the processor was allowed to skip
    """
    events = decode_events(clients.read(config, inputs))
    written = clients.read(config, outputs)
    replay = [(record[3], None if record[4] is None else json.loads(record[4])) for record in clients.read(config, changelog)]
    ledgers, _ = model.expected_ledgers(events, skipped)
    twice = {}
    for partition, offset, *_, value, _ in written:
        twice.setdefault(json.loads(value)["n"], []).append((partition, offset))
    problems = [f"n={n} is in the output at {places}" for n, places in twice.items() if len(places) > 1][:5]
    problems += model.check_exactly_once(events, ledgers if state is None else state, replay, [(record[3], json.loads(record[4])) for record in written],
                                        skipped)
    problems += check_offsets(config, group, inputs)
    if tail is not None:
        problems += check_tail(tail, written)
    return problems


def check_offsets(config, group, topic):
    ends = clients.ends(config, topic, isolation=clients.READ_COMMITTED)
    done = clients.committed(config, group, topic, ends)
    return [f"{topic}[{partition}]: the group has committed {done.get(partition, 'nothing')}, the end is {end}"
            for partition, end in ends.items() if end > 0 and done.get(partition) != end]


def check_tail(tail, written):
    """A reader that was there all the time saw what is there now, and nothing else."""
    with tail.lock:
        seen, errors = list(tail.seen), list(tail.errors)
    problems = [f"the reader that ran all the time failed: {error}" for error in errors[:3]]
    there, once = {record[:2]: record[3:5] for record in written}, {record[:2]: record[3:5] for record in seen}
    problems += [f"a reader saw {tail.topic}{list(at)}, which is not there (aborted?): {once[at]}" for at in sorted(once.keys() - there.keys())[:5]]
    problems += [f"a reader saw {tail.topic}{list(at)} as {once[at]}, now it is {there[at]}" for at in sorted(once.keys() & there.keys())
                 if once[at] != there[at]][:5]
    return problems
