use millstream::{App, Context, EmitOptions, HandlerError, HandlerResult, Json, Output, Record, Store, Text};
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

const MINUTE: i64 = 60_000;

static MINUTES: Store<Text, Json<Sum>> = Store::new("minutes", Text, Json::new());
static AVERAGES: Output<Text, Json<f64>> = Output::new("minute-averages", Text, Json::new());

fn average(ctx: &mut Context, reading: Record<Text, Json<Reading>>) -> HandlerResult {
    let (Some(sensor), Some(Reading { celsius })) = (reading.key, &reading.value) else {
        return Err(HandlerError::reject("a reading without sensor or value"));
    };
    if reading.header("quality") == Some(b"bad") {
        return Ok(());
    }
    let minute = reading.timestamp().div_euclid(MINUTE) * MINUTE;
    let bucket = format!("{sensor}/{minute}");
    let before = MINUTES.get_key(ctx, &bucket)?.unwrap_or_default();
    let sum = Sum { n: before.n + 1, sum: before.sum + celsius };
    MINUTES.put_key(ctx, &bucket, &sum)?;
    let readings = sum.n.to_string();
    let options = EmitOptions::new().header("readings", &readings).timestamp(minute);
    AVERAGES.emit_with(ctx, &bucket[..], &(sum.sum / sum.n as f64), &options)?;
    Ok(())
}

fn app() -> App {
    App::new().on("readings", average)
}

fn main() {
    app().main();
}
