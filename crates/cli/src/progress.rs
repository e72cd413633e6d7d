//! Progress on standard error.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Counts events on standard error, if that is a terminal and the work lasts longer than a second.
pub struct Progress {
    began: Instant,
    state: State,
}

enum State {
    /// Standard error is not a terminal.
    Off,
    /// The work has not lasted long enough.
    Waiting,
    /// The bar is shown.
    Drawn(ProgressBar),
}

const SHOW_AFTER: Duration = Duration::from_secs(1);

impl Progress {
    pub fn new() -> Progress {
        let state = if output::can_draw() { State::Waiting } else { State::Off };
        Progress { began: Instant::now(), state }
    }

    /// Reports the number of events read so far.
    pub fn events(&mut self, count: u64) {
        match &self.state {
            State::Off => {}
            State::Waiting if self.began.elapsed() < SHOW_AFTER => {}
            State::Waiting => self.state = State::Drawn(bar(count)),
            State::Drawn(bar) => bar.set_position(count),
        }
    }
}

fn bar(count: u64) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} events read, {per_sec}, {elapsed}") {
        bar.set_style(style);
    }
    bar.set_position(count);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let State::Drawn(bar) = &self.state {
            bar.finish_and_clear();
        }
    }
}
