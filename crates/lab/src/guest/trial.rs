//! Applies the changes of a trial through the executor as soon as each target exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unstarve_change::{Change, Selector, Target, Thread};
use unstarve_executor::host::ThisHost;
use unstarve_executor::plan::{Look, Obstacle};
use unstarve_executor::{proc, sched};
use unstarve_model::Tid;

use super::changes::{ApplyResult, Changes, NotMade};
use super::{GuestError, RESULTS_DIR, mark};
use crate::image::TRIAL;
use crate::trial::{ChangeMethod, FILE, Tried, TriedChange};

/// How often threads are looked up by id.
const SCAN_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum lookups each time: they must not cost what is measured.
const AT_ONCE: usize = 8;

/// All threads are looked up by name every so many intervals.
const BY_NAME: u64 = 50;

/// Enough time to parse changes. Guests with other changes, or none, continue at the same moment.
const READING_TIME: Duration = Duration::from_millis(20);

/// Above the loads, as for the thread that keeps `threads` steps applied.
const TRIAL_PRIORITY: u32 = 60;

/// The process that applies them.
pub(super) struct Trial {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Trying>,
}

impl Trial {
    /// Starts applying the changes of the request.
    pub(super) fn start() -> Result<Trial, GuestError> {
        let failed = GuestError::doing(TRIAL);
        wait_for_slot();
        let text = fs::read_to_string(TRIAL).map_err(failed)?;
        let changes: Vec<Change> =
            serde_json::from_str(text.trim_end()).map_err(|error| GuestError(format!("{TRIAL}: {error}")))?;
        let trying = Trying::new(changes)?;
        wait_for_slot();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || trying.until(&stopped);
        let thread = std::thread::Builder::new().name(mark::OURS.to_string_lossy().into_owned()).spawn(run);
        Ok(Trial { stop, thread: thread.map_err(GuestError::doing("cannot start a thread"))? })
    }

    /// Restores everything and writes what happened to the results.
    pub(super) fn end(self) -> Result<(), GuestError> {
        self.stop.store(true, Ordering::Relaxed);
        let trying = self.thread.join().map_err(|_| GuestError("the thread of the trial failed".into()))?;
        let text = serde_json::to_string(&trying.taken_back()).map_err(|error| GuestError(error.to_string()))?;
        super::write(Path::new(RESULTS_DIR).join(FILE), &text)
    }
}

/// Sleeps to the next time at which all guests continue.
fn wait_for_slot() {
    let slot = READING_TIME.as_nanos() as u64;
    std::thread::sleep(Duration::from_nanos(slot - sched::monotonic_ns() % slot));
}

/// A change that has not been applied.
struct Pending {
    index: usize,
    change: Change,
}

/// The changes and their results.
struct Trying {
    began: Instant,
    changes: Changes,
    all: Vec<Change>,
    pending: Vec<Pending>,
    done: Vec<Option<TriedChange>>,
    /// Threads that replace others of the same name.
    taken: BTreeSet<Tid>,
}

impl Trying {
    fn new(all: Vec<Change>) -> Result<Trying, GuestError> {
        let pending = all.iter().enumerate().map(|(index, change)| Pending { index, change: change.clone() }).collect();
        let done = vec![None; all.len()];
        let changes = Changes::with_journal("trial")?;
        Ok(Trying { began: Instant::now(), changes, all, pending, done, taken: BTreeSet::new() })
    }

    fn until(mut self, stopped: &AtomicBool) -> Trying {
        let _ = sched::become_realtime(TRIAL_PRIORITY);
        for change in &mut self.pending {
            // A thread's start time may differ in this guest: id and name must suffice.
            if let Some(thread) = thread_of(&mut change.change.target) {
                thread.start = None;
            }
        }
        let mut round = 0;
        while !stopped.load(Ordering::Relaxed) {
            if !self.pending.is_empty() {
                self.by_number();
                round += 1;
                if round % BY_NAME == 0 {
                    self.by_name();
                }
            }
            std::thread::sleep(SCAN_INTERVAL);
        }
        self
    }

    /// Tries the first few pending changes, and moves those whose thread does not exist to the end.
    fn by_number(&mut self) {
        for _ in 0..self.pending.len().min(AT_ONCE) {
            let Pending { index, change } = self.pending.remove(0);
            match self.make(&change) {
                Some(how) => self.settle(index, how),
                None => self.pending.push(Pending { index, change }),
            }
        }
    }

