"""The user program of test_time.py: windows and stays that are counted and given once at their end, visits, and a timer for every record.

LEDGER_MODE=slow makes every record take a millisecond, so that kills find something going on. TIME_CALLS=FILE has a line for every call of a handler.
"""

import os
import time

import millstream

app = millstream.App()
app.store("visits", merge=lambda a, b: a + b)
app.store("stays", merge=lambda a, b: a + b)
SLOW = os.environ.get("LEDGER_MODE") == "slow"
REMIND_AFTER = 900  # ms
CALLS = os.open(os.environ["TIME_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT) if "TIME_CALLS" in os.environ else None


def called(*what):
    """One write: whole, or not there."""
    if CALLS is not None:
        os.write(CALLS, ("\t".join(map(str, what)) + "\n").encode())


@app.on("clicks")
def click(ctx, record):
    called("click", record.value["n"])
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


def close(ctx, store, window):
    called("close", store, window.key, window.start, window.end)
    ctx.emit("closed", key=window.key, value={"store": store, "start": window.start, "end": window.end, "count": window.value})


@app.on_close("counts")
def close_counts(ctx, window):
    close(ctx, "counts", window)


@app.on_close("stays")
def close_stays(ctx, window):
    close(ctx, "stays", window)


@app.on_timer("remind")
def remind(ctx, timer):
    called("remind", timer.key, timer.time)
    ctx.emit("reminded", key=timer.key, value={"time": timer.time})


if __name__ == "__main__":
    app.run()
