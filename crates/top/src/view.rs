//! What is shown, as plain data.

use rustc_hash::FxHashMap;
use serde::Serialize;
use unstarve_diagnose::report::{Finding, FindingId, Severity, VictimKind};
use unstarve_diagnose::seems_to_wait;
use unstarve_model::{Comm, Nanos, Tid, clean};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{self as timeline, ActorId, OnCpu, Sink, Task, Timeline, Wait, WaitEnd, World};

use crate::cpus::CpuView;
use crate::detail::{Detail, detail};
use crate::group::grouped;
use crate::window::{Sums, Who};
use crate::{App, Window};

/// A task that waits at least this long at this moment is shown even if no wait of it has ended yet.
const STILL: Nanos = Nanos::from_millis(10);

/// By what rows are sorted; the worst first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Time waited in the window.
    Wait,
    /// The longest wait.
    Longest,
    /// The number of waits.
    Count,
    /// The victim's name.
    Name,
}

impl Order {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Order::Wait => "wait",
            Order::Longest => "longest",
            Order::Count => "count",
            Order::Name => "name",
        }
    }

    /// The one after it.
    pub fn next(self) -> Order {
        match self {
            Order::Wait => Order::Longest,
            Order::Longest => Order::Count,
            Order::Count => Order::Name,
            Order::Name => Order::Wait,
        }
    }
}

/// What rows are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A task each, from every event of the scheduler.
    Task,
    /// A role each, from the kernel's sums, and the tasks whose long waits were seen.
    Role,
}

/// An occupant under a rule, and for how long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
pub struct Piece {
    /// Its name, with the priority of real-time tasks.
    pub occupant: String,
    /// Its thread id, if it is one task.
    pub tid: Option<u32>,
    /// By which rule.
    pub rule: Rule,
    /// How long.
    pub ns: u64,
}

/// A task that waited in the window.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Its name.
    pub victim: String,
    /// Its thread id; of tasks in a group, that of the one that waited longest. None of a role.
    pub tid: Option<u32>,
    /// How many tasks the row stands for: more than one where tasks are grouped by name.
    pub tasks: u32,
    /// `kworker`, `ksoftirqd`, …, or `task`; `role` where all tasks of one are summed up.
    pub kind: &'static str,
    /// Where it last waited.
    pub cpu: Option<u32>,
    /// The rule under which it waited longest, a wait that lasts included.
    pub rule: Option<Rule>,
    /// Who had the CPU longest under that rule.
    pub culprit: Option<String>,
    /// The culprit's thread id, if it is one task.
    pub culprit_tid: Option<u32>,
    /// How long it waited in waits that ended in the window.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// How many there were.
    pub waits: u64,
    /// The time waited as a part of the window, or of the time since the beginning while that is shorter; more than 1 if a
    /// wait began before it.
    pub share: f64,
    /// How long it has been waiting at this moment.
    pub waiting_ns: Option<u64>,
    /// All of the blame, longest first; of a wait that lasts, so far.
    pub blame: Vec<Piece>,
    /// How bad the worst finding about it is, of the last one to two windows.
    pub severity: Option<Severity>,
    /// That finding's id.
    pub finding: Option<FindingId>,
}

/// What is known beside the events.
pub struct Beside<'a> {
    /// Whether a task is runnable at this moment, where the machine can be asked.
    pub is_runnable: &'a dyn Fn(Tid) -> Option<bool>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
}

impl Beside<'_> {
    /// Nothing: of a recording, the machine that made it cannot be asked.
    pub fn nothing() -> Beside<'static> {
        Beside { is_runnable: &|_| None, findings: Vec::new() }
    }
}

