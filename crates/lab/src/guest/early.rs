//! Loads that start before the recording. Init starts them; the starter of the other loads ends them.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use unstarve_executor::sched;

use super::loads::PRIORITY;
use super::place::become_ordinary;
use super::running::{Planned, Running};
use super::{GuestError, write};
use crate::run::{Request, Start};

/// Their process ids, one a line: another process ends them than started them.
const EARLY_LOADS_FILE: &str = "/run/early-loads";

/// The started loads.
pub(super) struct Early(Vec<Running>);

impl Early {
    /// Starts each at its time before the recording; returns when the recording may begin.
    pub(super) fn start(request: &Request) -> Result<Early, GuestError> {
        let mut planned: Vec<(Duration, Planned)> = Vec::new();
        for load in request.loads().filter(|load| load.is_early()) {
            let one = Planned::new(request, load)?;
            if let Start::Before(before) = one.start {
                planned.push((before, one));
            }
        }
        // The longest lead first; at the same time in the file's order.
        planned.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        let Some(longest) = planned.first().map(|(before, _)| *before) else { return Ok(Early(Vec::new())) };
        // They must not delay the process that starts them.
        sched::become_realtime(PRIORITY).map_err(GuestError::doing("cannot raise the starter of early loads"))?;
        let began = Instant::now();
        let mut running = Vec::new();
        for (before, planned) in planned {
            std::thread::sleep((longest - before).saturating_sub(began.elapsed()));
            running.push(planned.start()?);
        }
        std::thread::sleep(longest.saturating_sub(began.elapsed()));
        become_ordinary().map_err(GuestError::doing("cannot lower the starter of early loads"))?;
        let pids = running.iter().map(|one: &Running| one.pid().map(|pid| format!("{}\n", pid.as_raw_nonzero())));
        write(EARLY_LOADS_FILE, &pids.collect::<Result<String, GuestError>>()?)?;
        Ok(Early(running))
    }

    /// Reaps them. Reports a measured load that failed by itself.
    pub(super) fn end(mut self) -> Result<(), GuestError> {
        self.0.iter_mut().for_each(Running::kill);
        self.0.iter_mut().try_for_each(Running::reap)
    }
}

/// Ends all early loads and their children. They have not been reaped: their ids are still theirs.
pub(super) fn kill_all() {
    let list = fs::read_to_string(EARLY_LOADS_FILE).unwrap_or_default();
    for pid in list.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
