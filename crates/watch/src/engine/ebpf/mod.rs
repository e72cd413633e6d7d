//! The engine that counts waits in the kernel, with the BPF programs of `src/bpf/watch.bpf.c`.

mod counted;
mod oldest;
mod programs;

use std::time::{Duration, Instant};

use unstarve_model::{ClockPair, Nanos, Tid};

use crate::engine::groups::{Hierarchy, Lookout};
use crate::engine::limit_files::LimitLookout;
use crate::engine::place_table::{PlaceChanges, PlaceTable};
use crate::engine::reading::{Cost, Lost, Quiet, Reading};
use crate::engine::reading::{Place, place_of};
use crate::engine::role_table::{Change, RoleTable};
use crate::engine::{Engine, EngineError, Options, clocks, proc};
use counted::Counted;
use oldest::Oldest;
use programs::{ByRole, Programs};

/// A reading is taken at one moment if all CPUs with waiting tasks updated their sums within this time. Otherwise it is retried, with at most
/// `TRIES` attempts.
const AT_ONCE: Nanos = Nanos::from_millis(1);
const TRIES: usize = 3;

/// New pods and units are looked for this often; a reading may be slightly early. While there is no number left, less often.
const PLACES_EVERY: Duration = Duration::from_millis(900);
const PLACES_EVERY_WITHOUT_ROOM: Duration = Duration::from_secs(30);
/// Cgroups looked up at a time, about 10 µs each.
const MOST_PLACES: usize = 32;

/// The BPF engine. Dropping it detaches the programs.
pub struct Ebpf {
    programs: Programs,
    oldest: Oldest,
    groups: Option<Lookout>,
    limits: Option<LimitLookout>,
    roles: RoleTable,
    places: PlaceTable,
    looked_at_places: Option<Instant>,
    unified: bool,
    since: ClockPair,
    disproved: u64,
    /// What each role had waited, by the programs' notes, at the start of the last reading; `None` if tasks waited then.
    noted: Option<ByRole>,
}

impl Ebpf {
    /// Loads the programs and starts counting.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if the kernel refuses the programs: it is older than 5.10, has no BTF, or this process lacks
    /// CAP_BPF and CAP_PERFMON.
    pub fn open(options: Options) -> Result<Ebpf, EngineError> {
        let hierarchy = Hierarchy::find();
        let limits = hierarchy.as_ref().map(LimitLookout::new);
        let groups = hierarchy.map(Lookout::new);
        let unified = groups.as_ref().is_none_or(Lookout::is_unified);
        let mut programs = Programs::load(unified, options.tasks)?;
        programs.set_least_age(options.oldest_from);
        programs.name_functions();
        programs.renew_roles();
        let since = clocks::now();
        let mut engine = Ebpf {
            oldest: Oldest::new(options.oldest_from),
            programs,
            groups,
            limits,
            roles: RoleTable::new(),
            places: PlaceTable::new(),
            looked_at_places: None,
            unified,
            since,
            disproved: 0,
            noted: None,
        };
        // Groups first, so that tasks get the right role from the beginning.
        let nothing = Counted::default();
        engine.look_at_groups(&nothing)?;
        engine.programs.start()?;
        Ok(engine)
    }

    /// Number of tasks with a slot of their own in the array ([`crate::engine::TaskMemory::Kernel`]).
    pub fn slots_taken(&self) -> usize {
        self.programs.slots_taken()
    }

    /// Sums of all CPUs, as close to one moment as possible: this process may be preempted between reading two CPUs.
    fn counted(&self) -> Result<Counted, EngineError> {
        let mut counted = self.programs.counted()?;
        for _ in 1..TRIES {
            if counted.between.is_none_or(|(first, last)| last.since(first) <= AT_ONCE) {
                break;
            }
            counted = self.programs.counted()?;
        }
        Ok(counted)
    }

    /// Gives pods and units that are new their numbers, once a second and a few at a time: each costs a file of `/proc`.
    fn look_at_places(&mut self, counted: &Counted, now: Instant) -> Result<(), EngineError> {
        let wait = if self.places.has_room(now) { PLACES_EVERY } else { PLACES_EVERY_WITHOUT_ROOM };
        if self.looked_at_places.is_some_and(|looked| now.duration_since(looked) < wait) {
            return Ok(());
        }
        self.looked_at_places = Some(now);
        let found = self.programs.take_unplaced(MOST_PLACES).into_iter();
        let found: Vec<_> = found.map(|(group, tid)| (group, self.place_of(group, tid))).collect();
        if !found.is_empty() && self.places.is_short(now) {
            // The sums of a task that waits, or has a CPU, grow only when that ends.
            let waiting = oldest::listed(&self.programs)?;
            let running = counted.current.iter().map(|current| current.place);
            self.places.keep(waiting.iter().map(|wait| wait.place).chain(running), now);
        }
        let nothing_found = found.is_empty();
        let changes = self.places.place(found, &counted.places, now);
        if nothing_found && changes == PlaceChanges::default() {
            return Ok(());
        }
        self.programs.place(&changes)?;
        // Also for tasks whose group was left out this time.
        self.programs.renew_roles();
        Ok(())
    }

