use unstarve_model::{CpuId, CpuSet, Nanos, Tid, WallClock};
use unstarve_sched::{GroupId, Groups};

/// What a host snapshot can tell about tasks that their events cannot. `None` everywhere means: not known.
pub trait Settings: Send {
    /// The cgroups that [`Self::group`] speaks of, once, when a timeline begins.
    fn groups(&self) -> Groups;

    /// Whether it knows the task, so that what it does not say of it is not so. A task that it does not know has what its creator has.
    fn knows(&self, _: Tid) -> bool {
        false
    }

    /// The cgroup with whose weight the task competes with tasks of other groups; `None` when it is in the root cgroup,
    /// as kernel threads are, or when that is not known.
    fn group(&self, tid: Tid) -> Option<GroupId>;

    /// The task's own load weight, where its priority does not tell it: that of SCHED_IDLE is 3 at any nice.
    fn own_weight(&self, tid: Tid) -> Option<u32>;

    /// The CPUs that the task may use.
    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet>;

    /// Whether the task, runnable when the trace began, was so when it ended and did not run in between.
    fn has_only_waited(&self, _: Tid) -> bool {
        false
    }

    /// Whether a CPU that issued no event at all in the whole trace was idle: it is online, and work on it would have shown
    /// by its ticks.
    fn is_idle_if_silent(&self, _: CpuId) -> bool {
        false
    }

    /// Whether the CPU is one of those (`nohz_full`) whose tick the kernel stops while it is not needed.
    fn may_stop_its_tick(&self, _: CpuId) -> bool {
        false
    }

    /// Whether the recording marks where events of a CPU were overwritten: one without a mark then has all of them.
    fn marks_overwritten(&self) -> bool {
        false
    }

    /// Whether the recording says that none of its events was overwritten: each CPU has its first ones.
    fn nothing_overwritten(&self) -> bool {
        false
    }

    /// Whether a bandwidth limit applies to the task's cgroup or one above it.
    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool>;

    /// The CPU time that a deadline task may use in each of its periods.
    fn deadline_runtime(&self, _: Tid) -> Option<Nanos> {
        None
    }

    /// Whether it is a kernel thread, whatever its name.
    fn is_kernel_thread(&self, _tid: Tid) -> Option<bool> {
        None
    }

    /// The process that a thread belongs to.
    fn process_of(&self, _: Tid) -> Option<Tid> {
        None
    }

    /// The path of a task's cgroup.
    fn cgroup_of(&self, _: Tid) -> Option<&str> {
        None
    }

    /// Where the wall's clock stood.
    fn wall(&self) -> Option<WallClock> {
        None
    }

    /// The name of the machine.
    fn host(&self) -> Option<&str> {
        None
    }

    /// The boot of the machine.
    fn boot(&self) -> Option<&str> {
        None
    }
}

/// Settings that can be part of what is printed in a test.
pub(crate) struct BoxedSettings(pub(crate) Box<dyn Settings>);

impl std::fmt::Debug for BoxedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSettings;

impl Settings for NoSettings {
    fn groups(&self) -> Groups {
        Groups::default()
    }
    fn group(&self, _: Tid) -> Option<GroupId> {
        None
    }
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        None
    }
}
