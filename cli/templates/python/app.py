"""__NAME__: counts the records of every key and emits the new count each time."""

import millstream

app = millstream.App()


@app.on("words")
def count(ctx, record):
    counts = ctx.state("counts")
    n = counts.get(default=0) + 1
    counts.set(n)
    ctx.emit("word-counts", key=record.key, value={"count": n})


if __name__ == "__main__":
    app.run()
