//! What WELCOME declares joined with the program's handlers.

use crate::app::{App, Handler};
use crate::error::{listed, Error, RunError};
use crate::wire::welcome::{Port, Welcome};
use crate::wire::{HELLO_FRAME_CAP, MAX_FRAME_CAP, MAX_VERSION, MIN_VERSION};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Read-only, shared by all batches of a session.
pub(crate) struct Schema {
    /// Unique in this process, never 0.
    number: u32,
    pub(crate) processor: String,
    pub(crate) session: u64,
    pub(crate) inputs: Vec<InputPort>,
    pub(crate) outputs: Vec<Port>,
    /// What can be read, by id: stores, joins, lookups.
    pub(crate) tables: Vec<Port>,
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
        let inputs: Result<Vec<InputPort>, RunError> = welcome.inputs.iter().map(|port| input(port, app)).collect();
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let frame_cap = usize::try_from(welcome.frame_cap).unwrap_or(0).clamp(HELLO_FRAME_CAP, MAX_FRAME_CAP);
        Ok(Schema {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            inputs: inputs?,
            outputs: limited(welcome.outputs, frame_cap),
            stores: welcome.stores.len(),
            joins_end: welcome.stores.len() + welcome.joins.len(),
            tables: limited([welcome.stores, welcome.joins, welcome.lookups].concat(), frame_cap),
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
    match welcome.stores.iter().find(|store| store.kind != "KeyValue") {
        Some(store) => {
            Err(RunError::Config(format!("store \"{}\" has type {}: not supported yet by the Rust SDK", store.name, store.kind)))
        }
        None => Ok(()),
    }
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
    Join,
    Lookup,
    Output,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Store => "store",
            Kind::Join => "join",
            Kind::Lookup => "lookup",
            Kind::Output => "output",
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
            Kind::Store => (&schema.tables[..schema.stores], 0),
            Kind::Join => (&schema.tables[schema.stores..schema.joins_end], schema.stores),
            Kind::Lookup => (&schema.tables[schema.joins_end..], schema.joins_end),
        };
        match ports.iter().position(|port| port.name == self.name) {
            Some(index) => {
                let id = first + index;
                self.bound.store(u64::from(schema.number) << 32 | id as u64, Ordering::Relaxed);
                Ok(id)
            }
            None => {
                let declared = ports.iter().map(|port| port.name.clone()).collect();
                Err(Error::Undeclared { what: self.kind.word(), name: self.name, declared })
            }
        }
    }
}
