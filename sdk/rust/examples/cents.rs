use millstream::{App, EmitOptions, Json, Output, Record, Text};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    amount: f64,
}

static CENTS: Output<Text, Json<i64>> = Output::new("order-cents", Text, Json::new());

fn app() -> App {
    App::new().on("orders", |ctx, order: Record<Text, Json<Order>>| {
        if let Some(Order { amount }) = order.value.as_ref().filter(|order| order.amount > 0.0) {
            let cents = (amount * 100.0).round() as i64;
            CENTS.emit_with(ctx, order.key, &cents, &EmitOptions::new().headers(order.headers()))?;
        }
        Ok(())
    })
}

fn main() {
    app().main();
}
