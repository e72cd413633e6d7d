//! Refuses values that would certainly harm the machine, for `unstarve knobs set` and for guard policies.
//!
//! The kernel accepts most numbers. What matters is the number that the kernel parses, so texts are parsed here as the
//! kernel does: `0x0`, `00`, `-0` and ` 0` are all 0.

/// A value that would harm the machine, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}; if it must be, write it by hand into the kernel's file")]
pub struct Harm {
    reason: String,
}

/// The kernel's defaults (`kernel/sched/rt.c`), used if the current values cannot be read.
const DEFAULT_PERIOD_US: i64 = 1_000_000;
const DEFAULT_RUNTIME_US: i64 = 950_000;
/// Real-time tasks keep at least a thousandth of the time. With less, a watchdog, the guard or the shell that should
/// repair the setting could not run.
const LEAST_SHARE: i64 = 1000;
/// The period's timer interrupts at this rate and visits every CPU (`do_sched_rt_period_timer()`); the kernel has no
/// lower limit.
const LEAST_PERIOD_US: i64 = 1000;
/// The limits that the kernel enforced while these were sysctls, up to 5.12 (`min_sched_granularity_ns` and so on in
/// kernel/sysctl.c). In debugfs they have no limits: 0 divides by zero (`sched_nr_latency`), and with seconds each task
/// runs for seconds.
const GRANULARITY_NS: std::ops::RangeInclusive<i64> = 100_000..=1_000_000_000;

/// Checks a value for a setting, given by name or path. `other` returns the value that another setting has, or will
/// have.
///
/// # Errors If the value would certainly harm the machine. Values that the kernel itself refuses are not checked.
pub fn check_harm(name: &str, value: &str, other: impl Fn(&str) -> Option<String>) -> Result<(), Harm> {
    // There are many ways to write a path, but only one for its last part.
    let last = name.split(['/', '.']).rfind(|part| !part.is_empty()).unwrap_or(name);
    let number_of = |name: &str| other(name).and_then(|text| sysctl_number(&text));
    let harm = match last {
        "sched_rt_runtime_us" => sysctl_number(value).and_then(|runtime| {
            let period = number_of("sched_rt_period_us");
            runtime_harm(runtime, period)
        }),
        "sched_rt_period_us" => sysctl_number(value).and_then(|period| {
            let runtime = number_of("sched_rt_runtime_us").unwrap_or(DEFAULT_RUNTIME_US);
            period_harm(period, runtime)
        }),
        "latency_ns" | "sched_latency_ns" | "min_granularity_ns" | "sched_min_granularity_ns" | "base_slice_ns" => {
            granularity_harm(value, GRANULARITY_NS)
        }
        "wakeup_granularity_ns" | "sched_wakeup_granularity_ns" => granularity_harm(value, 0..=*GRANULARITY_NS.end()),
        "scan_size_mb" | "numa_balancing_scan_size_mb" => (debugfs_number(value) == Some(0)).then(|| {
            "with 0 the kernel divides by zero (task_nr_scan_windows()) when a task next uses memory".to_owned()
        }),
        _ => None,
    };
    harm.map_or(Ok(()), |reason| Err(Harm { reason }))
}

fn runtime_harm(runtime: i64, period: Option<i64>) -> Option<String> {
    let known = period.filter(|&period| period > 0);
    let period = known.unwrap_or(DEFAULT_PERIOD_US);
    if runtime < 0 {
        // −1 means no limit.
        return None;
    }
    if runtime.saturating_mul(LEAST_SHARE) < period {
        let least = period.div_euclid(LEAST_SHARE).max(1);
        return Some(format!(
            "with {runtime} us of each {period} us real-time tasks do not run any more, the guard and watchdogs neither; \
             expected -1 or at least {least}"
        ));
    }
    (known.is_some() && runtime > period).then(|| {
        format!(
            "{runtime} us is more than the period, {period} us, and the kernel refuses it; expected -1 or at most that"
        )
    })
}

