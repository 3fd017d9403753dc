//! Time in the test kit: stream time, windows, sessions, timers, as the sidecar has them.

use super::{Failed, Rows, TestKit};
use crate::schema::session_suffix;
use crate::wire::reader::{Read, Reader};
use crate::wire::write;
use std::collections::{BTreeMap, BTreeSet};

/// A store of type `Window` for [`Setup`](super::Setup). Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestWindows<'a> {
    /// The store's name.
    pub name: &'a str,
    /// How long a window is.
    pub size: i64,
    /// From one beginning to the next; 0: `size`.
    pub advance: i64,
    /// How long a window stays open behind its end.
    pub grace: i64,
    /// `emit: Final`: each is told once, when it closes.
    pub closes: bool,
}

/// A store of type `Session` for [`Setup`](super::Setup).
#[derive(Clone, Copy, Debug, Default)]
pub struct TestSessions<'a> {
    /// The store's name.
    pub name: &'a str,
    /// Milliseconds between two records that are no longer of one session.
    pub gap: i64,
    /// How long a session that closes takes late records behind its end and gap.
    pub grace: i64,
    /// `emit: Final`: each is told once, when it closes. Those that do not close take every record.
    pub closes: bool,
}

/// A timer that is not due yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingTimer {
    /// When it will be, in milliseconds since 1970.
    pub time: i64,
    /// Its name.
    pub name: String,
    /// Its key, as bytes.
    pub key: Vec<u8>,
    /// Whether it is one of the sidecar's clock, which is [`TestKit::now`].
    pub wall_clock: bool,
}

/// What a table is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spec {
    Keys,
    Windows { size: i64, advance: i64, grace: i64, closes: bool },
    Sessions { gap: i64, grace: i64, closes: bool },
}

impl Spec {
    pub(super) fn windows(windows: &TestWindows<'_>) -> Spec {
        let TestWindows { size, advance, grace, closes, .. } = *windows;
        assert!(size > 0 && advance >= 0 && grace >= 0, "windows \"{}\": a size and no negative times", windows.name);
        Spec::Windows { size, advance: if advance > 0 { advance } else { size }, grace, closes }
    }

    pub(super) fn sessions(sessions: &TestSessions<'_>) -> Spec {
        let TestSessions { gap, grace, closes, .. } = *sessions;
        assert!(gap >= 0 && grace >= 0, "sessions \"{}\": no negative times", sessions.name);
        Spec::Sessions { gap, grace, closes }
    }

    /// The stream time at which a row is told; `None`: never.
    fn closes_at(self, row: &[u8]) -> Option<i64> {
        match self {
            Spec::Keys => None,
            _ => self.closes(self.bounds(row)),
        }
    }

    fn closes(self, (_, end): (i64, i64)) -> Option<i64> {
        match self {
            Spec::Windows { grace, closes: true, .. } => Some(end.saturating_add(grace)),
            Spec::Sessions { gap, grace, closes: true } => Some(end.saturating_add(gap + grace + 1)),
            _ => None,
        }
    }

    /// The start and end in the key of a row.
    fn bounds(self, row: &[u8]) -> (i64, i64) {
        match self {
            Spec::Windows { size, .. } => {
                let start = integer(&row[row.len() - 8..]);
                (start, start.saturating_add(size))
            }
            _ => (integer(&row[row.len() - 16..row.len() - 8]) ^ i64::MIN, integer(&row[row.len() - 8..]) ^ i64::MIN),
        }
    }

    fn suffix(self) -> usize {
        match self {
            Spec::Keys => 0,
            Spec::Windows { .. } => 8,
            Spec::Sessions { .. } => 16,
        }
    }
}

#[derive(Default)]
pub(super) struct Time {
    pub(super) specs: Vec<Spec>,
    /// How far event time has come.
    pub(super) stream: Option<i64>,
    /// By clock, name and key.
    pub(super) timers: BTreeMap<(bool, String, Vec<u8>), i64>,
    /// Table and row of windows and sessions that were told.
    pub(super) closed: BTreeSet<(usize, Vec<u8>)>,
}

/// A window or session of a record: its bounds, and what a session is made of.
struct Open {
    table: usize,
    bounds: (i64, i64),
    parts: Vec<(i64, i64)>,
}

fn integer(data: &[u8]) -> i64 {
    data.try_into().map_or(0, i64::from_be_bytes)
}

