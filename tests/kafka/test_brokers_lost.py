"""Three brokers, three replicas, two in sync: each is killed in turn, paused, or loses what it coordinates, under load."""

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
