//! Connects, serves sessions one after the other, reconnects, and stops in good order.

use crate::app::{App, Settings};
use crate::error::RunError;
use crate::error_codes;
use crate::pool::Pool;
use crate::session::{self, OpenError, Session};
use crate::stop::Event;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
/// A session that lived so long, or returned a result, was a good one: the next one is tried without delay.
const GOOD_SESSION: Duration = Duration::from_secs(5);
/// After the bound for stopping the worker says GOODBYE and serves what is in flight for so long.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Told to stop while HELLO is unanswered: so long for a WELCOME that is on its way.
const HELLO_GRACE: Duration = Duration::from_secs(1);
/// What a socket's address has room for.
const MAX_PATH: usize = 107;

/// Serves on one connection at a time.
pub(crate) struct Worker {
    app: App,
    settings: Settings,
    name: String,
    pool: Pool,
    /// That it waits for the sidecar.
    said_waiting: bool,
}

enum Problem {
    /// Nobody listens.
    NoSidecar(String),
    Open(OpenError),
}

impl Worker {
    pub(crate) fn new(app: App, settings: Settings) -> Worker {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = format!("{}/{}", host.trim(), std::process::id());
        Worker { app, settings, name, pool: Pool::default(), said_waiting: false }
    }

    /// Returns after an orderly end, or with the reason why there is no point in going on.
    pub(crate) fn run(mut self) -> Result<(), RunError> {
        if self.settings.socket.as_os_str().as_bytes().len() > MAX_PATH {
            return Err(RunError::Config(format!(
                "socket path \"{}\" is over {MAX_PATH} bytes; set MILLSTREAM_SOCKET to a shorter one",
                self.settings.socket.display()
            )));
        }
        let outcome = self.serve();
        self.pool.close();
        outcome
    }

    fn serve(&mut self) -> Result<(), RunError> {
        let mut wait_until = Instant::now() + self.settings.start_timeout;
        let mut backoff = FIRST_BACKOFF;
        let mut connected = false;
        while !self.settings.stop.is_stopped() {
            let began = Instant::now();
            match self.one_session() {
                Ok(results) => {
                    connected = true;
                    wait_until = Instant::now() + self.settings.lost_timeout;
                    if results > 0 || began.elapsed() > GOOD_SESSION {
                        backoff = FIRST_BACKOFF;
                    }
                }
                Err(_) if self.settings.stop.is_stopped() => return Ok(()),
                Err(problem) => self.give_up_or_log(problem, wait_until, connected)?,
            }
            // Jitter, so that the workers of a pod do not all knock at once.
            if self.settings.stop.wait(backoff / 2 + backoff.mul_f64(random_share() / 2.0)) {
                break;
            }
            backoff = (2 * backoff).min(LONGEST_BACKOFF);
        }
        Ok(())
    }

    /// Serves one connection to its end; the number of results it returned.
    fn one_session(&mut self) -> Result<u64, Problem> {
        let stream = connect(&self.settings.socket)?;
        let opened: Arc<OnceLock<Arc<Session>>> = Arc::default();
        let (sender, events) = channel();
        self.settings.stop.listen(sender.clone());
        let watcher = Watcher {
            events,
            stream: stream.try_clone().map_err(|error| Problem::NoSidecar(error.to_string()))?,
            session: Arc::clone(&opened),
            stop_timeout: self.settings.stop_timeout,
        };
        std::thread::Builder::new()
            .name("millstream-stop".to_owned())
            .spawn(move || watcher.watch())
            .map_err(|error| Problem::NoSidecar(format!("a thread cannot be made: {error}")))?;
        // The watcher may have gone.
        let over = AtEnd(|| sender.send(Event::Over).unwrap_or_default());
        let (session, reader) =
            session::open(stream, &self.app, &self.name, self.settings.parallel, self.pool.clone()).map_err(Problem::Open)?;
        let session = Arc::clone(opened.get_or_init(|| session));
        let _ = sender.send(Event::Opened);
        self.said_waiting = false;
        let (processor, number) = (&session.schema.processor, session.schema.session);
        tracing::info!(processor, session = number, socket = %self.settings.socket.display(), "connected to the sidecar");
        let ended = session.serve(reader);
        drop(over);
        if ended.said_goodbye || self.settings.stop.is_stopped() {
            tracing::info!(processor, session = number, reason = ended.reason, "session ended");
        } else {
            tracing::warn!(processor, session = number, reason = ended.reason, "session ended");
            say(&format!("session ended: {}", ended.reason));
        }
        if ended.lingering > 0 {
            tracing::warn!(tasks = ended.lingering, "handlers go on though their batches are void; see Context::is_cancelled");
        }
        Ok(ended.results)
    }

