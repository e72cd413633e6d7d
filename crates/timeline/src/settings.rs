//! What is known of a host besides its events.

use unstarve_model::{CpuId, CpuSet, Nanos, Prio, Tid, Time, WallClock};
use unstarve_sched::{GroupId, Groups};

/// What a host snapshot shows of tasks and their events do not. `None` always means unknown.
pub trait Settings: Send {
    /// The cgroups that [`Self::group`] names, once, when a timeline begins.
    fn groups(&self) -> Groups {
        Groups::default()
    }

    /// Whether it knows the task, so that its silence about the task is a fact. A task that it does not know has its creator's
    /// settings.
    fn knows(&self, _: Tid) -> bool {
        false
    }

    /// The cgroup with whose weight the task competes with tasks of other groups; `None` if it is in the root cgroup, as kernel
    /// threads are, or if that is unknown.
    fn group(&self, _: Tid) -> Option<GroupId> {
        None
    }

    /// The task's own load weight, if it does not follow from its priority: SCHED_IDLE has 3 at any nice.
    fn own_weight(&self, _: Tid) -> Option<u32> {
        None
    }

    /// The latest priority of the task that the host itself showed, and when. No event shows that a running task changes its own:
    /// it keeps the CPU.
    fn read_prio(&self, _: Tid) -> Option<(Time, Prio)> {
        None
    }

    /// The CPUs that the task may use.
    fn allowed_cpus(&self, _: Tid) -> Option<CpuSet> {
        None
    }

    /// Whether the task, runnable when the trace began, was runnable when it ended and did not run in between.
    fn has_only_waited(&self, _: Tid) -> bool {
        false
    }

    /// Whether a CPU without any event in the whole trace was idle: it is online, and work on it would have shown by its ticks.
    fn is_idle_if_silent(&self, _: CpuId) -> bool {
        false
    }

    /// Whether the kernel stops the CPU's tick while it is not needed (`nohz_full`).
    fn may_stop_its_tick(&self, _: CpuId) -> bool {
        false
    }

    /// Whether the recording marks where events of a CPU were overwritten: a CPU without a mark then has all its events.
    fn marks_overwritten(&self) -> bool {
        false
    }

    /// Whether the recording states that none of its events was overwritten: it has each CPU's first ones.
    fn nothing_overwritten(&self) -> bool {
        false
    }

    /// Whether a bandwidth limit applies to the task's cgroup or one above it.
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        None
    }

    /// The CPU time that a deadline task may use per period.
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

    /// The wall clock's relation to the trace clock.
    fn wall(&self) -> Option<WallClock> {
        None
    }

    /// The host's name.
    fn host(&self) -> Option<&str> {
        None
    }

    /// The boot id.
    fn boot(&self) -> Option<&str> {
        None
    }
}

/// Settings with a `Debug` implementation, for output of tests.
pub(crate) struct BoxedSettings(pub(crate) Box<dyn Settings>);

impl std::fmt::Debug for BoxedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settings")
    }
}

/// Settings in which everything is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSettings;

impl Settings for NoSettings {}
