//! BATCH, and the answers to GET and SCAN.

use super::reader::{Read, Reader};
use super::{bad_frame, Span};

/// What WELCOME allows in a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) inputs: usize,
    /// By the id of what can be read.
    pub(crate) tables: Vec<Rows>,
    pub(crate) timers: bool,
    /// How many there are.
    pub(crate) visits: usize,
}

/// What the keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Keys,
    /// A key and the start of a window.
    Windows {
        closes: bool,
    },
    /// A key, the start and the end of a session.
    Sessions {
        closes: bool,
    },
}

impl Rows {
    pub(crate) fn are_sessions(self) -> bool {
        matches!(self, Rows::Sessions { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Record,
    Timer,
    /// A window or session that closes.
    Closing,
    /// A row that is visited; without a key the end of the visit.
    Visit,
    /// None: what a hook has in its place.
    Hook,
}

/// One item of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) kind: ItemKind,
    /// The id of a record's input, of a window's store, of a visit.
    pub(crate) of: u32,
    /// Into the keys of the batch; `None` is a record without key, or the end of a visit.
    pub(crate) key: Option<u32>,
    pub(crate) attempt: u32,
    /// Of a record; a window's start.
    pub(crate) offset: i64,
    /// What outputs get: a record's timestamp, a timer's time, a window's end - 1, the start of a visit.
    pub(crate) timestamp: i64,
    /// Of a visit what it was started with.
    pub(crate) value: Option<Span>,
    /// MessagePack, read when asked for.
    pub(crate) headers: Option<Span>,
    /// Of a timer.
    pub(crate) name: Option<Span>,
    pub(crate) wall_clock: bool,
    /// The part of the batch's windows that are this item's.
    pub(crate) windows: (u32, u32),
}

impl Item {
    fn new(kind: ItemKind) -> Item {
        Item {
            kind,
            of: 0,
            key: None,
            attempt: 1,
            offset: 0,
            timestamp: 0,
            value: None,
            headers: None,
            name: None,
            wall_clock: false,
            windows: (0, 0),
        }
    }
}

/// A window or session that takes a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenWindow {
    pub(crate) table: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The part of the batch's parts that a session is made of.
    pub(crate) parts: (u32, u32),
}

/// The values that came along for a table.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// Aligned with the keys.
    Values(Vec<State>),
    /// Of windows and sessions: index of the key, start, end.
    Rows(Vec<(u32, i64, i64, State)>),
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
    /// By the id of what can be read; `None` where its values did not come along.
    pub(crate) state: Vec<Option<Column>>,
    pub(crate) watermark: Option<i64>,
    /// Of all items, one after the other.
    pub(crate) windows: Vec<OpenWindow>,
    /// Start and end of what sessions are made of.
    pub(crate) parts: Vec<(i64, i64)>,
    /// Whether an item is a timer.
    pub(crate) has_timers: bool,
}

/// The extension of a value that was not sent along.
const NOT_SENT: i8 = 1;

impl Batch {
    /// One of no items.
    pub(crate) fn empty(seq: u64, task: i32, tables: usize) -> Batch {
        Batch {
            payload: Vec::new(),
            seq,
            task,
            flags: 0,
            keys: Vec::new(),
            items: Vec::new(),
            state: vec![None; tables],
            watermark: None,
            windows: Vec::new(),
            parts: Vec::new(),
            has_timers: false,
        }
    }

    /// For BEGIN and FINALIZE.
    pub(crate) fn hook(seq: u64, task: i32, tables: usize) -> Batch {
        Batch { items: vec![Item::new(ItemKind::Hook)], ..Batch::empty(seq, task, tables) }
    }

    /// Reads what follows the kind, which ends at `at`; `fields` are those after it.
    pub(crate) fn read(payload: Vec<u8>, at: usize, fields: usize, shape: &Shape) -> Read<Batch> {
        let mut batch = Batch::empty(0, 0, shape.tables.len());
        let mut reader = Reader::new(&payload);
        reader.start_at(at);
        batch.fill(&mut reader, fields, shape)?;
        reader.end()?;
        batch.payload = payload;
        Ok(batch)
    }

