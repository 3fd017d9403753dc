//! What a handler is given beside its record.

use crate::batch::Run;
use std::fmt;

/// Belongs to the batch that is being handled: stores and outputs take it. A handler has it while it runs.
pub struct Context<'b> {
    pub(crate) run: Run<'b>,
}

impl<'b> Context<'b> {
    /// The number of the task, which is the partition of every input.
    pub fn task(&self) -> i32 {
        self.run.batch.task
    }

    /// The processor's name in the manifest.
    pub fn processor(&self) -> &'b str {
        &self.run.schema.processor
    }

    /// How far event time has come in this task, in milliseconds since 1970; `None` before the first record counts.
    pub fn watermark(&self) -> Option<i64> {
        self.run.batch.watermark
    }

    /// Whether the batch no longer counts (cancelled, connection lost). A handler that takes long should look, and return
    /// [`Error::Void`](crate::Error::Void).
    pub fn is_cancelled(&self) -> bool {
        self.run.is_void()
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("processor", &self.processor()).field("task", &self.task()).finish_non_exhaustive()
    }
}
