//! What is predicted of a thread, and when an unchanged replay is near enough.

use serde::Serialize;
use unstarve_model::Nanos;

use super::refusal::HARDLY_ANY;
use super::{Refusal, Subject, Where};
use crate::extract::Extracted;
use crate::{ActorFelt, Felt};

/// What is predicted of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Its wait for each item of work, of most threads each wakeup.
    WaitPerItem,
    /// Its wait for each nanosecond of CPU time: of threads that hardly sleep.
    WaitPerCpu,
    /// Its longest wait.
    Longest,
    /// 99 of 100 of its waits are not longer.
    P99,
    /// Its CPU time for each item.
    CpuPerItem,
    /// How often it gets the CPU for each item.
    SwitchesPerItem,
}

/// Fewer items of work than this say nothing of each.
const LEAST_ITEMS: u64 = 10;
/// Fewer waits have no 99th percentile apart from the longest.
const LEAST_FOR_P99: u64 = 100;

/// How far an unchanged replay may be from the recording, as a factor.
const NEAR: f64 = 1.12;
/// Replicas that differ by more have no common answer.
const STABLE: f64 = 2.0;

/// A wait below so many times what every wakeup takes is nearly none.
const NEAR_DISPATCH: f64 = 3.5;
/// What a kernel does without being preempted, and no replay knows: the longest that came where none was left otherwise was 0.9 ms.
const KERNEL_SECTION: Nanos = Nanos(1_000_000);
/// A thread with a smaller share of the time has no wait for each of its nanoseconds that would be worth a prediction.
const LEAST_CPU: f64 = 0.001;

/// So much wait for each second of CPU time is nearly none.
const HARDLY_PER_CPU: f64 = 0.1;

/// What no replay knows of single waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unknown {
    /// What every wakeup takes: below it, a wait is nearly none.
    pub dispatch: Nanos,
    /// A wait may be longer by an interrupt.
    pub interrupt: Nanos,
    /// A mean of waits may be higher by this, because of interrupts.
    pub interrupt_on_average: Nanos,
    /// A fair thread may have to wait for the turn of another one, of which no replay knows: who waits less does more.
    pub turn: Nanos,
    /// A wait may begin at any time of a limit's period that a change alters, and last for as long as that limit lets a real-time
    /// thread run.
    pub limit: Nanos,
}

impl Metric {
    /// All, the most telling first.
    pub const ALL: [Metric; 6] = [
        Metric::WaitPerItem,
        Metric::WaitPerCpu,
        Metric::Longest,
        Metric::P99,
        Metric::CpuPerItem,
        Metric::SwitchesPerItem,
    ];

    /// Its value.
    pub fn of(self, subject: &Subject, felt: &Felt) -> Option<f64> {
        let all = together(subject, felt);
        let per = |of: u64, by: u64| (by > 0).then(|| of as f64 / by as f64);
        match self {
            Metric::WaitPerItem => per(all.waited.0, all.items),
            Metric::WaitPerCpu => per(all.waited.0, all.ran.0),
            Metric::Longest => Some(all.longest.0 as f64),
            Metric::P99 => Some(all.p99.0 as f64),
            Metric::CpuPerItem => per(all.ran.0, all.items),
            Metric::SwitchesPerItem => per(all.switches, all.items),
        }
    }

    /// Whether it tells something of this subject.
    ///
    /// Of items that are not alike, a mean says nothing: a change alters how many of which kind there are.
    pub fn tells(self, subject: &Subject, of: &Extracted) -> bool {
        let all = together(subject, &of.recorded);
        let has_items = all.items >= LEAST_ITEMS;
        let are_alike = || subject.actors.iter().all(|actor| of.alike.get(actor.index()).copied().unwrap_or_default());
        match self {
            Metric::WaitPerItem | Metric::CpuPerItem | Metric::SwitchesPerItem => has_items && are_alike(),
            Metric::WaitPerCpu => !has_items && all.ran.share_of(of.program.length) >= LEAST_CPU,
            Metric::Longest => all.longest > Nanos::ZERO,
            Metric::P99 => all.switches >= LEAST_FOR_P99,
        }
    }

