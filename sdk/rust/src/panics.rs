//! A handler's panic becomes its failure, with the place where it happened.

use crate::error::{HandlerError, HandlerResult, Place};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static HANDLING: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Notes the place of panics in handlers. What the program's own hook does (by default: print) is done as well.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if HANDLING.with(Cell::get) {
                PLACE.with(|place| *place.borrow_mut() = info.location().map(Place::from));
            }
            before(info);
        }));
    });
}

pub(crate) fn caught(handle: impl FnOnce() -> HandlerResult) -> HandlerResult {
    HANDLING.with(|handling| handling.set(true));
    // What the handler had staged is undone; nothing else of ours is shared with it.
    let outcome = panic::catch_unwind(AssertUnwindSafe(handle));
    HANDLING.with(|handling| handling.set(false));
    outcome.unwrap_or_else(|payload| Err(HandlerError::panicked(message_of(&*payload), PLACE.with(RefCell::take))))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "with a value that is no text".to_owned()
    }
}
