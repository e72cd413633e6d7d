//! What is predicted of a thread, and when an unchanged replay is near enough.

use serde::Serialize;
use unstarve_model::Nanos;

use super::{Refusal, Subject};
use crate::{ActorFelt, Felt};

/// What is predicted of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Its wait for each wakeup.
    WaitPerWakeup,
    /// Its wait for each nanosecond of CPU time: of threads that hardly sleep.
    WaitPerCpu,
    /// Its longest wait.
    Longest,
    /// 99 of 100 of its waits are not longer.
    P99,
    /// Its CPU time for each wakeup.
    CpuPerWakeup,
    /// How often it gets the CPU for each wakeup.
    SwitchesPerWakeup,
}

/// Fewer wakeups than this say nothing of each.
const LEAST_WAKEUPS: u64 = 10;
/// Fewer waits have no 99th percentile apart from the longest.
const LEAST_FOR_P99: u64 = 100;

/// How far an unchanged replay may be from the recording, as a factor.
const NEAR: f64 = 1.12;
/// Replicas that differ by more have no common answer.
const STABLE: f64 = 2.0;

/// Waits up to this long are what every wakeup takes: a prediction below is no more than "nearly none".
pub(super) const NEARLY_NONE: Nanos = Nanos(20_000);

impl Metric {
    /// All, the most telling first.
    pub const ALL: [Metric; 6] = [
        Metric::WaitPerWakeup,
        Metric::WaitPerCpu,
        Metric::Longest,
        Metric::P99,
        Metric::CpuPerWakeup,
        Metric::SwitchesPerWakeup,
    ];

    /// Its value.
    pub fn of(self, subject: &Subject, felt: &Felt) -> Option<f64> {
        let all = together(subject, felt);
        let per = |of: u64, by: u64| (by > 0).then(|| of as f64 / by as f64);
        match self {
            Metric::WaitPerWakeup => per(all.waited.0, all.wakeups),
            Metric::WaitPerCpu => per(all.waited.0, all.ran.0),
            Metric::Longest => Some(all.longest.0 as f64),
            Metric::P99 => Some(all.p99.0 as f64),
            Metric::CpuPerWakeup => per(all.ran.0, all.wakeups),
            Metric::SwitchesPerWakeup => per(all.switches, all.wakeups),
        }
    }

    /// Whether it tells something of this subject.
    pub(super) fn tells(self, subject: &Subject, recorded: &Felt) -> bool {
        let all = together(subject, recorded);
        let is_woken = all.wakeups >= LEAST_WAKEUPS;
        match self {
            Metric::WaitPerWakeup | Metric::CpuPerWakeup | Metric::SwitchesPerWakeup => is_woken,
            Metric::WaitPerCpu => !is_woken && all.ran > Nanos::ZERO,
            Metric::Longest => all.longest > Nanos::ZERO,
            Metric::P99 => all.wakeups >= LEAST_FOR_P99,
        }
    }

    /// Whether it is in nanoseconds, and "nearly none" is a value of it.
    fn is_wait(self) -> bool {
        matches!(self, Metric::WaitPerWakeup | Metric::Longest | Metric::P99)
    }

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Metric::WaitPerWakeup => "wait for each wakeup",
            Metric::WaitPerCpu => "wait for each second of CPU time",
            Metric::Longest => "longest wait",
            Metric::P99 => "99th percentile of waits",
            Metric::CpuPerWakeup => "CPU time for each wakeup",
            Metric::SwitchesPerWakeup => "switches for each wakeup",
        }
    }

    /// The residual of the logarithm that nine of ten predictions do not exceed.
    fn residual(self) -> f64 {
        match self {
            Metric::WaitPerWakeup | Metric::WaitPerCpu => f64::ln(1.5),
            Metric::Longest | Metric::P99 => f64::ln(2.0),
            Metric::CpuPerWakeup | Metric::SwitchesPerWakeup => f64::ln(1.15),
        }
    }
}

/// What all its threads felt, as one.
pub(super) fn together(subject: &Subject, felt: &Felt) -> ActorFelt {
    let mut all = ActorFelt::default();
    for felt in subject.actors.iter().filter_map(|actor| felt.actors.get(actor.index())) {
        all.wakeups += felt.wakeups;
        all.waited = all.waited + felt.waited;
        all.longest = all.longest.max(felt.longest);
        all.p99 = all.p99.max(felt.p99);
        all.ran = all.ran + felt.ran;
        all.switches += felt.switches;
        all.preemptions += felt.preemptions;
    }
    all
}

/// A metric's values, recorded and in each unchanged replay.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub recorded: f64,
    pub unchanged: Vec<f64>,
}

impl Values {
    /// Whether the unchanged replays are near the recording, and near each other.
    pub fn gate(&self, metric: Metric) -> Result<(), Refusal> {
        let replayed = median(&self.unchanged);
        let far = || Refusal::NotReproduced { metric, recorded: self.recorded, replayed };
        if self.recorded <= 0.0 || replayed <= 0.0 {
            return Err(far());
        }
        let floor = if metric.is_wait() { NEARLY_NONE.0 as f64 } else { 0.0 };
        let off = ((replayed + floor) / (self.recorded + floor)).ln().abs();
        if off > NEAR.ln() {
            return Err(far());
        }
        spread(&self.unchanged, floor).map_or(Ok(()), |(low, high)| Err(Refusal::Unstable { metric, low, high }))
    }
}

/// The extremes, if they are too far from each other.
fn spread(values: &[f64], floor: f64) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    ((high + floor) > STABLE * (low + floor)).then_some((low, high))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// How much a metric changes, in each replica.
pub(super) struct Ratios {
    ratios: Vec<f64>,
}

impl Ratios {
    pub fn of(values: &Values, after: &[f64]) -> Option<Ratios> {
        let ratios: Vec<f64> = values.unchanged.iter().zip(after).map(|(before, after)| after / before).collect();
        ratios.iter().all(|ratio| ratio.is_finite()).then_some(Ratios { ratios })
    }

    /// The predicted value with its interval: the replicas' spread, and what predictions of this metric are off by.
    pub fn answer(&self, metric: Metric, values: &Values) -> Result<MetricAnswer, Refusal> {
        let recorded = values.recorded;
        let floor = if metric.is_wait() { NEARLY_NONE.0 as f64 } else { 0.0 };
        let after: Vec<f64> = self.ratios.iter().map(|ratio| ratio * recorded).collect();
        if let Some((low, high)) = spread(&after, floor) {
            return Err(Refusal::Unstable { metric, low, high });
        }
        let (least, most) = (after.iter().copied().fold(f64::MAX, f64::min), after.iter().copied().fold(0.0, f64::max));
        let off = metric.residual().exp();
        Ok(MetricAnswer {
            metric,
            recorded,
            predicted: median(&after),
            low: (least + floor) / off - floor,
            high: (most + floor) * off - floor,
        }
        .above_zero())
    }
}

/// A metric before and after a change.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MetricAnswer {
    /// Which.
    pub metric: Metric,
    /// As it was recorded.
    pub recorded: f64,
    /// What it would be.
    pub predicted: f64,
    /// Nine of ten times it is not less,
    pub low: f64,
    /// nor more.
    pub high: f64,
}

impl MetricAnswer {
    fn above_zero(self) -> MetricAnswer {
        MetricAnswer { low: self.low.max(0.0), high: self.high.max(self.predicted), ..self }
    }

    /// The predicted value as a factor of the recorded one.
    pub fn factor(&self) -> f64 {
        self.predicted / self.recorded
    }
}
