"""A worker that breaks the protocol: no effect of it is ever committed, the cause is named, an honest worker takes over.

The modes are described at the top of tests/workers/hostile_worker.cc.
"""

import pytest

from harness import BIN, wait_until

# What the log of the sidecar has to name, per mode.
MODES = {
    "exit0": r"worker ended with exit code 0",
    "old-version": r"(?i)version",
    "new-version": r"(?i)version",
    "result-first": r"(?i)HELLO",
    "unknown-input": r"no-such-input",
    "hang": r"(?i)deadline|answer",
    "exit-mid-batch": r"worker (disconnected|ended)",
    "wrong-seq": r"(?i)seq",
    "wrong-store": r"(?i)store",
    "wrong-output": r"(?i)output",
    "wrong-done": r"(?i)done",
    "oversized": r"(?i)length|frame|cap",
    "beyond-cap": r"(?i)length|frame|cap",
    "empty-frame": r"(?i)frame|length",
    "truncated": r"(?i)middle|truncat|worker disconnected",
    "random": r"(?i)frame|kind|decode|MessagePack",
    "garbage": r"(?i)frame|length|cap",
    "flood-get": r"(?i)request|GET|flood|queue",
    "flood-ping": r"(?i)request|PING|flood|queue|deadline",
    "never-reads": r"(?i)deadline|answer",
    "error": r"WorkerFailed",
}


@pytest.mark.parametrize("mode", MODES)
def test_has_no_effect_and_is_named(rig, mode):
    r = rig(worker=[BIN / "hostile_worker", f"--mode={mode}", "--times=2"], deadline="2s")
    r.produce(60)
    r.start()
    r.wait_log(MODES[mode])
    assert r.alive()
    assert r.http("/healthz")[0] == 200
    assert r.outputs() == [] and r.changelog() == []
    r.kill()
    honest = rig()
    honest.events = r.events
    honest.start()
    honest.finish()


def test_results_of_an_old_session_have_no_effect_in_the_next(rig):
    r = rig(worker=[BIN / "hostile_worker", "--mode=replay", "--times=2"])
    r.produce(60)
    r.start()
    r.wait_log("UnknownBatch")
    # What the first session answered is committed once: as many outputs as input records.
    wait_until(lambda: (outputs := len(r.consume("seen"))) and outputs == sum(
        (part.get("committed") or 0) for task in r.http("/v1/tasks")[1]["tasks"] for part in task["inputs"]), lambda: r.log()[-2000:])


def test_silent_connection_is_closed_and_others_are_served(rig):
    """Slow-loris: connections that never finish their HELLO do not keep an honest worker out."""
    import re
    import socket

    r = rig()
    r.produce(20)
    r.start()
    path = wait_until(lambda: re.search(r"connected to (\S+/0\.sock)", r.log()), r.log).group(1)
    silent = []
    for byte in range(16):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(b"\0\0\0\x40"[: byte % 4])
        silent.append(client)
    r.produce(20)
    r.finish()
    for client in silent:
        client.close()
