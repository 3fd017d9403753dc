//! One connection: handshake, the reading thread, keep-alive, answers to GET and SCAN, and the way out for results.
//!
//! Batches run on threads of the pool, those of one task one after the other: a batch that was cancelled, but whose handler
//! has not noticed, holds up the next one of its task and no other.

use crate::app::{App, Handler};
use crate::batch::{self, Buffers, Link, Page, Task, Values};
use crate::error::{Error, RunError};
use crate::panics;
use crate::pool::Pool;
use crate::schema::Schema;
use crate::wire::batch::{Answer, Batch, Content};
use crate::wire::reader::{read_head, Reader};
use crate::wire::welcome::Welcome;
use crate::wire::write::{self, Scan};
use crate::wire::{bad_frame, cut_text, kind, kind_name, ProtocolError, DEFAULT_FRAME_CAP, FLAG_TRACE, LENGTH_BYTES};
use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The sidecar answers HELLO at once; a socket that somebody else listens on may not.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// EXTEND goes out at least so many times within a deadline while there is progress.
const BEATS_PER_DEADLINE: u64 = 4;
const LONGEST_BEAT_MS: u64 = 5_000;
const SHORTEST_BEAT_MS: u64 = 20;
const READ_BUFFER: usize = 256 << 10;
/// Handlers of a connection that is over are waited for so long; then the next one is made all the same.
const HANDLER_GRACE: Duration = Duration::from_secs(1);
const TELL_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TOLD: usize = 4096;

/// Why there is no session.
pub(crate) enum OpenError {
    /// The sidecar's answer to HELLO.
    Refused {
        code: String,
        message: String,
    },
    Unfit(RunError),
    /// The connection, or what came over it.
    Lost(String),
}

/// Why a session ends.
enum End {
    Protocol(ProtocolError),
    Lost(String),
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        End::Protocol(error)
    }
}

pub(crate) struct Session {
    pub(crate) schema: Schema,
    stream: UnixStream,
    /// Keeps frames whole. Taken before `state` where both are.
    writer: Mutex<UnixStream>,
    parallel: usize,
    pool: Pool,
    state: Mutex<State>,
    /// The session has ended, or a lane has.
    changed: Condvar,
    results: AtomicU64,
}

#[derive(Default)]
struct State {
    flights: HashMap<u64, Arc<Flight>>,
    /// By task: what waits for the job a thread is at.
    lanes: HashMap<i32, VecDeque<Job>>,
    /// By task; a new one at OPEN and CLOSE.
    generations: HashMap<i32, u64>,
    last_generation: u64,
    questions: HashMap<u64, Question>,
    next_rid: u64,
    /// GOODBYE was said by either side: disconnect once nothing is in flight.
    leaving: bool,
    ended: bool,
    said_goodbye: bool,
    reason: String,
}

/// What a task has to do, one after the other.
enum Job {
    Flight(Arc<Flight>),
    /// A transaction with effects of the task was committed.
    Committed,
}

/// A batch that came; or a hook that is to be called, which is a batch of no items.
struct Flight {
    batch: Batch,
    hook: Option<Handler>,
    generation: u64,
    void: AtomicBool,
    done: AtomicU64,
    /// `done` of the last EXTEND.
    extended: AtomicU64,
}

/// A GET or SCAN that is not answered. Dropping it tells the one who waits that the batch is void.
struct Question {
    seq: u64,
    /// Values that were asked for; `None` for rows.
    values: Option<usize>,
    answer: SyncSender<Answer>,
}

/// How a session ended.
pub(crate) struct Ended {
    pub(crate) results: u64,
    pub(crate) said_goodbye: bool,
    pub(crate) reason: String,
    /// Handlers that go on though their batches are void.
    pub(crate) lingering: usize,
}

