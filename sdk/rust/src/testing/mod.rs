//! One task of a processor in memory: feed records to an [`App`], look at state and outputs. No sidecar needed.
//!
//! ```
//! use millstream::testing::{Setup, TestKit, TestRecord};
//! use millstream::{App, Int64, Raw, Record, Store, Text};
//!
//! static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
//! let app = App::new().on("words", |ctx, _: Record<Text, Raw>| {
//!     let n = COUNTS.get(ctx)?.unwrap_or(0) + 1;
//!     Ok(COUNTS.put(ctx, &n)?)
//! });
//!
//! let mut kit = TestKit::new(app, Setup { stores: &["counts"], ..Setup::default() }).unwrap();
//! kit.feed("words", [TestRecord::key("tea"), TestRecord::key("milk"), TestRecord::key("tea")]).unwrap();
//! assert_eq!(kit.state(&COUNTS, "tea"), Some(2));
//! ```
//!
//! Records go through the same code as in production, as frames of the worker protocol: codecs, limits, the prefix rule,
//! reads of own writes. What becomes due is handled before a call returns, and so are all rows of a visit that is started. What it does not imitate: retries, partitions, and the log itself.

mod time;
mod visits;

use crate::app::{App, Handler};
use crate::batch::{run_batch, Buffers, Link, Page, Task, Values};
use crate::codec::{Decode, Encode};
use crate::error::{listed, Error, RunError};
use crate::join::{Join, Lookup};
use crate::output::{put_headers, Output};
use crate::record::{Header, Headers};
use crate::schema::Schema;
use crate::store::Store;
use crate::table::Table;
use crate::window::{SessionStore, Window, WindowStore};
use crate::wire::batch::Batch;
use crate::wire::reader::{read_head, Read, Reader};
use crate::wire::welcome::{Port, VisitPort, Welcome};
use crate::wire::write::{self, Scan};
use crate::wire::{kind, Span, LENGTH_BYTES, MAX_VERSION};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

const START: i64 = 1_700_000_000_000;
const MAX_BYTES: i64 = 1 << 20;
/// Rows per page of a scan: few, so that tests meet paging.
const PAGE: usize = 3;
/// What we wrote ourselves, we can read.
const OWN: &str = "a frame of this SDK";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
/// Writes of a batch, by key; `None` deletes.
type Scratch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

use time::{rows_of, Spec, Time};

pub use visits::TestVisit;

pub use time::{PendingTimer, TestSessions, TestWindows};

/// What a manifest would declare; inputs are those with handlers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// Names of stores.
    pub stores: &'a [&'a str],
    /// Stores of windows.
    pub windows: &'a [TestWindows<'a>],
    /// Stores of sessions.
    pub sessions: &'a [TestSessions<'a>],
    /// Whether timers may be set.
    pub timers: bool,
    /// Visits, each of one of `stores`.
    pub visits: &'a [TestVisit<'a>],
    /// Names of joins; [`TestKit::set_join`] gives them rows.
    pub joins: &'a [&'a str],
    /// Names of lookups; [`TestKit::set_lookup`] gives them rows.
    pub lookups: &'a [&'a str],
    /// Names of outputs. Records that are emitted to `loop` are to be fed to the input of that name by the test.
    pub outputs: &'a [&'a str],
    /// Makes every read of state a question to the sidecar, as for values too large to travel along.
    pub no_prefetch: bool,
}

/// A record to feed: bytes as they would be in the topic, so that a test can feed what is not valid too.
#[derive(Clone, Debug, Default)]
pub struct TestRecord {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    timestamp: Option<i64>,
}

impl TestRecord {
    /// A record without key; its value is null until one is given.
    pub fn new() -> Self {
        Self::default()
    }

    /// A record with a key.
    pub fn key(key: impl AsRef<[u8]>) -> Self {
        TestRecord { key: Some(key.as_ref().to_vec()), ..Self::default() }
    }

