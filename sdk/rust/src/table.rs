//! What stores, joins and lookups share: reading keyed values.

use crate::batch::{KeyRef, Known, Page, Place, ScanRequest};
use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::schema::{Handle, Kind};

/// A name of the manifest with the codecs of its keys and values.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    handle: Handle,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> Table<K, V> {
    pub(crate) const fn new(kind: Kind, name: &'static str, key: K, value: V) -> Self {
        Table { handle: Handle::new(kind, name), key, value }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.handle.name
    }

    /// For messages: `store "counts"`.
    fn label(&self) -> String {
        format!("{} \"{}\"", self.handle.kind.word(), self.handle.name)
    }

    pub(crate) fn id(&self, ctx: &mut Context<'_>) -> Result<usize, Error> {
        self.handle.id(ctx.run.schema).map_err(|error| ctx.run.fail(error))
    }

    pub(crate) fn own_key(&self, ctx: &mut Context<'_>) -> Result<KeyRef, Error> {
        let id = self.id(ctx)?;
        ctx.run.own_key(id).ok_or(Error::NoKey { store: self.name() })
    }

    pub(crate) fn encode<C: Encode>(
        &self,
        ctx: &mut Context<'_>,
        codec: &C,
        value: &C::Input,
        what: &str,
    ) -> Result<Place, Error> {
        ctx.run.encode(codec, value).map_err(|source| {
            let message = format!("{}: a {what} cannot be encoded as {}", self.label(), codec.name());
            ctx.run.fail(Error::Output { message, source: Some(source) })
        })
    }
}

impl<K: Encode + Decode, V: Decode> Table<K, V> {
    pub(crate) fn any_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<KeyRef, Error> {
        let id = self.id(ctx)?;
        let key = self.encode(ctx, &self.key, key, "key")?;
        Ok(ctx.run.key(id, key))
    }

    pub(crate) fn get_many<'c, 'k>(
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

    pub(crate) fn read<'c>(&self, ctx: &'c mut Context<'_>, at: KeyRef) -> Result<Option<V::Output<'c>>, Error> {
        match ctx.run.read(at)? {
            None => Ok(None),
            Some(value) => self.decode(ctx.run.bytes(at.key), ctx.run.bytes(value)).map(Some),
        }
    }

    pub(crate) fn decode<'c>(&self, key: &[u8], value: &'c [u8]) -> Result<V::Output<'c>, Error> {
        self.value.decode(value).map_err(|source| Error::StateDecode {
            message: format!(
                "{}: the value of key \"{}\" is not {} (was the codec changed?)",
                self.label(),
                shown(key),
                self.value.name()
            ),
            source,
        })
    }

    pub(crate) fn scan(&self, ctx: &mut Context<'_>, range: Range<'_, K::Input>) -> Result<Rows<'_, K, V>, Error> {
        let store = self.id(ctx)?;
        let mut encoded = |key: Option<&K::Input>| {
            key.map(|key| self.encode(ctx, &self.key, key, "key").map(|key| ctx.run.bytes(key).to_vec())).transpose()
        };
        let (mut from, mut to) = (encoded(range.from)?, encoded(range.to)?);
        if let Some(prefix) = encoded(range.prefix)? {
            to = after_prefix(&prefix);
            from = Some(prefix);
        }
        let left = range.limit.unwrap_or(usize::MAX);
        let request = ScanRequest { store, from, to, reverse: range.reverse };
        Ok(Rows { table: self, request, left, page: Page::default(), next: 0, begun: false })
    }
}

/// A key in a message: its beginning.
pub(crate) fn shown(key: &[u8]) -> String {
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

/// The rows of a scan ([`Store::scan`](crate::Store::scan)).
#[derive(Debug)]
pub struct Rows<'s, K, V> {
    table: &'s Table<K, V>,
    request: ScanRequest,
    /// Rows that may still be given.
    left: usize,
    page: Page,
    next: usize,
    begun: bool,
}

/// A key and a value, decoded.
pub type Row<'r, K, V> = (<K as Decode>::Output<'r>, <V as Decode>::Output<'r>);

impl<K: Encode + Decode, V: Decode> Rows<'_, K, V> {
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
        let decoded = self.table.key.decode(key).map_err(|source| Error::StateDecode {
            message: format!("{}: key \"{}\" is not {}", self.table.label(), shown(key), Decode::name(&self.table.key)),
            source,
        })?;
        Ok(Some((decoded, self.table.decode(key, value)?)))
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