/// Does the handshake. A problem of ours is told to the sidecar.
pub(crate) fn open(
    stream: UnixStream,
    app: &App,
    name: &str,
    parallel: usize,
    pool: Pool,
) -> Result<(Arc<Session>, BufReader<UnixStream>), OpenError> {
    let lost = |error: std::io::Error| OpenError::Lost(error.to_string());
    let reader_half = stream.try_clone().map_err(lost)?;
    let mut writer = stream.try_clone().map_err(lost)?;
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(lost)?;
    let mut reader = BufReader::with_capacity(READ_BUFFER, reader_half);
    writer.write_all(&write::hello(&app.inputs().collect::<Vec<_>>(), &app.capabilities(), parallel, name)).map_err(lost)?;
    let tell = |writer: &mut UnixStream, code: &str, message: &str| {
        // The connection is over anyhow.
        let _ = writer.write_all(&write::texts(kind::ERROR, &[code, &cut_text(message, MAX_TOLD)]));
    };
    let welcome = match receive_welcome(&mut reader) {
        Ok(Ok(welcome)) => welcome,
        Ok(Err(refused)) => return Err(refused),
        Err(End::Lost(reason)) => return Err(OpenError::Lost(reason)),
        Err(End::Protocol(error)) => {
            tell(&mut writer, error.code, &error.message);
            return Err(OpenError::Lost(error.message));
        }
    };
    let schema = Schema::new(welcome, app).map_err(|error| {
        tell(&mut writer, "WorkerFailed", &error.to_string());
        OpenError::Unfit(error)
    })?;
    stream.set_read_timeout(None).map_err(lost)?;
    let session = Session {
        schema,
        stream,
        writer: Mutex::new(writer),
        parallel,
        pool,
        state: Mutex::new(State { next_rid: 1, ..State::default() }),
        changed: Condvar::new(),
        results: AtomicU64::new(0),
    };
    Ok((Arc::new(session), reader))
}

fn receive_welcome(reader: &mut BufReader<UnixStream>) -> Result<Result<Welcome, OpenError>, End> {
    let payload = receive(reader, DEFAULT_FRAME_CAP)?;
    let mut reader = Reader::new(&payload);
    match read_head(&mut reader)? {
        (kind::WELCOME, fields) => Ok(Ok(Welcome::read(&mut reader, fields)?)),
        (kind::ERROR, fields) if fields >= 2 => {
            Ok(Err(OpenError::Refused { code: reader.text("code")?, message: reader.text("message")? }))
        }
        (kind::GOODBYE, _) => Err(End::Lost("the sidecar is going away".to_owned())),
        (other, _) => Err(bad_frame(format!("expected WELCOME, got {}", kind_name(other))).into()),
    }
}

/// The next frame without its length.
fn receive(reader: &mut impl Read, cap: usize) -> Result<Vec<u8>, End> {
    let mut length = [0; LENGTH_BYTES];
    reader.read_exact(&mut length).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => End::Lost("the sidecar closed the connection".to_owned()),
        _ => End::Lost(format!("reading from the sidecar: {error}")),
    })?;
    let length = u32::from_be_bytes(length) as usize;
    if length > cap {
        let message = format!("a frame of {length} bytes is over the cap of {cap}");
        return Err(ProtocolError { code: "FrameTooLarge", message }.into());
    }
    if length == 0 {
        return Err(bad_frame("an empty frame").into());
    }
    let mut payload = Vec::with_capacity(length);
    match reader.take(length as u64).read_to_end(&mut payload) {
        Ok(read) if read == length => Ok(payload),
        Ok(_) => Err(End::Lost("the connection ended in the middle of a frame".to_owned())),
        Err(error) => Err(End::Lost(format!("reading from the sidecar: {error}"))),
    }
}

impl Session {
    /// Reads until the connection ends. All batches are void then, and their handlers have ended or been given up.
    pub(crate) fn serve(self: &Arc<Self>, mut reader: BufReader<UnixStream>) -> Ended {
        let keeper = Arc::clone(self);
        let kept = std::thread::Builder::new().name("millstream-keep".to_owned()).spawn(move || keeper.keep());
        let end = match kept {
            Ok(_) => loop {
                let next = receive(&mut reader, self.schema.frame_cap);
                if let Err(end) = next.and_then(|payload| self.dispatch(payload)) {
                    break end;
                }
            },
            Err(error) => End::Lost(format!("a thread cannot be made: {error}")),
        };
        match end {
            End::Lost(reason) => self.end(&reason),
            End::Protocol(error) => self.refuse(&error),
        }
        let waited = self.changed.wait_timeout_while(self.lock(), HANDLER_GRACE, |state| !state.lanes.is_empty());
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        Ended {
            results: self.results.load(Ordering::Relaxed),
            said_goodbye: state.said_goodbye,
            reason: state.reason.clone(),
            lingering: state.lanes.len(),
        }
    }

