//! The README's programs do what it says, and are the files of examples/.
#![allow(dead_code)] // their main functions

mod cents {
    include!("../examples/cents.rs");
    use millstream::testing::{Setup, TestKit, TestRecord};

    #[test]
    fn a_stateless_map() {
        let mut kit = TestKit::new(app(), Setup { outputs: &["order-cents"], ..Setup::default() }).unwrap();
        let order = |amount: f64| TestRecord::key("a").json(&serde_json::json!({ "amount": amount }));
        kit.feed("orders", [order(1.25).header("h", "1").header("h", None), order(0.0), TestRecord::key("a")]).unwrap();
        assert_eq!(kit.emitted(&CENTS), [(Some("a"), Some(125))]);
        assert_eq!(kit.outputs("order-cents")[0].headers, [(b"h".to_vec(), Some(b"1".to_vec())), (b"h".to_vec(), None)]);
    }
}

mod wordcount {
    include!("../examples/wordcount.rs");
    use millstream::testing::{Setup, TestKit, TestRecord};

    #[test]
    fn a_keyed_count() {
        let setup = Setup { stores: &["counts"], outputs: &["word-counts"], ..Setup::default() };
        let mut kit = TestKit::new(app(), setup).unwrap();
        kit.feed("words", ["x", "y", "x"].map(TestRecord::key)).unwrap();
        kit.feed("words", [TestRecord::key("x").value("tea")]).unwrap();
        assert_eq!((kit.state(&COUNTS, "x"), kit.state(&COUNTS, "y"), kit.state(&COUNTS, "z")), (Some(3), Some(1), None));
        let expected = [("x", 1), ("y", 1), ("x", 2), ("x", 3)].map(|(key, n)| (Some(key), Some(n)));
        assert_eq!(kit.emitted(&TOTALS), expected);
        let failed = kit.feed("words", [TestRecord::new()]).unwrap_err();
        assert!(failed.message.contains("no key") && failed.message.contains("wordcount.rs"), "{failed}");
    }
}

mod minutes {
    include!("../examples/minutes.rs");
    use millstream::testing::{Setup, TestKit, TestRecord, TestWindows};

    #[test]
    fn a_windowed_aggregate() {
        // As in the README.
        let minutes = [TestWindows { name: "minutes", size: 60_000, grace: 10_000, ..TestWindows::default() }];
        let setup = Setup { windows: &minutes, outputs: &["minute-averages"], ..Setup::default() };
        let mut kit = TestKit::new(app(), setup).unwrap();
        let reading =
            |time: i64, celsius: f64| TestRecord::key("s").json(&serde_json::json!({ "celsius": celsius })).timestamp(time);
        let bad = reading(60_001, 99.0).header("quality", "bad");
        kit.feed("readings", [reading(60_000, 10.0), reading(119_999, 20.0), bad, reading(120_000, 5.0)]).unwrap();
        kit.feed("readings", [reading(61_000, 30.0), reading(130_000, 7.0), reading(61_000, 31.0)]).unwrap();
        let got: Vec<_> = kit.emitted(&AVERAGES).into_iter().map(|(_, value)| value.unwrap()).collect();
        let times: Vec<_> = kit.outputs("minute-averages").iter().map(|out| out.timestamp.unwrap()).collect();
        assert_eq!(got, [10.0, 15.0, 5.0, 20.0, 6.0], "the last reading is too late");
        assert_eq!(times, [60_000, 60_000, 120_000, 60_000, 120_000]);
        let out = &kit.outputs("minute-averages")[1];
        assert_eq!(out.headers, [(b"readings".to_vec(), Some(b"2".to_vec()))]);
        assert!(!kit.feed("readings", [TestRecord::new().json(&serde_json::json!({"celsius": 1}))]).unwrap_err().retriable);
    }
}

#[test]
fn the_readme_shows_the_examples() {
    let root = env!("CARGO_MANIFEST_DIR");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let mut shown = Vec::new();
    for sample in readme.split("<!-- sample: ").skip(1) {
        let (name, rest) = sample.split_once(" -->\n```rust\n").expect("a sample is Rust");
        let (code, _) = rest.split_once("```").unwrap();
        let program = std::fs::read_to_string(format!("{root}/examples/{name}.rs")).unwrap();
        assert_eq!(code, program, "examples/{name}.rs");
        shown.push(name);
    }
    assert_eq!(shown, ["cents", "wordcount", "minutes"]);
}