fn period_harm(period: i64, runtime: i64) -> Option<String> {
    if period <= 0 {
        return None;
    }
    if period < LEAST_PERIOD_US {
        return Some(format!(
            "with a period of {period} us a timer interrupts all the time while a real-time task runs; expected at least \
             {LEAST_PERIOD_US}"
        ));
    }
    (runtime >= 0 && runtime.saturating_mul(LEAST_SHARE) < period).then(|| {
        format!(
            "real-time tasks may run {runtime} us (sched_rt_runtime_us) of each period, and with {period} us do not run any \
             more; expected at most {}",
            runtime.saturating_mul(LEAST_SHARE)
        )
    })
}

fn granularity_harm(value: &str, range: std::ops::RangeInclusive<i64>) -> Option<String> {
    let ns = debugfs_number(value)?;
    (!range.contains(&ns)).then(|| {
        format!("the kernel makes {ns} ns of it, and is safe with {} to {} ns only", range.start(), range.end())
    })
}

/// Parses a text as a file in /proc/sys does (`proc_dointvec()`): blanks, a sign, digits in base 8, 10 or 16; `None` if
/// the kernel refuses it.
fn sysctl_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = i64::try_from(leading_number(digits)?).ok()?;
    let number = if negative { -number } else { number };
    i32::try_from(number).ok().map(i64::from)
}

/// Parses a text as a file in debugfs does (`debugfs_create_u32()`): a 64-bit number, of which the lower 32 bits are
/// kept.
fn debugfs_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let number = leading_number(text.strip_prefix('+').unwrap_or(text))?;
    Some(i64::from(number as u32))
}

/// `_parse_integer()` of lib/kstrtox.c with base 0.
fn leading_number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_hexdigit()) => (rest, 16),
        _ if text.starts_with('0') => (text, 8),
        _ => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn zero_is_zero_however_it_is_written() {
        for name in ["kernel.sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us", "sched_rt_runtime_us"] {
            for value in
                ["0", "00", "-0", "0x0", "0X00", " 0", "\t0\n", "0 950000", "1", "0x1", "999", "01747", "0x3e7"]
            {
                assert!(check_harm(name, value, nothing).is_err(), "{name} {value:?}");
            }
            // -1 is no limit, and the kernel refuses the rest.
            for value in ["-1", "1000", "950000", "01750", "0x3e8", "1000000", "", "x", "+0", "9999999999", "-"] {
                assert_eq!(check_harm(name, value, nothing), Ok(()), "{name} {value:?}");
            }
        }
    }

    #[test]
    fn real_time_keeps_a_thousandth_of_whatever_the_period_is() {
        let with = |value: &str, other: &str| {
            let check = |name: &str, value: &str| check_harm(name, value, |_| Some(other.to_owned())).is_err();
            (check("sched_rt_runtime_us", value), check("sched_rt_period_us", value))
        };
        // A value, the other setting, and whether it does harm as a runtime and as a period.
        for (value, other, harm) in [
            ("1000", "1000000\n", (false, false)),
            ("1000", "2000000", (true, false)),
            ("100", "100000", (false, true)),
            ("1000000", "950000", (true, false)),
            ("2000000000", "950000", (true, true)),
            ("2000000000", "-1", (false, false)),
            ("950000000", "950000", (true, false)),
            ("1", "-1", (true, true)),
        ] {
            assert_eq!(with(value, other), harm, "{value} with {other}");
        }
    }

    #[test]
    fn debugfs_has_no_bounds_of_its_own() {
        for path in
            ["latency_ns", "/sys/kernel/debug/sched//min_granularity_ns", "/sys/kernel/debug/sched/./base_slice_ns"]
        {
            for value in ["0", "99999", "4294967296", "0x100000000", "4000000000", "+0"] {
                assert!(check_harm(path, value, nothing).is_err(), "{path} {value}");
            }
            for value in ["100000", "3000000", "1000000000", "nonsense"] {
                assert_eq!(check_harm(path, value, nothing), Ok(()), "{path} {value}");
            }
        }
        assert_eq!(check_harm("wakeup_granularity_ns", "0", nothing), Ok(()));
        assert!(check_harm("numa_balancing/scan_size_mb", "0x0", nothing).is_err());
        assert_eq!(check_harm("migration_cost_ns", "0", nothing), Ok(()));
    }
}
