//! Synthetic readings for tests.

use std::sync::Arc;

use unstarve_facts::{Bandwidth, Throttled};
use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid, Time, WallTime};
use unstarve_sched::Rule;

use crate::agent::store::{Limits, Store};
use crate::engine::reading::place_of;
use crate::engine::reading::{
    Blame, Cost, CpuWaits, LimitedGroup, Lost, OldestWait, Reading, Role, RoleId, RoleKind, TaskId, Waits, Workload,
    WorkloadSums, Workloads, is_precedence,
};

/// The time this many milliseconds after the start.
pub fn at(millis: u64) -> ClockPair {
    let ns = millis * 1_000_000;
    ClockPair { trace: Time(1_000_000_000 + ns), wall: WallTime(1_764_000_187_000_000_000 + ns) }
}

/// A directory that the store trusts: writable by this user only.
pub fn private_directory() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a directory")
}

/// A new store, and the directory that contains it.
pub fn store(limits: Limits) -> (tempfile::TempDir, Store) {
    let place = private_directory();
    let store = Store::open(&place.path().join("store"), limits).expect("a store");
    (place, store)
}

/// The top-level group of a path.
fn top(path: &str) -> &str {
    path[1..].find('/').map_or(path, |at| &path[..=at])
}

/// Adds to the sum of a CPU.
fn add(sums: &mut Vec<Nanos>, cpu: u32, ns: u64) {
    let cpu = cpu as usize;
    sums.resize(sums.len().max(cpu + 1), Nanos(0));
    sums[cpu] = Nanos(sums[cpu].0 + ns);
}

/// The sums so far, built step by step.
#[derive(Clone, Debug)]
pub struct Scene {
    roles: Vec<Option<Role>>,
    blame: Vec<Blame>,
    waits: Vec<Waits>,
    /// By role: for how long other tasks were preferred, each moment counted once, if the scene sets it.
    at_once: Vec<Option<Nanos>>,
    cpus: Vec<CpuWaits>,
    /// By CPU: as implied by the waits, and as set by the scene.
    implied: Vec<Nanos>,
    real_time: Vec<Nanos>,
    real_time_tasks: Vec<(CpuId, TaskId)>,
    oldest: Vec<OldestWait>,
    limits: Vec<LimitedGroup>,
    workloads: Workloads,
}

impl Scene {
    /// Empty sums.
    pub fn new() -> Scene {
        let roles: Vec<_> = RoleKind::FIXED.iter().map(|kind| Some(Role::fixed(*kind))).collect();
        let waits = vec![Waits::default(); roles.len()];
        let at_once = vec![None; roles.len()];
        Scene {
            roles,
            blame: Vec::new(),
            waits,
            at_once,
            cpus: Vec::new(),
            implied: Vec::new(),
            real_time: Vec::new(),
            real_time_tasks: Vec::new(),
            oldest: Vec::new(),
            limits: Vec::new(),
            workloads: Workloads::default(),
        }
    }

    /// Adds a group.
    pub fn group(mut self, path: &str) -> Scene {
        let (kind, cgroup) = (RoleKind::Group, Some(path.to_owned()));
        self.roles.push(Some(Role { kind, cgroup, weight: Some(100), generation: self.roles.len() as u64 }));
        self.waits.push(Waits::default());
        self.at_once.push(None);
        self
    }

    fn id(&self, name: &str) -> RoleId {
        let is = |role: &Option<Role>| {
            role.as_ref().is_some_and(|role| role.cgroup.as_deref() == Some(name) || role.kind.word() == name)
        };
        RoleId(self.roles.iter().position(is).expect("a role of this name") as u8)
    }

    /// A group waits while another role is preferred.
    pub fn blame(self, victim: &str, occupant: RoleKind, ns: u64) -> Scene {
        self.blame_group(victim, occupant.word(), Rule::Class, ns)
    }

    /// A role waits while another one has the CPU by a rule.
    pub fn blame_group(mut self, victim: &str, occupant: &str, rule: Rule, ns: u64) -> Scene {
        let (victim, occupant) = (self.id(victim), self.id(occupant));
        let same = |row: &&mut Blame| (row.victim, row.occupant, row.rule) == (victim, occupant, rule);
        match self.blame.iter_mut().find(same) {
            Some(row) => row.ns = Nanos(row.ns.0 + ns),
            None => self.blame.push(Blame { victim, occupant, rule, ns: Nanos(ns) }),
        }
        let waits = &mut self.waits[victim.index()];
        waits.waited = Nanos(waits.waited.0 + ns);
        if is_precedence(rule) && (rule != Rule::WakeupPreemption || occupant != victim) {
            waits.preferred = Nanos(waits.preferred.0 + ns);
        }
        if rule.is_precedence() {
            add(&mut self.implied, 0, ns);
        }
        self
    }

    /// Other tasks are preferred to a role for this long. By default one task of a role waits at a time.
    pub fn preferred(mut self, victim: &str, ns: u64) -> Scene {
        let id = self.id(victim).index();
        self.at_once[id] = Some(Nanos(self.at_once[id].map_or(0, |sum| sum.0) + ns));
        self
    }

    /// A role waits, and nobody is blamed yet: the wait lasts.
    pub fn waits_on(mut self, victim: &str, ns: u64) -> Scene {
        let id = self.id(victim).index();
        self.waits[id].waited = Nanos(self.waits[id].waited.0 + ns);
        self
    }

    /// A wait that lasted has ended: it is blamed, and was counted as waited before.
    pub fn blame_late(mut self, victim: &str, occupant: RoleKind, ns: u64) -> Scene {
        let id = self.id(victim).index();
        let waited = self.waits[id].waited;
        self = self.blame(victim, occupant, ns);
        self.waits[id].waited = waited;
        self
    }

