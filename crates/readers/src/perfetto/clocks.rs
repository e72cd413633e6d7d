//! Converts the clock of ftrace events to the trace's clock.

use unstarve_model::{ClockPair, Time, WallTime};

use super::proto::ClockSnapshot;

/// Clock ids of `BuiltinClock` in `common/builtin_clock.proto`.
const CLOCK_REALTIME: u32 = 1;
const CLOCK_MONOTONIC_RAW: u32 = 5;
const CLOCK_BOOTTIME: u32 = 6;

/// Converts ftrace times to boot time.
///
/// Perfetto sets ftrace's clock to `boot` if the kernel has it, and otherwise says so in each bundle (`FtraceClock` in
/// `ftrace_event_bundle.proto`). Other clocks are shifted by a fixed distance, so that times match what Perfetto shows
/// and no interval changes its length. The distance is taken from the first bundle; clocks drift by a millisecond or
/// two per hour.
#[derive(Debug, Default)]
pub struct Clocks {
    distances: [Option<i64>; CLOCK_NAMES.len()],
    raw_to_boot: Option<i64>,
}

const CLOCK_NAMES: [&str; 5] = ["boot", "unknown", "global", "local", "mono_raw"];
const MONO_RAW: usize = 4;

/// The two times of a bundle, read at the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    pub ftrace: Option<i64>,
    pub boot: Option<i64>,
}

impl Clocks {
    /// Learns the distances between clocks.
    pub fn snapshot(&mut self, snapshot: &ClockSnapshot) {
        let of = |id| i64::try_from(timestamp(snapshot, id)?).ok();
        if let (Some(raw), Some(boot)) = (of(CLOCK_MONOTONIC_RAW), of(CLOCK_BOOTTIME)) {
            self.raw_to_boot.get_or_insert(boot.wrapping_sub(raw));
        }
    }

    /// A pair of the trace's clock and the wall clock, if the snapshot has both. `None` if ftrace's clock could not be
    /// converted to boot time.
    pub fn wall(snapshot: &ClockSnapshot) -> Option<ClockPair> {
        let (boot, wall) = (timestamp(snapshot, CLOCK_BOOTTIME)?, timestamp(snapshot, CLOCK_REALTIME)?);
        Some(ClockPair { trace: Time(boot), wall: WallTime(wall) })
    }

    /// The distance of a bundle's times from the trace's, and the name of the resulting clock.
    pub fn distance(&mut self, clock: u64, pair: Pair) -> (i64, &'static str) {
        let index = usize::try_from(clock).ok().filter(|&index| index < CLOCK_NAMES.len()).unwrap_or(1);
        if index == 0 {
            return (0, CLOCK_NAMES[0]);
        }
        let own = pair.boot.zip(pair.ftrace).map(|(boot, ftrace)| boot.wrapping_sub(ftrace));
        let raw = if index == MONO_RAW { self.raw_to_boot } else { None };
        let known = self.distances[index].or(raw).or(own);
        // A clock that cannot be converted at first is never converted: times would jump.
        self.distances[index] = Some(known.unwrap_or(0));
        (
            known.unwrap_or(0),
            if known.is_some_and(|distance| distance != 0) { CLOCK_NAMES[0] } else { CLOCK_NAMES[index] },
        )
    }
}

fn timestamp(snapshot: &ClockSnapshot, id: u32) -> Option<u64> {
    snapshot.clocks.iter().find(|clock| clock.clock_id == Some(id))?.timestamp
}

#[cfg(test)]
mod tests {
    use super::super::proto::Clock;
    use super::*;

    #[test]
    fn other_clocks_are_moved_to_boot_time_by_a_fixed_distance() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.distance(0, Pair::default()), (0, "boot"));
        assert_eq!(clocks.distance(3, Pair { ftrace: Some(100), boot: Some(1100) }), (1000, "boot"));
        assert_eq!(
            clocks.distance(3, Pair { ftrace: Some(200), boot: Some(1201) }),
            (1000, "boot"),
            "drift is kept out"
        );
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        clocks.snapshot(&ClockSnapshot { clocks: vec![clock(CLOCK_MONOTONIC_RAW, 50), clock(CLOCK_BOOTTIME, 40)] });
        assert_eq!(clocks.distance(4, Pair::default()), (-10, "boot"));
        assert_eq!(clocks.distance(2, Pair::default()), (0, "global"));
        assert_eq!(clocks.distance(2, Pair { ftrace: Some(1), boot: Some(3) }), (0, "global"));
        assert_eq!(clocks.distance(99, Pair::default()), (0, "unknown"));
    }
}
