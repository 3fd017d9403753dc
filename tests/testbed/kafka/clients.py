"""What tests do with a cluster besides breaking it, through an independent client (confluent-kafka of requirements-test.txt).

`config` is what Cluster.client() returns. Everything that waits has a deadline and says what it waited for.
"""

import time

import wire
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec

DEADLINE = 120.0
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


def quiet(config):
    return {**config, "log_level": 0}


PASSING = {KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
           KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}


def patiently(call):
    """Calls again while brokers are still finding themselves."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > end:
                raise
            time.sleep(0.1)


def admin(config, method, argument, **options):
    """Calls an AdminClient method that answers per resource, and waits for all answers."""
    client = AdminClient(quiet(config))  # kept until the answers are there: they end with it
    return {key: answer.result(DEADLINE) for key, answer in getattr(client, method)(argument, **options).items()}


def create_topic(config, name, partitions=1, replicas=-1, **settings):
    wanted = NewTopic(name, partitions, replicas, config={key.replace("_", "."): str(value) for key, value in settings.items()})

    def create():
        """Repeated after a request that was lost with its broker, it finds that the topic is there."""
        try:
            admin(config, "create_topics", [wanted], request_timeout=15)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    patiently(create)
    # Each broker hears of it a moment later.
    end = time.monotonic() + DEADLINE
    while not all(known_by(config, server, name, partitions) for server in config["bootstrap.servers"].split(",")):
        assert time.monotonic() < end, f"{name} was created and does not appear"
        time.sleep(0.02)


def known_by(config, server, name, partitions):
    """Whether this broker knows the topic with all its leaders; one that is down knows what it has to."""
    if "security.protocol" in config:
        return len(topics(config).get(name, {})) >= partitions
    host, port = server.rsplit(":", 1)
    try:
        error, leaders = wire.metadata((host, int(port)), [name])[2][name]
    except ConnectionRefusedError:
        return True
    except (OSError, wire.WireError):
        return False
    return error == 0 and len(leaders) >= partitions and all(leader >= 0 for leader in leaders.values())


def delete_topic(config, name):
    admin(config, "delete_topics", [name])


def add_partitions(config, name, total):
    admin(config, "create_partitions", [NewPartitions(name, total)])


def topic_config(config, name):
    answers = admin(config, "describe_configs", [ConfigResource(ConfigResource.Type.TOPIC, name)])
    return {key: entry.value for entries in answers.values() for key, entry in entries.items()}


def topics(config):
    """{name: {partition: (leader, in sync)}} of all topics that this user may see."""
    client = AdminClient(quiet(config))
    found = patiently(lambda: client.list_topics(timeout=DEADLINE)).topics
    return {name: {number: (part.leader, len(part.isrs)) for number, part in topic.partitions.items()} for name, topic in found.items()}


def delete_before(config, topic, partition, offset):
    """Moves the start of a partition."""
    admin(config, "delete_records", [TopicPartition(topic, partition, offset)])


def ends(config, topic, spec="latest", isolation=READ_UNCOMMITTED):
    """{partition: offset}: the ends (read_committed: the last stable offsets) or, with "earliest", the starts."""
    which = OffsetSpec.latest() if spec == "latest" else OffsetSpec.earliest()
    level = IsolationLevel.READ_COMMITTED if isolation == READ_COMMITTED else IsolationLevel.READ_UNCOMMITTED

    def ask():
        client = AdminClient(quiet(config))
        asked = {TopicPartition(topic, partition): which for partition in client.list_topics(topic, timeout=DEADLINE).topics[topic].partitions}
        return {key.partition: answer.result(DEADLINE).offset for key, answer in client.list_offsets(asked, isolation_level=level).items()}

    return patiently(ask)


def read(config, topic, isolation=READ_COMMITTED, deadline=DEADLINE, partitions=None):
    """All records up to the end each partition has now: [(partition, offset, timestamp, key, value, headers)] in order per partition.

    read_committed stops at the last stable offset, that is, before an open transaction. Each offset is there once: when leaders change, the
    client may fetch, and hand out, some again.
    """
    goals = ends(config, topic, isolation=isolation)
    if partitions is not None:
        goals = {partition: goals[partition] for partition in partitions}
    reader = Consumer({**quiet(config), "group.id": "testbed", "isolation.level": isolation, "enable.partition.eof": True,
                       "enable.auto.commit": False, "auto.offset.reset": "error", "fetch.wait.max.ms": 50})
    try:
        starts = ends(config, topic, "earliest")
        reader.assign([TopicPartition(topic, partition, starts[partition]) for partition in goals])
        found, last = [], {}
        left, end = {partition for partition, goal in goals.items() if goal > starts[partition]}, time.monotonic() + deadline
        while left:
            assert time.monotonic() < end, f"{topic}: partitions {sorted(left)} not read to {goals} within {deadline:.0f} s"
            message = reader.poll(1.0)
            if message is None:
                continue
            partition = message.partition()
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(message.error())
                if message.offset() >= goals[partition]:
                    left.discard(partition)
                continue
            if message.offset() <= last.get(partition, -1):
                continue
            last[partition] = message.offset()
            found.append((partition, message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers() or []))
        return sorted(found, key=lambda record: record[:2])
    finally:
        reader.close()


def write(config, topic, records, **options):
    """Appends (partition, key, value) in order, each of them acknowledged; returns nothing or raises the first error."""
    errors = []
    producer = Producer({**quiet(config), "acks": "all", "enable.idempotence": True, "linger.ms": 5, **options})
    for partition, key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=lambda error, _: errors.append(error) if error else None)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(DEADLINE) == 0, f"{topic}: not acknowledged within {DEADLINE:.0f} s"
    if errors:
        raise KafkaException(errors[0])


def transactional(config, name, timeout_ms=60_000, **options):
    """A transactional producer that has taken its id over."""
    producer = Producer({**quiet(config), "transactional.id": name, "transaction.timeout.ms": timeout_ms, **options})
    producer.init_transactions(DEADLINE)
    return producer


def committed(config, group, topic, partitions):
    """{partition: offset} as the group has committed it; absent: nothing."""
    reader = Consumer({**quiet(config), "group.id": group, "enable.auto.commit": False, "isolation.level": READ_UNCOMMITTED})
    try:
        found = patiently(lambda: reader.committed([TopicPartition(topic, partition) for partition in partitions], timeout=DEADLINE))
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        reader.close()


def set_topic_config(config, topic, settings):
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings.items()]
    admin(config, "incremental_alter_configs", [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)])


def delete_group(config, group):
    """With its offsets; it must have no members."""
    admin(config, "delete_consumer_groups", [group])
