//! Losses: what a trace cannot show.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CpuId, EventType};

/// Something that a trace cannot show. Findings that it could overturn repeat it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Loss {
    /// What is missing.
    #[serde(flatten)]
    pub kind: LossKind,
    /// How often; 1 for something that is either there or not.
    pub count: u64,
    /// Where, and what to do about it, for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>", optional))]
    pub detail: String,
}

/// The ways in which a trace can be incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case", tag = "kind", content = "event")]
#[non_exhaustive]
pub enum LossKind {
    /// The kernel or the recorder dropped events (ring buffer full); `count` is the number of events, if known.
    LostEvents,
    /// Events were dropped but not counted; `count` is the number of gaps.
    UncountedGap,
    /// The file ends early; everything before was used.
    Truncated,
    /// Parts of the file could not be decoded and were skipped.
    Undecodable,
    /// An event type was not recorded at all.
    NotRecorded(
        #[serde(with = "event_name")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        #[cfg_attr(feature = "typescript", ts(as = "String"))]
        EventType,
    ),
    /// All events of this type in the file are malformed; none was used.
    Malformed(
        #[serde(with = "event_name")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        #[cfg_attr(feature = "typescript", ts(as = "String"))]
        EventType,
    ),
    /// The kernel recorded the states of tasks that leave a CPU one bit too high (4.14 to 4.19); they were corrected.
    ShiftedStates,
    /// The file is an archive with more recordings than the one that was read.
    OtherRecordings,
    /// Some CPUs ran tasks but were not recorded.
    UnrecordedCpus,
    /// The events of some CPUs end before the trace, although those CPUs were busy.
    EndsEarly,
    /// Switches were recorded without the priorities of the tasks.
    NoPriorities,
    /// A task ran or switched although earlier events exclude that: a switch is missing.
    MissingSwitch,
    /// Events were more out of order than the reader can sort, and got the last known time.
    OutOfOrder,
    /// There were too many names to keep.
    TooManyNames,
    /// To find everything that ran during each wait would take time quadratic in the length of the trace.
    TooMuchWork,
    /// No CPU recorded an event for long although a tick was due: the whole machine stood still, or nothing was
    /// recorded.
    AllCpusSilent,
    /// Tasks without any event may have been waiting all the time.
    SilentTasks,
    /// The trace has no host snapshot: policies other than RT, weights, affinities and settings are inferred.
    NoSnapshot,
    /// The clock is not in nanoseconds, and the file does not say how to convert it.
    ClockUnit,
    /// A victim is assumed to be a kernel thread because of its name alone (in the detail).
    NameOnly,
    /// The ids in front of a text's events are not those of the events, and were ignored.
    ForeignIds,
}

/// How to record what is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case", tag = "what", content = "name")]
#[non_exhaustive]
pub enum BroughtBy {
    /// Record this event.
    Event(
        #[serde(with = "event_name")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        #[cfg_attr(feature = "typescript", ts(as = "String"))]
        EventType,
    ),
    /// Use this option of `unstarve record`.
    Option(String),
    /// Use `unstarve record`: other recorders do not write it.
    Recorder,
}

/// Serialises event types by the kernel's name (`sched_waking`).
mod event_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::EventType;

    pub fn serialize<S: Serializer>(event: &EventType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(event.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EventType, D::Error> {
        let name = String::deserialize(deserializer)?;
        EventType::from_name(&name).ok_or_else(|| D::Error::custom(format!("`{name}` is no event that is known")))
    }
}

impl LossKind {
    /// What the loss may hide or make wrong, for people.
    pub fn hides(self) -> &'static str {
        match self {
            LossKind::LostEvents | LossKind::UncountedGap => "waits that began or ended there, and who ran meanwhile",
            LossKind::Truncated => "everything after the end",
            LossKind::Undecodable => "what those parts said",
            LossKind::NotRecorded(event) | LossKind::Malformed(event) => shown_by(event),
            LossKind::ShiftedStates => "whether a task blocked or was preempted rests on that correction",
            LossKind::OtherRecordings => "what the other recordings show",
            LossKind::UnrecordedCpus => "waits on those CPUs, and who ran there",
            LossKind::EndsEarly => "what happened on those CPUs afterwards",
            LossKind::NoPriorities => "which tasks are real-time",
            LossKind::MissingSwitch => "who ran until the next switch",
            LossKind::OutOfOrder => "when those events happened",
            LossKind::TooManyNames => "the names of some tasks and functions",
            LossKind::AllCpusSilent => {
                "whether those who waited meanwhile waited for who had the CPU, or for the machine"
            }
            LossKind::TooMuchWork => "who had the CPU in a part of those waits, and which limits stopped tasks",
            LossKind::SilentTasks => "whether those tasks waited all the time",
            LossKind::NoSnapshot => "policies, cgroup weights, affinities and settings, which are inferred",
            LossKind::ClockUnit => "how long anything took",
            LossKind::NameOnly => "whether it is a kernel thread",
            LossKind::ForeignIds => {
                "which thread was current at events other than switches, and so which thread woke which"
            }
        }
    }

    /// How to record it next time; `None` if no option helps.
    pub fn brought_by(self) -> Option<BroughtBy> {
        match self {
            LossKind::LostEvents | LossKind::UncountedGap => Some(BroughtBy::Option("--buffer-size".to_owned())),
            LossKind::NotRecorded(event) | LossKind::Malformed(event) => Some(BroughtBy::Event(event)),
            LossKind::NoPriorities => Some(BroughtBy::Event(EventType::Switch)),
            LossKind::NoSnapshot | LossKind::NameOnly => Some(BroughtBy::Recorder),
            LossKind::Truncated
            | LossKind::Undecodable
            | LossKind::ShiftedStates
            | LossKind::OtherRecordings
            | LossKind::UnrecordedCpus
            | LossKind::EndsEarly
            | LossKind::MissingSwitch
            | LossKind::OutOfOrder
            | LossKind::TooManyNames
            | LossKind::TooMuchWork
            | LossKind::AllCpusSilent
            | LossKind::SilentTasks
            | LossKind::ClockUnit
            | LossKind::ForeignIds => None,
        }
    }
}

