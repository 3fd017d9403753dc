"""The user program of test_time_edges.py: does what each record of `edges` says with windows, sessions and timers."""

import millstream

app = millstream.App()
YEAR_10000 = 253402300800000  # timers and timestamps of outputs are before


@app.on("edges")
def edge(ctx, record):
    do = record.value["do"]
    if do == "windows":
        for window in ctx.windows("hops"):
            window.set(1)
    if do == "visit":
        visit = ctx.session("visits")
        visit.set(sum(visit.values()) + 1)
    if do == "everything":
        for window in ctx.windows("minutes"):
            window.set(window.get(default=0) + 1)
        visit = ctx.session("visits")
        if visit is not None:
            visit.set(sum(visit.values()) + 1)
        before = ctx.state("recent").get()
        ctx.state("recent").set(record.timestamp)
        ctx.timers.set("all", at=min(record.timestamp, YEAR_10000 - 1))
        ctx.emit("told", key=record.key, value={"at": record.timestamp, "before": before, "windows": len(ctx.windows("minutes"))})
    if do == "set":
        ctx.timers.set(record.value["name"], at=record.value["time"], clock=record.value["clock"])
    if do == "cancel":
        ctx.timers.cancel(record.value["name"], clock=record.value["clock"])


for name in ("far", "past", "moved", "all"):

    @app.on_timer(name)
    def due(ctx, timer):
        ctx.emit("fired", key=timer.key, value={"name": timer.name, "clock": timer.clock, "time": timer.time})


@app.on_close("minutes")
def closed(ctx, window):
    ctx.emit("closed", key=window.key, value={"start": window.start, "end": window.end, "count": window.value})


if __name__ == "__main__":
    app.run()
