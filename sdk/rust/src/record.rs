//! Records as handlers see them.

use crate::codec::Decode;
use crate::context::Context;
use crate::error::Error;
use crate::wire::batch::{Batch, Item};
use crate::wire::reader::Reader;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A record of an input. It is valid while its handler runs; what is borrowed from it ends with it.
pub struct Record<'b, K: Decode, V: Decode> {
    /// `None` for a record without key.
    pub key: Option<K::Output<'b>>,
    /// `None` for a tombstone.
    pub value: Option<V::Output<'b>>,
    batch: &'b Batch,
    item: &'b Item,
    input: &'b str,
    topic: &'b str,
}

impl<'b, K: Decode, V: Decode> Record<'b, K, V> {
    pub(crate) fn read(ctx: &Context<'b>, key: &K, value: &V) -> Result<Self, Error> {
        let (batch, item) = (ctx.run.batch, ctx.run.item());
        let port = &ctx.run.schema.inputs[item.of as usize];
        let mut record = Record { key: None, value: None, batch, item, input: &port.name, topic: &port.topic };
        if let Some(raw) = record.raw_key() {
            record.key = Some(key.decode(raw).map_err(|source| record.undecodable("key", key.name(), source))?);
        }
        if let Some(raw) = record.raw_value() {
            record.value = Some(value.decode(raw).map_err(|source| record.undecodable("value", value.name(), source))?);
        }
        Ok(record)
    }

    fn undecodable(&self, what: &str, codec: &str, source: crate::BoxError) -> Error {
        let message = format!(
            "the {what} of a record of input \"{}\" (partition {}, offset {}) is not {codec}",
            self.input, self.batch.task, self.item.offset
        );
        Error::Decode { message, source }
    }

    /// The key as it is in the topic.
    pub fn raw_key(&self) -> Option<&'b [u8]> {
        self.item.key.map(|index| self.batch.key(index))
    }

    /// The value as it is in the topic.
    pub fn raw_value(&self) -> Option<&'b [u8]> {
        self.item.value.map(|span| span.of(&self.batch.payload))
    }

    /// All headers in order; names may repeat.
    pub fn headers(&self) -> Headers<'b> {
        Headers::new(self.item.headers.map(|span| span.of(&self.batch.payload)))
    }

    /// The value of the last header of that name; `None` where there is none, or its value is null.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.headers().filter(|header| header.name == name.as_bytes()).last().and_then(|header| header.value)
    }

    /// Milliseconds since 1970, possibly negative.
    pub fn timestamp(&self) -> i64 {
        self.item.timestamp
    }

    /// The timestamp as a time.
    pub fn time(&self) -> SystemTime {
        let distance = Duration::from_millis(self.item.timestamp.unsigned_abs());
        if self.item.timestamp < 0 {
            UNIX_EPOCH - distance
        } else {
            UNIX_EPOCH + distance
        }
    }

    /// The input's name in the manifest.
    pub fn input(&self) -> &'b str {
        self.input
    }

    /// The topic it comes from.
    pub fn topic(&self) -> &'b str {
        self.topic
    }

    /// The number of the task, which is the partition.
    pub fn task(&self) -> i32 {
        self.batch.task
    }

    /// Its offset in the partition.
    pub fn offset(&self) -> i64 {
        self.item.offset
    }

    /// 1 for the first try of this record, one more after each failure.
    pub fn attempt(&self) -> u32 {
        self.item.attempt
    }
}

impl<K: Decode, V: Decode> fmt::Debug for Record<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("input", &self.input)
            .field("task", &self.batch.task)
            .field("offset", &self.item.offset)
            .field("attempt", &self.item.attempt)
            .finish_non_exhaustive()
    }
}

/// A header. Names are bytes, as in Kafka; [`Header::name_str`] is the usual text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Usually UTF-8.
    pub name: &'a [u8],
    /// `None` is null, which differs from empty.
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// A header with a value.
    pub fn new(name: &'a str, value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Header { name: name.as_bytes(), value: Some(value.as_ref()) }
    }

    /// The name, if it is text.
    pub fn name_str(&self) -> Option<&'a str> {
        std::str::from_utf8(self.name).ok()
    }
}

/// The headers of a record, read as they are wanted.
#[derive(Clone)]
pub struct Headers<'a> {
    encoded: &'a [u8],
    left: usize,
}

impl<'a> Headers<'a> {
    /// Of headers that were checked when the batch was read.
    pub(crate) fn new(encoded: Option<&'a [u8]>) -> Self {
        let mut reader = Reader::new(encoded.unwrap_or_default());
        let left = reader.list("headers").unwrap_or(0);
        Headers { encoded: &encoded.unwrap_or_default()[reader.position()..], left }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new(self.encoded);
        let more = reader.fields("header", 2).ok()?;
        let header = Header { name: reader.bytes("name").ok()?, value: reader.maybe_bytes("value").ok()? };
        reader.skip(more).ok()?;
        self.encoded = &self.encoded[reader.position()..];
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
