//! The text of claims about a wait, whatever its reason.

use std::fmt;

use unstarve_model::Nanos;

use super::{Halves, Verb};
use crate::claim::{Alike, NeverRan, Unproved, UnprovedWait, WaitClaim, WaitHeadline};

impl fmt::Display for NeverRan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, likely) = match self {
            Self::Seen(names) => (names, ""),
            Self::Inferred(names) => (names, " most likely"),
        };
        let were = match names.as_slice() {
            [one] => format!("{one} was"),
            [first, second] => format!("{first} and {second} were"),
            [first, rest @ ..] => format!("{first} and {} others were", rest.len()),
            [] => String::new(),
        };
        write!(f, "{were}{likely} runnable all the time and never ran.")
    }
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unproved { proved, possible, cpu } = self;
        let part = if *proved == Nanos::ZERO { "None".to_owned() } else { format!("Only {proved}") };
        write!(f, "{part} of the {possible} is proved: nothing shows that CPU {cpu} was recorded after that.")
    }
}

impl WaitHeadline {
    pub(super) fn in_words(&self, verb: Verb) -> Halves {
        match self {
            Self::Long { who, longest, behind } => {
                Halves::of(format!("{who} {verb}, mostly by {behind}"), format!("waited up to {longest} at a time"))
            }
            Self::Unproved(UnprovedWait { who, proved, possible, cpu, holder }) => {
                let at_least = if *proved > Nanos::ZERO { format!("at least {proved}, and ") } else { String::new() };
                Halves::of(
                    format!("{who} was still waiting when the recording ended"),
                    format!("for {at_least}{possible} if CPU {cpu} stayed with {holder}"),
                )
            }
        }
    }
}

impl fmt::Display for UnprovedWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnprovedWait { who, proved, possible, cpu, holder } = self;
        write!(f, "{who} waited ")?;
        if *proved > Nanos::ZERO {
            write!(f, "at least {proved}, and ")?;
        }
        write!(f, "{possible} if CPU {cpu} stayed with {holder}")
    }
}

impl fmt::Display for WaitClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShareOfTrace(share) => write!(f, "{share} of the recording"),
            Self::ShareOfRecording(share) => write!(f, "{share} of the recording"),
            Self::AlsoWaited(alike, who) => match alike {
                Alike::StoppedLikely => write!(f, "most likely stopped, too: {who}"),
                Alike::StoppedWithIt => write!(f, "stopped with it: {who}"),
                Alike::WaitedForCpu => write!(f, "waited for this CPU, too: {who}"),
                Alike::Waited => write!(f, "waited, too: {who}"),
                Alike::WaitedAsLong => write!(f, "waited about as long: {who}"),
            },
            Self::AlsoBehind { who, lost } => {
                write!(f, "waited behind the same threads, {lost} together: {who}")
            }
            Self::Under(rule) => write!(f, "{}: {}", rule.word(), rule.meaning()),
            Self::Polls { who, what } => write!(f, "{who}: {what}, which polls instead of sleeping"),
            Self::BpfScheduler(name) => {
                let name = name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
                write!(
                    f,
                    "the BPF scheduler{name} (sched_ext) was loaded: it decided which ordinary task ran where, kernel workers \
                     included, not the weights and turns of the fair class"
                )
            }
            Self::NoEventAfter(cpu) => {
                write!(
                    f,
                    "CPU {cpu} has no event after that, and nothing in the file proves that it was still recorded"
                )
            }
            Self::IsNice => f.write_str("its nice value says that it may run after others; that does not mean never"),
            Self::StillWaiting { who, proved, possible, .. } if proved >= possible => {
                write!(f, "{who} was still waiting when the recording ended, for {possible} by then")
            }
            Self::StillWaiting { who, cpu, proved, possible, holder } => write!(
                f,
                "{who} was still waiting when the recording of CPU {cpu} ended, for {proved}; for {possible} by the end of \
                 the recording if the CPU stayed with {holder}"
            ),
            Self::SeenThroughout(names) => write!(
                f,
                "the kernel showed {} as runnable when the recording began and when it ended, without a turn in between",
                names.join(", ")
            ),
            Self::MaybeThroughout(names) => write!(
                f,
                "no event names {}: either asleep all the time, or kept off by what weighs so much more that no turn was due yet; \
                 whether it was runnable, this recording does not say",
                names.join(", ")
            ),
        }
    }
}
