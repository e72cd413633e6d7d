//! A view of `top` as plain data.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use unstarve_diagnose::report::{Boot, Finding, FindingId, Severity, VictimKind};
use unstarve_diagnose::seems_to_wait;
use unstarve_model::{Comm, CpuId, Nanos, Tid, Time, clean};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{self as timeline, ActorId, OnCpu, Sink, Task, Timeline, Wait, WaitEnd, World};

use crate::cpus::CpuView;
use crate::detail::{Detail, detail};
use crate::group::{grouped, stem};
use crate::headline::headline;
use crate::policies;
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
    /// One row for each role, from the kernel's sums.
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
    /// For which part of the window, or of the time since the start while that is shorter, it waited, the ongoing wait included.
    /// Of several threads: the worst one's; of a role, whose threads are not counted one by one, 1 at most. Never above 1.
    pub share: f64,
    /// Of several threads: how many of them waited at a time, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_waiting: Option<f64>,
    /// The role that a task beside roles belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How long it has been waiting now.
    pub waiting_ns: Option<u64>,
    /// All blame, longest first; for an ongoing wait so far.
    pub blame: Vec<Piece>,
    /// The severity of its worst finding in the last one to two windows.
    pub severity: Option<Severity>,
    /// That finding's id.
    pub finding: Option<FindingId>,
    /// Its waiting time in each step of the last windows, oldest first; empty if unknown.
    #[serde(skip)]
    pub history: Vec<u64>,
}

/// Knowledge from other sources than the events.
pub struct ViewContext<'a> {
    /// Whether a task is runnable now, if the machine can be asked.
    pub is_runnable: &'a dyn Fn(Tid) -> Option<bool>,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
    /// What `unstarve fix` can read of this trace.
    pub recording: FixableRecording,
}

/// The recording that `unstarve fix` can plan with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum FixableRecording {
    /// None yet: it has to be made.
    #[default]
    ToBeMade,
    /// A file, its name quoted for a shell, and whether it names its boot.
    File(String, Boot),
}

impl ViewContext<'_> {
    /// For a recording: the machine that made it cannot be asked.
    pub fn nothing() -> ViewContext<'static> {
        ViewContext { is_runnable: &|_| None, findings: Vec::new(), recording: FixableRecording::ToBeMade }
    }
}

/// Everything shown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct View {
    /// `unstarve.top/1`.
    pub schema: &'static str,
    /// The answer in one sentence: who starves whom.
    pub headline: String,
    /// How bad that is.
    #[serde(skip)]
    pub alarm: Option<Severity>,
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
    /// Beside rows of roles: the tasks whose long waits were seen, worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Row>,
    /// The length of a step of `history`.
    #[serde(skip)]
    pub history_step_ns: u64,
    /// The policies of real-time tasks, where the machine was asked: `FIFO 50`.
    #[serde(skip)]
    pub policies: BTreeMap<u32, String>,
    /// What `unstarve fix` can read.
    #[serde(skip)]
    pub recording: FixableRecording,
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

/// The kind of a row that is the sum of a role.
pub(crate) const ROLE: &str = "role";
/// The schema's id.
const SCHEMA: &str = "unstarve.top/1";

impl View {
    /// The view of a window now.
    pub fn of(window: &mut Window, timeline: &Timeline, app: &App, source: &str, beside: ViewContext<'_>) -> View {
        let world = timeline.world();
        window.advance(world.now);
        window.watch(app.detail());
        let sums = window.sums();
        let waited = window.waited(world.now);
        let mut rows: Vec<Row> = sums
            .iter()
            .filter(|(_, sums)| sums.waits > 0)
            .map(|(who, sums)| row(window, world, *who, sums, waited.get(who).copied().unwrap_or(0)))
            .collect();
        let mut cpus = window.cpus(timeline);
        add_waiting(&mut rows, &mut cpus, timeline, &beside, window);
        cpus.retain(|cpu| window.selection().has_cpu(CpuId(cpu.cpu)));
        let is_drawn = rows.len() <= MAX_CURVES;
        for row in &mut rows {
            judge(row, &beside.findings);
            if let Some(tid) = row.tid.filter(|_| is_drawn) {
                row.history = window.history((Tid(tid), Comm::from(row.victim.as_str())));
            }
        }
        let detail = app.detail().map(|who| detail(window, world, who, sums.get(&who), &rows));
        let mut view = View {
            source: clean(source).into_owned(),
            at_ns: world.now.0,
            since_start_ns: world.now.since(world.start).0,
            window_ns: window.length().0,
            cpus,
            history_step_ns: window.slice().0,
            recording: beside.recording,
            findings: beside.findings,
            all: rows,
            detail,
            ..View::empty()
        };
        view.arrange(app);
        view.sum_up();
        view
    }

    /// Names real-time tasks by their policy: `hog FIFO 50`. `ask` returns that of a living task, which events do not have.
    pub fn with_policies(mut self, ask: &dyn Fn(Tid) -> Option<String>) -> View {
        policies::name(&mut self, ask);
        self.sum_up();
        self
    }

    pub(crate) fn sum_up(&mut self) {
        (self.headline, self.alarm) = headline(self);
    }

    /// Whether as much time as a window covers has been seen.
    pub(crate) fn has_seen_a_window(&self) -> bool {
        self.since_start_ns >= self.window_ns
    }

    /// An empty view.
    pub fn empty() -> View {
        View { schema: SCHEMA, ..View::default() }
    }