/// What is unknown without this event.
fn shown_by(event: EventType) -> &'static str {
    match event {
        EventType::Switch => "who ran",
        EventType::Waking | EventType::Wakeup | EventType::WakeupNew => {
            "waits after a wakeup, and which thread woke which"
        }
        EventType::Migrate => "on which CPU a task waited, which is inferred",
        EventType::Fork | EventType::Exec | EventType::Exit | EventType::Rename => {
            "when tasks began, ended or changed names"
        }
        EventType::IrqEntry | EventType::IrqExit => "time in interrupts, which counts as the interrupted task's",
        EventType::SoftirqEntry | EventType::SoftirqExit | EventType::SoftirqRaise => {
            "time in softirqs, which counts as the interrupted task's"
        }
        EventType::WorkQueued | EventType::WorkStart | EventType::WorkEnd => "what kernel workers work on",
        EventType::BlockInsert | EventType::BlockIssue | EventType::BlockComplete => "who waits through a block device",
        EventType::SetPrio => "changes of a priority before the next switch",
    }
}

impl Loss {
    /// A loss with its count and no detail.
    pub fn new(kind: LossKind, count: u64) -> Loss {
        Loss { kind, count, detail: String::new() }
    }

    /// Adds where it happened and what to do.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Loss {
        self.detail = detail.into();
        self
    }

    /// A loss of events on one CPU.
    pub fn lost_events(cpu: CpuId, count: u64) -> Loss {
        Loss::new(LossKind::LostEvents, count).with_detail(format!("CPU {cpu}"))
    }
}

impl AsRef<Loss> for Loss {
    fn as_ref(&self) -> &Loss {
        self
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.count;
        match self.kind {
            LossKind::LostEvents => write!(f, "{n} events were lost while recording")?,
            LossKind::UncountedGap if n == 1 => write!(f, "a gap of unknown length in the recording")?,
            LossKind::UncountedGap => write!(f, "{n} gaps of unknown length in the recording")?,
            LossKind::Truncated => write!(f, "the file ends early")?,
            LossKind::Undecodable => write!(f, "{n} parts of the file could not be decoded")?,
            LossKind::NotRecorded(event) => write!(f, "{event} events were not recorded")?,
            LossKind::Malformed(event) => write!(f, "{n} {event} events are malformed")?,
            LossKind::ShiftedStates => {
                write!(f, "{n} states of tasks that left a CPU were recorded one bit too high and put right")?;
            }
            LossKind::OtherRecordings if n == 1 => write!(f, "another recording was not read")?,
            LossKind::OtherRecordings => write!(f, "{n} more recordings were not read")?,
            LossKind::MissingSwitch if n == 1 => write!(f, "a context switch was not recorded")?,
            LossKind::MissingSwitch => write!(f, "{n} context switches were not recorded")?,
            LossKind::UnrecordedCpus if n == 1 => write!(f, "one CPU was not recorded")?,
            LossKind::UnrecordedCpus => write!(f, "{n} CPUs were not recorded")?,
            LossKind::EndsEarly if n == 1 => write!(f, "the events of one CPU end early")?,
            LossKind::EndsEarly => write!(f, "the events of {n} CPUs end early")?,
            LossKind::NoPriorities => write!(f, "{n} switches were recorded without priorities")?,
            LossKind::OutOfOrder => write!(f, "{n} events came too late to be put in order")?,
            LossKind::TooManyNames => write!(f, "{n} names were not kept")?,
            LossKind::AllCpusSilent if n == 1 => write!(f, "no CPU issued an event though a tick was due")?,
            LossKind::AllCpusSilent => write!(f, "{n} times no CPU issued an event though a tick was due")?,
            LossKind::TooMuchWork => write!(f, "so many tasks waited at once that {n} times not all was looked at")?,
            LossKind::SilentTasks => write!(f, "whether {n} tasks that no event names waited or slept is inferred")?,
            LossKind::NoSnapshot => write!(f, "no host snapshot: weights, limits and settings are unknown")?,
            LossKind::ClockUnit => write!(f, "the clock's unit is unknown")?,
            LossKind::ForeignIds => {
                write!(f, "the ids in front of {n} events are not those of the events, and were ignored")?
            }
            LossKind::NameOnly => {
                let name = &self.detail;
                return write!(f, "{name} counts as a kernel thread by its name alone, which a program can take");
            }
        }
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}
