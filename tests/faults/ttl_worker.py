"""The user program of test_ttl.py: every record tells what its key's last one was, as far as that is remembered.

LEDGER_MODE=slow makes every record take a millisecond, so that kills find something going on.
"""

import os
import time

import millstream

app = millstream.App()
SLOW = os.environ.get("LEDGER_MODE") == "slow"


@app.on("clicks")
def click(ctx, record):
    if SLOW:
        time.sleep(0.001)
    recent = ctx.state("recent")
    ctx.emit("told", key=record.key, value={"n": record.value["n"], "before": recent.get()})
    recent.set(record.value["n"])


if __name__ == "__main__":
    app.run()
