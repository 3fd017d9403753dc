"""A stream-stream join: each click meets the impressions that its user saw in the ten minutes before it, in whatever order the two come."""

import millstream

app = millstream.App()

WITHIN = 600_000  # ms; also the size of a window, so what a record can meet is in two of them


def kept(window):
    return window.get(default={"impressions": [], "clicks": []})


@app.on("impressions")
def impression(ctx, record):
    (own,) = ctx.windows("recent")
    new = {"ad": record.value["ad"], "at": record.timestamp, "clicked": False}
    for start in (own.start, own.start + WITHIN):
        for click in kept(ctx.window("recent", start))["clicks"]:
            if 0 <= click["at"] - new["at"] <= WITHIN:
                new["clicked"] = True
                attribute(ctx, record.key, new, click)
    here = kept(own)
    here["impressions"].append(new)
    own.set(here)


@app.on("clicks")
def click(ctx, record):
    (own,) = ctx.windows("recent")
    new = {"click": record.value["click"], "at": record.timestamp}
    for start in (own.start - WITHIN, own.start):
        window = ctx.window("recent", start)
        there = kept(window)
        met = [seen for seen in there["impressions"] if 0 <= new["at"] - seen["at"] <= WITHIN]
        for seen in met:
            seen["clicked"] = True
            attribute(ctx, record.key, seen, new)
        if met:
            window.set(there)
    here = kept(own)
    here["clicks"].append(new)
    own.set(here)


def attribute(ctx, user, seen, clicked):
    ctx.emit("attributed", key=user, value={"click": clicked["click"], "ad": seen["ad"], "after": clicked["at"] - seen["at"]})


@app.on_close("recent")
def over(ctx, window):
    """Nothing can meet these impressions any more: the outer side of the join."""
    for seen in window.value["impressions"]:
        if not seen["clicked"]:
            ctx.emit("unclicked", key=window.key, value={"ad": seen["ad"], "at": seen["at"]}, timestamp=seen["at"])


if __name__ == "__main__":
    app.run()
