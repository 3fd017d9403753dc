//! A program: handlers for the inputs of its manifest.

use crate::codec::{BoxError, Decode, Encode};
use crate::context::Context;
use crate::error::{HandlerError, HandlerResult, RunError};
use crate::hooks::Hooks;
use crate::record::Record;
use crate::stop::Stop;
use crate::time::{Closed, ClosedSession, Due, SESSION_CLOSINGS};
use crate::visit::{VisitEnd, Visited, VISITS};
use crate::window::SessionStore;
use crate::wire::welcome::Port;
use crate::worker::Worker;
use crate::{panics, signals};
use std::borrow::Borrow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Handler = Arc<dyn for<'b> Fn(&mut Context<'b>) -> HandlerResult + Send + Sync>;

/// Makes one encoded value of several.
pub(crate) type Merge = Arc<dyn Fn(&[&[u8]], &mut Vec<u8>) -> Result<(), BoxError> + Send + Sync>;

/// A stream processor's program. Register handlers with [`App::on`], then call [`App::main`] or [`App::run`].
#[derive(Clone, Default)]
pub struct App {
    /// In the order of registration.
    handlers: Vec<(String, Handler)>,
    timers: Vec<(String, Handler)>,
    /// By store.
    pub(crate) closings: Vec<(String, Handler)>,
    pub(crate) session_closings: Vec<(String, Handler)>,
    merges: Vec<(String, Merge)>,
    visits: Vec<(String, Handler)>,
    visit_ends: Vec<(String, Handler)>,
    pub(crate) hooks: Hooks,
}

/// Environment variables that say where the sidecar is, and how long a program told to stop goes on.
const SOCKET_VARIABLE: &str = "MILLSTREAM_SOCKET";
const STOP_VARIABLE: &str = "MILLSTREAM_STOP_TIMEOUT";
const DEFAULT_SOCKET: &str = "/run/millstream/worker.sock";
const MAX_PARALLEL: usize = 256;

impl App {
    /// An app without handlers.
    pub fn new() -> App {
        App::default()
    }

    /// Makes a function the handler of an input of the manifest, one per input. The codecs of keys and values are named in
    /// the type of its record:
    ///
    /// ```
    /// use millstream::{App, Json, Record, Text};
    /// let app = App::new().on("orders", |_ctx, order: Record<Text, Json<Vec<i64>>>| {
    ///     println!("{:?} ordered {:?}", order.key, order.value);
    ///     Ok(())
    /// });
    /// ```
    ///
    /// All records of one key of an input reach the handler in order; records of different tasks reach it at the same time
    /// from several threads. An error ends the batch at its record: what it wrote and emitted is dropped, the records before
    /// it count, and the sidecar retries, skips, dead-letters or stops as `errors` in the manifest says. A panic is an error
    /// like any other, unless the program is compiled with `panic = "abort"`.
    ///
    /// # Panics
    /// If the input has a handler already.
    #[must_use]
    pub fn on<K, V, F>(self, input: &str, handle: F) -> App
    where
        K: Decode + Default,
        V: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, Record<'b, K, V>) -> HandlerResult + Send + Sync + 'static,
    {
        self.on_with(input, K::default(), V::default(), handle)
    }

