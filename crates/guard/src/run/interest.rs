//! Which forks and other events a policy needs.

use unstarve_change::Place;
use unstarve_executor::journal::Step;
use unstarve_executor::registry::Registry;

use crate::policy::Policy;
use crate::task_events::{self, Interest, Programs, SourceName, WorkDetail};

/// Makes the kernel record forks of these tasks until everything is reverted, for a command that changes tasks and then exits.
///
/// # Errors
/// Why the kernel cannot record them.
pub fn note_births(policy: &Policy, changes: &[Step]) -> Result<(), String> {
    let interest = interest(policy);
    let tids = changes.iter().filter_map(|change| match &change.target {
        Place::Task(key) => Some(key.tid),
        _ => None,
    });
    if interest.programs == Programs::None {
        // Kernel threads have no children that inherit.
        return Ok(());
    }
    if let Some(earlier) = Registry::pinned() {
        return tids.into_iter().try_for_each(|tid| earlier.follow(tid)).map_err(|error| error.to_string());
    }
    let (source, gaps) = task_events::open(interest, Some(SourceName::Ebpf));
    let Some((registry, follow)) = source.as_ref().and_then(|source| source.registry().zip(source.follower())) else {
        return Err(gaps.join("; "));
    };
    tids.for_each(follow);
    registry.pin().map_err(|error| error.to_string())
}

pub(super) fn interest(policy: &Policy) -> Interest {
    use crate::task::Kind;
    let rules = &policy.rules;
    let of_programs: Vec<_> = rules
        .iter()
        .map(|rule| &rule.selector)
        .filter(|selector| !selector.asks_for_work() && selector.kind.is_none_or(|kind| kind == Kind::User))
        .collect();
    let beginning = |selector: &&crate::Selector| {
        let beginning = selector.comm.as_ref()?.beginning();
        (!beginning.is_empty()).then_some(beginning)
    };
    let programs = if of_programs.is_empty() {
        Programs::None
    } else {
        // One rule without a name pattern requires the forks of all programs.
        of_programs.iter().map(beginning).collect::<Option<_>>().map_or(Programs::All, Programs::Named)
    };
    let work = if rules.iter().any(|rule| rule.selector.work.is_some()) {
        WorkDetail::Function
    } else if rules.iter().any(|rule| rule.selector.workqueue.is_some()) {
        WorkDetail::Workqueue
    } else {
        WorkDetail::None
    };
    let wanted = policy.wanted();
    let of_program = programs != Programs::None;
    Interest { programs, work, owners: of_program && wanted.owner, groups: of_program && wanted.cgroup }
}
