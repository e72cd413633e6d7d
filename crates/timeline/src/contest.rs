//! By which rule each occupant went before the task that waited.

use unstarve_model::{Nanos, Policy, Prio, Time};

use crate::waits::Pending;
use crate::{Actor, ActorKind, Actors, GroupId, Groups, Piece, Rule};

/// Gives each part of a wait its rule.
#[inline(always)]
pub(crate) fn split(
    pending: &Pending,
    limited: Option<bool>,
    switches_are_missing: bool,
    now: Time,
    actors: &Actors,
    pieces: &mut Vec<Piece>,
) {
    pieces.clear();
    match pending.parts[..] {
        // Most waits: one occupant, a task that was not woken to push this one off.
        [(occupant, length)] if pending.preemptor.is_none() && pending.stopped.is_none() && length > Nanos::ZERO => {
            let (actor, victim) = (actors.get(occupant), actors.get(pending.actor));
            if let ActorKind::Tasks { .. } = actor.kind {
                let rule = match ahead(actor, victim, actors.groups()) {
                    Ahead::Always(rule) => rule,
                    Ahead::InTurn(rule) => rule.unwrap_or_else(|| among_equals(actor, pending)),
                };
                pieces.push(Piece { occupant, rule, length });
                return;
            }
        }
        _ => {}
    }
    split_parts(pending, limited, switches_are_missing, now, actors, pieces);
}

/// The rule by which equals have their turns.
#[inline]
fn among_equals(occupant: &Actor, pending: &Pending) -> Rule {
    let crowded = occupant.last_crowd.is_some_and(|last| last >= pending.start);
    if crowded { Rule::Count } else { Rule::Fair }
}

/// The same for several parts, and for what is no task.
fn split_parts(
    pending: &Pending,
    limited: Option<bool>,
    switches_are_missing: bool,
    now: Time,
    actors: &Actors,
    pieces: &mut Vec<Piece>,
) {
    let victim = actors.get(pending.actor);
    let preemptor = pending.preemptor.as_ref().filter(|preemptor| preemptor.by_wakeup);
    // A stay in which the preemptor changed may be two parts.
    let mut stayed = preemptor.map_or(Nanos::ZERO, |by| by.stayed.unwrap_or_else(|| now.since(by.since)));
    for &(occupant, length) in &pending.parts {
        let actor = actors.get(occupant);
        let mut rest = length;
        let mut piece = |rule: Rule, length: Nanos| {
            if length > Nanos::ZERO {
                pieces.push(Piece { occupant, rule, length });
            }
        };
        let rule = match actor.kind {
            ActorKind::Unknown => Rule::Unknown,
            ActorKind::Irq { .. } => Rule::Irq,
            ActorKind::Softirq { .. } => Rule::Softirq,
            ActorKind::Others => Rule::Fair,
            ActorKind::Idle => {
                if pending.passed_over_total > Nanos::ZERO && limited != Some(false) {
                    let off = pending.passed_over_total.min(rest);
                    // A task that ran and went to sleep without a switch that shows it looks the same.
                    let rule = if limited.is_none() && switches_are_missing { Rule::Unknown } else { Rule::Throttled };
                    piece(rule, off);
                    rest = rest.saturating_sub(off);
                }
                Rule::Idle
            }
            ActorKind::Tasks { .. } => match ahead(actor, victim, actors.groups()) {
                Ahead::Always(rule) => rule,
                Ahead::InTurn(rule) => {
                    if preemptor.is_some_and(|preemptor| preemptor.is(occupant)) {
                        let length = rest.min(stayed);
                        piece(Rule::WakeupPreemption, length);
                        rest = rest.saturating_sub(length);
                        stayed = stayed.saturating_sub(length);
                    }
                    rule.unwrap_or_else(|| among_equals(actor, pending))
                }
            },
        };
        piece(rule, rest);
    }
    if let Some(stopped) = &pending.stopped {
        stopped.add_to(pieces, actors);
    }
    sort(pieces);
}

/// Puts the longest first.
fn sort(pieces: &mut [Piece]) {
    let rank = |piece: &Piece| (piece.length, piece.occupant, piece.rule);
    match pieces {
        [] | [_] => {}
        // Two are so common that a call of the library's is dear.
        [one, other] => {
            if rank(one) < rank(other) {
                std::mem::swap(one, other);
            }
        }
        more => more.sort_unstable_by_key(|piece| std::cmp::Reverse(rank(piece))),
    }
}

/// How a task goes before another.
enum Ahead {
    /// As long as it likes, by this rule.
    Always(Rule),
    /// For its turn; by weight, or as an equal.
    InTurn(Option<Rule>),
}

#[inline]
fn ahead(occupant: &Actor, victim: &Actor, groups: &Groups) -> Ahead {
    if !(occupant.ranked && victim.ranked) {
        return Ahead::Always(Rule::Unranked);
    }
    let (one, other) = (&occupant.contender, &victim.contender);
    if one.is_beside(other) {
        return Ahead::Always(Rule::Order);
    }
    if one.is_above(other) {
        return Ahead::Always(Rule::Class);
    }
    Ahead::InTurn(one.outweighs(other, groups).then_some(Rule::Weight))
}

/// What decides between two tasks. Kept with each actor, since each wait asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    prio: Prio,
    policy: Policy,
    weight: u32,
    group: Option<GroupId>,
}

impl Contender {
    /// Of tasks of this priority, weight by themselves, and group.
    pub fn new(prio: Option<Prio>, own_weight: Option<u32>, group: Option<GroupId>) -> Contender {
        let prio = prio.unwrap_or(Prio::NORMAL);
        Contender { prio, policy: prio.policy(), weight: own_weight.unwrap_or(1024), group }
    }

    /// As `goes_before` of `stays` says of priorities.
    fn is_above(&self, other: &Contender) -> bool {
        let is_first = self.policy == Policy::Rt && other.policy == Policy::Rt && self.prio < other.prio;
        self.policy.is_above(other.policy) || is_first
    }

    /// Whether the two are of one class in which nobody's turn ends for the other's sake.
    fn is_beside(&self, other: &Contender) -> bool {
        match (self.policy, other.policy) {
            (Policy::Deadline, Policy::Deadline) => true,
            (Policy::Rt, Policy::Rt) => self.prio == other.prio,
            _ => false,
        }
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

    #[inline]
    fn against(&self, other: &Contender, groups: &Groups) -> (u32, u32) {
        match (self.group, other.group) {
            (None, None) => (self.weight, other.weight),
            groups_of => groups.rivals((groups_of.0, self.weight), (groups_of.1, other.weight)),
        }
    }
}
