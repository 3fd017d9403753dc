"""Three brokers, three replicas, two in sync: each is killed in turn, paused, or loses what it coordinates, under load."""

import re

import brokers
import pytest
import wire
from harness import wait_until


def in_sync(cluster, g):
    """Every partition has its three replicas again: the next broker may go."""
    import clients
    wait_until(lambda: all(count == 3 for topic in (g.input, g.output, g.changelog) for _, count in clients.topics(g.config)[topic].values()),
               "replicas do not come back")


def test_each_broker_is_killed_in_turn(group, three):
    cluster, _ = three
    g = group(three, session_timeout="20s")
    member = g.member()
    g.wait_active(member)
    feeder = g.feed(200)
    for broker in cluster.brokers:
        broker.kill()
        g.wait_outputs(g.tail.count() + 400)
        broker.start()
        cluster.wait_ready()
        in_sync(cluster, g)
    feeder.close()
    assert member.alive()
    g.finish()


def test_the_coordinators_move_in_the_middle_of_a_commit(group, three):
    """The broker that coordinates the transaction is killed when the commit reaches it; the same for the group's."""
    cluster, proxy = three
    g = group(three, session_timeout="20s")
    member = g.member()
    g.wait_active(member)
    feeder = g.feed(200)
    g.wait_outputs(100)
    for transactional, api in ((True, "EndTxn"), (False, "TxnOffsetCommit")):
        ours = []

        def name_it(request):
            if (request.name or "").startswith(g.group):
                ours.append(request.name)
            return bool(ours)

        victim = []

        def kill():
            alive = next(broker for broker in cluster.brokers if broker.alive())
            node = wire.find_coordinator(alive.internal, ours[0] if transactional else g.group, transactional)
            broker = next(each for each in cluster.brokers if each.node == node)
            broker.kill()
            victim.append(broker)

        proxy.fault(api, when=name_it, then=kill)
        wait_until(lambda: victim, f"no {api}")
        g.wait_outputs(g.tail.count() + 200)
        victim[0].start()
        cluster.wait_ready()
        in_sync(cluster, g)
    feeder.close()
    assert member.alive()
    g.finish()


@pytest.mark.long
def test_a_broker_that_is_away_is_not_besieged(group, tmp_path):
    """Every client backs off, also one that wants an admin request (which librdkafka 2.8 would not): its own log says how often it tried."""
    with brokers.Cluster(tmp_path / "kafka") as cluster:  # no proxy: connections are refused
        besiege(cluster, group(cluster, session_timeout="20s"))


def besiege(cluster, g):
    member = g.member()
    g.wait_active(member)
    g.produce(20)
    g.wait_outputs()
    cluster.brokers[0].kill()
    tried = lambda: [int(count) for count in re.findall(r"client=admin .* (\d+) identical error\(s\) suppressed", member.log_path.read_text())]
    wait_until(tried, lambda: "no line about attempts of the admin client\n" + member.log())  # it is written twice a minute
    cluster.brokers[0].start()
    cluster.wait_ready()
    g.produce(20)
    g.finish()
    assert max(tried()) < 1000, tried()  # within half a minute; without back-off 100,000 and more