/// All that is shown.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct View {
    /// `unstarve.top/1`.
    pub schema: &'static str,
    /// What is looked at: `live`, or a file's name.
    pub source: String,
    /// Now, on the clock of the events.
    pub at_ns: u64,
    /// Since the beginning.
    pub since_start_ns: u64,
    /// The window's length.
    pub window_ns: u64,
    /// Events so far.
    pub events: u64,
    /// Events lost so far.
    pub lost: u64,
    /// CPU time of this program as a part of one CPU, for a live recording; that of its programs in the kernel is not in it.
    pub own_cpu: Option<f64>,
    /// By what waits of this machine are counted: `eBPF`, or `tracefs` where each event is decoded. None of a recording.
    pub engine: Option<&'static str>,
    /// What the rows are of.
    pub by: By,
    /// How busy each CPU is.
    pub cpus: Vec<CpuView>,
    /// Worst first.
    pub rows: Vec<Row>,
    /// What is wrong, worst first: what the remedies are of.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// Also those that the filter leaves out, in no order.
    #[serde(skip)]
    pub all: Vec<Row>,
    /// More of one task, if one is looked at.
    #[serde(skip)]
    pub detail: Option<Detail>,
}

/// The schema's id.
const SCHEMA: &str = "unstarve.top/1";

impl View {
    /// What the window shows now.
    pub fn of(window: &mut Window, timeline: &Timeline, app: &App, source: &str, beside: Beside<'_>) -> View {
        let world = timeline.world();
        window.advance(world.now);
        window.watch(app.detail());
        let sums = window.sums();
        let mut rows: Vec<Row> =
            sums.iter().filter(|(_, sums)| sums.waits > 0).map(|(who, sums)| row(window, world, *who, sums)).collect();
        let mut cpus = window.cpus(timeline);
        add_waiting(&mut rows, &mut cpus, timeline, &beside, window.elapsed(world));
        for row in &mut rows {
            judge(row, &beside.findings);
        }
        let detail = app.detail().map(|who| detail(window, world, who, sums.get(&who), &rows));
        let mut view = View {
            source: clean(source).into_owned(),
            at_ns: world.now.0,
            since_start_ns: world.now.since(world.start).0,
            window_ns: window.length().0,
            cpus,
            findings: beside.findings,
            all: rows,
            detail,
            ..View::empty()
        };
        view.arrange(app);
        view
    }

    /// Of nothing.
    pub fn empty() -> View {
        View {
            schema: SCHEMA,
            source: String::new(),
            at_ns: 0,
            since_start_ns: 0,
            window_ns: 0,
            events: 0,
            lost: 0,
            own_cpu: None,
            engine: None,
            by: By::Task,
            cpus: Vec::new(),
            rows: Vec::new(),
            findings: Vec::new(),
            all: Vec::new(),
            detail: None,
        }
    }

    /// Filters and sorts as chosen, with no news.
    pub fn arrange(&mut self, app: &App) {
        self.rows = self.all.iter().filter(|row| app.takes(row)).cloned().collect();
        if app.groups() && self.by == By::Task {
            self.rows = grouped(std::mem::take(&mut self.rows));
        }
        sort(&mut self.rows, app.order());
        if self.by == By::Role && app.order() == Order::Wait {
            // Waits among equals are the longest on a healthy machine, and say nothing.
            self.rows.sort_by_key(|row| !row.is_by_precedence());
        }
    }

    /// What is wrong with the task of a row, worst first.
    pub fn about<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(|finding| is_about(finding, row))
    }
}

/// Findings keep the first 128 threads of a victim; of more, the name has to do.
fn is_about(finding: &Finding, row: &Row) -> bool {
    let victim = &finding.victim;
    row.tid.is_some_and(|tid| victim.tids.contains(&tid))
        || victim.comm == row.victim && victim.tasks as usize > victim.tids.len()
}

fn judge(row: &mut Row, findings: &[Finding]) {
    let worst = findings.iter().filter(|finding| is_about(finding, row)).max_by_key(|finding| finding.severity);
    row.severity = worst.map(|finding| finding.severity);
    row.finding = worst.map(|finding| finding.id.clone());
}