    /// The value's bytes.
    #[must_use]
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.value = Some(value.as_ref().to_vec());
        self
    }

    /// The value as JSON.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn json(self, value: &(impl Serialize + ?Sized)) -> Self {
        self.value(serde_json::to_vec(value).expect("a value that JSON can have"))
    }

    /// The value through a codec.
    ///
    /// # Panics
    /// If the codec fails.
    #[must_use]
    pub fn encoded<C: Encode>(self, codec: &C, value: &C::Input) -> Self {
        self.value(encoded(codec, value))
    }

    /// One more header; `None` is null.
    #[must_use]
    pub fn header<'v>(mut self, name: &str, value: impl Into<Option<&'v str>>) -> Self {
        self.headers.push((name.into(), value.into().map(Into::into)));
        self
    }

    /// Milliseconds since 1970; otherwise it is [`TestKit::now`].
    #[must_use]
    pub fn timestamp(mut self, milliseconds: i64) -> Self {
        self.timestamp = Some(milliseconds);
        self
    }
}

fn encoded<C: Encode>(codec: &C, value: &C::Input) -> Vec<u8> {
    let mut out = Vec::new();
    codec.encode(value, &mut out).expect("a value that the codec takes");
    out
}

/// A record the program emitted, as bytes; `None` is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestOutput {
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// Names and values, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Milliseconds since 1970; `None`: the time at which it is written.
    pub timestamp: Option<i64>,
    /// `None`: by key.
    pub partition: Option<i32>,
}

/// Key and value of a record the program emitted, decoded; `None` is null.
pub type Emitted<'a, K, V> = (Option<<K as Decode>::Output<'a>>, Option<<V as Decode>::Output<'a>>);

/// A record whose handler failed: what the sidecar would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The input's name.
    pub input: String,
    /// The record's offset, counted from 0 per input.
    pub offset: i64,
    /// `Decode`, `Handler` or `Output`.
    pub class: String,
    /// The error's type.
    pub error: String,
    /// What it says, with the place.
    pub message: String,
    /// Whether another attempt could help.
    pub retriable: bool,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failure of \"{}\" offset {}: {}", self.class, self.input, self.offset, self.message)
    }
}

impl std::error::Error for Failed {}

/// See the [module](self).
pub struct TestKit {
    /// The number of the task that handlers see.
    pub task: i32,
    /// The timestamp, in milliseconds since 1970, of records that are fed without one.
    pub now: i64,
    /// The records whose handlers failed so far.
    pub failures: Vec<Failed>,
    schema: Schema,
    tables: Vec<Rows>,
    outputs: Vec<Vec<TestOutput>>,
    offsets: Vec<i64>,
    seq: u64,
    prefetch: bool,
    /// Stores and joins; lookups are always asked.
    prefetched: usize,
    /// Records go one by one then, as each moves the time.
    is_timed: bool,
    time: Time,
    /// By the id of a visit.
    walks: BTreeMap<usize, visits::Walk>,
    /// The rows that are out: id of the visit, key; none is the end.
    visiting: Vec<(usize, Option<Vec<u8>>)>,
    buffers: Buffers,
}

impl fmt::Debug for TestKit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestKit").field("task", &self.task).field("now", &self.now).finish_non_exhaustive()
    }
}

impl TestKit {
    /// # Errors
    /// [`RunError::Config`] if the app has no handler, or the setup does not fit it.
    pub fn new(app: App, setup: Setup<'_>) -> Result<TestKit, RunError> {
        app.check()?;
        let ports = |names: &[&str]| names.iter().map(|name| Port { max_bytes: MAX_BYTES, ..Port::named(name) }).collect();
        let inputs: Vec<&str> = app.inputs().collect();
        let mut stores: Vec<Port> = ports(setup.stores);
        let mut specs = vec![Spec::Keys; stores.len()];
        for windows in setup.windows {
            specs.push(Spec::windows(windows));
            let port = Port::named(windows.name);
            stores.push(Port { max_bytes: MAX_BYTES, kind: "Window".to_owned(), closes: windows.closes, ..port });
        }
        for sessions in setup.sessions {
            specs.push(Spec::sessions(sessions));
            let port = Port::named(sessions.name);
            stores.push(Port { max_bytes: MAX_BYTES, kind: "Session".to_owned(), closes: sessions.closes, ..port });
        }
        let store_count = stores.len();
        let visits: Result<Vec<VisitPort>, RunError> = setup.visits.iter().map(|visit| visit_port(visit, setup.stores)).collect();
        specs.resize(store_count + setup.joins.len() + setup.lookups.len(), Spec::Keys);
        let welcome = Welcome {
            version: MAX_VERSION,
            session: 1,
            processor: "test".to_owned(),
            inputs: ports(&inputs),
            outputs: ports(setup.outputs),
            stores,
            timers: setup.timers,
            visits: visits?,
            joins: ports(setup.joins),
            lookups: ports(setup.lookups),
            capabilities: app.capabilities().into_iter().map(str::to_owned).collect(),
            ..Welcome::default()
        };
        Ok(TestKit {
            task: 0,
            now: START,
            failures: Vec::new(),
            schema: Schema::new(welcome, &app)?,
            tables: vec![Rows::new(); specs.len()],
            outputs: vec![Vec::new(); setup.outputs.len()],
            offsets: vec![0; inputs.len()],
            seq: 0,
            prefetch: !setup.no_prefetch,
            prefetched: store_count + setup.joins.len(),
            is_timed: setup.timers || !setup.visits.is_empty() || !setup.windows.is_empty() || !setup.sessions.is_empty(),
            time: Time { specs, ..Time::default() },
            walks: BTreeMap::new(),
            visiting: Vec::new(),
            buffers: Buffers::default(),
        })
    }