    /// Filters and sorts as chosen, without new data.
    pub fn arrange(&mut self, app: &App) {
        let is_listed = |row: &&Row| match (self.by, app.opened_group()) {
            (RowsBy::Role, None) => row.is_role(),
            (RowsBy::Role, Some(role)) => row.group.as_deref() == Some(role),
            (RowsBy::Task, None) => true,
            (RowsBy::Task, Some(name)) => stem(&row.victim) == name,
        };
        self.rows = self.all.iter().filter(is_listed).filter(|row| app.takes(row)).cloned().collect();
        if self.by == RowsBy::Role {
            self.tasks = self.all.iter().filter(|row| !row.is_role() && app.takes(row)).cloned().collect();
            sort(&mut self.tasks, app.order());
        }
        if app.lists_names() && self.by == RowsBy::Task {
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

/// Rows with a curve; beyond that only hostile traces have.
const MAX_CURVES: usize = 1024;

/// Findings keep the first 128 threads of a victim; beyond those the name decides.
pub(crate) fn is_about(finding: &Finding, row: &Row) -> bool {
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

/// `waited`: within the window.
fn row(window: &Window, world: &World, who: TaskIdent, sums: &Sums, waited: u64) -> Row {
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
        share: Nanos(waited).share_of(window.elapsed(world)).min(1.0),
        blame,
        ..Row::default()
    }
}

/// Adds tasks that have been waiting for long: a wait is known only at its end, but they starve now.
fn add_waiting(
    rows: &mut Vec<Row>,
    cpus: &mut [CpuView],
    timeline: &Timeline,
    beside: &ViewContext<'_>,
    window: &Window,
) {
    let world = timeline.world();
    let (elapsed, selection) = (window.elapsed(world), window.selection());
    let began = Time(world.now.0.saturating_sub(elapsed.0));
    let on: Vec<OnCpu> = timeline.on_cpus().map(|(_, on)| on).collect();
    // Some kernels leave out switches, so a task that ran and slept unseen seems to wait. Ask the machine if possible,
    // else trust the events.
    let is_believed =
        |task: &Task, on: OnCpu| (beside.is_runnable)(task.tid).unwrap_or_else(|| seems_to_wait(timeline, task, on));
    let mut lasting = OngoingWaits::default();
    timeline.so_far(STILL, is_believed, &mut lasting);
    let is_selected = |comm: &Comm, tid: Tid, cpu: CpuId, since: Time, end: Time| {
        selection.has_task(comm, tid) && selection.has_cpu(cpu) && selection.has_span(since, end, world.start)
    };
    for held in std::mem::take(&mut lasting.held) {
        if is_selected(&held.comm, held.tid, CpuId(held.cpu), held.start, held.end) {
            held.add_to(rows, (began, elapsed));
        }
    }
    for (_, task) in world.tasks.iter() {
        let Some((since, cpu)) = task.waiting_since() else { continue };
        let waiting = world.now.since(since);
        if waiting < STILL || !is_believed(task, on.get(cpu.index()).copied().unwrap_or(OnCpu::Unknown)) {
            continue;
        }
        if let Some(cpu) = cpus.get_mut(cpu.index()) {
            cpu.waiting += 1;
        }
        if !is_selected(&task.comm, task.tid, cpu, since, world.now) {
            continue;
        }
        let share = world.now.since(since.max(began)).share_of(elapsed);
        let so_far = lasting.so_far.get(&task.tid).into_iter().flatten();
        let so_far = pieces(world, so_far.map(|piece| (piece.occupant, piece.rule, piece.length)));
        let is_known = |row: &&mut Row| row.tid == Some(task.tid.0) && row.victim == task.comm.to_string();
        match rows.iter_mut().find(is_known) {
            Some(row) => {
                row.waiting_ns = Some(waiting.0);
                row.share = (row.share + share).min(1.0);
                row.add_blame(so_far);
            }
            None => {
                let mut row = Row {
                    kind: VictimKind::from(task.kernel_thread).word(),
                    waiting_ns: Some(waiting.0),
                    share: share.min(1.0),
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
    start: Time,
    end: Time,
    pieces: Vec<Piece>,
}

impl FinishedWait {
    /// Adds the waits to the rows of a window that began then and is this long.
    fn add_to(self, rows: &mut Vec<Row>, (began, elapsed): (Time, Nanos)) {
        let length = self.end.since(self.start);
        let name = self.comm.to_string();
        let is_known = |row: &Row| row.tid == Some(self.tid.0) && row.victim == name;
        let place = rows.iter().position(is_known).unwrap_or_else(|| {
            let kind = VictimKind::from(KernelThread::of(&self.comm)).word();
            rows.push(Row { kind, cpu: Some(self.cpu), ..Row::of_nothing(name.clone(), Some(self.tid)) });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.wait_ns = row.wait_ns.saturating_add(length.0);
        row.longest_ns = row.longest_ns.max(length.0);
        row.waits += 1;
        row.share = (row.share + self.end.since(self.start.max(began)).share_of(elapsed)).min(1.0);
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
                start: wait.start,
                end: wait.end,
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

    /// The longest wait, the ongoing one included.
    pub(crate) fn longest(&self) -> u64 {
        self.longest_ns.max(self.waiting_ns.unwrap_or(0))
    }

    /// Whether it is the sum of a role.
    pub(crate) fn is_role(&self) -> bool {
        self.kind == ROLE
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
