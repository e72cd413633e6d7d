//! Identifies the recording of a row.

use sha2::{Digest, Sha256};
use unstarve_model::{WallTime, clean};
use unstarve_tables::Cell;
use unstarve_timeline::{Wait, World};

/// The recording that rows are from.
#[derive(Clone, Default, Debug)]
pub(crate) struct Origin {
    host: Option<String>,
    boot: Option<String>,
    trace_id: String,
    /// Its beginning, on the wall clock.
    pub begun: Option<WallTime>,
}

impl Origin {
    /// The origin for a recording with this first wait. Its id is `called` if given, and otherwise derived from the
    /// host, the boot, and the CPU, beginning and end of the first wait. No two recordings share these, and every
    /// export of a recording yields the same id.
    pub fn of(world: &World, first: &Wait<'_>, called: Option<String>) -> Origin {
        let settings = world.settings();
        let (host, boot) = (settings.host(), settings.boot());
        let made = || {
            let mut digest = Sha256::new();
            for text in [host, boot].into_iter().flatten() {
                digest.update(text.as_bytes());
                digest.update([0]);
            }
            digest.update(world.start.0.to_le_bytes());
            let tid = world.tasks.get(first.task).tid;
            for number in [first.start.0, first.end.0, u64::from(first.cpu.0), u64::from(tid.0)] {
                digest.update(number.to_le_bytes());
            }
            digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Origin {
            host: host.map(|host| clean(host).into_owned()),
            boot: boot.map(|boot| clean(boot).into_owned()),
            trace_id: called.unwrap_or_else(made),
            begun: settings.wall().map(|wall| wall.at(world.start)),
        }
    }

    /// The columns at the end of every table of a recording.
    pub fn cells(&self, at: Option<WallTime>) -> [Cell<'_>; 4] {
        [
            Cell::text(self.host.as_deref()),
            Cell::number(at.map(|at| at.0)),
            Cell::text(self.boot.as_deref()),
            Cell::Text(&self.trace_id),
        ]
    }
}
