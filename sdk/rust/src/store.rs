//! Handles on state stores.

use crate::batch::{KeyRef, Known, Page, Place, ScanRequest};
use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::schema::Handle;

/// A handle on a state store of the manifest, with the codecs of its keys and values. Declare it once:
///
/// ```
/// use millstream::{Int64, Store, Text};
/// static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
/// ```
///
/// All handlers may use it at the same time. Reads see what the batch has written before. Keys belong to the task of the
/// record: the same key of another partition is another one. A store that the manifest does not declare fails the record
/// that uses it ([`Error::Undeclared`]).
#[derive(Debug)]
pub struct Store<K, V> {
    handle: Handle,
    key: K,
    value: V,
}

impl<K: Encode + Decode, V: Encode + Decode> Store<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        Store { handle: Handle::new(name), key, value }
    }

    /// The store's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.handle.name
    }

    /// The value of the record's own key. Changing what it gave changes nothing: [`Store::put`] does.
    ///
    /// Errors: [`Error::NoKey`], [`Error::StateDecode`], [`Error::State`], [`Error::Void`]; like all calls
    /// [`Error::Undeclared`].
    pub fn get<'c>(&self, ctx: &'c mut Context<'_>) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.own_key(ctx)?;
        self.read(ctx, at)
    }

    /// The value of any key.
    pub fn get_key<'c>(&self, ctx: &'c mut Context<'_>, key: &K::Input) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.any_key(ctx, key)?;
        self.read(ctx, at)
    }

    /// The values of several keys, in their order, in as few round trips as possible.
    pub fn get_many<'c, 'k>(
        &self,
        ctx: &'c mut Context<'_>,
        keys: impl IntoIterator<Item = &'k K::Input>,
    ) -> Result<Vec<Option<V::Output<'c>>>, Error>
    where
        K::Input: 'k,
    {
        let mut wanted = Vec::new();
        for key in keys {
            wanted.push(self.any_key(ctx, key)?);
        }
        let mut missing: Vec<KeyRef> = Vec::new();
        let mut asked = std::collections::HashSet::new();
        for at in &wanted {
            if matches!(ctx.run.known(*at), Known::Unknown) && asked.insert(at.slot) {
                missing.push(*at);
            }
        }
        ctx.run.fetch(&missing)?;
        let ctx = &*ctx;
        wanted
            .into_iter()
            .map(|at| match ctx.run.known(at) {
                Known::Value(value) => self.decode(ctx.run.bytes(at.key), ctx.run.bytes(value)).map(Some),
                _ => Ok(None),
            })
            .collect()
    }

    /// Writes the value of the record's own key. Errors: [`Error::Output`], [`Error::NoKey`].
    pub fn put(&self, ctx: &mut Context<'_>, value: &V::Input) -> Result<(), Error> {
        let at = self.own_key(ctx)?;
        self.write(ctx, at, value)
    }

    /// Writes the value of any key.
    pub fn put_key(&self, ctx: &mut Context<'_>, key: &K::Input, value: &V::Input) -> Result<(), Error> {
        let at = self.any_key(ctx, key)?;
        self.write(ctx, at, value)
    }

    /// Forgets the record's own key. Deleting what is not there is fine.
    pub fn delete(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        let at = self.own_key(ctx)?;
        ctx.run.write(at, None);
        Ok(())
    }

    /// Forgets any key.
    pub fn delete_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<(), Error> {
        let at = self.any_key(ctx, key)?;
        ctx.run.write(at, None);
        Ok(())
    }

    /// The rows of a range of keys, in pages as they are read:
    ///
    /// ```
    /// # use millstream::{Context, Int64, Range, Store, Text};
    /// # static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
    /// # fn f(ctx: &mut Context) -> millstream::HandlerResult {
    /// let mut rows = COUNTS.scan(ctx, Range::prefix("user/"))?;
    /// while let Some((key, count)) = rows.next(ctx)? {
    ///     if count == 0 {
    ///         COUNTS.delete_key(ctx, key)?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A page has the writes that the batch had made when it was read.
    pub fn scan(&self, ctx: &mut Context<'_>, range: Range<'_, K::Input>) -> Result<Rows<'_, K, V>, Error> {
        let store = self.id(ctx)?;
        let mut encoded = |key: Option<&K::Input>| key.map(|key| self.encoded_key(ctx, key)).transpose();
        let (mut from, mut to) = (encoded(range.from)?, encoded(range.to)?);
        if let Some(prefix) = encoded(range.prefix)? {
            to = after_prefix(&prefix);
            from = Some(prefix);
        }
        let left = range.limit.unwrap_or(usize::MAX);
        let request = ScanRequest { store, from, to, reverse: range.reverse };
        Ok(Rows { store: self, request, left, page: Page::default(), next: 0, begun: false })
    }

    pub(crate) fn key_codec(&self) -> &K {
        &self.key
    }

    pub(crate) fn value_codec(&self) -> &V {
        &self.value
    }

    fn id(&self, ctx: &mut Context<'_>) -> Result<usize, Error> {
        self.handle.store(ctx.run.schema).map_err(|error| ctx.run.fail(error))
    }

    fn own_key(&self, ctx: &mut Context<'_>) -> Result<KeyRef, Error> {
        let id = self.id(ctx)?;
        ctx.run.own_key(id).ok_or(Error::NoKey { store: self.name() })
    }

    fn any_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<KeyRef, Error> {
        let id = self.id(ctx)?;
        let key = self.encode(ctx, &self.key, key, "key")?;
        Ok(ctx.run.key(id, key))
    }

    fn encoded_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<Vec<u8>, Error> {
        let key = self.encode(ctx, &self.key, key, "key")?;
        Ok(ctx.run.bytes(key).to_vec())
    }

    fn encode<C: Encode>(&self, ctx: &mut Context<'_>, codec: &C, value: &C::Input, what: &str) -> Result<Place, Error> {
        ctx.run.encode(codec, value).map_err(|source| {
            let message = format!("store \"{}\": a {what} cannot be encoded as {}", self.name(), codec.name());
            ctx.run.fail(Error::Output { message, source: Some(source) })
        })
    }

    fn read<'c>(&self, ctx: &'c mut Context<'_>, at: KeyRef) -> Result<Option<V::Output<'c>>, Error> {
        match ctx.run.read(at)? {
            None => Ok(None),
            Some(value) => self.decode(ctx.run.bytes(at.key), ctx.run.bytes(value)).map(Some),
        }
    }

    fn decode<'c>(&self, key: &[u8], value: &'c [u8]) -> Result<V::Output<'c>, Error> {
        self.value.decode(value).map_err(|source| Error::StateDecode {
            message: format!(
                "store \"{}\": the value of key \"{}\" is not {} (was the codec of the store changed?)",
                self.name(),
                shown(key),
                self.value_name()
            ),
            source,
        })
    }

    fn value_name(&self) -> &str {
        Decode::name(&self.value)
    }

    fn write(&self, ctx: &mut Context<'_>, at: KeyRef, value: &V::Input) -> Result<(), Error> {
        let place = self.encode(ctx, &self.value, value, "value")?;
        let most = ctx.run.schema.stores[at.store].max_bytes;
        let size = ctx.run.bytes(place).len();
        if size as i64 > most {
            let key = shown(ctx.run.bytes(at.key));
            let message = format!("store \"{}\": the value of key \"{key}\" has {size} bytes, the limit is {most}", self.name());
            return Err(ctx.run.fail(Error::output(message)));
        }
        ctx.run.write(at, Some(place));
        Ok(())
    }
}

