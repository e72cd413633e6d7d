//! Attributes waits: the rule by which each occupant went before the waiting task.

use unstarve_model::{Nanos, Time};
use unstarve_sched::{Ahead, Groups, Rule};

use crate::waits::parts::keep_longest_pieces;
use crate::waits::{Pending, Preemptor};
use crate::{Actor, ActorId, ActorKind, Actors, Piece};

/// Buffers for the pieces of a wait, kept to save allocations.
#[derive(Debug)]
pub(crate) struct PieceRoom {
    /// The pieces of most waits. Not a list: address and length of a list would be read by one load right after the length was
    /// stored, and stall on that store.
    few: [Piece; 2],
    many: Vec<Piece>,
}

impl Default for PieceRoom {
    fn default() -> PieceRoom {
        let none = Piece { occupant: ActorId::UNKNOWN, rule: Rule::Unknown, length: Nanos::ZERO };
        PieceRoom { few: [none; 2], many: Vec::new() }
    }
}

/// Assigns a rule to each part of a wait.
#[inline(always)]
pub(crate) fn split<'a>(
    pending: &Pending,
    parts: &[(ActorId, Nanos)],
    limited: Option<bool>,
    switches_are_missing: bool,
    now: Time,
    actors: &Actors,
    PieceRoom { few, many }: &'a mut PieceRoom,
) -> &'a [Piece] {
    match *parts {
        // Most waits: one occupant, a task.
        [(occupant, length)] if pending.stopped.is_none() && length > Nanos::ZERO => {
            let (actor, victim) = (actors.get(occupant), actors.get(pending.actor));
            if let ActorKind::Tasks { .. } = actor.kind {
                let mut turns = Turns::of(pending, now);
                let (pushed, rule, rest) =
                    split_task(pending, (occupant, length), (actor, victim), &mut turns, actors.groups());
                few[0] = Piece { occupant, rule, length: rest };
                if pushed == Nanos::ZERO {
                    return &few[..1];
                }
                few[1] = Piece { occupant, rule: Rule::WakeupPreemption, length: pushed };
                sort(few);
                return if rest > Nanos::ZERO { &few[..] } else { &few[..1] };
            }
        }
        _ => {}
    }
    many.clear();
    split_parts(pending, parts, limited, switches_are_missing, now, actors, many);
    many
}

/// The rule for sharing among equals.
#[inline]
fn among_equals(occupant: &Actor, pending: &Pending) -> Rule {
    let crowded = occupant.last_crowd.is_some_and(|last| last >= pending.start);
    if crowded { Rule::Count } else { Rule::Fair }
}

/// The run length of the woken task that preempted the waiting one, if it waits for that reason.
struct Turns<'a> {
    preemptor: Option<&'a Preemptor>,
    /// The rest of it: a run in which the preemptor changed may be two parts.
    stayed: Nanos,
}

impl Turns<'_> {
    #[inline(always)]
    fn of(pending: &Pending, now: Time) -> Turns<'_> {
        let preemptor = pending.preemptor.as_ref().filter(|preemptor| preemptor.by_wakeup);
        let stayed = preemptor.map_or(Nanos::ZERO, |by| by.stayed.unwrap_or_else(|| now.since(by.since)));
        Turns { preemptor, stayed }
    }
}

/// For a task's part: how much is wakeup preemption, and the rule and length of the rest.
#[inline(always)]
fn split_task(
    pending: &Pending,
    (occupant, length): (ActorId, Nanos),
    (actor, victim): (&Actor, &Actor),
    turns: &mut Turns<'_>,
    groups: &Groups,
) -> (Nanos, Rule, Nanos) {
    match ahead(actor, victim, groups) {
        Ahead::Always(rule) => (Nanos::ZERO, rule, length),
        Ahead::InTurn(rule) => {
            let mut pushed = Nanos::ZERO;
            if turns.preemptor.is_some_and(|preemptor| preemptor.is(occupant)) {
                pushed = length.min(turns.stayed);
                turns.stayed = turns.stayed.saturating_sub(pushed);
            }
            (pushed, rule.unwrap_or_else(|| among_equals(actor, pending)), length.saturating_sub(pushed))
        }
    }
}

#[inline(always)]
fn add(pieces: &mut Vec<Piece>, occupant: ActorId, rule: Rule, length: Nanos) {
    if length > Nanos::ZERO {
        pieces.push(Piece { occupant, rule, length });
    }
}

