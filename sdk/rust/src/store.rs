//! Handles on state stores.

use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::schema::Kind;
use crate::table::{Range, Rows, Table};
use crate::window::put;

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
    pub(crate) table: Table<K, V>,
}

impl<K: Encode + Decode, V: Encode + Decode> Store<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        Store { table: Table::new(Kind::Store, name, key, value) }
    }

    /// The store's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The value of the record's own key. Changing what it gave changes nothing: [`Store::put`] does.
    ///
    /// Errors: [`Error::NoKey`], [`Error::StateDecode`], [`Error::State`], [`Error::Void`]; like all calls
    /// [`Error::Undeclared`].
    pub fn get<'c>(&self, ctx: &'c mut Context<'_>) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.table.own_key(ctx)?;
        self.table.read(ctx, at)
    }

    /// The value of any key.
    pub fn get_key<'c>(&self, ctx: &'c mut Context<'_>, key: &K::Input) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.table.any_key(ctx, key)?;
        self.table.read(ctx, at)
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
        self.table.get_many(ctx, keys)
    }

    /// Writes the value of the record's own key. Errors: [`Error::Output`], [`Error::NoKey`].
    pub fn put(&self, ctx: &mut Context<'_>, value: &V::Input) -> Result<(), Error> {
        let at = self.table.own_key(ctx)?;
        put(&self.table, ctx, at, value)
    }

    /// Writes the value of any key.
    pub fn put_key(&self, ctx: &mut Context<'_>, key: &K::Input, value: &V::Input) -> Result<(), Error> {
        let at = self.table.any_key(ctx, key)?;
        put(&self.table, ctx, at, value)
    }

    /// Forgets the record's own key. Deleting what is not there is fine.
    pub fn delete(&self, ctx: &mut Context<'_>) -> Result<(), Error> {
        let at = self.table.own_key(ctx)?;
        ctx.run.write(at, None);
        Ok(())
    }

    /// Forgets any key.
    pub fn delete_key(&self, ctx: &mut Context<'_>, key: &K::Input) -> Result<(), Error> {
        let at = self.table.any_key(ctx, key)?;
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
        self.table.scan(ctx, range)
    }
}
