"""Flights come keyed by where they start, and are counted where they land: through the loop, with two tables."""

import millstream

app = millstream.App()


@app.on("flights")
def departed(ctx, record):
    """Here the airport of departure is the record's key: its row of the join came with the batch."""
    start = ctx.join("airports").get()
    if start is None:
        raise millstream.RejectRecord(f"no airport {record.key}")
    flight = record.value
    ctx.emit("loop", key=flight["destination"], value={"from": start["state"], "delay": flight["delay"]})


@app.on("loop")
def arrived(ctx, record):
    """Here it is the airport of arrival."""
    airport = ctx.join("airports").get(default={"city": "?", "state": "?"})
    seen = ctx.state("arrived").get(default={"flights": 0, "late": 0, "from": {}})
    region = ctx.lookup("regions").get(record.value["from"], default="elsewhere")
    seen["flights"] += 1
    seen["late"] += max(record.value["delay"], 0)
    seen["from"][region] = seen["from"].get(region, 0) + 1
    ctx.state("arrived").set(seen)
    ctx.emit("arrivals", key=record.key, value={"city": airport["city"], "flights": seen["flights"], "late": seen["late"]})


if __name__ == "__main__":
    app.run()
