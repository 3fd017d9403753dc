//! Windows, sessions and timers, through the test kit.

use millstream::testing::{PendingTimer, Setup, TestKit, TestRecord, TestSessions, TestWindows};
use millstream::{
    App, Closed, ClosedSession, Due, Error, Gathered, HandlerError, Int64, Output, Raw, Record, SessionStore, Store, Text, Timer,
    WindowStore,
};

static OUT: Output<Text, Int64> = Output::new("out", Text, Int64);
static MINUTES: WindowStore<Text, Int64> = WindowStore::new("minutes", Text, Int64);
static VISITS: SessionStore<Text, Int64> = SessionStore::new("visits", Text, Int64);
static LOG: Store<Text, Int64> = Store::new("log", Text, Int64);

fn at(time: i64) -> TestRecord {
    TestRecord::key("a").value("x").timestamp(time)
}

fn counting_windows() -> App {
    App::new().on("in", |ctx, record: Record<Text, Raw>| {
        for window in MINUTES.windows(ctx)? {
            let n = MINUTES.get(ctx, window)?.unwrap_or(0) + 1;
            MINUTES.put(ctx, window, &n)?;
        }
        if record.value == Some(b"bad") {
            return Err(HandlerError::msg("bad"));
        }
        Ok(())
    })
}

#[test]
fn windows_overlap_and_close_to_late_records() {
    for no_prefetch in [false, true] {
        let windows = [TestWindows { name: "minutes", size: 60, advance: 30, grace: 10, closes: false }];
        let mut kit = TestKit::new(counting_windows(), Setup { windows: &windows, no_prefetch, ..Setup::default() }).unwrap();
        kit.feed("in", [at(100), at(95), at(130), at(85)]).unwrap(); // 85: the window from 60 is over at 120 + 10
        let counts = [30, 60, 90, 120].map(|start| kit.window(&MINUTES, "a", start));
        assert_eq!(counts, [None, Some(2), Some(3), Some(1)], "{no_prefetch}");
        kit.feed("in", [at(135).value("bad")]).unwrap_err();
        assert_eq!(kit.window(&MINUTES, "a", 120), Some(1));
        assert_eq!(kit.stream_time(), Some(130));
        kit.feed("in", [TestRecord::new().timestamp(140)]).unwrap(); // without a key: no windows
        assert_eq!(kit.window(&MINUTES, "a", 120), Some(1));
    }
}

#[test]
fn a_window_is_told_once_when_it_closes() {
    for no_prefetch in [false, true] {
        let app = counting_windows().on_close("minutes", |ctx, closed: Closed<Text, Int64>| {
            assert_eq!(MINUTES.windows(ctx)?.collect::<Vec<_>>(), [closed.window]);
            assert_eq!(MINUTES.get(ctx, closed.window)?, Some(closed.value));
            LOG.put(ctx, &closed.window.start)?;
            Ok(OUT.emit(ctx, closed.key, &closed.value)?)
        });
        let windows = [TestWindows { name: "minutes", size: 60, grace: 10, closes: true, ..TestWindows::default() }];
        let setup = Setup { stores: &["log"], outputs: &["out"], windows: &windows, no_prefetch, ..Setup::default() };
        let mut kit = TestKit::new(app, setup).unwrap();
        kit.feed("in", [at(0), at(10), at(65), at(69)]).unwrap();
        assert_eq!(kit.outputs("out").len(), 0);
        kit.feed("in", [at(70), at(200), at(10)]).unwrap();
        assert_eq!(kit.emitted(&OUT), [(Some("a"), Some(2)), (Some("a"), Some(3))]);
        assert_eq!(kit.outputs("out").iter().map(|out| out.timestamp).collect::<Vec<_>>(), [Some(59), Some(119)]);
        assert_eq!(kit.state(&LOG, "a"), Some(60));
    }
}

