//! Loads that run before the recording begins. Init starts them, and the starter of the others ends them with those.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use unstarve_executor::sched;

use super::loads::PRIORITY;
use super::place::be_ordinary;
use super::running::{Planned, Running};
use super::{GuestError, write};
use crate::run::{Request, Start};

/// The processes, a number a line: who ends them is not who started them.
const EARLY_LOADS_FILE: &str = "/run/early-loads";

/// Those that were started.
pub(super) struct Early(Vec<Running>);

impl Early {
    /// Starts them, each at its time before now and a little; returns when the recording may begin.
    pub(super) fn start(request: &Request) -> Result<Early, GuestError> {
        let mut planned: Vec<(Duration, Planned)> = Vec::new();
        for load in request.loads().filter(|load| load.is_early()) {
            let one = Planned::new(request, load)?;
            if let Start::Before(before) = one.start {
                planned.push((before, one));
            }
        }
        // The longest before first; at the same moment in the file's order.
        planned.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        let Some(longest) = planned.first().map(|(before, _)| *before) else { return Ok(Early(Vec::new())) };
        // They must not keep from its moment who starts them.
        sched::become_realtime(PRIORITY).map_err(GuestError::doing("cannot raise the starter of early loads"))?;
        let began = Instant::now();
        let mut running = Vec::new();
        for (before, planned) in planned {
            std::thread::sleep((longest - before).saturating_sub(began.elapsed()));
            running.push(planned.start()?);
        }
        std::thread::sleep(longest.saturating_sub(began.elapsed()));
        be_ordinary().map_err(GuestError::doing("cannot lower the starter of early loads"))?;
        let pids = running.iter().map(|one: &Running| one.pid().map(|pid| format!("{}\n", pid.as_raw_nonzero())));
        write(EARLY_LOADS_FILE, &pids.collect::<Result<String, GuestError>>()?)?;
        Ok(Early(running))
    }

    /// Reaps them. Who failed by itself and is measured is told of.
    pub(super) fn end(mut self) -> Result<(), GuestError> {
        self.0.iter_mut().for_each(Running::kill);
        self.0.iter_mut().try_for_each(Running::reap)
    }
}

/// Ends all that were started early, and all that they started. Nobody has reaped them: the numbers are still theirs.
pub(super) fn kill_all() {
    let list = fs::read_to_string(EARLY_LOADS_FILE).unwrap_or_default();
    for pid in list.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