    /// Hands records to the handler of an input as one batch and, where the program has hooks, as one transaction.
    ///
    /// # Errors
    /// The failure of the record that ended it: what came before it is kept, what comes after it was not handled.
    ///
    /// # Panics
    /// If no handler is for the input.
    pub fn feed(&mut self, input: &str, records: impl IntoIterator<Item = TestRecord>) -> Result<(), Failed> {
        let names: Vec<&str> = self.schema.inputs.iter().map(|port| port.name.as_str()).collect();
        let Some(id) = names.iter().position(|name| *name == input) else {
            panic!("no input \"{input}\"; inputs: {}", listed(&names));
        };
        self.call_hook("begin", self.schema.hooks.begin.clone())?;
        self.feed_all(id, input, records.into_iter().collect())?;
        self.call_hook("finalize", self.schema.hooks.finalize.clone())?;
        if let Some(committed) = &self.schema.hooks.committed {
            committed(self.task);
        }
        Ok(())
    }

    fn call_hook(&mut self, name: &str, hook: Option<Handler>) -> Result<(), Failed> {
        let Some(hook) = hook else { return Ok(()) };
        let batch = Batch::hook(0, self.task, self.tables.len());
        match self.run_batch(&batch, Some(&hook)) {
            (_, None) => Ok(()),
            (_, Some(failed)) => {
                let failed = Failed { input: name.to_owned(), ..failed };
                self.failures.push(failed.clone());
                Err(failed)
            }
        }
    }

    fn feed_all(&mut self, id: usize, input: &str, records: Vec<TestRecord>) -> Result<(), Failed> {
        let mut rest = &records[..];
        while let Some(first) = rest.first() {
            let now = if self.is_timed { &rest[..1] } else { rest };
            let timestamp = first.timestamp.unwrap_or(self.now);
            let sessions = self.sessions_before(first.key.as_deref(), timestamp);
            let payload = self.encode_batch(id, now);
            let (done, failed) = self.run_payload(payload);
            self.offsets[id] += done as i64;
            if let Some(failed) = failed {
                let failed = Failed { input: input.to_owned(), offset: self.offsets[id], ..failed };
                self.offsets[id] += 1;
                self.failures.push(failed.clone());
                return Err(failed);
            }
            rest = &rest[done..]; // all, or as many as fit one RESULT
            if self.is_timed {
                self.settle_sessions(sessions);
                self.time_passes(timestamp)?;
            }
        }
        Ok(())
    }

    fn run_payload(&mut self, payload: Vec<u8>) -> (usize, Option<Failed>) {
        let mut reader = Reader::new(&payload);
        let (_, fields) = read_head(&mut reader).expect(OWN);
        let at = reader.position();
        let batch = Batch::read(payload, at, fields, &self.schema.shape).expect(OWN);
        self.run_batch(&batch, None)
    }

    fn run_batch(&mut self, batch: &Batch, hook: Option<&Handler>) -> (usize, Option<Failed>) {
        let link = KitLink { tables: &self.tables, scratch: RefCell::new(vec![Scratch::new(); self.tables.len()]) };
        let task = Task { schema: &self.schema, batch, link: &link, generation: 0 };
        run_batch(&task, hook, &mut self.buffers).expect("no batch of the kit is cancelled");
        self.buffers.run_deferred();
        let frame = std::mem::take(&mut self.buffers.frame);
        let outcome = self.apply(&frame[LENGTH_BYTES..], batch).expect(OWN);
        self.buffers.frame = frame;
        outcome
    }

