//! Function names for a recording made on the kernel that is running now.
//!
//! perf.data has the addresses of work functions but no symbols; perf itself looks them up in `/proc/kallsyms` when it
//! prints. That is correct only for the same boot: the address of the kernel's text, which is random at each boot, and
//! the release must match.

use std::fs;

/// The text of `/proc/kallsyms`, if the recorded kernel is running: the same release, with its text at `text`. Without
/// `CAP_SYSLOG` all addresses read as zero, so the result is `None`.
pub fn symbols(text: u64, release: &str) -> Option<Vec<u8>> {
    let running = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    if running.trim_end() != release {
        return None;
    }
    let symbols = fs::read("/proc/kallsyms").ok()?;
    is_at(&symbols, text).then_some(symbols)
}

/// Whether these symbols belong to a kernel whose text begins at `text`.
fn is_at(symbols: &[u8], text: u64) -> bool {
    symbols.split(|&byte| byte == b'\n').any(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let address = words.next().and_then(|word| std::str::from_utf8(word).ok());
        matches!(words.next(), Some(b"T" | b"t"))
            && matches!(words.next(), Some(b"_text" | b"_stext"))
            && address.and_then(|word| u64::from_str_radix(word, 16).ok()) == Some(text)
            && text != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_those_of_the_same_boot_only() {
        let symbols = b"0000000000000000 A fixed_percpu_data\nffffffff9f000000 T _stext\nffffffff9f000000 T _text\n";
        assert!(is_at(symbols, 0xffff_ffff_9f00_0000));
        assert!(!is_at(symbols, 0xffff_ffff_8100_0000));
        assert!(!is_at(b"0000000000000000 T _text\n", 0), "hidden addresses match nothing");
    }
}
