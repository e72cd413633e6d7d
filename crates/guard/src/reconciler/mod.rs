//! The guard's main logic: turns task events into decisions, journals and makes the changes, and reacts when other programs
//! change the same values.

mod budget;
mod drift;
mod event_handling;
mod inheritance;

use std::io;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::Tid;

use crate::decide::{NoteKind, Plan, Surroundings, decide};
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::scan::Scanner;
use crate::survey::TooManyRealtime;
use crate::task::{Kind, Task, Work};
use crate::task_events::Follower;
use crate::task_view::TaskView;
use unstarve_change::TaskKey;
use unstarve_change::{Aspect, Place, Value};
use unstarve_executor::act::{self, Outcome};
use unstarve_executor::audit::{Audit, Entry, Event};
use unstarve_executor::host::Host;
use unstarve_executor::journal::{Journal, JournalError, Step};
use unstarve_executor::sched::{self, TICK_NS};

/// Workers whose past work items are remembered; when the limit is reached, the map is cleared.
const MOST_WORKERS: usize = 65_536;

/// A task that the guard manages.
#[derive(Debug)]
struct Managed {
    comm: String,
    tgid: Tid,
    since: Instant,
    /// The last value set for each aspect, and its rule.
    set: Vec<(usize, Step)>,
    /// The value of each aspect before the first change of the guard: a child that inherited the set value goes back to it.
    before: Vec<Value>,
    /// Values reverted recently because no rule matches any more: a child forked before may still have them.
    released: Vec<Released>,
    /// Aspects left to other programs.
    yielded: Vec<Aspect>,
    /// Values that other programs set and that were reported.
    reported: Vec<Value>,
    /// Times of corrections.
    corrections: Vec<Instant>,
    /// CPU time at the last budget check.
    pub ran: Option<u64>,
}

/// A value that was reverted; see [`Managed::released`].
#[derive(Debug)]
struct Released {
    /// In the unit of tasks' start times.
    at: u64,
    rule: usize,
    change: Step,
}

/// How long after a revert a child can still start with the value, in the unit of start times: a fork in progress has copied
/// it.
const BIRTHS_UNDER_WAY: u64 = 200;

/// Keeps tasks at a policy.
pub struct Reconciler<H, S = Scanner> {
    policy: Policy,
    surroundings: Surroundings,
    sight: S,
    host: H,
    journal: Journal,
    audit: Audit,
    /// Counters.
    pub metrics: Metrics,
    managed: FxHashMap<TaskKey, Managed>,
    /// Keys by tid, the id that events have.
    by_tid: FxHashMap<Tid, TaskKey>,
    /// One task of each process, for forks reported without the thread that made them.
    by_process: FxHashMap<Tid, TaskKey>,
    /// Managed tasks that exited since the last scan.
    ended: FxHashMap<Tid, Managed>,
    /// CPU time of real-time tasks that exited since the last budget check, by CPU.
    burned: FxHashMap<u32, u64>,
    /// Registers with the event source the tasks whose children are wanted.
    follow: Option<Follower>,
    /// Events were lost, so a full scan is due.
    must_look: bool,
    /// Everything is being reverted.
    closed: bool,
    works: FxHashMap<TaskKey, Vec<Work>>,
    /// Forks of kernel threads that have no name yet.
    unnamed: FxHashMap<Tid, u64>,
    /// Kernel threads to read again, soonest first.
    looks: Vec<(Instant, Tid)>,
    /// Refusals already reported.
    told: FxHashSet<(usize, String)>,
    /// Rules that may set no real-time policy any more.
    tripped: FxHashSet<usize>,
    /// The only rules that may set values, if not all may.
    only: Option<FxHashSet<usize>>,
    /// Files and features that were set.
    files: FxHashMap<Place, Value>,
    began: u64,
}

/// A decision to be carried out with its batch.
struct Due {
    task: Task,
    plan: Plan,
    born: Option<u64>,
}

