//! The verdict table: thresholds per waiter and cause.

use unstarve_model::Nanos;

use super::{Cause, Threshold, Waiter};

/// The thresholds of one waiter and one cause for each severity. One threshold of a list is enough.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VerdictRow {
    /// The waiting task.
    pub waiter: Waiter,
    /// The cause.
    pub cause: Cause,
    /// Thresholds for info.
    pub info: &'static [Threshold],
    /// Thresholds for a warning.
    pub warning: &'static [Threshold],
    /// Thresholds for critical.
    pub critical: &'static [Threshold],
    /// A delay of this many of its periods is also a warning.
    pub warning_periods: Option<u64>,
    /// A delay of this many of its periods is also critical.
    pub critical_periods: Option<u64>,
}

/// The row of a waiter and a cause; `None` if the cause never matters to this waiter.
pub(super) fn row(waiter: Waiter, cause: Cause) -> Option<&'static VerdictRow> {
    TABLE.iter().find(|row| row.waiter == waiter && row.cause == cause)
}

const ZERO: Threshold = Threshold { longest: Nanos::ZERO, share: 0.0, lost: Nanos::ZERO };

/// At least this many milliseconds at once.
const fn at_a_time(ms: u64) -> Threshold {
    Threshold { longest: Nanos::from_millis(ms), ..ZERO }
}

/// At least this share of the recording, and this many milliseconds in total.
const fn in_all(percent: u32, lost_ms: u64) -> Threshold {
    Threshold { share: percent as f64 / 100.0, lost: Nanos::from_millis(lost_ms), ..ZERO }
}

impl Threshold {
    /// And one of them at least this long.
    const fn one_of(self, ms: u64) -> Threshold {
        Threshold { longest: Nanos::from_millis(ms), ..self }
    }
}

/// Short runs of a higher class or priority, up to the half of the CPU that an equal would also have taken, are ordinary sharing.
const HALF_IN_SHORT_PIECES: Threshold = in_all(50, 48).one_of(1);

const NEVER: &[Threshold] = &[];
const ALWAYS: &[Threshold] = &[ZERO];

const fn of(
    waiter: Waiter,
    cause: Cause,
    info: &'static [Threshold],
    warning: &'static [Threshold],
    critical: &'static [Threshold],
) -> VerdictRow {
    VerdictRow { waiter, cause, info, warning, critical, warning_periods: None, critical_periods: None }
}

impl VerdictRow {
    const fn periods(self, warning: u64, critical: u64) -> VerdictRow {
        VerdictRow { warning_periods: Some(warning), critical_periods: Some(critical), ..self }
    }
}

/// Configured, but a kernel thread waits. 50 ms is the time that RT throttling leaves to other classes in each second, and twice
/// the longest period of fair scheduling.
const SET_FOR_SERVING: [&[Threshold]; 3] = [
    &[at_a_time(4)],
    &[at_a_time(50), in_all(5, 24).one_of(4), HALF_IN_SHORT_PIECES],
    &[at_a_time(1000), in_all(20, 200).one_of(4)],
];
/// The same for weights and quotas: waits shorter than a period of fair scheduling are normal sharing, and add up on any busy
/// CPU.
const SHARED_FOR_SERVING: [&[Threshold]; 3] =
    [&[at_a_time(24)], &[at_a_time(50), in_all(5, 24).one_of(24)], &[at_a_time(1000), in_all(20, 200).one_of(24)]];
/// A real-time task behind a deadline task or a higher priority: configured, and acceptable while it gets to run in time.
const SET_FOR_REAL_TIME: [&[Threshold]; 3] =
    [&[at_a_time(4), in_all(20, 12)], &[at_a_time(24), HALF_IN_SHORT_PIECES], &[at_a_time(1000)]];
