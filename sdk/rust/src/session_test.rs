//! What is Rust's own about sessions; the protocol itself is tested by the conformance suite.

use crate::wire::reader::{read_head, Reader};
use crate::wire::{kind, kind_name, write, LENGTH_BYTES};
use crate::{
    App, Due, Gathered, HandlerError, HandlerResult, Null, Options, Output, Raw, Record, RunError, SessionStore, Stop, Text,
    Timer,
};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

struct FakeSidecar {
    listener: UnixListener,
    folder: PathBuf,
}

impl FakeSidecar {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ms-rust-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        FakeSidecar { listener: UnixListener::bind(folder.join("w.sock")).unwrap(), folder }
    }

    fn connection(&self) -> Connection {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut connection = Connection(stream);
        connection.expect(kind::HELLO);
        connection
    }

    /// With input `in`, store `s`, sessions `visits`, output `out`, timers and hooks.
    fn accept(&self) -> Connection {
        let mut connection = self.connection();
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind::WELCOME, 1);
        write::put_map(&mut out, 8);
        for (field, number) in [("protocol", 1), ("session", 7)] {
            write::put_text(&mut out, field);
            write::put_u64(&mut out, number);
        }
        write::put_text(&mut out, "processor");
        write::put_text(&mut out, "test");
        for (list, names) in [("inputs", &["in"][..]), ("outputs", &["out"]), ("stores", &["s", "visits"])] {
            write::put_text(&mut out, list);
            write::put_array(&mut out, names.len() as u32);
            for name in names {
                write::put_map(&mut out, 2);
                for text in ["name", name, "type", if *name == "visits" { "Session" } else { "KeyValue" }] {
                    write::put_text(&mut out, text);
                }
            }
        }
        write::put_text(&mut out, "timers");
        out.push(0xc3); // true
        write::put_text(&mut out, "capabilities");
        write::put_array(&mut out, 4);
        ["later", "begin", "finalize", "committed"].iter().for_each(|name| write::put_text(&mut out, name));
        write::end_frame(&mut out);
        connection.send(&out);
        connection
    }

    /// The app served by a thread.
    fn start(&self, app: App, options: Options) -> (Stop, JoinHandle<Result<(), RunError>>) {
        let stop = Stop::new();
        let options = Options { socket: Some(self.folder.join("w.sock")), stop: stop.clone(), ..options };
        (stop, std::thread::spawn(move || app.run(options)))
    }
}

