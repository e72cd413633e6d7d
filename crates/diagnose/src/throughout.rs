//! Victims that were runnable during the whole recording and never ran.

use unstarve_timeline::{ActorId, Throughout};

use crate::case::Case;
use crate::claim::{NeverRan, WaitClaim};
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

    /// A more important statement than the headline.
    pub fn never_ran(&self) -> Option<NeverRan> {
        if !self.seen.is_empty() {
            Some(NeverRan::Seen(self.seen.clone()))
        } else {
            self.guessed.then(|| NeverRan::Inferred(self.maybe.clone()))
        }
    }

    pub fn evidence(&self) -> impl Iterator<Item = WaitClaim> {
        let of =
            |names: &[String], claim: fn(Vec<String>) -> WaitClaim| (!names.is_empty()).then(|| claim(names.to_vec()));
        let claims = [of(&self.seen, WaitClaim::SeenThroughout), of(&self.maybe, WaitClaim::MaybeThroughout)];
        claims.into_iter().flatten()
    }
}
