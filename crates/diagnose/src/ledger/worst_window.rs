//! The most time lost within any ten seconds of a recording.

use unstarve_model::Nanos;

/// In a long recording, a problem that lasted for some seconds is a small share. Its share of its worst ten seconds shows it.
pub(crate) const WORST_WINDOW: Nanos = Nanos::from_millis(10_000);

/// The most time lost within [`WORST_WINDOW`], counted in half windows; two adjacent halves make one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorstWindow {
    half: u64,
    before: Nanos,
    now: Nanos,
    most: Nanos,
}

impl WorstWindow {
    /// Adds the time lost in a wait that began at `since_start`. Waits arrive in the order of their ends; a wait that began in an
    /// earlier half counts in the current half.
    pub fn add(&mut self, since_start: Nanos, lost: Nanos) {
        let half = since_start.0 / (WORST_WINDOW.0 / 2);
        if half > self.half {
            self.before = if half == self.half + 1 { self.now } else { Nanos::ZERO };
            (self.half, self.now) = (half, Nanos::ZERO);
        }
        self.now += lost;
        self.most = self.most.max(self.before + self.now);
    }

    pub fn most(&self) -> Nanos {
        self.most.min(WORST_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most lost within ten seconds, in seconds; `lost_ms` is the time lost in each second.
    fn most(lost_ms: &[u64]) -> f64 {
        let mut worst = WorstWindow::default();
        for (second, lost) in (0..).zip(lost_ms) {
            worst.add(Nanos::from_millis(second * 1_000), Nanos::from_millis(*lost));
        }
        worst.most().0 as f64 / 1e9
    }

    #[test]
    fn ten_seconds_are_found_wherever_they_begin() {
        for quiet in 0..20 {
            let lost = [vec![10; quiet], vec![500; 10], vec![10; 20]].concat();
            assert!(most(&lost) > 0.75 * 5.0, "after {quiet} s: {}", most(&lost));
        }
        assert_eq!(most(&[100; 60]), 1.0);
        assert_eq!(most(&[30_000]), 10.0, "one wait is longer");
        assert_eq!(most(&[]), 0.0);
    }
}
