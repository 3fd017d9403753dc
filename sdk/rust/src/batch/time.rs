//! Windows, sessions and timers of a batch.

use super::{in_arena, KeyRef, Known, Place, Run, Slot, Task, NO_OP};
use crate::error::{Error, HandlerError, HandlerResult};
use crate::wire::batch::{Item, ItemKind, OpenWindow};
use crate::wire::write;
use std::collections::HashMap;

/// Values of closing windows and sessions that did not travel with the batch, by the index of the item: asked for before the items are run,
/// so that handlers borrow them as they do those that came along.
pub(super) struct LateValues(HashMap<usize, Result<Vec<u8>, String>>);

impl LateValues {
    /// The only error is that of a batch that no longer counts; what else goes wrong fails its item.
    pub(super) fn fetch(task: &Task<'_>) -> Result<LateValues, Error> {
        let mut values = HashMap::new();
        for (index, item) in task.batch.items.iter().enumerate() {
            let (ItemKind::Closing, None, Some(key)) = (item.kind, item.value, item.key) else { continue };
            let mut row = task.batch.key(key).to_vec();
            let closing = &task.batch.windows[item.windows.0 as usize];
            task.schema.put_row_suffix(item.of as usize, closing.start, closing.end, &mut row);
            let value = match task.link.get(item.of as usize, &[&row]) {
                Ok(answer) => match answer.values.first() {
                    Some(Some(span)) => Ok(span.of(&answer.payload).to_vec()),
                    _ if task.schema.shape.tables[item.of as usize].are_sessions() => Ok(Vec::new()), // it has none
                    _ => Err("the window that closes is gone".to_owned()),
                },
                Err(Error::Void) => return Err(Error::Void),
                Err(Error::State(message)) => Err(message),
                Err(other) => Err(other.to_string()),
            };
            values.insert(index, value);
        }
        Ok(LateValues(values))
    }
}

