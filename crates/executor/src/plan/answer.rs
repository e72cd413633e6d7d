//! Summarises a plan: whether it can be carried out here, and what prevents it.

use unstarve_model::Tid;

use super::{Obstacle, Planned};

/// Whether a plan can be carried out here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Something would change, and there is no obstacle.
    CanBeDone,
    /// All values are already set.
    IsSoAlready,
    /// No program could change what it names.
    NamesNothing,
    /// See [`obstacles`].
    Obstructed,
}

/// Whether the plan can be carried out here.
pub fn answer(plan: &[Planned<'_>]) -> Answer {
    if plan.is_empty() {
        Answer::NamesNothing
    } else if plan.iter().any(|planned| planned.obstacle.is_some()) {
        Answer::Obstructed
    } else if plan.iter().all(|planned| planned.steps.is_empty()) {
        Answer::IsSoAlready
    } else {
        Answer::CanBeDone
    }
}

/// Maximum threads listed per obstacle.
const MAX_LISTED_THREADS: usize = 16;

/// The obstacles; the same obstacle of several threads takes one line.
pub fn obstacles(plan: &[Planned<'_>]) -> Vec<String> {
    let mut groups: Vec<(&Obstacle, Vec<Tid>)> = Vec::new();
    for obstacle in plan.iter().filter_map(|planned| planned.obstacle.as_ref()) {
        let several = |other: &Obstacle| other.of_threads().zip(obstacle.of_threads()).is_some_and(|(a, b)| a.1 == b.1);
        let tid = obstacle.of_threads().map(|(tid, _)| tid);
        match groups.iter_mut().find(|(first, _)| several(first)) {
            Some((_, tids)) => tids.extend(tid.filter(|tid| !tids.contains(tid))),
            None => groups.push((obstacle, tid.into_iter().collect())),
        }
    }
    groups.into_iter().map(|(first, tids)| in_one_line(first, &tids)).collect()
}

fn in_one_line(obstacle: &Obstacle, tids: &[Tid]) -> String {
    match (obstacle.of_threads(), tids) {
        (Some((_, text)), [_, _, ..]) => {
            let listed = tids.iter().take(MAX_LISTED_THREADS).map(Tid::to_string).collect::<Vec<_>>().join(", ");
            let more = tids.len().saturating_sub(MAX_LISTED_THREADS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("threads {listed}{more} {text}")
        }
        _ => obstacle.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use unstarve_change::Change;

    use super::*;

    #[test]
    fn the_same_obstacle_of_several_threads_is_one_line() {
        let change = Change::advice();
        let planned = |obstacle| Planned {
            change: &change,
            steps: Vec::new(),
            already: 0,
            obstacle: Some(obstacle),
            gone: None,
            users: BTreeMap::new(),
        };
        let of = |tid| planned(Obstacle::Ended(Tid(tid)));
        assert_eq!(obstacles(&[of(7)]), ["thread 7 has ended"]);
        let plan = [of(7), planned(Obstacle::Another(Tid(9))), of(8), of(8), planned(Obstacle::ForAPerson)];
        let expected = ["threads 7, 8 have ended", "thread 9 is another one by now", "only a person can do this"];
        assert_eq!(obstacles(&plan), expected);
        let many: Vec<Planned<'_>> = (1..=40).map(of).collect();
        assert!(obstacles(&many)[0].ends_with("15, 16 and 24 more have ended"), "{:?}", obstacles(&many));
    }
}
