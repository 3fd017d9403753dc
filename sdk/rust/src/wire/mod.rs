//! The frames of the worker protocol, version 1 (docs/reference/protocol.md): the shapes this SDK reads and the bytes it
//! writes. Nothing here does I/O.

pub(crate) mod batch;
#[cfg(test)]
mod golden_test;
#[cfg(test)]
mod golden_time_test;
pub(crate) mod reader;
pub(crate) mod welcome;
pub(crate) mod write;

pub(crate) const MIN_VERSION: i64 = 1;
pub(crate) const MAX_VERSION: i64 = 1;
/// What a first frame from the worker may be, and the least that a WELCOME may ask for.
pub(crate) const HELLO_FRAME_CAP: usize = 64 << 10;
pub(crate) const DEFAULT_FRAME_CAP: usize = 16 << 20;
/// The most a WELCOME may ask for: a 4-byte length could say 4 GiB.
pub(crate) const MAX_FRAME_CAP: usize = 1 << 30;
pub(crate) const LENGTH_BYTES: usize = 4;
pub(crate) const FLAG_TRACE: u32 = 1;
/// Texts of failures and errors are cut there.
pub(crate) const MAX_TEXT_BYTES: usize = 16 << 10;
/// Elements that the lists of a frame may have.
pub(crate) const MAX_ELEMENTS: usize = 1 << 20;

/// The numbers of the message kinds.
pub(crate) mod kind {
    pub(crate) const HELLO: u64 = 1;
    pub(crate) const WELCOME: u64 = 2;
    pub(crate) const OPEN: u64 = 3;
    pub(crate) const CLOSE: u64 = 4;
    pub(crate) const BATCH: u64 = 5;
    pub(crate) const RESULT: u64 = 6;
    pub(crate) const CANCEL: u64 = 7;
    pub(crate) const GET: u64 = 8;
    pub(crate) const VALUES: u64 = 9;
    pub(crate) const SCAN: u64 = 10;
    pub(crate) const ROWS: u64 = 11;
    pub(crate) const EXTEND: u64 = 12;
    pub(crate) const BEGIN: u64 = 13;
    pub(crate) const FINALIZE: u64 = 14;
    pub(crate) const COMMITTED: u64 = 15;
    pub(crate) const PING: u64 = 20;
    pub(crate) const PONG: u64 = 21;
    pub(crate) const ERROR: u64 = 22;
    pub(crate) const GOODBYE: u64 = 23;
}

/// The kind as the specification writes it.
pub(crate) fn kind_name(number: u64) -> String {
    match number {
        kind::HELLO => "HELLO",
        kind::WELCOME => "WELCOME",
        kind::OPEN => "OPEN",
        kind::CLOSE => "CLOSE",
        kind::BATCH => "BATCH",
        kind::RESULT => "RESULT",
        kind::CANCEL => "CANCEL",
        kind::GET => "GET",
        kind::VALUES => "VALUES",
        kind::SCAN => "SCAN",
        kind::ROWS => "ROWS",
        kind::EXTEND => "EXTEND",
        kind::BEGIN => "BEGIN",
        kind::FINALIZE => "FINALIZE",
        kind::COMMITTED => "COMMITTED",
        kind::PING => "PING",
        kind::PONG => "PONG",
        kind::ERROR => "ERROR",
        kind::GOODBYE => "GOODBYE",
        _ => return format!("kind {number}"),
    }
    .to_owned()
}

/// The sidecar sent something that is not the worker protocol. The connection is closed and made anew.
#[derive(Debug)]
pub(crate) struct ProtocolError {
    /// The ERROR code that the sidecar is told.
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

pub(crate) fn bad_frame(message: impl Into<String>) -> ProtocolError {
    ProtocolError { code: "BadFrame", message: message.into() }
}

/// A part of a payload, by place: so a frame and what is known of it can move between threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    length: u32,
}

impl Span {
    /// Precondition: `end` fits 32 bits, which the frame cap takes care of.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, length: (end - start) as u32 }
    }

    pub(crate) fn of(self, data: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &data[start..start + self.length as usize]
    }

    pub(crate) fn len(self) -> usize {
        self.length as usize
    }
}

/// Valid UTF-8 of about `most` bytes.
pub(crate) fn cut_text(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}\n... ({} bytes in all)", &text[..end], text.len())
}
