//! What WELCOME declares joined with the program's handlers.

use crate::app::{App, Handler, Merge};
use crate::error::{listed, Error, RunError};
use crate::hooks::Hooks;
use crate::wire::batch::{Rows, Shape};
use crate::wire::welcome::{Port, VisitPort, Welcome};
use crate::wire::write::Failure;
use crate::wire::{HELLO_FRAME_CAP, MAX_FRAME_CAP, MAX_VERSION, MIN_VERSION};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Read-only, shared by all batches of a session.
pub(crate) struct Schema {
    /// Unique in this process, never 0.
    pub(crate) number: u32,
    pub(crate) processor: String,
    pub(crate) session: u64,
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) outputs: Vec<Port>,
    /// What can be read, by id: stores, joins, lookups.
    pub(crate) tables: Vec<Port>,
    pub(crate) shape: Shape,
    /// By the id of a table.
    closings: Vec<Option<Handler>>,
    pub(crate) merges: Vec<Option<Merge>>,
    timers: Vec<(String, Handler)>,
    pub(crate) visits: Vec<VisitOf>,
    pub(crate) hooks: Hooks,
    /// How many of them are stores, and stores or joins.
    stores: usize,
    joins_end: usize,
    pub(crate) frame_cap: usize,
    pub(crate) deadline_ms: u64,
    pub(crate) min_timestamp: i64,
    pub(crate) max_timestamp: i64,
}

pub(crate) struct InputPort {
    pub(crate) name: String,
    pub(crate) topic: String,
    pub(crate) handler: Handler,
}

/// A visit with what the program does.
pub(crate) struct VisitOf {
    pub(crate) name: String,
    /// The id of the store it walks.
    pub(crate) store: usize,
    pub(crate) rows: Handler,
    /// `None`: the program does not want to know.
    pub(crate) end: Option<Handler>,
}

impl Schema {
    /// The error is a [`RunError::Config`]: program and manifest do not fit.
    pub(crate) fn new(welcome: Welcome, app: &App) -> Result<Schema, RunError> {
        check_supported(&welcome)?;
        let declared = names(&welcome.inputs);
        if let Some(name) = app.inputs().find(|name| !declared.contains(name)) {
            return Err(RunError::Config(format!(
                "the program handles input \"{name}\", which the manifest does not declare; inputs: {}",
                listed(&declared)
            )));
        }
        check_time(&welcome, app)?;
        let visits = visits(&welcome, app)?;
        let inputs: Result<Vec<InputPort>, RunError> = welcome.inputs.iter().map(|port| input(port, app)).collect();
        let frame_cap = usize::try_from(welcome.frame_cap).unwrap_or(0).clamp(HELLO_FRAME_CAP, MAX_FRAME_CAP);
        let stores = welcome.stores.len();
        let joins_end = stores + welcome.joins.len();
        let tables = limited([welcome.stores, welcome.joins, welcome.lookups].concat(), frame_cap);
        let store_names = || tables.iter().enumerate().map(|(id, port)| (id < stores).then_some(port.name.as_str()));
        Ok(Schema {
            shape: Shape {
                inputs: welcome.inputs.len(),
                tables: tables.iter().map(rows).collect(),
                timers: welcome.timers,
                visits: visits.len(),
            },
            closings: tables.iter().enumerate().map(|(id, port)| app.closing(port).filter(|_| id < stores)).collect(),
            merges: store_names().map(|name| app.merge(name?)).collect(),
            timers: app.timers().to_vec(),
            visits,
            hooks: app.hooks.clone(),
            number: new_number(),
            inputs: inputs?,
            outputs: limited(welcome.outputs, frame_cap),
            stores,
            joins_end,
            tables,
            processor: welcome.processor,
            session: welcome.session,
            frame_cap,
            deadline_ms: welcome.deadline_ms.max(1).unsigned_abs(),
            min_timestamp: welcome.min_timestamp,
            max_timestamp: welcome.max_timestamp,
        })
    }
}

fn check_supported(welcome: &Welcome) -> Result<(), RunError> {
    if !(MIN_VERSION..=MAX_VERSION).contains(&welcome.version) {
        return Err(RunError::Config(format!(
            "the sidecar chose worker protocol {}, this SDK speaks {MIN_VERSION} to {MAX_VERSION}; use a matching version of the crate",
            welcome.version
        )));
    }
    match welcome.stores.iter().find(|store| !["KeyValue", "Window", "Session"].contains(&store.kind.as_str())) {
        Some(store) => {
            Err(RunError::Config(format!("store \"{}\" has type {}: not supported yet by the Rust SDK", store.name, store.kind)))
        }
        None => Ok(()),
    }
}

static LIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<u32>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    live().insert(number);
    number
}

/// Whether a schema of that number is in use.
pub(crate) fn is_alive(number: u32) -> bool {
    live().contains(&number)
}

impl Drop for Schema {
    fn drop(&mut self) {
        live().remove(&self.number);
    }
}

/// Handlers of timers, and of windows and sessions that close, are for what the manifest declares.
fn check_time(welcome: &Welcome, app: &App) -> Result<(), RunError> {
    if let Some(hook) = app.hooks.capabilities().iter().find(|hook| !welcome.capabilities.iter().any(|known| known == *hook)) {
        return Err(RunError::Config(format!(
            "the program has a hook for \"{hook}\", which this sidecar does not call; use a later one"
        )));
    }
    if let Some((name, _)) = app.timers().first().filter(|_| !welcome.timers) {
        return Err(RunError::Config(format!(
            "the program handles timer \"{name}\", and the manifest has no timers; add \"timers: {{}}\" under spec"
        )));
    }
    let closing: Vec<&Port> = welcome.stores.iter().filter(|store| store.closes).collect();
    if let Some(Port { name, kind, .. }) = closing.iter().find(|store| app.closing(store).is_none()) {
        let (what, add) = if kind == "Session" { ("sessions", "on_close_session") } else { ("windows", "on_close") };
        return Err(RunError::Config(format!(
            "store \"{name}\" has emit: Final in the manifest, and the program has no handler for its {what}; add .{add}(\"{name}\", ...)"
        )));
    }
    for (handled, kind, what) in [(&app.closings, "Window", "windows"), (&app.session_closings, "Session", "sessions")] {
        let declared: Vec<&str> = closing.iter().filter(|store| store.kind == kind).map(|store| store.name.as_str()).collect();
        if let Some((name, _)) = handled.iter().find(|(name, _)| !declared.contains(&name.as_str())) {
            return Err(RunError::Config(format!(
                "the program handles closing {what} of \"{name}\"; stores of {what} with emit: Final in the manifest: {}",
                listed(&declared)
            )));
        }
    }
    Ok(())
}

fn visits(welcome: &Welcome, app: &App) -> Result<Vec<VisitOf>, RunError> {
    let declared: Vec<&str> = welcome.visits.iter().map(|visit| visit.name.as_str()).collect();
    if let Some(name) = app.visits().find(|name| !declared.contains(name)) {
        return Err(RunError::Config(format!(
            "the program handles visit \"{name}\", which the manifest does not declare; add {{name: {name}, store: ...}} to spec.visits. \
             Visits: {}",
            listed(&declared)
        )));
    }
    let mut found = Vec::new();
    for VisitPort { name, store } in welcome.visits.iter().cloned() {
        if store >= welcome.stores.len() {
            return Err(RunError::Config(format!(
                "the sidecar's visit \"{name}\" is of store {store}, there are {}; use a later version of the crate",
                welcome.stores.len()
            )));
        }
        let Some(rows) = app.visit(&name) else {
            return Err(RunError::Config(format!(
                "the manifest declares visit \"{name}\", for which the program has no handler; add .on_visit(\"{name}\", ...)"
            )));
        };
        let end = app.visit_end(&name);
        found.push(VisitOf { name, store, rows, end });
    }
    Ok(found)
}

fn rows(port: &Port) -> Rows {
    match port.kind.as_str() {
        "Window" => Rows::Windows { closes: port.closes },
        "Session" => Rows::Sessions { closes: port.closes },
        _ => Rows::Keys,
    }
}

impl Schema {
    /// The handler of what closes of a table.
    pub(crate) fn closing(&self, table: usize) -> Result<&Handler, Failure> {
        let name = &self.tables[table].name;
        self.closings[table].as_ref().ok_or_else(|| no_handler(format!("no handler for what closes of \"{name}\"")))
    }

