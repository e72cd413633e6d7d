//! Checks which permissions are missing and what does not work without them, to report it at the start.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use unstarve_facts::{effective_rights, hides_addresses};

/// A missing permission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lacking {
    /// The key of this problem.
    pub key: &'static str,
    /// What does not work without it.
    pub what: &'static str,
}

const SYSLOG: Lacking = Lacking {
    key: "names",
    what: "the kernel hides its symbols (CAP_SYSLOG is missing): workers that complete direct I/O or write back are counted as other \
           kernel workers",
};

const SYS_NICE: Lacking = Lacking {
    key: "nice",
    what: "this process cannot raise its priority (CAP_SYS_NICE is missing): beside a task that keeps a CPU for itself the flight \
           recorder takes seconds to begin, and beside busy programs an episode is seen late",
};

/// Bit of `CapEff` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// The missing permissions, except those that the engine reports itself.
pub(crate) fn lacking() -> Vec<Lacking> {
    let hides = beginning_of("/proc/kallsyms").is_ok_and(|text| hides_addresses(&text));
    let effective = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| effective_rights(&text));
    let cannot_raise = effective.is_some_and(|effective| effective & (1 << CAP_SYS_NICE) == 0);
    [(hides, SYSLOG), (cannot_raise, SYS_NICE)].into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect()
}

fn beginning_of(path: &str) -> io::Result<String> {
    let lines: io::Result<Vec<String>> = BufReader::new(File::open(path)?).lines().take(64).collect();
    Ok(lines?.join("\n"))
}
