//! Who only watches: the recorder, and what else of this project looks on or runs a guest of the lab.
//!
//! That they come late harms nobody, and what they take is the cost of the recording, no cause of anything.

use rustc_hash::FxHashSet;
use unstarve_kernel::Snapshot;
use unstarve_model::{Comm, Nanos};
use unstarve_timeline::{ActorId, World};

use crate::ledger::Ledger;

/// How threads of our own are called: `unstarve-record`, the guard's `unstarve-canary`; and who runs the loads of a guest
/// of the lab.
const OWN: &str = "unstarve-";
const LAB: [&str; 1] = ["lab-keeper"];
/// The thread of `unstarve record` that reads the buffers.
const RECORDER: &str = "unstarve-record";

/// The programs that write each format. Elsewhere the same names may be anybody's.
const RECORDERS: [(&str, &[&str]); 4] = [
    ("trace.dat", &["trace-cmd"]),
    ("perf", &["perf", "perf-exec"]),
    ("Perfetto", &["perfetto", "traced", "traced_probes"]),
    ("ftrace text", &["atrace", "trace-cmd", "traced_probes"]),
];

/// The actors of a trace that only watch.
#[derive(Debug, Default)]
pub(crate) struct Observers(FxHashSet<ActorId>);

impl Observers {
    pub fn of(world: &World, snapshot: Option<&Snapshot>, format: &str) -> Observers {
        let own = snapshot.and_then(own_program);
        let recorders = RECORDERS.iter().filter(|(prefix, _)| format.starts_with(prefix)).flat_map(|(_, names)| *names);
        let recorders: Vec<&[u8]> = recorders.chain(&LAB).map(|name| name.as_bytes()).collect();
        let watches = |comm: Comm| {
            let name = comm.as_bytes();
            name.starts_with(OWN.as_bytes()) || recorders.contains(&name) || own == Some(comm)
        };
        Observers(
            world.actors.iter().filter(|(_, actor)| actor.comm().is_some_and(watches)).map(|(id, _)| id).collect(),
        )
    }

    pub fn contains(&self, id: ActorId) -> bool {
        self.0.contains(&id)
    }

    /// The CPU time that they took; `None` if none of them is in the trace.
    pub fn took(&self, ledger: &Ledger) -> Option<Nanos> {
        let accounts: Vec<_> = self.0.iter().filter_map(|id| ledger.account(*id)).collect();
        (!accounts.is_empty()).then(|| accounts.iter().map(|account| account.runs.total).sum())
    }
}

/// What the program is called in which the recording ran: `unstarve`; in a guest of the lab `init`, which is the program
/// that starts the loads, too.
fn own_program(snapshot: &Snapshot) -> Option<Comm> {
    let recorder = snapshot.tasks.iter().find(|task| task.comm == RECORDER)?;
    Some(Comm::from(snapshot.task(recorder.tgid?)?.comm.as_str()))
}
