//! Visits in the test kit: what the sidecar keeps of them, and which rows come next.

use super::{encoded, Failed, TestKit};
use crate::codec::Encode;
use crate::error::listed;
use crate::visit::{Visit, What};
use crate::wire::reader::{Read, Reader};
use crate::wire::write;
use std::ops::Bound;

/// Rows per batch: fewer than a usual store has, so that tests meet several.
const PAGE: usize = 100;

/// A visit of the manifest, for [`Setup`](super::Setup).
#[derive(Clone, Copy, Debug, Default)]
pub struct TestVisit<'a> {
    /// Its name.
    pub name: &'a str,
    /// The store that it walks.
    pub store: &'a str,
}

/// A visit that was started and has not ended.
#[derive(Debug)]
pub(super) struct Walk {
    started: i64,
    data: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    paused: bool,
}

impl TestKit {
    /// Starts a visit as a handler would, at [`TestKit::now`], and lets it run to its end.
    ///
    /// # Errors
    /// The failure of a row, which is given up; [`TestKit::advance`] lets the walk go on.
    ///
    /// # Panics
    /// If the setup does not name the visit, or the codec fails.
    pub fn visit<D: Encode>(&mut self, visit: &Visit<D>, data: &D::Input) -> Result<(), Failed> {
        let names: Vec<&str> = self.schema.visits.iter().map(|visit| visit.name.as_str()).collect();
        let Some(id) = names.iter().position(|name| *name == visit.name()) else {
            panic!("no visit \"{}\" in the setup; visits: {}", visit.name(), listed(&names));
        };
        let data = Some(encoded(visit.codec(), data));
        self.walks.insert(id, Walk { started: self.now, data, after: None, paused: false });
        self.run_due()
    }

    /// The visits that were started and have not ended: those that are paused.
    pub fn visits(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.walks.keys().map(|id| self.schema.visits[*id].name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The next rows of the first visit, by name, that is not paused, or its end. False: there is none.
    pub(super) fn run_visited(&mut self) -> Result<bool, Failed> {
        let visits = &self.schema.visits;
        let running = self.walks.iter().filter(|(_, walk)| !walk.paused);
        let Some((&id, walk)) = running.min_by_key(|(id, _)| &visits[**id].name) else { return Ok(false) };
        let from = walk.after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let rows = self.tables[visits[id].store].range::<Vec<u8>, _>((from, Bound::Unbounded));
        let mut keys: Vec<Option<Vec<u8>>> = rows.take(PAGE).map(|(key, _)| Some(key.clone())).collect();
        if keys.is_empty() {
            keys.push(None);
        }
        let mut items = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            write::put_array(&mut items, 6);
            write::put_u64(&mut items, 3);
            write::put_u64(&mut items, id as u64);
            match key {
                Some(_) => write::put_u64(&mut items, index as u64),
                None => write::put_nil(&mut items),
            }
            write::put_i64(&mut items, walk.started);
            write::put_maybe(&mut items, walk.data.as_deref());
            write::put_u64(&mut items, 1);
        }
        let known: Vec<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
        let payload = self.batch_of(&known, &items, keys.len() as u32);
        self.visiting = keys.iter().map(|key| (id, key.clone())).collect();
        let (done, failed) = self.run_payload(payload);
        self.visiting.clear();
        let Some(failed) = failed else { return Ok(true) };
        self.pass(id, keys.swap_remove(done)); // given up, as a record would be
        let failed = Failed { input: self.schema.visits[id].name.clone(), ..failed };
        self.failures.push(failed.clone());
        Err(failed)
    }

    /// The first `done` of the rows that are out are done: before what they did to visits.
    pub(super) fn settle_visited(&mut self, done: usize) {
        for (id, key) in std::mem::take(&mut self.visiting).into_iter().take(done) {
            self.pass(id, key);
        }
    }

    fn pass(&mut self, id: usize, key: Option<Vec<u8>>) {
        if key.is_none() {
            self.walks.remove(&id);
        } else if let Some(walk) = self.walks.get_mut(&id) {
            walk.after = key;
        }
    }

    /// The last field of a RESULT; `time` is that of the item that made them.
    pub(super) fn apply_visits(&mut self, reader: &mut Reader<'_>, time: i64) -> Read<()> {
        for _ in 0..reader.list("visits")? {
            reader.fields("visit", 3)?;
            let (id, what) = (reader.u32("visit")? as usize, reader.u32("what")?);
            let data = reader.maybe_bytes("data")?.map(<[u8]>::to_vec);
            if what == What::Start as u32 {
                self.walks.insert(id, Walk { started: time, data, after: None, paused: false });
            } else if what == What::Stop as u32 {
                self.walks.remove(&id);
            } else if let Some(walk) = self.walks.get_mut(&id) {
                walk.paused = what == What::Pause as u32;
            }
        }
        Ok(())
    }
}
