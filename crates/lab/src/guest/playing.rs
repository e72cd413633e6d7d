//! Plays a program: `play PROGRAM [COSTS]`.

use std::fs;
use std::io::Write;
use std::path::Path;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Pid, Signal, kill_process};
use unstarve_executor::sched;

use super::{GuestError, mark, turns};
use crate::player::{Costs, play, read_program};

/// Above all ordinary loads; it sleeps while the program is played.
const PRIORITY: u32 = 90;

/// Plays it and prints what was played as JSON.
pub(super) fn run() -> Result<(), GuestError> {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        return Err(GuestError("expected a program's file, and perhaps the costs of the player".into()));
    };
    let failed = |error: &dyn std::fmt::Display| GuestError(error.to_string());
    let program = read_program(Path::new(&file)).map_err(|error| failed(&error))?;
    let costs = arguments.next().map_or_else(|| Ok(Costs::default()), |costs| serde_json::from_str(&costs));
    let costs: Costs = costs.map_err(|error| failed(&error))?;
    // Not as a real-time task: it takes long.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|errno| GuestError(format!("cannot lock the player's memory: {errno}")))?;
    sched::become_realtime(PRIORITY).map_err(GuestError::doing("cannot raise the player"))?;
    if program.cpus.len() > 1 {
        turns::shorten()?;
    }
    let recorder = StoppedRecorder::stop()?;
    let played = play(&program, &costs).map_err(|error| failed(&error))?;
    drop(recorder);
    let text = serde_json::to_string(&played).map_err(|error| failed(&error))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(GuestError::doing("print what was played"))
}

/// The recorder, stopped: it would be a rival of the actors that the recording does not have. Meanwhile the kernel's buffers keep
/// the events.
struct StoppedRecorder(Vec<Pid>);

impl StoppedRecorder {
    fn stop() -> Result<StoppedRecorder, GuestError> {
        let mut stopped = StoppedRecorder(Vec::new());
        for entry in fs::read_dir("/proc").map_err(GuestError::doing("/proc"))?.filter_map(Result::ok) {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let name = fs::read(entry.path().join("comm")).unwrap_or_default();
            if let Some(pid) = pid.filter(|_| name.trim_ascii_end() == mark::RECORDER.to_bytes()) {
                kill_process(pid, Signal::STOP)
                    .map_err(|errno| GuestError(format!("cannot stop the recorder: {errno}")))?;
                stopped.0.push(pid);
            }
        }
        Ok(stopped)
    }
}

impl Drop for StoppedRecorder {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}