    /// [`App::on`] with codecs that have a state, such as the client of a schema registry.
    #[must_use]
    pub fn on_with<K, V, F>(mut self, input: &str, key: K, value: V, handle: F) -> App
    where
        K: Decode,
        V: Decode,
        F: for<'b> Fn(&mut Context<'b>, Record<'b, K, V>) -> HandlerResult + Send + Sync + 'static,
    {
        assert!(self.handler(input).is_none(), "millstream: input \"{input}\" already has a handler");
        let run = move |ctx: &mut Context<'_>| {
            // Not `?`: this place is of no interest to anybody.
            let record = Record::read(ctx, &key, &value).map_err(HandlerError::placeless)?;
            handle(ctx, record)
        };
        self.handlers.push((input.to_owned(), Arc::new(run)));
        self
    }

    /// Makes a function the handler of the timers of a name: see [`Timer`](crate::Timer). The codec of keys is named in the type
    /// of what it gets: `|ctx, due: Due<Text>|`.
    ///
    /// # Panics
    /// If the name has a handler already.
    #[must_use]
    pub fn on_timer<K, F>(mut self, name: &str, handle: F) -> App
    where
        K: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, Due<'b, K>) -> HandlerResult + Send + Sync + 'static,
    {
        assert!(find(&self.timers, name).is_none(), "millstream: timer \"{name}\" already has a handler");
        let key = K::default();
        let run = move |ctx: &mut Context<'_>| {
            let due = Due::read(ctx, &key).map_err(HandlerError::placeless)?;
            handle(ctx, due)
        };
        self.timers.push((name.to_owned(), Arc::new(run)));
        self
    }

    /// Makes a function the handler of the windows of a store with `emit: Final`: it is called once per window, at its end and
    /// grace, with its last value. The codecs of key and value are named in the type of what it gets:
    /// `|ctx, closed: Closed<Text, Int64>|`.
    ///
    /// # Panics
    /// If the store has a handler already.
    #[must_use]
    pub fn on_close<K, V, F>(mut self, store: &str, handle: F) -> App
    where
        K: Decode + Default,
        V: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, Closed<'b, K, V>) -> HandlerResult + Send + Sync + 'static,
    {
        assert!(find(&self.closings, store).is_none(), "millstream: store \"{store}\" already has a handler for closing windows");
        let (key, value) = (K::default(), V::default());
        let run = move |ctx: &mut Context<'_>| {
            let closed = Closed::read(ctx, &key, &value).map_err(HandlerError::placeless)?;
            handle(ctx, closed)
        };
        self.closings.push((store.to_owned(), Arc::new(run)));
        self
    }

    /// Makes a function the handler of the sessions of a store with `emit: Final`: it is called once per session, when event time
    /// has passed its end, gap and grace, with its last value. The codecs of key and value are named in the type of what it gets:
    /// `|ctx, closed: ClosedSession<Text, Int64>|`.
    ///
    /// # Panics
    /// If the store has a handler already.
    #[must_use]
    pub fn on_close_session<K, V, F>(mut self, store: &str, handle: F) -> App
    where
        K: Decode + Default,
        V: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, ClosedSession<'b, K, V>) -> HandlerResult + Send + Sync + 'static,
    {
        let taken = find(&self.session_closings, store).is_some();
        assert!(!taken, "millstream: store \"{store}\" already has a handler for closing sessions");
        let (key, value) = (K::default(), V::default());
        let run = move |ctx: &mut Context<'_>| {
            let closed = ClosedSession::read(ctx, &key, &value).map_err(HandlerError::placeless)?;
            handle(ctx, closed)
        };
        self.session_closings.push((store.to_owned(), Arc::new(run)));
        self
    }

    /// Makes a function the handler of the rows of a visit: it is called for every row of the visit's store in the task, in the
    /// order of the key bytes, once in committed effect; records are handled in between. See [`Visit`](crate::Visit). The codecs of
    /// the key and of what the visit was started with are named in the type of what it gets: `|ctx, row: Visited<Text, Int64>|`.
    ///
    /// # Panics
    /// If the visit has a handler already.
    #[must_use]
    pub fn on_visit<K, D, F>(mut self, name: &str, handle: F) -> App
    where
        K: Decode + Default,
        D: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, Visited<'b, K, D>) -> HandlerResult + Send + Sync + 'static,
    {
        assert!(find(&self.visits, name).is_none(), "millstream: visit \"{name}\" already has a handler");
        let (key, data) = (K::default(), D::default());
        let run = move |ctx: &mut Context<'_>| {
            let row = Visited::read(ctx, &key, &data).map_err(HandlerError::placeless)?;
            handle(ctx, row)
        };
        self.visits.push((name.to_owned(), Arc::new(run)));
        self
    }

    /// Makes a function the one that is called behind the last row of a visit: `|ctx, end: VisitEnd<Int64>|`.
    ///
    /// # Panics
    /// If there is one already.
    #[must_use]
    pub fn on_visit_end<D, F>(mut self, name: &str, handle: F) -> App
    where
        D: Decode + Default,
        F: for<'b> Fn(&mut Context<'b>, VisitEnd<'b, D>) -> HandlerResult + Send + Sync + 'static,
    {
        assert!(find(&self.visit_ends, name).is_none(), "millstream: the end of visit \"{name}\" already has a handler");
        let data = D::default();
        let run = move |ctx: &mut Context<'_>| {
            let end = VisitEnd::read(ctx, &data).map_err(HandlerError::placeless)?;
            handle(ctx, end)
        };
        self.visit_ends.push((name.to_owned(), Arc::new(run)));
        self
    }

    /// Says what becomes of the values of sessions that a record connects, where its handler does not write the session.
    ///
    /// ```
    /// use millstream::{App, Int64, SessionStore, Text};
    /// static VISITS: SessionStore<Text, Int64> = SessionStore::new("visits", Text, Int64);
    /// let app = App::new().merge_sessions(&VISITS, |values| values.into_iter().sum::<i64>());
    /// ```
    #[must_use]
    pub fn merge_sessions<K, V, T, F>(mut self, store: &'static SessionStore<K, V>, merge: F) -> App
    where
        K: Encode + Decode,
        V: Encode + Decode,
        T: Borrow<V::Input>,
        F: for<'a> Fn(Vec<V::Output<'a>>) -> T + Send + Sync + 'static,
    {
        let run = move |values: &[&[u8]], out: &mut Vec<u8>| {
            let codec = &store.table.value;
            let decoded: Result<Vec<_>, BoxError> = values.iter().map(|value| codec.decode(value)).collect();
            codec.encode(merge(decoded?).borrow(), out)
        };
        self.merges.push((store.name().to_owned(), Arc::new(run)));
        self
    }

    /// Has a function called when a transaction begins for a task. What it writes and emits becomes part of it. Transactions then
    /// hold whole batches, as with [`App::on_finalize`].
    #[must_use]
    pub fn on_begin<F>(mut self, hook: F) -> App
    where
        F: for<'b> Fn(&mut Context<'b>) -> HandlerResult + Send + Sync + 'static,
    {
        self.hooks.begin = Some(Arc::new(hook));
        self
    }

    /// Has a function called for a task before a transaction with its records is closed: the place to send what was gathered
    /// over many of them ([`Gathered`](crate::Gathered)). What it writes and emits becomes part of the transaction; there is no
    /// record, so state has no default key. An error aborts the transaction; its records come again.
    #[must_use]
    pub fn on_finalize<F>(mut self, hook: F) -> App
    where
        F: for<'b> Fn(&mut Context<'b>) -> HandlerResult + Send + Sync + 'static,
    {
        self.hooks.finalize = Some(Arc::new(hook));
        self
    }

    /// Has a function called, with the number of the task, after a transaction with effects of the task was committed: at most
    /// once for each, and never if the sidecar dies in between. For side effects that may be left out.
    #[must_use]
    pub fn on_committed(mut self, hook: impl Fn(i32) + Send + Sync + 'static) -> App {
        self.hooks.committed = Some(Arc::new(hook));
        self
    }

    /// The names of the inputs that have handlers.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.handlers.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn handler(&self, input: &str) -> Option<Handler> {
        find(&self.handlers, input)
    }

    pub(crate) fn timers(&self) -> &[(String, Handler)] {
        &self.timers
    }

    /// Of what closes of a store.
    pub(crate) fn closing(&self, store: &Port) -> Option<Handler> {
        find(if store.kind == "Session" { &self.session_closings } else { &self.closings }, &store.name)
    }

    /// Those with a handler of rows, or of their end.
    pub(crate) fn visits(&self) -> impl Iterator<Item = &str> {
        self.visits.iter().chain(&self.visit_ends).map(|(name, _)| name.as_str())
    }

    pub(crate) fn visit(&self, name: &str) -> Option<Handler> {
        find(&self.visits, name)
    }

    pub(crate) fn visit_end(&self, name: &str) -> Option<Handler> {
        find(&self.visit_ends, name)
    }

    /// The capabilities of HELLO.
    pub(crate) fn capabilities(&self) -> Vec<&'static str> {
        let mut names = self.hooks.capabilities();
        if !self.closings.is_empty() || !self.session_closings.is_empty() {
            names.push(SESSION_CLOSINGS);
        }
        if !self.visits.is_empty() {
            names.push(VISITS);
        }
        names
    }

    pub(crate) fn merge(&self, store: &str) -> Option<Merge> {
        find(&self.merges, store)
    }

    /// Serves the sidecar until the program is told to stop ([`Options::stop`]) and the sidecar has said goodbye. Told to
    /// stop, it goes on serving until then, at most [`Options::stop_timeout`], so that nothing has to be done again
    /// elsewhere. A connection that is lost is made again.
    ///
    /// # Errors
    /// [`RunError::Config`] where program and manifest do not fit: starting again does not help.
    /// [`RunError::NoSidecar`] where there is none, or it stays away for too long.
    pub fn run(&self, options: Options) -> Result<(), RunError> {
        let settings = Settings::new(options)?;
        self.check()?;
        Worker::new(self.clone(), settings).run()
    }

    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.handlers.is_empty() {
            return Err(RunError::Config("the program has no handler; add .on(\"input-name\", ...)".to_owned()));
        }
        panics::install_hook();
        Ok(())
    }

    /// [`App::run`] for `fn main()`: SIGTERM and SIGINT tell the program to stop, a second Ctrl-C ends it at once. An error is
    /// printed and ends it with exit code 2 where program and manifest do not fit, else 1.
    pub fn main(self) {
        self.main_with(Options::default());
    }

    /// [`App::main`] with options.
    pub fn main_with(self, options: Options) {
        let outcome = match signals::stop_on_signals(&options.stop) {
            Ok(()) => self.run(options),
            Err(error) => Err(RunError::Config(format!("signals cannot be handled: {error}"))),
        };
        if let Err(error) = outcome {
            eprintln!("millstream: {error}");
            std::process::exit(if matches!(error, RunError::Config(_)) { 2 } else { 1 });
        }
    }
}

