//! A remedy for threads that have ended: nothing can be changed now, but a form may keep it for the next time.

use std::collections::BTreeSet;

use unstarve_change::Form;
use unstarve_diagnose::Explained;
use unstarve_executor::authority::Named;
use unstarve_executor::plan::{self, Answer, Obstacle, Planned};
use unstarve_term::fix::Ended;

use super::LowArgs;
use super::choose::Choice;
use super::origin::Origin;
use super::{commands, lasting};

/// The threads, if nothing but their end prevents the plan.
pub fn of(args: &LowArgs, explained: &Explained, chosen: &Choice<'_>, origin: &Origin) -> Option<Ended> {
    let names = names(&chosen.plan)?;
    let finding = chosen.finding;
    let remedies = 0..explained.report.findings[finding].remedies.len();
    // The remedy that is shown, if it can be kept, else the first that can.
    let lasting = |remedy: &usize| lasting::keeps(explained, finding, *remedy, Form::Guard);
    let remedy = std::iter::once(chosen.remedy).chain(remedies).find(lasting);
    Some(Ended { names, next_time: remedy.map(|remedy| next_time(args, explained, finding, remedy, origin)) })
}

/// The names of the threads that have ended, if that is the only obstacle.
fn names(plan: &[Planned<'_>]) -> Option<Vec<String>> {
    if plan::answer(plan) != Answer::Obstructed {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    for planned in plan {
        match &planned.obstacle {
            None => {}
            Some(Obstacle::Ended(_) | Obstacle::Another(_)) => {
                let name = planned.change.target.thread().map(|thread| thread.comm.clone())?;
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Some(_) => return None,
        }
    }
    (!names.is_empty()).then_some(names)
}

/// The command that prints the guard's policy; it names what has to be named.
fn next_time(args: &LowArgs, explained: &Explained, finding: usize, remedy: usize, origin: &Origin) -> String {
    let changes = &explained.report.findings[finding].remedies[remedy].changes;
    let named = |things| origin.authority(Named::Remedy(things));
    let plan = plan::draft(&unstarve_executor::host::ThisHost, changes, "", origin.ids);
    let targets: String = match plan::refusals_to_print(&plan, &named(args.target.clone())).is_empty() {
        true => args.target.iter().map(|thing| format!(" --target {thing}")).collect(),
        false => {
            let tids: BTreeSet<u32> =
                changes.iter().filter_map(|change| change.target.thread()).map(|thread| thread.tid.0).collect();
            tids.iter().map(|tid| format!(" --target {tid}")).collect()
        }
    };
    commands::keep(args, finding, remedy, &targets, Form::Guard)
}

#[cfg(test)]
mod tests {
    use unstarve_change::{Change, Target, Thread, Value};
    use unstarve_executor::plan::Ids;
    use unstarve_model::Tid;
    use unstarve_testing::fake_host::FakeHost;

    use super::*;

    fn nice(tid: u32, name: &str) -> Change {
        Change::of(Target::Thread(Thread::known_by(Tid(tid), name)), Value::Nice(-5))
    }

    #[test]
    fn only_an_end_is_reported_as_one() {
        let host = FakeHost::default().program(7, 1, "db");
        let named = |changes: &[Change]| names(&plan::draft(&host, changes, "", Ids::Hold));
        assert_eq!(named(&[nice(6, "poller")]), Some(vec!["poller".to_owned()]));
        assert_eq!(
            named(&[nice(6, "poller"), nice(5, "poller"), nice(4, "hog")]),
            Some(vec!["poller".to_owned(), "hog".to_owned()])
        );
        assert_eq!(named(&[nice(7, "db")]), None, "it runs");
        assert_eq!(named(&[Change::advice()]), None);
        assert_eq!(named(&[nice(6, "poller"), Change::advice()]), None, "there is another obstacle");
        assert_eq!(named(&[]), None);
    }
}