#[test]
fn a_session_is_told_once_when_it_is_over() {
    for no_prefetch in [false, true] {
        let app = App::new().on("in", |ctx, record: Record<Text, Raw>| {
            if record.value == Some(b"silent") || VISITS.session(ctx)?.is_none() {
                return Ok(());
            }
            let sum: i64 = VISITS.values(ctx)?.into_iter().sum();
            Ok(VISITS.put(ctx, &(sum + 1))?)
        });
        let app = app.on_close_session("visits", |ctx, closed: ClosedSession<Text, Int64>| {
            assert_eq!((VISITS.session(ctx)?, closed.attempt), (Some(closed.session), 1));
            assert_eq!(VISITS.values(ctx)?, closed.value.into_iter().collect::<Vec<_>>());
            LOG.put(ctx, &closed.session.start)?;
            OUT.emit(ctx, closed.key, &closed.value.unwrap_or(-1))?;
            if closed.value == Some(4) {
                VISITS.put(ctx, &5)?;
            }
            match closed.session.start {
                90 => Err(HandlerError::msg("ninety")),
                _ => Ok(()),
            }
        });
        let sessions = [TestSessions { name: "visits", gap: 10, grace: 5, closes: true }];
        let setup = Setup { stores: &["log"], outputs: &["out"], sessions: &sessions, no_prefetch, ..Setup::default() };
        let mut kit = TestKit::new(app, setup).unwrap();
        kit.feed("in", [at(0), at(10), at(20), at(12), at(35)]).unwrap();
        assert_eq!(kit.outputs("out").len(), 0);
        kit.feed("in", [TestRecord::key("b").value("silent").timestamp(50), at(30), at(36)]).unwrap(); // 30 would reach the first

        assert_eq!(kit.outputs("out").iter().map(|out| out.timestamp).collect::<Vec<_>>(), [Some(20)]);
        assert_eq!(kit.state(&LOG, "a"), Some(0));
        kit.feed("in", [at(90)]).unwrap();
        assert_eq!(kit.outputs("out").iter().map(|out| out.timestamp).collect::<Vec<_>>(), [Some(20), Some(36), Some(50)]);
        let kept = kit.sessions(&VISITS, "a").iter().map(|(w, n)| (w.start, w.end, *n)).collect::<Vec<_>>();
        assert_eq!(kept, [(0, 20, 5), (35, 36, 2), (90, 90, 1)]);
        let failed = kit.feed("in", [at(2000)]).unwrap_err();
        assert!(failed.input == "visits" && failed.message.starts_with("ninety"), "{failed}");
        kit.feed("in", [at(2001)]).unwrap();
        assert_eq!(kit.outputs("out").len(), 3, "one that was given up does not come again");
    }
}

#[test]
fn sessions_grow_and_merge() {
    for no_prefetch in [false, true] {
        let app = App::new().on("in", |ctx, record: Record<Text, Raw>| {
            if record.value == Some(b"silent") {
                return Ok(());
            }
            let n: i64 = VISITS.values(ctx)?.into_iter().sum();
            VISITS.put(ctx, &(n + 1))?;
            assert_eq!(VISITS.values(ctx)?, [n + 1]);
            let session = VISITS.session(ctx)?.expect("never late");
            Ok(OUT.emit(ctx, record.key, &(session.end - session.start))?)
        });
        let setup = Setup {
            outputs: &["out"],
            sessions: &[TestSessions { name: "visits", gap: 10, ..TestSessions::default() }],
            no_prefetch,
            ..Setup::default()
        };
        let mut kit = TestKit::new(app.clone(), setup).unwrap();
        kit.feed("in", [at(0), at(8), at(30), at(31), at(60)]).unwrap();
        let sessions = |kit: &TestKit| kit.sessions(&VISITS, "a").iter().map(|(w, n)| (w.start, w.end, *n)).collect::<Vec<_>>();
        assert_eq!(sessions(&kit), [(0, 8, 2), (30, 31, 2), (60, 60, 1)]);
        kit.feed("in", [at(40).value("silent"), at(19), at(19)]).unwrap(); // 40 belongs to 30..31; 19 is too far from 8
        assert_eq!(sessions(&kit), [(0, 8, 2), (19, 19, 2), (30, 40, 2), (60, 60, 1)]);
        kit.feed("in", [at(10)]).unwrap();
        assert_eq!(sessions(&kit), [(0, 19, 5), (30, 40, 2), (60, 60, 1)]);
        kit.feed("in", [at(50)]).unwrap();
        assert_eq!(sessions(&kit), [(0, 19, 5), (30, 60, 4)]);
        let failed = kit.feed("in", [at(25).value("silent")]).unwrap_err();
        assert!(failed.message.contains("store \"visits\": a record connects 2 sessions with values"), "{failed}");
        assert_eq!(sessions(&kit), [(0, 19, 5), (30, 60, 4)]);

        let merging = app.merge_sessions(&VISITS, |values| values.into_iter().sum::<i64>());
        let mut kit = TestKit::new(merging, setup).unwrap();
        kit.feed("in", [at(0), at(20), at(100).value("silent"), at(10).value("silent"), at(105)]).unwrap();
        assert_eq!(sessions(&kit), [(0, 20, 2), (100, 105, 1)]);
    }
}

static REMINDER: Timer<Text> = Timer::new("reminder", Text);
static ALARM: Timer<Text> = Timer::wall_clock("alarm", Text);

fn with_timers() -> App {
    App::new()
        .on("in", |ctx, record: Record<Text, Text>| match record.value {
            Some("cancel") => Ok(REMINDER.cancel(ctx)?),
            Some("other") => Ok(REMINDER.set_key(ctx, "b", 500)?),
            Some("alarm") => Ok(ALARM.set(ctx, 2_000)?),
            Some("far") => Ok(REMINDER.set(ctx, -1)?),
            Some("fail") => {
                REMINDER.set(ctx, 1)?;
                Err(HandlerError::msg("no"))
            }
            _ => Ok(REMINDER.set(ctx, record.timestamp() + 100)?),
        })
        .on_timer("reminder", |ctx, due: Due<Text>| {
            if due.time == 500 {
                REMINDER.set(ctx, 700)?;
            }
            Ok(OUT.emit(ctx, due.key, &due.time)?)
        })
        .on_timer("alarm", |ctx, due: Due<Text>| {
            assert!(due.wall_clock);
            Ok(OUT.emit(ctx, due.key, &-1)?)
        })
}

