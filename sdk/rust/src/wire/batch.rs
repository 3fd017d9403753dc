//! BATCH, and the answers to GET and SCAN.

use super::reader::{Read, Reader};
use super::{bad_frame, Span};

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) input: u32,
    /// Into the keys of the batch; `None` is a record without key.
    pub(crate) key: Option<u32>,
    pub(crate) attempt: u32,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) value: Option<Span>,
    /// MessagePack, read when asked for.
    pub(crate) headers: Option<Span>,
}

/// What came along for a key of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Value(Span),
    NotSent,
}

/// A BATCH: its payload, and where things are in it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) payload: Vec<u8>,
    pub(crate) seq: u64,
    pub(crate) task: i32,
    pub(crate) flags: u32,
    pub(crate) keys: Vec<Span>,
    pub(crate) items: Vec<Item>,
    /// By store id; `None` where a store's values did not come along.
    pub(crate) state: Vec<Option<Vec<State>>>,
    pub(crate) watermark: Option<i64>,
}

/// The extension of a value that was not sent along.
const NOT_SENT: i8 = 1;

impl Batch {
    /// Reads what follows the kind, which ends at `at`; `fields` are those after it. `stores` and `inputs` are how many
    /// WELCOME declared.
    pub(crate) fn read(payload: Vec<u8>, at: usize, fields: usize, stores: usize, inputs: usize) -> Read<Batch> {
        let mut batch = Batch {
            payload: Vec::new(),
            seq: 0,
            task: 0,
            flags: 0,
            keys: Vec::new(),
            items: Vec::new(),
            state: vec![None; stores],
            watermark: None,
        };
        let mut reader = Reader::new(&payload);
        reader.start_at(at);
        batch.fill(&mut reader, fields, inputs)?;
        reader.end()?;
        batch.payload = payload;
        Ok(batch)
    }

    fn fill(&mut self, reader: &mut Reader<'_>, fields: usize, inputs: usize) -> Read<()> {
        let mut left =
            fields.checked_sub(6).ok_or_else(|| bad_frame(format!("BATCH has {fields} fields, at least 6 are needed")))?;
        self.seq = reader.u64("BATCH seq")?;
        self.task = reader.index("BATCH task")?;
        self.flags = reader.u32("BATCH flags")?;
        let keys = reader.list("BATCH keys")?;
        self.keys.reserve(keys);
        for _ in 0..keys {
            self.keys.push(reader.span("BATCH key")?);
        }
        let items = reader.list("BATCH items")?;
        self.items.reserve(items);
        for _ in 0..items {
            self.items.push(read_item(reader, keys, inputs)?);
        }
        for _ in 0..reader.map("BATCH state")? {
            self.read_state(reader)?;
        }
        if reader.more(&mut left) {
            self.watermark = Some(reader.i64("BATCH watermark")?);
        }
        reader.skip(left)
    }

    fn read_state(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        let store = reader.u32("BATCH state")? as usize;
        let stores = self.state.len();
        let Some(column) = self.state.get_mut(store) else {
            return Err(bad_frame(format!("BATCH has state of store {store}, there are {stores}")));
        };
        let count = reader.list("BATCH state")?;
        if count != self.keys.len() || column.is_some() {
            return Err(bad_frame(format!("BATCH: the state of store {store} is not aligned with its keys")));
        }
        let values: Read<Vec<State>> = (0..count).map(|_| read_state_value(reader)).collect();
        *column = Some(values?);
        Ok(())
    }

    pub(crate) fn key(&self, index: u32) -> &[u8] {
        self.keys[index as usize].of(&self.payload)
    }
}

