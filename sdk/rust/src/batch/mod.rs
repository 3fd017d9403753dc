//! One batch in flight: what its items know and stage, and its RESULT.
//!
//! The prefix rule: items run in order; the first that fails ends the batch, what it staged is undone, the items before it
//! count. A batch whose RESULT would not fit a frame ends early without failure: the sidecar sends the rest again.

mod time;
mod visit;

use self::time::LateValues;
use crate::app::Handler;
use crate::codec::Encode;
use crate::context::Context;
use crate::error::{own_failure, Error, HandlerResult};
use crate::panics;
use crate::schema::Schema;
use crate::wire::batch::{Batch, Column, Item, ItemKind, Rows, State};
use crate::wire::write::{self, Failure, NewOp, Scan};
use crate::wire::{kind, Span, DEFAULT_FRAME_CAP, FLAG_TRACE, MAX_ELEMENTS};
use crate::BoxError;
use std::collections::{HashMap, HashSet};

/// Room for a RESULT's own fields and a failure message.
const RESULT_RESERVE: usize = 20 << 10;
/// What an output and a write take in a frame beside their bytes, at most.
const OUTPUT_OVERHEAD: usize = 16;
const WRITE_OVERHEAD: usize = 16;
/// A GET asks for so many keys at most.
const MAX_KEYS_PER_GET: usize = 512;
/// Memory that a thread keeps from one batch to the next, per buffer.
const KEPT_BYTES: usize = 4 << 20;

/// How a batch reaches the sidecar: a session, or a test kit. Calls give [`Error::Void`] once the batch is void.
pub(crate) trait Link {
    fn get(&self, store: usize, keys: &[&[u8]]) -> Result<Values, Error>;
    fn scan(&self, scan: &Scan<'_>) -> Result<Page, Error>;
    /// In a traced batch, before each item.
    fn extend(&self, done: u64) -> Result<(), Error>;
    fn note_done(&self, done: u64);
    fn is_void(&self) -> bool;
}

pub(crate) struct Values {
    pub(crate) payload: Vec<u8>,
    pub(crate) values: Vec<Option<Span>>,
}

/// Rows of a scan.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) payload: Vec<u8>,
    pub(crate) rows: Vec<(Span, Span)>,
    pub(crate) cursor: Option<Span>,
}

/// Memory that is used again for the next batch.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Encoded keys and values, and those that were fetched.
    arena: Vec<u8>,
    /// Encoded outputs, one after the other.
    outputs: Vec<u8>,
    /// For one key and value on their way into `outputs`.
    pub(crate) scratch: Vec<u8>,
    /// Encoded timers, one after the other.
    timers: Vec<u8>,
    /// Encoded ops on visits, likewise.
    visits: Vec<u8>,
    ops: Vec<Op>,
    /// What is to be done once the batch counts.
    deferred: Vec<Deferred>,
    /// The RESULT.
    pub(crate) frame: Vec<u8>,
}

pub(crate) type Deferred = Box<dyn FnOnce() + Send>;

impl Buffers {
    /// The batch counts.
    pub(crate) fn run_deferred(&mut self) {
        self.deferred.drain(..).for_each(|act| act());
    }

    fn clear(&mut self) {
        let Buffers { arena, outputs, scratch, timers, visits, frame, .. } = self;
        for buffer in [arena, outputs, scratch, timers, visits, frame] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        }
        self.ops.clear();
        self.deferred.clear();
        self.ops.shrink_to(KEPT_BYTES / std::mem::size_of::<Op>());
    }
}

/// Where bytes are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Frame(Span),
    Arena(Span),
}

impl Place {
    fn len(self) -> usize {
        let (Place::Frame(span) | Place::Arena(span)) = self;
        span.len()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    Unknown,
    Absent,
    Value(Place),
}

/// What is known of one key in one store.
#[derive(Clone, Copy)]
struct Slot {
    known: Known,
    /// The last write, in `ops`.
    op: u32,
}

const NO_OP: u32 = u32::MAX;

/// A key of a store while a batch runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef {
    pub(crate) store: usize,
    pub(crate) slot: u32,
    pub(crate) key: Place,
}

