//! A kernel's scheduler as the numbers that the engine needs.

use unstarve_facts::{FEATURES, FeatureState, Knob, Version, feature_at};
use unstarve_model::{CpuId, CpuSet, Nanos};
use unstarve_sched::fair::{cfs, eevdf};
use unstarve_sched::rt;

use super::EngineError;
use crate::Program;

/// A kernel's scheduler: its rules and settings.
#[derive(Clone, PartialEq, Debug)]
pub struct SchedulerModel {
    /// The rules of the fair class.
    pub fair: FairRules,
    /// The time between two ticks: 4 ms (CONFIG_HZ=250), as in Debian's and Ubuntu's kernels, unless changed here.
    pub tick: Nanos,
    /// How many ticks an RR task runs before an equal one.
    pub rr_ticks: u32,
    /// The limit of the real-time class; `None` where the kernel has none.
    pub real_time_limit: Option<rt::Limit>,
    /// Runtime and period of the fair server; `None` where the kernel has none.
    pub fair_server: Option<(Nanos, Nanos)>,
    /// CPUs on which it is turned off.
    pub without_server: CpuSet,
    /// Whether a timer ends each slice of the fair class, instead of the next tick (HRTICK).
    pub hrtick: bool,
    /// The same for deadline tasks (HRTICK_DL).
    pub hrtick_dl: bool,
    /// Constant costs of transitions.
    pub costs: Costs,
    /// Knobs of the scheduler that have an effect in reality, but not in this model.
    pub not_modelled: Vec<String>,
    /// Knobs that it has.
    modelled: Vec<String>,
}

/// The rules of the fair class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FairRules {
    /// Up to 6.5.
    Cfs(cfs::Tunables),
    /// From 6.6 on.
    Eevdf(eevdf::Tunables),
}

impl FairRules {
    /// Whether a thread may have a slice of its own: from 6.12 on.
    pub(super) fn has_own_slices(&self) -> bool {
        matches!(self, FairRules::Eevdf(tunables) if tunables.takes_own_slices)
    }
}

/// Constant costs of transitions. Without them a waiting actor gets the CPU in no time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// The time of the CPU, of nobody, before another actor runs.
    pub switch: Nanos,
    /// What is added to that if the actor was woken: an interrupt of another CPU, the way out of idle.
    pub wake: Nanos,
    /// CPU time that an actor needs in addition after it was preempted.
    pub preemption: Nanos,
}

/// The level of a stable series that stands for an unknown one: its newest.
const NEWEST_LEVEL: u32 = 9999;

/// What stands before the names of [`Program::knobs`].
const FEATURE: &str = "sched_feature.";

struct Settings<'k> {
    version: Version,
    cpus: usize,
    knobs: &'k [(String, String)],
    read: Vec<bool>,
}

impl SchedulerModel {
    /// The scheduler of the kernel on which a program was recorded, with as many CPUs and with its settings.
    ///
    /// # Errors
    ///
    /// The kernel is unknown or unread, or a setting is no number.
    pub fn of_program(program: &Program) -> Result<SchedulerModel, EngineError> {
        let release = program.kernel.as_deref().ok_or(EngineError::NoKernel)?;
        SchedulerModel::of_kernel(release, program.cpus.len(), &program.knobs)
    }

    /// The scheduler of a kernel (`uname -r`) with so many CPUs, on which its defaults depend. A release whose stable level is
    /// unknown is taken to be the newest of its series.
    ///
    /// # Errors
    ///
    /// The release is not a version or newer than every kernel whose source was read, or a setting is no number.
    pub fn of_kernel(release: &str, cpus: usize, knobs: &[(String, String)]) -> Result<SchedulerModel, EngineError> {
        let unknown = || EngineError::UnknownKernel { release: release.to_owned() };
        let mut version: Version = release.parse().map_err(|_| unknown())?;
        if version.is_unread() || !version.is_at_least(3, 10) {
            return Err(unknown());
        }
        version.patch.get_or_insert(NEWEST_LEVEL);
        let mut settings = Settings { version, cpus, knobs, read: vec![false; knobs.len()] };
        let tick = Nanos::from_millis(4);
        let fair = if version.is_at_least(6, 6) {
            FairRules::Eevdf(settings.eevdf(tick)?)
        } else {
            FairRules::Cfs(settings.cfs()?)
        };
        Ok(SchedulerModel {
            fair,
            tick,
            rr_ticks: settings.rr_ticks(tick)?,
            real_time_limit: settings.real_time_limit()?,
            fair_server: settings.fair_server()?,
            without_server: settings.without_server(),
            hrtick: settings.feature("HRTICK"),
            hrtick_dl: settings.feature("HRTICK_DL"),
            costs: Costs::default(),
            not_modelled: settings.not_modelled(),
            modelled: settings.modelled(),
        })
    }
}

