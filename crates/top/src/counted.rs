//! `top` by sums of the watch's engine: rows of roles, and of tasks with a long wait.
//!
//! Sums are by role, because nothing is sent for single waits. For a task there are only the waits that lasted at a
//! reading, and the kernel's accounting (`/proc/TID/schedstat`) since then.

use std::collections::{BTreeMap, VecDeque};

use unstarve_diagnose::report::VictimKind;
use unstarve_model::{Comm, Nanos, Severity, Tid};
use unstarve_sched::{KernelThread, Rule};
use unstarve_watch::episode::Suffering;
use unstarve_watch::{OldestWait, Reading, Role, RoleId, RoleKind, TaskId};

use crate::App;
use crate::cpus::CpuView;
use crate::history::HISTORY_WINDOWS;
use crate::view::{Piece, ROLE, Row, RowsBy, View};

/// Readings kept for a window, which moves in as many steps.
const LOOKS_PER_WINDOW: u64 = 40;
/// Maximum tasks remembered.
const MAX_REMEMBERED_WAITS: usize = 256;

/// A task's total time in finished waits by the kernel's accounting; `None` if unavailable.
pub type Accounted<'a> = &'a dyn Fn(Tid) -> Option<Nanos>;

/// One reading.
#[derive(Clone, Debug)]
pub struct CountedLook {
    /// The sums and the ongoing waits. Must contain only waits that the kernel's accounting confirms.
    pub reading: Reading,
    /// For each CPU its busy and its total time, in any unit.
    pub cpus: Vec<(u32, u64, u64)>,
}

/// The readings of the last seconds.
#[derive(Debug)]
pub struct Counted {
    length: Nanos,
    /// Oldest first; the window begins at the first.
    looks: VecDeque<CountedLook>,
    began: Option<Nanos>,
    /// The waiting time of each role so far, in steps of the last windows, oldest first.
    past: VecDeque<(Nanos, BTreeMap<String, Nanos>)>,
    seen: BTreeMap<(u32, Comm), Seen>,
}

/// A task seen waiting.
#[derive(Debug)]
struct Seen {
    last: OldestWait,
    at: Nanos,
    longest: Nanos,
    accounted: Option<Nanos>,
}

impl Counted {
    /// An empty window of this length.
    pub fn new(length: Nanos) -> Counted {
        Counted {
            length: Nanos(length.0.max(LOOKS_PER_WINDOW)),
            looks: VecDeque::new(),
            began: None,
            past: VecDeque::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Adds a reading.
    pub fn add(&mut self, look: CountedLook, accounted: Accounted<'_>) {
        let now = look.reading.at.trace.0;
        if self.looks.back().is_some_and(|last| last.reading.since != look.reading.since) {
            self.looks.clear();
            self.past.clear();
        }
        self.began.get_or_insert(Nanos(now));
        for wait in &look.reading.oldest {
            let key = (wait.task.tid.0, wait.task.comm);
            if self.seen.len() >= MAX_REMEMBERED_WAITS && !self.seen.contains_key(&key) {
                continue;
            }
            let seen = self.seen.entry(key).or_insert_with(|| Seen {
                last: *wait,
                at: Nanos(now),
                longest: wait.ns,
                accounted: accounted(wait.task.tid),
            });
            (seen.last, seen.at, seen.longest) = (*wait, Nanos(now), seen.longest.max(wait.ns));
        }
        let from = now.saturating_sub(self.length.0);
        self.seen.retain(|_, seen| seen.at.0 >= from);
        // Stored readings are at least a step apart; the newest is always stored.
        let step = self.step().0;
        if self.past.back().is_none_or(|(at, _)| now.saturating_sub(at.0) >= step) {
            self.past.push_back((Nanos(now), role_sums(&look.reading)));
            if self.past.len() as u64 > HISTORY_WINDOWS * LOOKS_PER_WINDOW + 1 {
                self.past.pop_front();
            }
        }
        let of = |look: &CountedLook| look.reading.at.trace.0;
        if self.looks.len() >= 2 && now.saturating_sub(of(&self.looks[self.looks.len() - 2])) < step {
            self.looks.pop_back();
        }
        self.looks.push_back(look);
        while self.looks.get(1).is_some_and(|second| of(second) <= from) {
            self.looks.pop_front();
        }
    }

    /// The time between kept readings.
    fn step(&self) -> Nanos {
        Nanos(self.length.0 / LOOKS_PER_WINDOW)
    }

    /// A role's waiting time in each step.
    fn history(&self, role: &str) -> Vec<u64> {
        let sums: Vec<Nanos> =
            self.past.iter().map(|(_, sums)| sums.get(role).copied().unwrap_or(Nanos::ZERO)).collect();
        sums.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).0).collect()
    }