    /// Closes the connection and voids everything. The first reason is kept. From any thread.
    pub(crate) fn end(&self, reason: &str) {
        let mut state = self.lock();
        if state.reason.is_empty() {
            state.reason = reason.to_owned();
        }
        state.ended = true;
        state.flights.values().for_each(|flight| flight.void.store(true, Ordering::Relaxed));
        state.questions.clear();
        drop(state);
        self.changed.notify_all();
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Asks for nothing more: what is in flight is served, then the connection ends.
    pub(crate) fn leave(&self, reason: &str) {
        if self.send(&write::texts(kind::GOODBYE, &[reason])).is_ok() {
            self.lock().leaving = true;
            self.end_if_left();
        } // else the reader sees it too
    }

    fn end_if_left(&self) {
        let state = self.lock();
        let left = state.leaving && state.flights.is_empty();
        drop(state);
        if left {
            self.end("nothing is in flight after goodbye");
        }
    }

    /// ERROR, which the sidecar shows, and the end. Nothing follows it: the connection stays in hand until it is closed. And what the end
    /// voids hears of it only then, so that no RESULT of that comes first.
    fn refuse(&self, error: &ProtocolError) {
        let _ = self.stream.set_write_timeout(Some(TELL_TIMEOUT));
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // The connection is over anyhow.
        let _ = writer.write_all(&write::texts(kind::ERROR, &[error.code, &cut_text(&error.message, MAX_TOLD)]));
        self.end(&error.message);
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.send_unless(frame, || false).map(|_| ())
    }

    /// Sends, unless `dropped`, asked with the connection in hand, says that it no longer should be. Whether it was sent.
    fn send_unless(&self, frame: &[u8], dropped: impl FnOnce() -> bool) -> Result<bool, SendError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped() {
            return Ok(false);
        }
        let length = frame.len() - LENGTH_BYTES;
        if length > self.schema.frame_cap {
            return Err(SendError::TooLarge(length));
        }
        writer.write_all(frame).map_err(|error| SendError::Lost(format!("sending to the sidecar: {error}")))?;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // -- the reading thread

    fn dispatch(self: &Arc<Self>, payload: Vec<u8>) -> Result<(), End> {
        let mut reader = Reader::new(&payload);
        let (kind, fields) = read_head(&mut reader)?;
        let at = reader.position();
        match kind {
            kind::BATCH => {
                let batch = Batch::read(payload, at, fields, &self.schema.shape)?;
                self.take(batch, None)
            }
            kind::BEGIN if self.schema.hooks.begin.is_some() => self.take_hook(reader, fields, &self.schema.hooks.begin),
            kind::FINALIZE if self.schema.hooks.finalize.is_some() => self.take_hook(reader, fields, &self.schema.hooks.finalize),
            kind::COMMITTED if self.schema.hooks.committed.is_some() => self.take_committed(reader, fields),
            kind::VALUES | kind::ROWS => self.take_answer(Answer::read(payload, at, fields, kind == kind::ROWS)?),
            kind::CANCEL => {
                let seq = one_number(reader, kind, fields)?;
                self.void(|flight| flight.batch.seq == seq);
                Ok(())
            }
            kind::CLOSE => {
                let task = one_number(reader, kind, fields)?;
                self.void(|flight| u64::from(flight.batch.task.unsigned_abs()) == task);
                self.begin_anew(task);
                Ok(())
            }
            kind::OPEN => {
                let task = one_number(reader, kind, fields)?;
                self.begin_anew(task);
                Ok(())
            }
            kind::PONG => Ok(one_number(reader, kind, fields).map(|_| ())?),
            kind::PING => {
                let nonce = one_number(reader, kind, fields)?;
                self.send(&write::number(kind::PONG, nonce)).map_err(|error| End::Lost(error.to_string()))
            }
            kind::ERROR if fields >= 2 => {
                let (code, message) = (reader.text("code")?, reader.text("message")?);
                let remedy = crate::error_codes::find(&code).remedy;
                Err(End::Lost(format!("the sidecar ended the session: {message} ({code}). What to do: {remedy}")))
            }
            kind::GOODBYE if fields >= 1 => {
                let reason = reader.text("reason")?;
                let mut state = self.lock();
                (state.said_goodbye, state.leaving) = (true, true);
                state.reason = format!("the sidecar said goodbye: {reason}");
                drop(state);
                self.end_if_left();
                Ok(())
            }
            _ => Err(bad_frame(format!("unexpected {} of {fields} fields", kind_name(kind))).into()),
        }
    }

    /// Starts a batch that agrees with what is in flight.
    fn take(self: &Arc<Self>, batch: Batch, hook: Option<Handler>) -> Result<(), End> {
        let (seq, task) = (batch.seq, batch.task);
        let mut state = self.lock();
        if state.flights.contains_key(&seq) {
            return Err(bad_frame(format!("batch {seq} came twice")).into());
        }
        // A void one no longer counts: the sidecar sends the next at once.
        let valid = || state.flights.values().filter(|flight| !flight.is_void());
        if valid().any(|flight| flight.batch.task == task) {
            return Err(bad_frame(format!("batch {seq}: one of task {task} is still in flight")).into());
        }
        if hook.is_none() && valid().count() >= self.parallel {
            return Err(bad_frame(format!("batch {seq} is more than the {} this worker takes at once", self.parallel)).into());
        }
        let generation = state.generations.get(&task).copied().unwrap_or(0);
        let flight = Arc::new(Flight {
            batch,
            hook,
            generation,
            void: AtomicBool::new(false),
            done: AtomicU64::new(0),
            extended: AtomicU64::new(0),
        });
        state.flights.insert(seq, Arc::clone(&flight));
        self.enqueue(state, task, Job::Flight(flight))
    }

    fn enqueue(self: &Arc<Self>, mut state: MutexGuard<'_, State>, task: i32, job: Job) -> Result<(), End> {
        if let Some(lane) = state.lanes.get_mut(&task) {
            lane.push_back(job);
            return Ok(());
        }
        state.lanes.insert(task, VecDeque::new());
        drop(state);
        let session = Arc::clone(self);
        let work = Box::new(move |buffers: &mut Buffers| session.work(task, job, buffers));
        self.pool.submit(work).map_err(|error| End::Lost(format!("a thread cannot be made: {error}")))
    }

    fn take_hook(self: &Arc<Self>, mut reader: Reader<'_>, fields: usize, hook: &Option<Handler>) -> Result<(), End> {
        let more = fields.checked_sub(2).ok_or_else(|| bad_frame("a hook has a seq and a task"))?;
        let (seq, task) = (reader.u64("seq")?, reader.index("task")?);
        reader.skip(more)?;
        reader.end()?;
        self.take(Batch::hook(seq, task, self.schema.tables.len()), hook.clone())
    }

    fn take_committed(self: &Arc<Self>, mut reader: Reader<'_>, fields: usize) -> Result<(), End> {
        let more = fields.checked_sub(1).ok_or_else(|| bad_frame("COMMITTED has a list of tasks"))?;
        let mut tasks = Vec::new();
        for _ in 0..reader.list("COMMITTED")? {
            let further = reader.fields("committed task", 2)?;
            tasks.push(reader.index("task")?);
            reader.u64("seq")?;
            reader.skip(further)?;
        }
        reader.skip(more)?;
        reader.end()?;
        tasks.into_iter().try_for_each(|task| self.enqueue(self.lock(), task, Job::Committed))
    }

    /// What was kept for a task counts no more: the other generation finds nothing of it.
    fn begin_anew(&self, task: u64) {
        let mut state = self.lock();
        state.last_generation += 1;
        let generation = state.last_generation;
        if let Ok(task) = i32::try_from(task) {
            state.generations.insert(task, generation);
        }
    }

    fn void(&self, chosen: impl Fn(&Flight) -> bool) {
        let mut state = self.lock();
        let State { flights, questions, .. } = &mut *state;
        for flight in flights.values().filter(|flight| chosen(flight)) {
            flight.void.store(true, Ordering::Relaxed);
            questions.retain(|_, question| question.seq != flight.batch.seq);
        }
    }

    fn take_answer(&self, answer: Answer) -> Result<(), End> {
        let mut state = self.lock();
        let Some(question) = state.questions.get(&answer.rid).filter(|question| question.seq == answer.seq) else {
            return Ok(()); // its batch was cancelled meanwhile
        };
        let fits = match (&answer.content, question.values) {
            (Content::Values(values), Some(count)) => values.len() == count,
            (Content::Rows { .. }, None) => true,
            _ => false,
        };
        if !fits && answer.error.is_none() {
            // It stays open: whoever asked would end its batch with a RESULT, which must not come before the ERROR.
            return Err(bad_frame(format!("request {} was answered with something else than it asked for", answer.rid)).into());
        }
        let Some(question) = state.questions.remove(&answer.rid) else { return Ok(()) };
        drop(state);
        // There is room for one; it fails where the one who asked has gone.
        let _ = question.answer.send(answer);
        Ok(())
    }

    // -- threads of the pool

    /// Does the jobs of a task, one after the other, until none waits.
    fn work(&self, task: i32, first: Job, buffers: &mut Buffers) {
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Flight(flight) => self.run(&flight, buffers),
                Job::Committed => self.committed(task),
            }
            self.end_if_left();
            let mut state = self.lock();
            next = state.lanes.get_mut(&task).and_then(VecDeque::pop_front);
            if next.is_none() {
                state.lanes.remove(&task);
                self.changed.notify_all();
            }
        }
    }

    fn committed(&self, task: i32) {
        let Some(committed) = &self.schema.hooks.committed else { return };
        let outcome = panics::caught(|| {
            committed(task);
            Ok(())
        });
        if let Err(error) = outcome {
            tracing::error!(task, %error, "the hook for committed transactions failed; it is not called again for this one");
        }
    }

    fn run(&self, flight: &Arc<Flight>, buffers: &mut Buffers) {
        let link = FlightLink { session: self, flight };
        let task = Task { schema: &self.schema, batch: &flight.batch, link: &link, generation: flight.generation };
        let outcome = match batch::run_batch(&task, flight.hook.as_ref(), buffers) {
            Ok(()) => {
                let frame = std::mem::take(&mut buffers.frame);
                let outcome = self.send_unless(&frame, || {
                    if flight.is_void() {
                        return true;
                    }
                    buffers.run_deferred();
                    // Over before the frame leaves: the next batch of the task may come before the write returns.
                    self.forget(flight);
                    false
                });
                buffers.frame = frame;
                outcome
            }
            Err(_) => Ok(false),
        };
        match outcome {
            Ok(true) => {
                self.results.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.end(&error.to_string()),
            Ok(false) if flight.is_void() => {
                // A void batch is ended by an empty RESULT, which the sidecar drops. A broken connection the reader sees too.
                if self.forget(flight) {
                    let _ = self.send(&batch::void_result(flight.batch.seq));
                }
            }
            Ok(false) => self.end("EXTEND of a traced batch could not be sent"),
        }
    }

    /// Takes a batch off the list; false if the session has ended.
    fn forget(&self, flight: &Flight) -> bool {
        let mut state = self.lock();
        state.flights.remove(&flight.batch.seq).is_some() && !state.ended
    }

    // -- keep-alive

    /// Sends EXTEND for batches that made progress, until the session ends.
    fn keep(&self) {
        let beat = (self.schema.deadline_ms / BEATS_PER_DEADLINE).clamp(SHORTEST_BEAT_MS, LONGEST_BEAT_MS);
        loop {
            let waited = self.changed.wait_timeout_while(self.lock(), Duration::from_millis(beat), |state| !state.ended);
            let state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.ended {
                return;
            }
            let progressed: Vec<Arc<Flight>> = state.flights.values().filter(|flight| flight.has_progressed()).cloned().collect();
            drop(state);
            for flight in progressed {
                let done = flight.done.load(Ordering::Relaxed);
                flight.extended.store(done, Ordering::Relaxed);
                // Asked with the connection in hand: nothing may follow the RESULT. A broken one the reader sees too.
                let over = || flight.is_void() || !self.lock().flights.contains_key(&flight.batch.seq);
                if self.send_unless(&write::extend(flight.batch.seq, done), over).is_err() {
                    return;
                }
            }
        }
    }
}

