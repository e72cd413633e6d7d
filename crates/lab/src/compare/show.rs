//! Prints a comparison.

use std::fmt;

use super::{Comparison, Row};
use crate::stats::{Contrast, FEWEST_PAIRS, MOST_PAIRS, Verdict};

/// Maximum metrics of a kind named in the conclusion.
const MAX_NAMED_METRICS: usize = 6;

impl Comparison {
    /// The conclusion in one line, worse metrics first.
    pub fn conclusion(&self) -> String {
        let Some(main) = self.main() else { return self.without_main() };
        let of = |verdict: Verdict| self.named(|row| row.contrast.verdict == verdict, effect);
        let perhaps = self.named(|row| row.contrast.taken_back == Some(Verdict::Worse), effect);
        let parts = [
            of(Verdict::Worse).map(|names| format!("worse: {names}")),
            of(Verdict::Better).map(|names| format!("better: {names}")),
            of(Verdict::Differs).map(|names| format!("different: {names}")),
            perhaps.map(|names| format!("perhaps worse: {names} (*)")),
            (!main.contrast.verdict.is_claim()).then(|| format!("{}: {}", main.metric, words(&main.contrast))),
        ];
        match main.contrast.verdict {
            verdict @ (Verdict::NoDifferenceThatMatters | Verdict::TooFewPairs)
                if parts.iter().flatten().count() == 1 =>
            {
                verdict.words().to_owned()
            }
            _ => parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
        }
    }

    fn without_main(&self) -> String {
        let claims = self.named(|row| row.contrast.verdict.is_claim(), effect);
        let different = claims.map(|names| format!("; different: {names}")).unwrap_or_default();
        let named = self.missing.is_empty() && !self.rows.is_empty();
        let main = if named {
            "the scenario names no metric that matters (`metrics` of `[expect]`)"
        } else {
            "the scenario's main metric was not measured"
        };
        format!("{main}{different}")
    }

    /// The names of the selected rows, each with a detail.
    fn named(&self, which: impl Fn(&Row) -> bool, with: impl Fn(&Row) -> String) -> Option<String> {
        let names: Vec<String> = self.rows.iter().filter(|row| which(row)).map(with).collect();
        let (shown, rest) = names.split_at(names.len().min(MAX_NAMED_METRICS));
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        (!names.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
    }

    fn samples(&self) -> String {
        let identical = match self.pairs_run - self.pairs {
            0 => String::new(),
            more => format!(" ({more} more were identical to the byte: no samples)"),
        };
        let own = self.seeds.iter().all(|(a, b)| a != b) && self.seeds.len() > 1;
        let of = if own { "different seeds, as both sides are the same" } else { "the same seed" };
        format!("{} pairs of {of}{identical}", self.pairs)
    }
}

/// `main.iops (-21.2 %)`.
fn effect(row: &Row) -> String {
    let relative = row.contrast.relative.map(|relative| format!(" ({})", percent(relative)));
    format!("{}{}", row.metric, relative.unwrap_or_default())
}

/// The verdict, with the number of pairs needed where it is unclear.
fn words(contrast: &Contrast) -> String {
    match (contrast.verdict, contrast.pairs_to_tell) {
        (Verdict::Unclear, Some(pairs)) => format!("unclear, about {pairs} seeds may be enough"),
        (Verdict::Unclear, None) => format!("unclear, more than {MOST_PAIRS} seeds would be needed"),
        (Verdict::TooFewPairs, _) => format!("{}: at least {FEWEST_PAIRS} seeds are needed", contrast.verdict.words()),
        (verdict, _) => verdict.words().to_owned(),
    }
}

/// A table for people; widths fit 100 columns for the usual names.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n  A: {}\n  B: {}\n  {}", self.scenario, self.a, self.b, self.samples())?;
        writeln!(f, "B against A: {}\n", self.conclusion())?;
        writeln!(f, "{:<24} {:>11} {:>11} {:>9}  {:<20} verdict", "metric", "A", "B", "B - A", "95 % interval")?;
        for row in &self.rows {
            let effect = row.contrast.relative.map_or("-".to_owned(), percent);
            let mark = if row.contrast.taken_back.is_some() { " *" } else { "" };
            writeln!(
                f,
                "{:<24} {:>11} {:>11} {effect:>9}  {:<20} {}{mark}",
                row.metric,
                quantity(row.contrast.mean_a, &row.unit),
                quantity(row.contrast.mean_b, &row.unit),
                row.contrast.interval.map_or("-".to_owned(), interval),
                words(&row.contrast)
            )?;
        }
        self.footnotes(f)
    }
}

impl Comparison {
    fn footnotes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.iter().any(|row| row.contrast.taken_back.is_some()) {
            let besides = self.rows.len() - usize::from(self.main().is_some());
            writeln!(
                f,
                "* Its own interval leaves out zero, but {besides} metrics were looked at besides the main one: no claim."
            )?;
        }
        writeln!(
            f,
            "In a guest an instruction takes a nanosecond: no caches, no memory to wait for. Who waits for whom carries over"
        )?;
        writeln!(f, "to a real machine, and ratios of waits mostly do; rates do not.")?;
        if !self.missing.is_empty() {
            writeln!(f, "not measured by all runs: {}", self.missing.join(", "))?;
        }
        Ok(())
    }
}

/// All values of a comparison, one row for each pair of runs.
pub struct PerSeed<'a>(pub &'a Comparison);

impl fmt::Display for PerSeed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>6} {:>6} {:>11} {:>11} {:>9}", "metric", "seed A", "seed B", "A", "B", "B - A")?;
        for row in &self.0.rows {
            for (pair, (a, b)) in row.values.iter().zip(&self.0.seeds) {
                let effect = if pair.a == 0.0 { "-".to_owned() } else { percent((pair.b - pair.a) / pair.a.abs()) };
                let [first, second] = [pair.a, pair.b].map(|value| quantity(value, &row.unit));
                writeln!(f, "{:<24} {a:>6} {b:>6} {first:>11} {second:>11} {effect:>9}", row.metric)?;
            }
        }
        Ok(())
    }
}

/// `-20.8 %`; `×314` from a factor of ten.
pub(crate) fn percent(part: f64) -> String {
    if part >= 9.0 { format!("×{:.0}", part + 1.0) } else { format!("{:+.1} %", part * 100.0) }
}

/// `-21.7 % to -20.7 %`.
pub(crate) fn interval((low, high): (f64, f64)) -> String {
    format!("{} to {}", percent(low), percent(high))
}

/// A value with its unit, in three or four figures: `94.8 ms`, `38.4 k/s`, `1.02 switches/io` without its long unit.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value >= 0.0 => unstarve_model::Nanos(value.round() as u64).to_string(),
        "1/s" if value.abs() >= 10_000.0 => format!("{:.1} k/s", value / 1e3),
        "1/s" => format!("{value:.0} /s"),
        "%" => format!("{value:.1} %"),
        _ if value.abs() >= 1_000.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
