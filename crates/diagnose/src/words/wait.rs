//! The text of claims about a wait, whatever its reason.

use std::fmt;

use unstarve_model::Nanos;

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

impl fmt::Display for WaitHeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long { who, longest, behind } => {
                write!(f, "{who} waited up to {longest} at a time, mostly while {behind} had its CPU.")
            }
            Self::Unproved(wait) => write!(f, "{wait} until the recording ended."),
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
            Self::ShareOfTrace(share) => write!(f, "{share} of the trace"),
            Self::ShareOfRecording(share) => write!(f, "{share} of the recording"),
            Self::AlsoWaited(alike, who) => match alike {
                Alike::StoppedLikely => write!(f, "the same befell {who}"),
                Alike::StoppedWithIt => write!(f, "stopped with it: {who}"),
                Alike::WaitedForCpu => write!(f, "so waited {who}"),
                Alike::Waited => write!(f, "so did {who}"),
                Alike::WaitedAsLong => write!(f, "as long or nearly so waited {who}"),
            },
            Self::AlsoBehind { who, lost } => {
                write!(f, "others that waited behind it, {lost} together: {who}")
            }
            Self::Under(rule) => write!(f, "{}: {}", rule.word(), rule.meaning()),
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