fn read_item(reader: &mut Reader<'_>, keys: usize, inputs: usize) -> Read<Item> {
    let count = reader.fields("BATCH item", 1)?;
    let kind = reader.i64("BATCH item")?;
    if kind != 0 {
        return Err(bad_frame(format!("BATCH has an item of kind {kind}, which is not supported yet")));
    }
    let mut left = count
        .checked_sub(6)
        .ok_or_else(|| bad_frame(format!("BATCH has a record with {} fields, at least 7 are needed", count + 1)))?;
    let mut item = Item {
        input: reader.u32("record input")?,
        offset: reader.i64("record offset")?,
        timestamp: reader.i64("record timestamp")?,
        key: None,
        value: None,
        headers: None,
        attempt: 1,
    };
    if !reader.take_nil() {
        item.key = Some(reader.u32("record key index")?);
    }
    item.value = reader.maybe_span("record value")?;
    if !reader.take_nil() {
        let start = reader.position();
        skip_headers(reader)?;
        item.headers = Some(Span::new(start, reader.position()));
    }
    if reader.more(&mut left) {
        item.attempt = reader.u32("record attempt")?;
    }
    reader.skip(left)?;
    if item.input as usize >= inputs {
        return Err(bad_frame(format!("BATCH names input {}, there are {inputs}", item.input)));
    }
    if let Some(key) = item.key.filter(|key| *key as usize >= keys) {
        return Err(bad_frame(format!("BATCH names key {key}, it has {keys}")));
    }
    if item.offset < 0 {
        return Err(bad_frame(format!("BATCH has a record with offset {}", item.offset)));
    }
    Ok(item)
}

/// Goes over `[[name, value]]`, checking it.
fn skip_headers(reader: &mut Reader<'_>) -> Read<()> {
    for _ in 0..reader.list("record headers")? {
        let more = reader.fields("record header", 2)?;
        reader.bytes("header name")?;
        reader.maybe_bytes("header value")?;
        reader.skip(more)?;
    }
    Ok(())
}

fn read_state_value(reader: &mut Reader<'_>) -> Read<State> {
    if reader.take_nil() {
        return Ok(State::Absent);
    }
    match reader.maybe_extension("BATCH state")? {
        None => Ok(State::Value(reader.span("BATCH state")?)),
        Some(NOT_SENT) => Ok(State::NotSent),
        Some(other) => Err(bad_frame(format!("BATCH state has an extension of type {other}"))),
    }
}

/// VALUES or ROWS: the answer to a GET or a SCAN.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) payload: Vec<u8>,
    pub(crate) seq: u64,
    pub(crate) rid: u64,
    pub(crate) content: Content,
    pub(crate) error: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Values(Vec<Option<Span>>),
    Rows { rows: Vec<(Span, Span)>, cursor: Option<Span> },
}

impl Answer {
    /// Like [`Batch::read`].
    pub(crate) fn read(payload: Vec<u8>, at: usize, fields: usize, rows: bool) -> Read<Answer> {
        let mut reader = Reader::new(&payload);
        reader.start_at(at);
        let least = if rows { 4 } else { 3 };
        let mut left = fields
            .checked_sub(least)
            .ok_or_else(|| bad_frame(format!("an answer has {fields} fields, at least {least} are needed")))?;
        let (seq, rid) = (reader.u64("seq")?, reader.u64("rid")?);
        let content = if rows { read_rows(&mut reader)? } else { read_values(&mut reader)? };
        let error = if reader.more(&mut left) { Some(reader.text("error")?) } else { None };
        reader.skip(left)?;
        reader.end()?;
        Ok(Answer { payload, seq, rid, content, error })
    }
}

fn read_values(reader: &mut Reader<'_>) -> Read<Content> {
    let count = reader.list("VALUES")?;
    let values: Read<Vec<_>> = (0..count).map(|_| reader.maybe_span("value")).collect();
    Ok(Content::Values(values?))
}

fn read_rows(reader: &mut Reader<'_>) -> Read<Content> {
    let count = reader.list("ROWS")?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let more = reader.fields("row", 2)?;
        rows.push((reader.span("key")?, reader.span("value")?));
        reader.skip(more)?;
    }
    Ok(Content::Rows { rows, cursor: reader.maybe_span("cursor")? })
}
