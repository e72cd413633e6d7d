use hdrhistogram::Histogram;
use unstarve_model::Nanos;

/// The distribution of one actor's waits: exact while there are few, then within 1 %.
///
/// Most actors of a trace wait a handful of times, so the histogram (some 14 kB) is made only for those who wait often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
    few: Vec<u64>,
    many: Option<Box<Histogram<u32>>>,
}

impl Quantiles {
    const FEW: usize = 64;
    /// One hour; longer waits count as this long here (the maximum is kept apart, exactly).
    const LONGEST: u64 = 3_600_000_000_000;

    pub fn record(&mut self, length: Nanos) {
        let ns = length.0.clamp(1, Quantiles::LONGEST);
        match &mut self.many {
            Some(histogram) => note(histogram, ns, 1),
            None if self.few.len() < Quantiles::FEW => self.few.push(ns),
            None => self.grow(ns),
        }
    }

    #[cold]
    fn grow(&mut self, ns: u64) {
        // Two significant figures; a histogram that starts small and grows by itself cannot fail on these bounds.
        let Ok(mut histogram) = Histogram::<u32>::new(2) else { return };
        histogram.auto(true);
        for value in self.few.drain(..).chain([ns]) {
            note(&mut histogram, value, 1);
        }
        self.many = Some(Box::new(histogram));
    }

    /// Adds another distribution.
    pub fn merge(&mut self, other: &Quantiles) {
        for &ns in &other.few {
            self.record(Nanos(ns));
        }
        if let Some(theirs) = &other.many {
            for value in theirs.iter_recorded() {
                let (ns, count) = (value.value_iterated_to(), value.count_at_value());
                if self.many.is_none() {
                    self.grow(ns);
                    if let Some(mine) = &mut self.many {
                        note(mine, ns, count.saturating_sub(1));
                    }
                } else if let Some(mine) = &mut self.many {
                    note(mine, ns, count);
                }
            }
        }
    }

    /// The value that the fraction `quantile` of all waits does not exceed; `None` if there was none.
    pub fn at(&self, quantile: f64) -> Option<Nanos> {
        if let Some(histogram) = &self.many {
            return Some(Nanos(histogram.value_at_quantile(quantile)));
        }
        let mut sorted = self.few.clone();
        sorted.sort_unstable();
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).map(|ns| Nanos(*ns))
    }
}

fn note(histogram: &mut Histogram<u32>, ns: u64, count: u32) {
    // It resizes itself, so only more than 2^64 / 2 could fail, and values are capped far below.
    let recorded = histogram.record_n(ns, count);
    debug_assert!(recorded.is_ok(), "{recorded:?}");
}

#[cfg(test)]
mod tests {
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
}
