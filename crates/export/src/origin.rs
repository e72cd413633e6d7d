use sha2::{Digest, Sha256};
use unstarve_model::{WallTime, clean};
use unstarve_tables::Cell;
use unstarve_timeline::{Wait, World};

/// Which recording rows are from.
#[derive(Clone, Default, Debug)]
pub(crate) struct Origin {
    host: Option<String>,
    boot: Option<String>,
    trace_id: String,
    /// When it began, on the wall's clock.
    pub begun: Option<WallTime>,
}

impl Origin {
    /// That of a world whose first wait this is. Its id is what the caller calls it, else made of the host, the boot, and where
    /// and when that wait began and ended: no two recordings share that, and each export of one finds the same.
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

    /// The columns that every table of a recording ends with.
    pub fn cells(&self, at: Option<WallTime>) -> [Cell<'_>; 4] {
        [
            Cell::text(self.host.as_deref()),
            Cell::number(at.map(|at| at.0)),
            Cell::text(self.boot.as_deref()),
            Cell::Text(&self.trace_id),
        ]
    }
}