    /// The name of a task seen waiting.
    pub fn name(&self, tid: Tid) -> Option<Comm> {
        self.seen.keys().find(|(known, _)| *known == tid.0).map(|(_, comm)| *comm)
    }

    fn ends(&self) -> Option<(&CountedLook, &CountedLook)> {
        Some((self.looks.front()?, self.looks.back()?))
    }

    /// What each CPU did in the window.
    fn cpus(&self) -> Vec<CpuView> {
        let Some((first, last)) = self.ends() else { return Vec::new() };
        let view = |&(cpu, busy, total): &(u32, u64, u64)| {
            let then = first.cpus.iter().find(|(known, ..)| *known == cpu);
            let (busy_then, total_then) = then.map_or((busy, total), |(_, busy, total)| (*busy, *total));
            let passed = total.saturating_sub(total_then);
            let part = busy.saturating_sub(busy_then) as f64 / passed.max(1) as f64;
            let waiting = last.reading.oldest.iter().filter(|wait| wait.cpu.0 == cpu).count();
            CpuView { cpu, busy: part.min(1.0), waiting: u32::try_from(waiting).unwrap_or(u32::MAX) }
        };
        last.cpus.iter().map(view).collect()
    }
}

impl View {
    /// The view of the present sums.
    pub fn counted(counted: &Counted, app: &App, engine: &'static str, accounted: Accounted<'_>) -> View {
        let ends = counted.ends();
        let now = ends.map_or(Nanos::ZERO, |(_, last)| Nanos(last.reading.at.trace.0));
        let elapsed = ends.map_or(Nanos::ZERO, |(first, last)| last.reading.at.trace.since(first.reading.at.trace));
        let mut roles = ends.map_or_else(Vec::new, |(first, last)| roles(&first.reading, &last.reading, elapsed));
        for role in &mut roles {
            role.history = counted.history(&role.victim);
        }
        let tasks = counted
            .seen
            .values()
            .map(|seen| task(seen, ends.map(|(first, last)| (&first.reading, &last.reading)), elapsed, accounted));
        let mut view = View {
            source: "live".to_owned(),
            at_ns: now.0,
            since_start_ns: counted.began.map_or(0, |began| now.0 - began.0),
            window_ns: counted.length.0,
            lost: ends.map_or(0, |(_, last)| last.reading.lost.events),
            engine: Some(engine),
            by: RowsBy::Role,
            cpus: counted.cpus(),
            history_step_ns: counted.step().0,
            all: roles.into_iter().chain(tasks).collect(),
            ..View::empty()
        };
        view.arrange(app);
        view.sum_up();
        view
    }
}

/// The waiting time of each role since the engine began.
fn role_sums(reading: &Reading) -> BTreeMap<String, Nanos> {
    let ids = (0..reading.roles.len()).filter_map(|index| u8::try_from(index).ok().map(RoleId));
    ids.filter_map(|id| Some((reading.role(id)?.name(), reading.waits.get(id.index())?.waited))).collect()
}

