//! Handles on stores of windows and of sessions.

use crate::batch::KeyRef;
use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::schema::Kind;
use crate::table::{shown, Table};

/// A window or a session, in milliseconds since 1970. A window is from `start` up to before `end`; a session has its first
/// and last record at `start` and `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window {
    /// The beginning.
    pub start: i64,
    /// The end.
    pub end: i64,
}

/// A handle on a store of type `Window`: a value per key and window. Declare it once:
///
/// ```
/// use millstream::{App, Int64, Raw, Record, Text, WindowStore};
/// static PER_MINUTE: WindowStore<Text, Int64> = WindowStore::new("per-minute", Text, Int64);
/// let app = App::new().on("clicks", |ctx, _: Record<Text, Raw>| {
///     for window in PER_MINUTE.windows(ctx)? {
///         let n = PER_MINUTE.get(ctx, window)?.unwrap_or(0) + 1;
///         PER_MINUTE.put(ctx, window, &n)?;
///     }
///     Ok(())
/// });
/// ```
///
/// Errors are those of [`Store`](crate::Store).
#[derive(Debug)]
pub struct WindowStore<K, V> {
    pub(crate) table: Table<K, V>,
}

impl<K: Encode + Decode, V: Encode + Decode> WindowStore<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        WindowStore { table: Table::new(Kind::Window, name, key, value) }
    }

    /// The store's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The open windows of the record: one, or several if they overlap, in the order of their beginnings; none where the record
    /// is late for all, or has no key. In a handler of closing windows, the one that closes.
    pub fn windows<'b>(&self, ctx: &mut Context<'b>) -> Result<impl Iterator<Item = Window> + 'b, Error>
    where
        K: 'b,
        V: 'b,
    {
        let id = self.table.id(ctx)?;
        Ok(ctx.run.windows(id).map(|window| Window { start: window.start, end: window.end }))
    }

    /// The value of a window of the record's own key; one that is not open is asked for.
    pub fn get<'c>(&self, ctx: &'c mut Context<'_>, window: Window) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.row(ctx, window)?;
        self.table.read(ctx, at)
    }

    /// The value of the window of any key that begins at `start`.
    pub fn get_key<'c>(&self, ctx: &'c mut Context<'_>, key: &K::Input, start: i64) -> Result<Option<V::Output<'c>>, Error> {
        let id = self.table.id(ctx)?;
        let mut row = Vec::new();
        self.table.key.encode(key, &mut row).map_err(|source| {
            let message = format!("store \"{}\": a key cannot be encoded as {}", self.name(), Encode::name(&self.table.key));
            ctx.run.fail(Error::Output { message, source: Some(source) })
        })?;
        let at = match ctx.run.own_key_bytes() == Some(&row[..]) {
            true => self.row(ctx, Window { start, end: 0 })?,
            false => {
                row.extend_from_slice(&start.to_be_bytes());
                let place = ctx.run.place(&row)?;
                ctx.run.key(id, place)
            }
        };
        self.table.read(ctx, at)
    }

    /// Writes the value of a window of the record's own key.
    pub fn put(&self, ctx: &mut Context<'_>, window: Window, value: &V::Input) -> Result<(), Error> {
        let at = self.row(ctx, window)?;
        put(&self.table, ctx, at, value)
    }

    /// Forgets a window of the record's own key.
    pub fn delete(&self, ctx: &mut Context<'_>, window: Window) -> Result<(), Error> {
        let at = self.row(ctx, window)?;
        ctx.run.write(at, None);
        Ok(())
    }

    fn row(&self, ctx: &mut Context<'_>, window: Window) -> Result<KeyRef, Error> {
        let id = self.table.id(ctx)?;
        ctx.run.own_row(id, window.start, window.end).ok_or(Error::NoKey { store: self.name() })
    }
}

/// A handle on a store of type `Session`: a value per key and session. Declare it once:
///
/// ```
/// use millstream::{App, Int64, Raw, Record, SessionStore, Text};
/// static VISITS: SessionStore<Text, Int64> = SessionStore::new("visits", Text, Int64);
/// let app = App::new().on("clicks", |ctx, _: Record<Text, Raw>| {
///     let clicks: i64 = VISITS.values(ctx)?.into_iter().sum();
///     VISITS.put(ctx, &(clicks + 1))?;
///     Ok(())
/// });
/// ```
///
/// A record belongs to one session, merged with all that it connects. A session that the handler does not write keeps its
/// value; what becomes of several values, [`App::merge_sessions`](crate::App::merge_sessions) says, else the record fails.
#[derive(Debug)]
pub struct SessionStore<K, V> {
    pub(crate) table: Table<K, V>,
}

impl<K: Encode + Decode, V: Encode + Decode> SessionStore<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        SessionStore { table: Table::new(Kind::Session, name, key, value) }
    }

    /// The store's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The bounds of the record's session, with the record; `None` where it is late, or has no key.
    pub fn session(&self, ctx: &mut Context<'_>) -> Result<Option<Window>, Error> {
        let id = self.table.id(ctx)?;
        let session = ctx.run.windows(id).next();
        Ok(session.map(|session| Window { start: session.start, end: session.end }))
    }

    /// The values of the sessions that the record's is made of, oldest first: none for a new session, several where the record
    /// connects some. After [`SessionStore::put`] the one that was written.
    pub fn values<'c>(&self, ctx: &'c mut Context<'_>) -> Result<Vec<V::Output<'c>>, Error> {
        let id = self.table.id(ctx)?;
        let Some(session) = ctx.run.windows(id).next() else { return Ok(Vec::new()) };
        let before = ctx.run.ops_before_item();
        let values = ctx.run.session_values(session, before)?;
        let ctx = &*ctx;
        let key = ctx.run.own_key_bytes().unwrap_or_default();
        values.into_iter().map(|value| self.table.decode(key, ctx.run.bytes(value))).collect()
    }

    /// Writes the value of the record's session. A record that is late for the store has none: [`Error::NoKey`].
    pub fn put(&self, ctx: &mut Context<'_>, value: &V::Input) -> Result<(), Error> {
        let id = self.table.id(ctx)?;
        let Some(session) = ctx.run.windows(id).next() else { return Err(Error::NoKey { store: self.name() }) };
        let at = ctx.run.own_row(id, session.start, session.end).ok_or(Error::NoKey { store: self.name() })?;
        put(&self.table, ctx, at, value)
    }
}

pub(crate) fn put<K, V: Encode>(table: &Table<K, V>, ctx: &mut Context<'_>, at: KeyRef, value: &V::Input) -> Result<(), Error> {
    let place = table.encode(ctx, &table.value, value, "value")?;
    let most = ctx.run.schema.tables[at.store].max_bytes;
    let size = ctx.run.bytes(at.key).len() + ctx.run.bytes(place).len();
    if size as i64 > most {
        let key = shown(ctx.run.bytes(at.key));
        let message = format!("store \"{}\": key \"{key}\" and its value have {size} bytes, the limit is {most}", table.name());
        return Err(ctx.run.fail(Error::output(message)));
    }
    ctx.run.write(at, Some(place));
    Ok(())
}
