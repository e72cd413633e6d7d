//! Victims that were runnable during the whole recording and never ran.

use unstarve_timeline::{ActorId, Throughout};

use crate::case::Case;
use crate::report::Severity;

/// The victims of a finding that waited from before the start of the recording to beyond its end.
pub(crate) struct Throughouts {
    seen: Vec<String>,
    maybe: Vec<String>,
    /// Whether the finding rests on an inference: its first victim probably waited throughout.
    pub guessed: bool,
}

impl Throughouts {
    pub fn of(case: &Case<'_>, victims: &[ActorId]) -> Throughouts {
        let names = |wanted: Throughout| {
            let fits = |id: &&ActorId| case.ledger.account(**id).and_then(|account| account.throughout) == Some(wanted);
            let mut names: Vec<String> = victims.iter().filter(fits).map(|id| case.name(*id)).collect();
            names.sort();
            names.dedup();
            names
        };
        let (seen, maybe) = (names(Throughout::Seen), names(Throughout::Guessed));
        let first = victims.first().and_then(|id| case.ledger.account(*id)).and_then(|account| account.throughout);
        Throughouts { seen, maybe, guessed: first == Some(Throughout::Guessed) }
    }

    /// An inferred finding is at most a warning.
    pub fn temper(&self, severity: Severity) -> Severity {
        if self.guessed { severity.min(Severity::Warning) } else { severity }
    }

    /// The finding's sentence, after the more important statement that a victim never ran.
    pub fn sentence(&self, sentence: String) -> String {
        if !self.seen.is_empty() {
            format!("{} runnable all the time and never ran. {sentence}", was(&self.seen))
        } else if self.guessed {
            format!("{} most likely runnable all the time and never ran. {sentence}", was(&self.maybe))
        } else {
            sentence
        }
    }

    pub fn evidence(&self, mut evidence: Vec<String>) -> Vec<String> {
        if !self.seen.is_empty() {
            let who = self.seen.join(", ");
            evidence.push(format!("the kernel showed {who} as runnable when the recording began and when it ended, without a turn in between"));
        }
        if !self.maybe.is_empty() {
            evidence.push(format!(
                "no event names {}: either asleep all the time, or kept off by what weighs so much more that no turn was \
                 due yet; whether it was runnable, this recording does not say",
                self.maybe.join(", ")
            ));
        }
        evidence
    }
}

fn was(names: &[String]) -> String {
    match names {
        [one] => format!("{one} was"),
        [first, second] => format!("{first} and {second} were"),
        [first, rest @ ..] => format!("{first} and {} others were", rest.len()),
        [] => String::new(),
    }
}
