//! A look at the whole machine: what a policy would change now.

use std::io;

use unstarve_model::Tid;

use crate::aspect::Target;
use crate::decide::{NoteKind, Plan, Surroundings, decide};
use crate::journal::Change;
use crate::policy::Policy;
use crate::scan::Scanner;
use crate::settings::{self, Absent, Found};
use crate::task::Task;

/// What a policy would change now.
#[derive(Debug)]
pub struct Survey {
    /// How many tasks were looked at.
    pub looked_at: usize,
    /// Those that a rule is about, by their number.
    pub tasks: Vec<(Task, Plan)>,
    /// Settings that this machine has.
    pub settings: Vec<Found>,
    /// Settings that it does not have.
    pub absent: Vec<Absent>,
    /// What decisions rested on.
    pub surroundings: Surroundings,
}

impl Survey {
    /// Looks at every task and setting. `own` are processes that no rule changes.
    pub fn take(policy: &Policy, own: Vec<Tid>) -> io::Result<Survey> {
        let surroundings = settings::surroundings(own);
        let all = Scanner::new(policy.wanted()).all()?;
        let looked_at = all.len();
        let mut tasks: Vec<(Task, Plan)> =
            all.into_iter().filter_map(|task| decide(policy, &surroundings, &task).map(|plan| (task, plan))).collect();
        tasks.sort_by_key(|(task, _)| task.key);
        let (settings, absent) = settings::find(policy);
        Ok(Survey { looked_at, tasks, settings, absent, surroundings })
    }

    /// All changes, without numbers: settings first, since weights decide what a nice value is worth.
    pub fn changes(&self, policy: &Policy) -> Vec<Change> {
        let settings = self.settings.iter().filter(|found| !found.old.same(&found.new)).map(|found| {
            let rule = &policy.settings[found.setting].name;
            Change::new(found.target.clone(), "", rule, found.old.clone(), found.new.clone())
        });
        let tasks = self.tasks.iter().flat_map(|(task, plan)| changes_of(policy, task, plan));
        settings.chain(tasks).collect()
    }

    /// Notes of a kind that means: this will not be as the policy says.
    pub fn refusals(&self) -> usize {
        let notes = self.tasks.iter().flat_map(|(_, plan)| &plan.notes);
        notes.filter(|note| matches!(note.kind, NoteKind::Refused(_))).count()
    }
}

/// A task's changes, for the journal.
pub fn changes_of(policy: &Policy, task: &Task, plan: &Plan) -> Vec<Change> {
    let of = |planned: &crate::decide::Planned| {
        let rule = &policy.rules[planned.rule].name;
        Change::new(Target::Task(task.key), &task.comm, rule, planned.old.clone(), planned.new.clone())
    };
    plan.changes.iter().map(of).collect()
}
