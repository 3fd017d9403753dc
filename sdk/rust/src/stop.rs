//! Telling a program to stop.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Tells [`App::run`](crate::App::run) to stop. Clones tell the same program; use it from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Of the connection at hand, if there is one.
    listener: Option<Sender<Event>>,
}

/// What ends or changes the waiting of a connection's watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Stop,
    /// The handshake is done.
    Opened,
    /// The connection is over.
    Over,
}

impl Stop {
    /// One that nobody has told yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks for an orderly end. Once is enough; further calls do nothing.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        if let Some(listener) = state.listener.take() {
            // Nobody listens any more where it fails.
            let _ = listener.send(Event::Stop);
        }
        self.0.changed.notify_all();
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Waits for it that long; whether it came.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let waited = self.0.changed.wait_timeout_while(self.lock(), time, |state| !state.stopped);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    /// The listener is told now or when it happens. A listener that was there before is forgotten.
    pub(crate) fn listen(&self, listener: Sender<Event>) {
        let mut state = self.lock();
        if state.stopped {
            let _ = listener.send(Event::Stop);
        } else {
            state.listener = Some(listener);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
