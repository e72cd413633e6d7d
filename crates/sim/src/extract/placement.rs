//! Under which settings actors compete: those of the snapshot; of a thread that it lacks, its parent's; of one without either,
//! what its events show.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_facts::{Snapshot, TaskFacts};
use unstarve_model::{CpuId, CpuSet, NameId, Names, Nanos, Policy, Prio, SchedPolicy, Tid};
use unstarve_sched::{KernelThread, load_weight_of_nice};
use unstarve_timeline::World;

use super::report::{Evidence, Inference, Losses};
use super::thread::Thread;
use crate::{Cgroup, Class, Deadline, Placement, Quota};

/// `PATH_MAX`.
const LONGEST_PATH: usize = 4096;
/// A thread with more of its CPU time under other settings than it is played with is a loss.
const CHANGED: f64 = 0.1;

/// The settings of all actors, while they are found.
pub(super) struct Places<'a> {
    snapshot: Option<&'a Snapshot>,
    names: &'a Names,
    pub cpus: CpuSet,
    pub cgroups: Vec<Cgroup>,
    by_path: BTreeMap<String, Option<usize>>,
    has_sessions: bool,
    inherited: usize,
    guessed: usize,
    late: usize,
    moved: usize,
    rebound: usize,
    groups_changed: (u64, Nanos),
    cpus_changed: (u64, Nanos),
    stayed: BTreeSet<Tid>,
    length: Nanos,
    /// The groups into which processes were moved, by their first thread.
    moved_processes: BTreeMap<Tid, NameId>,
}

