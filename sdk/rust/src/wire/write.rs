//! The bytes of the frames a worker sends.

use super::{kind, LENGTH_BYTES, MAX_VERSION, MIN_VERSION};
use rmp::encode;

/// Writing to memory does not fail.
const MEMORY: &str = "memory takes every byte";

/// Reserves the length; [`end_frame`] fills it in.
pub(crate) fn begin_frame(out: &mut Vec<u8>, kind: u64, fields: u32) {
    out.clear();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    put_array(out, fields + 1);
    put_u64(out, kind);
}

pub(crate) fn end_frame(out: &mut [u8]) {
    let length = (out.len() - LENGTH_BYTES) as u32;
    out[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

pub(crate) fn put_array(out: &mut Vec<u8>, count: u32) {
    encode::write_array_len(out, count).expect(MEMORY);
}

pub(crate) fn put_map(out: &mut Vec<u8>, count: u32) {
    encode::write_map_len(out, count).expect(MEMORY);
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    encode::write_uint(out, value).expect(MEMORY);
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    encode::write_sint(out, value).expect(MEMORY);
}

pub(crate) fn put_nil(out: &mut Vec<u8>) {
    encode::write_nil(out).expect(MEMORY);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    encode::write_bin(out, value).expect(MEMORY);
}

/// A timer of RESULT; without a time it is cancelled.
pub(crate) fn put_timer(out: &mut Vec<u8>, key: &[u8], wall_clock: bool, name: &str, time: Option<i64>) {
    put_array(out, 4);
    put_bytes(out, key);
    put_u64(out, u64::from(wall_clock));
    put_text(out, name);
    match time {
        Some(time) => put_i64(out, time),
        None => put_nil(out),
    }
}

pub(crate) fn put_maybe(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => put_bytes(out, value),
        None => put_nil(out),
    }
}

pub(crate) fn put_text(out: &mut Vec<u8>, value: &str) {
    encode::write_str(out, value).expect(MEMORY);
}

fn put_bool(out: &mut Vec<u8>, value: bool) {
    encode::write_bool(out, value).expect(MEMORY);
}

/// str, or bin where the name is not UTF-8.
pub(crate) fn put_header_name(out: &mut Vec<u8>, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => put_text(out, text),
        Err(_) => put_bytes(out, name),
    }
}

fn frame(kind: u64, fields: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    begin_frame(&mut out, kind, fields);
    fill(&mut out);
    end_frame(&mut out);
    out
}

pub(crate) fn hello(inputs: &[&str], capabilities: &[&str], parallel: usize, name: &str) -> Vec<u8> {
    frame(kind::HELLO, 1, |out| {
        put_map(out, 8);
        put_text(out, "protocol");
        put_array(out, 2);
        put_i64(out, MIN_VERSION);
        put_i64(out, MAX_VERSION);
        for (field, text) in [("sdk", "millstream-rust"), ("language", "rust"), ("version", env!("CARGO_PKG_VERSION"))] {
            put_text(out, field);
            put_text(out, text);
        }
        put_text(out, "capabilities");
        put_array(out, capabilities.len() as u32);
        capabilities.iter().for_each(|capability| put_text(out, capability));
        put_text(out, "inputs");
        put_array(out, inputs.len() as u32);
        for input in inputs {
            put_text(out, input);
        }
        put_text(out, "parallel");
        put_u64(out, parallel as u64);
        put_text(out, "name");
        put_text(out, name);
    })
}

pub(crate) fn number(kind: u64, value: u64) -> Vec<u8> {
    frame(kind, 1, |out| put_u64(out, value))
}

pub(crate) fn texts(kind: u64, texts: &[&str]) -> Vec<u8> {
    frame(kind, texts.len() as u32, |out| texts.iter().for_each(|text| put_text(out, text)))
}

pub(crate) fn extend(seq: u64, done: u64) -> Vec<u8> {
    frame(kind::EXTEND, 2, |out| {
        put_u64(out, seq);
        put_u64(out, done);
    })
}

pub(crate) fn get(seq: u64, rid: u64, store: usize, keys: &[&[u8]]) -> Vec<u8> {
    frame(kind::GET, 4, |out| {
        put_u64(out, seq);
        put_u64(out, rid);
        put_u64(out, store as u64);
        put_array(out, keys.len() as u32);
        keys.iter().for_each(|key| put_bytes(out, key));
    })
}

/// A write that SCAN tells the sidecar.
pub(crate) struct NewOp<'a> {
    pub(crate) store: usize,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) item: u32,
}

pub(crate) struct Scan<'a> {
    pub(crate) store: usize,
    /// None is open.
    pub(crate) from: Option<&'a [u8]>,
    pub(crate) to: Option<&'a [u8]>,
    /// 0: as many as fit a page.
    pub(crate) limit: usize,
    pub(crate) reverse: bool,
    pub(crate) cursor: Option<&'a [u8]>,
    /// In the order they were made.
    pub(crate) new_ops: Vec<NewOp<'a>>,
}

pub(crate) fn scan(seq: u64, rid: u64, scan: &Scan<'_>) -> Vec<u8> {
    let mut stores: Vec<usize> = scan.new_ops.iter().map(|op| op.store).collect();
    stores.sort_unstable();
    stores.dedup();
    // What is nil at the end is left out.
    let optional = match (scan.cursor, stores.is_empty()) {
        (None, true) => 0,
        (Some(_), true) => 1,
        (_, false) => 2,
    };
    frame(kind::SCAN, 7 + optional, |out| {
        put_u64(out, seq);
        put_u64(out, rid);
        put_u64(out, scan.store as u64);
        put_maybe(out, scan.from);
        put_maybe(out, scan.to);
        put_u64(out, scan.limit as u64);
        put_bool(out, scan.reverse);
        if optional >= 1 {
            put_maybe(out, scan.cursor);
        }
        if optional == 2 {
            put_map(out, stores.len() as u32);
        }
        for store in stores {
            let ops: Vec<&NewOp<'_>> = scan.new_ops.iter().filter(|op| op.store == store).collect();
            put_u64(out, store as u64);
            put_array(out, ops.len() as u32);
            for op in ops {
                put_array(out, 3);
                put_bytes(out, op.key);
                put_maybe(out, op.value);
                put_u64(out, op.item.into());
            }
        }
    })
}

/// An op on a visit.
pub(crate) fn put_visit(out: &mut Vec<u8>, visit: usize, what: u64, data: Option<&[u8]>) {
    put_array(out, 3);
    put_u64(out, visit as u64);
    put_u64(out, what);
    put_maybe(out, data);
}

/// The `failure` of a RESULT.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) class: &'static str,
    pub(crate) error: String,
    pub(crate) message: String,
    pub(crate) retriable: bool,
}

pub(crate) fn put_failure(out: &mut Vec<u8>, failure: Option<&Failure>) {
    let Some(failure) = failure else { return put_nil(out) };
    put_map(out, 4);
    for (field, text) in [("class", failure.class), ("error", &failure.error), ("message", &failure.message)] {
        put_text(out, field);
        put_text(out, text);
    }
    put_text(out, "retriable");
    put_bool(out, failure.retriable);
}
