//! The record of an episode: `episode.json` and the lines of the log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::report::{FindingId, RemedyId, Severity};
use unstarve_model::{Nanos, WallTime};
use unstarve_sched::Rule;

use super::end::{End, EndReason, Totals};
use super::trigger::Trigger;
use crate::engine::reading::Place;

/// The id of the schema. Fields are only ever added.
pub const SCHEMA: &str = "unstarve.watch-episode/1";

/// One episode, as a line of the log and as `episode.json` beside its trace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Episode {
    /// [`SCHEMA`].
    pub schema: String,
    /// The name of its directory in the store: `20261123-012345-678`.
    pub id: String,
    /// Which word on it this is: one comes at once, another one when all is known.
    pub stage: Stage,
    /// The id of the first word, where the store had one of this name already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announced_as: Option<String>,
    /// When it was seen, UTC, as RFC 3339.
    pub at: String,
    /// The same in ns since 1970.
    pub at_ns: u64,
    /// Its place among the episodes of its store: each has a greater one than all before it, whatever the wall's clock was set to.
    /// Absent where it has no directory of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The recorded machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its machine-id(5), hashed for unstarve, where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// What it is called by besides: `[labels]` of the configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The kernel that ran when it began (`uname -r`). A store outlasts its kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The boot in which it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What was above its threshold, as the counters saw it; absent of a dump on demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Seen>,
    /// Whose waits: of the worst finding of its time, else of the counters. Absent where nobody is starved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim: Option<Party>,
    /// How many threads waited as the victim, where `explain` counted them: the victim names one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_tasks: Option<u32>,
    /// Who had the CPU meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Party>,
    /// By which rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// For how long, in ns: of the victim's waits the part that this culprit and rule are to blame for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
    /// The finding of `explain`: `rt-starvation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingId>,
    /// The worst that `explain` found in the trace where it found nothing of the episode's time, or nothing that is not another
    /// episode's of the same trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_finding: Option<Box<OtherFinding>>,
    /// How bad it is, in the word that `explain` has for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// How bad it is by what the counters saw when it began: the same table, with what they know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_severity: Option<Severity>,
    /// Everybody who was starved at its time, worst first, the first 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<Suffered>,
    /// Those beyond them.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_victims: u64,
    /// Those of `more_victims` whom the counters alone saw: an explanation counts only its own anew.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_counted: u64,
    /// What `explain` says of the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What to do first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<FirstRemedy>,
    /// The guard that was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardWord>,
    /// The size of its trace in bytes; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_bytes: Option<u64>,
    /// The episode whose trace shows this one, too: it began before that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_of: Option<String>,
    /// Episodes since the one before that were seen and have no line, because too many began at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_kept: u64,
    /// It still went on at this word: another one comes when it has ended.
    #[serde(skip_serializing_if = "is_false")]
    pub lasts: bool,
    /// When its condition was last above its threshold, UTC, as RFC 3339; absent where nobody saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The same in ns since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ns: Option<u64>,
    /// Why it counts as over; absent as long as it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndReason>,
    /// From the first reading in which its waits can have begun to `ended_at`, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Of what all tasks of the role of `trigger.victim` waited in that time, the part that the role of `trigger.culprit` and `trigger.rule` are to
    /// blame for, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ns: Option<u64>,
    /// All that the tasks of that role waited in that time, in ns, whatever for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// The episode that goes on in its place and has the duration and the sums of both: it became worse, or its trace was tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_as: Option<String>,
    /// Why something is absent here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Words on an episode, in their order. All have its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It has begun: what the counters show. Its trace is not written yet.
    Begun,
    /// Its trace is explained, or it has none after all. Absent where none was recorded.
    #[default]
    Complete,
    /// It is over: the last word, with all that is known.
    Ended,
}

impl Stage {
    /// The word for fields of the journal.
    pub fn word(self) -> &'static str {
        match self {
            Stage::Begun => "begun",
            Stage::Complete => "complete",
            Stage::Ended => "ended",
        }
    }
}

/// What the counters saw when an episode began.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Seen {
    /// What was above its threshold.
    #[serde(flatten)]
    pub trigger: Trigger,
    /// Since when its waits may have been, on CLOCK_MONOTONIC, which is the traces' clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_mono_ns: Option<u64>,
    /// Whose waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<Party>,
    /// Who was preferred most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Party>,
    /// By which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// For how long: the part of the waits that this culprit and rule are to blame for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blamed_ns: Option<u64>,
}

/// Somebody who was starved at an episode's time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Suffered {
    /// Who waited; a role alone where only the counters saw it.
    pub victim: Party,
    /// The finding of `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingId>,
    /// How bad it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// Who had the CPU meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Party>,
    /// By which rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// For how long, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
}

/// A victim or a culprit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Party {
    /// Its role in the metrics, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The name of its task; `idle`, `irq 33 virtio0` and the like where it is none. Absent where only the role or the group is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Its thread; absent where there are several and the counters saw none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its process; of several absent, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tgid: Option<u32>,
    /// Its cgroup, of a path of more than 512 bytes the head and the tail, with `…` between them; of several absent, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// What the cgroup's path says it is.
    #[serde(flatten)]
    pub place: Place,
}

