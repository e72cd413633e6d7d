//! Loads that no standard tool provides: `unstarve lab-load KIND key=value…`, or `load KIND …` in a guest.
//!
//! All are bounded in time, allocate nothing in their loops, derive phases and random numbers from `seed`, and print
//! their measurements as lines ([`crate::metric`]).

mod arguments;
mod compile;
mod latency;
mod net;
mod pacing;
mod pool;
mod sharing;
mod stream;
mod switches;
mod waiting;

use std::io::{self, Write};

pub use arguments::ArgumentError;
use arguments::Arguments;

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The arguments are wrong.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Adds context to an I/O error.
trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, LoadError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, LoadError> {
        self.map_err(|source| LoadError::Io { doing, source })
    }
}

/// The function that parses a load's arguments and runs it.
type Start = fn(&mut Arguments, &mut dyn Write) -> Result<(), LoadError>;

/// The kinds, with their arguments and defaults.
const LOAD_KINDS: &[(&str, Start, &str)] = &[
    ("burn", pacing::burn, "busy_ms=90 period_ms=1000 name=burn helper= : computes, then sleeps; in a helper thread"),
    ("daemon", pacing::daemon, "period_us=5000 work_us=0 name=portmap : wakes, computes, measures how late"),
    ("ping", net::ping, "port=7000 gap_us=500 : UDP round trips to an echo"),
    ("echo", net::echo, "port=7000 work_us=0 : computes, then sends every UDP packet back"),
    ("flood", net::flood, "port=7001 burst=64 gap_us=200 bytes=512 : UDP packets in bursts"),
    ("pool", pool::pool, "threads=128 work_us=150 rate=12000 gate=0 name=nfsd : wakes an idle thread for every call"),
    ("compile", compile::compile, "jobs=4 tickers=4 sleep_us=300 work_us=60 : computing cc1 beside short wakeups"),
    ("stream", stream::stream, "port=7100 bytes=64 : small packets from netperf to netserver over one connection"),
    (
        "lock",
        sharing::lock,
        "file=/run/unstarve-lab.lock hold_us=3000 gap_us=1000 name=keeper : computes with a lock; its wait for it",
    ),
    ("pair", sharing::pair, "work_us=20 answer_us=2 name=pair : two threads that wake each other in turns"),
    (
        "yield",
        waiting::yields,
        "turn_us=2000 yields=1 name=yielder : yields in a loop; its longest time without the CPU",
    ),
    ("nap", waiting::nap, "sleep_us=2 name=nap : sleeps again and again, and counts how often"),
    ("poll", waiting::poll, "descriptors=300000 gap_us=20000 name=sweeper : asks about all in one system call"),
];

/// Runs the load given by `arguments` (kind, then `key=value`) to its end, and writes its lines to `out`.
pub fn run(arguments: &[String], out: &mut dyn Write) -> Result<(), LoadError> {
    let kind = arguments.first().map_or("", String::as_str);
    let (_, start, _) = LOAD_KINDS.iter().find(|(name, ..)| *name == kind).ok_or_else(|| ArgumentError::Kind {
        kind: kind.to_owned(),
        known: LOAD_KINDS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", "),
    })?;
    let mut arguments = Arguments::read(&arguments[1..])?;
    start(&mut arguments, out)
}

/// One line per kind for `--help`.
pub fn help() -> String {
    let lines: Vec<String> = LOAD_KINDS.iter().map(|(name, _, arguments)| format!("{name:8} {arguments}")).collect();
    format!("{}\nAll take seconds=1 (at most 60) and seed=1.", lines.join("\n"))
}
