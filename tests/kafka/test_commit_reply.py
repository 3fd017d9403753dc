"""Answers to the requests of a transaction come late, never, or with the connection cut. A commit that arrived stays one commit."""

import os

import pytest

# How many seconds the answer to a commit is late, and those to its repetitions. A call may take 30 s: with 38 its outcome is unknown.
LATE = [float(text) for text in os.environ.get("KAFKA_LATE", "1,6,38").split(",")]
TRANSACTION = ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn"]


def of(g):
    """Requests of that group's transactional ids."""
    return lambda request: (request.name or "").startswith(g.group)


def commit_of(g):
    return lambda request: request.commit is True and of(g)(request)


def for_a_while(seconds, matches):
    """Requests that match, until so many seconds after the first."""
    first = []

    def within(request):
        if matches(request):
            first.append(request.at)
            return request.at - first[0] < seconds
        return False

    return within


def run_with_faults(group, one, plans):
    """One processor for each plan (arguments for Proxy.fault, about its commits), all at the same time, so that the waits overlap."""
    proxy = one[1]
    running = []
    for plan in plans:
        g = group(one)
        running.append((g, plan, g.member()))
    for g, _, member in running:
        g.wait_active(member)
        g.produce(100)
        g.wait_outputs()
    faults, feeders = [], []
    for g, plan, _ in running:
        faults.append(proxy.fault("EndTxn", when=for_a_while(plan.get("delay_response", 60), commit_of(g)), **plan))
        feeders.append(g.feed(100))
    for (g, plan, member), fault, feeder in zip(running, faults, feeders):
        while not fault.hits:
            proxy.wait("EndTxn")
        feeder.close()
        g.produce(100)
        g.wait_outputs(deadline=180)
        assert member.alive(), f"{plan}: the process ended\n{member.log()}"
        g.finish()


def test_the_answer_to_a_commit_is_late(group, one):
    run_with_faults(group, one, [{"delay_response": seconds, "times": 10} for seconds in LATE])


def test_a_commit_itself_is_late(group, one):
    """It arrives when its client has long done something else, perhaps begun the next transaction."""
    run_with_faults(group, one, [{"delay_request": seconds} for seconds in LATE[:-1]])


def test_the_answer_to_a_commit_is_lost(group, one):
    run_with_faults(group, one, [{"drop_response": True}, {"cut_after": True}, {"cut_before": True}, {"hang_up": True}])


def test_commit_answers_are_lost_again_and_again(group, one):
    run_with_faults(group, one, [{"cut_after": True, "times": 10}, {"hang_up": True, "times": 10}])


@pytest.mark.parametrize("kind", ["cut_before", "cut_after"])
def test_connections_end_at_every_request_of_a_transaction(group, one, kind):
    proxy = one[1]
    g = group(one)
    member = g.member()
    g.wait_active(member)
    feeder = g.feed(200)
    for api in TRANSACTION:
        fault = proxy.fault(api, when=of(g), times=3, **{kind: True})
        while fault.hits < 3:
            proxy.wait(api)
    feeder.close()
    g.finish()


def test_the_network_between_sidecar_and_brokers_is_gone_for_a_while(group, one):
    proxy = one[1]
    g = group(one)
    member = g.member()
    g.wait_active(member)
    feeder = g.feed(200)
    g.wait_outputs(100)
    for seconds in (0.5, 4):
        proxy.refuse()
        feeder.ended.wait(seconds)
        proxy.allow()
        g.wait_outputs(g.tail.count() + 100)
    feeder.close()
    assert member.alive()
    g.finish()
