//! The report's shape: `unstarve.explain/1`. Fields are only ever added.

mod evidence;
mod fix;
mod ids;
mod losses;
mod predicted;
mod verdict;

use serde::{Deserialize, Serialize};
use unstarve_change::Change;
pub use unstarve_model::{ClockPair, Severity};
use unstarve_model::{Nanos, Policy};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

pub use crate::selected::{Selected, SelectedAs};
pub use crate::words::place as short_cgroup;
pub use evidence::{Evidence, EvidenceSource, NextStep, OtherHost};
pub use fix::{Boot, Fix};
pub use ids::{FindingId, RemedyId};
pub use losses::{Missing, in_words};
pub use predicted::{Outlook, Predicted, PredictedMetric, PredictedOther};
pub use unstarve_sched::VictimKind;
pub use verdict::{Scope, Verdict, low_confidence, verdict};
pub(crate) use verdict::{UNSURE, worst_at};

/// The schema's id.
pub const SCHEMA: &str = "unstarve.explain/1";

/// Everything `unstarve explain` has to say about a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was read.
    pub trace: TraceSummary,
    /// The answer in one sentence or two.
    #[serde(default)]
    pub verdict: Verdict,
    /// The selected part; absent if the report covers the whole recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub selected: Option<Selected>,
    /// Worst first, at most 64. With selected tasks: those first in which they are the victim.
    pub findings: Vec<Finding>,
    /// Findings beyond those, none of them worse.
    #[serde(default)]
    pub more_findings: u64,
    /// The longest waits of the whole trace, longest first, at most ten.
    pub worst_waits: Vec<WorstWait>,
    /// What the trace cannot say.
    pub losses: Vec<String>,
    /// The same for programs.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What was read, where that was no recording but the text of logs and tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub evidence: Option<Evidence>,
}

/// All rules in the order of the legend: what other tasks do first, then what is no task's doing.
pub const LEGEND: [Rule; 14] = [
    Rule::Class,
    Rule::Priority,
    Rule::Weight,
    Rule::WakeupPreemption,
    Rule::Count,
    Rule::Order,
    Rule::NotPreempted,
    Rule::Unranked,
    Rule::Fair,
    Rule::Irq,
    Rule::Softirq,
    Rule::Throttled,
    Rule::Idle,
    Rule::Unknown,
];

/// The trace in numbers.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TraceSummary {
    /// `trace.dat v7`.
    pub format: String,
    /// Events read.
    pub events: u64,
    /// Events known to be lost.
    pub lost: u64,
    /// CPUs.
    pub cpus: u32,
    /// First event, ns on the trace's clock.
    pub start_ns: u64,
    /// Last event.
    pub end_ns: u64,
    /// The kernel, where known.
    pub kernel: Option<String>,
    /// Whether a host snapshot came with the trace.
    pub snapshot: bool,
    /// All waits of all tasks, in ns.
    pub waits_total_ns: u64,
    /// How many waits there were.
    pub waits_count: u64,
    /// Of `waits_total_ns`, the time in which nobody knows who had the CPU.
    #[serde(default)]
    pub waits_unknown_ns: u64,
    /// Why the trace cannot tell that nobody is starved; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub too_little: Option<String>,
    /// Whether that is about a reason alone: all waits are recorded, but not why one of them was so long. Rates of such a trace hold.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub rates_hold: bool,
    /// Waits of a kind that the trace cannot show at all; absent where it shows all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub invisible: Option<String>,
    /// A cgroup with a CPU limit whose tasks waited, of which the recording does not say how often the limit stopped them; absent
    /// where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub uncounted_limit: Option<String>,
    /// The name of the recorded machine, where known.
    #[serde(default)]
    pub host: Option<String>,
    /// The trace's clock (`mono`, `local`), where known.
    #[serde(default)]
    pub clock: Option<String>,
    /// The trace's clock and CLOCK_REALTIME at the same moment, at the beginning and at the end; fewer or none where the
    /// recording does not have them.
    #[serde(default)]
    pub clock_pairs: Vec<ClockPair>,
    /// The first event in UTC, as RFC 3339, where `clock_pairs` tell.
    #[serde(default)]
    pub start_utc: Option<String>,
    /// The last event.
    #[serde(default)]
    pub end_utc: Option<String>,
    /// CPU time of the recorder and of others that only watch, in ns, where they are in the trace. They are no victims,
    /// culprits or payers of findings.
    #[serde(default)]
    pub recorder_ns: Option<u64>,
}

