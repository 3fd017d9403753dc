//! Visits of a batch.

use super::Run;
use crate::app::Handler;
use crate::error::Error;
use crate::visit::What;
use crate::wire::write;

/// What an op takes in a frame beside its data, at most.
const VISIT_OVERHEAD: usize = 16;

impl<'b> Run<'b> {
    /// What is called for the row at hand, or for the end of its visit. `None`: nobody, or an earlier item deleted the row.
    pub(super) fn visit_handler(&mut self) -> Result<Option<&'b Handler>, Error> {
        let visit = &self.schema.visits[self.item().of as usize];
        let Some(row) = self.own_key(visit.store) else { return Ok(visit.end.as_ref()) };
        let there = self.read(row)?.is_some();
        Ok(there.then_some(&visit.rows))
    }

    /// Stages a start of a visit, or what else is done to it.
    pub(crate) fn stage_visit(&mut self, visit: usize, what: What, data: Option<&[u8]>) {
        write::put_visit(&mut self.buffers.visits, visit, what as u64, data);
        self.visit_count += 1;
        self.staged += data.map_or(0, <[u8]>::len) + VISIT_OVERHEAD;
        self.elements += 1;
    }
}
