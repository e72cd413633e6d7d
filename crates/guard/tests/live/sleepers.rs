//! Tasks to be changed: processes that only sleep.

use std::collections::BTreeMap;
use std::process::Command;

use unstarve_executor::{Attributes, sched};
use unstarve_model::Tid;

use crate::child::Running;
use crate::stage::Stop;

/// Some sleeping processes, all with the same odd argument, by which a rule finds them and no others.
pub struct Sleepers {
    processes: Vec<Running>,
    seconds: String,
}

impl Sleepers {
    pub fn start(count: usize) -> Result<Sleepers, Stop> {
        // The test's own pid in the fraction, so that two runs do not meet.
        let seconds = format!("59.{}", std::process::id());
        let processes =
            (0..count).map(|_| Running::start(Command::new("sleep").arg(&seconds))).collect::<Result<_, _>>()?;
        let sleepers = Sleepers { processes, seconds };
        // Until each runs its program.
        let named = || {
            sleepers.tids().all(|tid| {
                std::fs::read_to_string(format!("/proc/{tid}/cmdline")).is_ok_and(|text| text.starts_with("sleep"))
            })
        };
        if !crate::stage::eventually(std::time::Duration::from_secs(5), named) {
            return Err(Stop::Fail("the sleepers do not start".to_owned()));
        }
        Ok(sleepers)
    }

    /// A selector for them.
    pub fn selector(&self) -> String {
        format!("{{ cmdline = \"sleep {}\" }}", self.seconds)
    }

    pub fn tids(&self) -> impl Iterator<Item = Tid> {
        self.processes.iter().map(|process| Tid(process.0.id()))
    }

    /// What the kernel says of them now.
    pub fn attributes(&self) -> BTreeMap<Tid, Attributes> {
        self.tids().filter_map(|tid| Some((tid, sched::read(tid).ok()?))).collect()
    }
}