    /// Real-time tasks have this CPU for this long. By default they have CPUs for as long as they are blamed for.
    pub fn real_time(mut self, cpu: u32, ns: u64) -> Scene {
        add(&mut self.real_time, cpu, ns);
        self
    }

    /// This real-time program has had most of a CPU lately; nobody on any other CPU.
    pub fn mostly(mut self, cpu: u32, task: TaskId) -> Scene {
        self.real_time_tasks = vec![(CpuId(cpu), task)];
        self
    }

    /// A group waits for this CPU while a higher class, and while other tasks, have it.
    pub fn on_cpu(mut self, victim: &str, cpu: u32, by_class: u64, by_others: u64) -> Scene {
        let (role, cpu) = (self.id(victim), CpuId(cpu));
        if !self.cpus.iter().any(|known| (known.cpu, known.role) == (cpu, role)) {
            self.cpus.push(CpuWaits { cpu, role, waited: Nanos(0), by_class: Nanos(0) });
            self.cpus.sort_by_key(|row| (row.role, row.cpu));
        }
        for known in self.cpus.iter_mut().filter(|known| (known.cpu, known.role) == (cpu, role)) {
            known.waited = Nanos(known.waited.0 + by_class + by_others);
            known.by_class = Nanos(known.by_class.0 + by_class);
        }
        add(&mut self.implied, cpu.0, by_class);
        self
    }

    /// The kernel counts throttling of the group by a quota of `part` of a CPU, for this long.
    pub fn stopped(mut self, path: &str, part: f64, ns: u64) -> Scene {
        let role = self.id(top(path));
        if !self.limits.iter().any(|group| &*group.path == path) {
            let limit = Bandwidth { quota_us: (part * 100_000.0) as u64, period_us: 100_000 };
            let counted = Throttled::default();
            self.limits.push(LimitedGroup { path: path.into(), role, limit, counted, read: Time(0) });
        }
        for group in self.limits.iter_mut().filter(|group| &*group.path == path) {
            group.counted.ns = Nanos(group.counted.ns.0 + ns);
            group.counted.count += 1;
            group.counted.periods += 1;
        }
        if path == top(path) {
            let stopped = &mut self.waits[role.index()].stopped;
            *stopped = Nanos(stopped.0 + ns);
        }
        self
    }

    /// Threads of a cgroup waited while those of another one had the CPU.
    pub fn workloads(mut self, victim: &str, culprit: &str, ns: u64) -> Scene {
        let ns = Nanos(ns);
        let (waited, kept) = (
            WorkloadSums { waited: ns, behind: ns, ..Default::default() },
            WorkloadSums { kept: ns, ..Default::default() },
        );
        for (path, sums) in [(victim, waited), (culprit, kept)] {
            self.workloads.total.add(&sums);
            let place = place_of(path);
            let is_it = |workload: &&mut Workload| *workload.place == place;
            match self.workloads.each.iter_mut().find(is_it) {
                Some(workload) => workload.sums.add(&sums),
                None => {
                    let number = self.workloads.each.len() as u64 + 1;
                    self.workloads.each.push(Workload { place: Arc::new(place), number, sums });
                }
            }
        }
        self
    }

    /// A wait ends.
    pub fn wait(mut self, victim: &str, ns: u64) -> Scene {
        let id = self.id(victim).index();
        self.waits[id].count += 1;
        self.waits[id].histogram.add(Nanos(ns), 1);
        self
    }

    /// Sets the only wait in progress.
    pub fn lasts(mut self, victim: &str, tid: u32, occupant: &str, ns: u64) -> Scene {
        let task = |tid: u32, name: &str| TaskId { tid: Tid(tid), tgid: Tid(tid), comm: Comm::from(name) };
        self.oldest = vec![OldestWait {
            cpu: CpuId(0),
            task: task(tid, victim),
            role: self.id(victim),
            ns: Nanos(ns),
            occupant: Some(task(4711, "hog")),
            occupant_role: self.id(occupant),
            occupied: Nanos(ns),
        }];
        self
    }

    /// Sets for how long the occupants of waits in progress have had the CPU.
    pub fn turn(&mut self, ns: u64) {
        self.oldest.iter_mut().for_each(|wait| wait.occupied = Nanos(ns));
    }

    /// Ends all waits in progress.
    pub fn over(mut self) -> Scene {
        self.oldest.clear();
        self
    }

    /// The reading that an engine would return now.
    pub fn reading(&self, at: ClockPair) -> Reading {
        let at_once = |(waits, at_once): (&Waits, &Option<Nanos>)| Waits {
            preferred: at_once.unwrap_or(waits.preferred),
            ..waits.clone()
        };
        let read = |group: &LimitedGroup| LimitedGroup { read: at.trace, ..group.clone() };
        Reading {
            at,
            since: self::at(0),
            roles: self.roles.clone(),
            blame: self.blame.clone(),
            waits: self.waits.iter().zip(&self.at_once).map(at_once).collect(),
            cpus: self.cpus.clone(),
            real_time: if self.real_time.is_empty() { self.implied.clone() } else { self.real_time.clone() },
            real_time_tasks: self.real_time_tasks.clone(),
            oldest: self.oldest.clone(),
            limits: self.limits.iter().map(read).collect(),
            workloads: self.workloads.clone(),
            lost: Lost::default(),
            cost: Cost { programs: Some(Nanos(5)), runs: Some(1), process: Nanos(7) },
        }
    }
}
