"""Topics that are deleted and made again: between two runs, and while one runs."""

import subprocess

import clients
import harness
from harness import wait_until


def processed(group, one, **options):
    g = group(one, **options)
    member = g.member()
    g.produce(100)
    g.wait_outputs()
    return g, member


def make_anew(g, topic, **settings):
    clients.delete_topic(g.config, topic)
    wait_until(lambda: made(g, topic, settings), f"{topic} cannot be made again")


def made(g, topic, settings):
    try:
        clients.create_topic(g.config, topic, g.partitions, **settings)
        return True
    except Exception:  # it is still being deleted
        return False


def millstream(g, *arguments):
    run = subprocess.run([harness.BIN / "millstream", *arguments, "-f", g.manifest, "--kafka", g.bootstrap], text=True, capture_output=True, timeout=harness.DEADLINE)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_a_changelog_made_anew_between_two_runs_is_not_taken_for_empty_state(group, one):
    g, member = processed(group, one)
    assert member.stop() == 0
    clients.delete_topic(g.config, g.changelog)
    member.start()
    message = member.wait_condition("TopicRecreated")
    assert g.changelog in message and "now" in message and "then" in message and "millstream reset" in message, message
    assert member.stop() == 0
    # The way out it names: everything again, on empty state.
    assert "done: 4 tasks" in millstream(g, "reset", "--to", "earliest", "--execute")
    member.start()
    g.wait_outputs(200)
    assert member.stop() == 0


def test_an_input_made_anew_between_two_runs_stops_the_tasks(group, one):
    """Brokers delete the offsets with the topic: what is left is state without offsets."""
    g, member = processed(group, one)
    assert member.stop() == 0
    make_anew(g, g.input)
    g.produce(150)
    member.start()
    wait_until(lambda: {"OffsetsLost", "TopicRecreated"} & set(member.conditions()), lambda: f"{member.conditions()}\n{g.logs()}")
    message = next(text for reason, text in member.conditions().items() if reason in ("OffsetsLost", "TopicRecreated"))
    assert "millstream reset" in message, message
    assert member.active() == [] and g.tail.count() == 100
    assert member.stop() == 0
    assert "done: 4 tasks" in millstream(g, "reset", "--to", "start", "--execute")
    member.start()
    g.wait_outputs(250)
    assert member.stop() == 0


def test_an_input_made_anew_while_it_runs_stops_the_tasks(group, one):
    g, member = processed(group, one)
    make_anew(g, g.input)
    message = member.wait_condition("TopicRecreated")
    assert g.input in message and "millstream reset" in message, message
    wait_until(lambda: member.active() == [], lambda: f"{member.tasks()}\n{g.logs()}")
