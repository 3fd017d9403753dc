"""kill -9 of the sidecar: at every named point of a transaction, and at random times."""

import os
import signal
import time

import pytest

# Between the steps of a transaction (sidecar/host), and inside the log (common/log/embedded).
POINTS = ["after-fetch", "after-reply", "after-first-append", "after-flush", "after-offsets-sent", "commit-done-not-applied",
          "half-applied-flush", "log-append-written", "log-commit-written", "log-commit-synced"]


@pytest.mark.parametrize("backend", ["Disk", "Memory"])
@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize("point", POINTS)
def test_at_a_point(rig, point, passes, backend):
    r = rig(backend=backend)
    r.produce(300)
    r.start(crash_at=f"{point}:{passes}")
    end = time.monotonic() + 60
    while r.alive() and time.monotonic() < end:  # more work until the point has been passed often enough
        r.command("produce", "events", "--data", r.data, "--key", "key", stdin=b"", check=False)
        try:
            r.produce(20)
        except AssertionError:
            pass  # the process died under the command: whether the events arrived is seen below
        time.sleep(0.02)
    assert r.wait_exit() == -signal.SIGKILL, f"{point} was never passed {passes} times\n{r.log()[-2000:]}"
    arrived(r)
    r.produce(50)
    r.start()
    r.finish()


def arrived(r):
    """Keeps only the events that are in the input topic: a `produce` that failed may have written some of its records."""
    import json

    r.events = [(key, json.loads(value)["n"]) for _, _, _, key, value in r.consume("events")]


def test_at_random_times(rig, seed):
    r = rig()
    r.produce(200)
    rounds = int(os.environ.get("FAULTS_ROUNDS", "50"))
    for _ in range(rounds):
        r.start(mode=seed.choice(["", "", "slow"]))
        pause = seed.random() * seed.choice([0.2, 0.6, 1.2])
        if seed.random() < 0.5:
            try:
                r.produce(seed.randrange(1, 200))
            except AssertionError:
                pass
        time.sleep(pause)
        r.kill()
        arrived(r)
    r.start()
    r.finish()


def test_sigterm_in_the_middle_of_a_batch(rig):
    r = rig()
    r.produce(3000)
    r.start(mode="slow")
    r.wait_outputs(1)
    assert r.stop() == 0, r.log()[-2000:]
    r.start()
    r.finish()
