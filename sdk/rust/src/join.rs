//! Handles on joins and lookups: tables that others write to.

use crate::codec::{Decode, Encode};
use crate::context::Context;
use crate::error::Error;
use crate::schema::Kind;
use crate::table::{Range, Rows, Table};

/// A handle on a join of the manifest: a topic as a read-only table, partitioned like the inputs; each task sees its own
/// partition. Declare it once:
///
/// ```
/// use millstream::{Join, Json, Text};
/// static CUSTOMERS: Join<Text, Json<String>> = Join::new("customers", Text, Json::new());
/// ```
///
/// It shows the table as it is now: the value of the record's key came with the batch, others are asked for. Errors are those
/// of [`Store::get`](crate::Store::get).
#[derive(Debug)]
pub struct Join<K, V> {
    pub(crate) table: Table<K, V>,
}

impl<K: Encode + Decode, V: Decode> Join<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        Join { table: Table::new(Kind::Join, name, key, value) }
    }

    /// The join's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The value of the record's own key.
    pub fn get<'c>(&self, ctx: &'c mut Context<'_>) -> Result<Option<V::Output<'c>>, Error> {
        let at = self.table.own_key(ctx)?;
        self.table.read(ctx, at)
    }

    /// The value of any key of the task.
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

    /// The rows of a range of keys of the task, as [`Store::scan`](crate::Store::scan).
    pub fn scan(&self, ctx: &mut Context<'_>, range: Range<'_, K::Input>) -> Result<Rows<'_, K, V>, Error> {
        self.table.scan(ctx, range)
    }
}

/// A handle on a lookup of the manifest: a whole topic as a read-only table, the same for every task.
///
/// ```
/// use millstream::{Json, Lookup, Text};
/// static CURRENCIES: Lookup<Text, Json<f64>> = Lookup::new("currencies", Text, Json::new());
/// ```
///
/// Values are asked for, once per key and batch. Errors are those of [`Store::get`](crate::Store::get).
#[derive(Debug)]
pub struct Lookup<K, V> {
    pub(crate) table: Table<K, V>,
}

impl<K: Encode + Decode, V: Decode> Lookup<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        Lookup { table: Table::new(Kind::Lookup, name, key, value) }
    }

    /// The lookup's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The value of a key.
    pub fn get<'c>(&self, ctx: &'c mut Context<'_>, key: &K::Input) -> Result<Option<V::Output<'c>>, Error> {
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

    /// The rows of a range of keys, as [`Store::scan`](crate::Store::scan).
    pub fn scan(&self, ctx: &mut Context<'_>, range: Range<'_, K::Input>) -> Result<Rows<'_, K, V>, Error> {
        self.table.scan(ctx, range)
    }
}
