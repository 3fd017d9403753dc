//! The errors a program can meet, each with what to do about it.

use crate::codec::BoxError;
use crate::wire::write::Failure;
use crate::wire::{cut_text, MAX_TEXT_BYTES};
use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

/// What state and outputs give. Return it from the handler (`?`): it tells the sidecar the right class.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The batch no longer counts: it was cancelled, or the connection ended. Nothing of it is committed, and its records
    /// come again.
    Void,
    /// A call that means the record's own key, for a record without one. Name a key, or send records with keys.
    NoKey {
        /// The store or join.
        store: &'static str,
    },
    /// The manifest does not declare the store, join, lookup or output. Fails the record whatever the handler returns.
    Undeclared {
        /// `"store"`, `"join"`, `"lookup"`, `"visit"` or `"output"`.
        what: &'static str,
        /// The name the program uses.
        name: &'static str,
        /// The names the manifest has.
        declared: Vec<String>,
    },
    /// A value that cannot be encoded or is beyond a limit. Fails the record, whatever the handler returns, with class
    /// `Output`.
    Output {
        /// What is wrong, with the name of the store or output and the limit.
        message: String,
        /// What the codec said.
        source: Option<BoxError>,
    },
    /// A key or value of a record is not what its codec expects; class `Decode`. Handlers do not see it.
    Decode {
        /// What, and of which record.
        message: String,
        /// What the codec said.
        source: BoxError,
    },
    /// A stored key or value is not what its store's codec expects, for example after the codec was changed.
    StateDecode {
        /// What, and of which store.
        message: String,
        /// What the codec said.
        source: BoxError,
    },
    /// The sidecar could not read the state; what it said. A later attempt may succeed.
    State(String),
}

impl Error {
    pub(crate) fn output(message: impl Into<String>) -> Error {
        Error::Output { message: message.into(), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Void => write!(f, "the batch no longer counts; return, its records come again"),
            Error::NoKey { store } => write!(
                f,
                "\"{store}\": the record has no key, so there is no default key for state; name one, or send records with keys"
            ),
            Error::Undeclared { what, name, declared } => write!(
                f,
                "no {what} \"{name}\" in the manifest; declared {what}s: {}. Add it under spec.{what}s to use it",
                listed(declared)
            ),
            Error::Output { message, source: None } => write!(f, "{message}"),
            Error::Output { message, source: Some(source) }
            | Error::Decode { message, source }
            | Error::StateDecode { message, source } => write!(f, "{message}: {source}"),
            Error::State(message) => write!(f, "the sidecar could not read the state: {message}"),
        }
    }
}

impl StdError for Error {
    // The sources are part of the message.
}

/// What handlers return.
pub type HandlerResult = Result<(), HandlerError>;

/// Why a handler failed. `?` makes one of any error and notes the place, so that the sidecar's report says where in the
/// program it happened.
///
/// ```
/// use millstream::HandlerError;
/// # fn f(text: &str) -> millstream::HandlerResult {
/// let n: i64 = text.parse()?;
/// if n < 0 {
///     return Err(HandlerError::msg(format!("{n} is negative"))); // retried, then as errors.onFailure says
/// }
/// if n > 100 {
///     return Err(HandlerError::reject("more than all"));         // never retried
/// }
/// # Ok(())
/// # }
/// ```
///
/// It does not implement [`std::error::Error`], as otherwise it could not be made of every error; `anyhow::Error` and the
/// like convert with [`HandlerError::new`].
pub struct HandlerError {
    error: BoxError,
    name: &'static str,
    place: Option<Place>,
    rejected: bool,
}

/// Where in the program.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl From<&Location<'_>> for Place {
    fn from(location: &Location<'_>) -> Self {
        Place { file: location.file().to_owned(), line: location.line() }
    }
}

impl HandlerError {
    /// From a boxed error, a text, or what converts into one.
    #[track_caller]
    pub fn new(error: impl Into<BoxError>) -> Self {
        HandlerError { error: error.into(), name: "Error", place: Some(Location::caller().into()), rejected: false }
    }

    /// From a text.
    #[track_caller]
    pub fn msg(message: impl fmt::Display) -> Self {
        Self::new(message.to_string())
    }

    /// For a record that will never succeed: it is not retried, `errors.onFailure` of the manifest applies at once.
    #[track_caller]
    pub fn reject(error: impl Into<BoxError>) -> Self {
        HandlerError { rejected: true, ..Self::new(error) }
    }

