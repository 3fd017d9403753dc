//! What handlers, stores and outputs do, through the test kit.

use millstream::testing::{Failed, Setup, TestKit, TestRecord};
use millstream::{
    App, Context, EmitOptions, Error, HandlerError, HandlerResult, Int64, Join, Json, Lookup, Null, Output, Range, Raw, Record,
    Store, Text,
};
use std::sync::{Arc, Mutex};

static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
static OUT: Output<Text, Int64> = Output::new("out", Text, Int64);
static NOWHERE: Output<Text, Int64> = Output::new("nowhere", Text, Int64);

/// Counts, emits the count, and does `more`.
fn counting(
    no_prefetch: bool,
    more: impl Fn(&mut Context, &Record<Text, Text>) -> HandlerResult + Send + Sync + 'static,
) -> TestKit {
    let app = App::new().on("in", move |ctx, record: Record<Text, Text>| {
        let n = COUNTS.get(ctx)?.unwrap_or(0) + 1;
        COUNTS.put(ctx, &n)?;
        OUT.emit(ctx, record.key, &n)?;
        more(ctx, &record)
    });
    TestKit::new(app, Setup { stores: &["counts"], outputs: &["out"], no_prefetch, ..Setup::default() }).unwrap()
}

fn feed(kit: &mut TestKit, values: &[&str]) -> Result<(), Failed> {
    kit.feed("in", values.iter().map(|value| TestRecord::key("a").value(value)))
}

#[test]
fn a_failure_keeps_what_came_before() {
    for no_prefetch in [false, true] {
        let mut kit = counting(no_prefetch, |_, record| match record.value {
            Some("bad") => Err(HandlerError::msg("out of luck")),
            Some("panic") => panic!("no {}", "luck"),
            _ => Ok(()),
        });
        let failed = feed(&mut kit, &["1", "2", "bad", "3"]).unwrap_err();
        assert_eq!((failed.offset, failed.class.as_str(), failed.retriable), (2, "Handler", true));
        assert!(failed.message.starts_with("out of luck\n  at ") && failed.message.contains("testkit.rs:"), "{failed}");
        assert_eq!((kit.state(&COUNTS, "a"), kit.outputs("out").len()), (Some(2), 2));
        let failed = feed(&mut kit, &["panic"]).unwrap_err();
        assert_eq!((failed.offset, failed.error.as_str()), (3, "panic"));
        assert!(failed.message.starts_with("panic: no luck\n  at ") && failed.message.contains("testkit.rs:"), "{failed}");
        feed(&mut kit, &["4"]).unwrap();
        assert_eq!((kit.state(&COUNTS, "a"), kit.failures.len()), (Some(3), 2));
    }
}

#[test]
fn reads_of_other_keys_see_own_writes() {
    for no_prefetch in [false, true] {
        let mut kit = counting(no_prefetch, |ctx, record| {
            COUNTS.put_key(ctx, "b", &7)?;
            COUNTS.delete_key(ctx, "c")?;
            let values = COUNTS.get_many(ctx, ["a", "b", "c", "d", "nobody", "d"])?;
            assert_eq!(values[1..], [Some(7), None, Some(4), None, Some(4)]);
            COUNTS.delete(ctx)?;
            assert_eq!(COUNTS.get_key(ctx, record.key.unwrap())?, None);
            Ok(())
        });
        kit.set_state(&COUNTS, "c", &3);
        kit.set_state(&COUNTS, "d", &4);
        kit.feed("in", ["a", "d"].map(TestRecord::key)).unwrap_err(); // the second one deletes its own d
        assert_eq!(["a", "b", "c", "d"].map(|key| kit.state(&COUNTS, key)), [None, Some(7), None, Some(4)]);
    }
}