impl SchedulerModel {
    /// How long real-time threads may have a CPU before fair ones get it; `None` for ever.
    pub fn longest_real_time_turn(&self) -> Option<Nanos> {
        let server = self.fair_server.map(|(runtime, period)| period.saturating_sub(runtime));
        let limit = self.real_time_limit.map(|limit| limit.runtime);
        limit.into_iter().chain(server).min()
    }

    /// Whether real-time threads are limited alike in both.
    pub fn limits_real_time_as(&self, other: &SchedulerModel) -> bool {
        self.real_time_limit == other.real_time_limit
            && self.fair_server == other.fair_server
            && self.without_server == other.without_server
    }

    /// Whether a knob of the program has an effect in this model.
    pub fn has(&self, knob: &str) -> bool {
        self.modelled.iter().any(|known| known == knob)
    }
}

impl Settings<'_> {
    fn knob(&mut self, is_it: impl Fn(&str) -> bool) -> Option<&str> {
        let index = self.knobs.iter().rposition(|(name, _)| is_it(name))?;
        for ((name, _), read) in self.knobs.iter().zip(&mut self.read) {
            *read |= is_it(name);
        }
        Some(&self.knobs[index].1)
    }

    fn feature(&mut self, name: &str) -> bool {
        let (version, negated) = (self.version, format!("NO_{name}"));
        let bare = |knob: &str| knob.strip_prefix(FEATURE).map(|rest| rest == name || rest == negated);
        if self.knobs.iter().any(|(knob, _)| knob.strip_prefix(FEATURE) == Some(&negated)) {
            self.knob(|knob| bare(knob) == Some(true));
            return false;
        }
        if let Some(value) = self.knob(|knob| bare(knob) == Some(true)) {
            return matches!(value.trim(), "on" | "1" | "y" | "true");
        }
        let state = FEATURES.row(name).map_or(FeatureState::Absent, |row| feature_at(row, version));
        // What depends on the architecture is as on x86.
        matches!(state, FeatureState::On | FeatureState::Depends(_))
    }

    /// The number of a setting: of a knob, else the kernel's default for so many CPUs, `None` if this kernel has none.
    fn number(&mut self, name: &str) -> Result<Option<i64>, EngineError> {
        let known = Knob::named(name).ok_or_else(|| EngineError::NoSuchSetting { name: name.to_owned() })?;
        let is_it = |knob: &str| {
            let path = knob.strip_prefix("sysctl.").or_else(|| knob.strip_prefix("debugfs."));
            path.and_then(Knob::named).is_some_and(|knob| knob == known)
        };
        if let Some(value) = self.knob(is_it) {
            let number = value
                .trim()
                .parse()
                .map_err(|_| EngineError::NotANumber { name: name.to_owned(), value: value.to_owned() });
            return number.map(Some);
        }
        let form = known.at(self.version, None).and_then(unstarve_facts::Presence::form);
        Ok(form.and_then(|form| form.default_with(self.cpus)).and_then(|text| text.parse().ok()))
    }

    fn cfs(&mut self) -> Result<cfs::Tunables, EngineError> {
        let features = cfs::Features {
            gentle_fair_sleepers: self.feature("GENTLE_FAIR_SLEEPERS"),
            start_debit: self.feature("START_DEBIT"),
            wakeup_preemption: self.feature("WAKEUP_PREEMPTION"),
            alt_period: self.feature("ALT_PERIOD"),
            base_slice: self.feature("BASE_SLICE"),
            next_buddy: self.feature("NEXT_BUDDY"),
            last_buddy: self.feature("LAST_BUDDY"),
        };
        Ok(cfs::Tunables {
            latency: self.number("sched_latency_ns")?.unwrap_or(6_000_000).max(1),
            min_granularity: self.number("sched_min_granularity_ns")?.unwrap_or(750_000).max(1),
            wakeup_granularity: self.number("sched_wakeup_granularity_ns")?.unwrap_or(1_000_000).max(0),
            // kernel/sched/fair.c of 6.1.192; not scaled.
            idle_min_granularity: 750_000,
            features,
        })
    }

    fn eevdf(&mut self, tick: Nanos) -> Result<eevdf::Tunables, EngineError> {
        let features = eevdf::Features {
            place_lag: self.feature("PLACE_LAG"),
            place_deadline_initial: self.feature("PLACE_DEADLINE_INITIAL"),
            place_rel_deadline: self.feature("PLACE_REL_DEADLINE"),
            run_to_parity: self.feature("RUN_TO_PARITY"),
            preempt_short: self.feature("PREEMPT_SHORT"),
            delay_dequeue: self.feature("DELAY_DEQUEUE"),
            delay_zero: self.feature("DELAY_ZERO"),
            wakeup_preemption: self.feature("WAKEUP_PREEMPTION"),
            pick_buddy: self.feature("PICK_BUDDY"),
            next_buddy: self.feature("NEXT_BUDDY"),
        };
        let form = Knob::named("base_slice_ns").and_then(|knob| knob.at(self.version, None)?.form());
        let normalized = form.and_then(|form| form.base_default()?.parse().ok()).unwrap_or(700_000);
        Ok(eevdf::Tunables {
            base_slice: self.number("base_slice_ns")?.unwrap_or(normalized).max(1),
            normalized_base_slice: normalized,
            tick: tick.0 as i64,
            takes_own_slices: self.version.is_at_least(6, 12),
            features,
            protection: match self.version.is_at_least(6, 17) {
                true => eevdf::Protection::ShortestSlice,
                false => eevdf::Protection::Deadline,
            },
        })
    }

    fn rr_ticks(&mut self, tick: Nanos) -> Result<u32, EngineError> {
        let millis = self.number("sched_rr_timeslice_ms")?.filter(|millis| *millis > 0).unwrap_or(100);
        Ok(u32::try_from(millis as u64 * 1_000_000 / tick.0.max(1)).unwrap_or(u32::MAX).max(1))
    }

    /// Before 5.10 a CPU borrows what others do not use (RT_RUNTIME_SHARE): with several CPUs there is then no limit here.
    fn real_time_limit(&mut self) -> Result<Option<rt::Limit>, EngineError> {
        let runtime = self.number("sched_rt_runtime_us")?.unwrap_or(950_000);
        let period = self.number("sched_rt_period_us")?.unwrap_or(1_000_000);
        let borrows = self.feature("RT_RUNTIME_SHARE") && self.cpus > 1;
        let has_limit = !self.version.is_at_least(6, 12) && (0..period).contains(&runtime) && !borrows;
        let micros = |value: i64| Nanos::from_micros(value.max(0) as u64);
        Ok(has_limit.then(|| rt::Limit { runtime: micros(runtime), period: micros(period) }))
    }

    /// CPUs whose fair server has a runtime of 0: `debugfs.sched/fair_server/cpu1/runtime`.
    fn without_server(&self) -> CpuSet {
        let cpu_of =
            |name: &str| name.split("fair_server/cpu").nth(1)?.strip_suffix("/runtime")?.parse().ok().map(CpuId);
        self.knobs.iter().filter(|(_, value)| value.trim() == "0").filter_map(|(name, _)| cpu_of(name)).collect()
    }

    fn fair_server(&mut self) -> Result<Option<(Nanos, Nanos)>, EngineError> {
        let runtime = self.number("fair_server_runtime")?.filter(|runtime| *runtime > 0);
        let period = self.number("fair_server_period")?;
        // Of servers that differ one is on: each CPU without one is in `without_server`.
        let form = Knob::named("fair_server_runtime").and_then(|knob| knob.at(self.version, None)?.form());
        let default = form.and_then(|form| form.default_with(self.cpus)?.parse().ok());
        let runtime = runtime.or(default.filter(|_| self.without_server().len() < self.cpus));
        let span = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0).map(Nanos);
        Ok(runtime.and_then(span).zip(period.and_then(span)))
    }

    /// Knobs that were read.
    fn modelled(&self) -> Vec<String> {
        let read = self.knobs.iter().zip(&self.read).filter(|(_, read)| **read);
        read.map(|((name, _), _)| name.clone()).collect()
    }

    /// Knobs that nobody read and that are the scheduler's.
    fn not_modelled(&self) -> Vec<String> {
        let unread = self.knobs.iter().zip(&self.read).filter(|(_, read)| !**read).map(|((name, _), _)| name);
        let is_of_scheduler = |name: &&String| {
            name.starts_with(FEATURE)
                || name.contains("sched")
                || ["cmdline.preempt", "cmdline.isolcpus", "cmdline.nohz_full"].contains(&name.as_str())
        };
        unread.filter(is_of_scheduler).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(release: &str, cpus: usize, knobs: &[(&str, &str)]) -> Result<SchedulerModel, EngineError> {
        let knobs: Vec<(String, String)> = knobs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        SchedulerModel::of_kernel(release, cpus, &knobs)
    }

    /// The slice or latency of the fair class, the limit of the real-time class, the fair server.
    fn line(release: &str, cpus: usize) -> String {
        let model = of(release, cpus, &[]).expect("a known kernel");
        let fair = match model.fair {
            FairRules::Cfs(cfs) => {
                format!("cfs {} {} {}", cfs.latency, cfs.min_granularity, cfs.wakeup_granularity)
            }
            FairRules::Eevdf(eevdf) => format!(
                "eevdf {} {:?}{}",
                eevdf.base_slice,
                eevdf.protection,
                if eevdf.features.delay_dequeue { " delayed" } else { "" }
            ),
        };
        let limit = model.real_time_limit.map_or("-".to_owned(), |limit| limit.runtime.to_string());
        let server = model.fair_server.map_or("-".to_owned(), |(runtime, _)| runtime.to_string());
        format!("{release} {cpus}: {fair}, rt {limit}, server {server}, hrtick {}\n", model.hrtick)
    }

    #[test]
    fn kernels_have_their_own_rules_and_defaults() {
        let kernels = [("5.10.0-23-cloud-amd64", 1), ("6.1.0-32-cloud-amd64", 2), ("6.1.176", 8), ("6.8.12", 8)];
        let newer = [("6.12.20", 8), ("6.12.107-1-cloud-amd64", 1), ("6.12", 64), ("6.18.5", 2), ("7.2.8", 4)];
        let table: String = kernels.into_iter().chain(newer).map(|(release, cpus)| line(release, cpus)).collect();
        insta::assert_snapshot!(table, @"
    5.10.0-23-cloud-amd64 1: cfs 6000000 750000 1000000, rt 950 ms, server -, hrtick false
    6.1.0-32-cloud-amd64 2: cfs 12000000 1500000 2000000, rt 950 ms, server -, hrtick false
    6.1.176 8: cfs 24000000 3000000 4000000, rt 950 ms, server -, hrtick false
    6.8.12 8: eevdf 3000000 Deadline, rt 950 ms, server -, hrtick false
    6.12.20 8: eevdf 3000000 Deadline delayed, rt -, server 50.0 ms, hrtick false
    6.12.107-1-cloud-amd64 1: eevdf 700000 Deadline delayed, rt -, server 50.0 ms, hrtick false
    6.12 64: eevdf 2800000 Deadline delayed, rt -, server 50.0 ms, hrtick false
    6.18.5 2: eevdf 1400000 ShortestSlice delayed, rt -, server 50.0 ms, hrtick false
    7.2.8 4: eevdf 2100000 ShortestSlice delayed, rt -, server 50.0 ms, hrtick true
    ");
    }

    #[test]
    fn knobs_change_settings_by_any_of_their_names() {
        let slow = of(
            "6.1.176",
            1,
            &[("debugfs.sched/latency_ns", "60000000"), ("sched_feature.GENTLE_FAIR_SLEEPERS", "off")],
        );
        let FairRules::Cfs(slow) = slow.expect("a model").fair else { panic!("not CFS") };
        assert_eq!((slow.latency, slow.features.gentle_fair_sleepers), (60_000_000, false));
        let free = of("5.10.223", 1, &[("sysctl.kernel.sched_rt_runtime_us", "-1")]).expect("a model");
        assert_eq!(free.real_time_limit, None);
        let server = of("6.12.107", 2, &[("debugfs.sched/fair_server/cpu0/runtime", "20000000")]).expect("a model");
        assert_eq!(server.fair_server, Some((Nanos::from_millis(20), Nanos::from_millis(1000))));
        let parity = of("6.12.107", 2, &[("sched_feature.NO_RUN_TO_PARITY", "")]).expect("a model");
        assert!(matches!(parity.fair, FairRules::Eevdf(eevdf) if !eevdf.features.run_to_parity));
    }

    #[test]
    fn what_has_no_effect_here_is_listed_and_what_is_wrong_is_refused() {
        let knobs =
            [("sched_feature.WA_IDLE", "off"), ("sysctl.vm.swappiness", "1"), ("debugfs.sched/migration_cost_ns", "1")];
        let model = of("6.12.107", 2, &knobs).expect("a model");
        assert_eq!(model.not_modelled, ["sched_feature.WA_IDLE", "debugfs.sched/migration_cost_ns"]);
        let error = |release, knobs| of(release, 1, knobs).map_err(|error| error.to_string()).err();
        insta::assert_snapshot!(error("linux", &[]).unwrap_or_default(), @"`linux` is no kernel whose scheduler is known here; Linux 3.10 to 7.2 are");
        insta::assert_snapshot!(error("6.12.107", &[("debugfs.sched/base_slice_ns", "long")]).unwrap_or_default(), @"`base_slice_ns` is set to `long`, which is no number");
    }
}