    /// What a sidecar would send.
    fn encode_batch(&mut self, input: usize, records: &[TestRecord]) -> Vec<u8> {
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut items = Vec::new();
        for (record, offset) in records.iter().zip(self.offsets[input]..) {
            write::put_array(&mut items, if self.is_timed { 9 } else { 8 });
            let timestamp = record.timestamp.unwrap_or(self.now);
            for number in [0, input as i64, offset, timestamp] {
                write::put_i64(&mut items, number);
            }
            match record.key.as_deref() {
                None => write::put_nil(&mut items),
                Some(key) => {
                    let index = keys.iter().position(|known| *known == key).unwrap_or(keys.len());
                    if index == keys.len() {
                        keys.push(key);
                    }
                    write::put_u64(&mut items, index as u64);
                }
            }
            write::put_maybe(&mut items, record.value.as_deref());
            let headers: Vec<Header<'_>> =
                record.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect();
            put_headers(&mut items, &headers);
            write::put_u64(&mut items, 1);
            if self.is_timed {
                self.put_windows(record.key.as_deref(), timestamp, &mut items);
            }
        }
        self.batch_of(&keys, &items, records.len() as u32)
    }

    /// With the state of these keys.
    fn batch_of(&mut self, keys: &[&[u8]], items: &[u8], count: u32) -> Vec<u8> {
        self.seq += 1;
        let mut out = Vec::new();
        write::put_array(&mut out, 8);
        for number in [kind::BATCH, self.seq, self.task.unsigned_abs().into(), 0] {
            write::put_u64(&mut out, number);
        }
        write::put_array(&mut out, keys.len() as u32);
        keys.iter().for_each(|key| write::put_bytes(&mut out, key));
        write::put_array(&mut out, count);
        out.extend_from_slice(items);
        let prefetched = if self.prefetch { self.prefetched } else { 0 };
        write::put_map(&mut out, prefetched as u32);
        for table in 0..prefetched {
            write::put_u64(&mut out, table as u64);
            write::put_array(&mut out, keys.len() as u32);
            for key in keys {
                match self.time.specs[table] {
                    Spec::Keys => write::put_maybe(&mut out, self.tables[table].get(*key).map(Vec::as_slice)),
                    _ => self.put_rows(table, key, &mut out),
                }
            }
        }
        match self.time.stream.filter(|_| self.is_timed) {
            Some(time) => write::put_i64(&mut out, time),
            None => write::put_nil(&mut out),
        }
        out
    }

    /// Reads a RESULT as a sidecar would.
    fn apply(&mut self, payload: &[u8], batch: &Batch) -> Read<(usize, Option<Failed>)> {
        let mut reader = Reader::new(payload);
        let (_, fields) = read_head(&mut reader)?;
        reader.u64("seq")?;
        let done = reader.u64("done")? as usize;
        self.settle_visited(done);
        let failed = if reader.take_nil() { None } else { Some(read_failure(&mut reader)?) };
        for _ in 0..reader.map("ops")? {
            let store = reader.u32("store")? as usize;
            for _ in 0..reader.list("ops")? {
                reader.fields("op", 2)?;
                let key = reader.bytes("key")?;
                match reader.maybe_bytes("value")? {
                    Some(value) => self.tables[store].insert(key.to_vec(), value.to_vec()),
                    None => self.tables[store].remove(key),
                };
            }
        }
        for _ in 0..reader.list("outputs")? {
            let (id, output) = read_output(&mut reader, payload)?;
            self.outputs[id].push(output);
        }
        if fields > 5 {
            self.apply_timers(&mut reader)?;
        }
        if fields > 6 {
            self.apply_visits(&mut reader, batch.items[done - 1].timestamp)?;
        }
        reader.end()?;
        Ok((done, failed))
    }

    /// What was emitted to an output so far, in order, as bytes.
    ///
    /// # Panics
    /// If the setup does not name the output.
    pub fn outputs(&self, name: &str) -> &[TestOutput] {
        &self.outputs[place(&self.schema.outputs, "output", name)]
    }

