"""The user program of test_time_edges.py: does what each record of `edges` says with windows, sessions and timers."""

import millstream

app = millstream.App()


@app.on("edges")
def edge(ctx, record):
    do = record.value["do"]
    if do == "windows":
        for window in ctx.windows("hops"):
            window.set(1)
    if do == "visit":
        visit = ctx.session("visits")
        visit.set(sum(visit.values()) + 1)
    if do == "set":
        ctx.timers.set(record.value["name"], at=record.value["time"], clock=record.value["clock"])
    if do == "cancel":
        ctx.timers.cancel(record.value["name"], clock=record.value["clock"])


for name in ("far", "past", "moved"):

    @app.on_timer(name)
    def due(ctx, timer):
        ctx.emit("fired", key=timer.key, value={"name": timer.name, "clock": timer.clock, "time": timer.time})


if __name__ == "__main__":
    app.run()