#[test]
fn scans_are_paged_and_see_own_writes() {
    type MakeRange = fn() -> Range<'static, str>;
    let cases: [(&str, MakeRange); 5] = [
        ("a k1 k2 k3 k4 k5 k6 new", Range::all),
        ("k1 k2 k3 k4 k5 k6", || Range::prefix("k")),
        ("k2 k3 k4", || Range::all().from("k2").to("k5")),
        ("new k6 k5 k4", || Range::all().reverse().limit(4)),
        ("", || Range::all().limit(0)),
    ];
    for (expected, range) in cases {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&seen);
        let mut kit = counting(false, move |ctx, _| {
            COUNTS.put_key(ctx, "new", &1)?;
            COUNTS.delete_key(ctx, "gone")?;
            let mut rows = COUNTS.scan(ctx, range())?;
            while let Some((key, n)) = rows.next(ctx)? {
                into.lock().unwrap().push(key.to_owned());
                COUNTS.put_key(ctx, key, &(n + 1))?; // the context is free
            }
            Ok(())
        });
        for key in ["k1", "k2", "k3", "k4", "k5", "k6", "gone"] {
            kit.set_state(&COUNTS, key, &1);
        }
        feed(&mut kit, &[""]).unwrap();
        assert_eq!(seen.lock().unwrap().join(" "), expected);
        assert_eq!(kit.state(&COUNTS, "k4"), Some(if expected.contains("k4") { 2 } else { 1 }));
    }
}

#[test]
fn errors_of_outputs_fail_the_record_whatever_the_handler_returns() {
    type Emit = fn(&mut Context) -> Result<(), Error>;
    let cases: [(&str, Emit); 5] = [
        ("limit", |ctx| OUT.emit(ctx, &"x".repeat(1 << 20)[..], &1)),
        ("limit", |ctx| COUNTS_OF_BYTES.put(ctx, &vec![0; (1 << 20) + 1])),
        ("timestamp", |ctx| OUT.emit_with(ctx, "a", &1, &EmitOptions::new().timestamp(-5))),
        ("partition", |ctx| OUT.emit_with(ctx, "a", &1, &EmitOptions::new().partition(-1))),
        ("nowhere", |ctx| NOWHERE.emit(ctx, "a", &1)),
    ];
    for (what, emit) in cases {
        for drop_it in [true, false] {
            let mut kit = counting(false, move |ctx, _| match emit(ctx) {
                Ok(()) => panic!("{what}: no error"),
                Err(_) if drop_it => Ok(()),
                Err(error) => Err(error.into()),
            });
            let failed = feed(&mut kit, &["1"]).unwrap_err();
            assert!(!failed.retriable && failed.message.contains(what), "{what}: {failed}");
            assert_eq!(failed.class, if what == "nowhere" { "Handler" } else { "Output" });
            assert_eq!(kit.outputs("out").len(), 0);
            assert_eq!(kit.state(&COUNTS, "a"), None);
        }
    }
}

static COUNTS_OF_BYTES: Store<Text, Raw> = Store::new("counts", Text, Raw);

#[test]
fn an_undeclared_name_lists_those_there_are() {
    static MISSING: Store<Text, Int64> = Store::new("missing", Text, Int64);
    let mut kit = counting(false, |ctx, _| Ok(MISSING.put(ctx, &1)?));
    let failed = feed(&mut kit, &["1"]).unwrap_err();
    assert!(failed.message.contains("no store \"missing\" in the manifest; declared stores: counts"), "{failed}");
}

#[test]
fn what_does_not_decode_and_what_is_rejected() {
    let app = App::new().on("ints", |_, _: Record<Text, Int64>| Err(HandlerError::reject("hopeless")));
    let mut kit = TestKit::new(app, Setup::default()).unwrap();
    let failed = kit.feed("ints", [TestRecord::key("a").value("1")]).unwrap_err();
    assert_eq!((failed.class.as_str(), failed.retriable), ("Decode", false));
    assert!(failed.message.contains("the value of a record of input \"ints\" (partition 0, offset 0) is not int64"), "{failed}");
    let failed = kit.feed("ints", [TestRecord::key(b"\xff").encoded(&Int64, &1)]).unwrap_err();
    assert!(failed.class == "Decode" && failed.message.contains("the key"), "{failed}");
    let failed = kit.feed("ints", [TestRecord::key("a").encoded(&Int64, &1)]).unwrap_err();
    assert_eq!((failed.class.as_str(), failed.retriable, failed.error.as_str()), ("Handler", false, "Error"));
}