/// An actor's name, and the priority where that is what makes it win.
pub(crate) fn label(world: &World, id: ActorId) -> String {
    let name = clean(&world.name(id)).into_owned();
    match world.actors.get(id).prio() {
        Some(prio) if (0..100).contains(&prio.0) => format!("{name} RT {}", 99 - prio.0),
        Some(prio) if prio.0 < 0 => format!("{name} DL"),
        _ => name,
    }
}

pub(crate) fn pieces<'a>(world: &World, list: impl Iterator<Item = (ActorId, Rule, Nanos)> + 'a) -> Vec<Piece> {
    let piece = |(actor, rule, length): (ActorId, Rule, Nanos)| Piece {
        occupant: label(world, actor),
        tid: match world.actors.get(actor).tids.as_slice() {
            [only] => Some(only.0),
            _ => None,
        },
        rule,
        ns: length.0,
    };
    let mut all: Vec<Piece> = list.map(piece).collect();
    all.sort_by(|a, b| (b.ns, &a.occupant, a.rule.word()).cmp(&(a.ns, &b.occupant, b.rule.word())));
    all
}

fn row(window: &Window, world: &World, who: Who, sums: &Sums) -> Row {
    let blame = pieces(world, sums.pieces.iter().map(|(&(actor, rule), &length)| (actor, rule, length)));
    Row {
        victim: who.1.to_string(),
        tid: Some(who.0.0),
        tasks: 1,
        kind: VictimKind::from(KernelThread::of(&who.1)).word(),
        cpu: sums.cpu.map(|cpu| cpu.0),
        rule: blame.first().map(|piece| piece.rule),
        culprit: blame.first().map(|piece| piece.occupant.clone()),
        culprit_tid: blame.first().and_then(|piece| piece.tid),
        wait_ns: sums.waited.0,
        longest_ns: sums.longest.0,
        waits: sums.waits,
        share: sums.waited.share_of(window.elapsed(world)),
        waiting_ns: None,
        blame,
        severity: None,
        finding: None,
    }
}

/// Adds those who wait now, and for long: a wait is known only when it ends, but they are starving at this moment.
fn add_waiting(rows: &mut Vec<Row>, cpus: &mut [CpuView], timeline: &Timeline, beside: &Beside<'_>, window: Nanos) {
    let world = timeline.world();
    let on: Vec<OnCpu> = timeline.on_cpus().map(|(_, on)| on).collect();
    // Some kernels leave out switches, and a task that ran and slept unseen then seems to wait. The machine knows; where it cannot be
    // asked, the events have to do.
    let is_believed =
        |task: &Task, on: OnCpu| (beside.is_runnable)(task.tid).unwrap_or_else(|| seems_to_wait(timeline, task, on));
    let mut lasting = Lasting::default();
    timeline.so_far(STILL, is_believed, &mut lasting);
    std::mem::take(&mut lasting.held).into_iter().for_each(|held| held.add_to(rows, window));
    for (_, task) in world.tasks.iter() {
        let Some((since, cpu)) = task.waiting_since() else { continue };
        let waiting = world.now.since(since);
        if waiting < STILL || !is_believed(task, on.get(cpu.index()).copied().unwrap_or(OnCpu::Unknown)) {
            continue;
        }
        if let Some(cpu) = cpus.get_mut(cpu.index()) {
            cpu.waiting += 1;
        }
        let so_far = lasting.so_far.get(&task.tid).into_iter().flatten();
        let so_far = pieces(world, so_far.map(|piece| (piece.occupant, piece.rule, piece.length)));
        let is_known = |row: &&mut Row| row.tid == Some(task.tid.0) && row.victim == task.comm.to_string();
        match rows.iter_mut().find(is_known) {
            Some(row) => {
                row.waiting_ns = Some(waiting.0);
                row.add_blame(so_far);
            }
            None => {
                let mut row = Row {
                    kind: VictimKind::from(task.kernel_thread).word(),
                    waiting_ns: Some(waiting.0),
                    cpu: Some(cpu.0),
                    ..Row::of_nothing(task.comm.to_string(), Some(task.tid))
                };
                row.add_blame(so_far);
                rows.push(row);
            }
        }
    }
}