/// The rows of a key in a table of windows or sessions: start, end, value.
pub(super) fn rows_of<'t>(table: &'t Rows, spec: Spec, key: &[u8]) -> Vec<(i64, i64, &'t [u8])> {
    let whole = key.len() + spec.suffix();
    let rows = table.range(key.to_vec()..).take_while(|(row, _)| row.starts_with(key)).filter(|(row, _)| row.len() == whole);
    rows.map(|(row, value)| {
        let (start, end) = spec.bounds(row);
        (start, end, &value[..])
    })
    .collect()
}

impl TestKit {
    /// How far event time has come, in milliseconds since 1970: the highest timestamp so far.
    pub fn stream_time(&self) -> Option<i64> {
        self.time.stream
    }

    /// The timers that are set, the next one first.
    pub fn timers(&self) -> Vec<PendingTimer> {
        let pending = self.time.timers.iter().map(|((wall_clock, name, key), time)| PendingTimer {
            time: *time,
            name: name.clone(),
            key: key.clone(),
            wall_clock: *wall_clock,
        });
        let mut pending: Vec<PendingTimer> = pending.collect();
        pending.sort();
        pending
    }

    /// Lets the clock go on, and with it the timers that are due by it.
    ///
    /// # Errors
    /// The failure of a timer; those behind it are still pending.
    pub fn advance(&mut self, milliseconds: i64) -> Result<(), Failed> {
        self.now += milliseconds;
        self.run_due()
    }

    /// One record was handled.
    pub(super) fn time_passes(&mut self, timestamp: i64) -> Result<(), Failed> {
        self.time.stream = Some(self.time.stream.map_or(timestamp, |time| time.max(timestamp)));
        self.run_due()
    }

    /// Closings first, each with its time, then timers, then rows of visits; what they make due follows.
    pub(super) fn run_due(&mut self) -> Result<(), Failed> {
        loop {
            if let Some((table, row)) = self.next_closing() {
                let spec = self.time.specs[table];
                let (start, end) = spec.bounds(&row);
                let key = row[..row.len() - spec.suffix()].to_vec();
                let value = self.tables[table].get(&row).cloned();
                self.time.closed.insert((table, row.clone()));
                let mut item = Vec::new();
                write::put_array(&mut item, 7);
                for number in [2, table as i64, 0, start, end] {
                    write::put_i64(&mut item, number);
                }
                write::put_maybe(&mut item, value.as_deref());
                write::put_u64(&mut item, 1);
                let name = self.schema.tables[table].name.clone();
                self.run_one(&key, &item, name)?;
            } else if let Some(timer) = self.next_timer() {
                self.time.timers.remove(&(timer.wall_clock, timer.name.clone(), timer.key.clone()));
                let mut item = Vec::new();
                write::put_array(&mut item, 6);
                for number in [1, 0, i64::from(timer.wall_clock)] {
                    write::put_i64(&mut item, number);
                }
                write::put_text(&mut item, &timer.name);
                write::put_i64(&mut item, timer.time);
                write::put_u64(&mut item, 1);
                self.run_one(&timer.key, &item, timer.name)?;
            } else if !self.run_visited()? {
                return Ok(());
            }
        }
    }

    fn next_closing(&self) -> Option<(usize, Vec<u8>)> {
        let now = self.time.stream?;
        let mut due: Vec<(i64, usize, &Vec<u8>)> = Vec::new();
        for (table, spec) in self.time.specs.iter().enumerate() {
            for row in self.tables[table].keys() {
                let Some(at) = spec.closes_at(row) else { break };
                if at <= now && !self.time.closed.contains(&(table, row.clone())) {
                    due.push((at, table, row));
                }
            }
        }
        due.into_iter().min().map(|(_, table, row)| (table, row.clone()))
    }

    fn next_timer(&self) -> Option<PendingTimer> {
        let due = |timer: &PendingTimer| match timer.wall_clock {
            true => timer.time <= self.now,
            false => self.time.stream.is_some_and(|now| timer.time <= now),
        };
        self.timers().into_iter().find(due)
    }

    /// A timer or a closing; `name` stands for the input of its failure.
    fn run_one(&mut self, key: &[u8], item: &[u8], name: String) -> Result<(), Failed> {
        let payload = self.batch_of(&[key], item, 1);
        match self.run_payload(payload) {
            (_, None) => Ok(()),
            (_, Some(failed)) => {
                let failed = Failed { input: name, ..failed };
                self.failures.push(failed.clone());
                Err(failed)
            }
        }
    }

    // -- windows of a record

