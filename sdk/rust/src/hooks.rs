//! Transactions as a program sees them: hooks, and what it gathers over many records.

use crate::app::Handler;
use crate::context::Context;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Called for a task.
pub(crate) type TaskFn = Arc<dyn Fn(i32) + Send + Sync>;

/// What a program wants to know of transactions.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) begin: Option<Handler>,
    pub(crate) finalize: Option<Handler>,
    pub(crate) committed: Option<TaskFn>,
}

impl Hooks {
    /// The capabilities of HELLO.
    pub(crate) fn capabilities(&self) -> Vec<&'static str> {
        let named =
            [("begin", self.begin.is_some()), ("finalize", self.finalize.is_some()), ("committed", self.committed.is_some())];
        named.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect()
    }
}

/// What a program gathers over the records of a task, for [`App::on_finalize`](crate::App::on_finalize) to send. Declare it
/// once:
///
/// ```
/// use millstream::{App, Gathered, Int64, Output, Raw, Record, Text};
/// use std::collections::HashMap;
/// static CLICKS: Gathered<HashMap<String, i64>> = Gathered::new();
/// static TOTALS: Output<Text, Int64> = Output::new("totals", Text, Int64);
/// let app = App::new()
///     .on("clicks", |ctx, click: Record<Text, Raw>| {
///         let page = click.key.unwrap_or_default().to_owned();
///         CLICKS.change(ctx, |clicks| *clicks.entry(page).or_default() += 1);
///         Ok(())
///     })
///     .on_finalize(|ctx| {
///         for (page, clicks) in CLICKS.take(ctx) {
///             TOTALS.emit(ctx, &page[..], &clicks)?;
///         }
///         Ok(())
///     });
/// ```
///
/// Each task has its own, which begins as [`Default`]. It is forgotten when the sidecar takes back what it is made of: a
/// transaction was aborted, or the task went elsewhere.
pub struct Gathered<T> {
    /// By the schema's number and the task; with the generation of the task it belongs to.
    entries: Mutex<BTreeMap<(u32, i32), (u64, T)>>,
}

impl<T: Default + Send + 'static> Gathered<T> {
    /// A handle.
    pub const fn new() -> Self {
        Gathered { entries: Mutex::new(BTreeMap::new()) }
    }

    /// Changes what the task has gathered, once the record's batch counts. So a record whose handler fails has changed nothing.
    pub fn change(&'static self, ctx: &mut Context<'_>, change: impl FnOnce(&mut T) + Send + 'static) {
        let (owner, generation) = (ctx.run.owner(), ctx.run.generation);
        ctx.run.defer(Box::new(move || change(self.entry(&mut self.lock(), owner, generation))));
    }

    /// Takes what the task has gathered so far, and begins anew.
    pub fn take(&self, ctx: &mut Context<'_>) -> T {
        let (owner, generation) = (ctx.run.owner(), ctx.run.generation);
        std::mem::take(self.entry(&mut self.lock(), owner, generation))
    }

    fn entry<'e>(&self, entries: &'e mut BTreeMap<(u32, i32), (u64, T)>, owner: (u32, i32), generation: u64) -> &'e mut T {
        if !entries.contains_key(&owner) {
            // Connections that are over need none.
            entries.retain(|(schema, _), _| crate::schema::is_alive(*schema));
        }
        let entry = entries.entry(owner).or_insert_with(|| (generation, T::default()));
        if entry.0 != generation {
            *entry = (generation, T::default());
        }
        &mut entry.1
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, i32), (u64, T)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default + Send + 'static> Default for Gathered<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Gathered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}
