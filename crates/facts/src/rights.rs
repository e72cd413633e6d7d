//! What `/proc` says about the rights of a process.

/// The effective capabilities, from the text of `/proc/PID/status`.
pub fn effective_rights(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether all addresses at the beginning of `/proc/kallsyms` are zero. Some always are: those of per-CPU variables.
pub fn hides_addresses(symbols: &str) -> bool {
    let mut lines = symbols.lines().peekable();
    lines.peek().is_some() && lines.all(|line| line.trim_start_matches('0').starts_with(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_symbols_are_all_zero() {
        let hidden = "0000000000000000 A fixed_percpu_data\n0000000000000000 T startup_64\n";
        let shown = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T startup_64\n";
        assert!(hides_addresses(hidden));
        assert!(!hides_addresses(shown));
        assert!(!hides_addresses(""), "a kernel without symbols hides none");
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(effective_rights("Name:\tx\nCapEff:\t0000000000800000\n"), Some(1 << 23));
        assert_eq!(effective_rights("Name:\tCapEff\n"), None);
    }
}
