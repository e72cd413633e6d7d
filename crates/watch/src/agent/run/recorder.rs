//! Manages the flight recorder: creates, arms, replaces and stops it.

use std::time::{Duration, Instant};

use unstarve_record::{BufferSize, Flight, RecordError, Roll};

use super::{Event, REST_AFTER, Watch};
use crate::agent::board::RecorderState;
use crate::agent::config::{Length, Recorder, RecorderMode};
use crate::engine::error_chain;

/// The key of this problem: the recorder runs with other buffers than configured.
const BUFFERS: &str = "buffers";

/// How often creation is retried if buffers are smaller than configured.
const BUFFER_RETRY: Duration = Duration::from_secs(60);

/// The settings of a recorder; if they change, it must be created again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Buffers {
    keep: Length,
    mib: Option<u32>,
}

impl Buffers {
    pub(super) fn of(recorder: &Recorder) -> Option<Buffers> {
        let wanted = Buffers { keep: recorder.keep, mib: recorder.buffer_mib };
        (recorder.mode != RecorderMode::Off).then_some(wanted)
    }
}

/// Why buffers are small, with the last error: the failed attempt is gone a moment later, but its reason must stay visible.
fn small(why: &str, last_failure: Option<&str>) -> String {
    let again = BUFFER_RETRY.as_secs();
    let failed = last_failure.map_or_else(String::new, |why| format!("; the last try failed: {why}"));
    format!(
        "the flight recorder has small buffers, so traces may be short: {why}; it is tried again every {again} s{failed}"
    )
}

impl Watch {
    /// Makes the flight recorder match the configuration. The present one keeps recording until the new one is ready, and until the episode that is
    /// being recorded has its trace.
    pub(super) fn see_to_recorder(&mut self) {
        if self.waits.is_some() {
            return;
        }
        let Some(wanted) = Buffers::of(&self.config.recorder) else {
            (self.running_by, self.tried) = (None, None);
            let old = (self.flight.take(), self.next_flight.take());
            if old.0.is_some() || old.1.is_some() {
                self.discard(old);
            }
            self.no_other_buffers();
            self.recorder(RecorderState::Off);
            return;
        };
        if let Some((by, next)) = self.next_flight.take() {
            let is_small = self.flight.as_ref().is_some_and(|flight| flight.small().is_some());
            if self.running_by == Some(wanted) && !(is_small && next.small().is_none()) {
                // The configuration was changed back, or another attempt was no better.
                self.discard(next);
            } else {
                let old = self.flight.replace(next);
                self.running_by = Some(by);
                self.discard(old);
                self.arm(self.config.recorder.mode == RecorderMode::Always);
            }
        }
        if self.running_by == Some(wanted) {
            self.tried = None;
            self.see_to_buffers(wanted);
        } else if !self.preparing && self.tried != Some(wanted) {
            self.prepare(wanted);
        }
    }

    /// Reports if the kernel could not enlarge all buffers, and retries: what kept a CPU busy then may be over.
    fn see_to_buffers(&mut self, wanted: Buffers) {
        let Some(why) = self.flight.as_ref().and_then(Flight::small).map(|notice| notice.reason()) else {
            return self.no_other_buffers();
        };
        let text = small(&why, self.last_failure.as_deref());
        if self.board.read().problems.get(BUFFERS) != Some(&text) {
            (self.say)(&text);
            self.board.write(|published| drop(published.problems.insert(BUFFERS, text)));
        }
        if !self.preparing && self.last_try.is_none_or(|tried| tried.elapsed() >= BUFFER_RETRY) {
            self.prepare(wanted);
        }
    }

