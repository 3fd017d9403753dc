use millstream::{App, Int64, Json, Output, Raw, Record, Store, Text};

static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
static TOTALS: Output<Text, Json<i64>> = Output::new("word-counts", Text, Json::new());

fn app() -> App {
    App::new().on("words", |ctx, word: Record<Text, Raw>| {
        let n = COUNTS.get(ctx)?.unwrap_or(0) + 1;
        COUNTS.put(ctx, &n)?;
        TOTALS.emit(ctx, word.key, &n)?;
        Ok(())
    })
}

fn main() {
    app().main();
}
