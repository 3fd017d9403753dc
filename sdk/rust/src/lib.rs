//! What a Rust program imports to be a stream processor run by Millstream: handlers per input, keyed state, outputs. It
//! talks to the Millstream sidecar over a Unix socket and needs no Kafka client and no network.
//!
//! ```no_run
//! use millstream::{App, Int64, Json, Output, Raw, Record, Store, Text};
//!
//! static COUNTS: Store<Text, Int64> = Store::new("counts", Text, Int64);
//! static TOTALS: Output<Text, Json<i64>> = Output::new("word-counts", Text, Json::new());
//!
//! fn main() {
//!     App::new()
//!         .on("words", |ctx, word: Record<Text, Raw>| {
//!             let n = COUNTS.get(ctx)?.unwrap_or(0) + 1;
//!             COUNTS.put(ctx, &n)?;
//!             TOTALS.emit(ctx, word.key, &n)?;
//!             Ok(())
//!         })
//!         .main();
//! }
//! ```
//!
//! What a handler writes and emits is committed together with its record, exactly once, whatever crashes. A handler may be
//! *called* more than once for a record; side effects of its own may repeat.
//!
//! # Logging
//! The crate uses [`tracing`]. Every call of a handler is in a span `record` with `processor`, `task`, `input` and `offset`,
//! so that a handler's own events say where they belong. Without a subscriber only what a person has to know goes to
//! standard error.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod app;
mod batch;
mod codec;
mod context;
mod error;
mod hooks;
#[rustfmt::skip]
mod error_codes;
mod join;
mod output;
mod panics;
mod pool;
mod record;
mod schema;
mod session;
#[cfg(test)]
mod session_test;
mod signals;
mod stop;
mod store;
mod table;
pub mod testing;
mod time;
mod visit;
mod window;
mod wire;
mod worker;

pub use app::{App, Options};
pub use codec::{BoxError, Decode, Encode, Int64, Json, Raw, Text};
pub use context::Context;
pub use error::{Error, HandlerError, HandlerResult, RunError};
pub use hooks::Gathered;
pub use join::{Join, Lookup};
pub use output::{EmitOptions, Null, Output};
pub use record::{Header, Headers, Record};
pub use stop::Stop;
pub use store::Store;
pub use table::{Range, Row, Rows};
pub use time::{Closed, ClosedSession, Due, Timer};
pub use visit::{Visit, VisitEnd, Visited};
pub use window::{SessionStore, Window, WindowStore};
