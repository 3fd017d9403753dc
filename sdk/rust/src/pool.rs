//! Threads for batches: as many as run at the same time, kept for the next ones.

use crate::batch::Buffers;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) type Job = Box<dyn FnOnce(&mut Buffers) + Send>;

/// Clones are the same pool. It ends its threads when they are idle and [`Pool::close`] was called.
///
/// Bound: a session has at most `parallel` batches that count and, for each of its tasks, at most one more that was
/// cancelled and whose handler has not noticed; jobs wait for nothing else, so there are no more threads than those.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    made: usize,
    closed: bool,
}

impl Pool {
    /// Runs a job at once. The error is that of a thread that cannot be made.
    pub(crate) fn submit(&self, job: Job) -> io::Result<()> {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            self.0.changed.notify_one();
            return Ok(());
        }
        state.made += 1;
        let pool = self.clone();
        std::thread::Builder::new().name(format!("millstream-{}", state.made)).spawn(move || pool.work())?;
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.0.changed.notify_all();
    }

    fn work(&self) {
        let mut buffers = Buffers::default();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job(&mut buffers);
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