struct Op {
    at: KeyRef,
    item: u32,
    /// None deletes.
    value: Option<Place>,
    before: Slot,
}

#[derive(Default)]
struct StoreRun {
    /// Made when the store is first used: the batch's keys first, or the rows that came along; then others.
    slots: Vec<Slot>,
    filled: bool,
    others: HashMap<Box<[u8]>, u32>,
    /// Windows and sessions of the batch's keys: index of the key, start, end.
    rows: HashMap<(u32, i64, i64), u32>,
}

pub(crate) struct Run<'b> {
    pub(crate) schema: &'b Schema,
    pub(crate) batch: &'b Batch,
    link: &'b dyn Link,
    late: &'b LateValues,
    pub(crate) buffers: Buffers,
    /// Of the task; another one after OPEN and CLOSE.
    pub(crate) generation: u64,
    index: usize,
    /// Fails the item, whatever the handler returns.
    failed: Option<Failure>,
    stores: Vec<StoreRun>,
    /// Made when a handler first names another key.
    key_index: Option<HashMap<&'b [u8], u32>>,
    told_ops: usize,
    output_count: u32,
    timer_count: u32,
    visit_count: u32,
    /// Key, clock and name of timers set in this batch; kept if the batch has timers that it could overtake.
    timers_set: HashSet<Vec<u8>>,
    /// Bytes and list elements of ops, outputs, timers and visits.
    staged: usize,
    elements: usize,
}

/// How far a run had come before an item.
struct Mark {
    ops: usize,
    deferred: usize,
    outputs: usize,
    output_count: u32,
    timers: usize,
    timer_count: u32,
    visits: usize,
    visit_count: u32,
    staged: usize,
    elements: usize,
}

/// What runs a batch.
pub(crate) struct Task<'b> {
    pub(crate) schema: &'b Schema,
    pub(crate) batch: &'b Batch,
    pub(crate) link: &'b dyn Link,
    pub(crate) generation: u64,
}

/// Handles the items, or calls the hook; afterwards the RESULT is in `buffers.frame`. The only error is that of a batch that no
/// longer counts.
pub(crate) fn run_batch(task: &Task<'_>, hook: Option<&Handler>, buffers: &mut Buffers) -> Result<(), Error> {
    buffers.clear();
    let Task { schema, batch, link, generation } = *task;
    let late = LateValues::fetch(task)?;
    let run = Run {
        schema,
        batch,
        link,
        late: &late,
        buffers: std::mem::take(buffers),
        generation,
        index: 0,
        failed: None,
        stores: schema.tables.iter().map(|_| StoreRun::default()).collect(),
        key_index: None,
        told_ops: 0,
        output_count: 0,
        timer_count: 0,
        visit_count: 0,
        timers_set: HashSet::new(),
        staged: 0,
        elements: 0,
    };
    let mut ctx = Context { run };
    let outcome = match hook {
        None => run_items(&mut ctx),
        Some(hook) => run_hook(&mut ctx, hook),
    };
    *buffers = ctx.run.buffers;
    outcome
}

/// All of it or, with a failure, nothing.
fn run_hook(ctx: &mut Context<'_>, hook: &Handler) -> Result<(), Error> {
    let mark = ctx.run.mark();
    let span = tracing::info_span!("transaction", processor = ctx.processor(), task = ctx.task());
    let outcome = span.in_scope(|| panics::caught(|| hook(ctx)));
    let run = &mut ctx.run;
    if run.link.is_void() {
        return Err(Error::Void);
    }
    let failure = run.conclude(outcome).and_then(|()| run.check_size(&mark)).err();
    if failure.is_some() {
        run.undo(&mark);
    }
    run.encode_result(0, failure.as_ref());
    Ok(())
}

