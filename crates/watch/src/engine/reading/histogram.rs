//! Histogram of wait lengths, with the buckets of Prometheus' native histograms.

use unstarve_model::Nanos;

/// Waits by length: four steps for each power of two of a **second**, from 2⁻²⁰ s (954 ns) to 2⁶ s (64 s), one below and one above.
///
/// Step `i` of 1 to 104 holds lengths in `[2^(-20 + (i-1)/4), 2^(-20 + i/4))` seconds; these are the buckets of a native histogram
/// with schema 2 (the upper bound of step `i` is that of bucket `i - 80`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    steps: Vec<u64>,
}

/// One step that is not empty.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// The bucket's index in a native histogram of schema 2: its upper bound is 2^(index/4) s. `None` for the first step, whose
    /// waits are shorter than any of them (a native histogram's zero bucket), and the last, whose waits are longer.
    pub index: Option<i32>,
    /// Lower bound, in seconds.
    pub from: f64,
    /// Upper bound, in seconds; infinite for the last step.
    pub to: f64,
    /// Number of waits.
    pub count: u64,
}

impl Histogram {
    /// Number of steps, including the first and the last.
    pub const STEPS: usize = 106;
    /// The schema of native histograms with these buckets.
    pub const SCHEMA: i32 = 2;
    /// The lower bound of the first power of two is 2 to this power, in seconds.
    const LEAST: i32 = -20;

    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { steps: vec![0; Histogram::STEPS] }
    }

    /// Adds waits of this length.
    pub fn add(&mut self, length: Nanos, count: u64) {
        self.add_step(step(length), count);
    }

    /// Adds waits to a step; a step that does not exist counts as the last.
    pub fn add_step(&mut self, step: usize, count: u64) {
        let sum = &mut self.steps[step.min(Histogram::STEPS - 1)];
        *sum = sum.saturating_add(count);
    }

    /// Adds the waits of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (step, count) in other.steps.iter().enumerate() {
            self.add_step(step, *count);
        }
    }

    /// The waits added since an earlier state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let steps = self.steps.iter().zip(&earlier.steps).map(|(now, then)| now.saturating_sub(*then)).collect();
        Histogram { steps }
    }

    /// Number of waits per step, shortest first; [`Histogram::STEPS`] of them.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// The steps that have waits, shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let filled = self.steps.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(step, count)| {
            let inner = (1..Histogram::STEPS - 1).contains(&step);
            let from = if step == 0 { 0.0 } else { bound(step - 1) };
            let to = if step == Histogram::STEPS - 1 { f64::INFINITY } else { bound(step) };
            let index = inner.then_some(step as i32 + Histogram::LEAST * 4);
            Bucket { index, from, to, count: *count }
        })
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// The upper bound of a step, in seconds.
fn bound(step: usize) -> f64 {
    (f64::from(Histogram::LEAST) + step as f64 / 4.0).exp2()
}

/// The step of a wait. The same as `step` in `bpf/histogram.h`, with integers only.
fn step(length: Nanos) -> usize {
    /// 2^62 times 2^(1/4), 2^(2/4) and 2^(3/4).
    const QUARTERS: [u64; 3] = [0x4C1B_F828_C6DC_54B8, 0x5A82_7999_FCEF_3242, 0x6BA2_7E65_6B4E_B57A];
    // In units of 2^-30 s, so that the bounds are powers of two: 2^30 / 10^9 is 1152921505 / 2^30.
    let units = ((u128::from(length.0) * 1_152_921_505) >> 30) as u64;
    let Some(power) = units.checked_ilog2().filter(|power| *power >= 10) else { return 0 };
    let mantissa = if power <= 62 { units << (62 - power) } else { units >> (power - 62) };
    let quarter = QUARTERS.iter().filter(|least| mantissa >= **least).count();
    ((power as usize - 10) * 4 + quarter + 1).min(Histogram::STEPS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_between_the_bounds_of_its_step() {
        for exponent in 0..420 {
            let ns = 1.07_f64.powi(exponent);
            if ns > 1e12 {
                break;
            }
            let mut histogram = Histogram::new();
            histogram.add(Nanos(ns as u64), 3);
            let bucket = histogram.buckets().next().expect("one step");
            let seconds = ns.floor() / 1e9;
            // Tolerance: one unit of 2^-30 s.
            assert!(bucket.from <= seconds + 1e-9 && seconds < bucket.to + 1e-9, "{ns}: {bucket:?}");
            assert_eq!((bucket.count, histogram.count()), (3, 3));
            if let Some(index) = bucket.index {
                assert!((bucket.to - (f64::from(index) / 4.0).exp2()).abs() < 1e-12, "{bucket:?}");
            }
        }
        assert_eq!(step(Nanos(u64::MAX)), Histogram::STEPS - 1);
        assert_eq!(step(Nanos(0)), 0);
    }

    #[test]
    fn a_second_begins_its_own_bucket() {
        let mut histogram = Histogram::new();
        histogram.add(Nanos(1_000_000_000), 1);
        assert_eq!(histogram.buckets().next().and_then(|bucket| bucket.index), Some(1), "1 s to 1.19 s");
    }
}
