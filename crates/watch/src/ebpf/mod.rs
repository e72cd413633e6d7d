//! Counts in the kernel, by the programs of `src/bpf/watch.bpf.c`.

mod counted;
mod oldest;
mod programs;

use std::time::{Duration, Instant};

use unstarve_model::{ClockPair, Nanos};

use crate::clocks;
use crate::groups::Hierarchy;
use crate::role_table::{Change, RoleTable};
use crate::{Cost, Engine, EngineError, Lost, Options, Reading};
use counted::Counted;
use oldest::Oldest;
use programs::Programs;

/// New groups are looked for so often.
const GROUPS_EVERY: Duration = Duration::from_secs(1);

/// The engine in the kernel. Its programs go when it is dropped.
pub struct Ebpf {
    programs: Programs,
    oldest: Oldest,
    hierarchy: Option<Hierarchy>,
    looked: Option<Instant>,
    roles: RoleTable,
    since: ClockPair,
    disproved: u64,
}

impl Ebpf {
    /// Loads the programs and begins to count.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if the kernel does not take them: it is older than 5.10 or without BTF, or this process may
    /// not (CAP_BPF and CAP_PERFMON are needed).
    pub fn open(options: Options) -> Result<Ebpf, EngineError> {
        let hierarchy = Hierarchy::find();
        let unified = hierarchy.as_ref().is_none_or(|hierarchy| hierarchy.unified);
        let mut programs = Programs::load(unified)?;
        programs.set_least_age(options.oldest_from);
        programs.name_functions();
        programs.renew_roles();
        let since = clocks::now();
        let mut engine = Ebpf {
            oldest: Oldest::new(options.oldest_from),
            programs,
            hierarchy,
            looked: None,
            roles: RoleTable::new(),
            since,
            disproved: 0,
        };
        // Groups before tasks, so that these are counted as what they are from the beginning.
        let nothing = Counted::default();
        engine.look_at_groups(&nothing)?;
        engine.programs.start()?;
        Ok(engine)
    }

    fn look_at_groups(&mut self, counted: &Counted) -> Result<(), EngineError> {
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= GROUPS_EVERY);
        let Some(hierarchy) = self.hierarchy.as_ref().filter(|_| due) else { return Ok(()) };
        self.looked = Some(Instant::now());
        let groups = hierarchy.top().map_err(|source| EngineError::Read { what: "the top-level cgroups", source })?;
        let changes = self.roles.update(&groups, &counted.totals);
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

    fn read(&mut self) -> Result<Reading, EngineError> {
        let counted = self.programs.counted()?;
        self.look_at_groups(&counted)?;
        let at = clocks::now();
        let found = self.oldest.look(&self.programs, &counted, at)?;
        self.disproved += found.disproved;
        let (roles, blame, waits) = self.roles.report(&counted.totals);
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
        Ok(Reading { at, since: self.since, roles, blame, waits, oldest: found.waits, lost, cost })
    }
}
