//! What is Rust's own about sessions; the protocol itself is tested by the conformance suite.

use crate::wire::reader::{read_head, Reader};
use crate::wire::{kind, kind_name, write, LENGTH_BYTES};
use crate::{App, HandlerError, HandlerResult, Options, Raw, Record, RunError, Stop, Text};
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

    /// With input `in`, store `s` and output `out`.
    fn accept(&self) -> Connection {
        let mut connection = self.connection();
        let mut out = Vec::new();
        write::begin_frame(&mut out, kind::WELCOME, 1);
        write::put_map(&mut out, 6);
        for (field, number) in [("protocol", 1), ("session", 7)] {
            write::put_text(&mut out, field);
            write::put_u64(&mut out, number);
        }
        write::put_text(&mut out, "processor");
        write::put_text(&mut out, "test");
        for (list, name) in [("inputs", "in"), ("outputs", "out"), ("stores", "s")] {
            write::put_text(&mut out, list);
            write::put_array(&mut out, 1);
            write::put_map(&mut out, 1);
            write::put_text(&mut out, "name");
            write::put_text(&mut out, name);
        }
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

    /// Waits for a RESULT: seq and done.
    fn result(&mut self) -> (u64, u64) {
        let payload = self.expect(kind::RESULT);
        let mut reader = Reader::new(&payload);
        read_head(&mut reader).unwrap();
        (reader.u64("seq").unwrap(), reader.u64("done").unwrap())
    }
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
