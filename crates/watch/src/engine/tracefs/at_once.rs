//! Counts the time of preferred tasks once, however many tasks wait for it.

use rustc_hash::FxHashMap;
use unstarve_model::Time;

/// Maximum stretches kept apart; beyond that, older ones are merged in pairs.
const STRETCHES: usize = 256;

/// For how long other tasks were preferred to a role on a CPU, each moment counted once.
#[derive(Clone, Debug, Default)]
pub(super) struct AtOnce(FxHashMap<(u8, u32), Vec<Stretch>>);

/// Start, end, and for how much of it other tasks were preferred. Stretches of one role and CPU are sorted and do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    start: u64,
    end: u64,
    preferred: u64,
}

impl Stretch {
    fn overlap(&self, start: u64, end: u64) -> u64 {
        self.end.min(end).saturating_sub(self.start.max(start))
    }

    /// Estimate of the preferred time between two moments, assuming an even distribution.
    fn preferred_in(&self, start: u64, end: u64) -> u64 {
        let length = u128::from((self.end - self.start).max(1));
        (u128::from(self.preferred) * u128::from(self.overlap(start, end)) / length) as u64
    }

    fn room_in(&self, start: u64, end: u64) -> u64 {
        self.overlap(start, end) - self.preferred_in(start, end)
    }
}

impl AtOnce {
    /// Adds a wait in which other tasks were preferred for so long; returns the part that is not yet counted for other waits of the role at the
    /// same time. A wait shows how long that was and not when: tasks preferred to one task of a role are assumed to be preferred to all that wait
    /// meanwhile.
    pub fn add(&mut self, role: usize, cpu: u32, (start, end): (Time, Time), preferred: u64) -> u64 {
        let Ok(role) = u8::try_from(role) else { return 0 };
        if preferred == 0 || end <= start {
            return 0;
        }
        let stretches = self.0.entry((role, cpu)).or_default();
        let new = add(stretches, (start.0, end.0), preferred);
        if stretches.len() > STRETCHES {
            put_together(stretches);
        }
        new
    }

    /// Copies the stretches of a role and CPU, unless there are some already.
    pub fn begin_with(&mut self, known: &AtOnce, role: usize, cpu: u32) {
        let Ok(role) = u8::try_from(role) else { return };
        let of = known.0.get(&(role, cpu));
        self.0.entry((role, cpu)).or_insert_with(|| of.cloned().unwrap_or_default());
    }
}

fn add(stretches: &mut Vec<Stretch>, (start, end): (u64, u64), preferred: u64) -> u64 {
    // Waits arrive in the order of their ends, so that few stretches are later than the start of a wait.
    let first = stretches.partition_point(|stretch| stretch.end <= start);
    let later = stretches.split_off(first);
    let known: u64 = later.iter().map(|stretch| stretch.preferred_in(start, end)).sum();
    let new = preferred.saturating_sub(known);
    if new == 0 {
        stretches.extend(later);
        return 0;
    }
    let mut at = start;
    for stretch in later {
        if at < stretch.start.min(end) {
            stretches.push(Stretch { start: at, end: stretch.start.min(end), preferred: 0 });
        }
        at = at.max(stretch.end);
        stretches.push(stretch);
    }
    if at < end {
        stretches.push(Stretch { start: at, end, preferred: 0 });
    }
    spread(&mut stretches[first..], (start, end), new);
    new
}

/// Distributes the new time over the free parts, in proportion.
fn spread(stretches: &mut [Stretch], (start, end): (u64, u64), new: u64) {
    let mut room: u64 = stretches.iter().map(|stretch| stretch.room_in(start, end)).sum();
    let mut left = new.min(room);
    for stretch in stretches {
        let here = stretch.room_in(start, end);
        let part = (u128::from(left) * u128::from(here) / u128::from(room.max(1))) as u64;
        stretch.preferred += part;
        (left, room) = (left - part, room - here);
    }
}

/// Merges the older half in pairs.
fn put_together(stretches: &mut Vec<Stretch>) {
    let newer = stretches.split_off(stretches.len() / 2);
    let pairs = stretches.chunks(2).filter_map(|pair| {
        let (first, last) = (pair.first()?, pair.last()?);
        let preferred = pair.iter().map(|stretch| stretch.preferred).sum();
        Some(Stretch { start: first.start, end: last.end, preferred })
    });
    *stretches = pairs.chain(newer).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds waits of one role for one CPU: start, end, and for how long other tasks were preferred.
    fn added(waits: &[(u64, u64, u64)]) -> Vec<u64> {
        let mut all = AtOnce::default();
        waits.iter().map(|(start, end, preferred)| all.add(7, 0, (Time(*start), Time(*end)), *preferred)).collect()
    }

    #[test]
    fn of_all_that_wait_at_once_each_moment_counts_once() {
        //  heavy   ....HHHH............
        //  nfsd    ..wwwwwwR                        4 of 6
        //  nfsd    ..wwwwwwwwR                      the same 4
        //  nfsd    ..wwwwwwwwwwwR                   the same 4
        assert_eq!(added(&[(2, 8, 4), (2, 10, 4), (2, 13, 4)]), [4, 0, 0]);
        //  heavy   ..HHHH......HHHH
        //  nfsd    ..wwwwR.....wwwwR
        assert_eq!(added(&[(2, 6, 4), (12, 16, 4)]), [4, 4]);
        //  heavy   ..HH......HHHH
        //  nfsd    ..wwR.....                       2
        //  nfsd    ..wwwwwwwwwwwwR                  6, of which 2 are known
        assert_eq!(added(&[(2, 4, 2), (2, 14, 6)]), [2, 4]);
        // Turns among equals are not precedence, and waits for different CPUs are counted separately.
        assert_eq!(added(&[(2, 8, 0), (2, 8, 3)]), [0, 3]);
        let mut all = AtOnce::default();
        assert_eq!([0, 1].map(|cpu| all.add(7, cpu, (Time(2), Time(8)), 4)), [4, 4]);
    }

    #[test]
    fn it_is_no_more_than_the_longest_of_them_and_no_less() {
        // A thousand waits, ten at a time, overlapping in chains: a heavier task has a quarter of the CPU.
        let waits: Vec<_> = (0..1_000).map(|place| (place * 10, place * 10 + 100, 25)).collect();
        let sum: u64 = added(&waits).iter().sum();
        let span = 1_000 * 10 + 90;
        assert!((span / 5..=span / 3).contains(&sum), "{sum} of {span}");
        // A wait over the whole time is not counted in addition to the short ones.
        let mut waits: Vec<_> = (0..10_000).map(|place| (place * 10, place * 10 + 8, 6)).collect();
        waits.push((0, 100_000, 60_000));
        let new = added(&waits);
        assert_eq!(new[..10_000].iter().sum::<u64>(), 60_000);
        assert!(new[10_000] < 3_000, "{}", new[10_000]);
    }
}
