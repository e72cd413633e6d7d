//! Judges whether a rule helped: compares the waits while it was in force with those before it and after it was reverted.
//!
//! Load changes by itself, so a comparison with "before" proves little: the waits must be longer again without the rule. And
//! waits come in bursts, so their number says little about the uncertainty of a mean. Each side is measured in [`SLICES`]
//! slices. The variation between slices, taken one by one and in groups of 2, 3 and 5 (for bursts longer than a slice), gives
//! four error bounds, of which the widest counts. With fewer observations than [`ENOUGH`] there is no such bound: then the sixths
//! of the time decide, if all of them agree.

use std::fmt;

use serde::Serialize;
use unstarve_model::Nanos;

use super::{Fared, Tally};

/// The reduction of waits from which a rule has helped.
pub const HELPED: f64 = 0.10;
/// Number of slices in which each side is measured.
pub const SLICES: usize = 30;
/// Minimum observations on each side: waits, or slices in which the tasks ran or waited all the time.
pub const ENOUGH: u64 = 30;

/// Parts of the time that are compared one by one where there are fewer observations: a starved thread waits seldom, and long.
/// If the parts are independent, six that all have more waiting than six others do so by chance once in 924 times (`C(12, 6)`).
const PARTS: usize = 6;
/// With fewer observations the tasks must run this part of what they ran without the change: else their load may have paused.
const SERVED: f64 = 0.8;

/// Sizes of groups of slices, and the bound of Student's t for their number (two-sided 99 %).
const GROUPS: [(usize, f64); 4] = [(1, 2.756), (2, 2.977), (3, 3.250), (5, 4.032)];

/// The verdict on a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The waits are shorter by a tenth or more, and by more than their variation.
    Helped,
    /// The waits are not shorter by that much.
    DidNotHelp,
    /// Too few observations that are not clear in each sixth of the time, or too much variation.
    TooFew,
    /// On one side no task of the rule ran or waited.
    Unknown,
}

/// A verdict and its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
}

/// One of the three measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Before the change.
    Before,
    /// With the rule in force.
    With,
    /// After the rule was reverted.
    Again,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Before => "before the change",
            Side::With => "with it",
            Side::Again => "after it was reverted",
        })
    }
}

/// The compared figures: without the change, and with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, schemars::JsonSchema)]
pub struct Figures {
    /// Wait time per second of run time, in ns; `None` if nothing ran on a side.
    pub per_second_ns: Option<[u64; 2]>,
    /// The average wait, in ns; `None` if there was none on a side.
    pub average_ns: Option<[u64; 2]>,
    /// Total wait time, in ns.
    pub waited_ns: [u64; 2],
}

impl Figures {
    fn of(without: &Fared, with: &Fared) -> Figures {
        let both = |of: fn(&Fared) -> Option<f64>| {
            of(without).zip(of(with)).map(|(without, with)| [without.round() as u64, with.round() as u64])
        };
        Figures {
            per_second_ns: both(|side| side.wait_ratio().map(|ratio| ratio * 1e9)),
            average_ns: both(average),
            waited_ns: [without.waited_ns, with.waited_ns],
        }
    }

    /// Whether the second figure is at least a tenth below the first.
    fn fell(figure: Option<[u64; 2]>) -> bool {
        figure.is_some_and(|[without, with]| is_less(without as f64, with as f64))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from_to = |[without, with]: [u64; 2]| format!("{} to {}", Nanos(without), Nanos(with));
        let average = |f: &mut fmt::Formatter<'_>| match self.average_ns {
            Some(average) => write!(f, "the average wait from {}", from_to(average)),
            None => f.write_str("of single waits nothing is known"),
        };
        match self.per_second_ns {
            Some(ratio) if Figures::fell(self.per_second_ns) => {
                write!(f, "waiting for each second of running fell from {}, but ", from_to(ratio))?;
                average(f)
            }
            _ if Figures::fell(self.average_ns) => {
                average(f)?;
                write!(f, ", but all waiting from {}", from_to(self.waited_ns))
            }
            Some(ratio) => {
                write!(f, "waiting for each second of running went from {}, ", from_to(ratio))?;
                average(f)
            }
            None => average(f),
        }
    }
}