    fn fill(&mut self, reader: &mut Reader<'_>, fields: usize, shape: &Shape) -> Read<()> {
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
            self.read_item(reader, shape)?;
        }
        for _ in 0..reader.map("BATCH state")? {
            self.read_state(reader, shape)?;
        }
        if reader.more(&mut left) {
            self.watermark = Some(reader.i64("BATCH watermark")?);
        }
        reader.skip(left)
    }

    fn read_item(&mut self, reader: &mut Reader<'_>, shape: &Shape) -> Read<()> {
        let count = reader.fields("BATCH item", 1)?;
        let kind = reader.i64("BATCH item")?;
        let least = match kind {
            0 | 2 => 6,
            1 | 3 => 5,
            _ => return Err(bad_frame(format!("BATCH has an item of kind {kind}"))),
        };
        let mut left = count
            .checked_sub(least)
            .ok_or_else(|| bad_frame(format!("BATCH has an item of {} fields, at least {} are needed", count + 1, least + 1)))?;
        let item = match kind {
            0 => self.read_record(reader, &mut left, shape)?,
            1 => self.read_timer(reader, shape)?,
            3 => read_visited(reader, shape)?,
            _ => self.read_closing(reader, shape)?,
        };
        reader.skip(left)?;
        if let Some(key) = item.key.filter(|key| *key as usize >= self.keys.len()) {
            return Err(bad_frame(format!("BATCH names key {key}, it has {}", self.keys.len())));
        }
        self.items.push(item);
        Ok(())
    }

    fn read_record(&mut self, reader: &mut Reader<'_>, left: &mut usize, shape: &Shape) -> Read<Item> {
        let mut item = Item::new(ItemKind::Record);
        item.of = reader.u32("record input")?;
        item.offset = reader.i64("record offset")?;
        item.timestamp = reader.i64("record timestamp")?;
        if !reader.take_nil() {
            item.key = Some(reader.u32("record key index")?);
        }
        item.value = reader.maybe_span("record value")?;
        if !reader.take_nil() {
            let start = reader.position();
            skip_headers(reader)?;
            item.headers = Some(Span::new(start, reader.position()));
        }
        if reader.more(left) {
            item.attempt = reader.u32("record attempt")?;
        }
        // Whatever it is where no table is windowed: a later version's.
        if shape.tables.iter().any(|rows| *rows != Rows::Keys) && reader.more(left) {
            item.windows = self.read_windows(reader, shape)?;
        }
        if item.of as usize >= shape.inputs {
            return Err(bad_frame(format!("BATCH names input {}, there are {}", item.of, shape.inputs)));
        }
        if item.offset < 0 {
            return Err(bad_frame(format!("BATCH has a record with offset {}", item.offset)));
        }
        Ok(item)
    }

    /// `[[store, start, end, [[start, end]]?]]`
    fn read_windows(&mut self, reader: &mut Reader<'_>, shape: &Shape) -> Read<(u32, u32)> {
        let first = self.windows.len() as u32;
        for _ in 0..reader.list("record windows")? {
            let mut more = reader.fields("window", 3)?;
            let table = reader.u32("window store")?;
            let (start, end) = (reader.i64("window start")?, reader.i64("window end")?);
            let first_part = self.parts.len() as u32;
            match shape.tables.get(table as usize) {
                Some(Rows::Windows { .. }) => {}
                Some(Rows::Sessions { .. }) if more > 0 => {
                    more -= 1;
                    for _ in 0..reader.list("session parts")? {
                        let further = reader.fields("session part", 2)?;
                        self.parts.push((reader.i64("part start")?, reader.i64("part end")?));
                        reader.skip(further)?;
                    }
                }
                _ => return Err(bad_frame(format!("BATCH has a window of store {table}, which has none such"))),
            }
            reader.skip(more)?;
            self.windows.push(OpenWindow { table, start, end, parts: (first_part, self.parts.len() as u32) });
        }
        Ok((first, self.windows.len() as u32))
    }

    fn read_timer(&mut self, reader: &mut Reader<'_>, shape: &Shape) -> Read<Item> {
        if !shape.timers {
            return Err(bad_frame("BATCH has a timer, which WELCOME did not announce"));
        }
        self.has_timers = true;
        let mut item = Item::new(ItemKind::Timer);
        item.key = Some(reader.u32("timer key index")?);
        item.wall_clock = match reader.u32("timer clock")? {
            0 => false,
            1 => true,
            clock => return Err(bad_frame(format!("BATCH has a timer of clock {clock}"))),
        };
        item.name = Some(reader.span("timer name")?);
        item.timestamp = reader.i64("timer time")?;
        item.attempt = reader.u32("timer attempt")?;
        Ok(item)
    }

    fn read_closing(&mut self, reader: &mut Reader<'_>, shape: &Shape) -> Read<Item> {
        let mut item = Item::new(ItemKind::Closing);
        item.of = reader.u32("closing store")?;
        let session = match shape.tables.get(item.of as usize) {
            Some(Rows::Windows { closes: true }) => false,
            Some(Rows::Sessions { closes: true }) => true,
            _ => return Err(bad_frame(format!("BATCH closes a window of store {}, which WELCOME did not announce", item.of))),
        };
        item.key = Some(reader.u32("closing key index")?);
        item.offset = reader.i64("closing start")?;
        let end = reader.i64("closing end")?;
        // A session ends with its last record, a window before its end.
        item.timestamp = if session { end } else { end.saturating_sub(1) };
        item.value = match read_state_value(reader)? {
            State::Value(span) => Some(span),
            State::Absent | State::NotSent => None, // asked for before the batch is run
        };
        item.attempt = reader.u32("closing attempt")?;
        let first = self.windows.len() as u32;
        let part = self.parts.len() as u32;
        if session {
            self.parts.push((item.offset, end)); // made of itself
        }
        self.windows.push(OpenWindow { table: item.of, start: item.offset, end, parts: (part, self.parts.len() as u32) });
        item.windows = (first, first + 1);
        Ok(item)
    }

    fn read_state(&mut self, reader: &mut Reader<'_>, shape: &Shape) -> Read<()> {
        let table = reader.u32("BATCH state")? as usize;
        let Some(rows) = shape.tables.get(table) else {
            return Err(bad_frame(format!("BATCH has state of store {table}, there are {}", shape.tables.len())));
        };
        let count = reader.list("BATCH state")?;
        if count != self.keys.len() || self.state[table].is_some() {
            return Err(bad_frame(format!("BATCH: the state of store {table} is not aligned with its keys")));
        }
        self.state[table] = Some(if *rows == Rows::Keys {
            Column::Values((0..count).map(|_| read_state_value(reader)).collect::<Read<_>>()?)
        } else {
            let mut found = Vec::new();
            for key in 0..count as u32 {
                for _ in 0..reader.list("BATCH state rows")? {
                    let more = reader.fields("row", 3)?;
                    found.push((key, reader.i64("row start")?, reader.i64("row end")?, read_state_value(reader)?));
                    reader.skip(more)?;
                }
            }
            Column::Rows(found)
        });
        Ok(())
    }

    pub(crate) fn key(&self, index: u32) -> &[u8] {
        self.keys[index as usize].of(&self.payload)
    }
}

fn read_visited(reader: &mut Reader<'_>, shape: &Shape) -> Read<Item> {
    let mut item = Item::new(ItemKind::Visit);
    item.of = reader.u32("visit")?;
    if item.of as usize >= shape.visits {
        return Err(bad_frame(format!("BATCH has a row of visit {}, there are {}", item.of, shape.visits)));
    }
    if !reader.take_nil() {
        item.key = Some(reader.u32("visit key index")?);
    }
    item.timestamp = reader.i64("visit time")?;
    item.value = reader.maybe_span("visit data")?;
    item.attempt = reader.u32("visit attempt")?;
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