impl Drop for FakeSidecar {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Connection(UnixStream);

impl Connection {
    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).unwrap();
    }

    /// Kind and payload; `None` at the end of the connection.
    fn receive(&mut self) -> Option<(u64, Vec<u8>)> {
        let mut length = [0; LENGTH_BYTES];
        if let Err(error) = self.0.read_exact(&mut length) {
            assert!(!matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "nothing came");
            return None;
        }
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut payload).unwrap();
        let (kind, _) = read_head(&mut Reader::new(&payload)).unwrap();
        Some((kind, payload))
    }

    fn expect(&mut self, kind: u64) -> Vec<u8> {
        let (got, payload) = self.receive().expect("the connection is there");
        assert_eq!(kind_name(got), kind_name(kind));
        payload
    }

    /// Records of one key with these values.
    fn batch(&mut self, seq: u64, task: u64, values: &[&str]) {
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind::BATCH, 7);
        for number in [seq, task, 0] {
            write::put_u64(&mut out, number);
        }
        write::put_array(&mut out, 1);
        write::put_bytes(&mut out, b"k");
        write::put_array(&mut out, values.len() as u32);
        for (value, offset) in values.iter().zip(0..) {
            write::put_array(&mut out, 8);
            for number in [0, 0, offset, 1000, 0] {
                write::put_u64(&mut out, number);
            }
            write::put_bytes(&mut out, value.as_bytes());
            write::put_nil(&mut out);
            write::put_u64(&mut out, 1);
        }
        write::put_map(&mut out, 0);
        write::put_nil(&mut out);
        write::end_frame(&mut out);
        self.send(&out);
    }

    /// A BATCH of the key `k` from items and state in JSON: numbers, text as bin, lists, null, maps with numbers for keys.
    fn batch_of(&mut self, seq: u64, items: &Value, state: &Value) {
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind::BATCH, 7);
        for number in [seq, 0, 0] {
            write::put_u64(&mut out, number);
        }
        for field in [&json!(["k"]), items, state, &Value::Null] {
            put(&mut out, field);
        }
        write::end_frame(&mut out);
        self.send(&out);
    }

    /// Waits for a RESULT and shows what follows `done`: lists, maps and numbers as they are, bytes as text.
    fn effects(&mut self) -> Value {
        let payload = self.expect(kind::RESULT);
        let mut reader = Reader::new(&payload);
        let (_, fields) = read_head(&mut reader).unwrap();
        (0..fields).map(|_| shown(&mut reader)).skip(2).collect()
    }

    /// Waits for a RESULT: seq and done.
    fn result(&mut self) -> (u64, u64) {
        let payload = self.expect(kind::RESULT);
        let mut reader = Reader::new(&payload);
        read_head(&mut reader).unwrap();
        (reader.u64("seq").unwrap(), reader.u64("done").unwrap())
    }
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => write::put_nil(out),
        Value::Number(number) => write::put_i64(out, number.as_i64().unwrap()),
        Value::String(text) => write::put_bytes(out, text.as_bytes()),
        Value::Array(list) => {
            write::put_array(out, list.len() as u32);
            list.iter().for_each(|element| put(out, element));
        }
        Value::Object(map) => {
            write::put_map(out, map.len() as u32);
            for (key, value) in map {
                write::put_u64(out, key.parse().unwrap());
                put(out, value);
            }
        }
        Value::Bool(_) => panic!("no such thing"),
    }
}

fn shown(reader: &mut Reader<'_>) -> Value {
    if reader.take_nil() {
        return Value::Null;
    }
    let at = reader.position();
    if let Ok(number) = reader.i64("") {
        return json!(number);
    }
    reader.start_at(at);
    if let Ok(bytes) = reader.bytes("") {
        return json!(bytes.escape_ascii().to_string());
    }
    reader.start_at(at);
    if let Ok(yes) = reader.bool("") {
        return json!(yes);
    }
    reader.start_at(at);
    if let Ok(count) = reader.list("") {
        return (0..count).map(|_| shown(reader)).collect();
    }
    reader.start_at(at);
    let entries = reader.map("").unwrap();
    (0..entries).map(|_| json!([shown(reader), shown(reader)])).collect()
}