/// A finding about others than an episode's victim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OtherFinding {
    /// `rt-starvation`.
    pub finding: FindingId,
    /// How bad it is.
    pub severity: Severity,
    /// Who waited.
    #[serde(default)]
    pub victim: Party,
    /// Who had the CPU meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Party>,
    /// By which rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// For how long, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<u64>,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FirstRemedy {
    /// A stable id.
    pub id: RemedyId,
    /// What and why.
    #[serde(default)]
    pub text: String,
    /// The command; empty if there is none.
    #[serde(default)]
    pub apply: String,
}

/// What a guard that runs says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GuardWord {
    /// Its process.
    pub pid: u32,
    /// Its policy's file.
    pub policy: String,
    /// Whether nothing kept its policy from holding.
    pub held: bool,
    /// What did: in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub but: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_false(truth: &bool) -> bool {
    !truth
}

impl Episode {
    /// An episode that was just noticed.
    pub fn begun(id: String, at: WallTime) -> Episode {
        Episode { schema: SCHEMA.to_owned(), id, at: at.to_string(), at_ns: at.0, ..Episode::default() }
    }

    /// The record published while the episode is being recorded.
    #[must_use]
    pub fn announced(&self) -> Episode {
        Episode { stage: Stage::Begun, ..self.clone() }
    }

    /// The final record of an interrupted episode: the watch ended before its trace was written.
    #[must_use]
    pub(crate) fn interrupted(self) -> Episode {
        let problem = Some("no trace: the watch ended while it was being recorded".to_owned());
        Episode { stage: Stage::Complete, problem, ..self }
    }

    /// Records its end.
    pub(crate) fn note_end(&mut self, end: &End) {
        self.lasts = false;
        self.ended_at = end.at.map(|at| at.to_string());
        self.ended_at_ns = end.at.map(|at| at.0);
        self.ended_by = Some(end.reason);
        self.duration_ns = end.duration.map(|ns| ns.0);
        self.total_ns = end.totals.by_cause.map(|ns| ns.0);
        self.waited_ns = end.totals.waited.map(|ns| ns.0);
        self.continued_as.clone_from(&end.continued_as);
    }

    /// The end that the record has.
    pub(crate) fn end(&self) -> Option<End> {
        let by_cause = self.total_ns.map(Nanos);
        Some(End {
            at: self.ended_at_ns.map(WallTime),
            duration: self.duration_ns.map(Nanos),
            totals: Totals { by_cause, waited: self.waited_ns.map(Nanos) },
            reason: self.ended_by?,
            continued_as: self.continued_as.clone(),
        })
    }

    /// The last word on it.
    #[must_use]
    pub(crate) fn ended(mut self, end: &End) -> Episode {
        self.note_end(end);
        Episode { stage: Stage::Ended, ..self }
    }

    /// Whether its present record is the last one. Those of earlier versions have no end.
    pub(crate) fn is_final(&self) -> bool {
        self.stage == Stage::Ended || self.stage == Stage::Complete && !self.lasts && self.ended_by.is_none()
    }

    /// Whether its trace was still expected at this word.
    pub(crate) fn expects_trace(&self) -> bool {
        self.stage == Stage::Begun && self.problem.is_none()
    }

    /// Whether two records are about the same episode: the first word may have had another id.
    pub(crate) fn is_same(&self, other: &Episode) -> bool {
        let first = |episode: &Episode| episode.announced_as.clone().unwrap_or_else(|| episode.id.clone());
        self.id == other.id || first(self) == first(other)
    }

    /// The rule by which the counters saw it begin, which the metrics count it by.
    pub(crate) fn began_by(&self) -> Option<Rule> {
        self.trigger.as_ref().map(|seen| seen.rule.unwrap_or(Rule::Unknown))
    }

    /// Number of victim threads, if there are several: then no single thread is described.
    pub(crate) fn many_tasks(&self) -> Option<u32> {
        self.victim_tasks.filter(|tasks| *tasks > 1)
    }

    /// The finding that the episode is counted as: the one about its victim, else the worst about other victims.
    pub fn counts_as(&self) -> Option<&FindingId> {
        self.finding.as_ref().or_else(|| self.other_finding.as_ref().map(|other| &other.finding))
    }
}

/// The id of an episode at this time.
pub fn id_of(at: WallTime) -> String {
    let digits: String = format!("{}-{}", at.date(), at.clock()).chars().filter(char::is_ascii_digit).collect();
    let (day, rest) = digits.split_at(8.min(digits.len()));
    let (second, milli) = rest.split_at(6.min(rest.len()));
    format!("{day}-{second}-{milli}")
}

/// Whether a text has the form of an id, so that it is safe as a file name in the store.
pub fn is_id(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    digits
        && (lengths == [8, 6, 3] || (lengths.len() == 4 && lengths[..3] == [8, 6, 3] && (1..=6).contains(&lengths[3])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_moments_and_nothing_else() {
        let id = id_of(WallTime(1_764_000_187_205_000_123));
        assert_eq!(id, "20251124-160307-205");
        assert!(is_id(&id) && is_id("20251124-160307-205-2"));
        for bad in ["", "..", "20251124", "20251124-160307-205/..", "20251124-160307-205-", "20251124-160307-20x", "--"]
        {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