impl<'a> Places<'a> {
    pub fn new(world: &'a World, snapshot: Option<&'a Snapshot>, threads: &[Thread], length: Nanos) -> Places<'a> {
        let mut cpus = snapshot.and_then(|snapshot| snapshot.cpus.online.clone()).unwrap_or_default();
        threads.iter().flat_map(|thread| thread.seen_on.iter()).for_each(|cpu| cpus.insert(cpu));
        if cpus.is_empty() {
            (0..world.cpus).for_each(|cpu| cpus.insert(CpuId(cpu)));
        }
        let autogroup = snapshot.and_then(|snapshot| snapshot.setting("sched_autogroup_enabled"));
        Places {
            snapshot,
            names: &world.names,
            cpus,
            cgroups: Vec::new(),
            by_path: BTreeMap::new(),
            has_sessions: autogroup.is_some_and(|(_, text)| text.trim() == "1"),
            inherited: 0,
            guessed: 0,
            late: 0,
            moved: 0,
            rebound: 0,
            groups_changed: (0, Nanos::ZERO),
            cpus_changed: (0, Nanos::ZERO),
            stayed: BTreeSet::new(),
            length,
            moved_processes: threads.iter().filter_map(|of| Some((of.tid, of.main_group().0?))).collect(),
        }
    }

    pub fn process_of(&self, thread: &Thread) -> Option<Tid> {
        self.snapshot?.process_of(thread.tid)
    }

    /// Whether a thread is kept on the CPU on which it stayed.
    pub fn keeps(&self, thread: &Thread) -> bool {
        self.stayed.contains(&thread.tid)
    }

    pub fn of(&mut self, thread: &Thread) -> Placement {
        let own = self.snapshot.and_then(|snapshot| snapshot.task(thread.tid));
        let parent = || self.snapshot.and_then(|snapshot| snapshot.task(thread.settings_of?));
        let facts = own.or_else(parent);
        self.inherited += usize::from(own.is_none() && facts.is_some());
        self.guessed += usize::from(facts.is_none());
        let class = class_of(thread.prio, facts);
        self.late += usize::from(own.and_then(TaskFacts::prio).is_some_and(|prio| prio != thread.prio));
        Placement { class, cpus: self.cpus_of(thread, facts), cgroup: self.group_of(thread, facts), slice: None }
    }

    fn cpus_of(&mut self, thread: &Thread, facts: Option<&TaskFacts>) -> CpuSet {
        let bound = match KernelThread::of(thread.kernel_name()).filter(|_| thread.is_kernel_thread) {
            Some(KernelThread::BoundWorker { cpu, .. } | KernelThread::Ksoftirqd { cpu }) => Some(CpuId(cpu)),
            _ => None,
        };
        let allowed = facts.and_then(|facts| self.allowed(thread, facts));
        let cpus: CpuSet = match (bound, allowed) {
            (Some(cpu), None) => CpuSet::from_iter([cpu]),
            (_, Some(allowed)) => allowed.iter().filter(|cpu| self.cpus.contains(*cpu)).collect(),
            (None, None) => self.cpus.clone(),
        };
        // Where none of them is online, its affinity was another before.
        let cpus = if cpus.is_empty() { thread.seen_on.clone() } else { cpus };
        match thread.stays_on(self.length).filter(|_| cpus.len() > 1) {
            Some(cpu) => {
                self.stayed.insert(thread.tid);
                CpuSet::from_iter([cpu])
            }
            None => cpus,
        }
    }

    /// The CPUs that it might use for most of its time: those at the beginning of the recording, or, if that was changed, those at its
    /// end or those on which it was.
    fn allowed(&mut self, thread: &Thread, facts: &TaskFacts) -> Option<CpuSet> {
        let first = facts.allowed.clone()?;
        let outside = |cpus: &CpuSet| thread.outside(cpus).0;
        let all = thread.outside(&first).1;
        // One that was bound to fewer CPUs before it did much was inside both.
        let last = facts.allowed_last.clone().filter(|last| outside(last).share_of(all) <= CHANGED);
        let chosen = match last {
            Some(last) => {
                self.rebound += 1;
                last
            }
            None if outside(&first) > Nanos(all.0 / 2) => thread.seen_on.clone(),
            None => first,
        };
        let elsewhere = outside(&chosen);
        if elsewhere.share_of(all) > CHANGED {
            self.cpus_changed = (self.cpus_changed.0 + 1, self.cpus_changed.1 + elsewhere);
        }
        Some(chosen)
    }

    /// The group in which it competes: its cgroup, or its session where it is in the root group and sessions compete.
    fn group_of(&mut self, thread: &Thread, facts: Option<&TaskFacts>) -> Option<usize> {
        let (moved, elsewhere) = thread.main_group();
        // One event moves a whole process, and names its first thread (`cgroup_migrate` in `kernel/cgroup/cgroup.c`).
        let with_process = || self.moved_processes.get(&self.process_of(thread)?).copied();
        let moved = moved.or_else(with_process);
        self.moved += usize::from(moved.is_some());
        if elsewhere.share_of(thread.ran) > CHANGED {
            self.groups_changed = (self.groups_changed.0 + 1, self.groups_changed.1 + elsewhere);
        }
        if let Some(group) = moved {
            let path = self.names.get(group).to_owned();
            return self.cgroup(&path);
        }
        let facts = facts?;
        let of_cgroup = facts.cgroup.as_deref().and_then(|path| self.cgroup(path));
        let session = facts.autogroup.filter(|_| self.has_sessions && of_cgroup.is_none());
        of_cgroup.or_else(|| {
            let session = session?;
            let path = format!("/autogroup-{}", session.id);
            let weight = load_weight_of_nice(session.nice);
            Some(self.index_of(path, None, weight, None))
        })
    }

    /// The nearest group of this path that has a weight, with those above it. Without the controller threads compete in the
    /// nearest group above that has it.
    fn cgroup(&mut self, path: &str) -> Option<usize> {
        let path = path.trim_end_matches('/');
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        // A kernel gives no longer path.
        if path.len() > LONGEST_PATH {
            return None;
        }
        let ends = path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([path.len()]);
        let mut parent = None;
        for end in ends {
            let facts = self.snapshot.and_then(|snapshot| snapshot.cgroup(&path[..end]));
            if let Some((weight, limit)) = facts.and_then(|facts| Some((facts.load_weight()?, facts.limit))) {
                let quota = limit.filter(|limit| limit.quota_us > 0 && limit.period_us > 0).map(|limit| Quota {
                    runtime: Nanos::from_micros(limit.quota_us),
                    period: Nanos::from_micros(limit.period_us),
                });
                parent = Some(self.index_of(path[..end].to_owned(), parent, weight, quota));
            }
        }
        self.by_path.insert(path.to_owned(), parent);
        parent
    }

    fn index_of(&mut self, path: String, parent: Option<usize>, load_weight: u32, quota: Option<Quota>) -> usize {
        self.cgroups.iter().position(|group| group.path == path).unwrap_or_else(|| {
            self.cgroups.push(Cgroup { path, parent, load_weight, quota });
            self.cgroups.len() - 1
        })
    }

    /// What changed while it was recorded, and is played as if it had not.
    pub fn note_losses(&self, losses: &mut Losses) {
        (losses.groups_changed, losses.cpus_changed) = (self.groups_changed, self.cpus_changed);
    }

    pub fn inferences(&self) -> Vec<Inference> {
        let rows = [
            (self.inherited, "not in the snapshot: they have their parent's settings", Evidence::Guess),
            (
                self.guessed,
                "neither in the snapshot nor seen to be created: their settings are what events show",
                Evidence::Guess,
            ),
            (self.stayed.len(), "stayed on one CPU of several that they may use, and are kept there", Evidence::Guess),
            (
                self.late,
                "set another priority after the snapshot: they have the last one from the beginning",
                Evidence::Event,
            ),
            (self.moved, "were moved to the cgroup in which they are played", Evidence::Event),
            (self.rebound, "got other CPUs while recorded, and have those from the beginning", Evidence::Event),
        ];
        rows.into_iter().filter_map(|(count, what, by)| Inference::of_threads(count, what, by)).collect()
    }
}

/// The class that events show; of what they do not show (which of the policies of a class, the parameters of a deadline), what
/// the snapshot says.
fn class_of(prio: Prio, facts: Option<&TaskFacts>) -> Class {
    let same_class = facts.filter(|facts| facts.policy.class() == Some(prio.policy()));
    match prio.policy() {
        Policy::Deadline => {
            let deadline = same_class.and_then(|facts| facts.deadline);
            let parameters = deadline.map(|of| Deadline {
                runtime: Nanos(of.runtime_ns),
                deadline: Nanos(of.deadline_ns),
                period: Nanos(of.period_ns),
            });
            // Its parameters are unknown: the highest real-time priority is the nearest to it.
            parameters.map_or(Class::Realtime { policy: SchedPolicy::Fifo, priority: 99 }, Class::Deadline)
        }
        Policy::Rt => Class::Realtime {
            policy: same_class.map_or(SchedPolicy::Fifo, |facts| facts.policy),
            priority: (99 - prio.0).clamp(1, 99) as u32,
        },
        Policy::Fair | Policy::Idle => Class::Fair {
            policy: same_class.map_or(SchedPolicy::Other, |facts| facts.policy),
            nice: prio.nice().unwrap_or_default(),
        },
    }
}