/// The reason of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Waits are shorter than before and after.
    Shorter,
    /// Waits are not shorter than before.
    NotShorterThanBefore(Figures),
    /// Waits did not become longer after the rule was reverted.
    LoadHasChanged(Figures),
    /// Waits are shorter, but within the error bounds.
    WithinNoise,
    /// Too few waits on one side.
    FewWaits(Side, u64),
    /// Nothing ran or waited on one side.
    NothingSeen(Side),
    /// The rule's real-time policy was reverted during the measurement, because of the budget.
    OverBudget,
}

impl Reason {
    /// The figures that decided, if figures did.
    pub fn figures(self) -> Option<Figures> {
        match self {
            Reason::NotShorterThanBefore(figures) | Reason::LoadHasChanged(figures) => Some(figures),
            _ => None,
        }
    }

    /// Whether a longer measurement may decide it.
    pub fn may_be_decided_by_time(self) -> bool {
        matches!(self, Reason::WithinNoise | Reason::FewWaits(..))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Shorter => f.write_str("waits are shorter than before, and than after it was reverted"),
            Reason::NotShorterThanBefore(figures) => {
                write!(f, "there is not 10 % less waiting than before, or waits are longer: {figures}")
            }
            Reason::LoadHasChanged(figures) => write!(
                f,
                "there is not 10 % less waiting than after it was reverted, or waits are longer, so that the load has changed meanwhile: \
                 {figures}"
            ),
            Reason::WithinNoise => f.write_str("waits are shorter, but within the noise"),
            Reason::FewWaits(side, count) => write!(
                f,
                "{count} waits {side} are too few: {ENOUGH} on each side decide, or more waiting in each sixth of the time without the \
                 change than in any sixth with it"
            ),
            Reason::NothingSeen(side) => write!(f, "none of its tasks ran or waited {side}"),
            Reason::OverBudget => {
                f.write_str("its tasks took more of a CPU than limits.rt-budget, so they were put back")
            }
        }
    }
}

impl Judged {
    fn new(verdict: Verdict, reason: Reason) -> Judged {
        Judged { verdict, reason }
    }

    /// The verdict on a rule that was reverted during the measurement.
    pub fn over_budget() -> Judged {
        Judged::new(Verdict::DidNotHelp, Reason::OverBudget)
    }
}

/// Judges a rule by three measurements of the same length: before it, with it, and after it. Tasks that run much are judged by
/// wait time per second of run time; tasks that run for some µs now and then, or could not run at all before, by their single
/// waits.
pub fn judge(before: &Fared, with: &Fared, again: &Fared) -> Judged {
    let sides = [(Side::Before, before), (Side::With, with), (Side::Again, again)];
    if let Some((name, _)) = sides.iter().find(|(_, side)| side.ran_ns + side.waited_ns == 0) {
        return Judged::new(Verdict::Unknown, Reason::NothingSeen(*name));
    }
    if let Some((name, side)) = sides.iter().find(|(_, side)| seen(side) < ENOUGH) {
        return match is_apart_by_parts(before, with) && is_apart_by_parts(again, with) {
            true => Judged::new(Verdict::Helped, Reason::Shorter),
            false => Judged::new(Verdict::TooFew, Reason::FewWaits(*name, waits(side))),
        };
    }
    let (first, second) = (compare(before, with), compare(again, with));
    match (first, second) {
        (Difference::Sure, Difference::Sure) => Judged::new(Verdict::Helped, Reason::Shorter),
        (Difference::None, _) => {
            Judged::new(Verdict::DidNotHelp, Reason::NotShorterThanBefore(Figures::of(before, with)))
        }
        (_, Difference::None) => Judged::new(Verdict::DidNotHelp, Reason::LoadHasChanged(Figures::of(again, with))),
        _ => Judged::new(Verdict::TooFew, Reason::WithinNoise),
    }
}