impl<'b> Run<'b> {
    /// The value of the window or session that closes; of a session empty if it has none.
    pub(crate) fn closing_value(&self) -> Result<&'b [u8], Error> {
        if let Some(span) = self.item().value {
            return Ok(span.of(&self.batch.payload));
        }
        match self.late.0.get(&self.index) {
            Some(Ok(value)) => Ok(value),
            Some(Err(message)) => Err(Error::State(message.clone())),
            None => Ok(&[]),
        }
    }

    /// The windows of a table that take this item.
    pub(crate) fn windows(&self, table: usize) -> impl Iterator<Item = &'b OpenWindow> {
        let (first, end) = self.item().windows;
        self.batch.windows[first as usize..end as usize].iter().filter(move |window| window.table as usize == table)
    }

    pub(crate) fn parts(&self, session: &OpenWindow) -> &'b [(i64, i64)] {
        &self.batch.parts[session.parts.0 as usize..session.parts.1 as usize]
    }

    /// The row of a window or session of the item's own key; `None` where it has none.
    pub(crate) fn own_row(&mut self, table: usize, start: i64, end: i64) -> Option<KeyRef> {
        let item = self.item();
        let key_index = item.key?;
        self.fill_slots(table);
        let arena = &mut self.buffers.arena;
        let from = arena.len();
        arena.extend_from_slice(self.batch.key(key_index));
        self.schema.put_row_suffix(table, start, end, arena);
        let key = in_arena(arena, from).ok()?;
        let id = self.schema.row_id(table, key_index, start, end);
        if let Some(slot) = self.stores[table].rows.get(&id) {
            return Some(KeyRef { store: table, slot: *slot, key });
        }
        let came_along = self.batch.state[table].is_some();
        let named = self
            .windows(table)
            .any(|window| (window.start, window.end) == (start, end) || self.parts(window).contains(&(start, end)));
        let known = match item.value {
            Some(value) if item.kind == ItemKind::Closing && named => Known::Value(Place::Frame(value)),
            None if item.kind == ItemKind::Closing && named => Known::Unknown,
            _ if named && came_along => Known::Absent,
            _ => Known::Unknown,
        };
        let run = &mut self.stores[table];
        let slot = run.slots.len() as u32;
        run.slots.push(Slot { known, op: NO_OP });
        run.rows.insert(id, slot);
        Some(KeyRef { store: table, slot, key })
    }

    /// The values of what a session is made of; of the session itself, once this item has written it.
    pub(crate) fn session_values(&mut self, session: &OpenWindow, ops_before: usize) -> Result<Vec<Place>, Error> {
        let table = session.table as usize;
        let mut rows = self.parts(session).to_vec();
        if self.was_written(session, ops_before) {
            rows = vec![(session.start, session.end)];
        }
        let mut wanted = Vec::new();
        for (start, end) in rows {
            wanted.extend(self.own_row(table, start, end));
        }
        let missing: Vec<KeyRef> = wanted.iter().filter(|at| matches!(self.known(**at), Known::Unknown)).copied().collect();
        self.fetch(&missing)?;
        let values = wanted.into_iter().filter_map(|at| match self.known(at) {
            // An empty value is a session without one.
            Known::Value(value) if value.len() > 0 => Some(value),
            _ => None,
        });
        Ok(values.collect())
    }

    fn was_written(&mut self, session: &OpenWindow, ops_before: usize) -> bool {
        let table = session.table as usize;
        self.own_row(table, session.start, session.end).is_some_and(|at| {
            let op = self.stores[table].slots[at.slot as usize].op;
            op != NO_OP && op as usize >= ops_before
        })
    }

    /// How many writes there were before this item.
    pub(crate) fn ops_before_item(&self) -> usize {
        let index = self.index as u32;
        self.buffers.ops.partition_point(|op| op.item < index)
    }

    /// Sessions that the handler did not write keep their value, or get it from what they are made of.
    pub(super) fn finish_sessions(&mut self, ops_before: usize) -> HandlerResult {
        let (first, end) = self.item().windows;
        for session in &self.batch.windows[first as usize..end as usize] {
            let table = session.table as usize;
            if !self.schema.shape.tables[table].are_sessions() || self.was_written(session, ops_before) {
                continue;
            }
            let values = self.session_values(session, ops_before)?;
            let merged = match values[..] {
                [] => continue,
                [_] if self.parts(session) == [(session.start, session.end)] => continue,
                [value] => value,
                _ => self.merge(table, &values)?,
            };
            if let Some(at) = self.own_row(table, session.start, session.end) {
                self.write(at, Some(merged));
            }
        }
        Ok(())
    }

    fn merge(&mut self, table: usize, values: &[Place]) -> Result<Place, HandlerError> {
        let schema = self.schema;
        let name = &schema.tables[table].name;
        let Some(merge) = &schema.merges[table] else {
            return Err(HandlerError::new(format!(
                "store \"{name}\": a record connects {} sessions with values, and nobody says what becomes of them; \
                 write the session's value in the handler, or register .merge_sessions(&STORE, ...)",
                values.len()
            )));
        };
        let mut merged = Vec::new();
        merge(&values.iter().map(|value| self.bytes(*value)).collect::<Vec<_>>(), &mut merged).map_err(HandlerError::new)?;
        let most = schema.tables[table].max_bytes;
        if merged.len() as i64 > most {
            let size = merged.len();
            return Err(Error::output(format!("store \"{name}\": the merged value has {size} bytes, the limit is {most}")).into());
        }
        let arena = &mut self.buffers.arena;
        let start = arena.len();
        arena.extend_from_slice(&merged);
        in_arena(arena, start).map_err(HandlerError::new)
    }

    /// Stages a timer; `None` cancels.
    pub(crate) fn set_timer(&mut self, key: Place, wall_clock: bool, name: &str, time: Option<i64>) {
        let mut timers = std::mem::take(&mut self.buffers.timers);
        let before = timers.len();
        write::put_timer(&mut timers, self.bytes(key), wall_clock, name, time);
        if self.batch.has_timers {
            self.timers_set.insert(timer_id(self.bytes(key), wall_clock, name.as_bytes()));
        }
        self.timer_count += 1;
        self.staged += timers.len() - before;
        self.elements += 1;
        self.buffers.timers = timers;
    }

    /// A timer that an earlier item of this batch set anew or cancelled. A failed item's are no matter: it ends the batch.
    pub(super) fn is_overtaken(&self, item: &Item) -> bool {
        let (Some(key), Some(name)) = (item.key, item.name) else { return false };
        !self.timers_set.is_empty()
            && self.timers_set.contains(&timer_id(self.batch.key(key), item.wall_clock, name.of(&self.batch.payload)))
    }
}

fn timer_id(key: &[u8], wall_clock: bool, name: &[u8]) -> Vec<u8> {
    [&[u8::from(wall_clock)], name, &[0xff], key].concat()
}
