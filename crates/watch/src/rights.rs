//! What this process may not do, and what that costs: what is missing is said, not found out later.

use std::fs::File;
use std::io::{BufRead, BufReader};

/// A right that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lacking {
    /// Its name among the problems.
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
           recorder takes seconds to begin",
};

/// Bit of `CapEff` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// What is missing here, apart from what the engine says itself.
pub(crate) fn lacking() -> Vec<Lacking> {
    let hides = File::open("/proc/kallsyms").is_ok_and(|file| hides_symbols(BufReader::new(file)));
    let effective = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| effective(&text));
    let cannot_raise = effective.is_some_and(|effective| effective & (1 << CAP_SYS_NICE) == 0);
    [(hides, SYSLOG), (cannot_raise, SYS_NICE)].into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect()
}

/// Whether all addresses are zero: some symbols are, of per-CPU variables.
fn hides_symbols(symbols: impl BufRead) -> bool {
    let mut lines = symbols.lines().map_while(Result::ok).take(64).peekable();
    lines.peek().is_some() && lines.all(|line| line.trim_start_matches('0').starts_with(' '))
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_symbols_are_all_zero() {
        let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T startup_64\n";
        let shown = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T startup_64\n";
        assert!(hides_symbols(hidden.as_bytes()));
        assert!(!hides_symbols(shown.as_bytes()));
        assert!(!hides_symbols("".as_bytes()), "a kernel without symbols hides none");
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000800000\n"), Some(1 << CAP_SYS_NICE));
        assert_eq!(effective("Name:\tCapEff\n"), None);
    }
}