    /// The pod or unit of a cgroup, by the path of a task that was in it; `None` if the task has left it.
    fn place_of(&self, group: u64, tid: Tid) -> Option<Place> {
        let hierarchy = self.groups.as_ref()?.hierarchy();
        let path = proc::group(tid, self.unified).filter(|path| hierarchy.is_path_of(path, group))?;
        Some(place_of(&path))
    }

    fn look_at_groups(&mut self, counted: &Counted) -> Result<(), EngineError> {
        let Some(lookout) = &mut self.groups else { return Ok(()) };
        let groups = lookout.look_if_due();
        let Some(groups) = groups.map_err(|source| EngineError::Read { what: "the top-level cgroups", source })? else {
            return Ok(());
        };
        let running: Vec<_> = counted.current.iter().map(|current| current.role).collect();
        let changes = self.roles.update(&groups, &counted.totals, &running);
        for change in &changes {
            match *change {
                Change::Added { group, role, weight } => self.programs.add_group(group, role, weight)?,
                Change::Removed { group, role } => self.programs.remove_group(group, role),
                Change::Weighs { role, weight } => self.programs.weigh(role, weight),
            }
        }
        if !changes.is_empty() {
            self.programs.renew_roles();
        }
        Ok(())
    }
}

impl Engine for Ebpf {
    fn name(&self) -> &'static str {
        "eBPF"
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn quiet(&self, below: Nanos) -> Option<Quiet> {
        let at = clocks::now();
        // Until all throttled time is attributed to waits, readings must not be skipped.
        if self.limits.as_ref().is_some_and(|limits| !limits.is_settled()) || self.programs.has_crowd() {
            return None;
        }
        let (before, now) = (self.noted?, self.programs.noted()?);
        let is_little = now.iter().zip(before).all(|(now, before)| now.wrapping_sub(before) < below.0);
        let real_time = is_little.then(|| self.programs.real_time())??;
        Some(Quiet { at, real_time })
    }

    fn read(&mut self) -> Result<Reading, EngineError> {
        // The baseline for `quiet` is taken before the count: a wait that ends between the two must show up as growth. If a task waits now, there
        // is no baseline, and the next look is a full reading.
        self.noted = self.programs.noted().filter(|_| !self.programs.has_crowd());
        let mut counted = self.counted()?;
        let (limits, totals) = (self.limits.as_mut(), &mut counted.totals);
        let limits = limits.map(|limits| limits.settle(totals, &self.roles)).unwrap_or_default();
        let at = counted.between.map_or_else(clocks::now, |(_, last)| clocks::now_was(last));
        self.look_at_groups(&counted)?;
        let now = Instant::now();
        let workloads = self.places.report(&counted.places, now);
        self.look_at_places(&counted, now)?;
        let found = self.oldest.look(&self.programs, &counted, at)?;
        self.disproved += found.disproved;
        let (roles, blame, waits) = self.roles.report(&counted.totals);
        let (cpus, real_time) = (counted.totals.cpus(), counted.totals.real_time());
        let real_time_tasks = counted.totals.real_time_tasks(at.trace);
        let spent = self.programs.spent();
        let lost = Lost {
            untracked_tasks: self.programs.untracked(),
            events: spent.missed,
            missing_switches: counted.missing,
            disbelieved: counted.disbelieved + self.programs.rewoken() + self.disproved,
            groups_in_other: self.roles.without_id,
        };
        let measured = spent.runs > 0;
        let cost = Cost {
            programs: measured.then_some(Nanos(spent.ns)),
            runs: measured.then_some(spent.runs),
            process: clocks::process(),
        };
        let (since, oldest) = (self.since, found.waits);
        Ok(Reading {
            at,
            since,
            roles,
            blame,
            waits,
            cpus,
            real_time,
            real_time_tasks,
            oldest,
            limits,
            workloads,
            lost,
            cost,
        })
    }
}