    /// Creates a flight recorder in a thread: this takes time if the kernel's own workers are kept off CPUs.
    fn prepare(&mut self, wanted: Buffers) {
        let buffer = wanted.mib.map_or(BufferSize::Auto, |mib| BufferSize::KiB(mib.saturating_mul(1 << 10)));
        let (events, make) = (self.events.clone(), self.make);
        let make = move || {
            let _ = events.send(Event::Flight(wanted, Box::new(make(wanted.keep.0, buffer))));
        };
        (self.tried, self.last_try) = (Some(wanted), Some(Instant::now()));
        match std::thread::Builder::new().name("unstarve-flight".into()).spawn(make) {
            Ok(thread) => {
                self.preparing = true;
                self.recorders.push(thread);
            }
            Err(error) => self.has_no_flight(&format!("cannot start a thread: {error}")),
        }
    }

    pub(super) fn has_flight(&mut self, by: Buffers, flight: Result<Flight, RecordError>) {
        self.preparing = false;
        match flight {
            Ok(flight) => {
                self.last_failure = None;
                self.next_flight = Some((by, flight));
            }
            Err(error) => {
                let key = by.mib.map_or_else(String::new, |mib| format!("[recorder] buffer-mib = {mib}: "));
                self.has_no_flight(&format!("{key}{}", error_chain(&error)));
            }
        }
        self.see_to_recorder();
    }

    fn has_no_flight(&mut self, why: &str) {
        self.last_failure = Some(why.to_owned());
        if self.running_by.is_some() {
            let why = format!("the flight recorder keeps the buffers that it has: {why}");
            (self.say)(&why);
            self.board.write(|published| drop(published.problems.insert(BUFFERS, why)));
        } else {
            (self.say)(&format!("episodes will have no trace: {why}"));
            self.recorder(RecorderState::Broken(why.to_owned()));
        }
    }

    /// The buffers are as configured.
    fn no_other_buffers(&self) {
        if self.board.read().problems.contains_key(BUFFERS) {
            self.board.write(|published| drop(published.problems.remove(BUFFERS)));
        }
    }

    /// Takes back an instance whose trace is on the disk. An instance of a replaced recorder is removed.
    pub(super) fn take_back(&mut self, roll: Roll) {
        let stranger = match &mut self.flight {
            Some(flight) => flight.take_back(roll),
            None => Some(roll),
        };
        self.discard(stranger);
    }

    /// Removes buffers in a thread: the kernel waits for other CPUs, and the main loop must not wait.
    fn discard(&mut self, old: impl Send + 'static) {
        self.recorders.retain(|thread| !thread.is_finished());
        let remove = std::thread::Builder::new().name("unstarve-flight".into()).spawn(move || drop(old));
        self.recorders.extend(remove);
    }

    pub(super) fn arm(&mut self, armed: bool) {
        let Some(flight) = &mut self.flight else { return };
        if armed {
            self.last_armed = Instant::now();
        }
        let wanted = match self.config.recorder.mode {
            RecorderMode::Always => true,
            RecorderMode::Armed => armed || self.last_armed.elapsed() < REST_AFTER && flight.is_running(),
            // Stopped once the episode has its trace.
            RecorderMode::Off => flight.is_running(),
        };
        let done = if wanted { flight.run() } else { flight.rest() };
        let state = match done {
            Err(error) => RecorderState::Broken(error_chain(&error)),
            Ok(()) if wanted => RecorderState::Recording,
            Ok(()) => RecorderState::Armed,
        };
        self.recorder(state);
    }

    pub(super) fn recorder(&self, state: RecorderState) {
        if self.board.read().recorder == state {
            return;
        }
        self.board.write(|published| {
            match &state {
                RecorderState::Broken(why) => {
                    drop(published.problems.insert("recorder", format!("flight recorder: {why}")))
                }
                _ => drop(published.problems.remove("recorder")),
            }
            published.recorder = state;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_try_failed_is_said_beside_why_another_one_is_made() {
        let text = small("a busy CPU 1", None);
        assert!(text.contains("CPU 1; it is tried again every 60 s") && !text.contains("failed"), "{text}");
        let text = small("a busy CPU 1", Some("cannot allocate memory"));
        assert!(
            text.contains("CPU 1; it is tried again") && text.ends_with("failed: cannot allocate memory"),
            "{text}"
        );
    }
}