fn run_items(ctx: &mut Context<'_>) -> Result<(), Error> {
    let trace = ctx.run.batch.flags & FLAG_TRACE != 0;
    let items = ctx.run.batch.items.len();
    let mut failure = None;
    let mut done = 0;
    while done < items {
        if ctx.run.link.is_void() {
            return Err(Error::Void);
        }
        if trace {
            ctx.run.link.extend(done as u64)?;
        }
        ctx.run.index = done;
        let mark = ctx.run.mark();
        let outcome = run_item(ctx);
        if ctx.run.link.is_void() {
            return Err(Error::Void);
        }
        let run = &mut ctx.run;
        match outcome.and_then(|()| run.check_size(&mark)) {
            Ok(true) => {}
            Ok(false) => {
                run.undo(&mark);
                break;
            }
            Err(error) => {
                run.undo(&mark);
                failure = Some(error);
                break;
            }
        }
        done += 1;
        run.link.note_done(done as u64);
        if run.visit_count > 0 {
            break; // it counts from here on: rows of this batch may not be wanted any more
        }
    }
    ctx.run.encode_result(done as u64, failure.as_ref());
    Ok(())
}

fn run_item(ctx: &mut Context<'_>) -> Result<(), Failure> {
    let item = ctx.run.item();
    let handler = match item.kind {
        ItemKind::Record => &ctx.run.schema.inputs[item.of as usize].handler,
        ItemKind::Closing => ctx.run.schema.closing(item.of as usize)?,
        ItemKind::Hook => return Ok(()), // it has no items
        ItemKind::Visit => match ctx.run.visit_handler().map_err(|error| own_failure(&error))? {
            Some(handler) => handler,
            None => return Ok(()),
        },
        ItemKind::Timer if ctx.run.is_overtaken(item) => return Ok(()),
        ItemKind::Timer => ctx.run.schema.timer(item.name.map_or(&[], |name| name.of(&ctx.run.batch.payload)))?,
    };
    let span = match item.kind {
        ItemKind::Record => tracing::info_span!(
            "record",
            processor = ctx.processor(),
            task = ctx.task(),
            input = ctx.run.schema.inputs[item.of as usize].name,
            offset = item.offset
        ),
        ItemKind::Timer | ItemKind::Hook => {
            tracing::info_span!("timer", processor = ctx.processor(), task = ctx.task(), time = item.timestamp)
        }
        ItemKind::Visit => {
            let visit = ctx.run.schema.visits[item.of as usize].name.as_str();
            tracing::info_span!("visit", processor = ctx.processor(), task = ctx.task(), visit)
        }
        ItemKind::Closing => {
            tracing::info_span!("window", processor = ctx.processor(), task = ctx.task(), start = item.offset)
        }
    };
    let ops = ctx.run.buffers.ops.len();
    let outcome = span.in_scope(|| panics::caught(|| handler(ctx)));
    ctx.run.conclude(outcome)?;
    ctx.run.finish_sessions(ops).map_err(|error| error.failure())
}