const SET_FOR_HOUSEKEEPING: [&[Threshold]; 3] = [
    &[at_a_time(24)],
    &[at_a_time(200), in_all(20, 200).one_of(50), in_all(50, 200).one_of(1)],
    &[at_a_time(1000), in_all(50, 1000).one_of(50)],
];
/// An equal that keeps a CPU: no slice, tick or lag of the fair class explains 200 ms.
const STUCK: [&[Threshold]; 3] = [&[at_a_time(48)], &[at_a_time(200), in_all(50, 400).one_of(48)], &[at_a_time(5000)]];
/// Each task of a crowd takes little and none is to blame; but a wait of a second is never healthy, and 20 s is a soft lockup.
const TURNS: [&[Threshold]; 3] = [NEVER, &[at_a_time(1000)], &[at_a_time(20_000)]];
/// Nothing on this host took the CPU: info, but a wait of a second is never healthy.
const NOT_RUN: [&[Threshold]; 3] = [&[at_a_time(24)], &[at_a_time(1000)], NEVER];
/// For a real-time task without a period, the same thresholds as behind a higher priority.
const NOT_RUN_FOR_REAL_TIME: [&[Threshold]; 3] = [&[at_a_time(4)], &[at_a_time(24)], &[at_a_time(1000)]];
const IDLE_BESIDE: [&[Threshold]; 3] = [&[at_a_time(4)], &[at_a_time(24)], &[at_a_time(1000)]];
/// Programs behind real-time tasks. Many short runs count if together they take more than the 5 % that the kernel leaves to the
/// fair class anyway, and each is longer than the slice of an equal.
const CLASS_FOR_PROGRAM: [&[Threshold]; 3] = [
    &[at_a_time(4), in_all(20, 12)],
    &[at_a_time(12), in_all(5, 12).one_of(4), HALF_IN_SHORT_PIECES],
    &[at_a_time(48), in_all(25, 48).one_of(4)],
];
/// Programs that lost time because of settings.
const SETTING_FOR_PROGRAM: [&[Threshold]; 3] =
    [&[in_all(1, 0)], &[at_a_time(48), in_all(5, 24)], &[at_a_time(240), in_all(20, 24)]];
const INTERRUPTED: [&[Threshold]; 3] =
    [&[in_all(10, 0)], &[at_a_time(12), THIRD_INTERRUPTED], &[at_a_time(1000), in_all(50, 12)]];
/// A real-time priority does not help against interrupts, as it does not against tasks that are not preempted.
const INTERRUPTED_REAL_TIME: [&[Threshold]; 3] =
    [&[at_a_time(1), in_all(10, 0)], &[at_a_time(5), THIRD_INTERRUPTED], &[at_a_time(50), in_all(50, 12)]];
const THIRD_INTERRUPTED: Threshold = Threshold { share: 1.0 / 3.0, lost: Nanos::from_millis(12), ..ZERO };
/// A lower class or priority, which should not keep a real-time task waiting at all.
const NOT_PREEMPTED: [&[Threshold]; 3] =
    [&[at_a_time(1), in_all(20, 12)], &[at_a_time(5), in_all(50, 48)], &[at_a_time(50)]];

