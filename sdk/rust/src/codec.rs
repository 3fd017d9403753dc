//! Codecs: how keys and values become bytes and back.

use serde::{de::DeserializeOwned, Serialize};
use std::error::Error as StdError;
use std::marker::PhantomData;

/// Any error; what codecs give.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// Turns bytes into keys or values. Nulls never reach it. It is used from several threads at once.
///
/// For Avro, Protobuf or a schema registry implement this and [`Encode`] on a type of your own. One that implements
/// [`Default`] can be named in the type of a handler's record ([`App::on`](crate::App::on)); one that holds a
/// connection or a configuration is handed to [`App::on_with`](crate::App::on_with).
pub trait Decode: Send + Sync + 'static {
    /// What it gives; it may borrow from the bytes.
    type Output<'a>;

    /// For errors: what the bytes should have been.
    fn name(&self) -> &str;

    /// An error fails the record with class `Decode`, or `Handler` where the bytes are a store's.
    fn decode<'a>(&self, data: &'a [u8]) -> Result<Self::Output<'a>, BoxError>;
}

/// Turns keys or values into bytes. It is used from several threads at once.
pub trait Encode: Send + Sync + 'static {
    /// What it takes, by reference.
    type Input: ?Sized;

    /// For errors: what it makes.
    fn name(&self) -> &str;

    /// Appends to `out`, which may hold something already. An error fails the record with class `Output`.
    fn encode(&self, value: &Self::Input, out: &mut Vec<u8>) -> Result<(), BoxError>;
}

/// UTF-8 text, `&str`. Bytes that are not UTF-8 do not decode; use [`Raw`] where keys may be anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

/// Bytes as they are, `&[u8]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

/// `i64` as 8 bytes big-endian, as Kafka's LongSerializer. Scans order negative numbers after positive ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Int64;

/// What [`serde_json`] makes of `T`, compact.
pub struct Json<T>(PhantomData<fn() -> T>);

impl<T> Json<T> {
    /// The codec; it has no state.
    pub const fn new() -> Self {
        Json(PhantomData)
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Json<T> {}
impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> std::fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json<{}>", std::any::type_name::<T>())
    }
}

impl Decode for Text {
    type Output<'a> = &'a str;
    fn name(&self) -> &str {
        "text"
    }
    fn decode<'a>(&self, data: &'a [u8]) -> Result<&'a str, BoxError> {
        std::str::from_utf8(data).map_err(|error| format!("{error}; the Raw codec takes any bytes").into())
    }
}

impl Encode for Text {
    type Input = str;
    fn name(&self) -> &str {
        "text"
    }
    fn encode(&self, value: &str, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }
}

impl Decode for Raw {
    type Output<'a> = &'a [u8];
    fn name(&self) -> &str {
        "raw"
    }
    fn decode<'a>(&self, data: &'a [u8]) -> Result<&'a [u8], BoxError> {
        Ok(data)
    }
}

impl Encode for Raw {
    type Input = [u8];
    fn name(&self) -> &str {
        "raw"
    }
    fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend_from_slice(value);
        Ok(())
    }
}

impl Decode for Int64 {
    type Output<'a> = i64;
    fn name(&self) -> &str {
        "int64"
    }
    fn decode(&self, data: &[u8]) -> Result<i64, BoxError> {
        match data.try_into() {
            Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
            Err(_) => Err(format!("an integer is 8 bytes big-endian, these are {}", data.len()).into()),
        }
    }
}

impl Encode for Int64 {
    type Input = i64;
    fn name(&self) -> &str {
        "int64"
    }
    fn encode(&self, value: &i64, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }
}

impl<T: DeserializeOwned + 'static> Decode for Json<T> {
    type Output<'a> = T;
    fn name(&self) -> &str {
        "json"
    }
    fn decode(&self, data: &[u8]) -> Result<T, BoxError> {
        Ok(serde_json::from_slice(data)?)
    }
}

impl<T: Serialize + 'static> Encode for Json<T> {
    type Input = T;
    fn name(&self) -> &str {
        "json"
    }
    fn encode(&self, value: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        Ok(serde_json::to_writer(out, value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<C: Encode + Decode>(codec: C, value: &C::Input) -> Vec<u8> {
        let mut out = b"before".to_vec();
        codec.encode(value, &mut out).unwrap();
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    #[test]
    fn integers_are_eight_bytes_big_endian() {
        assert_eq!(round(Int64, &-2), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(Int64.decode(&i64::MIN.to_be_bytes()).unwrap(), i64::MIN);
        let error = Int64.decode(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("8 bytes") && error.ends_with('2'), "{error}");
    }

    #[test]
    fn text_refuses_what_is_not_utf8_and_names_the_codec_that_takes_it() {
        assert_eq!(round(Text, "ä"), "ä".as_bytes());
        assert!(Text.decode(b"\xff").unwrap_err().to_string().contains("Raw"));
        assert_eq!(round(Raw, b"\xff"), b"\xff");
    }

    #[test]
    fn json_is_compact_and_says_where_it_is_wrong() {
        let value: Vec<Option<i64>> = vec![Some(1), None];
        assert_eq!(round(Json::new(), &value), b"[1,null]");
        let error = Json::<Vec<i64>>::new().decode(b"[1,x]").unwrap_err().to_string();
        assert!(error.contains("column 4"), "{error}");
        assert!(Json::<i64>::new().decode(b"1 2").is_err());
        // Maps with keys that JSON cannot have: an error, not a panic.
        let map: std::collections::HashMap<Vec<u8>, i64> = [(vec![1], 1)].into();
        assert!(Json::new().encode(&map, &mut Vec::new()).is_err());
    }
}