    fn give_up_or_log(&mut self, problem: Problem, wait_until: Instant, connected: bool) -> Result<(), RunError> {
        let socket = self.settings.socket.display();
        let (reason, nobody) = match problem {
            Problem::Open(OpenError::Unfit(error)) => return Err(error),
            Problem::Open(OpenError::Refused { code, message }) if error_codes::find(&code).is_final => {
                let remedy = error_codes::find(&code).remedy;
                return Err(RunError::Config(format!(
                    "the sidecar refuses this program: {message} ({code}). What to do: {remedy}"
                )));
            }
            Problem::Open(OpenError::Refused { code, message }) => {
                (format!("the sidecar does not take this worker yet: {message} ({code})"), false)
            }
            Problem::Open(OpenError::Lost(reason)) => (reason, false),
            Problem::NoSidecar(reason) => (reason, true),
        };
        if Instant::now() < wait_until {
            if !self.said_waiting {
                self.said_waiting = true;
                tracing::info!(socket = %socket, reason, "waiting for the sidecar");
                say(&format!("waiting for the sidecar at {socket}: {reason}"));
            }
            return Ok(());
        }
        Err(RunError::NoSidecar(if connected {
            let bound = self.settings.lost_timeout;
            format!("the sidecar at {socket} went away and did not come back within {bound:?}: {reason}")
        } else if nobody {
            format!("no sidecar at {socket} ({reason}); run: millstream run -f processor.yaml -- {}", program())
        } else {
            reason
        }))
    }
}

/// Without a subscriber for `tracing` what a person has to know goes to standard error.
fn say(message: &str) {
    if !tracing::dispatcher::has_been_set() {
        eprintln!("millstream: {message}");
    }
}

fn program() -> String {
    std::env::args_os().next().map_or_else(|| "PROGRAM".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Connecting blocks while the listener's queue is full, so it has a thread and a bound.
fn connect(path: &Path) -> Result<UnixStream, Problem> {
    let (sender, receiver) = channel();
    let path = path.to_owned();
    std::thread::Builder::new()
        .name("millstream-connect".to_owned())
        .spawn(move || drop(sender.send(UnixStream::connect(path))))
        .map_err(|error| Problem::NoSidecar(format!("a thread cannot be made: {error}")))?;
    match receiver.recv_timeout(CONNECT_TIMEOUT) {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Problem::NoSidecar(error.to_string())),
        Err(_) => Err(Problem::NoSidecar(format!("it took no connection within {CONNECT_TIMEOUT:?}"))),
    }
}

/// Follows one connection, and ends it in time when the program is told to stop.
struct Watcher {
    events: Receiver<Event>,
    stream: UnixStream,
    session: Arc<OnceLock<Arc<Session>>>,
    stop_timeout: Duration,
}

impl Watcher {
    fn watch(self) {
        let mut opened = false;
        loop {
            match self.events.recv() {
                Ok(Event::Opened) => opened = true,
                Ok(Event::Stop) => break,
                Ok(Event::Over) | Err(_) => return,
            }
        }
        // Nothing is in flight while HELLO is unanswered, so it is not waited for, but for a WELCOME on its way.
        if !opened && self.events.recv_timeout(HELLO_GRACE) != Ok(Event::Opened) {
            let _ = self.stream.shutdown(Shutdown::Both);
            return;
        }
        if self.events.recv_timeout(self.stop_timeout).is_ok() {
            return; // over
        }
        let Some(session) = self.session.get() else { return };
        session.leave("the worker was told to stop");
        if self.events.recv_timeout(LEAVE_TIMEOUT).is_err() {
            session.end("told to stop");
        }
    }
}

/// Calls a function at the end of a block, however it ends.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// From 0 up to 1.
fn random_share() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
