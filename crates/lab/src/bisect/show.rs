//! Prints the result of a bisection.

use std::fmt;

use super::Bisection;
use crate::compare::{interval, percent, quantity};
use crate::stats::Contrast;

impl fmt::Display for Bisection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: f64| quantity(value, &self.unit);
        writeln!(f, "{}: {}\n  A: {}: {}", self.scenario, self.metric, self.a, show(self.value_a))?;
        writeln!(f, "  B: {}: {}", self.b, show(self.value_b))?;
        if let Some(difference) = &self.difference {
            writeln!(f, "  B against A: {}", in_words(difference))?;
        }
        let Bisection { candidates, steps, guests, .. } = self;
        writeln!(f, "  {candidates} settings differ, {steps} configurations tried in {guests} guests")?;
        match (self.value_with_cause, &self.confirmed) {
            (Some(value), Some(confirmed)) => {
                let explained = self.explained * 100.0;
                writeln!(f, "cause ({explained:.0} % of the difference, A with it: {}):", show(value))?;
                self.cause.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
                writeln!(f, "confirmed with other seeds: {}", in_words(confirmed))?;
            }
            _ => writeln!(f, "no cause found among the settings")?,
        }
        for other in &self.others {
            writeln!(f, "without that, the same difference is made by:")?;
            other.iter().try_for_each(|change| writeln!(f, "  {change}"))?;
        }
        self.unexplained.iter().try_for_each(|what| writeln!(f, "not explained: {what}"))
    }
}

/// `-20.8 % (-21.5 % to -20.1 %), 3 pairs`.
fn in_words(contrast: &Contrast) -> String {
    let relative = contrast.relative.map_or("-".to_owned(), percent);
    let within = contrast.interval.map(|bounds| format!(" ({})", interval(bounds))).unwrap_or_default();
    format!("{relative}{within}, {} pairs", contrast.pairs)
}
