//! A view of `top` as plain data.

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
use crate::window::{Sums, TaskIdent};
use crate::{App, Window};

/// A task that has waited this long is shown even if none of its waits has ended.
const STILL: Nanos = Nanos::from_millis(10);

/// The sort order, worst first.
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
    /// The order's name.
    pub fn word(self) -> &'static str {
        match self {
            Order::Wait => "wait",
            Order::Longest => "longest",
            Order::Count => "count",
            Order::Name => "name",
        }
    }

    /// The next order.
    pub fn next(self) -> Order {
        match self {
            Order::Wait => Order::Longest,
            Order::Longest => Order::Count,
            Order::Count => Order::Name,
            Order::Name => Order::Wait,
        }
    }
}

/// The kind of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowsBy {
    /// One row for each task, from every scheduler event.
    #[default]
    Task,
    /// One row for each role, from the kernel's sums, and for tasks whose long waits were seen.
    Role,
}

/// An occupant under a rule, with its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
pub struct Piece {
    /// Its name, with the priority for real-time tasks.
    pub occupant: String,
    /// Its thread id, if it is one task.
    pub tid: Option<u32>,
    /// The rule.
    pub rule: Rule,
    /// The time.
    pub ns: u64,
}

/// A task or role that waited in the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Its name.
    pub victim: String,
    /// Its thread id; for a group, that of the task that waited longest. `None` for a role.
    pub tid: Option<u32>,
    /// The number of tasks in the row: more than one if tasks are grouped by name.
    pub tasks: u32,
    /// `kworker`, `ksoftirqd`, …, or `task`; `role` for the sum of a role.
    pub kind: &'static str,
    /// The CPU where it last waited.
    pub cpu: Option<u32>,
    /// The rule under which it waited longest, including an ongoing wait.
    pub rule: Option<Rule>,
    /// The occupant that had the CPU longest under that rule.
    pub culprit: Option<String>,
    /// The culprit's thread id, if it is one task.
    pub culprit_tid: Option<u32>,
    /// The time in waits that ended in the window.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// The number of such waits.
    pub waits: u64,
    /// The waiting time as a fraction of the window, or of the time since the start while that is shorter; more than 1
    /// if a wait began before the window.
    pub share: f64,
    /// How long it has been waiting now.
    pub waiting_ns: Option<u64>,
    /// All blame, longest first; for an ongoing wait so far.
    pub blame: Vec<Piece>,
    /// The severity of its worst finding in the last one to two windows.
    pub severity: Option<Severity>,
    /// That finding's id.
    pub finding: Option<FindingId>,
}

/// Knowledge from other sources than the events.
pub struct ViewContext<'a> {
    /// Whether a task is runnable now, if the machine can be asked.
    pub is_runnable: &'a dyn Fn(Tid) -> Option<bool>,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
}

impl ViewContext<'_> {
    /// For a recording: the machine that made it cannot be asked.
    pub fn nothing() -> ViewContext<'static> {
        ViewContext { is_runnable: &|_| None, findings: Vec::new() }
    }
}

/// Everything shown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct View {
    /// `unstarve.top/1`.
    pub schema: &'static str,
    /// The source: `live`, or a file's name.
    pub source: String,
    /// The present time on the events' clock.
    pub at_ns: u64,
    /// The time since the start.
    pub since_start_ns: u64,
    /// The window's length.
    pub window_ns: u64,
    /// Events so far.
    pub events: u64,
    /// Events lost so far.
    pub lost: u64,
    /// The CPU use of this program as a fraction of one CPU, without its eBPF programs; for live events.
    pub own_cpu: Option<f64>,
    /// How this machine's waits are counted: `eBPF`, or `tracefs`, where each event is decoded. `None` for a recording.
    pub engine: Option<&'static str>,
    /// The kind of rows.
    pub by: RowsBy,
    /// How busy each CPU is.
    pub cpus: Vec<CpuView>,
    /// Worst first.
    pub rows: Vec<Row>,
    /// The findings, worst first; remedies belong to them.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// All rows, including filtered ones, in no order.
    #[serde(skip)]
    pub all: Vec<Row>,
    /// Details of the opened task.
    #[serde(skip)]
    pub detail: Option<Detail>,
}

