"""First of three: turns flights into legs, keyed by route. Stateless."""

import millstream

app = millstream.App()


@app.on("flights")
def leg(ctx, record):
    flight = record.value
    ctx.emit("legs", key=f"{flight['origin']}-{flight['destination']}",
             value={"late": max(flight["delay"], 0), "miles": flight["distance"]})


if __name__ == "__main__":
    app.run()
