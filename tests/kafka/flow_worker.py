"""The user program of test_flow.py: orders go through the loop to whom they are for, with a join, a lookup and a state on the way."""

import os
import time

import millstream

app = millstream.App()
SLOW = os.environ.get("LEDGER_MODE") == "slow"


@app.on("orders")
def order(ctx, record):
    if SLOW:
        time.sleep(0.001)
    order = record.value
    ctx.emit("loop", key=order["to"], value={"n": order["n"], "of": ctx.join("people").get(), "worth": order["amount"] * ctx.lookup("rates").get(order["unit"])})


@app.on("loop")
def arrived(ctx, record):
    count, worth = ctx.state("totals").get(default=[0, 0])
    total = [count + 1, worth + record.value["worth"]]
    ctx.state("totals").set(total)
    ctx.emit("seen", key=record.key, value={**record.value, "for": ctx.join("people").get(), "total": total})


if __name__ == "__main__":
    app.run()
