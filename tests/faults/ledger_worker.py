"""The user program of the fault tests: folds numbered events into a per-key ledger and says of each what it saw.

State per key: how many events, their sum, and a hash over their numbers in order: two equal ledgers saw the same events
in the same order, once each. MODE in the environment makes it misbehave; see misbehave().
"""

import hashlib
import os
import signal
import sys
import time

import millstream

app = millstream.App()
MODE = os.environ.get("LEDGER_MODE", "")
PROCESSES = int(os.environ.get("LEDGER_PROCESSES", "1"))
FLAG = os.environ.get("LEDGER_FLAG", "")  # a file that exists once the misbehaviour has happened


def fold(ledger, number):
    """The next ledger. tests/faults/model.py computes the same without this code."""
    seen, total, digest = ledger or (0, 0, "")
    return [seen + 1, total + number, hashlib.sha256(f"{digest}:{number}".encode()).hexdigest()[:16]]


def once():
    """True the first time, across restarts of this program."""
    try:
        os.close(os.open(FLAG, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        return True
    except FileExistsError:
        return False


def misbehave(event):
    trouble = event.get("trouble")
    if trouble == "fail":
        raise ValueError("this record always fails")
    if trouble == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "hang":
        time.sleep(3600)
    if trouble == "fail-once" and once():
        raise ValueError("this record fails once")
    if trouble == "kill-once" and once():
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "stop-once" and once():
        os.kill(os.getpid(), signal.SIGSTOP)
    if trouble == "exit-once" and once():
        sys.stdout.flush()
        os._exit(0)
    if trouble == "slow":
        time.sleep(0.2)


@app.on("events")
def handle(ctx, record):
    event = record.value
    if MODE == "slow":
        time.sleep(0.001)
    ledger = fold(ctx.state("ledger").get(), event["n"])
    ctx.state("ledger").set(ledger)
    value = {"n": event["n"], "ledger": ledger}
    if "pad" in event:
        value["pad"] = "x" * event["pad"]
    ctx.emit("seen", key=record.key, value=value)
    misbehave(event)  # last: what it staged must not survive


if __name__ == "__main__":
    app.run(processes=PROCESSES)
