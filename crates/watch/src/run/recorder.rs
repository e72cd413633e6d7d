//! The flight recorder: made, armed and put to rest.

use std::time::Instant;

use unstarve_record::{BufferSize, Flight, RecordError};

use super::{Event, REST_AFTER, Watch};
use crate::config::{Recorder, RecorderMode};
use crate::scribe::chain;
use crate::tell::RecorderState;

impl Watch {
    /// Makes the flight recorder, in a thread: where CPUs are kept from the kernel's own workers that takes its time.
    pub(super) fn prepare(&mut self) {
        let Recorder { mode, keep, buffer_mib, .. } = self.config.recorder.clone();
        if mode == RecorderMode::Off {
            self.flight = None;
            self.recorder(RecorderState::Off);
            return;
        }
        if self.preparing {
            return;
        }
        let buffer = buffer_mib.map_or(BufferSize::Auto, |mib| BufferSize::KiB(mib.saturating_mul(1 << 10)));
        let events = self.events.clone();
        let make = move || {
            let flight = Flight::prepare(keep.0, buffer, &mut |_| {});
            let _ = events.send(Event::Flight(Box::new(flight)));
        };
        self.preparing = std::thread::Builder::new().name("unstarve-flight".into()).spawn(make).is_ok();
    }

    pub(super) fn has_flight(&mut self, flight: Result<Flight, RecordError>) {
        self.preparing = false;
        match flight {
            Ok(flight) if self.config.recorder.mode != RecorderMode::Off => {
                self.flight = Some(flight);
                self.arm(self.config.recorder.mode == RecorderMode::Always);
            }
            Ok(_) => {}
            Err(error) => {
                let why = chain(&error);
                (self.say)(&format!("episodes will have no trace: {why}"));
                self.recorder(RecorderState::Broken(why));
            }
        }
    }

    pub(super) fn arm(&mut self, armed: bool) {
        let Some(flight) = &mut self.flight else { return };
        if armed {
            self.last_armed = Instant::now();
        }
        let wanted = match self.config.recorder.mode {
            RecorderMode::Always => true,
            RecorderMode::Armed => armed || self.last_armed.elapsed() < REST_AFTER && flight.is_running(),
            RecorderMode::Off => false,
        };
        let done = if wanted { flight.run() } else { flight.rest() };
        let state = match done {
            Err(error) => RecorderState::Broken(chain(&error)),
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
