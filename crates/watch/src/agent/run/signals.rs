//! Signals, from the very beginning: one that comes before its time is heard when its time has come.

use std::io::IsTerminal as _;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Event, RunError};

/// SIGHUP, SIGTERM and SIGINT, caught: none of them ends this process by itself any more.
#[derive(Debug)]
pub struct Signals {
    caught: signal_hook::iterator::Signals,
    began: Began,
}

/// Where it was started, which says what SIGHUP means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Began {
    /// In a terminal, by this stream: the terminal has been closed, and nobody would end it any more.
    InTerminal(&'static str),
    /// As a service: the configuration has changed.
    AsService,
}

impl Began {
    /// Asked at the start: a terminal that has been closed is none any more.
    fn here() -> Began {
        match (std::io::stdin().is_terminal(), std::io::stderr().is_terminal()) {
            (true, _) => Began::InTerminal("standard input"),
            (false, true) => Began::InTerminal("standard error"),
            (false, false) => Began::AsService,
        }
    }

    /// Why a signal means something else than by itself.
    fn why(self, signal: i32) -> Option<String> {
        match (self, signal) {
            (Began::InTerminal(stream), SIGHUP) => Some(format!(
                "ended by SIGHUP: {stream} is a terminal; a service, with neither input nor error at one, reads its configuration anew"
            )),
            _ => None,
        }
    }

    /// What a signal means.
    fn meaning(self, signal: i32) -> i32 {
        match (self, signal) {
            (Began::InTerminal(_), SIGHUP) => SIGTERM,
            (_, signal) => signal,
        }
    }
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn catch() -> Result<Signals, RunError> {
        let caught = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
        Ok(Signals { caught, began: Began::here() })
    }

    /// Passes them on, those that came before included.
    pub(super) fn forward(mut self, events: &Sender<Event>) -> Result<(), RunError> {
        let events = events.clone();
        let forward = move || {
            for signal in self.caught.forever() {
                if let Some(why) = self.began.why(signal) {
                    let _ = events.send(Event::Remark(why));
                }
                if events.send(Event::Signal(self.began.meaning(signal))).is_err() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_terminal_ends_a_watch_that_was_started_in_it() {
        let terminal = Began::InTerminal("standard error");
        assert_eq!(terminal.meaning(SIGHUP), SIGTERM);
        assert!(
            terminal.why(SIGHUP).is_some_and(|why| why.starts_with("ended by SIGHUP: standard error is a terminal"))
        );
        assert_eq!((terminal.why(SIGTERM), Began::AsService.why(SIGHUP)), (None, None));
        assert_eq!(Began::AsService.meaning(SIGHUP), SIGHUP);
        for began in [terminal, Began::AsService] {
            assert_eq!([SIGINT, SIGTERM].map(|signal| began.meaning(signal)), [SIGINT, SIGTERM]);
        }
    }
}