fn waits(side: &Fared) -> u64 {
    side.slices.iter().map(|slice| slice.waits).sum()
}

/// Number of observations: a task that waits or runs all the time has no waits to count, so each slice counts as one.
fn seen(side: &Fared) -> u64 {
    let full =
        side.slices.iter().filter(|slice| slice.ran_ns + slice.waited_ns >= (slice.lasted_ns / 2).max(1)).count();
    waits(side).max(full as u64)
}

/// How long the first measurement should have lasted for a verdict, as a multiple of what it did. `None` if it can decide, or if
/// the tasks did not wait at all.
pub fn must_last_longer(before: &Fared) -> Option<f64> {
    let parts = waited_by_part(before);
    let with_waits = parts.iter().filter(|waited| **waited > 0).count();
    if seen(before) >= ENOUGH || with_waits == 0 || with_waits == parts.len() {
        return None;
    }
    // With so many waits a sixth of the time without one is rare, too.
    Some(ENOUGH as f64 / waits(before).max(1) as f64)
}

fn waited_by_part(side: &Fared) -> Vec<u64> {
    let of = |slices: &[Tally]| slices.iter().map(|slice| slice.waited_ns).sum();
    side.slices.chunks(side.slices.len().div_ceil(PARTS).max(1)).map(of).collect()
}

/// Whether each part of the time without the change has more waiting than each part with it, by a tenth in all, and the tasks ran
/// about as long.
fn is_apart_by_parts(without: &Fared, with: &Fared) -> bool {
    let (least, most) = (waited_by_part(without).into_iter().min(), waited_by_part(with).into_iter().max());
    let is_apart = without.slices.len() == SLICES && with.slices.len() == SLICES && least > most;
    let ran = with.ran_ns as f64 >= SERVED * without.ran_ns as f64;
    is_apart && ran && is_less(without.waited_ns as f64, with.waited_ns as f64)
}

/// Whether waits are shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    None,
    /// Shorter by a tenth, but possibly by chance.
    Unsure,
    Sure,
}

/// Whether a figure is a tenth less with the change.
fn is_less(without: f64, with: f64) -> bool {
    without > 0.0 && with <= without * (1.0 - HELPED)
}

/// The average wait, in ns.
fn average(side: &Fared) -> Option<f64> {
    (waits(side) > 0).then(|| side.waited_ns as f64 / waits(side) as f64)
}

fn compare(without: &Fared, with: &Fared) -> Difference {
    let less = is_less;
    let means = average(without).zip(average(with));
    let mean = |slice: &Tally| (slice.waited_ns as f64, slice.waits as f64);
    // A change that has no effect makes the average longer in half of all cases, so the difference must exceed the error
    // bounds.
    let are_longer = means.is_some_and(|(without, with)| with > without) && is_apart(with, without, mean);
    let is_less_while_running = match (without.wait_ratio(), with.wait_ratio()) {
        (Some(without), Some(with)) => less(without, with),
        // It could not run at all before.
        (None, Some(_)) => true,
        (_, None) => false,
    };
    let is_less_each = means.is_some_and(|(without, with)| less(without, with));
    let by_running = is_less_while_running && !are_longer;
    let by_each = is_less_each && with.waited_ns <= without.waited_ns;
    // The wait time's part of the elapsed time is bounded, even if the task hardly runs.
    let part = |slice: &Tally| (slice.waited_ns as f64, (slice.ran_ns + slice.waited_ns) as f64);
    let is_sure = by_running && is_apart(without, with, part) || by_each && is_apart(without, with, mean);
    match (by_running || by_each, is_sure) {
        (_, true) => Difference::Sure,
        (true, false) => Difference::Unsure,
        (false, false) => Difference::None,
    }
}

