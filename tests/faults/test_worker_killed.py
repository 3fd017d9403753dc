"""The user program dies, freezes, ends or never comes: nothing is lost or doubled, and the product says what is wrong."""

import os
import re
import signal
import sys

import pytest

from harness import HERE, children_of, wait_until


@pytest.mark.parametrize("trouble", ["kill-once", "exit-once", "fail-once"])
def test_trouble_in_the_middle_of_a_batch(rig, trouble):
    r = rig()
    r.produce(200)
    r.produce(1, trouble=trouble)
    r.produce(200)
    r.start()
    r.finish()


def test_frozen_worker_is_replaced_after_the_deadline(rig):
    r = rig(deadline="1s")
    r.produce(100)
    r.produce(1, trouble="stop-once")
    r.produce(100)
    r.start()
    r.wait_log("deadline")
    r.wait_log("it hangs")
    r.finish()


def three_workers(r, program):
    """Waits until `program` (a process id) runs three worker processes and all are connected; returns their process ids."""

    def connected():
        found = children_of(program)
        return len(found) == 3 and re.search(r"^millstream_workers_connected\D* 3$", str(r.http("/metrics")[1]), re.M) and found

    return set(wait_until(connected, lambda: f"no three workers, but {children_of(program)}\n{r.log()[-2000:]}"))


def test_one_of_several_processes_freezes_and_is_replaced(rig):
    r = rig(deadline="1s")
    r.start(extra_env={"LEDGER_PROCESSES": "3"})
    (program,) = wait_until(r.worker_pids, "no worker runs")
    before = three_workers(r, program)
    r.produce(100)
    r.produce(1, trouble="stop-once")
    r.produce(300)
    r.wait_outputs(401)  # the others take over its tasks
    frozen = int(r.wait_log(r"worker \(pid (\d+)\) .*it hangs; killed")[1])
    assert frozen in before
    after = three_workers(r, program)
    assert frozen not in after and before - {frozen} < after, (before, frozen, after)
    assert r.worker_pids() == [program], "the program itself was not ended"
    r.produce(100)
    r.finish()


def test_one_that_is_not_ours_to_kill_is_named(rig):
    """A program that left our process group, as one in a container would be: its owner has to know which process it is."""
    r = rig(deadline="1s", worker=["setsid", "--wait", sys.executable, HERE / "ledger_worker.py"])
    r.start(extra_env={"LEDGER_PROCESSES": "3"})
    (setsid,) = wait_until(r.worker_pids, "no worker runs")
    (program,) = wait_until(lambda: children_of(setsid), "setsid starts nothing")
    try:
        before = three_workers(r, program)
        r.produce(100)
        r.produce(1, trouble="stop-once")
        r.produce(300)
        r.wait_outputs(401)
        frozen = int(r.wait_log(r"WorkerHangs: .*\(pid (\d+)\).*it hangs")[1])
        assert f"kill -9 {frozen}" in r.log()
        assert set(children_of(program)) == before
        os.kill(frozen, signal.SIGKILL)
        assert frozen not in three_workers(r, program)
        r.produce(100)
        r.finish()
    finally:
        for pid in [program, *children_of(program)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def test_killed_at_any_time(rig, seed):
    r = rig()
    r.produce(2000)
    r.start(mode="slow")
    for _ in range(5):
        r.wait_outputs(seed.randrange(1, 300))
        r.signal_worker(signal.SIGKILL)
        r.produce(50)
    r.finish()


def test_never_connects(rig):
    r = rig(worker=["sleep", "3600"])
    r.manifest.write_text(r.manifest.read_text() + "  sidecar: {workers: {connectTimeout: 1s}}\n")
    r.produce(10)
    r.start()
    r.wait_log("WorkerNotConnected")
    assert r.alive()
    assert r.http("/healthz")[0] == 200
    status, body = r.http("/readyz")
    assert status == 503 and "WorkerNotConnected" in str(body), body
    r.kill()
    healthy = rig()
    healthy.events = r.events
    healthy.start()
    healthy.finish()


def test_exits_with_zero_again_and_again(rig):
    r = rig(worker=["true"])
    r.produce(10)
    r.start()
    r.wait_log(r"(?i)worker.*exit")
    assert r.alive()
    assert r.outputs() == []


@pytest.mark.parametrize("trouble", ["fail", "crash"])
@pytest.mark.parametrize("policy", ["Stop", "Skip", "DeadLetter"])
def test_poison(rig, trouble, policy):
    r = rig(on_failure=policy)
    r.produce(100, keys=7)
    poison = r.produce(1, trouble=trouble, key="key-3")
    r.produce(100, keys=7)
    r.start()
    if policy == "Stop":
        stopped = wait_until(lambda: [t for t in r.http("/v1/tasks")[1]["tasks"] if "topped" in str(t)] if r.http("/v1/tasks")[0] == 200 else None,
                             lambda: f"no task stopped\n{r.log()[-3000:]}")
        assert len(stopped) == 1 and "events" in str(stopped[0]), stopped
        # The others go on; nothing of the poison record or behind it in its partition is committed.
        outputs = [v["n"] for _, v in r.outputs()]
        assert poison[0] not in outputs and len(set(outputs)) == len(outputs)
        return
    r.wait_outputs(200)
    r.check(skipped=set(poison))
    letters = r.consume("default.totals-dead-letter")
    assert len(letters) == (1 if policy == "DeadLetter" else 0)
    if letters:
        assert letters[0][3] == b"key-3" and b'"trouble"' in letters[0][4]
    r.finish(skipped=set(poison))


def test_hanging_record_goes_to_the_dead_letters(rig):
    r = rig(on_failure="DeadLetter", deadline="1s")
    r.produce(20)
    poison = r.produce(1, trouble="hang")
    r.produce(20)
    r.start()
    r.finish(skipped=set(poison))
    assert len(r.consume("default.totals-dead-letter")) == 1