    /// Whether it is of waits, and not of what work costs.
    pub fn is_wait(self) -> bool {
        !matches!(self, Metric::CpuPerItem | Metric::SwitchesPerItem)
    }

    /// The value that is nearly none.
    fn floor(self, unknown: Unknown) -> f64 {
        match self {
            Metric::WaitPerItem | Metric::Longest | Metric::P99 => unknown.dispatch.0 as f64,
            Metric::WaitPerCpu => HARDLY_PER_CPU,
            _ => 0.0,
        }
    }

    /// What the value may be higher by.
    fn may_add(self, unknown: Unknown) -> f64 {
        match self {
            Metric::Longest | Metric::P99 => (unknown.interrupt + unknown.turn + KERNEL_SECTION).0 as f64,
            Metric::WaitPerItem => unknown.interrupt_on_average.0 as f64,
            _ => 0.0,
        }
    }

    /// Its id in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Metric::WaitPerItem => "wait-per-item",
            Metric::WaitPerCpu => "wait-per-cpu",
            Metric::Longest => "longest",
            Metric::P99 => "p99",
            Metric::CpuPerItem => "cpu-per-item",
            Metric::SwitchesPerItem => "switches-per-item",
        }
    }

    /// The metric with this id.
    pub fn of_id(id: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.id() == id)
    }

    /// A value of it, for people.
    pub fn shown(self, value: f64) -> String {
        match self.unit() {
            "ns" => Nanos(value.round() as u64).to_string(),
            _ if value < 10.0 => format!("{value:.2}"),
            _ => format!("{value:.0}"),
        }
    }

    /// `ns`, or `1` for a number of times.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::SwitchesPerItem | Metric::WaitPerCpu => "1",
            _ => "ns",
        }
    }

    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Metric::WaitPerItem => "wait for each wakeup or work item",
            Metric::WaitPerCpu => "wait for each ns of CPU time",
            Metric::Longest => "longest wait",
            Metric::P99 => "99th percentile of waits",
            Metric::CpuPerItem => "CPU time for each",
            Metric::SwitchesPerItem => "switches for each",
        }
    }

    /// The residual of the logarithm that nine of ten predictions do not exceed.
    fn residual(self) -> f64 {
        match self {
            Metric::WaitPerItem | Metric::WaitPerCpu => f64::ln(1.5),
            Metric::Longest | Metric::P99 => f64::ln(2.0),
            Metric::CpuPerItem | Metric::SwitchesPerItem => f64::ln(1.3),
        }
    }
}

/// What all its threads felt, as one.
pub(super) fn together(subject: &Subject, felt: &Felt) -> ActorFelt {
    let mut all = ActorFelt::default();
    for felt in subject.actors.iter().filter_map(|actor| felt.actors.get(actor.index())) {
        all.wakeups += felt.wakeups;
        all.items += felt.items;
        all.waited += felt.waited;
        all.longest = all.longest.max(felt.longest);
        all.p99 = all.p99.max(felt.p99);
        all.ran += felt.ran;
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
    pub unknown: Unknown,
    pub held_out: Option<HeldOut>,
}

/// A metric in the second half of the recording, and what the program of the first half gives. That has no operation of the second
/// half; its threads' CPUs and groups are those of the whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct HeldOut {
    pub played: f64,
    pub recorded: f64,
}

impl Values {
    /// The median of the unchanged replays.
    pub fn replayed(&self) -> f64 {
        median(&self.unchanged)
    }

    /// Whether the unchanged replays are near the recording, and near each other.
    pub fn gate(&self, metric: Metric) -> Result<(), Refusal> {
        let replayed = self.replayed();
        let far = || Refusal::NotReproduced { metric, recorded: self.recorded, replayed };
        if self.recorded <= 0.0 || replayed <= 0.0 {
            return Err(far());
        }
        let floor = metric.floor(self.unknown);
        let off = ((replayed + floor) / (self.recorded + floor)).ln().abs();
        if off > NEAR.ln() {
            return Err(far());
        }
        if let Some((low, high)) = spread(&self.unchanged, floor) {
            return Err(Refusal::Unstable { metric, low, high });
        }
        match self.held_out.filter(|_| self.held_out_is_off_by(metric) > STABLE.ln()) {
            Some(HeldOut { played, recorded }) => Err(Refusal::HalvesDiffer { metric, played, recorded }),
            None => Ok(()),
        }
    }

