//! What the machine did in each interval.

use unstarve_model::{Nanos, Time};

use super::scale::{Scale, Stretch};

/// Counts of events in each interval.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub voluntary: u32,
    pub involuntary: u32,
    pub wakeups: u32,
    pub migrations: u32,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.voluntary = self.voluntary.saturating_add(other.voluntary);
        self.involuntary = self.involuntary.saturating_add(other.involuntary);
        self.wakeups = self.wakeups.saturating_add(other.wakeups);
        self.migrations = self.migrations.saturating_add(other.migrations);
    }
}

/// The total time that something took in each interval.
///
/// A run over thousands of intervals costs no more than one in a single interval: the intervals between its ends are
/// stored as a difference and summed up on request.
#[derive(Clone, Default, Debug)]
pub(crate) struct Load {
    parts: Vec<u64>,
    /// Changes at this interval in the number of runs that cover it completely.
    whole: Vec<i64>,
}

impl Load {
    pub fn add(&mut self, stretch: Stretch) {
        if self.parts.len() <= stretch.last {
            self.parts.resize(stretch.last + 1, 0);
            self.whole.resize(stretch.last + 2, 0);
        }
        self.parts[stretch.first] += stretch.in_first;
        if stretch.last > stretch.first {
            self.parts[stretch.last] += stretch.in_last;
            self.whole[stretch.first + 1] += 1;
            self.whole[stretch.last] -= 1;
        }
    }

    /// Time in each interval.
    pub fn sums(&self, width: Nanos) -> Vec<u64> {
        let mut covering = 0i64;
        let each = self.parts.iter().zip(&self.whole).map(|(part, change)| {
            covering += change;
            part + covering.unsigned_abs() * width.0
        });
        each.collect()
    }

    /// Merges pairs of intervals; `width` is that of the old ones.
    pub fn halve(&mut self, width: Nanos) {
        self.parts = self.sums(width).chunks(2).map(|pair| pair.iter().sum()).collect();
        self.whole = vec![0; self.parts.len() + 1];
    }
}

/// What the machine did over time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Activity {
    pub counts: Vec<Counts>,
    pub waiting: Load,
    /// By class: fair, real-time, deadline.
    pub running: [Load; 3],
    pub irq: Load,
    pub softirq: Load,
}

impl Activity {
    pub fn at(&mut self, index: usize) -> &mut Counts {
        if self.counts.len() <= index {
            self.counts.resize(index + 1, Counts::default());
        }
        &mut self.counts[index]
    }

    pub fn halve(&mut self, width: Nanos) {
        let halved = self.counts.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair.iter().skip(1).for_each(|other| sum.add(other));
            sum
        });
        self.counts = halved.collect();
        let [fair, rt, deadline] = &mut self.running;
        for load in [&mut self.waiting, fair, rt, deadline, &mut self.irq, &mut self.softirq] {
            load.halve(width);
        }
    }
}

/// The part of `scale` that `start..end` covers.
pub(crate) fn stretch(scale: Scale, zero: Time, start: Time, end: Time) -> Stretch {
    scale.stretch(zero, start.max(zero), end.max(zero))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_keeps_its_sum_when_intervals_are_merged() {
        let mut scale = Scale { width: Nanos(100) };
        let mut load = Load::default();
        for (start, end) in [(10, 30), (50, 980), (150, 250), (199, 200)] {
            load.add(stretch(scale, Time(0), Time(start), Time(end)));
        }
        let sums = load.sums(scale.width);
        assert_eq!(sums[..3], [20 + 50, 100 + 50 + 1, 100 + 50]);
        assert_eq!(sums.iter().sum::<u64>(), 20 + 930 + 100 + 1);
        load.halve(scale.width);
        scale.grow();
        assert_eq!(load.sums(scale.width)[0], 70 + 151);
        load.add(stretch(scale, Time(0), Time(100), Time(500)));
        assert_eq!(load.sums(scale.width).iter().sum::<u64>(), 1051 + 400);
    }
}
