"""The keyed count of the README, as bench/sdk.py of the project runs it for every SDK."""

import millstream

app = millstream.App()
app.store("counts", value=millstream.INT)


@app.on("words", value=millstream.BYTES)
def count(ctx, record):
    counts = ctx.state("counts")
    n = counts.get(default=0) + 1
    counts.set(n)
    ctx.emit("word-counts", key=record.key, value=n)


if __name__ == "__main__":
    app.run()
