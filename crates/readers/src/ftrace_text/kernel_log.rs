//! Traces in the kernel log (`dmesg`, `journalctl -k`, a serial console). A kernel with `ftrace_dump_on_oops` prints
//! its trace there when it crashes.

use crate::perf_script::unquoted;

/// Strips the log's own columns from a line: `<4>`, `Nov 22 18:39:41 host kernel:`, `[   12.345678]`, `[  T123]`, and
/// the `> > ` of a quoted mail. `None` if the line has none.
pub fn message(line: &[u8]) -> Option<&[u8]> {
    let line = level(unquoted(line));
    let by_syslog =
        memchr::memmem::find(&line[..line.len().min(MAX_SYSLOG_PREFIX)], b" kernel: ").map(|at| &line[at + 9..]);
    let rest = by_syslog.unwrap_or(line);
    let Some(rest) = stamp(rest) else { return by_syslog };
    Some(caller(rest).strip_prefix(b" ").unwrap_or(rest))
}

/// Whether a file begins like a kernel log. Its trace may start a megabyte later.
pub fn begins_so(prefix: &[u8]) -> bool {
    let mut lines = prefix.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first: Vec<&[u8]> = lines.by_ref().take(LINES_TO_JUDGE).collect();
    let stamped = |line: &&&[u8]| message(line).is_some();
    first.len() >= LINES_TO_JUDGE && first.iter().filter(stamped).count() * 4 >= first.len() * 3
}

/// How many lines at the beginning decide.
const LINES_TO_JUDGE: usize = 8;

/// Syslog's date and host name are shorter than this.
const MAX_SYSLOG_PREFIX: usize = 120;

/// `<4>`, printed by some serial consoles and by `dmesg -r`.
fn level(line: &[u8]) -> &[u8] {
    let Some(rest) = line.strip_prefix(b"<") else { return line };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if (1..=3).contains(&digits) { rest[digits..].strip_prefix(b">").unwrap_or(line) } else { line }
}

/// `[   12.345678]`, or `[Sun Nov 22 18:39:41 2026]` of `dmesg -T`.
fn stamp(line: &[u8]) -> Option<&[u8]> {
    let inner = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &inner[..inner.len().min(40)])?;
    let text = inner[..end].trim_ascii();
    let seconds = text.contains(&b'.') && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let date = text.len() >= 20 && text.iter().filter(|&&byte| byte == b':').count() == 2;
    (seconds || date).then(|| &inner[end + 1..])
}

/// `[  T123]` or `[   C0]`: the printing task or CPU (`CONFIG_PRINTK_CALLER`).
fn caller(line: &[u8]) -> &[u8] {
    let Some(inner) = line.strip_prefix(b"[") else { return line };
    let Some(end) = memchr::memchr(b']', &inner[..inner.len().min(16)]) else { return line };
    let is_caller =
        matches!(inner[..end].trim_ascii(), [b'T' | b'C', digits @ ..] if digits.iter().all(u8::is_ascii_digit));
    if is_caller { &inner[end + 1..] } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_logs_of_all_kinds() {
        let shown = |line: &str| message(line.as_bytes()).map(|rest| String::from_utf8_lossy(rest).into_owned());
        let table = [
            "[   12.345678] Dumping ftrace buffer:",
            "<4>[   12.345678]   <idle>-0       0d..2. 11us : x",
            "[   12.345678][  T123]   <idle>-0       0d..2. 11us : x",
            "[   12.345678] [   C0]   bash-1 x",
            "Nov 22 18:39:41 host-7 kernel: [   12.345678] CPU: 0",
            "Nov 22 18:39:41 host-7 kernel:   <idle>-0       0d..2. 11us : x",
            "[Sun Nov 22 18:39:41 2026] usb 1-1",
            "> > [ 1320.444210]   <idle>-0       0dNs.. 11us : x",
            "  <idle>-0       [000] d..2. 1.000000: sched_switch: x",
            "prose [1] and more",
        ];
        insta::assert_debug_snapshot!(table.map(shown), @r#"
        [
            Some(
                "Dumping ftrace buffer:",
            ),
            Some(
                "  <idle>-0       0d..2. 11us : x",
            ),
            Some(
                "  <idle>-0       0d..2. 11us : x",
            ),
            Some(
                "[   C0]   bash-1 x",
            ),
            Some(
                "CPU: 0",
            ),
            Some(
                "  <idle>-0       0d..2. 11us : x",
            ),
            Some(
                "usb 1-1",
            ),
            Some(
                "  <idle>-0       0dNs.. 11us : x",
            ),
            None,
            None,
        ]
        "#);
    }

    #[test]
    fn a_log_is_known_by_its_first_lines() {
        let log: String = (0..20).map(|i| format!("[    {i}.000000] message {i}\n")).collect();
        assert!(begins_so(log.as_bytes()));
        assert!(!begins_so(b"[1] a footnote\n[2.0] another\nprose\nprose\nprose\nprose\nprose\nprose\nprose\n"));
    }
}
