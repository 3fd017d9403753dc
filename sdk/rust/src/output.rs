//! Handles on outputs.

use crate::codec::Encode;
use crate::context::Context;
use crate::error::Error;
use crate::record::Header;
use crate::schema::{Handle, Kind};
use crate::wire::batch::ItemKind;
use crate::wire::write;

/// The output of a processor that leads back into it.
const LOOP: &str = "loop";

/// A handle on an output of the manifest, with the codecs of its keys and values. Declare it once:
///
/// ```
/// use millstream::{Json, Output, Text};
/// static TOTALS: Output<Text, Json<i64>> = Output::new("totals", Text, Json::new());
/// ```
#[derive(Debug)]
pub struct Output<K, V> {
    handle: Handle,
    key: K,
    value: V,
}

/// A null key or value: `output.emit(ctx, key, Null)` is a tombstone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Null;

impl<T: ?Sized> From<Null> for Option<&T> {
    fn from(_: Null) -> Self {
        None
    }
}

/// What is not the usual of a record that is emitted.
#[derive(Clone, Debug, Default)]
pub struct EmitOptions<'a> {
    headers: Vec<Header<'a>>,
    timestamp: Option<i64>,
    partition: Option<i32>,
}

impl<'a> EmitOptions<'a> {
    /// No headers, the timestamp of the record being handled, the partition by the hash of the key.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &'a str, value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.headers.push(Header::new(name, value));
        self
    }

    /// More headers, for example those of the record being handled.
    #[must_use]
    pub fn headers(mut self, headers: impl IntoIterator<Item = Header<'a>>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn timestamp(mut self, milliseconds: i64) -> Self {
        self.timestamp = Some(milliseconds);
        self
    }

    /// The partition, whatever the key.
    #[must_use]
    pub fn partition(mut self, number: i32) -> Self {
        self.partition = Some(number);
        self
    }
}

impl<K: Encode, V: Encode> Output<K, V> {
    /// A handle; `name` as in the manifest.
    pub const fn new(name: &'static str, key: K, value: V) -> Self {
        Output { handle: Handle::new(Kind::Output, name), key, value }
    }

