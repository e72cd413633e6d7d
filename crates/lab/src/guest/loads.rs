//! Starts the loads of a scenario and waits for the main one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::WaitIdOptions;
use unstarve_executor::sched;

use super::place::become_ordinary;
use super::running::{Planned, Running, wait_unreaped};
use super::{GuestError, RESULTS_DIR, early, mark, read_request, say};
use crate::console::{Message, Stage};
use crate::counters::{Counters, Moment};
use crate::run::{Request, Start};

/// Time for a measured load to end and print after the main one.
const MEASURED_LOAD_GRACE: Duration = Duration::from_secs(2);

/// The starter mostly sleeps, but must start loads on time, whatever runs.
pub(super) const PRIORITY: u32 = 70;

/// Starts the loads, waits for the main one, and ends the others.
pub(super) fn run() -> Result<(), GuestError> {
    mark::set_thread_name(mark::OURS);
    let request = read_request()?;
    sched::become_realtime(PRIORITY).map_err(GuestError::doing("cannot raise the starter of the loads"))?;
    let planned = planned(&request)?;
    say(&Message::stage(Stage::Load));
    let began = Instant::now();
    let before = moment()?;
    let mut running = Vec::new();
    for (at, planned) in planned {
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        running.push(planned.start()?);
    }
    let result = wait_for_all(&mut running, before);
    running.iter_mut().for_each(Running::clear);
    result
}

/// All loads that start with the recording or later, in order; at the same time in the file's order.
fn planned(request: &Request) -> Result<Vec<(Duration, Planned)>, GuestError> {
    let mut all = Vec::new();
    for load in request.loads().filter(|load| !load.is_early()) {
        let planned = Planned::new(request, load)?;
        if let Start::After(at) = planned.start {
            all.push((at, planned));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all)
}

/// Reap nothing while this process is real-time: from 6.12 on (seen on 6.12.107) the kernel removes the dead process
/// from /proc and spins until concurrent users release it, and a user that this process preempted never does. That
/// second looked like a real-time intruder, or the guest hung.
fn wait_for_all(running: &mut [Running], before: Moment) -> Result<(), GuestError> {
    let main =
        running.iter().find(|running| running.load.main).ok_or_else(|| GuestError("no main load".into()))?.pid()?;
    wait_unreaped(main, WaitIdOptions::empty())?;
    let counters = Counters { before, after: moment()? };
    let until = Instant::now() + MEASURED_LOAD_GRACE;
    for other in running.iter().filter(|running| !running.load.main) {
        other.wait_until(until)?;
    }
    running.iter_mut().for_each(Running::kill);
    early::kill_all();
    become_ordinary().map_err(GuestError::doing("cannot lower the starter of the loads"))?;
    // If several failed, report the main one's reason.
    running.sort_by_key(|running| !running.load.main);
    running.iter_mut().try_for_each(Running::reap)?;
    let text = serde_json::to_string(&counters).map_err(|error| GuestError(error.to_string()))?;
    super::write(Path::new(RESULTS_DIR).join(crate::counters::FILE), &text)
}

fn moment() -> Result<Moment, GuestError> {
    let read = |path: &str| fs::read_to_string(path).map_err(GuestError::doing(path));
    Ok(Moment { at_ns: sched::monotonic_ns(), stat: read("/proc/stat")?, softirqs: read("/proc/softirqs")? })
}
