//! The text of claims about fair tasks: of different weight, and equals.

use std::fmt;

use unstarve_model::Prio;

use super::{Halves, Verb};
use crate::claim::{Contender, SharingClaim, SharingHeadline, WeightOf};

impl SharingHeadline {
    pub(super) fn in_words(&self, verb: Verb) -> Halves {
        match self {
            Self::Outweighed { who, lost, by, heavier, longest, share } => {
                let weight = if *heavier == 1 { "has" } else { "have" };
                let longest = longest.map(|longest| format!(", up to {longest} at a time")).unwrap_or_default();
                let share = share.map(|share| format!(", and got {share} of its fair share")).unwrap_or_default();
                Halves::of(
                    format!("{who} {verb} by {by}, which {weight} more CPU weight"),
                    format!("waited {lost}{longest}{share}"),
                )
            }
            Self::OutweighedInferred { who, share, by, by_group } => {
                let (its, others) = (nice(who.prio), nice(by.prio));
                let why = match by_group {
                    true => format!("most likely {by} is in a cgroup with a high cpu.weight"),
                    false => {
                        format!(
                            "{who} is SCHED_IDLE, or the weights of their cgroups differ; the recording does not hold which"
                        )
                    }
                };
                Halves::of(format!("{who}{its} got only {share} of its fair share beside {by}{others}"), why)
            }
            Self::StuckEqual { who, waited, behind, held } => {
                let behind = behind.as_ref().map_or("another thread of its name".to_owned(), ToString::to_string);
                Halves::of(
                    format!("{who} {verb} by {behind}, an equal that did not leave the CPU for {held}"),
                    format!("waited {waited}"),
                )
            }
            Self::Crowded { who, longest } => {
                Halves::of(format!("{who} {verb} by a crowd of equals"), format!("waited up to {longest} for its turn"))
            }
        }
    }
}

fn nice(prio: Option<Prio>) -> String {
    prio.and_then(Prio::nice).map(|nice| format!(" (nice {nice})")).unwrap_or_default()
}

impl fmt::Display for SharingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weights { occupant, victim } => {
                write!(f, "{} competes with {occupant}, {} with {victim}", occupant.who, victim.who)
            }
            Self::Owed { owed, share, due, got } => write!(
                f,
                "it ran {got} of its fair share of {due}: {owed} less, {share} of the recording"
            ),
            Self::Stalled { stalled, share, behind, least } => write!(
                f,
                "{stalled} ({share} of the recording) of the {behind} behind threads of more weight was in waits of more than {least}: equals \
                 never wait that long"
            ),
            Self::WeightNotRecorded { command } => write!(
                f,
                "its cgroup's weight was not recorded (a bandwidth limit, cpu.max, would look alike); `unstarve record` keeps \
                 both, or read the weight with: {command}"
            ),
            Self::SessionsUnknown(of) => {
                let whose = match of {
                    None => "who is of which session".to_owned(),
                    Some(who) => format!("of which session {who} was"),
                };
                write!(
                    f,
                    "autogroup is on: nice counts inside a session only, and this recording does not say {whose}: its settings \
                     are of an older version, or were read when these tasks had ended"
                )
            }
            Self::LongerThanTurns { share, held } => write!(
                f,
                "{share} of the recording; equals take turns of a few milliseconds, and no turn lasts {held}"
            ),
            Self::NoSettingExplains => f.write_str(
                "neither a weight nor a limit in the host snapshot explains it: a bug of the scheduler, or a loop in the kernel",
            ),
            Self::SettingMayExplain => f.write_str(
                "a cgroup's weight or limit, or SCHED_IDLE, may be the reason, which this recording does not hold (`unstarve \
                 record` keeps them)",
            ),
            Self::KnownBug { id, says } => {
                write!(f, "a known bug of this kernel ({id}): {}", says.trim_end_matches('.'))
            }
            Self::WasIn { who, function } => write!(f, "{who} was in {function}"),
            Self::WaitTogether(tasks) => {
                write!(f, "on average {tasks} tasks waited on its CPU, itself included")
            }
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = self.weight;
        match &self.of {
            WeightOf::Group(path) => write!(f, "the load weight {weight} of {}", path.escape_debug()),
            WeightOf::Session(nice) => {
                let nice = nice.to_string().replace('-', "−");
                write!(f, "the load weight {weight} of its session (autogroup, nice {nice} in /proc/PID/autogroup)")
            }
            WeightOf::ItsGroup => write!(f, "its cgroup's load weight {weight}"),
            WeightOf::Task => write!(f, "its own load weight {weight}"),
        }
    }
}
