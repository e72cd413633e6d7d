//! Parses numbers as the kernel does.

/// Parses a text like a file in /proc/sys (`proc_dointvec()`): blanks, a sign, digits in base 8, 10 or 16; `None` if the kernel
/// refuses it.
pub(super) fn of_sysctl(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = i64::try_from(leading(digits)?).ok()?;
    let number = if negative { -number } else { number };
    i32::try_from(number).ok().map(i64::from)
}

/// Parses a text like a file in debugfs (`debugfs_create_u32()`): a 64-bit number, of which the lower 32 bits are kept.
pub(super) fn of_debugfs(text: &str) -> Option<i64> {
    let text = text.trim();
    let number = leading(text.strip_prefix('+').unwrap_or(text))?;
    Some(i64::from(number as u32))
}

/// `_parse_integer()` of lib/kstrtox.c with base 0.
fn leading(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (rest, 16),
        _ if text.starts_with('0') => (text, 8),
        _ => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], base).ok()
}
