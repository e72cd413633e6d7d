//! Surveys the whole machine: what a policy would change now, without changing it.

use std::io;

use rustc_hash::FxHashSet;
use unstarve_model::Tid;

use crate::decide::{NoteKind, Plan, Surroundings, decide};
use crate::owner::Owner;
use crate::policy::Policy;
use crate::scan::{self, Scanner};
use crate::settings::{self, Absent, Found};
use crate::task::{Kind, Task};
use unstarve_change::{Place, TaskKey};
use unstarve_executor::journal::Step;

/// What a policy would change now.
#[derive(Debug)]
pub struct Survey {
    /// Number of tasks read.
    pub looked_at: usize,
    /// Tasks that a rule matches, by tid.
    pub tasks: Vec<(Task, Plan)>,
    /// Settings that this machine has.
    pub settings: Vec<Found>,
    /// Settings that it does not have.
    pub absent: Vec<Absent>,
    /// The machine's properties that decisions were based on.
    pub surroundings: Surroundings,
    /// How many programs there are, and how many would be real-time.
    pub crowd: Crowd,
    /// Raised programs that have started programs of other users.
    pub starters: Vec<Starter>,
}

/// A program that a rule raises, and a child of it that belongs to another user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Starter {
    /// The rule's index.
    pub rule: usize,
    /// The raised process.
    pub program: (Tid, String),
    /// One of its children.
    pub child: (Tid, String),
    /// The child's owner.
    pub owner: Owner,
}

/// How many of the machine's programs are made real-time: rules can be harmless alone and not together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Crowd {
    /// Processes, without kernel threads.
    pub programs: usize,
    /// Processes with a thread that a rule makes, or has made, real-time.
    pub realtime: usize,
}

/// The rules would make most of the machine's programs real-time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the rules of this policy make {} of {} programs real-time, which leaves nothing for the rest; more than half are refused. \
     `unstarve guard plan` shows which",
    .0.realtime, .0.programs
)]
pub struct TooManyRealtime(pub Crowd);

impl Crowd {
    /// So few are always allowed, even if there are few other programs: a container, a guest of the lab.
    const SMALL_CROWD: usize = 8;

    /// Counts processes among all tasks; a task without a matching rule has no plan.
    pub fn count<'a>(tasks: impl IntoIterator<Item = (&'a Task, Option<&'a Plan>)>) -> Crowd {
        let (mut programs, mut realtime) = (FxHashSet::default(), FxHashSet::default());
        for (task, plan) in tasks.into_iter().filter(|(task, _)| task.kind == Kind::User) {
            programs.insert(task.tgid);
            let mut set = plan.into_iter().flat_map(|plan| plan.changes.iter().chain(&plan.kept));
            if set.any(|planned| planned.new.is_realtime()) {
                realtime.insert(task.tgid);
            }
        }
        Crowd { programs: programs.len(), realtime: realtime.len() }
    }

    /// # Errors
    /// If more than half of the programs would be real-time.
    pub fn check(self) -> Result<(), TooManyRealtime> {
        if self.realtime >= Crowd::SMALL_CROWD && self.realtime * 2 > self.programs {
            Err(TooManyRealtime(self))
        } else {
            Ok(())
        }
    }

    /// Decides about all tasks and checks, without taking a [`Survey`].
    ///
    /// # Errors
    /// As [`Crowd::check`].
    pub fn check_all(policy: &Policy, surroundings: &Surroundings, tasks: &[Task]) -> Result<(), TooManyRealtime> {
        if policy.highest_rt_priority().is_none() {
            return Ok(());
        }
        let plans: Vec<Option<Plan>> = tasks.iter().map(|task| decide(policy, surroundings, task)).collect();
        Crowd::count(tasks.iter().zip(plans.iter().map(Option::as_ref))).check()
    }
}

impl Survey {
    /// Surveys all tasks and settings. `own` are processes that no rule changes.
    pub fn take(policy: &Policy, own: Vec<Tid>) -> io::Result<Survey> {
        let surroundings = settings::surroundings(own);
        let all = Scanner::of(policy).all()?;
        let looked_at = all.len();
        let decided: Vec<(Task, Option<Plan>)> = all
            .into_iter()
            .map(|task| {
                let plan = decide(policy, &surroundings, &task);
                (task, plan)
            })
            .collect();
        let crowd = Crowd::count(decided.iter().map(|(task, plan)| (task, plan.as_ref())));
        let mut tasks: Vec<(Task, Plan)> =
            decided.into_iter().filter_map(|(task, plan)| plan.map(|plan| (task, plan))).collect();
        for (task, _) in &mut tasks {
            task.owner = task.owner.or_else(|| scan::owner_of(task.key));
        }
        tasks.sort_by_key(|(task, _)| task.key);
        let starters = starters(&tasks);
        let (settings, absent) = settings::find(policy);
        Ok(Survey { looked_at, tasks, settings, absent, surroundings, crowd, starters })
    }

    /// All changes, not yet numbered: settings first, since group weights determine the effect of a nice value.
    pub fn changes(&self, policy: &Policy) -> Vec<Step> {
        let settings = self.settings.iter().filter(|found| !found.old.same(&found.new)).map(|found| {
            let rule = &policy.settings[found.setting].name;
            Step::new(found.target.clone(), "", rule, found.old.clone(), found.new.clone())
        });
        let tasks = self.tasks.iter().flat_map(|(task, plan)| changes_of(policy, task, plan));
        settings.chain(tasks).collect()
    }

    /// Number of notes that say that a value will not be as in the policy.
    pub fn refusals(&self) -> usize {
        let notes = self.tasks.iter().flat_map(|(_, plan)| &plan.notes);
        notes.filter(|note| matches!(note.kind, NoteKind::Refused(_))).count()
    }
}

/// Raised tasks with children of other users, one for each process.
fn starters(tasks: &[(Task, Plan)]) -> Vec<Starter> {
    let mut found = Vec::new();
    for (task, plan) in tasks.iter().filter(|(task, _)| task.kind == Kind::User && task.key.tid == task.tgid) {
        let raised = plan.changes.iter().chain(&plan.kept).find(|planned| planned.new.is_privileged());
        let (Some(raised), Some(owner)) = (raised, task.owner) else { continue };
        // A daemon's children may belong to any of its threads.
        let threads = std::fs::read_dir(format!("/proc/{}/task", task.tgid)).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let of_others =
            children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).find_map(|tid| {
                let tid = Tid(tid.parse().ok()?);
                let key = TaskKey { tid, start: unstarve_executor::proc::start_of(tid)? };
                let child = scan::owner_of(key).filter(|child| child.real != owner.real)?;
                Some((tid, child))
            });
        let Some((tid, owner)) = of_others else { continue };
        let comm = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let (program, child) = ((task.tgid, task.comm.clone()), (tid, comm.trim_end().to_owned()));
        found.push(Starter { rule: raised.rule, program, child, owner });
    }
    found
}

/// A task's changes, for the journal.
pub fn changes_of(policy: &Policy, task: &Task, plan: &Plan) -> Vec<Step> {
    let of = |planned: &crate::decide::Planned| {
        let rule = &policy.rules[planned.rule].name;
        Step::new(Place::Task(task.key), &task.comm, rule, planned.old.clone(), planned.new.clone())
    };
    plan.changes.iter().map(of).collect()
}