/// Whether a figure is smaller on the second side by more than the error bounds of both.
fn is_apart(without: &Fared, with: &Fared, of: impl Fn(&Tally) -> (f64, f64)) -> bool {
    let estimate = |side: &Fared| estimate(&side.slices.iter().map(&of).collect::<Vec<_>>());
    let Some(((without, about), (with, or_so))) = estimate(without).zip(estimate(with)) else { return false };
    without - with > about.hypot(or_so)
}

/// The quotient of two sums over slices and its error bound; `None` if there is no bound.
fn estimate(slices: &[(f64, f64)]) -> Option<(f64, f64)> {
    let sum = |slices: &[(f64, f64)]| slices.iter().fold((0.0, 0.0), |sum, slice| (sum.0 + slice.0, sum.1 + slice.1));
    let (above, below) = sum(slices);
    if slices.len() != SLICES || below <= 0.0 {
        return None;
    }
    let quotient = above / below;
    let error = |(size, bound): (usize, f64)| {
        let groups = slices.chunks(size).map(sum);
        let count = (SLICES / size) as f64;
        let squares: f64 = groups.map(|(above, below)| (above - quotient * below).powi(2)).sum();
        bound * (squares * count / (count - 1.0)).sqrt() / below
    };
    Some((quotient, GROUPS.into_iter().map(error).fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 100_000_000;

    fn side(slices: impl IntoIterator<Item = (u64, u64, u64)>) -> Fared {
        let tally = |(ran_ns, waited_ns, waits)| Tally { ran_ns, waited_ns, waits, lasted_ns: SLICE };
        let slices: Vec<Tally> = slices.into_iter().map(tally).collect();
        let sum = |of: fn(&Tally) -> u64| slices.iter().map(of).sum();
        Fared { tasks: 1, ran_ns: sum(|s| s.ran_ns), waited_ns: sum(|s| s.waited_ns), waits: None, slices }
    }

    fn all(ran: u64, waited: u64, waits: u64) -> Fared {
        side((0..SLICES).map(|_| (ran, waited, waits)))
    }

    fn verdict(before: &Fared, with: &Fared) -> Verdict {
        judge(before, with, before).verdict
    }

    #[test]
    fn eight_waits_against_five_are_too_few() {
        let few = |count: usize, waited: u64| {
            side((0..SLICES).map(|at| if at < count { (5_000, waited, 1) } else { (0, 0, 0) }))
        };
        let judged = judge(&few(8, 40_000), &few(5, 10_000), &few(8, 40_000));
        assert_eq!(judged.verdict, Verdict::TooFew);
        assert_eq!(judged.reason, Reason::FewWaits(Side::Before, 8));
        // All in the first part of the time.
        assert_eq!(verdict(&few(24, 40_000), &few(24, 10)), Verdict::TooFew);
        assert_eq!(verdict(&few(29, 40_000), &few(30, 10)), Verdict::Helped);
        assert_eq!(verdict(&few(30, 40_000), &few(30, 10_000)), Verdict::Helped);
    }

    /// A worker behind a real-time task that runs 85 ms of each 100: as long as a slice. Few waits, but some in each part of the time.
    #[test]
    fn a_starved_worker_is_judged_by_the_time_it_waits() {
        let starved = |every: usize, waited: u64, ran: u64| {
            side((0..SLICES).map(|at| if at % every == 0 { (ran, waited, 1) } else { (0, 0, 0) }))
        };
        for (without, with, expected) in [
            // Ten waits of 40 ms become ten of 50 µs.
            (starved(3, 40_000_000, 100_000), starved(3, 50_000, 100_000), Verdict::Helped),
            // It waits as long as before.
            (starved(3, 40_000_000, 100_000), starved(3, 40_000_000, 100_000), Verdict::TooFew),
            // In some parts of the time it did not wait even without the change.
            (starved(8, 40_000_000, 100_000), starved(8, 50_000, 100_000), Verdict::TooFew),
            // It waits less, but there was less for it to do.
            (starved(3, 40_000_000, 100_000), starved(9, 50_000, 100_000), Verdict::TooFew),
            // It gets to run ten times as much.
            (starved(5, 40_000_000, 100_000), starved(5, 50_000, 1_000_000), Verdict::Helped),
        ] {
            assert_eq!(verdict(&without, &with), expected, "{without:?} {with:?}");
        }
    }

    #[test]
    fn how_long_it_must_last_is_known_after_the_first_measurement() {
        let waits = |every: usize| side((0..SLICES).map(|at| if at % every == 0 { (0, 9_000, 1) } else { (0, 0, 0) }));
        for (before, expected) in [
            (all(0, 9_000, 3), None),
            (waits(5), None),
            // Three of six parts have a wait.
            (waits(10), Some(10.0)),
            (waits(30), Some(30.0)),
            (all(50, 0, 0), None),
        ] {
            assert_eq!(must_last_longer(&before), expected, "{before:?}");
        }
    }

    #[test]
    fn a_tenth_less_waiting_is_help() {
        for (without, with, expected) in [
            ((100_000, 100_000, 10), (200_000, 100_000, 10), Verdict::Helped),
            ((100_000, 100_000, 10), (100_000, 90_000, 10), Verdict::Helped),
            ((100_000, 100_000, 10), (100_000, 95_000, 10), Verdict::DidNotHelp),
            ((100_000, 0, 10), (100_000, 0, 10), Verdict::DidNotHelp),
            ((0, 0, 0), (100_000, 0, 10), Verdict::Unknown),
            // Shorter waits, but so many more that the total grows.
            ((100_000, 1_000, 10), (100_000, 2_000, 40), Verdict::DidNotHelp),
            // ksoftirqd next to a real-time task.
            ((20_000, 80_040_000, 4), (5_000, 40_000, 3), Verdict::Helped),
            ((5_000, 40_000, 3), (20_000, 80_040_000, 4), Verdict::DidNotHelp),
        ] {
            let side = |(ran, waited, waits)| all(ran, waited, waits);
            assert_eq!(verdict(&side(without), &side(with)), expected, "{without:?} {with:?}");
        }
    }

    #[test]
    fn a_task_that_waits_all_the_time_is_no_single_wait() {
        let starved = side((0..SLICES).map(|at| (0, SLICE, u64::from(at == 0))));
        assert_eq!(verdict(&starved, &all(500, 9_000, 3)), Verdict::Helped);
        // Also if it runs all the time with the rule.
        assert_eq!(verdict(&starved, &all(SLICE, 0, 0)), Verdict::Helped);
    }

    #[test]
    fn what_stays_good_without_the_rule_was_not_its_doing() {
        let judged = judge(&all(50_000, 100_000, 10), &all(50_000, 10_000, 10), &all(50_000, 10_000, 10));
        assert_eq!(judged.verdict, Verdict::DidNotHelp);
        let figures = Figures {
            per_second_ns: Some([200_000_000, 200_000_000]),
            average_ns: Some([1_000, 1_000]),
            waited_ns: [300_000, 300_000],
        };
        assert_eq!(judged.reason, Reason::LoadHasChanged(figures));
    }

    /// A task preempted half as often, with slightly longer waits, waits about half as long in total.
    #[test]
    fn the_figures_that_decided_are_said() {
        let before = all(100_000, 400_000, 40);
        let reason = |with: &Fared| judge(&before, with, &before).reason.to_string();
        assert_eq!(
            reason(&all(100_000, 200_000, 10)),
            "there is not 10 % less waiting than before, or waits are longer: waiting for each second of running fell from 4.00 s to \
             2.00 s, but the average wait from 10.0 µs to 20.0 µs"
        );
        assert!(reason(&all(100_000, 399_000, 40)).ends_with(
            ": waiting for each second of running went from 4.00 s to 3.99 s, the average wait from 10.0 µs to 9.97 µs"
        ));
        assert!(
            reason(&all(100_000, 500_000, 100))
                .ends_with(": the average wait from 10.0 µs to 5.00 µs, but all waiting from 12.0 ms to 15.0 ms")
        );
        assert_eq!(judge(&before, &all(100_000, 200_000, 20), &before).reason.figures(), None);
    }

    #[test]
    fn an_average_that_is_longer_by_chance_takes_nothing_away() {
        // Half the wait time in half as many waits; their lengths vary between slices, and are 1 % longer on average.
        let wild = |waits: u64, more: f64| {
            side(
                (0..SLICES as u64)
                    .map(|at| (1_000_000, (waits as f64 * (50_000 + at % 7 * 20_000) as f64 * more) as u64, waits)),
            )
        };
        assert_eq!(verdict(&wild(20, 1.0), &wild(10, 1.01)), Verdict::Helped);
        // Twice as long is not chance.
        assert_eq!(verdict(&wild(20, 1.0), &wild(5, 2.0)), Verdict::DidNotHelp);
    }

    #[test]
    fn one_long_wait_among_many_is_chance() {
        // 10 ms once among waits of 10 µs: half of the wait time, but a single event.
        let unlucky = side((0..SLICES).map(|at| (50_000, if at == 7 { 10_000_000 } else { 300_000 }, 30)));
        assert_eq!(verdict(&unlucky, &all(50_000, 300_000, 30)), Verdict::TooFew);
    }

    /// Knuth's MMIX generator, for numbers between 0 and 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// This many waits a slice on average, exponentially distributed, and `noisy` times as long while a neighbour is busy,
        /// which changes every few slices.
        fn load(&mut self, waits: f64, noisy: f64) -> Fared {
            let (mut is_busy, mut slices) = (self.next() < 0.5, Vec::new());
            for _ in 0..SLICES {
                is_busy ^= self.next() < 0.3;
                let count = (waits * 2.0 * self.next()).round() as u64;
                let each = 100_000.0 * if is_busy { noisy } else { 1.0 };
                let waited: f64 = (0..count).map(|_| -each * (1.0 - self.next()).ln()).sum();
                slices.push((count * 50_000, waited as u64, count));
            }
            side(slices)
        }
    }

    #[test]
    fn chance_alone_is_hardly_ever_help() {
        let mut random = Random(1);
        for (waits, noisy) in
            [(0.3, 1.0), (0.8, 10.0), (2.0, 1.0), (20.0, 1.0), (2.0, 10.0), (20.0, 10.0), (20.0, 100.0)]
        {
            const ROUNDS: u32 = 2_000;
            let (mut helped, mut once, mut found) = (0, 0, 0);
            for _ in 0..ROUNDS {
                let [before, with, again] = std::array::from_fn(|_| random.load(waits, noisy));
                helped += u32::from(judge(&before, &with, &again).verdict == Verdict::Helped);
                // What a comparison of the sums alone would show.
                let less = with.waited_ns as f64 / with.ran_ns as f64;
                once += u32::from(less <= 0.9 * before.waited_ns as f64 / before.ran_ns as f64);
                let raised = side(with.slices.iter().map(|s| (s.ran_ns, s.waited_ns / 10, s.waits)));
                found += u32::from(judge(&before, &raised, &again).verdict == Verdict::Helped);
            }
            let part = |count: u32| f64::from(count) * 100.0 / f64::from(ROUNDS);
            println!(
                "{waits} waits a slice, neighbour {noisy}: help by chance {:.2} %, by sums alone {:.1} %; a tenth of the \
                 waiting is found in {:.1} %",
                part(helped),
                part(once),
                part(found)
            );
            assert!(part(helped) <= 0.2, "{waits} {noisy}: {helped}");
            assert!(noisy > 1.0 || waits < 1.0 || part(found) > 95.0, "{waits} {noisy}: {found}");
        }
    }
}
