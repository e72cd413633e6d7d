//! The tasks that a claim is about.

use rustc_hash::FxHashSet;
use unstarve_model::{Prio, Tid};
use unstarve_timeline::ActorId;

use crate::case::Case;
use crate::draft::members;
use crate::report::Work;

/// Tasks, or others that have a CPU (interrupts, idle), by name.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Actors {
    /// Each name once.
    pub names: Vec<String>,
    /// The priority of the first.
    pub prio: Option<Prio>,
    /// Thread ids, where the name is not enough: a task on the other side of the wait has it, too.
    pub tids: Vec<Tid>,
}

/// Tasks of one kind: threads of one name, or workers with the same work.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Kind {
    pub name: String,
    /// The number of tasks.
    pub tasks: u32,
    /// What a worker works on.
    pub work: Option<Work>,
    pub prio: Option<Prio>,
    /// See [`Actors::tids`].
    pub tids: Vec<Tid>,
}

impl Actors {
    pub fn of(case: &Case<'_>, actors: impl IntoIterator<Item = ActorId>) -> Actors {
        let mut actors = actors.into_iter().peekable();
        let prio = actors.peek().and_then(|first| case.actor(*first).prio());
        let mut seen = FxHashSet::default();
        let names = actors.map(|actor| case.name(actor)).filter(|name| seen.insert(name.clone())).collect();
        Actors { names, prio, tids: Vec::new() }
    }

    /// `these`, with thread ids if one of the others has a name of theirs.
    pub fn apart_from(case: &Case<'_>, these: &[ActorId], others: &[ActorId]) -> Actors {
        let actors = Actors::of(case, these.iter().copied());
        let tids = shared(case, these, others);
        if tids.is_empty() || actors.names.len() <= 1 {
            return Actors { tids, ..actors };
        }
        // Of several names, the ids belong to those that both sides have.
        let is_shared = |name: &String| others.iter().any(|other| case.name(*other) == *name);
        let with_tids = |name: String| {
            let these: Vec<ActorId> = these.iter().copied().filter(|id| case.name(*id) == name).collect();
            Actors { tids: shared(case, &these, others), names: vec![name], prio: None }.to_string()
        };
        let named = |name: String| if is_shared(&name) { with_tids(name) } else { name };
        Actors { names: actors.names.into_iter().map(named).collect(), ..actors }
    }
}

impl Kind {
    pub fn of(case: &Case<'_>, victims: &[ActorId]) -> Kind {
        let victims = case.named(victims);
        let Some(first) = victims.first().copied() else { return Kind::default() };
        Kind {
            name: case.name(first),
            tasks: members(case, victims.iter().copied()),
            work: case.work(first),
            prio: case.actor(first).prio(),
            tids: Vec::new(),
        }
    }

    /// See [`Actors::apart_from`].
    pub fn apart_from(case: &Case<'_>, these: &[ActorId], others: &[ActorId]) -> Kind {
        Kind { tids: shared(case, these, others), ..Kind::of(case, these) }
    }

    /// One thread of several with its name.
    pub fn thread(case: &Case<'_>, id: ActorId, tid: Tid) -> Kind {
        Kind { prio: case.actor(id).prio(), ..Kind::named(case.name(id), tid) }
    }

    /// One thread that may have been of several actors.
    pub fn named(name: String, tid: Tid) -> Kind {
        Kind { name, tasks: 1, tids: vec![tid], ..Kind::default() }
    }
}

/// The threads of those among `these` that have a name in common with one of the others.
fn shared(case: &Case<'_>, these: &[ActorId], others: &[ActorId]) -> Vec<Tid> {
    let is_shared = |id: &&ActorId| others.iter().any(|other| case.name(*other) == case.name(**id));
    let these = case.named(these);
    let mut tids: Vec<Tid> =
        these.iter().filter(is_shared).flat_map(|id| case.actor(*id).tids.iter().copied()).collect();
    tids.sort_unstable();
    tids.dedup();
    tids
}
