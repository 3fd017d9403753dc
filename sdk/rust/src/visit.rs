//! Visits: walks over all rows of a store.

use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::time::read_key;
use crate::wire::batch::ItemKind;
use std::fmt;

/// The capability of HELLO by which a program says that it takes rows of visits.
pub(crate) const VISITS: &str = "visits";
/// The protocol's limit of what a visit is started with.
const MAX_DATA: usize = 4096;

/// What is done to a visit, as RESULT has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Start = 0,
    Stop = 1,
    Pause = 2,
    Resume = 3,
}

/// A handle on a visit of the manifest: a walk over all rows of a store in this task, beside the input. Declare it once, with
/// the codec of what it is started with, and register what happens with a row:
///
/// ```
/// use millstream::{App, Int64, Record, Store, Text, Visit, Visited};
/// static ACCOUNTS: Store<Text, Int64> = Store::new("accounts", Text, Int64);
/// static BONUS: Visit<Int64> = Visit::new("bonus", Int64);
/// let app = App::new()
///     .on("commands", |ctx, command: Record<Text, Int64>| Ok(BONUS.start(ctx, &command.value.unwrap_or(1))?))
///     .on_visit("bonus", |ctx, row: Visited<Text, Int64>| {
///         let balance = ACCOUNTS.get(ctx)?.unwrap_or(0) + row.data.unwrap_or(0);
///         Ok(ACCOUNTS.put(ctx, &balance)?)
///     });
/// ```
///
/// Starting, stopping, pausing and resuming count if the record does that asked for it, and from that record on. A walk survives
/// everything that state survives, and goes on behind the rows that are committed. The manifest needs
/// `visits: [{name: bonus, store: accounts}]`.
///
/// Errors: [`Error::Undeclared`]; [`Error::Output`] for data that does not encode or is longer than 4,096 bytes, and in a hook.
#[derive(Debug)]
pub struct Visit<D> {
    name: &'static str,
    data: D,
}

impl<D: Encode> Visit<D> {
    /// A handle; `name` as in the manifest, `data` is the codec of what it is started with.
    pub const fn new(name: &'static str, data: D) -> Self {
        Visit { name, data }
    }

    /// Its name in the manifest.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn codec(&self) -> &D {
        &self.data
    }

    /// Begins a walk; one that is under way begins anew, one that is paused as well. The data comes with every row.
    pub fn start(&self, ctx: &mut Context<'_>, data: &D::Input) -> Result<(), Error> {
        let mut raw = Vec::new();
        if let Err(source) = self.data.encode(data, &mut raw) {
            let message = format!("visit \"{}\": its data cannot be encoded as {}", self.name, self.data.name());
            return Err(ctx.run.fail(Error::Output { message, source: Some(source) }));
        }
        self.stage(ctx, What::Start, Some(&raw))
    }

    /// [`Visit::start`] without data.
    pub fn start_plain(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        self.stage(ctx, What::Start, None)
    }

    /// Ends a walk where it is: neither a row nor its end comes any more. Stopping what does not run is fine.
    pub fn stop(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        self.stage(ctx, What::Stop, None)
    }

    /// Holds a walk where it is, until it is resumed, started or stopped.
    pub fn pause(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        self.stage(ctx, What::Pause, None)
    }

    /// Lets a paused walk go on.
    pub fn resume(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        self.stage(ctx, What::Resume, None)
    }

    fn stage(&self, ctx: &mut Context<'_>, what: What, data: Option<&[u8]>) -> Result<(), Error> {
        let visits = &ctx.run.schema.visits;
        let Some(id) = visits.iter().position(|visit| visit.name == self.name) else {
            let declared = visits.iter().map(|visit| visit.name.clone()).collect();
            return Err(ctx.run.fail(Error::Undeclared { what: "visit", name: self.name, declared }));
        };
        let size = data.map_or(0, <[u8]>::len);
        let problem = if ctx.run.item().kind == ItemKind::Hook {
            "a hook starts and stops none: they belong to the time of a record".to_owned()
        } else if size > MAX_DATA {
            format!("its data has {size} bytes, the limit is {MAX_DATA}")
        } else {
            ctx.run.stage_visit(id, what, data);
            return Ok(());
        };
        Err(ctx.run.fail(Error::output(format!("visit \"{}\": {problem}", self.name))))
    }
}

/// A row that a visit has come to. State and outputs are as for a record of its key: [`Store::get`](crate::Store::get) and
/// [`Store::put`](crate::Store::put) of the visit's store read and write the row. Outputs get the time of the start.
pub struct Visited<'b, K: Decode, D: Decode> {
    /// Its key.
    pub key: K::Output<'b>,
    /// What the visit was started with.
    pub data: Option<D::Output<'b>>,
    /// When it was started, in milliseconds since 1970: the time of the record that did.
    pub time: i64,
    /// 1 for the first try, one more after each failure.
    pub attempt: u32,
}

impl<'b, K: Decode, D: Decode> Visited<'b, K, D> {
    pub(crate) fn read(ctx: &Context<'b>, key: &K, data: &D) -> Result<Self, Error> {
        let item = ctx.run.item();
        let key = read_key(ctx, key, "a row of a visit")?;
        Ok(Visited { key, data: read_data(ctx, data)?, time: item.timestamp, attempt: item.attempt })
    }
}

impl<K: Decode, D: Decode> fmt::Debug for Visited<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visited").field("time", &self.time).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// A visit has come to the end of the task's rows. There is no key: calls of state need one named.
pub struct VisitEnd<'b, D: Decode> {
    /// What the visit was started with.
    pub data: Option<D::Output<'b>>,
    /// When it was started, in milliseconds since 1970. Outputs get it.
    pub time: i64,
    /// 1 for the first try, one more after each failure.
    pub attempt: u32,
}

impl<'b, D: Decode> VisitEnd<'b, D> {
    pub(crate) fn read(ctx: &Context<'b>, data: &D) -> Result<Self, Error> {
        let item = ctx.run.item();
        Ok(VisitEnd { data: read_data(ctx, data)?, time: item.timestamp, attempt: item.attempt })
    }
}

impl<D: Decode> fmt::Debug for VisitEnd<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisitEnd").field("time", &self.time).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

fn read_data<'b, D: Decode>(ctx: &Context<'b>, codec: &D) -> Result<Option<D::Output<'b>>, Error> {
    let (batch, item) = (ctx.run.batch, ctx.run.item());
    let Some(raw) = item.value.map(|span| span.of(&batch.payload)) else { return Ok(None) };
    codec.decode(raw).map(Some).map_err(|source| Error::Decode {
        message: format!(
            "the data of visit \"{}\" (task {}) is not {}",
            ctx.run.schema.visits[item.of as usize].name,
            batch.task,
            codec.name()
        ),
        source,
    })
}
