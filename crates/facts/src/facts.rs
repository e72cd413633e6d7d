//! Facts that depend on the kernel version or configuration.

use unstarve_model::Nanos;

use crate::{Bug, Snapshot, Version};

/// Whether a statement holds on a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
    /// Unknown; the text says what would decide it.
    Depends(&'static str),
}

impl Holds {
    /// Whether it certainly holds.
    pub fn is_yes(self) -> bool {
        self == Holds::Yes
    }

    pub(crate) fn when(condition: bool) -> Holds {
        if condition { Holds::Yes } else { Holds::No }
    }
}

/// The setting that controls how easily a woken task preempts the running one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreemptionKnob {
    /// Its absolute path.
    pub path: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Whether it is the wakeup granularity itself, or else the nearest setting that this kernel has.
    pub is_wakeup_granularity: bool,
}

/// Facts that depend on the kernel. They are read from the snapshot if it contains them, and otherwise derived from the
/// version.
///
/// Each method names its source. Nothing known only from memory is stated here.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub(crate) version: Option<Version>,
    pub(crate) snapshot: Option<&'a Snapshot>,
}

pub(crate) const UNKNOWN_VERSION: Holds = Holds::Depends("the kernel's version (uname -r)");

impl<'a> Facts<'a> {
    /// Facts about the host of a snapshot.
    pub fn of_host(snapshot: &'a Snapshot) -> Facts<'a> {
        Facts { version: Version::of(&snapshot.kernel), snapshot: Some(snapshot) }
    }

    /// Facts about a kernel of which at most the release (`uname -r`) is known.
    pub fn of_release(release: Option<&str>) -> Facts<'static> {
        Facts { version: release.and_then(|release| release.parse().ok()), snapshot: None }
    }