/// A row for each role that waited between two readings.
fn roles(first: &Reading, last: &Reading, elapsed: Nanos) -> Vec<Row> {
    let ids = (0..last.roles.len()).filter_map(|index| u8::try_from(index).ok().map(RoleId));
    ids.filter_map(|id| {
        let role = last.role(id).filter(|role| role.kind.can_wait())?;
        let now = last.waits.get(id.index())?;
        let then = same(last, first, id).and_then(|id| first.waits.get(id.index()));
        let waited = then.map_or(now.waited, |then| now.waited.saturating_sub(then.waited));
        let new = then.map_or_else(|| now.histogram.clone(), |then| now.histogram.since(&then.histogram));
        let oldest = last.oldest.iter().filter(|wait| wait.role == id).max_by_key(|wait| wait.ns);
        if waited == Nanos::ZERO && oldest.is_none() {
            return None;
        }
        let blame = blame(first, last, id);
        let worst = blame.first();
        // The task that had the CPU during the longest wait, if it belongs to the role with most of the blame.
        let by = oldest.and_then(|wait| Some((wait.occupant?, last.role(wait.occupant_role)?.name())));
        // Only if it is of the same role and had the CPU under the row's rule: otherwise the rule is not about this
        // task.
        let alone =
            |worst: &Piece| !blame.iter().any(|other| other.occupant == worst.occupant && other.rule != worst.rule);
        let by = by.filter(|(_, role)| worst.is_some_and(|worst| worst.occupant == *role && alone(worst)));
        let by = by.map(|(task, _)| task);
        // Only the lower bound of a histogram step is certain.
        let longest = new.buckets().last().map_or(0, |bucket| (bucket.from * 1e9) as u64);
        let severity = severity_of_role(role.kind, &blame, longest.max(oldest.map_or(0, |wait| wait.ns.0)), oldest);
        Some(Row {
            kind: ROLE,
            cpu: oldest.map(|wait| wait.cpu.0),
            rule: worst.map(|piece| piece.rule),
            culprit: by.map(|task| name(&task)).or_else(|| worst.map(|piece| piece.occupant.clone())),
            culprit_tid: by.map(|task| task.tid.0),
            wait_ns: waited.0,
            longest_ns: longest,
            waits: then.map_or(now.count, |then| now.count.saturating_sub(then.count)),
            share: waited.share_of(elapsed).min(1.0),
            mean_waiting: Some(waited.share_of(elapsed)),
            waiting_ns: oldest.map(|wait| wait.ns.0),
            blame,
            severity,
            ..Row::of_nothing(role.name(), None)
        })
    })
    .collect()
}

/// A row for a task seen waiting.
fn task(seen: &Seen, ends: Option<(&Reading, &Reading)>, elapsed: Nanos, accounted: Accounted<'_>) -> Row {
    let wait = &seen.last;
    let last = ends.map(|(_, last)| last);
    let now = last.filter(|reading| reading.oldest.iter().any(|now| (now.task, now.cpu) == (wait.task, wait.cpu)));
    let waited = seen.accounted.and_then(|then| accounted(wait.task.tid)?.0.checked_sub(then.0));
    let role = last.and_then(|reading| reading.role(wait.occupant_role)).map(Role::name);
    // For time that the kernel does not account, the longest wait seen counts.
    let ongoing = now.filter(|_| waited.is_some()).map_or(Nanos::ZERO, |_| wait.ns);
    let waited = Nanos(waited.unwrap_or(seen.longest.0));
    let rule = ends.and_then(|(first, last)| only_rule(first, last, wait));
    Row {
        severity: last.and_then(|reading| severity_of_task(reading, seen, rule)),
        kind: VictimKind::from(KernelThread::of(&wait.task.comm)).word(),
        cpu: Some(wait.cpu.0),
        rule,
        culprit: wait.occupant.map(|task| name(&task)).or(role),
        culprit_tid: wait.occupant.map(|task| task.tid.0),
        wait_ns: waited.0,
        longest_ns: seen.longest.0,
        share: share(waited, ongoing, elapsed),
        group: last.and_then(|reading| reading.role(wait.role)).map(Role::name),
        waiting_ns: now.map(|_| wait.ns.0),
        ..Row::of_nothing(name(&wait.task), Some(wait.task.tid))
    }
}