impl<'b> Run<'b> {
    pub(crate) fn item(&self) -> &'b Item {
        &self.batch.items[self.index]
    }

    /// What a handler returned, and what state and outputs had refused meanwhile.
    fn conclude(&mut self, outcome: HandlerResult) -> Result<(), Failure> {
        match (outcome, self.failed.take()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(failed)) => Err(failed),
            (Err(error), None) => Err(error.failure()),
            // The handler's error knows the place, if it is the same one.
            (Err(error), Some(failed)) => match error.own() {
                Some(Error::Output { .. } | Error::Undeclared { .. }) => Err(error.failure()),
                _ => Err(failed),
            },
        }
    }

    pub(crate) fn is_void(&self) -> bool {
        self.link.is_void()
    }

    /// Makes the item fail and gives the error back.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if self.failed.is_none() {
            self.failed = Some(own_failure(&error));
        }
        error
    }

    fn mark(&self) -> Mark {
        Mark {
            ops: self.buffers.ops.len(),
            deferred: self.buffers.deferred.len(),
            outputs: self.buffers.outputs.len(),
            output_count: self.output_count,
            timers: self.buffers.timers.len(),
            timer_count: self.timer_count,
            visits: self.buffers.visits.len(),
            visit_count: self.visit_count,
            staged: self.staged,
            elements: self.elements,
        }
    }

    fn undo(&mut self, mark: &Mark) {
        for op in self.buffers.ops.drain(mark.ops..).rev() {
            self.stores[op.at.store].slots[op.at.slot as usize] = op.before;
        }
        self.buffers.deferred.truncate(mark.deferred);
        self.buffers.outputs.truncate(mark.outputs);
        self.told_ops = self.told_ops.min(mark.ops);
        self.output_count = mark.output_count;
        self.buffers.timers.truncate(mark.timers);
        self.timer_count = mark.timer_count;
        self.buffers.visits.truncate(mark.visits);
        self.visit_count = mark.visit_count;
        self.staged = mark.staged;
        self.elements = mark.elements;
    }

    /// False where the item has to come again in another batch.
    fn check_size(&self, before: &Mark) -> Result<bool, Failure> {
        let budget = self.schema.frame_cap.min(DEFAULT_FRAME_CAP) - RESULT_RESERVE;
        let most = MAX_ELEMENTS / 2;
        if self.staged <= budget && self.elements <= most {
            return Ok(true);
        }
        let alone = self.staged - before.staged;
        if alone <= budget && self.elements - before.elements <= most {
            return Ok(false);
        }
        let error = Error::output(format!(
            "the state changes and outputs of this one record have {alone} bytes together, which does not fit a frame of {} bytes; \
             emit and write less per record",
            self.schema.frame_cap
        ));
        Err(own_failure(&error))
    }

    /// The connection and the task: who owns what is gathered.
    pub(crate) fn owner(&self) -> (u32, i32) {
        (self.schema.number, self.batch.task)
    }

    /// Does something once the batch counts.
    pub(crate) fn defer(&mut self, act: Deferred) {
        self.buffers.deferred.push(act);
    }

    // -- state

    pub(crate) fn bytes(&self, place: Place) -> &[u8] {
        match place {
            Place::Frame(span) => span.of(&self.batch.payload),
            Place::Arena(span) => span.of(&self.buffers.arena),
        }
    }

    /// The record's own key; `None` where it has none.
    pub(crate) fn own_key(&mut self, store: usize) -> Option<KeyRef> {
        let slot = self.item().key?;
        self.fill_slots(store);
        Some(KeyRef { store, slot, key: Place::Frame(self.batch.keys[slot as usize]) })
    }

    pub(crate) fn own_key_place(&self) -> Option<Place> {
        Some(Place::Frame(self.batch.keys[self.item().key? as usize]))
    }

    pub(crate) fn own_key_bytes(&self) -> Option<&'b [u8]> {
        Some(self.batch.key(self.item().key?))
    }

    /// Bytes that stay until the end of the batch.
    pub(crate) fn place(&mut self, bytes: &[u8]) -> Result<Place, Error> {
        let arena = &mut self.buffers.arena;
        let start = arena.len();
        arena.extend_from_slice(bytes);
        in_arena(arena, start).map_err(|error| Error::output(error.to_string()))
    }

    /// What came along, when a store is first used.
    fn fill_slots(&mut self, store: usize) {
        let run = &mut self.stores[store];
        if run.filled {
            return;
        }
        run.filled = true;
        let unknown = Slot { known: Known::Unknown, op: NO_OP };
        let slot_of = |value: &State| Slot {
            known: match *value {
                State::Absent => Known::Absent,
                State::Value(span) => Known::Value(Place::Frame(span)),
                State::NotSent => Known::Unknown,
            },
            op: NO_OP,
        };
        match &self.batch.state[store] {
            None if self.schema.shape.tables[store] == Rows::Keys => run.slots.resize(self.batch.keys.len(), unknown),
            None => {}
            Some(Column::Values(values)) => run.slots.extend(values.iter().map(slot_of)),
            Some(Column::Rows(rows)) => {
                for (slot, (key, start, end, value)) in (0..).zip(rows) {
                    run.slots.push(slot_of(value));
                    run.rows.insert(self.schema.row_id(store, *key, *start, *end), slot);
                }
            }
        }
    }

    /// Any key.
    pub(crate) fn key(&mut self, store: usize, key: Place) -> KeyRef {
        self.fill_slots(store);
        let batch = self.batch;
        let index = self
            .key_index
            .get_or_insert_with(|| batch.keys.iter().zip(0..).map(|(key, index)| (key.of(&batch.payload), index)).collect());
        let raw = match key {
            Place::Frame(span) => span.of(&self.batch.payload),
            Place::Arena(span) => span.of(&self.buffers.arena),
        };
        let run = &mut self.stores[store];
        let own = if self.schema.shape.tables[store] == Rows::Keys { index.get(raw) } else { None };
        let slot = match own.or_else(|| run.others.get(raw)) {
            Some(slot) => *slot,
            None => {
                let slot = run.slots.len() as u32;
                run.slots.push(Slot { known: Known::Unknown, op: NO_OP });
                run.others.insert(raw.into(), slot);
                slot
            }
        };
        KeyRef { store, slot, key }
    }

    /// Encodes into memory that stays until the end of the batch.
    pub(crate) fn encode<C: Encode>(&mut self, codec: &C, value: &C::Input) -> Result<Place, BoxError> {
        let arena = &mut self.buffers.arena;
        let start = arena.len();
        codec.encode(value, arena)?;
        in_arena(arena, start)
    }

    pub(crate) fn known(&self, at: KeyRef) -> Known {
        self.stores[at.store].slots[at.slot as usize].known
    }

    /// The value, asked for if it has to be.
    pub(crate) fn read(&mut self, at: KeyRef) -> Result<Option<Place>, Error> {
        if let Known::Unknown = self.known(at) {
            self.fetch(&[at])?;
        }
        match self.known(at) {
            Known::Value(place) => Ok(Some(place)),
            _ => Ok(None),
        }
    }

    /// Asks for keys of one store.
    pub(crate) fn fetch(&mut self, mut wanted: &[KeyRef]) -> Result<(), Error> {
        while let Some(first) = wanted.first() {
            let mut count = wanted.len().min(MAX_KEYS_PER_GET);
            let answer = loop {
                let keys: Vec<&[u8]> = wanted[..count].iter().map(|at| self.bytes(at.key)).collect();
                match self.link.get(first.store, &keys) {
                    Ok(answer) => break answer,
                    // The values may not fit a frame together: fewer at once. For one alone, the error it is.
                    Err(Error::Void) => return Err(Error::Void),
                    Err(error) if count == 1 => return Err(error),
                    Err(_) => count /= 2,
                }
            };
            for (at, value) in wanted[..count].iter().zip(&answer.values) {
                let known = match value {
                    None => Known::Absent,
                    Some(span) => {
                        let arena = &mut self.buffers.arena;
                        let start = arena.len();
                        arena.extend_from_slice(span.of(&answer.payload));
                        Known::Value(in_arena(arena, start).map_err(|error| Error::State(error.to_string()))?)
                    }
                };
                self.stores[at.store].slots[at.slot as usize].known = known;
            }
            wanted = &wanted[count..];
        }
        Ok(())
    }

    /// Stages a write; `None` deletes.
    pub(crate) fn write(&mut self, at: KeyRef, value: Option<Place>) {
        let slot = &mut self.stores[at.store].slots[at.slot as usize];
        let op = self.buffers.ops.len() as u32;
        self.buffers.ops.push(Op { at, item: self.index as u32, value, before: *slot });
        *slot = Slot { known: value.map_or(Known::Absent, Known::Value), op };
        self.staged += at.key.len() + value.map_or(0, Place::len) + WRITE_OVERHEAD;
        self.elements += 1;
    }

    /// A page of a scan; tells the writes since the last one.
    pub(crate) fn scan(&mut self, scan: &ScanRequest, cursor: Option<&[u8]>, limit: usize) -> Result<Page, Error> {
        let new_ops = self.buffers.ops[self.told_ops..]
            .iter()
            .map(|op| NewOp {
                store: op.at.store,
                key: self.bytes(op.at.key),
                value: op.value.map(|value| self.bytes(value)),
                item: op.item,
            })
            .collect();
        let page = self.link.scan(&Scan {
            store: scan.store,
            from: scan.from.as_deref(),
            to: scan.to.as_deref(),
            limit,
            reverse: scan.reverse,
            cursor,
            new_ops,
        })?;
        self.told_ops = self.buffers.ops.len();
        Ok(page)
    }

    // -- the RESULT

    /// Where an output is encoded; [`Run::staged_output`] has to follow.
    pub(crate) fn begin_output(&mut self) -> (&mut Vec<u8>, usize) {
        let before = self.buffers.outputs.len();
        (&mut self.buffers.outputs, before)
    }

    pub(crate) fn staged_output(&mut self, before: usize, headers: usize) {
        self.output_count += 1;
        self.staged += self.buffers.outputs.len() - before + OUTPUT_OVERHEAD;
        self.elements += 1 + headers;
    }

    /// The last write of each key, and the outputs.
    fn encode_result(&mut self, done: u64, failure: Option<&Failure>) {
        let mut frame = std::mem::take(&mut self.buffers.frame);
        let fields = match (self.timer_count, self.visit_count) {
            (0, 0) => 5,
            (_, 0) => 6,
            _ => 7,
        };
        begin_result(&mut frame, fields, self.batch.seq, done, failure);
        frame.reserve(self.staged + WRITE_OVERHEAD);
        let mut counts = vec![0; self.stores.len()];
        let last = |op: &Op, at: usize| self.stores[op.at.store].slots[op.at.slot as usize].op as usize == at;
        for (at, op) in self.buffers.ops.iter().enumerate() {
            counts[op.at.store] += u32::from(last(op, at));
        }
        write::put_map(&mut frame, counts.iter().filter(|count| **count > 0).count() as u32);
        for (store, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            write::put_u64(&mut frame, store as u64);
            write::put_array(&mut frame, count);
            for (_, op) in self.buffers.ops.iter().enumerate().filter(|(at, op)| op.at.store == store && last(op, *at)) {
                write::put_array(&mut frame, 2);
                write::put_bytes(&mut frame, self.bytes(op.at.key));
                write::put_maybe(&mut frame, op.value.map(|value| self.bytes(value)));
            }
        }
        write::put_array(&mut frame, self.output_count);
        frame.extend_from_slice(&self.buffers.outputs);
        if fields > 5 {
            write::put_array(&mut frame, self.timer_count);
            frame.extend_from_slice(&self.buffers.timers);
        }
        if fields > 6 {
            write::put_array(&mut frame, self.visit_count);
            frame.extend_from_slice(&self.buffers.visits);
        }
        write::end_frame(&mut frame);
        self.buffers.frame = frame;
    }
}

fn begin_result(frame: &mut Vec<u8>, fields: u32, seq: u64, done: u64, failure: Option<&Failure>) {
    write::begin_frame(frame, kind::RESULT, fields);
    write::put_u64(frame, seq);
    write::put_u64(frame, done);
    write::put_failure(frame, failure);
}

/// What ends a void batch; the sidecar drops it.
pub(crate) fn void_result(seq: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    begin_result(&mut frame, 5, seq, 0, None);
    write::put_map(&mut frame, 0);
    write::put_array(&mut frame, 0);
    write::end_frame(&mut frame);
    frame
}

/// What a scan asks for, from page to page.
#[derive(Debug)]
pub(crate) struct ScanRequest {
    pub(crate) store: usize,
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) reverse: bool,
}

/// The arena's bytes from `start` on.
fn in_arena(arena: &[u8], start: usize) -> Result<Place, BoxError> {
    match u32::try_from(arena.len()) {
        Ok(_) => Ok(Place::Arena(Span::new(start, arena.len()))),
        Err(_) => Err("the keys and values of one batch take 4 GiB; write less per record".into()),
    }
}