impl<H: Host, S: TaskView> Reconciler<H, S> {
    /// A reconciler that has changed nothing yet.
    pub fn new(policy: Policy, own: Vec<Tid>, host: H, sight: S, journal: Journal, audit: Audit) -> Reconciler<H, S> {
        Reconciler {
            surroundings: sight.surroundings(own),
            sight,
            policy,
            host,
            journal,
            audit,
            metrics: Metrics::default(),
            managed: FxHashMap::default(),
            by_tid: FxHashMap::default(),
            by_process: FxHashMap::default(),
            ended: FxHashMap::default(),
            burned: FxHashMap::default(),
            follow: None,
            must_look: false,
            closed: false,
            works: FxHashMap::default(),
            unnamed: FxHashMap::default(),
            looks: Vec::new(),
            told: FxHashSet::default(),
            tripped: FxHashSet::default(),
            only: None,
            files: FxHashMap::default(),
            began: sched::boot_ns(),
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where audit lines go.
    pub fn audit(&mut self) -> &mut Audit {
        &mut self.audit
    }

    /// Sets how to register tasks whose children are wanted.
    pub fn follow_by(&mut self, follow: Option<Follower>) {
        self.follow = follow;
    }

    /// Sets the guard's own processes.
    pub fn own(&mut self, own: Vec<Tid>) {
        self.surroundings.own = own;
    }

    /// Stops setting values; forks are still handled, because children inherit.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether setting values is stopped.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Resumes setting values.
    pub fn open(&mut self) {
        self.closed = false;
    }

    /// Everything was reverted: forgets all managed tasks until it is opened again.
    pub fn rest(&mut self) {
        self.closed = true;
        self.managed.clear();
        self.by_tid.clear();
        self.by_process.clear();
        self.burned.clear();
        self.files.clear();
        self.metrics.counts.managed = 0;
    }

    /// From now on carries out only these rules and the policy's settings. An aspect that another rule wins is left as it is.
    pub fn only(&mut self, rules: FxHashSet<usize>) {
        self.only = Some(rules);
    }

    /// Rules that may set no real-time policy any more, because their tasks exceeded the budget.
    pub fn tripped(&self) -> &FxHashSet<usize> {
        &self.tripped
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Drops the CPU time of exited real-time tasks: while no rule sets a real-time policy, it is not the guard's.
    pub fn forget_burned(&mut self) {
        self.burned.clear();
    }

    /// The parts that a full revert needs.
    pub fn for_taking_back(&mut self) -> (&mut H, &mut Journal, &mut Audit) {
        (&mut self.host, &mut self.journal, &mut self.audit)
    }

    /// Continues in a new journal.
    pub fn continue_in(&mut self, journal: Journal) {
        self.journal = journal;
    }

    /// Whether a full scan is due because events were lost.
    pub fn must_look(&self) -> bool {
        self.must_look
    }

    /// Reads every task and setting: at the start, after lost events, and periodically.
    pub fn look_at_all(&mut self) -> Result<(), ReconcilerError> {
        self.metrics.counts.scans += 1;
        self.must_look = false;
        let own = std::mem::take(&mut self.surroundings.own);
        self.surroundings = self.sight.surroundings(own);
        let tasks = self.sight.all().map_err(ReconcilerError::Scan)?;
        let living: FxHashSet<TaskKey> = tasks.iter().map(|task| task.key).collect();
        self.forget_all_but(&living);
        self.works.retain(|key, _| living.contains(key));
        self.watch_crowd(&tasks)?;
        self.settings()?;
        self.find_heirs(&tasks)?;
        self.forget_released();
        let mut due = Vec::new();
        for task in tasks {
            if self.managed.contains_key(&task.key) {
                self.check(&task, None)?;
            }
            // Its name or owner may have changed.
            if let Some(task) = self.release(task) {
                self.consider(task, None, &mut due);
            }
        }
        // A task forked before this guard, or selected by its work items, was not missed. Nor was one of the last second, whose
        // event may still be queued.
        const SECOND: u64 = 100;
        let (began, now) = (self.began / TICK_NS, sched::boot_ns() / TICK_NS);
        let missed = |start: u64| start > began + SECOND && start + SECOND < now;
        let fresh = due.iter().filter(|due| missed(due.task.key.start) && due.task.kind == Kind::User).count();
        self.metrics.counts.missed += fresh as u64;
        self.make(due)
    }

    /// Decides about a task and queues its changes.
    fn consider(&mut self, mut task: Task, born: Option<u64>, due: &mut Vec<Due>) {
        if self.closed {
            return;
        }
        if let Some(works) = self.works.get(&task.key) {
            task.works.extend(works.iter().cloned());
        }
        let Some(mut plan) = decide(&self.policy, &self.surroundings, &task) else { return };
        for note in &plan.notes {
            if let NoteKind::Refused(refusal) = &note.kind {
                // Once for each rule and name, not for each of a thousand workers.
                let name = task.comm.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
                if self.told.len() < MOST_WORKERS && self.told.insert((note.rule, name)) {
                    self.audit.log(&Entry {
                        rule: Some(&self.policy.rules[note.rule].name),
                        target: Some(&Place::Task(task.key)),
                        comm: Some(&task.comm),
                        reason: Some(&refusal.to_string()),
                        ..Entry::of(Event::Refused)
                    });
                }
            }
        }
        let managed = self.managed.get(&task.key);
        plan.changes.retain(|planned| {
            let aspect = planned.new.aspect();
            let theirs = managed.is_some_and(|managed| {
                // A value that was set and has changed since is drift, handled by `check`.
                managed.yielded.contains(&aspect)
                    || managed.set.iter().any(|(rule, change)| *rule == planned.rule && change.new.aspect() == aspect)
            });
            let tripped = planned.new.is_realtime() && self.tripped.contains(&planned.rule);
            let wanted = self.only.as_ref().is_none_or(|only| only.contains(&planned.rule));
            !theirs && !tripped && wanted
        });
        if !plan.changes.is_empty() {
            // Two events of a task in one batch (fork and rename) give one entry; they are close together.
            if let Some(at) = due.iter().rposition(|earlier| earlier.task.key == task.key) {
                due.remove(at);
            }
            due.push(Due { task, plan, born });
        }
    }

    /// Journals all changes at once, then makes them.
    fn make(&mut self, due: Vec<Due>) -> Result<(), ReconcilerError> {
        let mut changes = Vec::new();
        let mut owners = Vec::new();
        for (index, due) in due.iter().enumerate() {
            for planned in &due.plan.changes {
                let rule = &self.policy.rules[planned.rule].name;
                let target = Place::Task(due.task.key);
                changes.push(Step::new(target, &due.task.comm, rule, planned.old.clone(), planned.new.clone()));
                owners.push((index, planned.rule));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        if let Some(follow) = &self.follow {
            // Before the change, because a child may be forked right after it. Kernel threads have no children, but changes to
            // them by other tasks are reported, too.
            due.iter().for_each(|due| follow(due.task.key.tid));
        }
        let outcomes = act::apply(&mut self.host, &mut self.journal, &mut self.audit, &mut changes)?;
        let now = sched::monotonic_ns();
        let mut done = vec![false; due.len()];
        for ((change, (index, rule)), outcome) in changes.into_iter().zip(owners).zip(outcomes) {
            let counts = &mut self.metrics.counts;
            match outcome {
                Outcome::Gone => counts.gone += 1,
                Outcome::Failed(_) => counts.failed += 1,
                Outcome::Done => {
                    counts.applied += 1;
                    done[index] = true;
                    self.remember(&due[index].task, rule, change);
                }
            }
        }
        for (due, done) in due.iter().zip(done) {
            if let Some(born) = due.born.filter(|_| done) {
                self.metrics.birth(now.saturating_sub(born));
            }
        }
        self.metrics.counts.managed = self.managed.len() as u64;
        Ok(())
    }

    fn remember(&mut self, task: &Task, rule: usize, change: Step) {
        self.by_tid.insert(task.key.tid, task.key);
        self.by_process.insert(task.tgid, task.key);
        let managed = self.managed.entry(task.key).or_insert_with(|| Managed {
            comm: task.comm.clone(),
            tgid: task.tgid,
            since: Instant::now(),
            set: Vec::new(),
            before: Vec::new(),
            released: Vec::new(),
            yielded: Vec::new(),
            reported: Vec::new(),
            corrections: Vec::new(),
            ran: None,
        });
        let aspect = change.new.aspect();
        let goes_on =
            managed.set.iter().any(|(_, earlier)| earlier.new.aspect() == aspect && earlier.explains(&change.old));
        if !goes_on {
            managed.before.retain(|value| value.aspect() != aspect);
            managed.before.push(change.old.clone());
        }
        managed.set.retain(|(_, earlier)| earlier.new.aspect() != aspect);
        managed.set.push((rule, change));
    }
}

impl Managed {
    /// The values that a child inherited from this task, with the values to restore in the end.
    fn passed_on(&self, heir: &Task) -> Vec<(usize, Step)> {
        let is_so = |change: &Step| {
            let value = heir.attributes.value(change.new.aspect());
            // A lowered value without an advantage may as well be the child's own.
            value.is_some_and(|value| {
                value.same(&change.new) || (change.explains(&value) && value.is_more_than_ordinary())
            })
        };
        let passed = self.set.iter().filter(|(_, change)| is_so(change)).map(|(rule, change)| {
            let before = self.before.iter().find(|value| value.aspect() == change.new.aspect()).unwrap_or(&change.old);
            (*rule, Step { old: before.clone(), ..change.inherited_by(heir.key, &heir.comm) })
        });
        let mut passed: Vec<(usize, Step)> = passed.collect();
        for Released { at, rule, change } in &self.released {
            let is_known = passed.iter().any(|(_, known)| known.new.aspect() == change.new.aspect());
            if !is_known && heir.key.start <= at + BIRTHS_UNDER_WAY && is_so(change) {
                passed.push((*rule, change.inherited_by(heir.key, &heir.comm)));
            }
        }
        passed
    }
}

/// Why a reconciler cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcilerError {
    /// The journal cannot be written, so nothing may be changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The rules would make most programs real-time.
    #[error(transparent)]
    Crowd(#[from] TooManyRealtime),
    /// `/proc` cannot be read.
    #[error("the tasks of this machine cannot be read")]
    Scan(#[source] io::Error),
}
