"""Copies every record, byte by byte, into its store and its output: for records at the edges of what a log may hold."""

import millstream

app = millstream.App(key="bytes", value="bytes")


@app.on("events")
def handle(ctx, record):
    if record.key is not None:
        ctx.state("ledger").set(record.value) if record.value is not None else ctx.state("ledger").delete()
    ctx.emit("seen", key=record.key, value=record.value, headers=record.headers, timestamp=record.timestamp)


if __name__ == "__main__":
    app.run()