    /// Marks an error as one that no retry can cure: `parse(value).map_err(|e| HandlerError::from(e).rejected())?`.
    #[must_use]
    pub fn rejected(mut self) -> Self {
        self.rejected = true;
        self
    }

    /// Of an error that did not come from the program's own code.
    pub(crate) fn placeless(error: Error) -> Self {
        HandlerError { place: None, ..Self::from(error) }
    }

    pub(crate) fn panicked(message: String, place: Option<Place>) -> Self {
        HandlerError { error: format!("panic: {message}").into(), name: "panic", place, rejected: false }
    }

    /// The error of ours that is at the bottom of this one, if any.
    pub(crate) fn own(&self) -> Option<&Error> {
        let mut next: Option<&(dyn StdError + 'static)> = Some(self.error.as_ref());
        for _ in 0..MAX_CAUSES {
            let error = next?;
            if let Some(own) = error.downcast_ref::<Error>() {
                return Some(own);
            }
            next = error.source();
        }
        None
    }

    pub(crate) fn failure(&self) -> Failure {
        let (class, retriable) = self.own().map_or(("Handler", true), class_of);
        let message = cut_text(&self.to_string(), MAX_TEXT_BYTES / 2);
        Failure { class, error: self.name.to_owned(), message, retriable: retriable && !self.rejected }
    }
}

/// What fails an item that the handler says has not failed.
pub(crate) fn own_failure(error: &Error) -> Failure {
    let (class, retriable) = class_of(error);
    Failure { class, error: "Error".to_owned(), message: cut_text(&error.to_string(), MAX_TEXT_BYTES / 2), retriable }
}

/// Failure class, and whether another attempt can help.
fn class_of(error: &Error) -> (&'static str, bool) {
    match error {
        Error::Decode { .. } => ("Decode", false),
        Error::Output { .. } => ("Output", false),
        Error::Undeclared { .. } => ("Handler", false),
        _ => ("Handler", true),
    }
}

/// Causes that are looked at and told.
const MAX_CAUSES: usize = 8;

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    #[track_caller]
    fn from(error: E) -> Self {
        HandlerError { name: short_name(std::any::type_name::<E>()), ..Self::new(error) }
    }
}

/// `ParseIntError` of `core::num::error::ParseIntError`.
fn short_name(path: &'static str) -> &'static str {
    let end = path.find('<').unwrap_or(path.len());
    path[..end].rsplit("::").next().unwrap_or(path)
}

/// The message, the place, and the causes.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if let Some(place) = &self.place {
            write!(f, "\n  at {}:{}", place.file, place.line)?;
        }
        let mut cause = self.error.source();
        for _ in 0..MAX_CAUSES {
            let Some(error) = cause else { break };
            write!(f, "\ncaused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.name)
    }
}

/// Why [`App::run`](crate::App::run) ended other than in good order.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The program and the manifest, or the two versions, do not fit together. Starting again unchanged does not help.
    Config(String),
    /// There is no sidecar, or it stays away.
    NoSidecar(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (RunError::Config(message) | RunError::NoSidecar(message)) = self;
        write!(f, "{message}")
    }
}

impl StdError for RunError {}

pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> HandlerResult {
        let _: i64 = text.parse()?;
        Ok(())
    }

    #[test]
    fn a_failure_tells_type_message_and_place() {
        let failure = parse("x").unwrap_err().failure();
        assert_eq!((failure.class, failure.error.as_str(), failure.retriable), ("Handler", "ParseIntError", true));
        assert!(failure.message.contains("invalid digit") && failure.message.contains("error.rs:"), "{}", failure.message);
    }

    #[test]
    fn rejected_records_are_not_retried() {
        assert!(!HandlerError::reject("no").failure().retriable);
        assert!(!parse("x").unwrap_err().rejected().failure().retriable);
        assert!(HandlerError::msg("no").failure().retriable);
    }

    #[derive(Debug)]
    struct Outer(Error);
    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "outer")
        }
    }
    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_class_is_found_behind_wrappers_and_causes_are_told() {
        let failure = HandlerError::from(Outer(Error::output("too large"))).failure();
        assert_eq!((failure.class, failure.retriable, failure.error.as_str()), ("Output", false, "Outer"));
        assert!(failure.message.contains("caused by: too large"), "{}", failure.message);
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let failure = HandlerError::msg("ä".repeat(MAX_TEXT_BYTES)).failure();
        assert!(failure.message.len() < MAX_TEXT_BYTES);
        assert!(failure.message.contains("bytes in all"));
    }
}