    /// The kernel's version.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    pub(crate) fn since(&self, major: u32, minor: u32) -> Holds {
        self.version.map_or(UNKNOWN_VERSION, |version| Holds::when(version.is_at_least(major, minor)))
    }

    /// The fair server: fair tasks that real-time tasks starve get 50 ms of every second as a deadline entity. It
    /// protects the fair class as a whole, not one fair task from another, and acts only after about 950 ms.
    ///
    /// Source: `fair_server_init()` in kernel/sched/fair.c and `dl_server_start()` in deadline.c of 6.12 and 7.2;
    /// absent in 6.11. Settings: debugfs `sched/fair_server/cpuN/{runtime,period}`; runtime 0 turns it off.
    pub fn fair_server(&self) -> Holds {
        match self.setting_number("fair_server/cpu0/runtime") {
            Some(runtime) => Holds::when(runtime > 0),
            None => self.since(6, 12),
        }
    }

    /// RT throttling: real-time tasks are stopped for the rest of each period once they have used `sched_rt_runtime_us`
    /// of it.
    ///
    /// Source: `update_curr_rt()` in kernel/sched/rt.c: unconditional up to 6.11, under CONFIG_RT_GROUP_SCHED since
    /// 6.12 (commit 5f6bd380c7bd). Runtime −1, or at least the period, turns it off.
    pub fn rt_throttling(&self) -> Holds {
        if let Some(runtime) = self.setting_number("sched_rt_runtime_us") {
            let period = self.setting_number("sched_rt_period_us").unwrap_or(1_000_000);
            if runtime < 0 || runtime >= period {
                return Holds::No;
            }
        }
        self.would_throttle_rt()
    }

    /// Whether [`Facts::rt_throttling`] would hold with a runtime below the period.
    pub fn would_throttle_rt(&self) -> Holds {
        match (self.since(6, 12), self.snapshot.and_then(|snapshot| snapshot.config("RT_GROUP_SCHED"))) {
            (Holds::No, _) => Holds::Yes,
            (Holds::Yes, Some(option)) => Holds::when(option == "y"),
            (Holds::Yes, None) => Holds::Depends("CONFIG_RT_GROUP_SCHED of this kernel (zcat /proc/config.gz)"),
            (unknown, _) => unknown,
        }
    }

    /// Once ksoftirqd is runnable, no softirq of its CPU (except HI and TASKLET) runs before ksoftirqd does.
    ///
    /// Source: `ksoftirqd_running()` in kernel/softirq.c, present in 5.10.223 and 6.1.176, absent in 6.12.107; added by
    /// commit 4cd13c21b207 of August 2016, removed by d15121be7485, which is in 6.5. Vendors backported the removal to
    /// older real-time kernels.
    pub fn softirqs_wait_for_ksoftirqd(&self) -> Holds {
        match self.since(6, 5) {
            Holds::Yes => Holds::No,
            Holds::No => Holds::when(self.version.is_some_and(|version| version.is_at_least(4, 9))),
            unknown => unknown,
        }
    }

    /// Direct writes that overwrite allocated blocks complete in the interrupt, without a worker. Extending and
    /// unwritten writes, O_DSYNC without FUA, ranges in the page cache and errors still need the worker.
    ///
    /// Source: commits a4ae47e5d2bc and eca9dc20891d, merged for 6.19; fs/iomap/direct-io.c of 7.2.
    pub fn direct_overwrites_complete_inline(&self) -> Holds {
        self.since(6, 19)
    }

    /// Threaded NAPI: a network device's packet processing can be moved to threads (`napi/IF-N`), which have a policy
    /// and an affinity, with `/sys/class/net/IF/threaded`.
    ///
    /// Source: Documentation/ABI/testing/sysfs-class-net (KernelVersion 5.12).
    pub fn threaded_napi(&self) -> Holds {
        self.since(5, 12)
    }

    /// The fair class uses EEVDF.
    ///
    /// Source: commit 147f3efaa241 in 6.6; its features PLACE_LAG and RUN_TO_PARITY exist from then on.
    pub fn eevdf(&self) -> Holds {
        match self.snapshot.and_then(|snapshot| snapshot.features.as_ref()) {
            Some(features) => Holds::when(features.contains_key("PLACE_LAG")),
            None => self.since(6, 6),
        }
    }

    /// Wakeups below nested cgroups reweight the running entity wrongly. Many of them keep tasks outside the group,
    /// kernel workers first, off the CPU for seconds. Fixed by a kernel update.
    ///
    /// Source: the row `reweight-lag` of data/bugs.tsv: commit 6d71a9c61604 (6.13), reverted by 101f3498b4bd (7.1 and
    /// 6.18.45). Upstream 6.12.y never had it.
    pub fn reweight_starves_workers(&self) -> Holds {
        self.has_bug("reweight-lag")
    }

    /// Beside a task that runs uninterrupted the reference of virtual time stands still, so that later the fair class
    /// may keep a worker waiting. Fixed by a kernel update.
    ///
    /// Source: the row `zero-vruntime` of data/bugs.tsv: commit 79f3f9bedd14 (6.19), fixed by b3d99f43c72b (7.0).
    pub fn vruntime_stands_still(&self) -> Holds {
        self.has_bug("zero-vruntime")
    }

    /// The setting that controls how easily a woken task preempts the running one; `None` if the version is unknown.
    ///
    /// Source: kernel/sched/fair.c and debug.c of 5.10, 6.1, 6.12 and 7.2; commit 8a99b6833c88 moved the sysctls to
    /// debugfs in 5.13, and 6.6 removed the wakeup granularity together with CFS.
    pub fn preemption_knob(&self) -> Option<PreemptionKnob> {
        const GRANULARITY: &str = "how far the running task must be ahead before a woken one preempts it, in ns";
        const SLICE: &str =
            "EEVDF's slice in ns: wakeup granularity has no successor, a longer slice makes switches rarer";
        let version = self.version?;
        let (path, meaning, is_wakeup_granularity) = if version.is_at_least(6, 6) {
            ("/sys/kernel/debug/sched/base_slice_ns", SLICE, false)
        } else if version.is_at_least(5, 13) {
            ("/sys/kernel/debug/sched/wakeup_granularity_ns", GRANULARITY, true)
        } else {
            ("/proc/sys/kernel/sched_wakeup_granularity_ns", GRANULARITY, true)
        };
        Some(PreemptionKnob { path, meaning, is_wakeup_granularity })
    }

    /// The tick period, from CONFIG_HZ; `None` if the configuration is unknown. Without HRTICK a fair task's slice ends
    /// at a tick.
    pub fn tick(&self) -> Option<Nanos> {
        let hz: u64 = self.snapshot?.config("HZ")?.parse().ok().filter(|&hz| hz > 0)?;
        Some(Nanos(1_000_000_000 / hz))
    }

    pub(crate) fn has_bug(&self, id: &str) -> Holds {
        crate::BUGS.row(id).and_then(Bug::of).map_or(Holds::No, |bug| bug.affects(self))
    }

    pub(crate) fn setting_number(&self, name: &str) -> Option<i64> {
        self.snapshot?.setting(name)?.1.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(holds: Holds) -> &'static str {
        match holds {
            Holds::Yes => "yes",
            Holds::No => "no",
            Holds::Depends(_) => "depends",
        }
    }

    #[test]
    fn what_a_release_alone_tells() {
        let mut table =
            String::from("release        server  throttle ksoftirqd inline  napi    eevdf   reweight knob\n");
        for release in [
            "4.4.0",
            "5.10.223",
            "5.14.0-503.el9",
            "6.1.176",
            "6.5.0",
            "6.11.0",
            "6.12.107",
            "6.18.44",
            "6.18.45",
            "7.2.13",
            "?",
        ] {
            let facts = Facts::of_release(Some(release));
            let holds = [
                facts.fair_server(),
                facts.rt_throttling(),
                facts.softirqs_wait_for_ksoftirqd(),
                facts.direct_overwrites_complete_inline(),
                facts.threaded_napi(),
                facts.eevdf(),
                facts.reweight_starves_workers(),
            ];
            let [server, throttle, ksoftirqd, inline, napi, eevdf, reweight] = holds.map(word);
            let knob = facts.preemption_knob().map_or("-", |knob| knob.path.rsplit('/').next().unwrap_or_default());
            table += &format!(
                "{release:<14} {server:<8}{throttle:<9}{ksoftirqd:<10}{inline:<8}{napi:<8}{eevdf:<8}{reweight:<9}{knob}\n"
            );
        }
        insta::assert_snapshot!(table, @"
        release        server  throttle ksoftirqd inline  napi    eevdf   reweight knob
        4.4.0          no      yes      no        no      no      no      no       sched_wakeup_granularity_ns
        5.10.223       no      yes      yes       no      no      no      no       sched_wakeup_granularity_ns
        5.14.0-503.el9 no      yes      yes       no      yes     no      no       wakeup_granularity_ns
        6.1.176        no      yes      yes       no      yes     no      no       wakeup_granularity_ns
        6.5.0          no      yes      no        no      yes     no      no       wakeup_granularity_ns
        6.11.0         no      yes      no        no      yes     yes     no       base_slice_ns
        6.12.107       yes     depends  no        no      yes     yes     no       base_slice_ns
        6.18.44        yes     depends  no        no      yes     yes     yes      base_slice_ns
        6.18.45        yes     depends  no        no      yes     yes     no       base_slice_ns
        7.2.13         yes     depends  no        yes     yes     yes     no       base_slice_ns
        ?              depends depends  depends   depends depends depends depends  -
        ");
    }

    #[test]
    fn a_snapshot_overrules_the_version() {
        let snapshot = |settings: &str, config: &str| {
            let json = format!(
                r#"{{"schema":"unstarve.snapshot/1","kernel":{{"release":"6.12.107"}},"settings":{{{settings}}},"config":{{{config}}}}}"#
            );
            Snapshot::from_json(&json).expect("a snapshot")
        };
        let off = snapshot(r#""/sys/kernel/debug/sched/fair_server/cpu0/runtime":"0""#, r#""HZ":"250""#);
        assert_eq!(Facts::of_host(&off).fair_server(), Holds::No);
        assert_eq!(Facts::of_host(&off).rt_throttling(), Holds::No, "no RT_GROUP_SCHED in the configuration");
        assert_eq!(Facts::of_host(&off).tick(), Some(Nanos::from_millis(4)));
        let grouped = snapshot("", r#""RT_GROUP_SCHED":"y""#);
        assert_eq!(Facts::of_host(&grouped).rt_throttling(), Holds::Yes);
        let unlimited = snapshot(r#""/proc/sys/kernel/sched_rt_runtime_us":"-1""#, r#""RT_GROUP_SCHED":"y""#);
        assert_eq!(Facts::of_host(&unlimited).rt_throttling(), Holds::No);
    }
}
