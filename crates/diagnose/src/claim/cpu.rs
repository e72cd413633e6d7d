//! Claims about CPUs that were idle, interrupted or did not run.

use unstarve_model::{CpuId, Nanos};

use super::{Actors, Kind, Share};

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum CpuHeadline {
    OwnIdle { who: Kind, longest: Nanos, lost: Nanos },
    OtherIdle { who: Kind, lost: Nanos, waits: u64, longest: Nanos },
    Interrupted { who: Kind, by: Actors, cost: InterruptCost },
    Stopped { who: Kind, longest: Nanos, lost: Nanos },
}

/// What interrupts take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum InterruptCost {
    // A share of the time in which the task wanted to run.
    Share { share: Share, of: Nanos },
    // The longest time in one wait.
    InOneWait(Nanos),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum CpuClaim {
    IdleExitIsShort,
    IdleCauses,
    // Waits beside an idle CPU as a share of the trace; those below `tick` are left out.
    ShareBesideIdle { share: Share, tick: Nanos },
    AffinityKnown,
    // Inferred from this many migrations.
    AffinityInferred(u64),
    // Time of interrupts in the victim's runs and waits.
    InterruptsTook { in_runs: Nanos, in_waits: Nanos },
    // Packet softirqs without a device interrupt.
    PacketsOfHost,
    // One interrupt on the CPU where it took most.
    Interrupt { what: Actors, count: u64, cpu: CpuId, total: Nanos, share: Share, longest: Nanos },
    TicksStopped,
    StopCauses,
    // What a hypervisor took of the CPU during the recording.
    Stolen { cpu: CpuId, time: Nanos },
}