/// Finished waits and the ongoing one, as a part of the window. The kernel accounts a wait at its end, with what it lasted before.
fn share(waited: Nanos, ongoing: Nanos, elapsed: Nanos) -> f64 {
    (waited.share_of(elapsed) + ongoing.share_of(elapsed)).min(1.0)
}

/// The severity of a role's waits by the table that `explain` uses: the longest wait, if one rule has most of the
/// role's waiting time. Sums cover many tasks, so no fraction of the window belongs to one.
fn severity_of_role(kind: RoleKind, blame: &[Piece], longest: u64, oldest: Option<&OldestWait>) -> Option<Severity> {
    let all = blame.iter().map(|piece| piece.ns).fold(0, u64::saturating_add);
    let worst = blame.first().filter(|worst| worst.ns.saturating_mul(2) >= all)?;
    let occupied = oldest.map_or(Nanos::ZERO, |wait| wait.occupied.min(wait.ns));
    severity(kind, None, worst.rule, Nanos(longest), occupied)
}

/// The severity of the waits of a task seen waiting.
fn severity_of_task(reading: &Reading, seen: &Seen, rule: Option<Rule>) -> Option<Severity> {
    let wait = &seen.last;
    let kind = reading.role(wait.role)?.kind;
    severity(kind, Some(wait.task.comm), rule?, seen.longest, wait.occupied.min(wait.ns))
}

fn severity(kind: RoleKind, task: Option<Comm>, rule: Rule, longest: Nanos, occupied: Nanos) -> Option<Severity> {
    // A wait beside an idle CPU may come from an unreported switch: explain and the watch check it for longer.
    let rule = Some(rule).filter(|rule| *rule != Rule::Idle);
    Suffering { kind, task, rule, longest, lost: longest, span: None, occupied }.severity()
}

/// The rule under which its role waited for the occupant's role in the window, if there was only one: sums by rule are
/// of roles, and with several rules the rule of a single wait is unknown.
fn only_rule(first: &Reading, last: &Reading, wait: &OldestWait) -> Option<Rule> {
    let occupant = last.role(wait.occupant_role)?.name();
    let mut rules = blame(first, last, wait.role).into_iter().filter(|piece| piece.occupant == occupant);
    rules.next().filter(|_| rules.next().is_none()).map(|piece| piece.rule)
}

fn name(task: &TaskId) -> String {
    task.comm.to_string()
}

/// The role's id in another reading.
fn same(of: &Reading, other: &Reading, id: RoleId) -> Option<RoleId> {
    let role = of.role(id)?;
    other.find(role.kind, role.cgroup.as_deref())
}

/// Who had the CPU while a role waited, most first.
fn blame(first: &Reading, last: &Reading, victim: RoleId) -> Vec<Piece> {
    let then = |occupant: RoleId, rule| {
        let (victim, occupant) = (same(last, first, victim)?, same(last, first, occupant)?);
        let is = |row: &&unstarve_watch::Blame| (row.victim, row.occupant, row.rule) == (victim, occupant, rule);
        first.blame.iter().find(is).map(|row| row.ns)
    };
    let mut pieces: Vec<Piece> = (last.blame.iter().filter(|row| row.victim == victim))
        .filter_map(|row| {
            let ns = then(row.occupant, row.rule).map_or(row.ns, |then| row.ns.saturating_sub(then));
            let occupant = last.role(row.occupant)?.name();
            (ns > Nanos::ZERO).then_some(Piece { occupant, tid: None, rule: row.rule, ns: ns.0 })
        })
        .collect();
    pieces.sort_by(|a, b| (b.ns, &a.occupant, a.rule.word()).cmp(&(a.ns, &b.occupant, b.rule.word())));
    pieces
}
