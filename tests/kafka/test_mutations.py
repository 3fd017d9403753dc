"""The verifier must notice an engine that leaves out a rule of engine.md: a test that passes proves nothing otherwise.

Each rule is switched off in the test build (cli/crashtest_main.cc), and the same trouble is made for an engine that keeps all rules: that one
must come out right. sidecar/engine/mutation_test.cc does the same in the simulation.
"""

import concurrent.futures
import threading
import time

import clients
import pytest
from harness import DEADLINE, wait_until

EVER = 1_000_000  # times that a fault is for


class NothingHappened(Exception):
    """What was to happen to the engine did not: the run says nothing about it."""


class Taking:
    """Somebody takes over a writer's transactional id while its next commit is on the way.

    after=False: before the commit arrives: it is void.   after=True: when it is done, its answer is lost, and before it is repeated: it
    counts, and whoever repeats it is told that it may not.
    """

    def __init__(self, g, after):
        self.g, self.name, self.done = g, None, threading.Event()
        if after:
            g.proxy.fault("EndTxn", when=self.is_commit, cut_after=True)
        g.proxy.fault("EndTxn", when=self.is_commit, then=self.take_over)

    def is_commit(self, request):
        if not request.commit or not (request.name or "").startswith(self.g.group):
            return False
        self.name = self.name or request.name
        return request.name == self.name

    def take_over(self):
        clients.transactional(self.g.config, self.name)
        self.done.set()

    def wait(self):
        wait_until(self.done.is_set, lambda: f"no commit\n{self.g.logs()}")


def under_load(g, after, keys):
    member = g.member(mode="slow")
    g.wait_active(member)
    feeder = g.feed(400, keys=keys)
    try:
        for _ in range(4):
            g.wait_outputs(g.tail.count() + 50, deadline=g.patience)
            Taking(g, after).wait()
    finally:
        feeder.close()


def commits_are_void(g):
    under_load(g, after=False, keys=20)


def commits_of_new_keys_are_void(g):
    """What an aborted transaction left on disk is seen when it is done again, unless something newer lies above it in memory."""
    under_load(g, after=False, keys=1 << 30)


def commits_count_and_nobody_says_so(g):
    under_load(g, after=True, keys=20)


def a_zombie_that_nobody_can_fence(g):
    """It does not hear that it is expelled, and its offsets arrive when its successor has read the old ones. What would end its transaction does
    not get through: only the generation tells its offsets from good ones.
    """
    proxy = g.proxy
    zombie = g.member()
    g.produce(100)
    g.wait_outputs()
    with proxy.lock:
        ids = {request.name for request in proxy.recent if request.api == "EndTxn" and request.name.startswith(g.group)}
    instance = ids.copy().pop().removeprefix(f"{g.group}-").rsplit("-", 2)[0].encode()
    other = g.member()
    wait_until(lambda: len(zombie.active()) == len(other.active()) == 1, g.logs)
    others, = other.active()
    held, arrive = threading.Event(), threading.Event()

    def wrote(request):
        """Whether its transaction has written anything (not all have: idle ones only move offsets past control records)."""
        before = (each.api for each in reversed(proxy.recent) if each.name == request.name and each.api in ("Produce", "EndTxn"))
        return request.name in ids and (held.is_set() or next(before, "") == "Produce")

    def hold():
        held.set()
        arrive.wait(DEADLINE)

    def successor_restores():
        """Whether the end of a changelog was asked for since the last plan: before that it reads the offsets, after that it waits for the
        open transaction."""
        with proxy.lock:
            recent = list(proxy.recent)
        planned = max((at for at, each in enumerate(recent) if each.api == "SyncGroup" and each.name == g.group), default=0)
        return other.tasks().get(1 - others) == "restoring" and any(each.api == "ListOffsets" and g.changelog.encode() in each.head for each in recent[planned:])

    def said_since(at):
        """How the zombie's transaction goes on: it ends it (True: commits it), or wants its writer anew."""
        with proxy.lock:
            said = [each for each in proxy.recent if each.at > at and each.name in ids and instance.decode() in each.client]
        return [each.commit for each in said if each.api in ("EndTxn", "InitProducerId")]

    silent = proxy.fault("Heartbeat", when=lambda request: held.is_set() and instance in request.head, times=EVER, drop_request=True)
    unfenced = proxy.fault("InitProducerId", when=lambda request: request.name in ids, times=EVER, drop_request=True)
    proxy.fault("TxnOffsetCommit", when=wrote, times=EVER, then=hold)
    try:
        g.produce(100)
        wait_until(held.is_set, "no offsets")
        wait_until(successor_restores, lambda: f"{other.tasks()}\n{g.logs()}")
    finally:
        arrived = time.monotonic()
        arrive.set()
    said = wait_until(lambda: said_since(arrived), lambda: f"the zombie's transaction does not go on\n{g.logs()}")
    unfenced.times = 0
    # What its successor does again shows at the end of what it has to do: before that the zombie's part looks right.
    g.wait_active(other)
    g.produce(20)
    silent.times = 0
    if g.mutation and not said[0]:
        raise NothingHappened(f"the zombie did not commit: {said}")


WITHOUT = {
    "R3": (commits_are_void, {}),
    "R4": (commits_of_new_keys_are_void, {}),
    "R6": (commits_count_and_nobody_says_so, {}),
    "R7": (a_zombie_that_nobody_can_fence, {"partitions": 2, "transaction_timeout": "60s"}),
}


def problem(g, trouble):
    """What the run, or the check after it, says: the engine's own checks may end the process first, which counts too. None if the trouble
    did not come about.
    """
    try:
        trouble(g)
        g.wait_outputs(deadline=g.patience)
        g.check()
    except NothingHappened:
        return None
    except AssertionError as error:
        return str(error)
    return ""


TRIES = 3  # not every run of an engine without a rule comes to harm
RUNS = 8  # with those in which nothing happened


@pytest.mark.parametrize("rule", WITHOUT)
def test_an_engine_without(group, one, rule):
    trouble, options = WITHOUT[rule]
    came_through = 0
    for _ in range(RUNS):
        sound, broken = group(one, **options), group(one, mutation=rule, **options)
        sound.patience, broken.patience = DEADLINE, 20
        with concurrent.futures.ThreadPoolExecutor() as pool:
            good, bad = pool.map(problem, [sound, broken], [trouble, trouble])
        assert not good, good
        if bad:
            return
        came_through += bad == ""
        if came_through == TRIES:
            break
        for g in (sound, broken):
            g.close()
    raise AssertionError(f"the engine without {rule} came through {came_through} times\n{broken.logs()}")
