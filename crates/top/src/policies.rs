//! Names real-time tasks by their policy: events have only priorities, in which SCHED_FIFO and SCHED_RR look alike.

use unstarve_model::Tid;

use crate::View;
use crate::view::{Row, RowsBy};

/// What `label` appends to a real-time task.
const REAL_TIME: &str = " RT ";

/// Asks for the policy of each task that had a CPU while others waited, and appends it to its name: `hog FIFO 50`.
pub(crate) fn name(view: &mut View, ask: &dyn Fn(Tid) -> Option<String>) {
    let View { policies, rows, tasks, all, detail, by, .. } = view;
    // The kernel's sums have no priorities.
    let named = if *by == RowsBy::Role { Named::WithoutPriority } else { Named::ByEvents };
    let mut policy = |tid: u32, name: &str| {
        if !policies.contains_key(&tid)
            && let Some(policy) = ask(Tid(tid))
        {
            policies.insert(tid, policy);
        }
        policies.get(&tid).and_then(|policy| renamed(name, policy, named))
    };
    let detail = detail.iter_mut().filter_map(|detail| detail.row.as_mut());
    for row in rows.iter_mut().chain(tasks).chain(all).chain(detail) {
        name_row(row, &mut policy);
    }
}

fn name_row(row: &mut Row, policy: &mut impl FnMut(u32, &str) -> Option<String>) {
    let culprit = row.culprit_tid.zip(row.culprit.as_deref()).and_then(|(tid, name)| policy(tid, name));
    row.culprit = culprit.or(row.culprit.take());
    for piece in &mut row.blame {
        if let Some(name) = piece.tid.and_then(|tid| policy(tid, &piece.occupant)) {
            piece.occupant = name;
        }
    }
}

/// What a name says of a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// That of a real-time task has its priority, as of when the events were recorded.
    ByEvents,
    /// Nothing.
    WithoutPriority,
}

/// The name with the policy; `None` if it has it already, or had another priority, or none, when the events were recorded.
pub(crate) fn renamed(name: &str, policy: &str, named: Named) -> Option<String> {
    let Some((bare, priority)) = name.rsplit_once(REAL_TIME) else {
        let may_have_it = named == Named::WithoutPriority && !name.ends_with(policy);
        return may_have_it.then(|| format!("{name} {policy}"));
    };
    policy.ends_with(&format!(" {priority}")).then(|| format!("{bare} {policy}"))
}

#[cfg(test)]
mod tests {
    use super::Named::{ByEvents, WithoutPriority};
    use super::renamed;

    #[test]
    fn the_policy_replaces_the_class_of_the_same_priority() {
        assert_eq!(renamed("hog RT 50", "FIFO 50", ByEvents).as_deref(), Some("hog FIFO 50"));
        assert_eq!(renamed("hog RT 5", "FIFO 50", ByEvents), None, "it has another priority by now");
        assert_eq!(renamed("hog", "RR 1", WithoutPriority).as_deref(), Some("hog RR 1"), "a row without a priority");
        assert_eq!(renamed("hog", "FIFO 50", ByEvents), None, "it was an ordinary task");
        assert_eq!(renamed("hog DL", "FIFO 50", ByEvents), None, "it was a deadline task");
        assert_eq!(renamed("hog FIFO 50", "FIFO 50", WithoutPriority), None);
    }
}
