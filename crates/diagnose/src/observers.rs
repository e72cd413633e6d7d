//! Observers: the recorder, and other programs of this project that observe or run a guest of the lab.
//!
//! Their waits harm nobody, and their CPU time is the cost of the recording, not a cause of anything.

use rustc_hash::FxHashSet;
use unstarve_facts::Snapshot;
use unstarve_model::{Comm, CpuId, Nanos, Policy, Tid};
use unstarve_timeline::{Actor, ActorId, World};

use crate::ledger::Ledger;

/// Names of our own threads: `unstarve-record`, the guard's `unstarve-canary`; and the program that runs the loads in a lab
/// guest.
const OWN: &str = "unstarve-";
const LAB: [&str; 1] = ["lab-keeper"];
/// The thread of `unstarve record` that reads the buffers, and possible names of the program: in a lab guest it is process 1.
const RECORDER: &str = "unstarve-record";
const PROGRAM: [&str; 2] = ["unstarve", "init"];

/// A hog may also take such a name. The name counts only for tasks that take little: this part of a CPU in the fair class, and
/// this part in a higher class, where little is enough to starve others.
const LITTLE: f64 = 0.2;
pub(crate) const LITTLE_ABOVE: f64 = 0.01;
/// In a higher class, no single run may be longer, however long the recording.
pub(crate) const SHORT_ABOVE: Nanos = Nanos::from_millis(10);

/// The programs that write each format. In other formats the same names can belong to any program.
const RECORDERS: [(&str, &[&str]); 4] = [
    ("trace.dat", &["trace-cmd"]),
    ("perf", &["perf", "perf-exec"]),
    ("Perfetto", &["perfetto", "traced", "traced_probes"]),
    ("ftrace text", &["atrace", "trace-cmd", "traced_probes"]),
];

/// Whether a waiting task is an observer: by its name, or because it belongs to the process that the recording names as recorder.
/// A task that takes such a name only hides its own waits.
pub fn only_watches(snapshot: Option<&Snapshot>, tid: Tid, comm: Comm) -> bool {
    let name = comm.as_bytes();
    let is_ours = name.starts_with(OWN.as_bytes()) || LAB.iter().any(|lab| name == lab.as_bytes());
    let is_recorder = |snapshot: &Snapshot| {
        snapshot.recorder.is_some_and(|recorder| belongs_to(snapshot, recorder, tid))
            || own_program(snapshot) == Some(comm)
    };
    is_ours || snapshot.is_some_and(is_recorder)
}

/// The observers among the actors of a trace.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    watching: FxHashSet<ActorId>,
    /// Actors with such a name that take too much: they can be culprits, but not victims. A task that takes such a name only
    /// hides its own waits.
    claiming: FxHashSet<ActorId>,
}

impl Observers {
    pub fn of(world: &World, ledger: &Ledger, snapshot: Option<&Snapshot>, format: &str) -> Observers {
        let own = snapshot.and_then(own_program);
        let recorders = RECORDERS.iter().filter(|(prefix, _)| format.starts_with(prefix)).flat_map(|(_, names)| *names);
        let recorders: Vec<&[u8]> = recorders.chain(&LAB).map(|name| name.as_bytes()).collect();
        let claims = |comm: Comm| {
            let name = comm.as_bytes();
            name.starts_with(OWN.as_bytes()) || recorders.contains(&name) || own == Some(comm)
        };
        let mut observers = Observers::default();
        let of_recorder = |actor: &Actor| snapshot.is_some_and(|snapshot| is_of_recorder(snapshot, actor));
        let claimants: Vec<(ActorId, &Actor)> =
            world.actors.iter().filter(|(_, actor)| actor.comm().is_some_and(claims) && !of_recorder(actor)).collect();
        let believed = [true, false].map(|is_above| take_little(world, ledger, &claimants, is_above));
        for (id, actor) in world.actors.iter() {
            let claims = actor.comm().is_some_and(claims);
            let believed = believed[if is_above(actor) { 0 } else { 1 }];
            if of_recorder(actor) || claims && believed {
                observers.watching.insert(id);
            } else if claims {
                observers.claiming.insert(id);
            }
        }
        observers
    }

    /// Whether it is excluded as victim and payer.
    pub fn may_contain(&self, id: ActorId) -> bool {
        self.watching.contains(&id) || self.claiming.contains(&id)
    }

    pub fn contains(&self, id: ActorId) -> bool {
        self.watching.contains(&id)
    }

    /// The CPU time of all observers; `None` if there are none in the trace.
    pub fn took(&self, ledger: &Ledger) -> Option<Nanos> {
        let accounts: Vec<_> = self.watching.iter().filter_map(|id| ledger.account(*id)).collect();
        (!accounts.is_empty()).then(|| accounts.iter().map(|account| account.runs.total).sum())
    }
}

/// Whether its class is above the fair class.
fn is_above(actor: &Actor) -> bool {
    matches!(actor.policy(), Some(Policy::Rt | Policy::Deadline))
}

/// Whether the claimants of a class together take little of the CPUs: one CPU for each of their threads, but no more CPUs than
/// they ran on, because one thread may have many names.
fn take_little(world: &World, ledger: &Ledger, claimants: &[(ActorId, &Actor)], above: bool) -> bool {
    let accounts: Vec<_> = claimants
        .iter()
        .filter(|(_, actor)| is_above(actor) == above)
        .filter_map(|(id, _)| ledger.account(*id))
        .collect();
    let ran: Nanos = accounts.iter().map(|account| account.runs.total).sum();
    let cpus: FxHashSet<CpuId> = accounts.iter().flat_map(|account| account.cpus.iter()).collect();
    // In a higher class, occupying one CPU of many is already too much.
    let threads: u32 = claimants.iter().map(|(_, actor)| actor.members).sum();
    let room = if above { 1.0 } else { cpus.len().min(threads as usize).max(1) as f64 };
    let is_short = !above || accounts.iter().all(|account| account.runs.longest <= SHORT_ABOVE);
    is_short && ran.share_of(ledger.span(world)) <= room * if above { LITTLE_ABOVE } else { LITTLE }
}

/// Whether all its threads belong to the process that the recording names as recorder.
fn is_of_recorder(snapshot: &Snapshot, actor: &Actor) -> bool {
    let Some(recorder) = snapshot.recorder else { return false };
    let belongs = |tid: &Tid| belongs_to(snapshot, recorder, *tid);
    actor.members as usize == actor.tids.len() && !actor.tids.is_empty() && actor.tids.iter().all(belongs)
}

fn belongs_to(snapshot: &Snapshot, process: Tid, tid: Tid) -> bool {
    tid == process || snapshot.task(tid).is_some_and(|task| task.tgid == Some(process))
}

/// The name of the program that contained the recorder, if the recording does not name the process: `unstarve`; in a lab guest
/// `init`, which also starts the loads.
fn own_program(snapshot: &Snapshot) -> Option<Comm> {
    let recorders = snapshot.tasks.iter().filter(|task| task.comm == RECORDER);
    let programs = recorders.filter_map(|recorder| snapshot.task(recorder.tgid?));
    let ours = |comm: &str| PROGRAM.contains(&comm) || comm.starts_with(OWN);
    programs.map(|program| program.comm.as_str()).find(|comm| ours(comm)).map(Comm::from)
}