    /// What was emitted to an output so far, through its codecs; nulls are `None`.
    ///
    /// # Panics
    /// If the setup does not name the output, or the codec does not know its own bytes.
    pub fn emitted<K, V>(&self, output: &Output<K, V>) -> Vec<Emitted<'_, K, V>>
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        let (key, value) = output.codecs();
        self.outputs(output.name())
            .iter()
            .map(|out| (out.key.as_deref().map(|data| decoded(key, data)), out.value.as_deref().map(|data| decoded(value, data))))
            .collect()
    }

    /// The committed value of a key.
    ///
    /// # Panics
    /// If the setup does not name the store, or the codec does not know its own bytes.
    pub fn state<K, V>(&self, store: &Store<K, V>, key: &K::Input) -> Option<V::Output<'_>>
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        let table = &store.table;
        self.tables[place(&self.schema.tables, "store", table.name())]
            .get(&encoded(&table.key, key))
            .map(|data| decoded(&table.value, data))
    }

    /// The committed value of a window of a key, by the window's beginning.
    ///
    /// # Panics
    /// If the setup does not name the store, or the codec does not know its own bytes.
    pub fn window<K, V>(&self, store: &WindowStore<K, V>, key: &K::Input, start: i64) -> Option<V::Output<'_>>
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        let row = [&encoded(&store.table.key, key)[..], &start.to_be_bytes()].concat();
        let table = &self.tables[place(&self.schema.tables, "store", store.name())];
        table.get(&row).map(|data| decoded(&store.table.value, data))
    }

    /// The committed sessions of a key with a value, oldest first.
    ///
    /// # Panics
    /// If the setup does not name the store, or the codec does not know its own bytes.
    pub fn sessions<K, V>(&self, store: &SessionStore<K, V>, key: &K::Input) -> Vec<(Window, V::Output<'_>)>
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        let key = encoded(&store.table.key, key);
        let table = place(&self.schema.tables, "store", store.name());
        let rows = rows_of(&self.tables[table], self.time.specs[table], &key).into_iter();
        rows.filter(|(_, _, value)| !value.is_empty())
            .map(|(start, end, value)| (Window { start, end }, decoded(&store.table.value, value)))
            .collect()
    }

    /// Prepares a test: what a store has for a key.
    ///
    /// # Panics
    /// If the setup does not name the store, or a codec fails.
    pub fn set_state<K, V>(&mut self, store: &Store<K, V>, key: &K::Input, value: &V::Input)
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        self.set_row(&store.table, key, encoded(&store.table.value, value));
    }

    /// What a join has for a key.
    ///
    /// # Panics
    /// If the setup does not name the join, or a codec fails.
    pub fn set_join<K, V>(&mut self, join: &Join<K, V>, key: &K::Input, value: &V::Input)
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        self.set_row(&join.table, key, encoded(&join.table.value, value));
    }

    /// What a lookup has for a key.
    ///
    /// # Panics
    /// If the setup does not name the lookup, or a codec fails.
    pub fn set_lookup<K, V>(&mut self, lookup: &Lookup<K, V>, key: &K::Input, value: &V::Input)
    where
        K: Encode + Decode,
        V: Encode + Decode,
    {
        self.set_row(&lookup.table, key, encoded(&lookup.table.value, value));
    }

    fn set_row<K: Encode, V>(&mut self, table: &Table<K, V>, key: &K::Input, value: Vec<u8>) {
        let id = place(&self.schema.tables, "table", table.name());
        self.tables[id].insert(encoded(&table.key, key), value);
    }
}

fn visit_port(visit: &TestVisit<'_>, stores: &[&str]) -> Result<VisitPort, RunError> {
    match stores.iter().position(|store| *store == visit.store) {
        Some(store) => Ok(VisitPort { name: visit.name.to_owned(), store }),
        None => {
            Err(RunError::Config(format!("visit \"{}\" walks store \"{}\"; stores: {}", visit.name, visit.store, listed(stores))))
        }
    }
}

fn decoded<'a, C: Decode>(codec: &C, data: &'a [u8]) -> C::Output<'a> {
    codec.decode(data).unwrap_or_else(|error| panic!("bytes that are not {}: {error}", codec.name()))
}

fn place(ports: &[Port], what: &str, name: &str) -> usize {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    match names.iter().position(|known| *known == name) {
        Some(id) => id,
        None => panic!("no {what} \"{name}\" in the setup; {what}s: {}", listed(&names)),
    }
}

