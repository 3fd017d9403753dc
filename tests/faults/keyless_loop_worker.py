"""The user program of test_edge_records.py's loop: sends each event on, a dull one without a key; tells what comes back."""

import millstream

app = millstream.App()


@app.on("events")
def event(ctx, record):
    ctx.emit("loop", key=None if record.value["dull"] else record.key, value=record.value)


@app.on("loop")
def back(ctx, record):
    ctx.emit("seen", key=record.key, value=record.value)


if __name__ == "__main__":
    app.run()
