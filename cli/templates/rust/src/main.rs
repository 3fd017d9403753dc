//! __NAME__: counts the records of every key and emits the new count each time.

use millstream::{App, Json, Output, Raw, Record, Store, Text};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Count {
    count: i64,
}

static COUNTS: Store<Text, Json<i64>> = Store::new("counts", Text, Json::new());
static TOTALS: Output<Text, Json<Count>> = Output::new("word-counts", Text, Json::new());

fn app() -> App {
    App::new().on("words", |ctx, word: Record<Text, Raw>| {
        let count = COUNTS.get(ctx)?.unwrap_or(0) + 1;
        COUNTS.put(ctx, &count)?;
        TOTALS.emit(ctx, word.key, &Count { count })?;
        Ok(())
    })
}

fn main() {
    app().main();
}

// Without a sidecar: cargo test.
#[cfg(test)]
mod tests {
    use super::*;
    use millstream::testing::{Setup, TestKit, TestRecord};

    #[test]
    fn counts_per_key() {
        let setup = Setup {
            stores: &["counts"],
            outputs: &["word-counts"],
            ..Setup::default()
        };
        let mut kit = TestKit::new(app(), setup).unwrap();
        kit.feed("words", ["tea", "milk", "tea"].map(TestRecord::key))
            .unwrap();
        assert_eq!(kit.state(&COUNTS, "tea"), Some(2));
        let expected = [("tea", 1), ("milk", 1), ("tea", 2)];
        assert_eq!(
            kit.emitted(&TOTALS),
            expected.map(|(word, count)| (Some(word), Some(Count { count })))
        );
    }
}
