//! What is shown, as plain data.

use serde::Serialize;
use unstarve_model::{KernelThread, NameId, Nanos, Tid, clean};
use unstarve_timeline::{ActorId, Rule, Timeline, World};

use crate::window::{LastWait, Sums, Who};
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

/// An occupant under a rule, and for how long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Piece {
    /// Its name, with the priority of real-time tasks.
    pub occupant: String,
    /// The rule's word.
    pub rule: &'static str,
    /// How long.
    pub ns: u64,
}

/// A task that waited in the window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub victim: String,
    /// Its thread id.
    pub tid: u32,
    /// `kworker`, `ksoftirqd`, …, or `task`.
    pub kind: &'static str,
    /// Where it last waited.
    pub cpu: Option<u32>,
    /// The rule under which it waited longest.
    pub rule: Option<&'static str>,
    /// Who had the CPU longest under that rule.
    pub culprit: Option<String>,
    /// How long it waited in waits that ended in the window.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// How many there were.
    pub waits: u64,
    /// The time waited as a part of the window; more than 1 if a wait began before it.
    pub share: f64,
    /// How long it has been waiting at this moment.
    pub waiting_ns: Option<u64>,
    /// All of the blame, longest first.
    pub blame: Vec<Piece>,
}

/// Who woke a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waker {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Work items of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkLine {
    /// The function.
    pub function: String,
    /// How many.
    pub items: u64,
    /// From queueing to end, on average, where queueing was seen.
    pub latency: Option<Nanos>,
}

/// One wait of the task that is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitLine {
    /// When it began, seconds before now.
    pub ago: Nanos,
    /// How long it was.
    pub length: Nanos,
    /// Where.
    pub cpu: u32,
    /// Who had the CPU.
    pub blame: Vec<Piece>,
}

/// More of one task.
#[derive(Clone, PartialEq, Debug)]
pub struct Detail {
    /// The task as in the table.
    pub row: Option<Row>,
    /// Its name and number.
    pub name: String,
    /// How long it ran in the window.
    pub ran: Nanos,
    /// Most often first.
    pub wakers: Vec<Waker>,
    /// Most items first.
    pub work: Vec<WorkLine>,
    /// The last ones since it is looked at, newest first.
    pub last: Vec<WaitLine>,
}

/// All that is shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
    /// CPU time of this program as a part of one CPU, for a live recording.
    pub own_cpu: Option<f64>,
    /// Worst first.
    pub rows: Vec<Row>,
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
    pub fn of(window: &mut Window, timeline: &Timeline, app: &App, source: &str) -> View {
        let world = timeline.world();
        window.advance(world.now);
        window.watch(app.detail());
        let sums = window.sums();
        let mut rows: Vec<Row> =
            sums.iter().filter(|(_, sums)| sums.waits > 0).map(|(who, sums)| row(window, world, *who, sums)).collect();
        add_waiting(&mut rows, world);
        let detail = app.detail().map(|who| detail(window, world, who, sums.get(&who), &rows));
        let mut view = View {
            schema: SCHEMA,
            source: clean(source).into_owned(),
            at_ns: world.now.0,
            since_start_ns: world.now.since(world.start).0,
            window_ns: window.length().0,
            events: 0,
            lost: 0,
            own_cpu: None,
            rows: Vec::new(),
            all: rows,
            detail,
        };
        view.arrange(app);
        view
    }

    /// Filters and sorts as chosen, with no news.
    pub fn arrange(&mut self, app: &App) {
        self.rows = self.all.iter().filter(|row| app.takes(row)).cloned().collect();
        sort(&mut self.rows, app.order());
    }
}

/// An actor's name, and the priority where that is what makes it win.
fn label(world: &World, id: ActorId) -> String {
    let name = clean(&world.name(id)).into_owned();
    match world.actors.get(id).prio() {
        Some(prio) if (0..100).contains(&prio.0) => format!("{name} RT {}", 99 - prio.0),
        Some(prio) if prio.0 < 0 => format!("{name} DL"),
        _ => name,
    }
}