fn app(handle: impl Fn(&mut crate::Context<'_>, &str) -> HandlerResult + Send + Sync + 'static) -> App {
    App::new().on("in", move |ctx, record: Record<'_, Text, Text>| handle(ctx, record.value.unwrap_or_default()))
}

fn idle_app() -> App {
    app(|_, _| Ok(()))
}

fn within<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(TIMEOUT).expect("it happens")
}

#[test]
fn cancel_is_seen_by_the_handler_and_the_next_batch_of_the_task_waits() {
    let sidecar = FakeSidecar::new();
    let (started, starts) = channel();
    let (let_go, gate) = sync_channel::<()>(1);
    let (started, gate, running) = (Mutex::new(started), Mutex::new(gate), AtomicU32::new(0));
    let app = app(move |ctx, value| {
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two handlers of one task at the same time");
        started.lock().unwrap().send(value.to_owned()).unwrap();
        if value == "1" {
            within(&gate.lock().unwrap());
            assert!(ctx.is_cancelled());
        }
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    sidecar.start(app, Options::default());
    let mut c = sidecar.accept();
    c.batch(1, 0, &["1", "lost"]);
    assert_eq!(within(&starts), "1");
    c.send(&write::number(kind::CANCEL, 1));
    c.batch(2, 0, &["2"]);
    c.send(&write::number(kind::PING, 5));
    c.expect(kind::PONG); // so both were read
    let_go.send(()).unwrap();
    assert_eq!(c.result(), (1, 0));
    assert_eq!(c.result(), (2, 1));
    assert_eq!(within(&starts), "2");
}

#[test]
fn a_handler_that_hangs_holds_up_neither_other_tasks_nor_the_next_connection() {
    let sidecar = FakeSidecar::new();
    let (let_go, gate) = sync_channel::<()>(1);
    let (started, start) = channel();
    let (gate, started) = (Mutex::new(gate), Mutex::new(started));
    let app = app(move |_, value| {
        if value == "hang" {
            started.lock().unwrap().send(()).unwrap();
            within(&gate.lock().unwrap());
        }
        Ok(())
    });
    sidecar.start(app, Options { parallel: Some(2), ..Options::default() });
    let mut c = sidecar.accept();
    c.batch(1, 0, &["hang"]);
    within(&start);
    c.send(&write::number(kind::CANCEL, 1));
    c.batch(2, 1, &["a"]);
    c.batch(3, 2, &["b"]);
    let mut done = [c.result().0, c.result().0];
    done.sort_unstable();
    assert_eq!(done, [2, 3]);
    drop(c);
    let mut c = sidecar.accept();
    c.batch(1, 0, &["a"]);
    assert_eq!(c.result(), (1, 1));
    let_go.send(()).unwrap();
}

#[test]
fn tasks_run_at_the_same_time() {
    let sidecar = FakeSidecar::new();
    let barrier = Arc::new(std::sync::Barrier::new(2));
    sidecar.start(
        app(move |_, _| {
            barrier.wait();
            Ok(())
        }),
        Options { parallel: Some(2), ..Options::default() },
    );
    let mut c = sidecar.accept();
    c.batch(1, 0, &["a"]);
    c.batch(2, 1, &["b"]);
    c.result();
    c.result();
}

#[test]
fn a_panic_fails_its_record_and_the_program_lives() {
    let sidecar = FakeSidecar::new();
    sidecar.start(
        app(|_, value| {
            let numbers: Vec<usize> = value.bytes().map(usize::from).collect();
            if numbers[5] == 0 {
                return Err(HandlerError::msg("no"));
            }
            Ok(())
        }),
        Options::default(),
    );
    let mut c = sidecar.accept();
    c.batch(1, 0, &["123456", "1"]);
    let text = String::from_utf8_lossy(&c.expect(kind::RESULT)).into_owned();
    assert!(text.contains("index out of bounds") && text.contains("session_test.rs:"), "{text}");
    c.batch(2, 0, &[]);
    assert_eq!(c.result(), (2, 0));
}

#[test]
fn a_stopped_worker_serves_until_goodbye() {
    let sidecar = FakeSidecar::new();
    let (stop, running) = sidecar.start(idle_app(), Options::default());
    let mut c = sidecar.accept();
    c.send(&write::number(kind::PING, 1));
    c.expect(kind::PONG);
    stop.stop();
    c.batch(1, 0, &["a"]);
    assert_eq!(c.result(), (1, 1));
    c.send(&write::texts(kind::GOODBYE, &["drained"]));
    assert!(c.receive().is_none());
    running.join().unwrap().unwrap();
}

#[test]
fn without_goodbye_a_stopped_worker_leaves_after_its_bound() {
    let sidecar = FakeSidecar::new();
    let (stop, running) =
        sidecar.start(idle_app(), Options { stop_timeout: Some(Duration::from_millis(50)), ..Options::default() });
    let mut c = sidecar.accept();
    stop.stop();
    c.expect(kind::GOODBYE);
    assert!(c.receive().is_none());
    running.join().unwrap().unwrap();
}

#[test]
fn stopped_before_the_sidecar_answers() {
    let sidecar = FakeSidecar::new();
    let (stop, running) = sidecar.start(idle_app(), Options::default());
    let _silent = sidecar.connection();
    stop.stop();
    running.join().unwrap().unwrap();
}

#[test]
fn a_refusal_for_good_ends_the_program() {
    let sidecar = FakeSidecar::new();
    let (_, running) = sidecar.start(idle_app(), Options::default());
    sidecar.connection().send(&write::texts(kind::ERROR, &["Refused", "no such input"]));
    match running.join().unwrap() {
        Err(RunError::Config(message)) => assert!(message.contains("no such input (Refused)"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_manifest_that_does_not_fit_ends_the_program_and_is_told() {
    let sidecar = FakeSidecar::new();
    let app = App::new().on("other", |_, _: Record<'_, Raw, Raw>| Ok(()));
    let (_, running) = sidecar.start(app, Options::default());
    let mut c = sidecar.accept();
    let told = String::from_utf8_lossy(&c.expect(kind::ERROR)).into_owned();
    let expected = "the program handles input \"other\", which the manifest does not declare; inputs: in";
    assert!(told.contains("WorkerFailed") && told.contains(expected), "{told}");
    match running.join().unwrap() {
        Err(RunError::Config(message)) => assert_eq!(message, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_listens() {
    let options = || Options {
        socket: Some("/nonexistent/w.sock".into()),
        start_timeout: Some(Duration::from_millis(1)),
        ..Options::default()
    };
    match idle_app().run(options()) {
        Err(RunError::NoSidecar(message)) => assert!(message.contains("millstream run -f processor.yaml -- "), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(App::new().run(options()), Err(RunError::Config(message)) if message.contains("no handler")));
    let long = Options { socket: Some("x".repeat(200).into()), ..options() };
    assert!(matches!(idle_app().run(long), Err(RunError::Config(message)) if message.contains("MILLSTREAM_SOCKET")));
    let none = Options { parallel: Some(0), ..options() };
    assert!(matches!(idle_app().run(none), Err(RunError::Config(message)) if message.contains("1 to 256")));
}

#[test]
fn a_timer_that_an_earlier_item_cancelled_is_passed_over() {
    static B: Timer<Text> = Timer::new("b", Text);
    static OUT: Output<Text, Text> = Output::new("out", Text, Text);
    let sidecar = FakeSidecar::new();
    let app = idle_app().on_timer("a", |ctx, _: Due<'_, Text>| Ok(B.cancel(ctx)?)).on_timer("b", |ctx, due: Due<'_, Text>| {
        assert!(due.wall_clock, "the one that was cancelled is called");
        Ok(OUT.emit(ctx, due.key, "b")?)
    });
    sidecar.start(app, Options::default());
    let mut c = sidecar.accept();
    c.batch_of(1, &json!([[1, 0, 0, "a", 100, 1], [1, 0, 0, "b", 100, 1], [1, 0, 1, "b", 101, 1]]), &json!({}));
    assert_eq!(c.effects(), json!([null, [], [[0, "k", "b", 101]], [["k", 0, "b", null]]]));
    c.batch_of(2, &json!([[1, 0, 0, "c", 100, 1]]), &json!({}));
    let failure = c.effects()[0].to_string();
    assert!(failure.contains("no handler for timer") && failure.contains("Handlers exist for: a, b"), "{failure}");
}

#[test]
fn sessions_that_grow_within_a_batch() {
    static VISITS: SessionStore<Text, Text> = SessionStore::new("visits", Text, Text);
    let sidecar = FakeSidecar::new();
    let app = app(|ctx, value| {
        if value == "-" {
            return Ok(());
        }
        let all = VISITS.values(ctx)?.concat() + value;
        Ok(VISITS.put(ctx, &all)?)
    });
    sidecar.start(app, Options::default());
    let mut c = sidecar.accept();
    let record = |offset: i64, time: i64, value: &str, session: Value| json!([0, 0, offset, time, 0, value, null, 1, [session]]);
    let items = json!([
        record(0, 10, "a", json!([1, 10, 10, []])),
        record(1, 15, "b", json!([1, 10, 15, [[10, 10]]])),
        record(2, 17, "-", json!([1, 10, 17, [[10, 15]]])),
        record(3, 25, "c", json!([1, 10, 30, [[10, 17], [30, 30]]])),
    ]);
    c.batch_of(1, &items, &json!({"1": [[[30, 30, "x"]]]}));
    let row = |start: i64, end: i64| [b"k", &crate::schema::session_suffix(start, end)[..]].concat().escape_ascii().to_string();
    let writes = json!([[row(10, 10), "a"], [row(10, 15), "ab"], [row(10, 17), "ab"], [row(10, 30), "abxc"]]);
    assert_eq!(c.effects(), json!([null, [[1, writes]], []]));
    // Nothing came along, and the values are asked for.
    c.batch_of(2, &json!([record(4, 40, "d", json!([1, 10, 40, [[10, 30]]]))]), &json!({}));
    let question = c.expect(kind::GET);
    assert!(question.ends_with(b"k\x80\0\0\0\0\0\0\x0a\x80\0\0\0\0\0\0\x1e"));
    c.send(&{
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind::VALUES, 3);
        [2, 1].iter().for_each(|number| write::put_u64(&mut out, *number));
        put(&mut out, &json!(["y"]));
        write::end_frame(&mut out);
        out
    });
    assert_eq!(c.effects(), json!([null, [[1, [[row(10, 40), "yd"]]]], []]));
}

#[test]
fn hooks_see_transactions_and_what_is_gathered_belongs_to_them() {
    static WORDS: Gathered<Vec<String>> = Gathered::new();
    static OUT: Output<Text, Text> = Output::new("out", Text, Text);
    let sidecar = FakeSidecar::new();
    let (committed, commits) = channel();
    let committed = Mutex::new(committed);
    let app = app(|ctx, value| {
        let word = value.to_owned();
        WORDS.change(ctx, |words| words.push(word));
        if value == "bad" {
            return Err(HandlerError::msg("no"));
        }
        Ok(())
    })
    .on_begin(|ctx| Ok(OUT.emit(ctx, Null, "begin")?))
    .on_finalize(|ctx| {
        let words = WORDS.take(ctx).join(" ");
        Ok(OUT.emit(ctx, Null, &words[..])?)
    })
    .on_committed(move |task| committed.lock().unwrap().send(task).unwrap());
    sidecar.start(app, Options { parallel: Some(1), ..Options::default() });
    let mut c = sidecar.accept();
    let hook = |kind: u64, seq: u64| {
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind, 2);
        [seq, 0].iter().for_each(|number| write::put_u64(&mut out, *number));
        write::end_frame(&mut out);
        out
    };
    c.send(&write::number(kind::OPEN, 0));
    c.send(&hook(kind::BEGIN, 1));
    assert_eq!(c.effects(), json!([null, [], [[0, null, "begin", null]]]));
    c.batch(2, 0, &["a", "b", "bad"]);
    assert_eq!(c.result(), (2, 2));
    c.batch(3, 0, &["c"]);
    assert_eq!(c.result(), (3, 1));
    c.send(&hook(kind::FINALIZE, 4));
    assert_eq!(c.effects(), json!([null, [], [[0, null, "a b c", null]]]));
    let mut out = Vec::new();
    write::begin_frame(&mut out, kind::COMMITTED, 1);
    put(&mut out, &json!([[0, 4]]));
    write::end_frame(&mut out);
    c.send(&out);
    assert_eq!(within(&commits), 0);
    // An aborted transaction: what was gathered for it is forgotten.
    c.batch(5, 0, &["lost"]);
    c.result();
    c.send(&write::number(kind::CLOSE, 0));
    c.send(&write::number(kind::OPEN, 0));
    c.batch(6, 0, &["again"]);
    c.result();
    c.send(&hook(kind::FINALIZE, 7));
    assert_eq!(c.effects(), json!([null, [], [[0, null, "again", null]]]));
}