    fn open_windows(&self, key: Option<&[u8]>, timestamp: i64) -> Vec<Open> {
        let mut open = Vec::new();
        let Some(key) = key else { return open };
        for (table, spec) in self.time.specs.iter().enumerate() {
            match *spec {
                Spec::Keys => {}
                Spec::Windows { size, advance, grace, .. } => {
                    let last = timestamp.div_euclid(advance) * advance;
                    let count = (size - (timestamp - last) + advance - 1).div_euclid(advance);
                    let starts = (0..count).rev().map(|back| last - back * advance);
                    let is_open = |start: &i64| self.time.stream.map_or(true, |now| start + size + grace > now);
                    let windows =
                        starts.filter(is_open).map(|start| Open { table, bounds: (start, start + size), parts: Vec::new() });
                    open.extend(windows);
                }
                Spec::Sessions { gap, .. } => {
                    let near = |(start, end): &(i64, i64)| *start <= timestamp + gap && *end >= timestamp - gap;
                    let rows = rows_of(&self.tables[table], *spec, key).into_iter().map(|(start, end, _)| (start, end));
                    let mut parts: Vec<(i64, i64)> = rows.filter(near).collect();
                    parts.sort_unstable();
                    let start = parts.first().map_or(timestamp, |part| part.0.min(timestamp));
                    let end = parts.iter().map(|part| part.1).fold(timestamp, i64::max);
                    // One that was given stays as it is: who would reach it is late.
                    let over = |bounds: (i64, i64)| spec.closes(bounds).zip(self.time.stream).is_some_and(|(at, now)| at <= now);
                    if !over((start, end)) && !parts.iter().any(|part| over(*part)) {
                        open.push(Open { table, bounds: (start, end), parts });
                    }
                }
            }
        }
        open
    }

    /// The last field of a record.
    pub(super) fn put_windows(&self, key: Option<&[u8]>, timestamp: i64, out: &mut Vec<u8>) {
        let open = self.open_windows(key, timestamp);
        write::put_array(out, open.len() as u32);
        for window in open {
            let is_session = matches!(self.time.specs[window.table], Spec::Sessions { .. });
            write::put_array(out, if is_session { 4 } else { 3 });
            for number in [window.table as i64, window.bounds.0, window.bounds.1] {
                write::put_i64(out, number);
            }
            if is_session {
                write::put_array(out, window.parts.len() as u32);
                for (start, end) in window.parts {
                    write::put_array(out, 2);
                    write::put_i64(out, start);
                    write::put_i64(out, end);
                }
            }
        }
    }

    /// The state of a key in a table of windows or sessions.
    pub(super) fn put_rows(&self, table: usize, key: &[u8], out: &mut Vec<u8>) {
        let rows = rows_of(&self.tables[table], self.time.specs[table], key);
        write::put_array(out, rows.len() as u32);
        for (start, end, value) in rows {
            write::put_array(out, 3);
            write::put_i64(out, start);
            write::put_i64(out, end);
            write::put_bytes(out, value);
        }
    }

    /// What the sidecar does with sessions once their record was handled; `before` is [`TestKit::sessions_before`].
    pub(super) fn settle_sessions(&mut self, before: Sessions) {
        for (table, key, bounds, parts) in before {
            let row = |(start, end): (i64, i64)| [&key[..], &session_suffix(start, end)].concat();
            parts.into_iter().filter(|part| *part != bounds).for_each(|part| {
                self.tables[table].remove(&row(part));
            });
            self.tables[table].entry(row(bounds)).or_default();
        }
    }

    pub(super) fn sessions_before(&self, key: Option<&[u8]>, timestamp: i64) -> Sessions {
        let Some(key) = key else { return Vec::new() };
        let open = self.open_windows(Some(key), timestamp).into_iter();
        open.filter(|window| matches!(self.time.specs[window.table], Spec::Sessions { .. }))
            .map(|session| (session.table, key.to_vec(), session.bounds, session.parts))
            .collect()
    }

    /// The field of a RESULT.
    pub(super) fn apply_timers(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        for _ in 0..reader.list("timers")? {
            reader.fields("timer", 4)?;
            let key = reader.bytes("key")?.to_vec();
            let id = (reader.u32("clock")? == 1, reader.text("name")?, key);
            if reader.take_nil() {
                self.time.timers.remove(&id);
            } else {
                let time = reader.i64("time")?;
                self.time.timers.insert(id, time);
            }
        }
        Ok(())
    }
}

/// Table, key, bounds and parts of the sessions of a record.
pub(super) type Sessions = Vec<(usize, Vec<u8>, (i64, i64), Vec<(i64, i64)>)>;
