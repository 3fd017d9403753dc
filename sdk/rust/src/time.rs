//! Timers, and windows and sessions that close.

use crate::batch::Place;
use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::window::Window;
use std::fmt;

/// The protocol's limit of a timer's name.
const MAX_NAME: usize = 255;

/// A handle on the timers of a name, one per key: set again, it moves. Declare it once, and register what happens when it is
/// due:
///
/// ```
/// use millstream::{App, Due, Raw, Record, Text, Timer};
/// static REMINDER: Timer<Text> = Timer::new("reminder", Text);
/// let app = App::new()
///     .on("orders", |ctx, order: Record<Text, Raw>| Ok(REMINDER.set(ctx, order.timestamp() + 3_600_000)?))
///     .on_timer("reminder", |_ctx, due: Due<Text>| {
///         println!("{:?} since {}", due.key, due.time);
///         Ok(())
///     });
/// ```
///
/// The manifest needs `timers: {}`. A timer is committed with the record that set it, and survives everything that state
/// survives.
#[derive(Debug)]
pub struct Timer<K> {
    name: &'static str,
    wall_clock: bool,
    key: K,
}

impl<K: Encode> Timer<K> {
    /// Timers of event time: due when the records of the task have come so far.
    pub const fn new(name: &'static str, key: K) -> Self {
        Timer { name, wall_clock: false, key }
    }

    /// Timers of the sidecar's clock.
    pub const fn wall_clock(name: &'static str, key: K) -> Self {
        Timer { name, wall_clock: true, key }
    }

    /// Their name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the timer of the record's own key, in milliseconds since 1970; a time that has passed is due at once.
    ///
    /// Errors: [`Error::NoKey`]; [`Error::Output`] for a time beyond the limits, or where the manifest has no timers.
    pub fn set(&self, ctx: &mut Context<'_>, time: i64) -> Result<(), Error> {
        let key = self.own_key(ctx)?;
        self.stage(ctx, key, Some(time))
    }

    /// Sets the timer of any key of the task.
    pub fn set_key(&self, ctx: &mut Context<'_>, key: &K::Input, time: i64) -> Result<(), Error> {
        let key = self.any_key(ctx, key)?;
        self.stage(ctx, key, Some(time))
    }

    /// Cancels the timer of the record's own key. One that is not set is fine.
    pub fn cancel(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        let key = self.own_key(ctx)?;
        self.stage(ctx, key, None)
    }

    /// Cancels the timer of any key of the task.
    pub fn cancel_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<(), Error> {
        let key = self.any_key(ctx, key)?;
        self.stage(ctx, key, None)
    }

    fn own_key(&self, ctx: &mut Context<'_>) -> Result<Place, Error> {
        ctx.run.own_key_place().ok_or(Error::NoKey { store: self.name })
    }

    fn any_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<Place, Error> {
        ctx.run.encode(&self.key, key).map_err(|source| {
            let message = format!("timer \"{}\": a key cannot be encoded as {}", self.name, self.key.name());
            ctx.run.fail(Error::Output { message, source: Some(source) })
        })
    }

    fn stage(&self, ctx: &mut Context<'_>, key: Place, time: Option<i64>) -> Result<(), Error> {
        let schema = ctx.run.schema;
        let problem = if !schema.has_timers() {
            "the manifest has no timers; add \"timers: {}\" under spec".to_owned()
        } else if self.name.len() > MAX_NAME {
            format!("its name has {} bytes, the limit is {MAX_NAME}", self.name.len())
        } else if time.is_some_and(|time| !(schema.min_timestamp..=schema.max_timestamp).contains(&time)) {
            format!("time {} is outside {} to {}", time.unwrap_or_default(), schema.min_timestamp, schema.max_timestamp)
        } else {
            ctx.run.set_timer(key, self.wall_clock, self.name, time);
            return Ok(());
        };
        Err(ctx.run.fail(Error::output(format!("timer \"{}\": {problem}", self.name))))
    }
}