/// What the window does not have yet.
#[derive(Default)]
struct Lasting {
    /// Waits that last, as far as they have come: who had the CPU, by task.
    so_far: FxHashMap<Tid, Vec<timeline::Piece>>,
    /// Waits that are over: who had the CPU has it still, and nobody knows yet as what.
    held: Vec<Held>,
}

/// A wait that is over and not in the window.
struct Held {
    tid: Tid,
    comm: Comm,
    cpu: u32,
    length: Nanos,
    pieces: Vec<Piece>,
}

impl Held {
    /// Adds it to the rows of a window of this length.
    fn add_to(self, rows: &mut Vec<Row>, window: Nanos) {
        let name = self.comm.to_string();
        let is_known = |row: &Row| row.tid == Some(self.tid.0) && row.victim == name;
        let place = rows.iter().position(is_known).unwrap_or_else(|| {
            let kind = VictimKind::from(KernelThread::of(&self.comm)).word();
            rows.push(Row { kind, cpu: Some(self.cpu), ..Row::of_nothing(name.clone(), Some(self.tid)) });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.wait_ns = row.wait_ns.saturating_add(self.length.0);
        row.longest_ns = row.longest_ns.max(self.length.0);
        row.waits += 1;
        row.share = Nanos(row.wait_ns).share_of(window);
        row.add_blame(self.pieces);
    }
}

impl Sink for Lasting {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        if wait.ended != WaitEnd::Ran {
            self.so_far.insert(task.tid, wait.pieces.to_vec());
        } else {
            let pieces = pieces(world, wait.pieces.iter().map(|piece| (piece.occupant, piece.rule, piece.length)));
            self.held.push(Held { tid: task.tid, comm: task.comm, cpu: wait.cpu.0, length: wait.length(), pieces });
        }
    }
}

impl Row {
    /// Adds what a wait that lasts is to be blamed on so far.
    fn add_blame(&mut self, so_far: Vec<Piece>) {
        for piece in so_far {
            let is_same = |known: &&mut Piece| {
                (&known.occupant, known.tid, known.rule) == (&piece.occupant, piece.tid, piece.rule)
            };
            match self.blame.iter_mut().find(is_same) {
                Some(known) => known.ns += piece.ns,
                None => self.blame.push(piece),
            }
        }
        self.blame.sort_by(|a, b| (b.ns, &a.occupant, a.rule.word()).cmp(&(a.ns, &b.occupant, b.rule.word())));
        let worst = self.blame.first();
        self.rule = worst.map(|piece| piece.rule);
        self.culprit = worst.map(|piece| piece.occupant.clone());
        self.culprit_tid = worst.and_then(|piece| piece.tid);
    }

    /// Whether it waited longest because a rule prefers another one, as the page of the watch and its alarms judge.
    fn is_by_precedence(&self) -> bool {
        self.rule.is_some_and(unstarve_watch::is_precedence)
    }

    /// A task of which no wait has ended in the window.
    pub(crate) fn of_nothing(victim: String, tid: Option<Tid>) -> Row {
        Row {
            victim,
            tid: tid.map(|tid| tid.0),
            tasks: 1,
            kind: "task",
            cpu: None,
            rule: None,
            culprit: None,
            culprit_tid: None,
            wait_ns: 0,
            longest_ns: 0,
            waits: 0,
            share: 0.0,
            waiting_ns: None,
            blame: Vec::new(),
            severity: None,
            finding: None,
        }
    }
}

/// Who waits now counts with what has been waited already.
fn sort(rows: &mut [Row], order: Order) {
    let now = |row: &Row| row.waiting_ns.unwrap_or(0);
    rows.sort_by(|a, b| {
        let key = |row: &Row| match order {
            Order::Wait => row.wait_ns + now(row),
            Order::Longest => row.longest_ns.max(now(row)),
            Order::Count => row.waits,
            Order::Name => 0,
        };
        (key(b), &a.victim, a.tid).cmp(&(key(a), &b.victim, b.tid))
    });
}
