//! The waits of one actor over time.

use unstarve_model::Nanos;

/// One actor's waits over time: a small histogram for each interval in which one ended.
#[derive(Clone, Default, Debug)]
pub(crate) struct Course {
    /// In time order; intervals without a wait are absent.
    pub cells: Vec<(u16, Cell)>,
    pub waits: u64,
    pub total: Nanos,
    pub longest: Nanos,
}

/// The waits of one interval.
#[derive(Clone, Default, Debug)]
pub(crate) struct Cell {
    pub count: u32,
    pub longest: u64,
    /// (step of length, count), by step.
    bins: Vec<(u16, u32)>,
}

/// Lengths in one step differ by less than a sixteenth, which is invisible on the plot's logarithmic scale.
const STEPS_PER_OCTAVE: u32 = 16;

fn step(ns: u64) -> u16 {
    if ns < u64::from(STEPS_PER_OCTAVE) {
        return ns as u16;
    }
    let octave = ns.ilog2();
    let within = (ns >> (octave - 4)) as u32 & (STEPS_PER_OCTAVE - 1);
    ((octave - 3) * STEPS_PER_OCTAVE + within) as u16
}

/// The middle of a step.
fn length(step: u16) -> u64 {
    let (octave, within) = (u32::from(step) / STEPS_PER_OCTAVE, u64::from(step) % u64::from(STEPS_PER_OCTAVE));
    if octave == 0 {
        return within;
    }
    let (low, size) = ((16 + within) << (octave - 1), 1u64 << (octave - 1));
    low + size / 2
}

impl Cell {
    fn record(&mut self, ns: u64, count: u32) {
        self.count = self.count.saturating_add(count);
        self.longest = self.longest.max(ns);
        self.note(step(ns), count);
    }

    fn note(&mut self, step: u16, count: u32) {
        match self.bins.binary_search_by_key(&step, |bin| bin.0) {
            Ok(index) => self.bins[index].1 = self.bins[index].1.saturating_add(count),
            Err(index) => self.bins.insert(index, (step, count)),
        }
    }

    pub fn merge(&mut self, other: &Cell) {
        self.count = self.count.saturating_add(other.count);
        self.longest = self.longest.max(other.longest);
        other.bins.iter().for_each(|&(step, count)| self.note(step, count));
    }

    /// The length that a fraction `quantile` of the waits does not exceed.
    pub fn at(&self, quantile: f64) -> u64 {
        let rank = (quantile * f64::from(self.count)).ceil() as u32;
        let mut seen = 0;
        for &(step, count) in &self.bins {
            seen += count;
            if seen >= rank {
                return if seen == self.count && rank == self.count {
                    self.longest
                } else {
                    length(step).min(self.longest)
                };
            }
        }
        self.longest
    }
}

impl Course {
    pub fn record(&mut self, index: usize, wait: Nanos) {
        self.waits += 1;
        self.total += wait;
        self.longest = self.longest.max(wait);
        let index = index as u16;
        // Most waits come in the order of their ends; one that was held back until a run ended comes late.
        let place = match self.cells.last() {
            Some((last, _)) if *last == index => Ok(self.cells.len() - 1),
            Some((last, _)) if *last > index => self.cells.binary_search_by_key(&index, |(index, _)| *index),
            _ => Err(self.cells.len()),
        };
        let at = place.unwrap_or_else(|at| {
            self.cells.insert(at, (index, Cell::default()));
            at
        });
        self.cells[at].1.record(wait.0, 1);
    }

    /// Merges pairs of intervals.
    pub fn halve(&mut self) {
        let mut halved: Vec<(u16, Cell)> = Vec::with_capacity(self.cells.len() / 2 + 1);
        for (index, cell) in self.cells.drain(..) {
            match halved.last_mut() {
                Some((last, merged)) if *last == index / 2 => merged.merge(&cell),
                _ => halved.push((index / 2, cell)),
            }
        }
        self.cells = halved;
    }

    /// Adds another's waits.
    pub fn merge(&mut self, other: &Course) {
        self.waits += other.waits;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
        for (index, cell) in &other.cells {
            match self.cells.binary_search_by_key(index, |(index, _)| *index) {
                Ok(at) => self.cells[at].1.merge(cell),
                Err(at) => self.cells.insert(at, (*index, cell.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_its_lengths_within_a_sixteenth() {
        for ns in (0..100_000u64).chain([1 << 20, (1 << 33) + 12345, u64::MAX / 2]) {
            let found = length(step(ns));
            assert!(found.abs_diff(ns) as f64 <= ns as f64 / 16.0, "{ns} became {found}");
        }
    }

    #[test]
    fn a_late_wait_finds_its_interval() {
        let mut course = Course::default();
        for index in [2, 7, 4, 7, 2, 9] {
            course.record(index, Nanos::from_micros(5));
        }
        let cells: Vec<(u16, u32)> = course.cells.iter().map(|(index, cell)| (*index, cell.count)).collect();
        assert_eq!(cells, [(2, 2), (4, 1), (7, 2), (9, 1)]);
    }

    #[test]
    fn quantiles_and_the_longest_outlive_merging() {
        let mut course = Course::default();
        for index in 0..8 {
            for us in 1..=100 {
                course.record(index, Nanos::from_micros(us));
            }
        }
        course.record(7, Nanos(90_000_001));
        course.halve();
        course.halve();
        let (index, last) = course.cells.last().cloned().unwrap_or_default();
        assert_eq!((index, last.count, last.longest), (1, 401, 90_000_001));
        assert!(last.at(0.5).abs_diff(50_000) < 3_000, "{}", last.at(0.5));
        assert_eq!(last.at(1.0), 90_000_001);
        assert_eq!(course.longest, Nanos(90_000_001));
    }
}
