//! SIGTERM and Ctrl-C.

use crate::stop::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::time::{Duration, Instant};

/// A second Ctrl-C sooner than this is the same one seen twice: the terminal signals the whole process group.
const SAME_INTERRUPT: Duration = Duration::from_millis(500);

/// From now on the first of them stops, and a second Ctrl-C ends the process.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let stop = stop.clone();
    std::thread::Builder::new().name("millstream-signals".to_owned()).spawn(move || {
        let mut interrupted: Option<Instant> = None;
        for signal in signals.forever() {
            stop.stop();
            if signal == SIGINT {
                if interrupted.is_some_and(|at| at.elapsed() > SAME_INTERRUPT) {
                    std::process::exit(130);
                }
                interrupted.get_or_insert_with(Instant::now);
            }
        }
    })?;
    Ok(())
}