/// A key in a message: its beginning.
fn shown(key: &[u8]) -> String {
    let end = key.len().min(80);
    key[..end].escape_ascii().to_string() + if end < key.len() { "..." } else { "" }
}

/// The first byte string after all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// A range of keys, in the order of their bytes.
#[derive(Debug)]
pub struct Range<'a, T: ?Sized> {
    from: Option<&'a T>,
    to: Option<&'a T>,
    prefix: Option<&'a T>,
    limit: Option<usize>,
    reverse: bool,
}

impl<'a, T: ?Sized> Range<'a, T> {
    /// All keys of the task.
    pub fn all() -> Self {
        Range { from: None, to: None, prefix: None, limit: None, reverse: false }
    }

    /// The keys whose bytes begin with those of `prefix`.
    pub fn prefix(prefix: &'a T) -> Self {
        Range { prefix: Some(prefix), ..Self::all() }
    }

    /// Keys before this one are left out.
    #[must_use]
    pub fn from(mut self, from: &'a T) -> Self {
        self.from = Some(from);
        self
    }

    /// This key and all after it are left out.
    #[must_use]
    pub fn to(mut self, to: &'a T) -> Self {
        self.to = Some(to);
        self
    }

    /// So many rows at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// From the end.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }
}

/// The rows of a [`Store::scan`].
#[derive(Debug)]
pub struct Rows<'s, K, V> {
    store: &'s Store<K, V>,
    request: ScanRequest,
    /// Rows that may still be given.
    left: usize,
    page: Page,
    next: usize,
    begun: bool,
}

/// A key and a value, decoded.
pub type Row<'r, K, V> = (<K as Decode>::Output<'r>, <V as Decode>::Output<'r>);

impl<K: Encode + Decode, V: Encode + Decode> Rows<'_, K, V> {
    /// The next row, or `None` at the end. The context is free for other calls between two rows.
    pub fn next(&mut self, ctx: &mut Context<'_>) -> Result<Option<Row<'_, K, V>>, Error> {
        while self.next == self.page.rows.len() {
            if self.left == 0 || (self.begun && self.page.cursor.is_none()) {
                return Ok(None);
            }
            let limit = if self.left == usize::MAX { 0 } else { self.left };
            let cursor = self.page.cursor.map(|span| span.of(&self.page.payload));
            self.page = ctx.run.scan(&self.request, cursor, limit)?;
            self.next = 0;
            self.begun = true;
        }
        if self.left == 0 {
            return Ok(None);
        }
        let (key, value) = self.page.rows[self.next];
        self.next += 1;
        self.left -= usize::from(self.left != usize::MAX);
        let (key, value) = (key.of(&self.page.payload), value.of(&self.page.payload));
        let decoded = self.store.key.decode(key).map_err(|source| Error::StateDecode {
            message: format!("store \"{}\": key \"{}\" is not {}", self.store.name(), shown(key), Decode::name(&self.store.key)),
            source,
        })?;
        Ok(Some((decoded, self.store.decode(key, value)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(after_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(after_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
