"""kill -9 at every named point of a transaction (sidecar/host/README.md), on a real broker."""

import signal

import pytest
from harness import wait_until

POINTS = ["after-fetch", "after-reply", "after-first-append", "after-flush", "after-offsets-sent", "commit-done-not-applied", "half-applied-flush"]


@pytest.mark.parametrize("passes", [1, 4])
def test_every_point(group, one, passes):
    """One after the other on the same group and disk: each start has to put right what the crash before it left."""
    g = group(one)
    g.produce(200)
    feeder = g.feed(200)
    member = g.member(crash_at=f"{POINTS[0]}:{passes}")
    for point in POINTS:
        if not member.process:
            member.start(crash_at=f"{point}:{passes}")
        assert member.wait_exit() == -signal.SIGKILL, f"{point} was never passed {passes} times\n{member.log()}"
    member.start()
    feeder.close()
    g.finish()


def test_the_owner_dies_between_changelog_and_offsets_and_another_takes_over(group, one):
    """The successor starts at once, on an empty disk, while the dead owner's transaction is still open."""
    g = group(one)
    g.produce(300)
    owner = g.member()
    g.wait_outputs()
    assert owner.stop() == 0
    g.produce(100)
    owner.start(crash_at="after-flush:1")
    assert owner.wait_exit() == -signal.SIGKILL
    successor = g.member()
    g.wait_active(successor)
    g.produce(100)
    g.finish()


def test_killed_with_sigterm_in_the_middle(group, one):
    g = group(one)
    g.produce(2000)
    member = g.member(mode="slow")
    g.wait_outputs(1)
    assert member.stop() == 0, member.log()
    member.start()
    g.finish()


def test_a_fresh_disk_each_time(group, one):
    """Kills at random points of the way, and each time another machine goes on, whose disk is empty."""
    g = group(one)
    feeder = g.feed(300)
    done = 0
    for _ in range(3):
        member = g.member()
        wait_until(lambda: g.tail.count() > done + 100, g.logs)
        member.kill()
        done = g.tail.count()
    g.member()
    feeder.close()
    g.finish()
