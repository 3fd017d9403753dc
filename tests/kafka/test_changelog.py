"""What the tail of a changelog may look like when a task is restored from it."""

import itertools
import json

import clients
import pytest
from harness import wait_until


def worked(group, one, events=200, **options):
    """A group that has done some work and stopped in order; its first member's disk is current."""
    g = group(one, **options)
    member = g.member()
    g.produce(events)
    g.wait_outputs()
    g.check()
    assert member.stop() == 0, member.log()
    return g


def restored(g):
    """Another machine restores everything and goes on."""
    member = g.member()
    g.wait_active(member)
    g.check()
    g.produce(50)
    g.finish()


def test_tails_that_are_no_records(group, one):
    """Each changelog partition ends in something else: a marker, aborted records, a compaction gap, or nothing was ever in it."""
    g = worked(group, one)
    everywhere = clients.ends(g.config, g.changelog)
    assert all(end > 0 for end in everywhere.values())
    aborted = clients.transactional(g.config, f"other-{g.id}")
    aborted.begin_transaction()
    for partition in (1, 2):
        for n in range(10):
            aborted.produce(g.changelog, b"[1,1,\"aborted\"]", f"never-{n}", partition)
    aborted.flush(30)
    aborted.abort_transaction(30)
    # A marker over committed records, then over nothing that concerns this partition: partition 3 ends in two of them.
    aborted.begin_transaction()
    aborted.produce(g.changelog, None, b"tombstone", 3)
    aborted.commit_transaction(30)
    restored(g)


def test_partitions_that_were_never_written(group, one):
    g = group(one)
    member = g.member()
    g.produce(20, keys=1)
    g.wait_outputs()
    assert member.stop() == 0
    restored(g)


def test_a_compaction_gap_at_the_tail(group, one):
    """The last records and their marker are cleaned away: the log ends in offsets that no reader ever gets."""
    g = worked(group, one)
    clients.set_topic_config(g.config, g.changelog, {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
                                                     "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100"})
    other = clients.transactional(g.config, f"other-{g.id}")

    def write(key, value):
        other.begin_transaction()
        for partition in range(g.partitions):
            other.produce(g.changelog, value, key, partition)
        other.commit_transaction(30)

    writes = itertools.count(1)

    def compacted():
        # Segments roll when something is appended to them; the key is always the same one, so only its last record has to stay.
        write(b"gone", None if next(writes) % 2 else b"[1,1,\"x\"]")
        return next(writes) > 20 and sum(1 for record in clients.read(g.config, g.changelog) if record[3] == b"gone") <= 3 * g.partitions

    wait_until(compacted, "the changelog is not compacted")
    write(b"gone", None)
    restored(g)


def hang(g):
    """Leaves somebody else's transaction open at the tail of a changelog; returns its producer and a member that restores."""
    hanging = clients.transactional(g.config, f"other-{g.id}", timeout_ms=300_000)
    hanging.begin_transaction()
    hanging.produce(g.changelog, b"[1,1,\"open\"]", b"never", 2)
    hanging.flush(30)
    member = g.member()
    wait_until(lambda: member.active() == [0, 1, 3], lambda: f"{member.tasks()}\n{g.logs()}")
    return hanging, member


def test_a_restore_waits_for_a_transaction_that_is_open(group, one):
    """What is behind it may count: the task is not served before it has ended. The others go on meanwhile."""
    g = worked(group, one)
    hanging, member = hang(g)
    g.produce(50)
    others = sum(1 for record in clients.read(g.config, g.input) if record[0] != 2)
    wait_until(lambda: g.tail.wait(lambda seen: sum(1 for each in seen if each[0] != 2) == others, 1), g.logs)
    assert member.active() == [0, 1, 3]
    hanging.abort_transaction(30)
    g.wait_active(member)
    g.finish()


@pytest.mark.long  # a restore that stands still is called stuck after a minute
def test_a_hanging_transaction_at_the_tail(group, one):
    """The restore waits, says where, and goes on when it ends."""
    g = worked(group, one)
    hanging, member = hang(g)
    g.produce(50, wait=True)
    message = member.wait_condition("RestoreFailed")
    assert g.changelog in message and "2" in message, message
    hanging.abort_transaction(30)
    g.wait_active(member)
    g.finish()


def test_truncated_past_the_stored_position(group, one):
    """The disk is behind the start of the changelog: it cannot be brought up to date, so it is built anew."""
    g = worked(group, one)
    first, other = g.members[0], g.member()
    g.produce(200)
    g.wait_outputs()
    assert other.stop() == 0
    # Everything before the last record of each key.
    last = {}
    for partition, offset, _, key, _, _ in clients.read(g.config, g.changelog):
        last[partition, key] = offset
    clients.set_topic_config(g.config, g.changelog, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})  # else it is refused
    for partition in range(g.partitions):
        clients.delete_before(g.config, g.changelog, partition, min(offset for (at, _), offset in last.items() if at == partition))
    clients.set_topic_config(g.config, g.changelog, {"cleanup.policy": "compact"})
    first.start()
    g.wait_active(first)
    g.produce(20)
    g.finish()


def test_no_offsets_but_a_changelog(group, one):
    """The group's offsets are gone: going on would process everything again on top of the state. It stops and says so."""
    g = worked(group, one)
    clients.delete_group(g.config, g.group)
    member = g.member()
    message = member.wait_condition("OffsetsLost")
    assert g.group in message or g.input in message, message
    assert member.active() == []
    assert g.tail.count() == g.produced


def test_the_state_is_readable_as_a_compacted_topic(group, one):
    g = worked(group, one)
    replay = {key: json.loads(value) for _, _, _, key, value, _ in clients.read(g.config, g.changelog)}
    member = g.members[0].start()
    g.wait_active(member)
    assert g.state() == replay
