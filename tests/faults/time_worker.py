"""The user program of test_time.py: windows and stays that are counted and given once at their end, visits, and a timer for every record.

LEDGER_MODE=slow makes every record take a millisecond, so that kills find something going on.
"""

import os
import time

import millstream

app = millstream.App()
app.store("visits", merge=lambda a, b: a + b)
app.store("stays", merge=lambda a, b: a + b)
SLOW = os.environ.get("LEDGER_MODE") == "slow"
REMIND_AFTER = 900  # ms


@app.on("clicks")
def click(ctx, record):
    if SLOW:
        time.sleep(0.001)
    for window in ctx.windows("counts"):
        window.set(window.get(default=0) + 1)
    visit = ctx.session("visits")
    visit.set(visit.get(default=0) + 1)
    stay = ctx.session("stays")
    if stay is not None:
        stay.set(stay.get(default=0) + 1)
    ctx.timers.set("remind", at=record.timestamp + REMIND_AFTER, key=f"{record.key}/{record.value['n']}")


@app.on_close("counts")
@app.on_close("stays")
def close(ctx, window):
    ctx.emit("closed", key=window.key, value={"start": window.start, "end": window.end, "count": window.value})


@app.on_timer("remind")
def remind(ctx, timer):
    ctx.emit("reminded", key=timer.key, value={"time": timer.time})


if __name__ == "__main__":
    app.run()
