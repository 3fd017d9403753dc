"""Transactions that a process which is gone has left open: nobody waits for their timeout, which is ten minutes here."""

import signal

from harness import wait_until

TIMEOUT = "10m"


def left_open(group, one, point, **options):
    """A group whose only member, on disk `members[0]`, has committed some and died in the middle of the next transaction."""
    g = group(one, transaction_timeout=TIMEOUT, **options)
    g.produce(200)
    owner = g.member()
    g.wait_outputs()
    assert owner.stop() == 0, owner.log()
    g.produce(50)
    owner.start(crash_at=f"{point}:1")
    assert owner.wait_exit() == -signal.SIGKILL, owner.log()
    return g, owner


def test_a_newcomer_ends_what_the_last_member_left_open(group, one):
    """Pending offsets: the newcomer's group remembers nobody, the tag of the committed offset does."""
    g, _ = left_open(group, one, "after-offsets-sent")
    newcomer = g.member()
    g.wait_active(newcomer)
    g.produce(50)
    g.finish()


def test_a_newcomer_ends_a_changelog_that_was_left_open(group, one):
    """Nothing is pending in the group, but the changelog cannot be read to its end."""
    g, _ = left_open(group, one, "after-flush")
    newcomer = g.member()
    g.wait_active(newcomer)
    g.produce(50)
    g.finish()


def test_a_process_that_comes_back_ends_what_it_left_open(group, one):
    g, owner = left_open(group, one, "after-offsets-sent", session_timeout="30s")
    owner.start()
    g.wait_active(owner)
    g.produce(50)
    g.finish()


def test_the_leader_ends_what_a_member_left_open(group, one):
    g = group(one, transaction_timeout=TIMEOUT)
    g.produce(200)
    stays = g.member()
    g.wait_active(stays)
    dies = g.member(crash_at="after-offsets-sent:20")
    wait_until(lambda: len(dies.active()) == 2, g.logs)
    feeder = g.feed(200)
    assert dies.wait_exit() == -signal.SIGKILL
    g.wait_active(stays)
    feeder.close()
    g.finish()
