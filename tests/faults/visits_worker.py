"""The user program of test_visits.py: payments add to balances, a visit adds one to each and tells so.

LEDGER_MODE=slow makes every row take a millisecond, so that kills find something going on; a fifth of a second while the file LEDGER_FLAG is there.
"""

import os
import time

import millstream

app = millstream.App()
SLOW = os.environ.get("LEDGER_MODE") == "slow"
FLAG = os.environ.get("LEDGER_FLAG")


@app.on("payments")
def pay(ctx, record):
    balances = ctx.state("balances")
    balances.set(balances.get(default=0) + record.value["amount"])


@app.on("commands")
def command(ctx, record):
    ctx.visits.start("interest", data=record.value["number"])


@app.on_visit("interest")
def interest(ctx, row):
    if SLOW:
        time.sleep(0.2 if FLAG and os.path.exists(FLAG) else 0.001)
    row.set(row.value + 1)
    ctx.emit("told", key=row.key, value={"number": row.data})


@app.on_visit_end("interest")
def end(ctx, end):
    ctx.emit("told", key=f"end of {ctx.task}", value={"number": end.data})


if __name__ == "__main__":
    app.run()
