"""Topics that change under a running processor, and records that do not fit."""

import clients
from harness import wait_until


def busy(group, one, **options):
    g = group(one, **options)
    member = g.member()
    g.produce(100)
    g.wait_outputs()
    return g, member


def test_topics_change_while_it_runs(group, one):
    """Two processors at once, since a change is looked for every few seconds only."""
    grown, grown_member = busy(group, one)
    gone, gone_member = busy(group, one)
    clients.add_partitions(grown.config, grown.input, 6)
    clients.delete_topic(gone.config, gone.output)

    message = grown_member.wait_condition("PartitionsChanged")
    assert grown.input in message and "4" in message and "6" in message, message
    gone.produce(20)
    message = gone_member.wait_condition("TopicDeleted")
    assert gone.output in message, message
    assert grown_member.alive() and gone_member.alive()

    # The topic comes back: so does the processor.
    clients.create_topic(gone.config, gone.output, 4)
    wait_until(lambda: len(clients.read(gone.config, gone.output)) == 20, gone.logs)


def test_a_record_larger_than_the_output_accepts(group, one):
    """One condition that names the topic; the tasks it is not about go on."""
    g, member = busy(group, one, max_message_bytes=100_000)
    g.produce(1, keys=1, pad=300_000)
    wait_until(lambda: "stopped" in member.tasks().values(), lambda: f"{member.tasks()} {member.conditions()}\n{g.logs()}")
    message = member.conditions()["TaskStopped"]
    assert "'seen'" in message and "99488" in message, message
    stopped, = [task for task, state in member.tasks().items() if state == "stopped"]
    before = g.tail.count()
    g.produce(100)
    # Three of the four tasks write theirs: whatever is not on the stopped partition.
    expected = sum(1 for record in clients.read(g.config, g.input)[:] if record[0] != stopped)
    g.wait_outputs(expected + sum(1 for record in clients.read(g.config, g.output) if record[0] == stopped))
    assert g.tail.count() > before
    clients.set_topic_config(g.config, g.output, {"max.message.bytes": "1000000"})
    assert member.stop() == 0
    member.start()
    g.finish()
