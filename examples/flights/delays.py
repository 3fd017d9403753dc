"""Delays per airport of departure, over every flight: integers only, so the result is exact."""

import millstream

app = millstream.App()

LONG_DELAY_MINUTES = 180


@app.on("flights")
def count(ctx, record):
    flight = record.value
    airports = ctx.state("airports")
    seen = airports.get(default={"flights": 0, "late": 0, "delay_sum": 0, "delay_max": 0, "distance_sum": 0})

    late = max(flight["delay"], 0)  # early departures have a negative delay
    seen["flights"] += 1
    seen["late"] += late > 0
    seen["delay_sum"] += late
    seen["delay_max"] = max(seen["delay_max"], late)
    seen["distance_sum"] += flight["distance"]

    airports.set(seen)
    ctx.emit("airport-delays", key=record.key, value=seen)
    if late > LONG_DELAY_MINUTES:
        ctx.emit("long-delays", key=record.key, value=flight, headers={"minutes": str(late)})


if __name__ == "__main__":
    app.run()
