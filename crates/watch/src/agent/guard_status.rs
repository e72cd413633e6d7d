//! Reports whether a guard is running, and whether its policy held.

use unstarve_executor::state;
use unstarve_facts::Stat;
use unstarve_guard::metrics::{Counts, Status};

use crate::episode::GuardWord;

/// The guard's counts at the last look.
#[derive(Debug, Default)]
pub struct GuardStatus {
    before: Option<(u32, Counts)>,
}

impl GuardStatus {
    /// The state now; `None` if no guard runs or is visible. Failures are counted since the last look.
    pub fn state(&mut self) -> Option<GuardWord> {
        let status = status()?;
        let before = self.before.take().filter(|(pid, _)| *pid == status.pid).map(|(_, counts)| counts);
        let but = broken(&status.counts, &before.unwrap_or_default());
        self.before = Some((status.pid, status.counts));
        Some(GuardWord { pid: status.pid, policy: status.policy, held: but.is_empty(), but })
    }
}

fn status() -> Option<Status> {
    let holder = state::holder().ok()??;
    let status = unstarve_guard::run::status(&holder.state).ok()?.filter(|status| status.pid == holder.pid)?;
    // A killed guard leaves its status file.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", status.pid)).ok()?;
    Stat::parse(&stat).is_none_or(|stat| !stat.has_ended()).then_some(status)
}

fn broken(now: &Counts, before: &Counts) -> Vec<String> {
    let yielded = |counts: &Counts| counts.drift.saturating_sub(counts.corrected);
    let kinds = [
        (now.failed, before.failed, "value refused by the system", "values refused by the system"),
        (yielded(now), yielded(before), "value changed by others and left", "values changed by others and left"),
        (now.over_budget, before.over_budget, "time over the real-time budget", "times over the real-time budget"),
        (now.missed, before.missed, "birth missed", "births missed"),
        (now.events_lost, before.events_lost, "event lost", "events lost"),
    ];
    let grown = kinds.into_iter().map(|(now, before, one, many)| (now.saturating_sub(before), one, many));
    grown
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_before_the_last_look_is_not_said_again() {
        let before = Counts { failed: 2, drift: 5, corrected: 5, ..Counts::default() };
        assert!(broken(&before, &before).is_empty());
        let now = Counts { failed: 3, drift: 7, corrected: 6, ..Counts::default() };
        assert_eq!(broken(&now, &before), ["1 value refused by the system", "1 value changed by others and left"]);
    }
}