/// A cause with evidence, price, confidence and remedies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Finding {
    /// One of the ids of the design: `rt-starvation`, ….
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub id: FindingId,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// One sentence for people: which thread is starved by which others, and for how long.
    pub sentence: String,
    /// Its first half, without numbers: `ksoftirqd/1 is starved by wl (real-time)`.
    #[serde(default)]
    pub headline: String,
    /// The reason, where the rule by which the culprit had the CPU is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub why: Option<String>,
    /// Why the confidence is low; absent from 75 % up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub doubt: Option<String>,
    /// What the selected tasks are in it; absent if all tasks are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub selected_as: Option<SelectedAs>,
    /// Who waits.
    pub victim: Victim,
    /// Who ran meanwhile, longest first.
    pub culprits: Vec<Culprit>,
    /// Everything that held the CPU during the victim's waits, longest first: adds up to `waits.total_ns` exactly.
    pub blame: Vec<Culprit>,
    /// The victim's waits in numbers.
    pub waits: Waits,
    /// CPUs on which it waited.
    pub cpus: Vec<u32>,
    /// When the trouble recurs at a steady interval: the interval.
    pub period_ns: Option<u64>,
    /// Who paid for the waits, most first.
    pub price: Vec<PricePaid>,
    /// Facts that speak for it, in words.
    pub evidence: Vec<String>,
    /// The worst instances, worst first.
    pub worst: Vec<Instance>,
    /// Whether `worst` has all of the victim's waits of which most was the culprits' doing.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub lists_all: bool,
    /// Losses that could overturn it.
    pub losses: Vec<String>,
    /// The same for programs.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What to do, least invasive first.
    pub remedies: Vec<Remedy>,
    /// Who waits, as actors of the trace that was just explained, whose waits `waits` counts. Not part of the JSON, where
    /// ids of actors mean nothing.
    #[serde(skip)]
    pub actors: Vec<ActorId>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// Whose wait.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Victim {
    /// `kworker`, `ksoftirqd`, `nfsd`, `rcu`, … or `task`; `cgroup` where none of its tasks is known.
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub kind: VictimKind,
    /// Its name.
    pub comm: String,
    /// Its threads, the first 128.
    pub tids: Vec<u32>,
    /// How many threads there are.
    pub tasks: u32,
    /// `fair`, `rt`, `deadline`.
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>"))]
    pub policy: Option<Policy>,
    /// The kernel's priority.
    pub prio: Option<i32>,
    /// The policy with its own scale, for people: `FIFO 80`, `RR 10`, `deadline`, `nice 5`; `RT 80` where the recording does not show which
    /// real-time policy. Absent for normal threads of nice 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub scheduled: Option<String>,
    /// What the worker works on.
    pub work: Option<Work>,
    /// The processes of these threads, where the host snapshot knows them.
    #[serde(default)]
    pub tgids: Vec<u32>,
    /// Their cgroups, the first few, where the snapshot knows them.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// Whether they are kernel threads, where more than their names shows it: the snapshot, or who created them. Any program can take a
    /// kernel thread's name. Those of which nothing shows what they were, because they had ended, do not count beside kernel threads, and are
    /// not named: neither `comm` nor `tids` nor `tasks` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub kernel_thread: Option<bool>,
    /// Whether the snapshot knows all of these threads: else `tgids` and `cgroups` are those of some.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub all_known: bool,
}

/// A worker's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Work {
    /// The work function.
    pub function: String,
    /// The workqueue, where known.
    pub workqueue: Option<String>,
}

/// An occupant and a rule.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Culprit {
    /// The task's name; for others `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`.
    pub comm: String,
    /// Its threads, the first 128; empty if it is not a task.
    pub tids: Vec<u32>,
    /// How many threads there are; 0 if it is not a task.
    #[serde(default)]
    pub tasks: u32,
    /// `fair`, `rt`, `deadline`, `idle`; none for interrupts and unknown.
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>"))]
    pub policy: Option<Policy>,
    /// The kernel's priority.
    pub prio: Option<i32>,
    /// The policy with its own scale, for people: `FIFO 80`, `RR 10`, `deadline`, `nice 5`; `RT 80` where the recording does not show which
    /// real-time policy. Absent for normal threads of nice 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub scheduled: Option<String>,
    /// The rule's word.
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub rule: Rule,
    /// How long.
    pub ns: u64,
    /// The processes of these threads, where the host snapshot knows them.
    #[serde(default)]
    pub tgids: Vec<u32>,
    /// Their cgroups, the first few, where the snapshot knows them.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// Whether they are kernel threads, where more than their names shows it: the snapshot, or who created them. Any program can take a
    /// kernel thread's name. Those of which nothing shows what they were, because they had ended, do not count beside kernel threads, and are
    /// not named: neither `comm` nor `tids` nor `tasks` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub kernel_thread: Option<bool>,
    /// Whether the snapshot knows all of these threads: else `tgids` and `cgroups` are those of some.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub all_known: bool,
}

