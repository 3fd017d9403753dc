"""The verifier must notice an engine that leaves out a rule of engine.md: a test that passes proves nothing otherwise.

R7 (offsets with a generation) cannot be seen from outside as long as the leader also ends the transactions of vanished members, nor R4 (disk after
commit) as long as an aborted task is brought up to date from its changelog before it goes on: the simulation shows both
(sidecar/engine/mutation_test.cc).
"""

import os
import time

import pytest
from harness import wait_until

pytestmark = pytest.mark.long


def notices(g, work):
    """Whether the run, or the check after it, fails: the engine's own checks may end the process first, which counts too."""
    try:
        work()
        g.wait_outputs(deadline=20)
        g.check()
    except AssertionError as error:
        return str(error)
    return ""


def aborts(g):
    """The broker aborts what is in flight, again and again, with the next transaction begun."""
    member = g.member(mode="slow")
    g.wait_active(member)
    feeder = g.feed(400)
    for _ in range(3):
        g.wait_outputs(g.tail.count() + 50, deadline=20)
        member.pause()
        time.sleep(4)
        member.resume()
    # And what is closed already: the commit arrives when the broker has given the transaction up.
    for _ in range(2):
        late = g.proxy.fault("EndTxn", when=lambda request: request.commit and (request.name or "").startswith(g.group), delay_request=5)
        wait_until(lambda: late.hits, "no commit", 30)
        time.sleep(5)
    feeder.close()


@pytest.mark.parametrize("rule", ["", "R3"])
def test_aborted_transactions(group, one, monkeypatch, rule):
    if rule:
        monkeypatch.setitem(os.environ, "MILLSTREAM_MUTATION", rule)
    g = group(one, session_timeout="30s", transaction_timeout="2s")
    assert bool(notices(g, lambda: aborts(g))) == bool(rule)


@pytest.mark.parametrize("rule", ["", "R6"])
def test_unknown_outcomes(group, one, monkeypatch, rule):
    """A commit that arrived, and whose answers come later than a call may take."""
    if rule:
        monkeypatch.setitem(os.environ, "MILLSTREAM_MUTATION", rule)
    g = group(one)

    def work():
        member = g.member()
        g.produce(100)
        g.wait_outputs()
        first = []

        def ours(request):
            if request.commit and (request.name or "").startswith(g.group):
                first.append(request.at)
                return request.at - first[0] < 32
            return False

        fault = one[1].fault("EndTxn", when=ours, times=10, delay_response=32)
        g.produce(100)
        wait_until(lambda: fault.hits, "no commit")
        g.wait_outputs()
        wait_until(lambda: time.monotonic() - first[0] > 40 and member.alive(), "", 60)

    assert bool(notices(g, work)) == bool(rule)
