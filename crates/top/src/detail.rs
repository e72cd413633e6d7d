//! Details of one task: wakers, work items, last waits.

use unstarve_model::{NameId, Nanos, clean};
use unstarve_timeline::{ActorId, World};

use crate::Window;
use crate::view::{Piece, Row, label, pieces};
use crate::window::{LastWait, Sums, TaskIdent};

/// A waker of a task.
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

/// One wait of the opened task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitLine {
    /// When it began, before now.
    pub ago: Nanos,
    /// How long it was.
    pub length: Nanos,
    /// The CPU.
    pub cpu: u32,
    /// The occupants.
    pub blame: Vec<Piece>,
}

/// Details of one task.
#[derive(Clone, PartialEq, Debug)]
pub struct Detail {
    /// The task as in the table.
    pub row: Option<Row>,
    /// Its name and thread id.
    pub name: String,
    /// How long it ran in the window.
    pub ran: Nanos,
    /// Most frequent first.
    pub wakers: Vec<Waker>,
    /// Most items first.
    pub work: Vec<WorkLine>,
    /// The last waits since it was opened, newest first.
    pub last: Vec<WaitLine>,
}

pub(crate) fn detail(window: &Window, world: &World, who: TaskIdent, sums: Option<&Sums>, rows: &[Row]) -> Detail {
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
        row: rows.iter().find(|row| row.tid == Some(who.0.0) && row.victim == who.1.to_string()).cloned(),
        name: format!("{}[{}]", who.1, who.0),
        ran: sums.map_or(Nanos::ZERO, |sums| sums.ran),
        wakers,
        work,
        last: window.last_waits().map(line).collect(),
    }
}