const fn as_set(waiter: Waiter, cause: Cause, [info, warning, critical]: [&'static [Threshold]; 3]) -> VerdictRow {
    of(waiter, cause, info, warning, critical)
}

use Cause::{
    Class, ClassLimit, CpuStopped, Crowd, GroupLimit, HostPackets, Interrupts, NotPreempted, OtherCpuIdle,
    OwnClassLimit, OwnCpuIdle, PingPong, Priority, RealTimeOrder, StuckEqual, Turns, Weight,
};
use Waiter::{AskedToBeLast, HousekeepingThread, Program, RealTime, ServingThread};

/// Every pair of waiter and cause that can be reported. A pair without a row is healthy.
pub const TABLE: &[VerdictRow] = &[
    as_set(ServingThread, Class, SET_FOR_SERVING),
    as_set(ServingThread, Weight, SHARED_FOR_SERVING),
    as_set(ServingThread, GroupLimit, SHARED_FOR_SERVING),
    as_set(ServingThread, StuckEqual, STUCK),
    as_set(ServingThread, Turns, TURNS),
    as_set(ServingThread, OwnCpuIdle, IDLE_BESIDE),
    as_set(ServingThread, CpuStopped, NOT_RUN),
    as_set(ServingThread, Interrupts, INTERRUPTED),
    of(ServingThread, HostPackets, INTERRUPTED[0], INTERRUPTED[2], NEVER),
    of(ServingThread, PingPong, ALWAYS, &[in_all(5, 0)], &[in_all(50, 0)]),
    as_set(HousekeepingThread, Class, SET_FOR_HOUSEKEEPING),
    as_set(HousekeepingThread, Weight, SET_FOR_HOUSEKEEPING),
    as_set(HousekeepingThread, GroupLimit, SET_FOR_HOUSEKEEPING),
    as_set(HousekeepingThread, StuckEqual, STUCK),
    as_set(HousekeepingThread, Turns, TURNS),
    as_set(HousekeepingThread, OwnCpuIdle, IDLE_BESIDE),
    as_set(HousekeepingThread, CpuStopped, NOT_RUN),
    as_set(HousekeepingThread, Interrupts, INTERRUPTED),
    of(HousekeepingThread, HostPackets, INTERRUPTED[0], INTERRUPTED[2], NEVER),
    of(HousekeepingThread, PingPong, ALWAYS, &[in_all(5, 0)], &[in_all(50, 0)]),
    // A deadline task runs before a real-time one.
    as_set(RealTime, Class, SET_FOR_REAL_TIME).periods(1, 10),
    as_set(RealTime, Priority, SET_FOR_REAL_TIME).periods(1, 10),
    of(RealTime, RealTimeOrder, &[at_a_time(4)], &[at_a_time(24)], NEVER),
    // A SCHED_FIFO task that holds the CPU longer than a slice of SCHED_RR.
    of(RealTime, StuckEqual, &[at_a_time(4)], &[at_a_time(24)], &[at_a_time(120)]),
    as_set(RealTime, NotPreempted, NOT_PREEMPTED).periods(1, 3),
    of(RealTime, ClassLimit, &[at_a_time(1)], &[at_a_time(5)], &[at_a_time(50)]).periods(1, 3),
    of(RealTime, OwnClassLimit, ALWAYS, NEVER, NEVER),
    as_set(RealTime, OwnCpuIdle, IDLE_BESIDE),
    as_set(RealTime, CpuStopped, NOT_RUN_FOR_REAL_TIME).periods(1, 10),
    as_set(RealTime, Interrupts, INTERRUPTED_REAL_TIME).periods(1, 3),
    of(RealTime, HostPackets, INTERRUPTED[0], INTERRUPTED[2], NEVER),
    as_set(Program, Class, CLASS_FOR_PROGRAM),
    // These also measure what a real-time task's wait costs programs.
    as_set(Program, Priority, CLASS_FOR_PROGRAM),
    as_set(Program, StuckEqual, STUCK),
    of(Program, RealTimeOrder, CLASS_FOR_PROGRAM[0], CLASS_FOR_PROGRAM[1], NEVER),
    as_set(Program, NotPreempted, CLASS_FOR_PROGRAM),
    as_set(Program, ClassLimit, CLASS_FOR_PROGRAM),
    as_set(Program, Weight, SETTING_FOR_PROGRAM),
    as_set(Program, GroupLimit, SETTING_FOR_PROGRAM),
    as_set(Program, Turns, TURNS),
    as_set(Program, OwnCpuIdle, [&[at_a_time(4)], &[at_a_time(48)], &[at_a_time(1000)]]),
    as_set(Program, CpuStopped, NOT_RUN),
    of(Program, OtherCpuIdle, &[in_all(1, 0)], &[in_all(5, 0), in_all(1, 0).one_of(48)], &[in_all(25, 0)]),
    as_set(Program, Interrupts, INTERRUPTED),
    // Over loopback and veth the sender also delivers, which is its own work. More than half of its time is too much.
    of(Program, HostPackets, INTERRUPTED[0], INTERRUPTED[2], NEVER),
    of(Program, Crowd, ALWAYS, &[in_all(2, 0).one_of(24), in_all(5, 0).one_of(12)], &[in_all(25, 0).one_of(96)]),
    of(AskedToBeLast, Class, &[at_a_time(24)], NEVER, NEVER),
    of(AskedToBeLast, Weight, &[at_a_time(48)], NEVER, NEVER),
    of(AskedToBeLast, GroupLimit, &[in_all(1, 0)], NEVER, NEVER),
    // A task configured to run last still should not wait beside an idle CPU.
    as_set(AskedToBeLast, OwnCpuIdle, [&[at_a_time(4)], &[at_a_time(48)], &[at_a_time(1000)]]),
    of(AskedToBeLast, StuckEqual, &[at_a_time(200)], NEVER, NEVER),
    // Nor be interrupted for long, or wait for a CPU that does not run; but its waits are not urgent.
    of(AskedToBeLast, Interrupts, INTERRUPTED[0], NEVER, NEVER),
    of(AskedToBeLast, CpuStopped, &[at_a_time(1000)], NEVER, NEVER),
];
