//! Keeps `threads` steps applied to threads that are created later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use unstarve_change::{Change, Target, Thread, Value};
use unstarve_executor::{proc, sched};
use unstarve_model::Tid;

use super::changes::Changes;
use super::{GuestError, mark};
use crate::scenario::{Action, Placement, fits};

/// How often new threads are detected.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);

/// Above the usual priorities of loads: the threads to be raised may starve because of those.
const KEEPER_PRIORITY: u32 = 60;

/// Keeps threads at the values of `threads` steps, including threads created later.
pub(super) struct ThreadStepKeeper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// One `threads` step.
struct Rule {
    comm: String,
    values: Vec<Value>,
}

impl Rule {
    fn of(action: &Action) -> Result<Option<Rule>, GuestError> {
        let Action::Threads { comm, policy, nice, cpus } = action else { return Ok(None) };
        let placement = Placement::read(policy.as_deref(), *nice, cpus.as_deref()).map_err(GuestError)?;
        Ok(Some(Rule { comm: comm.clone(), values: placement.0 }))
    }
}

/// Applies a `threads` step to the existing threads.
pub(super) fn apply_once(action: &Action) -> Result<(), GuestError> {
    if let Some(rule) = Rule::of(action)? {
        Seen::default().scan(&[rule], &mut Changes::with_journal("threads")?);
    }
    Ok(())
}

impl ThreadStepKeeper {
    /// Starts a thread that applies the `threads` steps among `actions` repeatedly; `None` without such steps.
    pub(super) fn start<'a>(actions: impl Iterator<Item = &'a Action>) -> Result<Option<ThreadStepKeeper>, GuestError> {
        let mut rules = Vec::new();
        for action in actions {
            rules.extend(Rule::of(action)?);
        }
        if rules.is_empty() {
            return Ok(None);
        }
        let mut changes = Changes::with_journal("threads")?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let keep = move || {
            let _ = sched::become_realtime(KEEPER_PRIORITY);
            let mut seen = Seen::default();
            while !stopped.load(Ordering::Relaxed) {
                seen.scan(&rules, &mut changes);
                std::thread::sleep(SCAN_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name(mark::OURS.to_string_lossy().into_owned()).spawn(keep);
        let thread = thread.map_err(GuestError::doing("cannot start a thread"))?;
        Ok(Some(ThreadStepKeeper { stop, thread: Some(thread) }))
    }
}

impl Drop for ThreadStepKeeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How often a thread is checked: a new one gets its name shortly after its creation.
const SCANS_PER_THREAD: u8 = 2;

/// The threads that were checked. Checking all of them every time would cost some percent of a CPU, and this thread
/// must not starve others.
#[derive(Default)]
struct Seen {
    looks: BTreeMap<Tid, u8>,
    /// Kernel threads: each stays the only thread of its process.
    kernel_threads: BTreeSet<Tid>,
}

impl Seen {
    fn scan(&mut self, rules: &[Rule], changes: &mut Changes) {
        let mut alive = BTreeMap::new();
        let mut kernel_threads = BTreeSet::new();
        for pid in proc::numbers_in("/proc") {
            let looks = self.looks.get(&pid).copied().unwrap_or(0);
            // Checked at the last scan, when a program that was just started has its executable.
            let known = self.kernel_threads.contains(&pid);
            if known || (looks + 1 == SCANS_PER_THREAD && fs::read_link(format!("/proc/{pid}/exe")).is_err()) {
                kernel_threads.insert(pid);
            }
            let threads = if known { vec![pid] } else { proc::numbers_in(&format!("/proc/{pid}/task")) };
            for tid in threads {
                let looks = self.looks.get(&tid).copied().unwrap_or(0);
                if looks < SCANS_PER_THREAD {
                    apply(rules, tid, changes);
                }
                alive.insert(tid, (looks + 1).min(SCANS_PER_THREAD));
            }
        }
        // An id that is used again is a new thread.
        (self.looks, self.kernel_threads) = (alive, kernel_threads);
    }
}

fn apply(rules: &[Rule], tid: Tid, changes: &mut Changes) {
    let Ok(comm) = fs::read_to_string(format!("/proc/{tid}/comm")) else { return };
    let comm = comm.trim_end();
    for value in rules.iter().filter(|rule| fits(&rule.comm, comm)).flat_map(|rule| &rule.values) {
        let thread = Target::Thread(Thread::known_by(tid, comm));
        // The thread may end meanwhile, and some kernel threads refuse an affinity.
        let _ = changes.make(&Change::of(thread, value.clone()));
    }
}
