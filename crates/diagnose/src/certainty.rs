//! How certain a finding is, and why it is not.

use unstarve_model::{Loss, LossKind, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, CpuEnd};

use crate::case::{Blame, Case};
use crate::claim::Uncertain;
use crate::draft::Draft;
use crate::report::UNSURE;

/// The part of the confidence that is lost if no part of the waits is proved.
const LOST_IF_NOT_PROVED: f64 = 0.2;
/// A share of the waits from which it is a reason that is named.
const NAMED: f64 = 0.1;
/// Reasons that are named.
const MAX_NAMED: usize = 2;

/// A finding's confidence, and what it lacks.
pub(crate) struct Certainty {
    /// 0 to 1, in hundredths.
    pub confidence: f64,
    lacks: Vec<Uncertain>,
}

impl Certainty {
    /// What the finding's own module says, lowered by the share of the victims' waits of which the occupant is unknown or the end not
    /// proved, by the share of lost events, and by a tenth for each missing kind of event (or the snapshot) that could have
    /// contradicted the finding.
    pub fn of(case: &Case<'_>, draft: &Draft, losses: &[&Loss]) -> Certainty {
        let waited: Nanos =
            draft.victims.iter().filter_map(|id| case.ledger.account(*id)).map(|account| account.waited).sum();
        let is_unknown = |blame: &Blame| blame.rule == Rule::Unknown && blame.occupant != ActorId::STOPPED;
        let unknown: Nanos = draft.victims.iter().map(|victim| case.blamed(*victim, is_unknown)).sum();
        let (known, not_proved) = (1.0 - unknown.share_of(waited), not_proved_share(case, &draft.victims));
        let mut confidence = draft.confidence * known;
        losses.iter().for_each(|loss| confidence *= factor(case, loss));
        let confidence = in_hundredths(confidence) * (1.0 - LOST_IF_NOT_PROVED * not_proved);
        let inferred = Uncertain::Inferred { from_settings: draft.infers_settings };
        let lost = losses.iter().filter(|loss| factor(case, loss) < 1.0).map(|loss| Uncertain::Lost((*loss).clone()));
        let lacks = (draft.confidence < UNSURE).then_some(inferred).into_iter();
        let lacks = lacks.chain((1.0 - known >= NAMED).then_some(Uncertain::OccupantUnknown { unknown, waited }));
        let lacks = lacks.chain(lost).chain((not_proved >= NAMED).then_some(Uncertain::NotOver));
        Certainty { confidence: in_hundredths(confidence), lacks: lacks.take(MAX_NAMED).collect() }
    }

    /// Why the confidence is low; nothing if it is not.
    pub fn doubt(&self) -> Option<String> {
        let lacks: Vec<String> = self.lacks.iter().map(Uncertain::to_string).collect();
        (self.confidence < UNSURE && !lacks.is_empty()).then(|| lacks.join("; "))
    }
}

/// The share of the victims' waits that is not proved, because they were not over at the end of the recording.
fn not_proved_share(case: &Case<'_>, victims: &[ActorId]) -> f64 {
    let accounts = || victims.iter().filter_map(|victim| case.ledger.account(*victim));
    let open =
        accounts().filter_map(|account| account.open.as_deref()).filter(|spot| spot.open.end == CpuEnd::Believed);
    let not_proved: Nanos = open.map(|spot| spot.open.possible.saturating_sub(spot.open.proved)).sum();
    not_proved.share_of(accounts().map(|account| account.waited).sum()).min(1.0)
}

fn factor(case: &Case<'_>, loss: &Loss) -> f64 {
    match loss.kind {
        LossKind::LostEvents
        | LossKind::OutOfOrder
        | LossKind::MissingSwitch
        | LossKind::Undecodable
        | LossKind::Malformed(_) => 1.0 - (loss.count as f64 / (case.events + loss.count).max(1) as f64).min(0.5),
        LossKind::SilentTasks => 0.6,
        LossKind::UncountedGap
        | LossKind::NotRecorded(_)
        | LossKind::NoSnapshot
        | LossKind::NoPriorities
        | LossKind::EndsEarly
        | LossKind::ClockUnit => 0.9,
        LossKind::AllCpusSilent => 0.8,
        _ => 1.0,
    }
}

fn in_hundredths(confidence: f64) -> f64 {
    (confidence * 100.0).round() / 100.0
}
