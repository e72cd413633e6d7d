//! Parses numbers at the beginning of a text.

use unstarve_model::{CpuId, Prio, Tid, Time};

/// The decimal number that `text` begins with, and the rest. `None` if there is no digit or it is too large.
pub fn leading(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut value = 0u64;
    for &digit in &text[..digits] {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((value, &text[digits..]))
}

/// The number that `text` begins with. It must be followed by the end or by a byte that cannot be part of a word.
pub fn number(text: &[u8]) -> Option<u64> {
    let (value, rest) = leading(text)?;
    let ends = rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    ends.then_some(value)
}

/// A task id.
pub fn tid(text: &[u8]) -> Option<Tid> {
    number(text)?.try_into().ok().map(Tid)
}

/// A priority: `-1` for deadline tasks, 0 to 139 otherwise.
pub fn prio(text: &[u8]) -> Option<Prio> {
    match text.strip_prefix(b"-") {
        Some(rest) => number(rest)?.try_into().ok().map(|value: i32| Prio(-value)),
        None => number(text)?.try_into().ok().map(Prio),
    }
}

/// A CPU number below [`CpuId::LIMIT`].
pub fn cpu(text: &[u8]) -> Option<CpuId> {
    number(text)?.try_into().ok().filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId)
}

/// A hexadecimal number, with or without `0x`, up to the first other byte.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if !(1..=16).contains(&digits) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(&text[..digits]).ok()?, 16).ok()
}

/// A decimal number, or a hexadecimal one after `0x`; it must end as in [`number`].
pub fn any_base(text: &[u8]) -> Option<u64> {
    let Some(digits) = text.strip_prefix(b"0x") else { return number(text) };
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    digits.get(end).is_none_or(u8::is_ascii_whitespace).then(|| hexadecimal(text))?
}

/// A timestamp as trace text prints it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// `seconds.fraction`, in nanoseconds.
    Seconds(Time),
    /// A bare number, from a clock such as `counter` or `x86-tsc`. The text does not tell its unit.
    Ticks(u64),
}

/// The timestamp that `text` begins with (`1234.567890`, or a bare number for some clocks), and the rest.
pub fn stamp(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (whole, rest) = leading(text)?;
    let Some(fraction) = rest.strip_prefix(b".") else { return Some((Stamp::Ticks(whole), rest)) };
    let (value, after) = leading(fraction)?;
    let digits = u32::try_from(fraction.len() - after.len()).ok().filter(|&digits| digits <= 9)?;
    let nanos = whole.checked_mul(1_000_000_000)?.checked_add(value * 10u64.pow(9 - digits))?;
    Some((Stamp::Seconds(Time(nanos)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_in_microseconds_nanoseconds_and_ticks() {
        assert_eq!(stamp(b"12.000345: x"), Some((Stamp::Seconds(Time(12_000_345_000)), &b": x"[..])));
        assert_eq!(stamp(b"12.000345678:"), Some((Stamp::Seconds(Time(12_000_345_678)), &b":"[..])));
        assert_eq!(stamp(b"987654321:"), Some((Stamp::Ticks(987_654_321), &b":"[..])));
        assert_eq!(stamp(b"99999999999999.0:"), None);
        assert_eq!(stamp(b"1.0123456789:"), None);
    }

    #[test]
    fn numbers_end_where_a_word_ends() {
        assert_eq!(number(b"120 x"), Some(120));
        assert_eq!(number(b"120]"), Some(120));
        assert_eq!(number(b"12a"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!(prio(b"-1"), Some(Prio(-1)));
        assert_eq!(cpu(b"8192"), None);
        assert_eq!(hexadecimal(b"0xffff8880ba7307c0: f"), Some(0xffff_8880_ba73_07c0));
        assert_eq!(hexadecimal(b"(____ptrval____)"), None);
    }
}