#[test]
fn stored_bytes_of_another_codec_are_told() {
    let mut kit = counting(false, |_, _| Ok(()));
    kit.set_state(&COUNTS_OF_BYTES, "a", b"12");
    let failed = feed(&mut kit, &["1"]).unwrap_err();
    assert!(failed.message.contains("store \"counts\": the value of key \"a\" is not int64"), "{failed}");
    assert!(failed.retriable && failed.class == "Handler");
}

#[test]
fn nulls_headers_and_facts_of_a_record() {
    static ALL: Output<Raw, Raw> = Output::new("all", Raw, Raw);
    let app = App::new().on("in", |ctx, record: Record<Raw, Raw>| {
        assert_eq!(
            (ctx.task(), record.input(), ctx.processor(), ctx.watermark(), ctx.is_cancelled()),
            (3, "in", "test", None, false)
        );
        assert_eq!((record.task(), record.topic(), record.attempt()), (3, "in", 1));
        assert_eq!((record.header("h"), record.header("none")), (None, None));
        assert_eq!(record.headers().next().and_then(|header| header.name_str()), Some("h"));
        ALL.emit_with(
            ctx,
            record.key,
            record.value,
            &EmitOptions::new().headers(record.headers()).header("more", "2").partition(4),
        )?;
        ALL.emit(ctx, Null, Null)?;
        Ok(ALL.emit(ctx, &b""[..], &b""[..])?)
    });
    let mut kit = TestKit::new(app, Setup { outputs: &["all"], ..Setup::default() }).unwrap();
    kit.task = 3;
    kit.now = -5;
    kit.feed("in", [TestRecord::key(b"\xff").header("h", "1").header("h", None)]).unwrap();
    let outputs = kit.outputs("all");
    assert_eq!((outputs[0].key.as_deref(), &outputs[0].value, outputs[0].partition), (Some(&b"\xff"[..]), &None, Some(4)));
    assert_eq!(outputs[0].headers.len(), 3);
    assert_eq!(outputs[0].timestamp, None); // before what an output may have: the sidecar's time
    assert_eq!((&outputs[1].key, &outputs[1].value), (&None, &None));
    assert_eq!((outputs[2].key.as_deref(), outputs[2].value.as_deref()), (Some(&[][..]), Some(&[][..])));
}

#[test]
fn a_codec_with_a_state_of_its_own() {
    struct Shifted(i64);
    impl millstream::Decode for Shifted {
        type Output<'a> = i64;
        fn name(&self) -> &str {
            "shifted"
        }
        fn decode(&self, data: &[u8]) -> Result<i64, millstream::BoxError> {
            Ok(Int64.decode(data)? + self.0)
        }
    }
    let app = App::new().on_with("in", Text, Shifted(100), |ctx, record: Record<Text, Shifted>| {
        Ok(OUT.emit(ctx, record.key, record.value.as_ref())?)
    });
    let mut kit = TestKit::new(app, Setup { outputs: &["out"], ..Setup::default() }).unwrap();
    kit.feed("in", [TestRecord::key("a").encoded(&Int64, &1)]).unwrap();
    assert_eq!(kit.emitted(&OUT), [(Some("a"), Some(101))]);
}