#[test]
fn timers_move_are_cancelled_and_set_each_other() {
    let setup = Setup { outputs: &["out"], timers: true, ..Setup::default() };
    let mut kit = TestKit::new(with_timers(), setup).unwrap();
    kit.now = 1_000;
    kit.feed("in", [at(0), at(50)]).unwrap();
    assert_eq!(kit.timers(), [PendingTimer { time: 150, name: "reminder".into(), key: b"a".to_vec(), wall_clock: false }]);
    kit.feed("in", [at(120).value("fail")]).unwrap_err();
    kit.feed("in", [at(60).value("other"), at(150).value("alarm")]).unwrap();
    assert_eq!(kit.emitted(&OUT), [(Some("a"), Some(150))]);
    kit.feed("in", [at(170), at(260).value("cancel")]).unwrap();
    kit.advance(999).unwrap();
    assert_eq!(kit.outputs("out").len(), 1);
    kit.advance(1).unwrap();
    kit.feed("in", [at(699).value("cancel"), at(700).value("cancel")]).unwrap();
    assert_eq!(kit.emitted(&OUT)[1..], [(Some("a"), Some(-1)), (Some("b"), Some(500)), (Some("b"), Some(700))]);
    assert_eq!((kit.outputs("out")[2].timestamp, kit.timers()), (Some(500), vec![]));
    let failed = kit.feed("in", [at(701).value("far")]).unwrap_err();
    assert!(failed.class == "Output" && failed.message.contains("timer \"reminder\": time -1 is outside"), "{failed}");
}

#[test]
fn what_the_manifest_lacks_is_named() {
    let problem = |app: App, setup: Setup| TestKit::new(app, setup).unwrap_err().to_string();
    assert!(problem(with_timers(), Setup::default()).contains("timer \"reminder\", and the manifest has no timers"));
    let closes = counting_windows().on_close("minutes", |_, _: Closed<Raw, Raw>| Ok(()));
    let windows = |closes| [TestWindows { name: "minutes", size: 60, closes, ..TestWindows::default() }];
    let text = problem(closes, Setup { windows: &windows(false), ..Setup::default() });
    assert!(text.contains("closing windows of \"minutes\"; stores of windows with emit: Final in the manifest: none"), "{text}");
    let text = problem(counting_windows(), Setup { windows: &windows(true), ..Setup::default() });
    assert!(text.contains("add .on_close(\"minutes\", ...)"), "{text}");

    let mut kit = TestKit::new(counting_windows(), Setup { stores: &["minutes"], ..Setup::default() }).unwrap();
    let failed = kit.feed("in", [at(0)]).unwrap_err();
    assert!(failed.message.contains("declared stores: minutes (KeyValue)"), "{failed}");
    let app = App::new().on("in", |ctx, _: Record<Text, Raw>| Ok(REMINDER.set(ctx, 5)?));
    let failed = TestKit::new(app, Setup::default()).unwrap().feed("in", [at(0)]).unwrap_err();
    assert!(failed.message.contains("add \"timers: {}\" under spec"), "{failed}");
    let late = App::new().on("in", |ctx, _: Record<Text, Raw>| match VISITS.put(ctx, &1) {
        Err(Error::NoKey { .. }) => Ok(()),
        other => panic!("{other:?}"),
    });
    let sessions = [TestSessions { name: "visits", gap: 1, ..TestSessions::default() }];
    TestKit::new(late, Setup { sessions: &sessions, ..Setup::default() }).unwrap().feed("in", [TestRecord::new()]).unwrap();
}

#[test]
fn hooks_and_what_is_gathered() {
    static SUM: Gathered<i64> = Gathered::new();
    let app = App::new()
        .on("in", |ctx, record: Record<Text, Int64>| {
            let n = record.value.unwrap_or(0);
            SUM.change(ctx, move |sum| *sum += n);
            Ok(())
        })
        .on_finalize(|ctx| {
            let sum = SUM.take(ctx);
            if sum < 0 {
                return Err(HandlerError::msg("negative"));
            }
            Ok(OUT.emit(ctx, "sum", &sum)?)
        });
    let setup = Setup { outputs: &["out"], ..Setup::default() };
    let (mut kit, mut other) = (TestKit::new(app.clone(), setup).unwrap(), TestKit::new(app, setup).unwrap());
    let number = |n: i64| TestRecord::key("a").encoded(&Int64, &n);
    kit.feed("in", [number(1), number(2)]).unwrap();
    other.feed("in", [number(10)]).unwrap();
    kit.feed("in", [number(4)]).unwrap();
    assert_eq!(kit.emitted(&OUT), [(Some("sum"), Some(3)), (Some("sum"), Some(4))]);
    assert_eq!(other.emitted(&OUT), [(Some("sum"), Some(10))]);
    assert!(kit.outputs("out")[0].timestamp.is_none());
    let failed = kit.feed("in", [number(-1)]).unwrap_err();
    assert!(failed.input == "finalize" && failed.message.contains("negative"), "{failed}");
}
