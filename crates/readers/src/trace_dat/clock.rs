//! Converts ring buffer times to nanoseconds.

use unstarve_model::Time;

/// Conversion from a ring buffer's time to nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Clock {
    /// Multiplier and shift of a cycle counter (`x86-tsc`), if the file has them.
    pub(super) cycles: Option<(u32, u32)>,
    /// Added after the conversion: the options `DATE` and `OFFSET`.
    pub(super) offset: i64,
}

impl Clock {
    #[inline]
    pub(super) fn time(&self, raw: u64) -> Time {
        let nanos = match self.cycles {
            None => raw,
            // 128 bits: a counter of 2^45 (three hours) times a multiplier of 2^31 does not fit into 64.
            Some((multiplier, shift)) => {
                let product = u128::from(raw) * u128::from(multiplier);
                product.checked_shr(shift).map_or(0, |nanos| u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        Time(nanos.saturating_add_signed(self.offset))
    }
}

/// The selected clock in the text of tracefs `trace_clock`: `local` of `[local] global counter`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    let (_, after) = text.split_once('[')?;
    let (name, _) = after.split_once(']')?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

/// Whether a clock counts nanoseconds. `counter` counts events, `uptime` jiffies, `x86-tsc` and `ppc-tb` cycles.
/// Source: `trace_clocks` in `kernel/trace/trace.c` and `ARCH_TRACE_CLOCKS`.
pub(super) fn counts_nanoseconds(name: &str) -> bool {
    matches!(name, "local" | "global" | "perf" | "mono" | "mono_raw" | "boot" | "tai" | "tsc2nsec")
}

/// Parses an option's number: decimal or `0x…`, with an optional sign.
pub(super) fn number(text: &str) -> Option<i64> {
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    magnitude.ok().map(|value: i64| if negative { value.saturating_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_counter_becomes_nanoseconds_without_overflow() {
        // 2.5 GHz: 0.4 ns a cycle = 429496730 / 2^30.
        let tsc = Clock { cycles: Some((429_496_730, 30)), offset: 0 };
        assert_eq!(tsc.time(2_500_000_000), Time(1_000_000_000));
        let year = 2_500_000_000 * 86_400 * 365;
        assert_eq!(tsc.time(year).0 / 1_000_000_000, 86_400 * 365);
        assert_eq!(Clock { cycles: Some((1, 200)), offset: 0 }.time(5), Time(0));
    }

    #[test]
    fn offsets_move_and_saturate() {
        assert_eq!(Clock { cycles: None, offset: -5 }.time(7), Time(2));
        assert_eq!(Clock { cycles: None, offset: -5 }.time(3), Time(0));
        assert_eq!(number("0x10\0"), Some(16));
        assert_eq!(number("-12\n"), Some(-12));
        assert_eq!(number("x"), None);
    }

    #[test]
    fn the_clock_in_brackets_is_in_use() {
        assert_eq!(chosen("local global [mono] boot"), Some("mono"));
        assert_eq!(chosen("[local]"), Some("local"));
        assert_eq!(chosen("local"), None);
    }
}