fn find<T: Clone>(named: &[(String, T)], wanted: &str) -> Option<T> {
    named.iter().find(|(name, _)| name == wanted).map(|(_, found)| found.clone())
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("inputs", &self.inputs().collect::<Vec<_>>()).finish()
    }
}

/// Options of [`App::run`]; the default is what most programs want.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The sidecar's socket; default `$MILLSTREAM_SOCKET`, else `/run/millstream/worker.sock`.
    pub socket: Option<PathBuf>,
    /// How many tasks the program takes at the same time, each on a thread, 1 to 256; default: as many as there are
    /// processors, at least 2.
    pub parallel: Option<usize>,
    /// Bounds the wait for the first connection; default 60 s when a socket was named, else none.
    pub start_timeout: Option<Duration>,
    /// Bounds the wait for a sidecar that went away; default 5 min.
    pub lost_timeout: Option<Duration>,
    /// How long a program told to stop serves until the sidecar's goodbye; default `$MILLSTREAM_STOP_TIMEOUT` seconds, else
    /// 30 s.
    pub stop_timeout: Option<Duration>,
    /// Tells the program to stop; keep a clone of it.
    pub stop: Stop,
}

/// Options with every default filled in.
pub(crate) struct Settings {
    pub(crate) socket: PathBuf,
    pub(crate) parallel: usize,
    pub(crate) start_timeout: Duration,
    pub(crate) lost_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) stop: Stop,
}

impl Settings {
    fn new(options: Options) -> Result<Settings, RunError> {
        let named =
            options.socket.or_else(|| std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from));
        let parallel = options
            .parallel
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from).clamp(2, MAX_PARALLEL));
        if !(1..=MAX_PARALLEL).contains(&parallel) {
            return Err(RunError::Config(format!("Options::parallel is {parallel}; it is 1 to {MAX_PARALLEL}")));
        }
        let first = if named.is_some() { Duration::from_secs(60) } else { Duration::ZERO };
        let told = std::env::var(STOP_VARIABLE).ok().and_then(|value| value.parse().ok());
        let stop = told.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).filter(|time| !time.is_zero());
        Ok(Settings {
            socket: named.unwrap_or_else(|| DEFAULT_SOCKET.into()),
            parallel,
            start_timeout: options.start_timeout.unwrap_or(first),
            lost_timeout: options.lost_timeout.unwrap_or(Duration::from_secs(300)),
            stop_timeout: options.stop_timeout.or(stop).unwrap_or(Duration::from_secs(30)),
            stop: options.stop,
        })
    }
}