#[test]
fn what_does_not_fit_a_frame_comes_in_parts() {
    static BIG: Output<Text, Raw> = Output::new("big", Text, Raw);
    let app = App::new().on("in", |ctx, record: Record<Text, Json<usize>>| {
        for _ in 0..record.value.unwrap_or(0) {
            BIG.emit(ctx, "k", &vec![0; 1 << 19][..])?;
        }
        Ok(())
    });
    let mut kit = TestKit::new(app, Setup { outputs: &["big"], ..Setup::default() }).unwrap();
    kit.feed("in", [20, 20, 20].map(|n| TestRecord::key("a").value(n.to_string()))).unwrap();
    assert_eq!(kit.outputs("big").len(), 60);
    let failed = kit.feed("in", ["3", "40"].map(|n| TestRecord::key("a").value(n))).unwrap_err();
    assert_eq!((failed.class.as_str(), failed.retriable, kit.outputs("big").len()), ("Output", false, 63));
}

#[test]
#[should_panic(expected = "already has a handler")]
fn two_handlers_of_one_input() {
    let _ = App::new().on("in", |_, _: Record<Raw, Raw>| Ok(())).on("in", |_, _: Record<Raw, Raw>| Ok(()));
}

#[test]
fn an_app_without_handlers() {
    let error = TestKit::new(App::new(), Setup::default()).unwrap_err();
    assert!(error.to_string().contains("no handler"), "{error}");
}

#[test]
fn joins_and_lookups_are_read_and_the_loop_wants_a_key() {
    static CUSTOMERS: Join<Text, Text> = Join::new("customers", Text, Text);
    static RATES: Lookup<Text, Int64> = Lookup::new("rates", Text, Int64);
    static NEXT: Output<Text, Int64> = Output::new("loop", Text, Int64);
    let app = App::new()
        .on("in", |ctx, record: Record<Text, Text>| {
            let name = CUSTOMERS.get(ctx)?.map(str::to_owned);
            assert_eq!(CUSTOMERS.get_key(ctx, "b")?, Some("Bob"));
            assert_eq!(CUSTOMERS.get_many(ctx, ["a", "c"])?, [Some("Anna"), None]);
            let rate = RATES.get(ctx, record.value.unwrap_or("none"))?.unwrap_or(1);
            assert_eq!(RATES.get_many(ctx, ["usd"])?, [Some(2)]);
            let mut rows = RATES.scan(ctx, Range::prefix("u"))?;
            assert_eq!(rows.next(ctx)?, Some(("usd", 2)));
            assert_eq!(rows.next(ctx)?, None);
            COUNTS.put(ctx, &rate)?;
            if record.value == Some("bad") {
                NEXT.emit_with(ctx, "a", &1, &EmitOptions::new().partition(0))?;
            }
            Ok(NEXT.emit(ctx, name.as_deref(), &rate)?)
        })
        .on("loop", |ctx, record: Record<Text, Int64>| Ok(OUT.emit(ctx, record.key, record.value.as_ref())?));
    for no_prefetch in [false, true] {
        let setup = Setup {
            stores: &["counts"],
            joins: &["customers"],
            lookups: &["rates"],
            outputs: &["out", "loop"],
            no_prefetch,
            ..Setup::default()
        };
        let mut kit = TestKit::new(app.clone(), setup).unwrap();
        kit.set_join(&CUSTOMERS, "a", "Anna");
        kit.set_join(&CUSTOMERS, "b", "Bob");
        kit.set_lookup(&RATES, "usd", &2);
        kit.feed("in", [TestRecord::key("a").value("usd")]).unwrap();
        assert_eq!((kit.emitted(&NEXT), kit.state(&COUNTS, "a")), (vec![(Some("Anna"), Some(2))], Some(2)));
        kit.feed("loop", [TestRecord::key("Anna").encoded(&Int64, &2)]).unwrap();
        assert_eq!(kit.emitted(&OUT), [(Some("Anna"), Some(2))]);
        for record in [TestRecord::key("c"), TestRecord::key("a").value("bad")] {
            let failed = kit.feed("in", [record]).unwrap_err();
            assert!(failed.class == "Output" && failed.message.contains("has a key"), "{failed}");
        }
    }
}
