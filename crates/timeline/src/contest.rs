//! By which rule each occupant went before the task that waited.

use unstarve_model::{Nanos, Policy, Prio, Time};

use crate::stays::goes_before;
use crate::waits::Pending;
use crate::{ActorId, ActorKind, Actors, GroupId, Groups, Piece, Rule};

/// Gives each part of a wait its rule.
pub(crate) fn split(
    pending: &Pending,
    limited: Option<bool>,
    switches_are_missing: bool,
    now: Time,
    actors: &Actors,
    pieces: &mut Vec<Piece>,
) {
    pieces.clear();
    let victim = Contender::of(actors, pending.actor);
    // A stay in which the preemptor changed may be two parts.
    let mut stayed = pending.preemptor.map(|by| by.stayed.unwrap_or_else(|| now.since(by.since)));
    for &(occupant, length) in &pending.parts {
        let actor = actors.get(occupant);
        let mut rest = length;
        let mut piece = |rule: Rule, length: Nanos| {
            if length > Nanos::ZERO {
                pieces.push(Piece { occupant, rule, length });
            }
        };
        match actor.kind {
            ActorKind::Unknown => piece(Rule::Unknown, rest),
            ActorKind::Irq { .. } => piece(Rule::Irq, rest),
            ActorKind::Softirq { .. } => piece(Rule::Softirq, rest),
            ActorKind::Others => piece(Rule::Fair, rest),
            ActorKind::Idle => {
                let off = if limited == Some(false) { Nanos::ZERO } else { pending.passed_over_total.min(rest) };
                // A task that ran and went to sleep without a switch that shows it looks the same.
                let rule = if limited.is_none() && switches_are_missing { Rule::Unknown } else { Rule::Throttled };
                piece(rule, off);
                piece(Rule::Idle, rest.saturating_sub(off));
            }
            ActorKind::Tasks { .. } => {
                let contender = Contender::of(actors, occupant);
                if !(contender.ranked && victim.ranked) {
                    piece(Rule::Unranked, rest);
                    continue;
                }
                if contender.is_beside(&victim) {
                    piece(Rule::Order, rest);
                    continue;
                }
                if contender.is_above(&victim) {
                    piece(Rule::Class, rest);
                    continue;
                }
                if let Some(preemptor) = pending.preemptor
                    && preemptor.by_wakeup
                    && preemptor.is(occupant)
                    && let Some(left) = &mut stayed
                {
                    let length = rest.min(*left);
                    piece(Rule::WakeupPreemption, length);
                    rest = rest.saturating_sub(length);
                    *left = left.saturating_sub(length);
                }
                let rule = if contender.outweighs(&victim, actors.groups()) {
                    Rule::Weight
                } else if actor.last_crowd.is_some_and(|last| last >= pending.start) {
                    Rule::Count
                } else {
                    Rule::Fair
                };
                piece(rule, rest);
            }
        }
    }
    if let Some(stopped) = &pending.stopped {
        stopped.add_to(pieces, actors);
    }
    if pieces.len() > 1 {
        pieces.sort_unstable_by_key(|piece| std::cmp::Reverse((piece.length, piece.occupant, piece.rule)));
    }
}

/// What decides between two tasks.
pub(crate) struct Contender {
    prio: Prio,
    own_weight: Option<u32>,
    group: Option<GroupId>,
    /// Whether any event told the priority.
    ranked: bool,
}

impl Contender {
    pub fn of(actors: &Actors, id: ActorId) -> Contender {
        let actor = actors.get(id);
        Contender {
            prio: actor.prio().unwrap_or(Prio::NORMAL),
            own_weight: actor.own_weight(),
            group: actor.group(),
            ranked: actor.ranked,
        }
    }

    fn is_above(&self, other: &Contender) -> bool {
        goes_before(self.prio, other.prio)
    }

    /// Whether the two are of one class in which nobody's turn ends for the other's sake.
    fn is_beside(&self, other: &Contender) -> bool {
        let classes = (self.prio.policy(), other.prio.policy());
        classes == (Policy::Deadline, Policy::Deadline)
            || classes == (Policy::Rt, Policy::Rt) && self.prio == other.prio
    }

    pub fn times_heavier(&self, other: &Contender, groups: &Groups) -> f64 {
        let (mine, its) = self.against(other, groups);
        f64::from(mine) / f64::from(its.max(1))
    }

    /// Tasks of the root cgroup compete by their own weight with the whole of each top-level cgroup
    /// (`kernel-facts`, "Policy, nice, affinity, cgroup of kernel threads"); deeper groups compete where their paths part.
    fn outweighs(&self, other: &Contender, groups: &Groups) -> bool {
        let (mine, its) = self.against(other, groups);
        mine > its
    }

    fn against(&self, other: &Contender, groups: &Groups) -> (u32, u32) {
        let own = |contender: &Contender| contender.own_weight.unwrap_or(1024);
        groups.rivals((self.group, own(self)), (other.group, own(other)))
    }
}