/// The one field of OPEN, CLOSE, CANCEL, PING and PONG.
fn one_number(mut reader: Reader<'_>, kind: u64, fields: usize) -> Result<u64, ProtocolError> {
    let Some(more) = fields.checked_sub(1) else {
        return Err(bad_frame(format!("{} has no fields", kind_name(kind))));
    };
    let number = reader.u64("number")?;
    reader.skip(more)?;
    reader.end()?;
    Ok(number)
}

impl Flight {
    fn is_void(&self) -> bool {
        self.void.load(Ordering::Relaxed)
    }

    /// A traced batch says EXTEND itself, before each item.
    fn has_progressed(&self) -> bool {
        self.batch.flags & FLAG_TRACE == 0
            && !self.is_void()
            && self.done.load(Ordering::Relaxed) > self.extended.load(Ordering::Relaxed)
    }
}

enum SendError {
    TooLarge(usize),
    Lost(String),
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SendError::TooLarge(length) => write!(f, "a frame of {length} bytes is over the cap"),
            SendError::Lost(reason) => write!(f, "{reason}"),
        }
    }
}

/// How a batch reaches its session.
struct FlightLink<'s> {
    session: &'s Session,
    flight: &'s Flight,
}

impl FlightLink<'_> {
    fn ask(&self, values: Option<usize>, frame: impl FnOnce(u64) -> Vec<u8>) -> Result<Answer, Error> {
        let (sender, receiver) = sync_channel(1);
        let mut state = self.session.lock();
        if self.flight.is_void() || state.ended {
            return Err(Error::Void);
        }
        let rid = state.next_rid;
        state.next_rid += 1;
        state.questions.insert(rid, Question { seq: self.flight.batch.seq, values, answer: sender });
        drop(state);
        match self.session.send_unless(&frame(rid), || self.flight.is_void()) {
            Ok(true) => {}
            failed => {
                self.session.lock().questions.remove(&rid);
                return Err(match failed {
                    Err(error @ SendError::TooLarge(_)) => {
                        Error::output(format!("a question about state: {error}; ask for fewer keys"))
                    }
                    _ => Error::Void,
                });
            }
        }
        // Dropped without an answer when the batch becomes void, which the end of the session is as well.
        let answer = receiver.recv().map_err(|_| Error::Void)?;
        match answer.error.as_deref() {
            None => Ok(answer),
            Some("cancelled") => Err(Error::Void),
            Some(problem) => Err(Error::State(problem.to_owned())),
        }
    }
}

impl Link for FlightLink<'_> {
    fn get(&self, store: usize, keys: &[&[u8]]) -> Result<Values, Error> {
        let answer = self.ask(Some(keys.len()), |rid| write::get(self.flight.batch.seq, rid, store, keys))?;
        match answer.content {
            Content::Values(values) => Ok(Values { payload: answer.payload, values }),
            Content::Rows { .. } => Err(Error::Void), // refused before
        }
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<Page, Error> {
        let answer = self.ask(None, |rid| write::scan(self.flight.batch.seq, rid, scan))?;
        match answer.content {
            Content::Rows { rows, cursor } => Ok(Page { payload: answer.payload, rows, cursor }),
            Content::Values(_) => Err(Error::Void), // refused before
        }
    }

    fn extend(&self, done: u64) -> Result<(), Error> {
        match self.session.send_unless(&write::extend(self.flight.batch.seq, done), || self.flight.is_void()) {
            Ok(true) => Ok(()),
            _ => Err(Error::Void),
        }
    }

    fn note_done(&self, done: u64) {
        self.flight.done.store(done, Ordering::Relaxed);
    }

    fn is_void(&self) -> bool {
        self.flight.is_void()
    }
}
