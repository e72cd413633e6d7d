use std::time::Duration;

use crate::instance::Instance;
use crate::{BufferSize, RecordError};

/// Holds what a CPU that switches a million times a second writes in the time between two fetches.
const DEFAULT_KIB: u32 = 16 << 10;
const LEAST_KIB: u32 = 1 << 10;

/// What the buffers of all CPUs may take of the memory that is available, unless a size is asked for.
const MEMORY_PART: u64 = 32;

/// The most that a CPU is expected to write: about a million switches a second, each with its wakeups. (A pipe between
/// two pinned tasks, the fastest switching there is, writes a fifth of it.)
const WORST_KIB_PER_SECOND: u64 = 160 << 10;

/// Sizes the ring buffers; gives the size of each CPU's in KiB.
pub(crate) fn size(instance: &Instance, wanted: BufferSize, cpus: usize) -> Result<u32, RecordError> {
    let mut kib = match wanted {
        BufferSize::KiB(kib) => return set(instance, kib).map(|()| kib),
        BufferSize::Auto => automatic(available_memory_kib(), cpus),
    };
    loop {
        match set(instance, kib) {
            Err(_) if kib > LEAST_KIB => kib = (kib / 2).max(LEAST_KIB),
            result => return result.map(|()| kib),
        }
    }
}

fn set(instance: &Instance, kib: u32) -> Result<(), RecordError> {
    instance.set("buffer_size_kb", &kib.to_string())
}

fn automatic(available_kib: Option<u64>, cpus: usize) -> u32 {
    let Some(available) = available_kib else { return LEAST_KIB };
    let share = available / MEMORY_PART / cpus.max(1) as u64;
    u32::try_from(share).unwrap_or(u32::MAX).clamp(LEAST_KIB, DEFAULT_KIB)
}

fn available_memory_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// How long to leave a buffer alone: it must not fill even at the worst rate, and waking more often than ten times a
/// second would buy nothing.
pub(crate) fn fetch_interval(buffer_kib: u32) -> Duration {
    let fill = Duration::from_millis(u64::from(buffer_kib) * 1000 / WORST_KIB_PER_SECOND);
    fill.clamp(Duration::from_millis(5), Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_a_small_part_of_the_memory() {
        let gib = 1 << 20;
        assert_eq!(automatic(Some(24 * gib), 2), DEFAULT_KIB);
        assert_eq!(automatic(Some(64 * gib), 256), 8 << 10);
        assert_eq!(automatic(Some(gib / 8), 4), LEAST_KIB);
        assert_eq!(automatic(None, 4), LEAST_KIB);
    }

    #[test]
    fn small_buffers_are_fetched_more_often() {
        assert_eq!(fetch_interval(DEFAULT_KIB), Duration::from_millis(100));
        assert_eq!(fetch_interval(4 << 10), Duration::from_millis(25));
        assert_eq!(fetch_interval(4), Duration::from_millis(5));
    }
}
