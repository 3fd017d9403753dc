//! Visits, through the test kit.

use millstream::testing::{Setup, TestKit, TestRecord, TestVisit};
use millstream::{App, Error, HandlerError, Int64, Output, Record, RunError, Store, Text, Visit, VisitEnd, Visited};

static ACCOUNTS: Store<Text, Int64> = Store::new("accounts", Text, Int64);
static INTEREST: Visit<Int64> = Visit::new("interest", Int64);
static REPORTS: Output<Text, Text> = Output::new("reports", Text, Text);

const SETUP: Setup<'static> = Setup {
    stores: &["others", "accounts"],
    outputs: &["reports"],
    visits: &[TestVisit { name: "interest", store: "accounts" }],
    windows: &[],
    sessions: &[],
    timers: false,
    joins: &[],
    lookups: &[],
    no_prefetch: false,
};

/// Adds what a visit's data says to every account, and reports at its end; records do what their value says.
fn bank() -> App {
    App::new()
        .on("in", |ctx, record: Record<Text, Text>| {
            let (what, number) =
                record.value.unwrap_or_default().split_once(' ').unwrap_or((record.value.unwrap_or_default(), ""));
            match what {
                "set" => ACCOUNTS.put(ctx, &number.parse()?)?,
                "start" => INTEREST.start(ctx, &number.parse()?)?,
                "plain" => INTEREST.start_plain(ctx)?,
                "pause" => {
                    INTEREST.start(ctx, &number.parse()?)?;
                    INTEREST.pause(ctx)?;
                }
                "resume" => INTEREST.resume(ctx)?,
                "stop" => INTEREST.stop(ctx)?,
                _ => {
                    INTEREST.start_plain(ctx)?;
                    return Err(HandlerError::msg("no"));
                }
            }
            Ok(())
        })
        .on_visit("interest", |ctx, row: Visited<Text, Int64>| {
            match (ACCOUNTS.get(ctx)?, row.data) {
                (None, _) => return Err(HandlerError::msg("a row that is not there")),
                (Some(..=-1), _) => return Err(HandlerError::msg(format!("{} is overdrawn", row.key))),
                (Some(1000), _) => ACCOUNTS.delete_key(ctx, &format!("{}b", row.key))?,
                (Some(balance), Some(more)) => ACCOUNTS.put(ctx, &(balance + more))?,
                (Some(_), None) => {}
            }
            Ok(())
        })
        .on_visit_end("interest", |ctx, end: VisitEnd<Int64>| {
            assert!(matches!(ACCOUNTS.get(ctx), Err(Error::NoKey { .. })));
            Ok(REPORTS.emit(ctx, "end", &format!("{:?} {} {}", end.data, end.time, end.attempt)[..])?)
        })
}

fn at(time: i64, value: &str) -> TestRecord {
    TestRecord::key("a").value(value).timestamp(time)
}

fn reports(kit: &TestKit) -> Vec<&str> {
    kit.emitted(&REPORTS).into_iter().filter_map(|(_, value)| value).collect()
}

#[test]
fn a_visit_comes_to_every_row_and_then_to_its_end() {
    for no_prefetch in [false, true] {
        let mut kit = TestKit::new(bank(), Setup { no_prefetch, ..SETUP }).unwrap();
        let names: Vec<String> = (0..250).map(|n| format!("{n:03}")).collect(); // more than a page
        for (name, n) in names.iter().zip(0..) {
            kit.set_state(&ACCOUNTS, name, &n);
        }
        kit.feed("in", [at(5, "start 2")]).unwrap();
        for (name, n) in names.iter().zip(0..) {
            assert_eq!(kit.state(&ACCOUNTS, name), Some(n + 2));
        }
        kit.feed("in", [at(6, "plain")]).unwrap();
        assert_eq!(reports(&kit), ["Some(2) 5 1", "None 6 1"]);
        assert_eq!(kit.outputs("reports").iter().map(|out| out.timestamp).collect::<Vec<_>>(), [Some(5), Some(6)]);
    }
}

