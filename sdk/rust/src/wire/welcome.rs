//! WELCOME.

use super::reader::{Read, Reader};
use super::{bad_frame, DEFAULT_FRAME_CAP};

/// An input, output, store, join or lookup that the manifest declares.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) topic: String,
    /// Of a store.
    pub(crate) kind: String,
    /// Of an output's records or a store's values, in bytes; 0 where nothing was said.
    pub(crate) max_bytes: i64,
    /// Of a store of windows or sessions: each is told once, when it closes.
    pub(crate) closes: bool,
}

impl Port {
    pub(crate) fn named(name: &str) -> Port {
        Port { name: name.to_owned(), topic: name.to_owned(), kind: "KeyValue".to_owned(), max_bytes: 0, closes: false }
    }
}

/// A visit, with the id of the store it walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VisitPort {
    pub(crate) name: String,
    pub(crate) store: usize,
}

#[derive(Debug)]
pub(crate) struct Welcome {
    pub(crate) version: i64,
    pub(crate) session: u64,
    pub(crate) processor: String,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) stores: Vec<Port>,
    pub(crate) joins: Vec<Port>,
    pub(crate) lookups: Vec<Port>,
    /// Whether the program may set timers.
    pub(crate) timers: bool,
    pub(crate) visits: Vec<VisitPort>,
    /// Those of HELLO that the sidecar will use.
    pub(crate) capabilities: Vec<String>,
    pub(crate) frame_cap: i64,
    pub(crate) deadline_ms: i64,
    pub(crate) min_timestamp: i64,
    pub(crate) max_timestamp: i64,
}

impl Default for Welcome {
    fn default() -> Self {
        Welcome {
            version: -1,
            session: 0,
            processor: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            stores: Vec::new(),
            joins: Vec::new(),
            lookups: Vec::new(),
            timers: false,
            visits: Vec::new(),
            capabilities: Vec::new(),
            frame_cap: DEFAULT_FRAME_CAP as i64,
            deadline_ms: 60_000,
            min_timestamp: 0,
            max_timestamp: i64::MAX,
        }
    }
}

impl Welcome {
    /// Reads what follows the kind; `fields` are those after it.
    pub(crate) fn read(reader: &mut Reader<'_>, fields: usize) -> Read<Welcome> {
        let Some(more) = fields.checked_sub(1) else {
            return Err(bad_frame("WELCOME has no fields"));
        };
        let mut welcome = Welcome::default();
        let mut has_session = false;
        for _ in 0..reader.map("WELCOME")? {
            let field = reader.text("WELCOME")?;
            match field.as_str() {
                "protocol" => welcome.version = reader.i64(&field)?,
                "session" => {
                    welcome.session = reader.u64(&field)?;
                    has_session = true;
                }
                "processor" => welcome.processor = reader.text(&field)?,
                "inputs" => welcome.inputs = read_ports(reader, &field)?,
                "outputs" => welcome.outputs = read_ports(reader, &field)?,
                "stores" => welcome.stores = read_ports(reader, &field)?,
                "joins" => welcome.joins = read_ports(reader, &field)?,
                "lookups" => welcome.lookups = read_ports(reader, &field)?,
                "timers" => welcome.timers = !reader.take_nil() && reader.bool(&field)?,
                "visits" if reader.take_nil() => {}
                "visits" => {
                    let count = reader.list(&field)?;
                    welcome.visits = (0..count).map(|_| read_visit(reader)).collect::<Read<_>>()?;
                }
                "capabilities" => {
                    let count = reader.list(&field)?;
                    welcome.capabilities = (0..count).map(|_| reader.text(&field)).collect::<Read<_>>()?;
                }
                "limits" => welcome.read_limits(reader)?,
                _ => reader.skip(1)?,
            }
        }
        reader.skip(more)?;
        reader.end()?;
        if welcome.version < 0 || !has_session {
            return Err(bad_frame("WELCOME has no protocol version or no session"));
        }
        Ok(welcome)
    }

    fn read_limits(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        for _ in 0..reader.map("limits")? {
            let limit = reader.text("limits")?;
            match limit.as_str() {
                "frame" => self.frame_cap = reader.i64(&limit)?,
                "deadline_ms" => self.deadline_ms = reader.i64(&limit)?,
                "min_timestamp" => self.min_timestamp = reader.i64(&limit)?,
                "max_timestamp" => self.max_timestamp = reader.i64(&limit)?,
                _ => reader.skip(1)?,
            }
        }
        Ok(())
    }
}

fn read_visit(reader: &mut Reader<'_>) -> Read<VisitPort> {
    let mut visit = VisitPort { name: String::new(), store: 0 };
    for _ in 0..reader.map("visits")? {
        match reader.text("visits")?.as_str() {
            "name" => visit.name = reader.text("visit name")?,
            "store" => visit.store = reader.u32("visit store")? as usize,
            _ => reader.skip(1)?,
        }
    }
    Ok(visit)
}

fn read_ports(reader: &mut Reader<'_>, what: &str) -> Read<Vec<Port>> {
    let count = reader.list(what)?;
    (0..count).map(|_| read_port(reader, what)).collect()
}

fn read_port(reader: &mut Reader<'_>, what: &str) -> Read<Port> {
    let mut port = Port::named("");
    for _ in 0..reader.map(what)? {
        let field = reader.text(what)?;
        match field.as_str() {
            "name" => port.name = reader.text(what)?,
            "topic" => port.topic = reader.text(what)?,
            "type" => port.kind = reader.text(what)?,
            "max_bytes" | "max_value_bytes" => port.max_bytes = reader.i64(what)?,
            "window" | "session" if !reader.take_nil() => port.closes = read_closes(reader)?,
            "window" | "session" => {}
            _ => reader.skip(1)?,
        }
    }
    if port.name.is_empty() {
        return Err(bad_frame(format!("WELCOME: one of the {what} has no name")));
    }
    Ok(port)
}

/// Of the settings of windows or sessions, which are the sidecar's business, the one that concerns a program.
fn read_closes(reader: &mut Reader<'_>) -> Read<bool> {
    let mut closes = false;
    for _ in 0..reader.map("window")? {
        match reader.text("window")?.as_str() {
            "final" => closes = reader.bool("final")?,
            _ => reader.skip(1)?,
        }
    }
    Ok(closes)
}