    /// The output's name in the manifest.
    pub fn name(&self) -> &'static str {
        self.handle.name
    }

    /// Sends a record to the output. It is committed together with the record being handled, whose timestamp it gets.
    /// Key and value are references, options of them, or [`Null`].
    ///
    /// An error ([`Error::Output`], [`Error::Undeclared`]) fails the record being handled, whatever the handler returns.
    pub fn emit<'k, 'v>(
        &self,
        ctx: &mut Context<'_>,
        key: impl Into<Option<&'k K::Input>>,
        value: impl Into<Option<&'v V::Input>>,
    ) -> Result<(), Error>
    where
        K::Input: 'k,
        V::Input: 'v,
    {
        self.emit_with(ctx, key, value, &EmitOptions::default())
    }

    /// [`Output::emit`] with headers, a time or a partition of its own.
    pub fn emit_with<'k, 'v>(
        &self,
        ctx: &mut Context<'_>,
        key: impl Into<Option<&'k K::Input>>,
        value: impl Into<Option<&'v V::Input>>,
        options: &EmitOptions<'_>,
    ) -> Result<(), Error>
    where
        K::Input: 'k,
        V::Input: 'v,
    {
        let (key, value) = (key.into(), value.into());
        self.stage(ctx, key, value, options).map_err(|error| ctx.run.fail(error))
    }

    fn stage(
        &self,
        ctx: &mut Context<'_>,
        key: Option<&K::Input>,
        value: Option<&V::Input>,
        options: &EmitOptions<'_>,
    ) -> Result<(), Error> {
        let id = self.handle.id(ctx.run.schema)?;
        let timestamp = self.timestamp(ctx, options)?;
        if options.partition.is_some_and(|partition| partition < 0) {
            return Err(Error::output(format!("output \"{}\": a partition is not negative", self.name())));
        }
        if self.name() == LOOP && (key.is_none() || options.partition.is_some()) {
            return Err(Error::output("output \"loop\": a record for the loop has a key, which chooses its partition"));
        }
        let mut scratch = std::mem::take(&mut ctx.run.buffers.scratch);
        scratch.clear();
        let encoded = self.encode(&mut scratch, key, value);
        let staged = encoded.and_then(|middle| self.check_size(ctx, id, scratch.len(), options).map(|()| middle));
        if let Ok(middle) = staged {
            let fields = match (options.partition, options.headers.is_empty()) {
                (Some(_), _) => 6,
                (None, false) => 5,
                (None, true) => 4,
            };
            let (out, before) = ctx.run.begin_output();
            write::put_array(out, fields);
            write::put_u64(out, id as u64);
            write::put_maybe(out, key.map(|_| &scratch[..middle]));
            write::put_maybe(out, value.map(|_| &scratch[middle..]));
            match timestamp {
                Some(timestamp) => write::put_i64(out, timestamp),
                None => write::put_nil(out),
            }
            if fields >= 5 {
                put_headers(out, &options.headers);
            }
            if let Some(partition) = options.partition {
                write::put_i64(out, partition.into());
            }
            ctx.run.staged_output(before, options.headers.len());
        }
        ctx.run.buffers.scratch = scratch;
        staged.map(|_| ())
    }

    /// Key, then value; where the value begins.
    fn encode(&self, scratch: &mut Vec<u8>, key: Option<&K::Input>, value: Option<&V::Input>) -> Result<usize, Error> {
        let wrong = |what: &str, codec: &str, source| Error::Output {
            message: format!("output \"{}\": a {what} cannot be encoded as {codec}", self.name()),
            source: Some(source),
        };
        if let Some(key) = key {
            self.key.encode(key, scratch).map_err(|source| wrong("key", self.key.name(), source))?;
        }
        let middle = scratch.len();
        if let Some(value) = value {
            self.value.encode(value, scratch).map_err(|source| wrong("value", self.value.name(), source))?;
        }
        Ok(middle)
    }

    fn check_size(&self, ctx: &Context<'_>, id: usize, encoded: usize, options: &EmitOptions<'_>) -> Result<(), Error> {
        let headers: usize = options.headers.iter().map(|header| header.name.len() + header.value.map_or(0, <[u8]>::len)).sum();
        let (size, most) = (encoded + headers, ctx.run.schema.outputs[id].max_bytes);
        if size as i64 > most {
            return Err(Error::output(format!(
                "output \"{}\": key, value and headers have {size} bytes, the limit is {most}",
                self.name()
            )));
        }
        Ok(())
    }

    /// `None` where there is no record, or it has no time that an output may have: the sidecar's clock then.
    fn timestamp(&self, ctx: &Context<'_>, options: &EmitOptions<'_>) -> Result<Option<i64>, Error> {
        let schema = ctx.run.schema;
        let allowed = schema.min_timestamp..=schema.max_timestamp;
        match options.timestamp {
            Some(chosen) if !allowed.contains(&chosen) => Err(Error::output(format!(
                "output \"{}\": timestamp {chosen} is outside {} to {}",
                self.name(),
                schema.min_timestamp,
                schema.max_timestamp
            ))),
            Some(chosen) => Ok(Some(chosen)),
            None if ctx.run.item().kind == ItemKind::Hook => Ok(None),
            None => Ok(Some(ctx.run.item().timestamp).filter(|own| allowed.contains(own))),
        }
    }

    pub(crate) fn codecs(&self) -> (&K, &V) {
        (&self.key, &self.value)
    }
}

pub(crate) fn put_headers(out: &mut Vec<u8>, headers: &[Header<'_>]) {
    if headers.is_empty() {
        return write::put_nil(out);
    }
    write::put_array(out, headers.len() as u32);
    for header in headers {
        write::put_array(out, 2);
        write::put_header_name(out, header.name);
        write::put_maybe(out, header.value);
    }
}
