//! Names real-time tasks by their policy: events have only priorities, in which SCHED_FIFO and SCHED_RR look alike.

use unstarve_model::Tid;

use crate::View;
use crate::view::Row;

/// What `label` appends to a real-time task.
const REAL_TIME: &str = " RT ";

/// Asks for the policy of each task that had a CPU while others waited, and appends it to its name: `hog FIFO 50`.
pub(crate) fn name(view: &mut View, ask: &dyn Fn(Tid) -> Option<String>) {
    let View { policies, rows, tasks, all, detail, .. } = view;
    let mut policy = |tid: u32, name: &str| {
        if !policies.contains_key(&tid)
            && let Some(policy) = ask(Tid(tid))
        {
            policies.insert(tid, policy);
        }
        policies.get(&tid).and_then(|policy| renamed(name, policy))
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

/// The name with the policy; `None` if it has it already, or had another priority when the events were recorded.
pub(crate) fn renamed(name: &str, policy: &str) -> Option<String> {
    let Some((bare, priority)) = name.rsplit_once(REAL_TIME) else {
        return (!name.ends_with(policy)).then(|| format!("{name} {policy}"));
    };
    policy.ends_with(&format!(" {priority}")).then(|| format!("{bare} {policy}"))
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn the_policy_replaces_the_class_of_the_same_priority() {
        assert_eq!(renamed("hog RT 50", "FIFO 50").as_deref(), Some("hog FIFO 50"));
        assert_eq!(renamed("hog RT 5", "FIFO 50"), None, "it has another priority by now");
        assert_eq!(renamed("hog", "RR 1").as_deref(), Some("hog RR 1"), "a row without a priority");
        assert_eq!(renamed("hog FIFO 50", "FIFO 50"), None);
    }
}
