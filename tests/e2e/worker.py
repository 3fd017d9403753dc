"""The worker of the tests: the ledger of tests/faults (tests/faults/model.py computes the same), and ways to behave badly that take a container.

A file in /tmp, which outlives the process, says what is to happen and how many times: `hang` at a record, take `memory` until the kernel ends it,
`exit` at a start. MODE=ignore: SIGTERM is ignored.
"""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import millstream

app = millstream.App()


def wanted(what):
    """Takes one off what the file says."""
    path = Path(f"/tmp/{what}")
    left = int(path.read_text(encoding="ascii") or 0) if path.exists() else 0
    if left > 0:
        path.write_text(str(left - 1), encoding="ascii")
    return left > 0


def fold(ledger, number):
    seen, total, digest = ledger or (0, 0, "")
    return [seen + 1, total + number, hashlib.sha256(f"{digest}:{number}".encode()).hexdigest()[:16]]


@app.on("events")
def handle(ctx, record):
    event = record.value
    ledger = fold(ctx.state("ledger").get(), event["n"])
    ctx.state("ledger").set(ledger)
    ctx.emit("seen", key=record.key, value={"n": event["n"], "ledger": ledger})
    if wanted("hang"):
        time.sleep(3600)
    if wanted("memory"):
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20)))


if __name__ == "__main__":
    if wanted("exit"):
        sys.exit("this worker ends at every start")
    if os.environ.get("MODE") == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal = lambda *_: None  # the SDK's handler, too
    app.run()