/// The schema's id.
const SCHEMA: &str = "unstarve.top/1";

impl View {
    /// The view of a window now.
    pub fn of(window: &mut Window, timeline: &Timeline, app: &App, source: &str, beside: ViewContext<'_>) -> View {
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

    /// An empty view.
    pub fn empty() -> View {
        View { schema: SCHEMA, ..View::default() }
    }

    /// Filters and sorts as chosen, without new data.
    pub fn arrange(&mut self, app: &App) {
        self.rows = self.all.iter().filter(|row| app.takes(row)).cloned().collect();
        if app.groups() && self.by == RowsBy::Task {
            self.rows = grouped(std::mem::take(&mut self.rows));
        }
        sort(&mut self.rows, app.order());
        if self.by == RowsBy::Role && app.order() == Order::Wait {
            // Waits among equals are the longest on a healthy machine, and mean nothing.
            self.rows.sort_by_key(|row| !row.is_by_precedence());
        }
    }

    /// The findings about a row's task, worst first.
    pub fn about<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(|finding| is_about(finding, row))
    }
}

/// Findings keep the first 128 threads of a victim; beyond those the name decides.
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

/// An actor's name, with its priority if that is why it wins.
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

fn row(window: &Window, world: &World, who: TaskIdent, sums: &Sums) -> Row {
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

/// Adds tasks that have been waiting for long: a wait is known only at its end, but they starve now.
fn add_waiting(
    rows: &mut Vec<Row>,
    cpus: &mut [CpuView],
    timeline: &Timeline,
    beside: &ViewContext<'_>,
    window: Nanos,
) {
    let world = timeline.world();
    let on: Vec<OnCpu> = timeline.on_cpus().map(|(_, on)| on).collect();
    // Some kernels leave out switches, so a task that ran and slept unseen seems to wait. Ask the machine if possible,
    // else trust the events.
    let is_believed =
        |task: &Task, on: OnCpu| (beside.is_runnable)(task.tid).unwrap_or_else(|| seems_to_wait(timeline, task, on));
    let mut lasting = OngoingWaits::default();
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

/// Waits that the window does not contain yet.
#[derive(Default)]
struct OngoingWaits {
    /// Ongoing waits so far: the occupants by task.
    so_far: FxHashMap<Tid, Vec<timeline::Piece>>,
    /// Finished waits whose blame depends on a run still in progress.
    held: Vec<FinishedWait>,
}

/// A finished wait that is not in the window.
struct FinishedWait {
    tid: Tid,
    comm: Comm,
    cpu: u32,
    length: Nanos,
    pieces: Vec<Piece>,
}

impl FinishedWait {
    /// Adds the waits to the rows of a window of this length.
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

impl Sink for OngoingWaits {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        if wait.ended != WaitEnd::Ran {
            self.so_far.insert(task.tid, wait.pieces.to_vec());
        } else {
            let pieces = pieces(world, wait.pieces.iter().map(|piece| (piece.occupant, piece.rule, piece.length)));
            self.held.push(FinishedWait {
                tid: task.tid,
                comm: task.comm,
                cpu: wait.cpu.0,
                length: wait.length(),
                pieces,
            });
        }
    }
}

impl Row {
    /// Adds the blame of an ongoing wait so far.
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

    /// Whether it waited longest because a rule prefers another task, as the watch's page and alerts judge.
    fn is_by_precedence(&self) -> bool {
        self.rule.is_some_and(unstarve_watch::is_precedence)
    }

    /// A task whose waits have not ended in the window.
    pub(crate) fn of_nothing(victim: String, tid: Option<Tid>) -> Row {
        Row { victim, tid: tid.map(|tid| tid.0), tasks: 1, kind: "task", ..Row::default() }
    }
}

/// Ongoing waits count with their length so far.
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
