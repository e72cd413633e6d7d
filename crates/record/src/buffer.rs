//! Sizes the ring buffers, and decides how often they are read.

use std::time::Duration;

use crate::instance::Instance;
use crate::set_up::Step;
use crate::{BufferSize, RecordError};

/// Holds what a CPU with a million switches per second writes between two reads.
const DEFAULT_KIB: u32 = 16 << 10;
const MIN_KIB: u32 = 1 << 10;

/// Unless a size is requested, the buffers of all CPUs take at most this part (one in 32) of the available memory.
const MEMORY_PART: u64 = 32;

/// The most that a CPU is expected to write: about a million switches a second, each with its wakeups. (The fastest
/// switching known, a pipe between two pinned tasks, writes a fifth of it.)
const WORST_KIB_PER_SECOND: u64 = 160 << 10;

/// Resizes the ring buffers; returns the size of the smallest one in KiB.
///
/// The kernel enlarges a CPU's buffer from a worker on that CPU and waits for it, holding the lock of all of tracefs.
/// On the `silent` CPUs that worker would not run, so their buffers keep the initial size (1.4 MiB).
pub(crate) fn size(
    instance: &Instance,
    wanted: BufferSize,
    cpus: &[u32],
    silent: &[u32],
    step: &Step,
) -> Result<u32, RecordError> {
    let kib = match wanted {
        BufferSize::KiB(kib) => kib,
        BufferSize::Auto => automatic(available_memory_kib(), cpus.len()),
    };
    if silent.is_empty() {
        step.is("the event buffers of all CPUs, each enlarged by a worker there");
        return set(instance, "buffer_size_kb", kib, wanted);
    }
    let mut smallest = kib;
    for cpu in cpus {
        let file = format!("per_cpu/cpu{cpu}/buffer_size_kb");
        let size = if silent.contains(cpu) {
            let now = made(&instance.text(&file)?);
            // Up to 6.6 the first event enabled enlarges the top-level buffers and waits for a worker on each CPU,
            // unless a size was ever set. To set the current size takes no worker.
            instance.set(&file, &now.to_string())?;
            now
        } else {
            step.is(format!("the event buffer of CPU {cpu}, enlarged by a worker there"));
            set(instance, &file, kib, wanted)?
        };
        smallest = smallest.min(size);
    }
    Ok(smallest)
}

fn set(instance: &Instance, file: &str, mut kib: u32, wanted: BufferSize) -> Result<u32, RecordError> {
    loop {
        match instance.set(file, &kib.to_string()) {
            Err(_) if kib > MIN_KIB && wanted == BufferSize::Auto => kib = (kib / 2).max(MIN_KIB),
            result => return result.map(|()| kib),
        }
    }
}

/// Parses `1408`, or `7 (expanded: 1408)`.
fn made(text: &str) -> u32 {
    text.split_ascii_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(MIN_KIB)
}

fn automatic(available_kib: Option<u64>, cpus: usize) -> u32 {
    let Some(available) = available_kib else { return MIN_KIB };
    let share = available / MEMORY_PART / cpus.max(1) as u64;
    u32::try_from(share).unwrap_or(u32::MAX).clamp(MIN_KIB, DEFAULT_KIB)
}

fn available_memory_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// How long to wait between two reads: a buffer must not fill even at the worst rate, and to wake more than ten times a
/// second would gain nothing.
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
        assert_eq!(automatic(Some(gib / 8), 4), MIN_KIB);
        assert_eq!(automatic(None, 4), MIN_KIB);
    }

    #[test]
    fn small_buffers_are_fetched_more_often() {
        assert_eq!(fetch_interval(DEFAULT_KIB), Duration::from_millis(100));
        assert_eq!(fetch_interval(4 << 10), Duration::from_millis(25));
        assert_eq!(fetch_interval(4), Duration::from_millis(5));
    }
}