    /// The handler of a timer.
    pub(crate) fn timer(&self, name: &[u8]) -> Result<&Handler, Failure> {
        let found = self.timers.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, handler)| handler).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let known: Vec<&str> = self.timers.iter().map(|(name, _)| name.as_str()).collect();
            no_handler(format!(
                "no handler for timer \"{name}\"; add .on_timer(\"{name}\", ...). Handlers exist for: {}",
                listed(&known)
            ))
        })
    }

    pub(crate) fn has_timers(&self) -> bool {
        self.shape.timers
    }

    /// What tells the windows and sessions of a table apart, for a key of the batch.
    pub(crate) fn row_id(&self, table: usize, key: u32, start: i64, end: i64) -> (u32, i64, i64) {
        (key, start, if self.shape.tables[table].are_sessions() { end } else { 0 })
    }

    /// What follows the record's key in a row key.
    pub(crate) fn put_row_suffix(&self, table: usize, start: i64, end: i64, out: &mut Vec<u8>) {
        if self.shape.tables[table].are_sessions() {
            out.extend_from_slice(&session_suffix(start, end));
        } else {
            out.extend_from_slice(&start.to_be_bytes());
        }
    }
}

/// Start and end of a session, with the sign flipped: so rows sort by time.
pub(crate) fn session_suffix(start: i64, end: i64) -> [u8; 16] {
    let mut suffix = [0; 16];
    suffix[..8].copy_from_slice(&(start ^ i64::MIN).to_be_bytes());
    suffix[8..].copy_from_slice(&(end ^ i64::MIN).to_be_bytes());
    suffix
}

fn no_handler(message: String) -> Failure {
    Failure { class: "Handler", error: "Error".to_owned(), message, retriable: false }
}

fn input(port: &Port, app: &App) -> Result<InputPort, RunError> {
    match app.handler(&port.name) {
        Some(handler) => Ok(InputPort { name: port.name.clone(), topic: port.topic.clone(), handler }),
        None => Err(RunError::Config(format!(
            "the manifest declares input \"{0}\", for which the program has no handler; add .on(\"{0}\", ...). Handlers exist for: {1}",
            port.name,
            listed(&app.inputs().collect::<Vec<_>>())
        ))),
    }
}

/// Without a limit of their own, that of the frame.
fn limited(mut ports: Vec<Port>, frame_cap: usize) -> Vec<Port> {
    for port in &mut ports {
        if port.max_bytes <= 0 {
            port.max_bytes = frame_cap as i64;
        }
    }
    ports
}

fn names(ports: &[Port]) -> Vec<&str> {
    ports.iter().map(|port| port.name.as_str()).collect()
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Store,
    Window,
    Session,
    Join,
    Lookup,
    Output,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Store | Kind::Window | Kind::Session => "store",
            Kind::Join => "join",
            Kind::Lookup => "lookup",
            Kind::Output => "output",
        }
    }

    /// The type that a store has to have.
    fn store_type(self) -> Option<&'static str> {
        match self {
            Kind::Store => Some("KeyValue"),
            Kind::Window => Some("Window"),
            Kind::Session => Some("Session"),
            _ => None,
        }
    }
}

/// A name of the manifest, with the id that it has in the schema it was used with last.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    /// Number of the schema in the upper half, id in the lower one.
    bound: AtomicU64,
}

impl Handle {
    pub(crate) const fn new(kind: Kind, name: &'static str) -> Handle {
        Handle { kind, name, bound: AtomicU64::new(0) }
    }

    pub(crate) fn id(&self, schema: &Schema) -> Result<usize, Error> {
        let bound = self.bound.load(Ordering::Relaxed);
        if bound >> 32 == u64::from(schema.number) {
            return Ok((bound & u64::from(u32::MAX)) as usize);
        }
        let (ports, first) = match self.kind {
            Kind::Output => (&schema.outputs[..], 0),
            Kind::Store | Kind::Window | Kind::Session => (&schema.tables[..schema.stores], 0),
            Kind::Join => (&schema.tables[schema.stores..schema.joins_end], schema.stores),
            Kind::Lookup => (&schema.tables[schema.joins_end..], schema.joins_end),
        };
        let fits = |port: &Port| self.kind.store_type().map_or(true, |wanted| wanted == port.kind);
        match ports.iter().position(|port| port.name == self.name && fits(port)) {
            Some(index) => {
                let id = first + index;
                self.bound.store(u64::from(schema.number) << 32 | id as u64, Ordering::Relaxed);
                Ok(id)
            }
            None => {
                let shown = |port: &Port| if fits(port) { port.name.clone() } else { format!("{} ({})", port.name, port.kind) };
                let declared = ports.iter().map(shown).collect();
                Err(Error::Undeclared { what: self.kind.word(), name: self.name, declared })
            }
        }
    }
}