    /// The logarithm of the factor between the two.
    fn held_out_is_off_by(&self, metric: Metric) -> f64 {
        let floor = metric.floor(self.unknown);
        self.held_out.map_or(0.0, |of| ((of.played + floor) / (of.recorded + floor)).ln().abs())
    }
}

/// The extremes, if they are too far from each other.
fn spread(values: &[f64], floor: f64) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    ((high + floor) > STABLE * (low + floor)).then_some((low, high))
}

pub(super) fn median(values: &[f64]) -> f64 {
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
    pub fn answer(
        &self,
        metric: Metric,
        values: &Values,
        unknown: Unknown,
        place: Where,
    ) -> Result<MetricAnswer, Refusal> {
        let recorded = values.recorded;
        let (floor, more) = (metric.floor(unknown), metric.may_add(unknown));
        let after: Vec<f64> = self.ratios.iter().map(|ratio| ratio * recorded).collect();
        // Where all replicas say that hardly any is left, how little is of no matter.
        if let Some((low, high)) = spread(&after, floor).filter(|(_, high)| *high > HARDLY_ANY * recorded) {
            return Err(Refusal::Unstable { metric, low, high });
        }
        let (least, most) = (after.iter().copied().fold(f64::MAX, f64::min), after.iter().copied().fold(0.0, f64::max));
        // Another kernel differs in more than its scheduler: only bounds are known.
        let residuals = if place == Where::ThisKernel { 1.0 } else { 2.0 };
        let off = (metric.residual().max(values.held_out_is_off_by(metric)) * residuals).exp();
        // Near what every wakeup takes, nothing is known but that it is near.
        let near = if floor > 0.0 && median(&after) < NEAR_DISPATCH * floor { NEAR_DISPATCH * floor } else { 0.0 };
        let is_single = matches!(metric, Metric::Longest | Metric::P99);
        let limit = if is_single { unknown.limit.0 as f64 } else { 0.0 };
        // Where hardly any is left, how little is of no matter: none may be.
        let may_be_none = near > 0.0 || limit > 0.0 || metric.is_wait() && most <= HARDLY_ANY * recorded;
        let bare = Bare { least: if may_be_none { 0.0 } else { least }, most, floor, near: near.max(limit), more };
        Ok(MetricAnswer {
            metric,
            recorded,
            bare,
            // No wait is shorter than what every wakeup takes.
            predicted: if metric.is_wait() && metric != Metric::WaitPerCpu {
                median(&after).max(floor)
            } else {
                median(&after)
            },
            low: if may_be_none { 0.0 } else { (least + floor) / off - floor },
            high: ((most + floor) * off - floor).max(near).max(limit) + more,
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
    /// It is hardly less,
    pub low: f64,
    /// nor more.
    pub high: f64,
    /// The interval before the residual of its metric widened it.
    #[serde(skip)]
    bare: Bare,
}

/// What an interval is made of, beside a residual.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Bare {
    /// The extremes of the replicas; 0 where none may be left.
    least: f64,
    most: f64,
    /// Below it, a value is nearly none.
    floor: f64,
    /// Any value up to this is covered.
    near: f64,
    /// A wait may be longer by this.
    more: f64,
}

impl MetricAnswer {
    /// The residual that would just have covered `came`: the logarithm of the factor by which the replicas are off.
    pub fn residual_of(&self, came: f64) -> f64 {
        let Bare { least, most, floor, near, more } = self.bare;
        if came <= near + more && least <= 0.0 {
            return 0.0;
        }
        let above = ((came - more).max(0.0) + floor) / (most + floor);
        let below = (least + floor) / (came + floor);
        above.max(below).max(1.0).ln()
    }

    fn above_zero(self) -> MetricAnswer {
        MetricAnswer { low: self.low.max(0.0), high: self.high.max(self.predicted), ..self }
    }

    /// Whether the predicted value is no more than what every wakeup takes.
    pub(super) fn is_nearly_none(&self, dispatch: Nanos) -> bool {
        let unknown = Unknown { dispatch, ..Unknown::default() };
        self.predicted <= NEAR_DISPATCH * self.metric.floor(unknown)
    }
}
