//! Adds up spans of time so that overlaps count once.

use unstarve_model::{Nanos, Time};

/// Spans of time, each moment counted once. Most arrive in the order of their ends; a few arrive late, after spans that began
/// later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// Disjoint spans, earliest first.
    latest: Vec<(Time, Time)>,
    /// Everything before this counts as already counted.
    forgotten: Time,
}

impl Spans {
    /// A deferred wait arrives late by one run of another task; few waits of the same actor arrive in between.
    const KEPT: usize = 16;

    /// Adds a span; returns how much of it was not counted before.
    pub fn add(&mut self, start: Time, end: Time) -> Nanos {
        let from = start.max(self.forgotten);
        if end <= from {
            return Nanos::ZERO;
        }
        let touches = |span: &(Time, Time)| span.0 <= end && span.1 >= from;
        let known: Nanos =
            self.latest.iter().filter(|span| touches(span)).map(|span| span.1.min(end).since(span.0.max(from))).sum();
        let first = self.latest.iter().filter(|span| touches(span)).map(|span| span.0).min().unwrap_or(from).min(from);
        let last = self.latest.iter().filter(|span| touches(span)).map(|span| span.1).max().unwrap_or(end).max(end);
        self.latest.retain(|span| !touches(span));
        let place = self.latest.partition_point(|span| span.0 < first);
        self.latest.insert(place, (first, last));
        if self.latest.len() > Spans::KEPT {
            self.forgotten = self.latest.remove(0).1;
        }
        end.since(from).saturating_sub(known)
    }

    /// Adds all spans of another set.
    pub fn merge(&mut self, other: &Spans) {
        for (start, end) in &other.latest {
            self.add(*start, *end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once_whatever_the_order() {
        let mut spans = Spans::default();
        assert_eq!(spans.add(Time(10), Time(20)), Nanos(10));
        assert_eq!(spans.add(Time(15), Time(30)), Nanos(10));
        assert_eq!(spans.add(Time(50), Time(60)), Nanos(10));
        // Late: it began before the last span, and ended before it.
        assert_eq!(spans.add(Time(25), Time(55)), Nanos(20));
        assert_eq!(spans.add(Time(0), Time(60)), Nanos(10));
        assert_eq!(spans.latest, [(Time(0), Time(60))]);
    }

    #[test]
    fn what_is_forgotten_counts_as_counted() {
        let mut spans = Spans::default();
        for place in 0..=Spans::KEPT as u64 {
            assert_eq!(spans.add(Time(place * 10), Time(place * 10 + 5)), Nanos(5));
        }
        assert_eq!(spans.add(Time(0), Time(9)), Nanos(4), "up to 5 is forgotten");
    }
}
