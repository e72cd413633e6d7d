//! What Ballista has to say, on standard error: warnings, each once in a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// The same is said again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// Different ones that are remembered.
const MOST: usize = 256;

struct Notes {
    program: &'static str,
    said: Mutex<BTreeMap<String, Instant>>,
}

/// Executors fetch their work and cannot be called; Ballista says so each time that it would.
const KNOWN: [&str; 2] = ["Failed to get client for executor ID", "Executor is already dead, failed to connect"];

impl Log for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn && metadata.target().starts_with("ballista")
    }

    fn log(&self, record: &Record<'_>) {
        let text = record.args().to_string();
        if !self.enabled(record.metadata()) || KNOWN.iter().any(|known| text.starts_with(known)) {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(&text).is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        if said.len() >= MOST {
            said.clear();
        }
        eprintln!("unstarve cluster {}: {}", self.program, unstarve_model::clean(&text));
        said.insert(text, Instant::now());
    }

    fn flush(&self) {}
}

/// From now on they are shown.
pub fn show(program: &'static str) {
    let notes = Notes { program, said: Mutex::default() };
    if log::set_boxed_logger(Box::new(notes)).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
