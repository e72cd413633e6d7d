//! Catches signals from the start of the process: those that come before the main loop runs are handled when it does.

use std::io::IsTerminal as _;
use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Event, RunError};

/// SIGHUP, SIGTERM and SIGINT, caught: they no longer terminate the process by default.
#[derive(Debug)]
pub struct Signals {
    caught: signal_hook::iterator::Signals,
    began: Began,
}

/// How the watch was started, which determines the meaning of SIGHUP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Began {
    /// In a terminal, on this stream: the terminal was closed, and the watch could no longer be ended from there.
    InTerminal(&'static str),
    /// As a service: the configuration has changed.
    AsService,
}

impl Began {
    /// Determined at the start: a closed terminal can no longer be recognised as one.
    fn here() -> Began {
        match (std::io::stdin().is_terminal(), std::io::stderr().is_terminal()) {
            (true, _) => Began::InTerminal("standard input"),
            (false, true) => Began::InTerminal("standard error"),
            (false, false) => Began::AsService,
        }
    }

    /// Why a signal has another meaning than usual.
    fn why(self, signal: i32) -> Option<String> {
        match (self, signal) {
            (Began::InTerminal(stream), SIGHUP) => Some(format!(
                "ended by SIGHUP: {stream} is a terminal; a service, with neither input nor error at one, reads its configuration anew"
            )),
            _ => None,
        }
    }

    /// The effective signal.
    fn meaning(self, signal: i32) -> i32 {
        match (self, signal) {
            (Began::InTerminal(_), SIGHUP) => SIGTERM,
            (_, signal) => signal,
        }
    }
}

impl Signals {
    /// Catches signals from now on.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn catch() -> Result<Signals, RunError> {
        let caught = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
        Ok(Signals { caught, began: Began::here() })
    }

    /// Forwards signals, including those received before.
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
