//! Matches names in tables (`jbd2/DEVICE-N`) with names in /proc (`jbd2/sda1-8`).

use crate::{Row, Table};

/// Length to which /proc cuts longer names.
const PROC_NAME_BYTES: usize = 15;

/// The row about a name: its own, or one whose column `names` lists it.
pub(super) fn called(table: Table, name: &str) -> Option<Row> {
    let stated = || table.rows().filter(|row| row.is_stated());
    stated().find(|row| row.name() == name).or_else(|| {
        stated().find(|row| row.get("names").is_some_and(|names| names.split(", ").any(|text| fits(text, name))))
    })
}

/// Whether a name matches a pattern. `C`, `N` and `P` stand for numbers; longer words in capitals stand for any text,
/// such as a device.
fn fits(pattern: &str, name: &str) -> bool {
    let Some(start) = pattern.find(|c: char| c.is_ascii_uppercase()) else {
        return pattern == name || name.len() == PROC_NAME_BYTES && pattern.starts_with(name);
    };
    let Some(rest) = name.strip_prefix(&pattern[..start]) else { return false };
    let word = pattern[start..].chars().take_while(char::is_ascii_uppercase).count();
    let tail = &pattern[start + word..];
    let is_fitting = |c: char| if word == 1 { c.is_ascii_digit() } else { !c.is_control() };
    // Any way to split the name will do.
    rest.char_indices()
        .take_while(|(_, c)| is_fitting(*c))
        .any(|(at, c)| fits_or_ends(tail, &rest[at + c.len_utf8()..]))
}

fn fits_or_ends(pattern: &str, name: &str) -> bool {
    if pattern.is_empty() { name.is_empty() } else { fits(pattern, name) }
}

/// The workqueue in a worker's name: `dio/sda1` of `kworker/0:1-dio/sda1`, `kworker/0:1+dio/sda1` and
/// `kworker/R-dio/sda1`.
pub(super) fn queue_of_worker(name: &str) -> Option<&str> {
    let tail = name.strip_prefix("kworker/")?;
    let (_, queue) = tail.split_once(['-', '+'])?;
    Some(queue).filter(|queue| !queue.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_what_proc_shows() {
        for (pattern, name) in [
            ("jbd2/DEVICE-N", "jbd2/dm-0-8"),
            ("kswapdN", "kswapd0"),
            ("kcryptd_io-DEVICE-N", "kcryptd_io-253:0-1"),
            ("irq/N-NAME", "irq/24-nvme0q1"),
            ("erofs_worker/C", "erofs_worker/11"),
            ("kthreadd", "kthreadd"),
            ("rcu_tasks_kthread", "rcu_tasks_kthre"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("kswapdN", "kswapd"),
            ("kswapdN", "kswapd0x"),
            ("kcryptd/DEVICE", "kcryptd_io/253:0"),
            ("jbd2/DEVICE-N", "jbd2/sda1"),
            ("kthreadd", "kthread"),
            ("loopN", "loopback"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        assert_eq!(queue_of_worker("kworker/0:1H-kblockd"), Some("kblockd"));
        assert_eq!(queue_of_worker("kworker/u8:2+flush-259:0"), Some("flush-259:0"));
        assert_eq!(queue_of_worker("kworker/R-xfs-conv/sda1"), Some("xfs-conv/sda1"));
        assert_eq!(queue_of_worker("kworker/0:1"), None);
    }
}
