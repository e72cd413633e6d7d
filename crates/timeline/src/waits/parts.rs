//! The parts of a wait: each occupant and how long it had the CPU.
//!
//! If thousands of kinds of tasks wait for one CPU, each has waited for all others. To keep time and memory from growing with
//! the square of their number, a wait keeps its longest parts, and parts are found by actor, not by a linear search.

use rustc_hash::FxHashMap;
use unstarve_model::{Nanos, Time};

use crate::cpus::occupancy::{Mark, Occupancy};
use crate::effort::{Effort, UNCOUNTED_STEPS, count_steps};
use crate::{ActorId, ActorKind, Actors, Piece};

pub(crate) type Part = (ActorId, Nanos);

/// Maximum parts or pieces of a wait; beyond it, the shortest ones of tasks are merged into [`ActorId::OTHERS`]. A few more
/// pieces can remain, one for each rule.
const MAX_PARTS: usize = 256;

/// Maximum parts of all waits of one CPU together (4 MiB), but at least [`LEAST`] for each.
const OF_A_CPU: usize = 1 << 18;
const LEAST: usize = 16;

/// Adds a part.
#[inline]
pub(crate) fn add(parts: &mut Vec<Part>, actor: ActorId, length: Nanos) {
    add_to_known(parts, parts.len(), (actor, length));
}

/// The same if only the first parts may have the actor.
#[inline]
fn add_to_known(parts: &mut Vec<Part>, known: usize, (actor, length): Part) {
    count_steps(known);
    match parts[..known].iter_mut().find(|part| part.0 == actor) {
        Some(part) => part.1 += length,
        None => parts.push((actor, length)),
    }
}

/// Adds the occupants between two times; see [`Occupancy::parts`].
#[inline]
pub(crate) fn add_span(
    parts: &mut Vec<Part>,
    occupancy: &Occupancy,
    (from, to): (Time, Time),
    mark: Option<Mark>,
    effort: &mut Effort,
) {
    let known = parts.len();
    if effort.is_spent() {
        add_latest(parts, occupancy, (from, to), effort);
    } else if known <= UNCOUNTED_STEPS {
        // Each actor occurs once in a span.
        let add = |actor, length| add_to_known(parts, known, (actor, length));
        let looked_at = occupancy.parts(from, to, mark, add);
        if looked_at > UNCOUNTED_STEPS {
            // Each was searched among the known parts.
            effort.take(looked_at * (1 + known));
        }
    } else {
        add_span_to_many(parts, occupancy, (from, to), mark, effort);
    }
}

#[cold]
fn add_span_to_many(
    parts: &mut Vec<Part>,
    occupancy: &Occupancy,
    (from, to): (Time, Time),
    mark: Option<Mark>,
    effort: &mut Effort,
) {
    let places = places(parts);
    count_steps(parts.len());
    effort.take(parts.len());
    let looked_at = occupancy.parts(from, to, mark, |actor, length| {
        count_steps(1);
        match places.get(&actor) {
            Some(&place) => parts[place].1 += length,
            None => parts.push((actor, length)),
        }
    });
    effort.take(looked_at);
}

/// The same without steps left: only the latest occupants keep their names.
#[cold]
fn add_latest(parts: &mut Vec<Part>, occupancy: &Occupancy, (from, to): (Time, Time), effort: &mut Effort) {
    let known = parts.len();
    let is_cut =
        occupancy.latest_parts(from, to, UNCOUNTED_STEPS, |actor, length| add_to_known(parts, known, (actor, length)));
    effort.take(UNCOUNTED_STEPS);
    effort.cut_short(u64::from(is_cut));
}

fn places(parts: &[Part]) -> FxHashMap<ActorId, usize> {
    parts.iter().enumerate().map(|(place, part)| (part.0, place)).collect()
}

/// Parts to be added to those of many waits.
#[derive(Debug)]
pub(crate) struct Span {
    parts: Vec<Part>,
    places: FxHashMap<ActorId, usize>,
    /// Whether each part has been added to an existing one.
    added: Vec<bool>,
}

impl Span {
    pub fn new(parts: Vec<Part>) -> Span {
        Span { added: vec![false; parts.len()], places: places(&parts), parts }
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Takes one step for each part of both lists.
    pub fn add_to(&mut self, parts: &mut Vec<Part>) {
        count_steps(self.parts.len() + parts.len());
        self.added.fill(false);
        for (actor, length) in parts.iter_mut() {
            if let Some(&place) = self.places.get(actor) {
                *length += self.parts[place].1;
                self.added[place] = true;
            }
        }
        let new = self.parts.iter().zip(&self.added).filter(|(_, added)| !**added);
        parts.extend(new.map(|(part, _)| *part));
    }
}

/// Merges the shortest parts if there are too many for one of this many waits on a CPU.
#[inline]
pub(crate) fn keep_longest(parts: &mut Vec<Part>, waits: usize, actors: &Actors, effort: &Effort) {
    if parts.len() > LEAST {
        let most = if effort.is_spent() { LEAST } else { (OF_A_CPU / waits.max(1)).clamp(LEAST, MAX_PARTS) };
        shorten(parts, most, actors);
    }
}

#[inline(never)]
fn shorten(parts: &mut Vec<Part>, most: usize, actors: &Actors) {
    if parts.len() <= most {
        return;
    }
    count_steps(parts.len());
    let mut others = Nanos::ZERO;
    drop_least(parts, most - 1, |part| (!is_task(actors, part.0), part.1, part.0), |part| others += part.1);
    add(parts, ActorId::OTHERS, others);
    // Keep no capacity for the dropped parts, or no memory is saved.
    parts.shrink_to(2 * most);
}

/// Merges the shortest pieces of each rule if there are too many.
#[inline]
pub(crate) fn keep_longest_pieces(pieces: &mut Vec<Piece>, actors: &Actors) {
    if pieces.len() > MAX_PARTS {
        shorten_pieces(pieces, actors);
    }
}

#[cold]
fn shorten_pieces(pieces: &mut Vec<Piece>, actors: &Actors) {
    let mut others: Vec<Piece> = Vec::new();
    let rank = |piece: &Piece| (!is_task(actors, piece.occupant), piece.length, piece.occupant, piece.rule);
    drop_least(pieces, MAX_PARTS, rank, |piece| put_together(&mut others, piece));
    others.iter().for_each(|piece| put_together(pieces, piece));
}

fn put_together(pieces: &mut Vec<Piece>, piece: &Piece) {
    let (occupant, rule) = (ActorId::OTHERS, piece.rule);
    match pieces.iter_mut().find(|known| known.occupant == occupant && known.rule == rule) {
        Some(known) => known.length += piece.length,
        None => pieces.push(Piece { occupant, ..*piece }),
    }
}

fn is_task(actors: &Actors, actor: ActorId) -> bool {
    matches!(actors.get(actor).kind, ActorKind::Tasks { .. })
}

/// Keeps the elements with the highest ranks, which are all different, in their order.
fn drop_least<T, R: Ord + Copy>(list: &mut Vec<T>, kept: usize, rank: impl Fn(&T) -> R, mut dropped: impl FnMut(&T)) {
    let mut ranks: Vec<R> = list.iter().map(&rank).collect();
    let first = ranks.len().saturating_sub(kept);
    if first == 0 || kept == 0 {
        return;
    }
    let least = *ranks.select_nth_unstable(first).1;
    list.retain(|entry| {
        let stays = rank(entry) >= least;
        if !stays {
            dropped(entry);
        }
        stays
    });
}

#[cfg(test)]
mod tests;