#[test]
fn a_paused_visit_waits_until_it_is_resumed() {
    let mut kit = TestKit::new(bank(), SETUP).unwrap();
    kit.feed("in", [at(1, "set 1"), at(2, "pause 3"), at(3, "set 10")]).unwrap();
    assert_eq!((kit.state(&ACCOUNTS, "a"), kit.visits()), (Some(10), vec!["interest"]));
    kit.feed("in", [at(4, "resume")]).unwrap();
    assert_eq!((kit.state(&ACCOUNTS, "a"), kit.visits()), (Some(13), vec![]));
    kit.feed("in", [at(5, "pause 3")]).unwrap();
    kit.feed("in", [at(6, "stop")]).unwrap();
    assert_eq!((reports(&kit).len(), kit.visits()), (1, vec![]));
}

#[test]
fn a_test_starts_a_visit() {
    let mut kit = TestKit::new(bank(), SETUP).unwrap();
    kit.set_state(&ACCOUNTS, "b", &1);
    kit.visit(&INTEREST, &5).unwrap();
    assert_eq!(kit.state(&ACCOUNTS, "b"), Some(6));
}

#[test]
fn a_row_that_fails_is_given_up_and_the_walk_goes_on() {
    let mut kit = TestKit::new(bank(), SETUP).unwrap();
    for (name, value) in [("a", 1), ("b", -1), ("c", 1)] {
        kit.set_state(&ACCOUNTS, name, &value);
    }
    let failed = kit.feed("in", [at(1, "start 2")]).unwrap_err();
    assert!(failed.input == "interest" && failed.message.contains("b is overdrawn"), "{failed}");
    assert_eq!(["a", "b", "c"].map(|name| kit.state(&ACCOUNTS, name)), [Some(3), Some(-1), Some(1)]);
    kit.advance(1).unwrap();
    assert_eq!(kit.state(&ACCOUNTS, "c"), Some(3));
}

#[test]
fn a_row_that_an_earlier_one_deleted_is_passed_over() {
    let mut kit = TestKit::new(bank(), SETUP).unwrap();
    for (name, value) in [("a", 1000), ("ab", -1), ("c", 1)] {
        kit.set_state(&ACCOUNTS, name, &value);
    }
    kit.feed("in", [at(1, "start 2")]).unwrap();
    assert_eq!(["a", "ab", "c"].map(|name| kit.state(&ACCOUNTS, name)), [Some(1000), None, Some(3)]);
}

#[test]
fn a_start_that_fails_is_none() {
    let mut kit = TestKit::new(bank(), SETUP).unwrap();
    kit.feed("in", [at(1, "fail")]).unwrap_err();
    assert!(kit.visits().is_empty() && reports(&kit).is_empty());
}

fn refused(setup: Setup<'_>) -> String {
    match TestKit::new(bank(), setup) {
        Err(RunError::Config(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn visits_that_do_not_fit_the_manifest() {
    let none = refused(Setup { visits: &[], ..SETUP });
    assert!(none.contains("does not declare; add {name: interest"), "{none}");
    let audit = TestVisit { name: "audit", store: "others" };
    let more = refused(Setup { visits: &[SETUP.visits[0], audit], ..SETUP });
    assert!(more.contains("declares visit \"audit\", for which the program has no handler"), "{more}");
    let nowhere = refused(Setup { visits: &[TestVisit { name: "interest", store: "nowhere" }], ..SETUP });
    assert!(nowhere.contains("walks store \"nowhere\"; stores: others, accounts"), "{nowhere}");
}

#[test]
fn visits_that_cannot_be() {
    static OTHER: Visit<Text> = Visit::new("other", Text);
    static WORDY: Visit<Text> = Visit::new("interest", Text);
    let app = bank().on("more", |ctx, record: Record<Text, Text>| match record.value {
        Some("other") => Ok(OTHER.stop(ctx)?),
        value => Ok(WORDY.start(ctx, value.unwrap_or_default())?),
    });
    let mut kit = TestKit::new(app, SETUP).unwrap();
    let failed = kit.feed("more", [at(1, "other")]).unwrap_err();
    assert!(failed.message.contains("no visit \"other\" in the manifest; declared visits: interest"), "{failed}");
    let failed = kit.feed("more", [at(1, &"x".repeat(4097))]).unwrap_err();
    assert!(failed.message.contains("its data has 4097 bytes, the limit is 4096") && failed.class == "Output", "{failed}");

    let mut kit = TestKit::new(bank().on_finalize(|ctx| Ok(INTEREST.stop(ctx)?)), SETUP).unwrap();
    let failed = kit.feed("in", [at(1, "set 1")]).unwrap_err();
    assert!(failed.input == "finalize" && failed.message.contains("a hook starts and stops none"), "{failed}");
}
