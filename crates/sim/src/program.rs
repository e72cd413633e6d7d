//! A program: what the threads of a recording did by themselves.

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuId, CpuSet, Nanos, SchedPolicy, Tid};

/// What the threads of a recording did by themselves, without what the scheduler did to them: how long they computed, whom they
/// woke, for what they slept. Waits are not in it: an engine that plays it decides those.
///
/// Times are from the start of the recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// `uname -r` of the recorded kernel, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The CPUs that were online, by the numbers of the recorded machine.
    pub cpus: CpuSet,
    /// How long was recorded.
    pub length: Nanos,
    /// What every wakeup takes until its thread runs, whoever runs: the quickest waits of the recording.
    #[serde(default)]
    pub dispatch: Nanos,
    /// The longest interrupt: nobody gets the CPU before it ends.
    #[serde(default)]
    pub longest_interrupt: Nanos,
    /// What a wakeup waits for interrupts on average, at most: the part of the time that they took, times the longest.
    #[serde(default)]
    pub interrupt_wait: Nanos,
    /// Where the hierarchy with the CPU controller is mounted, if not at its usual place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_mount: Option<String>,
    /// Cgroups in which actors are, and those above them; each after the one above it. The root group is not included.
    pub cgroups: Vec<Cgroup>,
    /// The threads.
    pub actors: Vec<Actor>,
    /// Settings of the whole kernel that differ from its defaults or are changed, as knobs of the lab: `sched_feature.NAME`,
    /// `sysctl.NAME`, `debugfs.PATH`, `cmdline.NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<(String, String)>,
}

/// A cgroup with its CPU settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cgroup {
    /// Its path below the mount point, beginning with `/`.
    pub path: String,
    /// The index of the group above it; `None` directly below the root group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// Its load weight (nice 0 = 1024): `cpu.weight` 100, and `cpu.shares` 1024.
    pub load_weight: u32,
    /// Its CPU limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// A CPU limit: this much CPU time, summed over CPUs, in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quota {
    /// CPU time.
    pub runtime: Nanos,
    /// The period.
    pub period: Nanos,
}

/// The index of an actor in [`Program::actors`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActorId(pub u32);

impl ActorId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread: what it does, and the settings under which it competes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Actor {
    /// Its id in the recording. The thread of a work queue's pool that did most stands for the pool.
    pub tid: Tid,
    /// Its process in the recording, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Tid>,
    /// Its name, safe to print.
    pub comm: String,
    /// Whether it is a kernel thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kernel_thread: bool,
    /// The settings under which it competes.
    pub placement: Placement,
    /// The CPU on which it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_on: Option<CpuId>,
    /// Whether it is created while the program runs: its first sleep lasts until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_born: bool,
    /// What its operations cost where they switch tasks.
    #[serde(default, skip_serializing_if = "SwitchCosts::are_none")]
    pub costs: SwitchCosts,
    /// What it does, in order. It begins at time 0 and ends with its last operation.
    pub ops: Vec<Op>,
}

/// CPU time of an actor that it needs only because an operation switches tasks. Where a replay differs from the recording in that,
/// the next [`Op::Run`] is shorter or longer by as much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwitchCosts {
    /// To sleep and to be woken: an [`Op::Block`] that does not sleep in a replay saves it, an [`Op::Take`] that sleeps takes it.
    pub sleep: Nanos,
    /// To wake an actor that sleeps: an [`Op::Wake`] of one that does not saves it.
    pub wake: Nanos,
}

impl SwitchCosts {
    fn are_none(&self) -> bool {
        *self == SwitchCosts::default()
    }
}

/// The settings under which a thread competes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placement {
    /// Its class.
    pub class: Class,
    /// The CPUs that it may use, by the numbers of the recorded machine.
    pub cpus: CpuSet,
    /// The index of its cgroup; `None` in the root group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<usize>,
    /// A slice of its own (since 6.12), of a fair thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Nanos>,
}

/// The class of a thread with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// SCHED_OTHER, SCHED_BATCH or SCHED_IDLE.
    Fair {
        /// Which of the three.
        policy: SchedPolicy,
        /// −20 to 19; of no effect for SCHED_IDLE.
        nice: i32,
    },
    /// SCHED_FIFO or SCHED_RR.
    Realtime {
        /// Which of the two.
        policy: SchedPolicy,
        /// 1 to 99.
        priority: u32,
    },
    /// SCHED_DEADLINE.
    Deadline(Deadline),
}

/// The parameters of a deadline thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deadline {
    /// CPU time in each period.
    pub runtime: Nanos,
    /// The deadline for it, from the beginning of the period.
    pub deadline: Nanos,
    /// The period.
    pub period: Nanos,
}

/// One operation of an actor.
///
/// Wakes are tokens: [`Op::Wake`] gives one to an actor, [`Op::Block`] takes one, and sleeps while there is none. A thread that
/// is woken while it still runs finds the token at its next block and does not sleep, as in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Computes for this much CPU time of its own.
    Run(Nanos),
    /// Computes until this much time has passed by the clock, whether it has the CPU or not.
    RunByClock(Nanos),
    /// Takes a token; sleeps until there is one, as it did in the recording.
    Block,
    /// Takes a token, which was there in the recording; sleeps if there is none in a replay.
    Take,
    /// Sleeps until this time; not at all if it is past.
    SleepUntil(Nanos),
    /// Sleeps this long from now.
    SleepFor(Nanos),
    /// Gives a token to an actor.
    Wake(ActorId),
    /// Gives a token to an actor after this long: a device that answers.
    WakeAfter(ActorId, Nanos),
}

impl Program {
    /// The actor.
    pub fn actor(&self, id: ActorId) -> &Actor {
        &self.actors[id.index()]
    }

    /// Where the hierarchy with the CPU controller is mounted.
    pub fn cgroup_mount(&self) -> &str {
        self.cgroup_mount.as_deref().unwrap_or("/sys/fs/cgroup")
    }

    /// All actors with their ids.
    pub fn actors(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        (0..).map(ActorId).zip(&self.actors)
    }

    /// The number of operations of all actors.
    pub fn operations(&self) -> usize {
        self.actors.iter().map(|actor| actor.ops.len()).sum()
    }

    /// The place of a CPU among those of the program: where it is in a guest that has only as many CPUs.
    pub fn place_of(&self, cpu: CpuId) -> Option<u32> {
        let place = self.cpus.iter().position(|online| online == cpu)?;
        u32::try_from(place).ok()
    }

    /// The places of these CPUs among those of the program; all of them if none of these is one of them.
    pub fn places_of(&self, cpus: &CpuSet) -> CpuSet {
        let mut places = CpuSet::default();
        cpus.iter().filter_map(|cpu| self.place_of(cpu)).for_each(|place| places.insert(CpuId(place)));
        if places.is_empty() {
            (0..self.cpus.len() as u32).for_each(|place| places.insert(CpuId(place)));
        }
        places
    }
}

impl Actor {
    /// The CPU time that it asks for.
    pub fn work(&self) -> Nanos {
        self.ops.iter().map(|op| if let Op::Run(time) = op { *time } else { Nanos::ZERO }).sum()
    }
}
