//! Quantiles of an actor's wait lengths: exact for few waits, a histogram for many.

use unstarve_model::Nanos;

/// The distribution of one actor's waits: exact up to [`Quantiles::EXACT_SAMPLES`], then within 1/128 (0.8 %).
///
/// Most actors of a trace wait a handful of times, so the histogram (some 14 kB) is allocated only for actors that wait often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
    few: Vec<u64>,
    many: Option<Buckets>,
}

impl Quantiles {
    const EXACT_SAMPLES: usize = 64;
    /// One hour; longer waits are recorded as this long here (the exact maximum is kept separately).
    const LONGEST: u64 = 3_600_000_000_000;

    #[inline]
    pub fn record(&mut self, length: Nanos) {
        let ns = length.0.clamp(1, Quantiles::LONGEST);
        match &mut self.many {
            Some(buckets) => buckets.add(ns),
            None => self.record_one_of_few(ns),
        }
    }

    #[cold]
    fn record_one_of_few(&mut self, ns: u64) {
        if self.few.len() < Quantiles::EXACT_SAMPLES {
            self.few.push(ns);
        } else {
            self.grow().add(ns);
        }
    }

    /// Switches to a histogram, unless it already is one.
    fn grow(&mut self) -> &mut Buckets {
        let few = &mut self.few;
        self.many.get_or_insert_with(|| {
            let mut buckets = Buckets::default();
            few.drain(..).for_each(|ns| buckets.add(ns));
            buckets
        })
    }

    /// Adds another distribution; same result as recording all its waits here.
    pub fn merge(&mut self, other: &Quantiles) {
        for &ns in &other.few {
            self.record(Nanos(ns));
        }
        if let Some(theirs) = &other.many {
            self.grow().merge(theirs);
        }
    }

    /// The length that the fraction `quantile` of all waits does not exceed; `None` without waits. From the histogram, the
    /// largest value of the bucket: never less than the true one, and at most 1/128 more.
    pub fn at(&self, quantile: f64) -> Option<Nanos> {
        if let Some(buckets) = &self.many {
            return Some(Nanos(buckets.at(quantile)));
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).map(|ns| Nanos(*ns))
    }
}

/// Counts by value: values below 256 one by one, then 128 buckets of equal width between powers of two. Two histograms are merged
/// by adding bucket by bucket, without loss.
///
/// HdrHistogram with two significant figures has the same buckets, and a test compares the two. Adding a wait here takes a tenth
/// of the instructions, because the bucket layout is fixed at compile time.
#[derive(Clone, Debug, Default)]
struct Buckets {
    counts: Vec<u32>,
}

/// Log2 of the number of buckets between two powers of two.
const FINENESS: u32 = 7;

impl Buckets {
    #[inline]
    fn add(&mut self, value: u64) {
        let index = index_of(value);
        match self.counts.get_mut(index) {
            Some(count) => *count = count.saturating_add(1),
            None => self.make_room(index),
        }
    }

    /// Grows the vector to include this bucket, and counts the value.
    #[cold]
    fn make_room(&mut self, index: usize) {
        self.counts.resize((index + 1).next_multiple_of(1 << FINENESS), 0);
        self.counts[index] = 1;
    }

    fn merge(&mut self, other: &Buckets) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    fn at(&self, quantile: f64) -> u64 {
        let all: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = ((quantile.min(1.0) * all as f64).ceil() as u64).max(1);
        let mut so_far = 0;
        let found = self.counts.iter().position(|count| {
            so_far += u64::from(*count);
            so_far >= rank
        });
        found.map_or(0, largest_of)
    }
}

/// The bucket of a value.
#[inline]
fn index_of(value: u64) -> usize {
    let width = u64::BITS - (value | ((2 << FINENESS) - 1)).leading_zeros() - FINENESS - 1;
    ((width as usize) << FINENESS) + (value >> width) as usize
}

/// The largest value of a bucket.
fn largest_of(index: usize) -> u64 {
    let width = (index >> FINENESS).saturating_sub(1);
    let place = (index - (width << FINENESS)) as u64;
    ((place + 1) << width) - 1
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_waits_are_exact_and_many_are_within_a_hundredth() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.at(0.99), None);
        for us in 1..=50 {
            quantiles.record(Nanos::from_micros(us));
        }
        assert_eq!(quantiles.at(0.5), Some(Nanos::from_micros(25)));
        for us in 51..=10_000 {
            quantiles.record(Nanos::from_micros(us));
        }
        let p99 = quantiles.at(0.99).map_or(0, |ns| ns.0);
        assert!(p99.abs_diff(9_900_000) <= 99_000, "{p99}");
    }

    #[test]
    fn merging_keeps_every_wait() {
        let (mut few, mut many) = (Quantiles::default(), Quantiles::default());
        (1..=10).for_each(|ms| few.record(Nanos::from_millis(ms)));
        (1..=990).for_each(|_| many.record(Nanos::from_micros(5)));
        few.merge(&many);
        assert!(few.at(0.98).is_some_and(|ns| ns < Nanos::from_micros(6)));
        assert!(few.at(0.995).is_some_and(|ns| ns > Nanos::from_millis(3)));
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut value = 0;
        for index in 0..5000 {
            assert_eq!((index_of(value), index_of(largest_of(index))), (index, index), "{value}");
            value = largest_of(index) + 1;
        }
        assert!(value > Quantiles::LONGEST);
    }

    /// Lengths of all magnitudes.
    fn lengths() -> impl Strategy<Value = Vec<u64>> {
        let length = (0..63u32, any::<u64>()).prop_map(|(bits, value)| value >> bits);
        proptest::collection::vec(length, 0..400)
    }

    fn of(lengths: &[u64]) -> Quantiles {
        let mut quantiles = Quantiles::default();
        lengths.iter().for_each(|ns| quantiles.record(Nanos(*ns)));
        quantiles
    }

    proptest! {
        #[test]
        fn many_are_as_in_the_library_and_within_the_stated_error(lengths in lengths(), quantile in 0.001..1.0_f64) {
            let quantiles = of(&lengths);
            let mut known: Vec<u64> = lengths.iter().map(|ns| (*ns).clamp(1, Quantiles::LONGEST)).collect();
            known.sort_unstable();
            let rank = (quantile * known.len() as f64).ceil() as usize;
            let exact = known.get(rank.saturating_sub(1)).copied();
            let found = quantiles.at(quantile).map(|ns| ns.0);
            prop_assert_eq!(found.is_some(), exact.is_some());
            if let (Some(found), Some(exact)) = (found, exact) {
                prop_assert!(found >= exact && found - exact <= exact / 128, "{} for {}", found, exact);
            }
            if lengths.len() > Quantiles::EXACT_SAMPLES {
                let mut library = Histogram::<u32>::new(2).unwrap();
                library.auto(true);
                known.iter().for_each(|ns| library.record(*ns).unwrap());
                prop_assert_eq!(found, Some(library.value_at_quantile(quantile)));
            }
        }

        #[test]
        fn merged_is_as_recorded_together(one in lengths(), other in lengths(), quantile in 0.001..1.0_f64) {
            let (mut merged, together) = (of(&one), of(&[&one[..], &other[..]].concat()));
            merged.merge(&of(&other));
            if one.len().max(other.len()) > Quantiles::EXACT_SAMPLES || one.len() + other.len() <= Quantiles::EXACT_SAMPLES {
                prop_assert_eq!(merged.at(quantile), together.at(quantile));
            }
        }
    }
}
