"""The user program of test_streams_windows.py: what WindowedCounts.java does with Kafka Streams, with the same outputs."""

import millstream

app = millstream.App()
for store in ("tumbling", "hopping"):
    app.store(store, value=millstream.INT)


def send(ctx, kind, window, count):
    ctx.emit("counts", key=f"{kind}|{window.key}|{window.start}|{window.end}", value=count)


@app.on("records", value=millstream.BYTES)
def count(ctx, record):
    if record.key is None:  # nothing to count by
        return
    for store in ("tumbling", "hopping"):
        for window in ctx.windows(store):
            window.set(window.get(default=0) + 1)
            send(ctx, store, window, window.get())
    for store in ("sessions", "kept-sessions"):
        session = ctx.session(store)
        if session:
            count_session(ctx, record.key, session)


def count_session(ctx, key, session):
    """What it was before, or is made of, goes from the output: the values know their bounds."""
    parts = session.values()
    for part in parts:
        if (part["start"], part["end"]) != (session.start, session.end):
            ctx.emit("counts", key=f"{session.store}|{key}|{part['start']}|{part['end']}", value=None)
    count = 1 + sum(part["count"] for part in parts)
    session.set({"start": session.start, "end": session.end, "count": count})
    send(ctx, session.store, session, count)


@app.on_close("tumbling")
@app.on_close("hopping")
def closed(ctx, window):
    send(ctx, f"{window.store}-closed", window, window.value)


if __name__ == "__main__":
    app.run()