/// The same for several parts, and for occupants that are not tasks.
#[inline(never)]
fn split_parts(
    pending: &Pending,
    parts: &[(ActorId, Nanos)],
    limited: Option<bool>,
    switches_are_missing: bool,
    now: Time,
    actors: &Actors,
    pieces: &mut Vec<Piece>,
) {
    let victim = actors.get(pending.actor);
    let mut turns = Turns::of(pending, now);
    for &(occupant, length) in parts {
        let actor = actors.get(occupant);
        let mut rest = length;
        let rule = match actor.kind {
            ActorKind::Tasks { .. } => {
                let (pushed, rule, rest) =
                    split_task(pending, (occupant, length), (actor, victim), &mut turns, actors.groups());
                add(pieces, occupant, Rule::WakeupPreemption, pushed);
                add(pieces, occupant, rule, rest);
                continue;
            }
            ActorKind::Unknown | ActorKind::Stopped => Rule::Unknown,
            ActorKind::Irq { .. } | ActorKind::Vector(_) => Rule::Irq,
            ActorKind::Softirq { .. } => Rule::Softirq,
            ActorKind::Others => Rule::Fair,
            ActorKind::Idle => {
                if pending.passed_over_total > Nanos::ZERO && limited != Some(false) {
                    let off = pending.passed_over_total.min(rest);
                    // A task that ran and went to sleep without a recorded switch looks the same.
                    let rule = if limited.is_none() && switches_are_missing { Rule::Unknown } else { Rule::Throttled };
                    add(pieces, occupant, rule, off);
                    rest = rest.saturating_sub(off);
                }
                Rule::Idle
            }
        };
        add(pieces, occupant, rule, rest);
    }
    if let Some(stopped) = &pending.stopped {
        stopped.add_to(pieces, actors);
    }
    keep_longest_pieces(pieces, actors);
    sort(pieces);
}

/// Sorts the longest first.
#[inline]
fn sort(pieces: &mut [Piece]) {
    let rank = |piece: &Piece| (piece.length, piece.occupant, piece.rule);
    match pieces {
        [] | [_] => {}
        // Two are so common that a library call would be expensive.
        [one, other] => {
            if rank(one) < rank(other) {
                std::mem::swap(one, other);
            }
        }
        more => more.sort_unstable_by_key(|piece| std::cmp::Reverse(rank(piece))),
    }
}

#[inline(always)]
fn ahead(occupant: &Actor, victim: &Actor, groups: &Groups) -> Ahead {
    if !(occupant.ranked && victim.ranked) {
        return Ahead::Always(Rule::Unranked);
    }
    occupant.contender.ahead_of(&victim.contender, groups)
}

#[cfg(test)]
mod tests {
    use unstarve_model::{Comm, CpuId, Prio};

    use super::*;
    use crate::{Claim, TaskKey, WaitKind};

    #[test]
    fn a_wait_with_one_part_has_the_pieces_that_several_would_have() {
        const LENGTH: u64 = 1000;
        let mut actors = Actors::new(Groups::default());
        let mut of = |comm: &str, prio, ranked| {
            let comm = Comm::from(comm);
            let id = actors.of(ActorKind::Tasks { comm, prio, group: None, claim: Claim::Nothing, own_weight: None });
            actors.get_mut(id).ranked = ranked;
            id
        };
        let victim = of("victim", Prio::NORMAL, true);
        let equal = of("equal", Prio::NORMAL, true);
        let occupants =
            [equal, of("heavier", Prio(110), true), of("hog", Prio(49), true), of("nobody", Prio(115), false)];
        let now = Time(LENGTH);
        let mut seen = [false; 3];
        for occupant in occupants {
            for (actor, became) in [(occupant, occupant), (victim, occupant), (victim, victim)] {
                for stayed in
                    [None, Some(0), Some(1), Some(LENGTH / 2), Some(LENGTH - 1), Some(LENGTH), Some(LENGTH + 1)]
                {
                    for by_wakeup in [true, false] {
                        let stayed = stayed.map(Nanos);
                        let (task, since) = (TaskKey(0), Time(0));
                        let preemptor = Some(Preemptor { task, actor, became, by_wakeup, stayed, since });
                        let pending = Pending::new(WaitKind::Preemption, victim, Time(0), CpuId(0));
                        let pending = Pending { preemptor, ..pending };
                        let parts = [(occupant, Nanos(LENGTH))];
                        let (mut room, mut long) = (PieceRoom::default(), Vec::new());
                        let short = split(&pending, &parts, None, false, now, &actors, &mut room);
                        split_parts(&pending, &parts, None, false, now, &actors, &mut long);
                        assert_eq!(short, long, "{pending:?}");
                        seen[short.len()] = true;
                    }
                }
            }
        }
        assert_eq!(seen, [false, true, true]);
    }
}