fn read_failure(reader: &mut Reader<'_>) -> Read<Failed> {
    let mut failed = Failed {
        input: String::new(),
        offset: 0,
        class: String::new(),
        error: String::new(),
        message: String::new(),
        retriable: false,
    };
    for _ in 0..reader.map("failure")? {
        match reader.text("failure")?.as_str() {
            "class" => failed.class = reader.text("class")?,
            "error" => failed.error = reader.text("error")?,
            "message" => failed.message = reader.text("message")?,
            "retriable" => failed.retriable = reader.bool("retriable")?,
            _ => reader.skip(1)?,
        }
    }
    Ok(failed)
}

fn read_output(reader: &mut Reader<'_>, payload: &[u8]) -> Read<(usize, TestOutput)> {
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let mut left = reader.fields("output", 4)?;
    let id = reader.u32("output")? as usize;
    let (key, value) = (owned(reader.maybe_bytes("key")?), owned(reader.maybe_bytes("value")?));
    let timestamp = if reader.take_nil() { None } else { Some(reader.i64("timestamp")?) };
    let mut output = TestOutput { key, value, headers: Vec::new(), timestamp, partition: None };
    if reader.more(&mut left) {
        let start = reader.position();
        reader.skip(1)?;
        let headers = Headers::new(Some(&payload[start..reader.position()]));
        output.headers = headers.map(|header| (header.name.to_vec(), owned(header.value))).collect();
    }
    if reader.more(&mut left) {
        output.partition = Some(reader.index("partition")?);
    }
    Ok((id, output))
}

/// Answers from committed state and the batch's own writes.
struct KitLink<'a> {
    tables: &'a [Rows],
    scratch: RefCell<Vec<Scratch>>,
}

/// Bytes in the memory of an answer.
fn put(payload: &mut Vec<u8>, data: &[u8]) -> Span {
    let start = payload.len();
    payload.extend_from_slice(data);
    Span::new(start, payload.len())
}

impl Link for KitLink<'_> {
    fn get(&self, store: usize, keys: &[&[u8]]) -> Result<Values, Error> {
        let mut payload = Vec::new();
        let values = keys.iter().map(|key| self.tables[store].get(*key).map(|value| put(&mut payload, value))).collect();
        Ok(Values { payload, values })
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<Page, Error> {
        let mut scratch = self.scratch.borrow_mut();
        for op in &scan.new_ops {
            scratch[op.store].insert(op.key.to_vec(), op.value.map(<[u8]>::to_vec));
        }
        let mut merged: BTreeMap<&[u8], &[u8]> =
            self.tables[scan.store].iter().map(|(key, value)| (&key[..], &value[..])).collect();
        for (key, value) in &scratch[scan.store] {
            match value {
                Some(value) => merged.insert(key, value),
                None => merged.remove(&key[..]),
            };
        }
        let (mut from, mut to) =
            (scan.from.map_or(Bound::Unbounded, Bound::Included), scan.to.map_or(Bound::Unbounded, Bound::Excluded));
        match scan.cursor {
            Some(cursor) if scan.reverse => to = Bound::Excluded(cursor),
            Some(cursor) => from = Bound::Excluded(cursor),
            None => {}
        }
        let inside = merged.iter().filter(|(key, _)| {
            (match from {
                Bound::Included(from) => **key >= from,
                Bound::Excluded(from) => **key > from,
                Bound::Unbounded => true,
            }) && (match to {
                Bound::Excluded(to) => **key < to,
                _ => true,
            })
        });
        let mut rows: Vec<(&[u8], &[u8])> = inside.map(|(key, value)| (*key, *value)).collect();
        if scan.reverse {
            rows.reverse();
        }
        let size = if scan.limit > 0 { PAGE.min(scan.limit) } else { PAGE };
        let more = rows.len() > size;
        rows.truncate(size);
        let mut page = Page::default();
        for (key, value) in rows {
            let key = put(&mut page.payload, key);
            let value = put(&mut page.payload, value);
            page.rows.push((key, value));
        }
        page.cursor = page.rows.last().filter(|_| more).map(|(key, _)| *key);
        Ok(page)
    }

    fn extend(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn note_done(&self, _: u64) {}

    fn is_void(&self) -> bool {
        false
    }
}