/// Waits in numbers.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// 99 % were at most this long (3 significant figures).
    pub p99_ns: u64,
    /// Owed time: ideal equal-share service minus service received.
    pub owed_ns: u64,
}

/// Who paid.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PricePaid {
    /// The task's name.
    pub comm: String,
    /// Its threads, the first 128.
    pub tids: Vec<u32>,
    /// How many threads there are.
    #[serde(default)]
    pub tasks: u32,
    /// What it lost: asleep until the victim woke it, or itself waiting behind the same culprits.
    pub ns: u64,
    /// The processes of these threads, where the host snapshot knows them.
    #[serde(default)]
    pub tgids: Vec<u32>,
    /// Their cgroups, the first few, where the snapshot knows them.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// The part of `ns` in which it waited for a CPU itself.
    #[serde(default)]
    pub waited_ns: u64,
    /// The part of `ns` that it slept for a request to a block device, which was issued or served late.
    #[serde(default, skip_serializing_if = "is_none_of_it")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub through_device_ns: u64,
}

fn is_none_of_it(ns: &u64) -> bool {
    *ns == 0
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Instance {
    /// Where.
    pub cpu: u32,
    /// From, on the trace's clock.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub start_utc: Option<String>,
    /// Who waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub tid: Option<u32>,
    /// Who had most of it: the place among the finding's `culprits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub culprit: Option<u32>,
}

/// One of the longest waits of the trace.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WorstWait {
    /// Who waited.
    pub comm: String,
    /// Its id.
    pub tid: u32,
    /// Where.
    pub cpu: u32,
    /// From, on the trace's clock.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// Who ran meanwhile, longest first: adds up exactly.
    pub blame: Vec<Culprit>,
    /// From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub start_utc: Option<String>,
    /// Its process, where the host snapshot knows it.
    #[serde(default)]
    pub tgid: Option<u32>,
    /// Its cgroup, where the snapshot knows it.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Whether it is a kernel thread, where more than its name shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub kernel_thread: Option<bool>,
    /// Where it still lasted when the recording ended: how long it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub open: Option<Open>,
}

/// How long a wait lasted that had no end when the recording ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Open {
    /// As far as the recording is proved to show its CPU.
    pub proved_ns: u64,
    /// To the recording's end, if the CPU stayed with the holder.
    pub possible_ns: u64,
    /// Whether it did: `proved`, `believed` (nothing contradicts), `doubted` (others would have had a turn), `refuted`.
    pub end: String,
    /// Who or what had the CPU at the last that is known of it.
    pub holder: String,
    /// The rule by which the holder had it.
    pub rule: Rule,
}

impl WorstWait {
    /// From its start to its end.
    pub fn length(&self) -> Nanos {
        Nanos(self.end_ns.saturating_sub(self.start_ns))
    }
}

impl Remedy {
    /// Whether both commands are short enough for people: those that write the old value down first are not.
    pub fn is_short(&self) -> bool {
        const SHORT: usize = 100;
        self.apply.len() <= SHORT && self.undo.len() <= SHORT
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Remedy {
    /// A stable id: `raise-worker`.
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub id: RemedyId,
    /// What and why, one or two sentences.
    pub text: String,
    /// The exact command, empty if there is none.
    pub apply: String,
    /// The command that takes it back.
    pub undo: String,
    /// What can go wrong.
    pub risk: String,
    /// The kernels and conditions it is valid on.
    pub valid_on: String,
    /// The same as `apply`, one setting of one thing each; [`Target::Advice`](unstarve_change::Target::Advice) where only a
    /// person can do it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // For programs that apply them; the page shows the commands.
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub changes: Vec<Change>,
    /// What it was proved to do on real kernels of this series, or where nothing was, of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proved: Vec<crate::proofs::Proved>,
    /// What it would do to everybody in this recording, by a replay; absent where that was not asked, or takes too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub predicted: Option<Predicted>,
}
