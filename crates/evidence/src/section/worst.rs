//! The longest waits that a tool printed: thousands of lines, of which a few matter.

use std::collections::HashMap;

use unstarve_model::Nanos;

use crate::fact::{Facts, Holder, Lasted, Measured, Moment, Sign, Spot, Stuck, Thread, Waiting};

/// Threads kept of one table.
const MAX_THREADS: usize = 1 << 16;

/// Waits of one table that become facts.
const MAX_WAITS: usize = 16;

/// Shorter waits are what a scheduler does.
const MIN_WAIT: Nanos = Nanos(1_000_000);

/// A wait in a table.
pub struct Wait {
    pub thread: Thread,
    pub cpu: Option<u32>,
    pub length: Nanos,
    /// What had the CPU.
    pub holder: Option<Thread>,
}

/// The longest wait of each thread.
#[derive(Default)]
pub struct Worst {
    waits: HashMap<Thread, (Wait, Spot, u64)>,
    /// Threads measured, and the longest of the waits that a scheduler makes anyhow.
    measured: u64,
    latest: Nanos,
}

impl Worst {
    /// Takes a wait.
    pub fn add(&mut self, wait: Wait, spot: &Spot) {
        self.measured += 1;
        self.latest = self.latest.max(wait.length);
        if wait.length >= MIN_WAIT && !wait.thread.is_idle() {
            self.add_any(wait, spot);
        }
    }

    /// Takes a wait of any length.
    pub fn add_any(&mut self, wait: Wait, spot: &Spot) {
        let is_full = self.waits.len() >= MAX_THREADS;
        match self.waits.get_mut(&wait.thread) {
            Some((known, at, count)) => {
                *count += 1;
                if wait.length > known.length {
                    (*known, *at) = (wait, spot.clone());
                }
            }
            None if !is_full => {
                self.waits.insert(wait.thread.clone(), (wait, spot.clone(), 1));
            }
            None => {}
        }
    }

    /// Says of a tool's threads that none was late, if so. A tool that prints again and again has fewer threads than lines.
    pub fn none_was_late(&self, tool: &'static str, threads: u64, facts: &mut Facts) {
        if self.waits.is_empty() && self.measured > 0 && facts.measured.len() < MAX_WAITS {
            facts.measured.push(Measured { tool, threads, latest: self.latest });
        }
    }

    /// Makes facts of the longest.
    pub fn finish(&mut self, sign: Sign, file: u32, facts: &mut Facts) {
        let mut waits: Vec<(Wait, Spot, u64)> = self.waits.drain().map(|(_, wait)| wait).collect();
        waits.sort_by_key(|(wait, spot, _)| (std::cmp::Reverse(wait.length), spot.line));
        facts.left_out += waits.len().saturating_sub(MAX_WAITS) as u64;
        waits.truncate(MAX_WAITS);
        for (wait, spot, count) in waits {
            let at = Moment::of_line(file, spot.line);
            let lasted = Lasted::AtLeast(wait.length);
            let mut stuck =
                Stuck::new(sign, Waiting::Thread(wait.thread), wait.cpu.into_iter().collect(), lasted, spot, at);
            stuck.holder = wait.holder.map(|thread| Holder { thread, is_certain: true });
            stuck.count = count;
            facts.stuck(stuck);
        }
    }
}

/// A number of milliseconds.
pub fn milliseconds(text: &str) -> Option<Nanos> {
    length(text, 1e6)
}

/// A number of microseconds.
pub fn microseconds(text: &str) -> Option<Nanos> {
    length(text, 1e3)
}

fn length(text: &str, unit: f64) -> Option<Nanos> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(Nanos((number * unit) as u64))
}
