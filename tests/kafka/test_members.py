"""Several members: zombies, pauses beyond timeouts, hand-over, restart."""

import time

from harness import wait_until


def paused_until(member, condition, what):
    member.pause()
    try:
        wait_until(condition, what)
    finally:
        member.resume()


def test_a_zombie_writes_nothing(group, one):
    """SIGSTOP past the session timeout: the partitions move; SIGCONT: what it still had in hand must not count."""
    g = group(one)
    zombie, other = g.member(), g.member()
    feeder = g.feed(300)
    wait_until(lambda: len(zombie.active()) == 2 and len(other.active()) == 2, g.logs)
    g.wait_outputs(300)
    paused_until(zombie, lambda: len(other.active()) == 4, g.logs)
    g.wait_outputs(g.tail.count() + 200)
    wait_until(lambda: len(zombie.active()) == 2 and len(other.active()) == 2, g.logs)
    feeder.close()
    assert zombie.alive()
    g.finish()


def test_a_sidecar_paused_beyond_the_transaction_timeout(group, one):
    """The broker has aborted its transaction meanwhile; the session is still good, nothing moves, and no restart is needed."""
    g = group(one, session_timeout="30s", transaction_timeout="2s")
    member = g.member(mode="slow")
    g.wait_active(member)
    feeder = g.feed(200)
    g.wait_outputs(100)
    member.pause()
    time.sleep(5)  # the broker looks for transactions that are over time once a second
    member.resume()
    g.wait_outputs(g.tail.count() + 100)
    feeder.close()
    assert member.alive()
    g.finish()


def test_a_broker_paused_beyond_the_transaction_timeout(group, one):
    g = group(one, session_timeout="30s", transaction_timeout="2s")
    member = g.member()
    g.wait_active(member)
    g.produce(200)
    g.wait_outputs()
    feeder = g.feed(200)
    broker = one[0].brokers[0]
    broker.pause()
    time.sleep(5)
    broker.resume()
    g.wait_outputs(g.tail.count() + 100)
    feeder.close()
    assert member.alive()
    g.finish()


def test_a_member_that_is_killed_and_started_again_keeps_its_tasks(group, one):
    g = group(one, session_timeout="30s")
    first, second = g.member(), g.member()
    wait_until(lambda: len(first.active()) == 2 and len(second.active()) == 2, g.logs)
    had, others = first.active(), second.active()
    g.produce(200)
    g.wait_outputs()
    first.kill()
    g.produce(100)
    first.start()
    wait_until(lambda: first.active() == had, g.logs)
    assert second.active() == others
    g.finish()


def test_members_come_and_go_in_order(group, one):
    g = group(one, partitions=6)
    feeder = g.feed(300)
    first = g.member()
    g.wait_active(first)
    second, third = g.member(), g.member()
    wait_until(lambda: [len(m.active()) for m in (first, second, third)] == [2, 2, 2], g.logs)
    assert second.stop() == 0, second.log()
    wait_until(lambda: len(first.active()) == len(third.active()) == 3, g.logs)
    assert first.stop() == 0, first.log()
    g.wait_active(third)
    second.start()
    wait_until(lambda: len(second.active()) == len(third.active()) == 3, g.logs)
    feeder.close()
    g.finish()
