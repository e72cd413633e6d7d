//! Parses the header that `perf script --header` prints before the events; each line begins with `# `.

use unstarve_model::{ClockPair, Time, TraceInfo, WallTime};

use crate::text::number::{Stamp, stamp};

/// The start of the first header line that has text.
pub const FIRST_HEADER_LINE: &[u8] = b"# captured on";

/// Extracts the host name, the kernel release, and the wall-clock time at one moment of the trace.
pub fn note(comment: &[u8], info: &mut TraceInfo) {
    let Ok(comment) = std::str::from_utf8(comment) else { return };
    let Some((key, value)) = comment.split_once(':') else { return };
    let value = value.trim();
    match key.trim() {
        "hostname" if !value.is_empty() => info.host = Some(value.to_owned()),
        "os release" if !value.is_empty() => info.kernel_release = Some(value.to_owned()),
        "reference time" => info.clocks = reference(value).into_iter().collect(),
        _ => {}
    }
}

/// `2026-11-22 14:03:07.205000 = 1795356187.205000 (TOD) = 812.098000123 (CLOCK_MONOTONIC)`; the first is local time.
/// perf prints it if `-k` named the clock of the events.
fn reference(text: &str) -> Option<ClockPair> {
    let mut parts = text.split(" = ").skip(1);
    let wall = seconds(parts.next()?.strip_suffix(" (TOD)")?)?;
    let (trace, _) = parts.next()?.split_once(" (")?;
    Some(ClockPair { trace: seconds(trace)?, wall: WallTime(wall.0) })
}

fn seconds(text: &str) -> Option<Time> {
    match stamp(text.as_bytes())? {
        (Stamp::Seconds(time), []) => Some(time),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_prints_before_the_events_is_kept() {
        let mut info = TraceInfo::default();
        let header = [
            " hostname : web1",
            " os release : 6.1.0-32-amd64",
            " clockid: monotonic (1)",
            " reference time: 2020-09-14 16:57:14.123456 = 1600095434.123456 (TOD) = 26742.123000456 (monotonic)",
        ];
        header.iter().for_each(|line| note(line.as_bytes(), &mut info));
        assert_eq!(info.host.as_deref(), Some("web1"));
        assert_eq!(info.kernel_release.as_deref(), Some("6.1.0-32-amd64"));
        let pair = ClockPair { trace: Time(26_742_123_000_456), wall: WallTime(1_600_095_434_123_456_000) };
        assert_eq!(info.clocks, [pair]);
        note(b" reference time disabled", &mut info);
        note(b" reference time: nonsense = 12 (TOD)", &mut info);
        assert_eq!(info.clocks, []);
    }
}
