//! All kinds of remedies. Lab scenarios, programs that read the JSON, and the documentation refer to them by id.

/// A kind of remedy: what `explain` may advise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemedyKind {
    /// Its id, in kebab-case; never reused.
    pub id: &'static str,
    /// What it does, in one line.
    pub title: &'static str,
    /// Why `fix` applies it only on explicit request; `None` if it may be the first one tried.
    pub on_request: Option<&'static str>,
}

impl RemedyKind {
    /// The kind with this id.
    pub fn of_id(id: &str) -> Option<RemedyKind> {
        REMEDIES.iter().copied().find(|kind| kind.id == id)
    }
}

/// Declares each kind once: its constant and its entry in [`REMEDIES`].
macro_rules! remedies {
    ($($name:ident = $id:literal: $title:literal $(, on_request: $why:literal)?;)*) => {
        $(
            #[doc = concat!("`", $id, "`: ", $title, ".")]
            pub(crate) const $name: RemedyKind = RemedyKind {
                id: $id,
                title: $title,
                on_request: remedies!(@why $($why)?),
            };
        )*

        /// All kinds of remedies, in the order of the documentation.
        pub const REMEDIES: &[RemedyKind] = &[$($name),*];
    };
    (@why) => { None };
    (@why $why:literal) => { Some($why) };
}

remedies! {
    LOWER_GROUP_WEIGHT = "lower-group-weight": "gives a heavy cgroup the weight of the group that it competes with";
    RAISE_GROUP_WEIGHT = "raise-group-weight": "gives a light cgroup the weight of the group that it competes with";
    RESERVE_FOR_SYSTEM = "reserve-for-system": "gives the services of a Kubernetes node the weight of their reservation";
    BATCH_WAKEE = "batch-wakee": "stops a woken task from preempting others (SCHED_BATCH)";
    RAISE_WORKER = "raise-worker": "gives a kernel worker the nice value at which its weight is as large as that of the culprit";
    RAISE_VICTIM = "raise-victim": "gives a program the nice value at which its weight is as large as that of the culprit";
    WORKER_TO_RT = "worker-to-rt": "makes a kernel worker real-time at the lowest priority";
    OCCUPANT_TO_NICE_0 = "occupant-to-nice-0": "sets a task of negative nice back to nice 0";
    SESSION_TO_NICE_0 = "session-to-nice-0": "sets a session (autogroup) of negative nice back to nice 0";
    WAKEUP_GRANULARITY = "wakeup-granularity": "lets a running task run for longer before a woken one preempts it";
    BASE_SLICE = "base-slice": "makes the slices of the fair class longer";
    NO_WAKEUP_PREEMPTION = "no-wakeup-preemption": "turns wakeup preemption off for the whole machine",
        on_request: "every woken task of the machine waits for the slice of the running one";
    INLINE_COMPLETION = "inline-completion": "a kernel that completes overwrites without a worker";
    MOVE_POLLER = "move-poller": "keeps a program that polls off CPUs of the kernel, where that program sets its CPUs";
    ISOLATE_POLLER = "isolate-poller": "takes the kernel's work off the CPUs of a program that polls";
    BPF_SCHEDULER = "bpf-scheduler": "asks or unloads the BPF scheduler (sched_ext) that decides in place of the fair class";
    UPDATE_KERNEL = "update-kernel": "a kernel without a known bug of the scheduler";
    MOVE_INTRUDER = "move-intruder": "keeps a real-time culprit off the CPU that the victim cannot leave";
    RESET_ON_FORK = "reset-on-fork": "lets the children of a real-time program start as normal tasks";
    CREATOR_TO_FAIR = "creator-to-fair": "makes a program that starts short real-time tasks start normal ones";
    INTRUDER_TO_FAIR = "intruder-to-fair": "makes a real-time culprit a normal task with a high weight";
    VICTIM_ABOVE_INTRUDER = "victim-above-intruder": "gives a kernel thread a higher real-time priority than the culprit";
    LOWER_INTRUDER = "lower-intruder": "gives a real-time culprit a priority below that of its victim";
    RAISE_REAL_TIME_VICTIM = "raise-real-time-victim": "gives a real-time victim a priority above that of the culprit";
    MOVE_OCCUPANT = "move-occupant": "keeps a culprit that is not preempted off the CPU of the victim";
    PREEMPT_FULL = "preempt-full": "lets the kernel be preempted nearly everywhere (preempt=full)",
        on_request: "it changes how the whole machine switches tasks";
    PREEMPT_RT = "preempt-rt": "a kernel that can be preempted everywhere (PREEMPT_RT)";
    THREADED_NAPI = "threaded-napi": "receives packets in threads with a policy of their own instead of in softirqs";
    DELIVER_ELSEWHERE = "deliver-elsewhere": "has packets of this host's own programs delivered by other CPUs (RPS)";
    FAIR_SERVER = "fair-server": "reserves a part of each second for starved fair tasks (6.12 and later)";
    LESS_DEADLINE_RUNTIME = "less-deadline-runtime": "halves the runtime of a deadline task";
    LEAVE_ROOM = "leave-room": "a real-time program that leaves time to others";
    NO_RT_THROTTLING = "no-rt-throttling": "lifts the limit on real-time tasks (before 6.12)",
        on_request: "a real-time task that never sleeps can then hang the machine";
    NO_FAIR_SERVER = "no-fair-server": "turns the fair server off, which reserves time for fair tasks (6.12 and later)",
        on_request: "a real-time task that never sleeps can then hang the machine";
    MORE_DEADLINE_RUNTIME = "more-deadline-runtime": "raises the runtime of a deadline task by half";
    RT_THROTTLING = "rt-throttling": "limits real-time tasks to 95 % of each second (before 6.12)";
    RAISE_BYSTANDER = "raise-bystander": "gives more weight to a task that waits behind many woken threads",
        on_request: "it favours one task; the wakeups stay as many";
    FEWER_THREADS = "fewer-threads": "a smaller pool of threads";
    GATE_WAKEUPS = "gate-wakeups": "a dispatcher that counts threads that were woken and do not run yet";
    NFSD_LIFO = "nfsd-lifo": "a kernel that wakes one thread of knfsd at a time (6.7 and later)";
    MOVE_INTERRUPT = "move-interrupt": "serves an interrupt on other CPUs";
    MOVE_VICTIM = "move-victim": "moves a task away from the CPU of an interrupt";
    LOWER_MIGRATION_COST = "lower-migration-cost": "lets an idle CPU look for waiting tasks sooner";
    NO_SIS_UTIL = "no-sis-util": "lets a wakeup look at more CPUs for an idle one";
    PIN = "pin": "spreads tasks over CPUs by hand";
    RAISE_MIGRATION_COST = "raise-migration-cost": "leaves recently run tasks where they are";
    FIND_STOPPER = "find-stopper": "finds out what stops a CPU: a hypervisor, firmware, or a section with interrupts off";
    ASK_HYPERVISOR = "ask-hypervisor": "asks the host of a virtual machine for the CPU time that it takes";
    RAISE_LIMIT = "raise-limit": "raises the CPU limit of a cgroup";
}