fn pieces<'a>(world: &World, list: impl Iterator<Item = (ActorId, Rule, Nanos)> + 'a) -> Vec<Piece> {
    let piece = |(actor, rule, length): (ActorId, Rule, Nanos)| Piece {
        occupant: label(world, actor),
        rule: rule.word(),
        ns: length.0,
    };
    let mut all: Vec<Piece> = list.map(piece).collect();
    all.sort_by(|a, b| (b.ns, &a.occupant, a.rule).cmp(&(a.ns, &b.occupant, b.rule)));
    all
}

fn row(window: &Window, world: &World, who: Who, sums: &Sums) -> Row {
    let blame = pieces(world, sums.pieces.iter().map(|(&(actor, rule), &length)| (actor, rule, length)));
    Row {
        victim: who.1.to_string(),
        tid: who.0.0,
        kind: KernelThread::of(&who.1).map_or("task", |thread| thread.word()),
        cpu: sums.cpu.map(|cpu| cpu.0),
        rule: blame.first().map(|piece| piece.rule),
        culprit: blame.first().map(|piece| piece.occupant.clone()),
        wait_ns: sums.waited.0,
        longest_ns: sums.longest.0,
        waits: sums.waits,
        share: sums.waited.share_of(window.length()),
        waiting_ns: None,
        blame,
    }
}

/// Adds those who wait now, and for long: a wait is known only when it ends, but they are starving at this moment.
fn add_waiting(rows: &mut Vec<Row>, world: &World) {
    for (_, task) in world.tasks.iter() {
        let Some((since, cpu)) = task.waiting_since() else { continue };
        let waiting = world.now.since(since);
        if waiting < STILL {
            continue;
        }
        let is_known = |row: &&mut Row| row.tid == task.tid.0 && row.victim == task.comm.to_string();
        match rows.iter_mut().find(is_known) {
            Some(row) => row.waiting_ns = Some(waiting.0),
            None => rows.push(Row {
                victim: task.comm.to_string(),
                tid: task.tid.0,
                kind: task.kernel_thread.map_or("task", |thread| thread.word()),
                cpu: Some(cpu.0),
                rule: None,
                culprit: None,
                wait_ns: 0,
                longest_ns: 0,
                waits: 0,
                share: 0.0,
                waiting_ns: Some(waiting.0),
                blame: Vec::new(),
            }),
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

fn detail(window: &Window, world: &World, who: Who, sums: Option<&Sums>, rows: &[Row]) -> Detail {
    let name = |id: NameId| clean(world.names.get(id)).into_owned();
    let mut wakers: Vec<Waker> = sums.map_or_else(Vec::new, |sums| {
        let waker = |(actor, count): (&Option<ActorId>, &u64)| Waker {
            name: actor.map_or_else(|| "an interrupt, or unknown".to_owned(), |actor| label(world, actor)),
            count: *count,
        };
        sums.wakers.iter().map(waker).collect()
    });
    wakers.sort_by(|a, b| (b.count, &a.name).cmp(&(a.count, &b.name)));
    let mut work: Vec<WorkLine> = sums.map_or_else(Vec::new, |sums| {
        let line = |(function, (items, timed, length)): (&Option<NameId>, &(u64, u64, Nanos))| WorkLine {
            function: function.map_or_else(|| "unknown function".to_owned(), name),
            items: *items,
            latency: length.0.checked_div(*timed).map(Nanos),
        };
        sums.items.iter().map(line).collect()
    });
    work.sort_by(|a, b| (b.items, &a.function).cmp(&(a.items, &b.function)));
    let line = |wait: &LastWait| WaitLine {
        ago: world.now.since(wait.start),
        length: wait.length,
        cpu: wait.cpu.0,
        blame: pieces(world, wait.pieces.iter().map(|piece| (piece.occupant, piece.rule, piece.length))),
    };
    Detail {
        row: rows.iter().find(|row| Tid(row.tid) == who.0 && row.victim == who.1.to_string()).cloned(),
        name: format!("{}[{}]", who.1, who.0),
        ran: sums.map_or(Nanos::ZERO, |sums| sums.ran),
        wakers,
        work,
        last: window.last_waits().map(line).collect(),
    }
}
