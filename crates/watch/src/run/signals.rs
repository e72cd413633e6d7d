//! Signals, from the very beginning: one that comes before its time is heard when its time has come.

use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Event, RunError};

/// SIGHUP, SIGTERM and SIGINT, caught: none of them ends this process by itself any more.
#[derive(Debug)]
pub struct Signals(signal_hook::iterator::Signals);

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn catch() -> Result<Signals, RunError> {
        signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Signals).map_err(failed)
    }

    /// Passes them on, those that came before included.
    pub(super) fn forward(mut self, events: &Sender<Event>) -> Result<(), RunError> {
        let events = events.clone();
        let forward = move || {
            for signal in self.0.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("unstarve-signal".into()).spawn(forward).map(drop).map_err(failed)
    }
}

fn failed(source: std::io::Error) -> RunError {
    RunError::System { action: "cannot handle signals", source }
}
