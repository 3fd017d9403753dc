//! Takes MessagePack values off the front of a payload, with the checks that the protocol asks for.

use super::{bad_frame, ProtocolError, Span, MAX_ELEMENTS};
use rmp::{decode, Marker};

pub(crate) type Read<T> = Result<T, ProtocolError>;

/// A further field of a later version may be nested; nothing we know is deeper than this.
const MAX_DEPTH: u32 = 32;

pub(crate) struct Reader<'f> {
    all: &'f [u8],
    rest: &'f [u8],
}

impl<'f> Reader<'f> {
    pub(crate) fn new(payload: &'f [u8]) -> Self {
        Reader { all: payload, rest: payload }
    }

    pub(crate) fn position(&self) -> usize {
        self.all.len() - self.rest.len()
    }

    /// Goes on from a place where a reader of the same payload has been.
    pub(crate) fn start_at(&mut self, position: usize) {
        self.rest = &self.all[position..];
    }

    /// Takes a nil, if there is one.
    pub(crate) fn take_nil(&mut self) -> bool {
        let is_nil = self.rest.first() == Some(&0xc0);
        if is_nil {
            self.rest = &self.rest[1..];
        }
        is_nil
    }

    /// Small numbers, which most are, without a detour.
    fn small(&mut self) -> Option<u8> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Some(byte)
            }
            _ => None,
        }
    }

    pub(crate) fn i64(&mut self, field: &str) -> Read<i64> {
        match self.small() {
            Some(byte) => Ok(byte.into()),
            None => decode::read_int(&mut self.rest).map_err(|error| wrong(field, error)),
        }
    }

    pub(crate) fn u64(&mut self, field: &str) -> Read<u64> {
        match self.small() {
            Some(byte) => Ok(byte.into()),
            None => decode::read_int(&mut self.rest).map_err(|error| wrong(field, error)),
        }
    }

    pub(crate) fn u32(&mut self, field: &str) -> Read<u32> {
        match self.small() {
            Some(byte) => Ok(byte.into()),
            None => decode::read_int(&mut self.rest).map_err(|error| wrong(field, error)),
        }
    }

    /// Numbers of tasks and partitions are never negative.
    pub(crate) fn index(&mut self, field: &str) -> Read<i32> {
        let value = self.u32(field)?;
        i32::try_from(value).map_err(|_| bad_frame(format!("{field}: {value} is too large")))
    }

    pub(crate) fn bool(&mut self, field: &str) -> Read<bool> {
        decode::read_bool(&mut self.rest).map_err(|error| wrong(field, error))
    }

    fn marker(&self, field: &str) -> Read<Marker> {
        match self.rest.first() {
            Some(&byte) => Ok(Marker::from_u8(byte)),
            None => Err(bad_frame(format!("{field}: the frame ends too early"))),
        }
    }

    fn advance(&mut self, field: &str, count: usize) -> Read<&'f [u8]> {
        if count > self.rest.len() {
            return Err(bad_frame(format!("{field}: {count} bytes where {} are left in the frame", self.rest.len())));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// bin, and str, which receivers take for it.
    pub(crate) fn bytes(&mut self, field: &str) -> Read<&'f [u8]> {
        let length = match self.marker(field)? {
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                decode::read_str_len(&mut self.rest).map_err(|error| wrong(field, error))?
            }
            _ => decode::read_bin_len(&mut self.rest).map_err(|error| wrong(field, error))?,
        };
        self.advance(field, length as usize)
    }

    /// None is null; empty bytes are not.
    pub(crate) fn maybe_bytes(&mut self, field: &str) -> Read<Option<&'f [u8]>> {
        if self.take_nil() {
            return Ok(None);
        }
        self.bytes(field).map(Some)
    }

    pub(crate) fn span(&mut self, field: &str) -> Read<Span> {
        let length = self.bytes(field)?.len();
        Ok(Span::new(self.position() - length, self.position()))
    }

    pub(crate) fn maybe_span(&mut self, field: &str) -> Read<Option<Span>> {
        if self.take_nil() {
            return Ok(None);
        }
        self.span(field).map(Some)
    }

    pub(crate) fn text(&mut self, field: &str) -> Read<String> {
        Ok(String::from_utf8_lossy(self.bytes(field)?).into_owned())
    }

    /// The head of an array of any length.
    pub(crate) fn list(&mut self, field: &str) -> Read<usize> {
        let count = decode::read_array_len(&mut self.rest).map_err(|error| wrong(field, error))? as usize;
        // An element takes a byte at least.
        if count > MAX_ELEMENTS || count > self.rest.len() {
            return Err(bad_frame(format!("{field}: {count} elements do not fit the frame")));
        }
        Ok(count)
    }

    /// The head of a tuple of at least `least` fields: how many there are beyond those.
    pub(crate) fn fields(&mut self, field: &str, least: usize) -> Read<usize> {
        let count = self.list(field)?;
        match count.checked_sub(least) {
            Some(more) => Ok(more),
            None => Err(bad_frame(format!("{field} has {count} fields, at least {least} are needed"))),
        }
    }

    pub(crate) fn map(&mut self, field: &str) -> Read<usize> {
        let count = decode::read_map_len(&mut self.rest).map_err(|error| wrong(field, error))? as usize;
        if count > MAX_ELEMENTS || 2 * count > self.rest.len() {
            return Err(bad_frame(format!("{field}: {count} entries do not fit the frame")));
        }
        Ok(count)
    }

    /// Whether an optional field is there and not nil; `left` counts those that remain of its tuple.
    pub(crate) fn more(&mut self, left: &mut usize) -> bool {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        !self.take_nil()
    }

    /// Goes over `count` values, whatever they are.
    pub(crate) fn skip(&mut self, count: usize) -> Read<()> {
        (0..count).try_for_each(|_| self.skip_one(0))
    }

    fn skip_one(&mut self, depth: u32) -> Read<()> {
        const FIELD: &str = "a further field";
        if depth > MAX_DEPTH {
            return Err(bad_frame("a further field is nested too deep"));
        }
        let children = match self.marker(FIELD)? {
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => self.list(FIELD)?,
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => 2 * self.map(FIELD)?,
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 | Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
                self.bytes(FIELD)?;
                0
            }
            marker => {
                let size = match marker {
                    Marker::Null | Marker::True | Marker::False | Marker::FixPos(_) | Marker::FixNeg(_) => 1,
                    Marker::U8 | Marker::I8 => 2,
                    Marker::U16 | Marker::I16 => 3,
                    Marker::U32 | Marker::I32 | Marker::F32 => 5,
                    Marker::U64 | Marker::I64 | Marker::F64 => 9,
                    Marker::Reserved => return Err(bad_frame("not MessagePack: the unused byte 0xc1")),
                    _ => {
                        self.extension(FIELD)?;
                        0
                    }
                };
                self.advance(FIELD, size)?;
                0
            }
        };
        (0..children).try_for_each(|_| self.skip_one(depth + 1))
    }

    /// Takes an extension value and gives its type; None, with nothing taken, where there is something else.
    pub(crate) fn maybe_extension(&mut self, field: &str) -> Read<Option<i8>> {
        match self.marker(field)? {
            Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32 => self.extension(field).map(Some),
            _ => Ok(None),
        }
    }

    fn extension(&mut self, field: &str) -> Read<i8> {
        let head = decode::read_ext_meta(&mut self.rest).map_err(|error| wrong(field, error))?;
        self.advance(field, head.size as usize)?;
        Ok(head.typeid)
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Read<()> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(bad_frame(format!("{more} bytes follow the message"))),
        }
    }
}

fn wrong(field: &str, error: impl std::fmt::Display) -> ProtocolError {
    bad_frame(format!("{field}: {error}"))
}

/// `[kind, ...]`: the kind, and how many fields follow it.
pub(crate) fn read_head(reader: &mut Reader<'_>) -> Read<(u64, usize)> {
    let more = reader.fields("frame", 1)?;
    Ok((reader.u64("kind")?, more))
}
