//! The text of what a recording cannot show.

use std::fmt;

use unstarve_model::{counted, grouped};

use crate::claim::{Doubt, Incomplete, SharingClaim, Uncertain};

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete(incomplete) => incomplete.fmt(f),
            Self::Unexplained { who, waited, held, occupant, has_snapshot } => {
                write!(
                    f,
                    "{who} waited {waited}, {held} of it behind {occupant}, its equal by priority. Equals take turns of a few \
                     milliseconds: "
                )?;
                match has_snapshot {
                    true => f.write_str("the events and the host snapshot do not say why"),
                    false => SharingClaim::SettingMayExplain.fmt(f),
                }
            }
        }
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchesUnreadable(parts) => write!(
                f,
                "no sched_switch event could be read, and {} of the file could not be decoded",
                counted(*parts, "part")
            ),
            Self::NoSwitches => f.write_str("it has no sched_switch events, which show who ran"),
            Self::FewSwitches(switches) => write!(f, "it has only {}", counted(*switches, "sched_switch event")),
            Self::Short { span, stall } => {
                write!(f, "it covers {span}, and what is called a stall lasts {stall} or more")
            }
            Self::NoPriorities(longest) => write!(
                f,
                "its switches have no priorities (PERF_RECORD_SWITCH), so a wait of {longest} may be behind a real-time task"
            ),
            Self::Unranked { who, waited, behind } => write!(
                f,
                "{who} waited {waited} behind {behind}, and no event has the priorities of both: it may be a real-time task"
            ),
            Self::CpusNotRecorded(loss) => loss.fmt(f),
            Self::SwitchesMissing { missing, read } => write!(
                f,
                "{} missing beside {} that were read",
                are(*missing, "switch", "switches"),
                counted(*read, "sched_switch event")
            ),
            Self::PartsUndecoded(parts) => write!(f, "{} could not be decoded", counted(*parts, "part")),
            Self::EventsLost { lost, read } => {
                write!(f, "{} lost beside {} that were read", are(*lost, "event", "events"), counted(*read, "event"))
            }
            Self::EventsOutOfOrder(events) => {
                write!(f, "{} came in another order than that of time", counted(*events, "event"))
            }
            Self::OccupantUnknown { unknown, waited } => {
                write!(f, "for {unknown} of {waited} of waits it is unknown what had the CPU")
            }
            Self::EndsEarly { loss, wait: None } => loss.fmt(f),
            Self::EndsEarly { loss, wait: Some(wait) } => write!(f, "{loss}: {wait}"),
        }
    }
}

impl fmt::Display for Uncertain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inferred { from_settings: true } => {
                f.write_str("the cause is inferred, because weights and limits were not recorded")
            }
            Self::Inferred { from_settings: false } => {
                f.write_str("the cause is inferred from the lengths of the waits")
            }
            Self::OccupantUnknown { unknown, waited } => {
                write!(f, "for {unknown} of {waited} it is unknown what had the CPU")
            }
            Self::Lost(loss) => loss.fmt(f),
            Self::NotOver => f.write_str("the waits had not ended when the recording ended"),
        }
    }
}

/// `1 switch is`, `2 switches are`.
fn are(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one} is") } else { format!("{} {many} are", grouped(count)) }
}