    /// If ids differ in this guest, uses the thread of the same name with the nearest id.
    fn by_name(&mut self) {
        let tid = |change: &Change| thread_of(&mut change.target.clone()).map(|thread| thread.tid);
        let named: BTreeSet<Tid> = self.all.iter().filter_map(tid).collect();
        let mut known: Option<Vec<(Tid, String)>> = None;
        let mut left = Vec::new();
        for Pending { index, mut change } in std::mem::take(&mut self.pending) {
            let known = known.get_or_insert_with(threads);
            let found = thread_of(&mut change.target).and_then(|thread| {
                let is_free = |tid: Tid| !self.taken.contains(&tid) && !named.contains(&tid);
                let tid = stand_in(thread, known, is_free)?;
                Some((std::mem::replace(&mut thread.tid, tid), tid))
            });
            match found.map(|(was, tid)| (was, tid, self.make(&change))) {
                Some((_, tid, Some(ChangeMethod::AsNamed))) => {
                    self.taken.insert(tid);
                    self.settle(index, ChangeMethod::ByName { tid: tid.0 });
                }
                Some((_, _, Some(how))) => self.settle(index, how),
                Some((was, _, None)) => {
                    if let Some(thread) = thread_of(&mut change.target) {
                        thread.tid = was;
                    }
                    left.push(Pending { index, change });
                }
                None => left.push(Pending { index, change }),
            }
        }
        self.pending = left;
    }

    /// Plans and applies a change; `None` if its thread does not exist or does not have its name yet.
    fn make(&mut self, change: &Change) -> Option<ChangeMethod> {
        match self.changes.make(change) {
            Ok(ApplyResult::Now) => Some(ChangeMethod::AsNamed),
            Ok(ApplyResult::Nothing) => Some(ChangeMethod::Already),
            Err(NotMade::Obstacle(Obstacle::Ended(_) | Obstacle::Another(_))) => None,
            // An earlier change may create such threads.
            Err(NotMade::Obstacle(Obstacle::NotHere { .. })) if matches!(change.target, Target::Threads(_)) => None,
            Err(why) => Some(ChangeMethod::Refused(why.to_string())),
        }
    }

    fn settle(&mut self, index: usize, how: ChangeMethod) {
        let after_ms = u64::try_from(self.began.elapsed().as_millis()).ok();
        self.done[index] = Some(TriedChange { change: self.all[index].clone(), how, after_ms });
    }

    fn taken_back(mut self) -> Tried {
        let undone = self.changes.take_back();
        let mut not_taken_back: Vec<String> =
            undone.failed.iter().map(|(step, error)| format!("{}: {error}", step.target)).collect();
        if undone.others > 0 {
            not_taken_back.push(format!("{} changed by others since", undone.others));
        }
        let never = |index: usize| TriedChange {
            change: self.all[index].clone(),
            how: ChangeMethod::NeverThere,
            after_ms: None,
        };
        let changes = self.done.iter().enumerate().map(|(index, done)| done.clone().unwrap_or_else(|| never(index)));
        Tried { changes: changes.collect(), not_taken_back }
    }
}

/// The free thread of the same name whose number is nearest.
fn stand_in(thread: &Thread, known: &[(Tid, String)], is_free: impl Fn(Tid) -> bool) -> Option<Tid> {
    let alike = known.iter().filter(|(tid, comm)| is_free(*tid) && thread.is_called(comm));
    alike.map(|(tid, _)| *tid).min_by_key(|tid| (tid.0.abs_diff(thread.tid.0), *tid))
}

/// All threads with their names, except the guest's first process, which is the lab, and this one: a load has the lab's
/// name until its exec.
fn threads() -> Vec<(Tid, String)> {
    let of_process = |process: Tid| proc::numbers_in(&format!("/proc/{process}/task"));
    let is_ours = |process: &Tid| process.0 == 1 || process.0 == std::process::id();
    let tids = proc::numbers_in("/proc").into_iter().filter(|process| !is_ours(process)).flat_map(of_process);
    tids.filter_map(|tid| Some((tid, ThisHost.comm_of(tid)?))).collect()
}

fn thread_of(target: &mut Target) -> Option<&mut Thread> {
    match target {
        Target::Thread(thread)
        | Target::Session(thread)
        | Target::GroupWeightOf(thread)
        | Target::Threads(Selector::Process(thread)) => Some(thread),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_numbers_are_others_the_nearest_free_thread_of_the_name_stands_in() {
        let names = [(90, "fio"), (101, "fio"), (110, "fio"), (99, "fio2"), (7, "kworker/1:0-dio/sda"), (8, "a\tb")];
        let known: Vec<(Tid, String)> = names.map(|(tid, comm)| (Tid(tid), comm.to_owned())).to_vec();
        let of = |tid, name: &str, taken: &[u32]| {
            stand_in(&Thread::known_by(Tid(tid), name), &known, |tid| !taken.contains(&tid.0)).map(|tid| tid.0)
        };
        assert_eq!(of(100, "fio", &[]), Some(101));
        assert_eq!(of(100, "fio", &[101]), Some(90), "of two that are as near the first");
        assert_eq!(of(100, "fio", &[90, 101]), Some(110));
        assert_eq!(of(100, "fio", &[90, 101, 110]), None);
        assert_eq!(of(100, "postgres", &[]), None);
        assert_eq!(of(3, "kworker/1:0", &[]), Some(7), "whatever it works on");
        assert_eq!((of(3, "kworker/1:1", &[]), of(3, "a\tb", &[]), of(3, "a\\tb", &[])), (None, Some(8), None));
    }
}