/// A timer that is due. State and outputs are as for a record of its key; outputs get its time.
pub struct Due<'b, K: Decode> {
    /// The key it was set for.
    pub key: K::Output<'b>,
    /// When it was to be due, in milliseconds since 1970.
    pub time: i64,
    /// Whether it is a timer of the sidecar's clock.
    pub wall_clock: bool,
    /// 1 for the first try, one more after each failure.
    pub attempt: u32,
}

impl<'b, K: Decode> Due<'b, K> {
    pub(crate) fn read(ctx: &Context<'b>, key: &K) -> Result<Self, Error> {
        let item = ctx.run.item();
        Ok(Due { key: read_key(ctx, key, "a timer")?, time: item.timestamp, wall_clock: item.wall_clock, attempt: item.attempt })
    }
}

impl<K: Decode> fmt::Debug for Due<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Due").field("time", &self.time).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// A window that closes. State and outputs are as for a record of its key; outputs get the window's last millisecond.
pub struct Closed<'b, K: Decode, V: Decode> {
    /// The key.
    pub key: K::Output<'b>,
    /// The last value.
    pub value: V::Output<'b>,
    /// The window.
    pub window: Window,
    /// 1 for the first try, one more after each failure.
    pub attempt: u32,
}

impl<'b, K: Decode, V: Decode> Closed<'b, K, V> {
    pub(crate) fn read(ctx: &Context<'b>, key: &K, value: &V) -> Result<Self, Error> {
        let item = ctx.run.item();
        let raw = ctx.run.closing_value()?;
        let store = &ctx.run.schema.tables[item.of as usize].name;
        let value = value.decode(raw).map_err(|source| Error::StateDecode {
            message: format!("store \"{store}\": the value of a window is not {} (was the codec changed?)", value.name()),
            source,
        })?;
        let window = Window { start: item.offset, end: item.timestamp + 1 };
        Ok(Closed { key: read_key(ctx, key, "a window")?, value, window, attempt: item.attempt })
    }
}

impl<K: Decode, V: Decode> fmt::Debug for Closed<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("window", &self.window).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The capability of HELLO by which a program says that it takes sessions that close.
pub(crate) const SESSION_CLOSINGS: &str = "sessionClosings";

/// A session that closes. State and outputs are as for a record of its key; outputs get the time of its last record.
pub struct ClosedSession<'b, K: Decode, V: Decode> {
    /// The key.
    pub key: K::Output<'b>,
    /// The last value; `None` if nothing was written to it.
    pub value: Option<V::Output<'b>>,
    /// From its first record to its last.
    pub session: Window,
    /// 1 for the first try, one more after each failure.
    pub attempt: u32,
}

impl<'b, K: Decode, V: Decode> ClosedSession<'b, K, V> {
    pub(crate) fn read(ctx: &Context<'b>, key: &K, value: &V) -> Result<Self, Error> {
        let item = ctx.run.item();
        let raw = ctx.run.closing_value()?;
        let store = &ctx.run.schema.tables[item.of as usize].name;
        let decode = |raw| {
            value.decode(raw).map_err(|source| Error::StateDecode {
                message: format!("store \"{store}\": the value of a session is not {} (was the codec changed?)", value.name()),
                source,
            })
        };
        let value = if raw.is_empty() { None } else { Some(decode(raw)?) };
        let session = Window { start: item.offset, end: item.timestamp };
        Ok(ClosedSession { key: read_key(ctx, key, "a session")?, value, session, attempt: item.attempt })
    }
}

impl<K: Decode, V: Decode> fmt::Debug for ClosedSession<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedSession").field("session", &self.session).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

pub(crate) fn read_key<'b, K: Decode>(ctx: &Context<'b>, codec: &K, of: &str) -> Result<K::Output<'b>, Error> {
    let key = ctx.run.item().key.map_or(&[][..], |index| ctx.run.batch.key(index));
    codec.decode(key).map_err(|source| Error::Decode {
        message: format!("the key of {of} (task {}) is not {}", ctx.run.batch.task, codec.name()),
        source,
    })
}
