use millstream::{App, Context, EmitOptions, HandlerError, HandlerResult, Json, Output, Record, Text, WindowStore};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Reading {
    celsius: f64,
}

#[derive(Default, Deserialize, Serialize)]
struct Sum {
    n: i64,
    sum: f64,
}

static MINUTES: WindowStore<Text, Json<Sum>> = WindowStore::new("minutes", Text, Json::new());
static AVERAGES: Output<Text, Json<f64>> = Output::new("minute-averages", Text, Json::new());

fn average(ctx: &mut Context, reading: Record<Text, Json<Reading>>) -> HandlerResult {
    let (Some(sensor), Some(Reading { celsius })) = (reading.key, &reading.value) else {
        return Err(HandlerError::reject("a reading without sensor or value"));
    };
    if reading.header("quality") == Some(b"bad") {
        return Ok(());
    }
    for minute in MINUTES.windows(ctx)? {
        let before = MINUTES.get(ctx, minute)?.unwrap_or_default();
        let sum = Sum { n: before.n + 1, sum: before.sum + celsius };
        MINUTES.put(ctx, minute, &sum)?;
        let readings = sum.n.to_string();
        let options = EmitOptions::new().header("readings", &readings).timestamp(minute.start);
        AVERAGES.emit_with(ctx, sensor, &(sum.sum / sum.n as f64), &options)?;
    }
    Ok(())
}

fn app() -> App {
    App::new().on("readings", average)
}

fn main() {
    app().main();
}
