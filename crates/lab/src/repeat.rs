//! Runs the same request several times and compares the traces byte by byte.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bench::{BenchError, NextRun, describe};
use crate::run::{Request, Runner};

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// Scenario, kernel, seed and so on, in words.
    pub what: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// The SHA-256 of each run's trace, in the order of the runs.
    pub digests: Vec<String>,
    /// The host seconds of each run.
    pub wall_seconds: Vec<f64>,
    /// The range of each metric that differs between runs.
    pub spread: Vec<Spread>,
}

/// A metric that differs between runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Its name.
    pub metric: String,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Repeats {
    /// Each digest once, with the number of its runs, most frequent first.
    pub fn different(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for digest in &self.digests {
            match counts.iter_mut().find(|(known, _)| known == digest) {
                Some((_, count)) => *count += 1,
                None => counts.push((digest, 1)),
            }
        }
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }

    /// Whether there were several runs, all with the same bytes.
    pub fn identical(&self) -> bool {
        self.digests.len() > 1 && self.different().len() == 1
    }
}

/// Boots the request `times` times. The runner must not return earlier results.
pub fn repeat<R: Runner>(
    runner: &mut R,
    tell: &mut dyn FnMut(NextRun<'_>),
    request: &Request,
    times: usize,
) -> Result<Repeats, BenchError<R::Error>> {
    let mut outcomes = Vec::new();
    for number in 1..=times {
        tell(NextRun { number, of: Some(times), request });
        let failed = |source| BenchError::Run { what: format!("{}, run {number}", describe(request)), source };
        outcomes.push(runner.run(request).map_err(failed)?);
    }
    let metrics = outcomes.first().map(|outcome| outcome.metrics.clone()).unwrap_or_default();
    let spread = metrics.iter().filter_map(|metric| {
        let values = outcomes.iter().flat_map(|outcome| &outcome.metrics).filter(|other| other.name == metric.name);
        let (least, most) = values
            .fold((metric.value, metric.value), |(least, most), other| (least.min(other.value), most.max(other.value)));
        (least < most).then(|| Spread { metric: metric.name.clone(), least, most })
    });
    Ok(Repeats {
        what: describe(request),
        cpus: request.scenario.cpus,
        spread: spread.collect(),
        digests: outcomes.iter().map(|outcome| outcome.trace_digest.clone()).collect(),
        wall_seconds: outcomes.iter().map(|outcome| outcome.wall_seconds).collect(),
    })
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.wall_seconds.iter().copied().fold(0.0, f64::max);
        writeln!(f, "{}, CPUs: {}; {} runs, the longest {longest:.0} s", self.what, self.cpus, self.digests.len())?;
        for (digest, count) in self.different() {
            writeln!(f, "  {count:>3} x sha256 {digest}")?;
        }
        if self.digests.len() < 2 {
            return writeln!(f, "one run cannot be repeatable: nothing is claimed");
        }
        if self.identical() {
            return writeln!(f, "all traces are the same to the byte");
        }
        writeln!(f, "{} different traces", self.different().len())?;
        self.spread.iter().try_for_each(|row| writeln!(f, "  {:<28} {} to {}", row.metric, row.least, row.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Model};

    fn repeated(values: &[f64]) -> Repeats {
        let mut values = values.iter().copied().cycle();
        let mut model = Model::new(|_: &Request| values.next());
        repeat(&mut model, &mut |_| {}, &Request::faulty(model::scenario(), "6.1", 1), 5).expect("runs")
    }

    #[test]
    fn equal_bytes_are_told() {
        let repeats = repeated(&[7.0]);
        assert!(repeats.identical() && repeats.spread.is_empty());
        assert!(repeats.to_string().contains("5 x sha256 7"), "{repeats}");
    }

    #[test]
    fn a_run_that_differs_is_told_with_what_differs() {
        let repeats = repeated(&[7.0, 7.0, 7.0, 9.0]);
        assert!(!repeats.identical());
        insta::assert_snapshot!(repeats, @r"
        model on 6.1, seed 1, CPUs: 1; 5 runs, the longest 0 s
            4 x sha256 7
            1 x sha256 9
        2 different traces
          main.iops                    7 to 9
          main.cost                    100.000007 to 100.000009
        ");
    }
}
