//! How many lines and traces episodes get. A line is cheap, a trace is megabytes and seconds of explanation. Each class of victims has budgets of its
//! own: any user can cause episodes of programs, which must cost those of kernel threads nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::engine::reading::VictimClass;
use crate::episode::Cause;

/// Traces of a class in a row; after them one for each `store.every`.
const TRACES: u32 = 3;
/// Lines of a class in a row; after them one for each interval. A culprit can have any number of names.
const LINES: u32 = 32;
const LINE_EVERY: Duration = Duration::from_secs(10);

/// An amount that grows by one with each interval, up to a limit.
#[derive(Debug)]
struct Budget {
    left: u32,
    /// Until when it has grown.
    grown: Instant,
}

impl Budget {
    fn full(most: u32, now: Instant) -> Budget {
        Budget { left: most, grown: now }
    }

    /// Takes one.
    ///
    /// # Errors
    /// After which time there is one again.
    fn take(&mut self, most: u32, every: Duration, now: Instant) -> Result<(), Duration> {
        while self.left < most && now.duration_since(self.grown) >= every {
            self.left += 1;
            self.grown += every;
        }
        if self.left == most {
            self.grown = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err((self.grown + every).duration_since(now)),
        }
    }
}

/// The budget of lines.
#[derive(Debug, Default)]
pub(super) struct LineBudget(BTreeMap<VictimClass, Budget>);

impl LineBudget {
    /// Takes a line for an episode of this class.
    ///
    /// # Errors
    /// After which time there is one again.
    pub fn take(&mut self, class: VictimClass, now: Instant) -> Result<(), Duration> {
        self.0.entry(class).or_insert_with(|| Budget::full(LINES, now)).take(LINES, LINE_EVERY, now)
    }
}

/// The budget of traces.
#[derive(Debug, Default)]
pub(super) struct TraceBudget {
    of_class: BTreeMap<VictimClass, Budget>,
    /// When each culprit last had a trace. As many as traces that the budget allows in an interval, and who shares them.
    last: Vec<(Cause, Last)>,
}

/// The last trace of a culprit.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Instant,
    /// Whether it took one of the budget: who shares another one's trace took none.
    is_taken: bool,
}

/// Whether an episode gets a trace.
///
/// | | its culprit had one within the interval | it had none |
/// |---|---|---|
/// | budget left | no | yes |
/// | budget used up | no | no |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traced {
    Yes,
    /// Its culprit had one this long ago.
    SameCulprit(Duration),
    /// Its class had too many.
    UsedUp,
}

impl TraceBudget {
    pub fn take(&mut self, cause: &Cause, every: Duration, now: Instant) -> Traced {
        self.last.retain(|(_, last)| now.duration_since(last.at) < every);
        if let Some((_, last)) = self.last_of(cause) {
            return Traced::SameCulprit(now.duration_since(last.at));
        }
        let budget = self.of_class.entry(cause.class).or_insert_with(|| Budget::full(TRACES, now));
        if budget.take(TRACES, every, now).is_err() {
            return Traced::UsedUp;
        }
        self.last.push((cause.clone(), Last { at: now, is_taken: true }));
        Traced::Yes
    }

    fn last_of(&mut self, cause: &Cause) -> Option<&mut (Cause, Last)> {
        self.last.iter_mut().find(|(known, _)| known.is_same_culprit(cause))
    }

    /// An episode is in another one's trace.
    pub fn share(&mut self, cause: &Cause, now: Instant) {
        match self.last_of(cause) {
            Some((_, last)) => last.at = now,
            None => self.last.push((cause.clone(), Last { at: now, is_taken: false })),
        }
    }

    /// A trace could not be kept: another one may be taken.
    pub fn give_back(&mut self, cause: &Cause) {
        let of_it = self.last.extract_if(.., |(known, _)| known.is_same_culprit(cause));
        if of_it.fold(false, |is_taken, (_, last)| is_taken | last.is_taken)
            && let Some(budget) = self.of_class.get_mut(&cause.class)
        {
            budget.left = (budget.left + 1).min(TRACES);
        }
    }
}

impl Traced {
    /// Why an episode has no trace.
    pub fn refusal(self) -> Option<String> {
        match self {
            Traced::Yes => None,
            Traced::SameCulprit(ago) => {
                Some(format!("no trace: one of the same culprit was taken {} s before", ago.as_secs()))
            }
            Traced::UsedUp => Some("no trace: too many were taken shortly before".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reading::{Role, RoleKind};
    use crate::testing::{Scene, at};

    const EVERY: Duration = Duration::from_secs(60);

    /// Causes that differ in the culprit's task, in the rule, or in the victim's class.
    fn cause(task: (&str, u32), rule: unstarve_sched::Rule, victim: RoleKind) -> Cause {
        let mut detector = crate::episode::Detector::new(crate::agent::config::Config::default().thresholds);
        let quiet = Scene::new();
        let starved = quiet.clone().blame("ksoftirqd", RoleKind::RealTime, 250_000_000);
        detector.see(std::sync::Arc::new(quiet.reading(at(0))));
        let reading = starved.lasts("ksoftirqd", 18, "real-time", 250_000_000).reading(at(250));
        let begun = detector.see(std::sync::Arc::new(reading)).begun.remove(0);
        let culprit_task = begun.culprit_task.map(|known| crate::engine::reading::TaskId {
            comm: unstarve_model::Comm::from(task.0),
            tgid: unstarve_model::Tid(task.1),
            ..known
        });
        Cause::of(&crate::episode::Begun { rule: Some(rule), victim: Role::fixed(victim), culprit_task, ..begun })
    }

    /// Each cell of the table of [`Traced`], beside each kind of other culprit.
    #[test]
    fn who_gets_a_trace_is_decided_by_the_table() {
        use RoleKind::{Ksoftirqd, Other};
        use unstarve_sched::Rule::{Class, Priority};

        let now = Instant::now();
        let first = cause(("hog", 7), Class, Ksoftirqd);
        for (other, is_same, is_same_class) in [
            (cause(("hog", 7), Class, Ksoftirqd), true, true),
            // After a restart, and after a thread has renamed itself.
            (cause(("hog", 8), Class, Ksoftirqd), true, true),
            (cause(("kworker/1:1", 7), Class, Ksoftirqd), true, true),
            (cause(("poller", 8), Class, Ksoftirqd), false, true),
            (cause(("hog", 7), Priority, Ksoftirqd), false, true),
            (cause(("hog", 7), Class, Other), false, false),
        ] {
            for is_used_up in [false, true] {
                for passed in [0, 1, 59, 60, 61] {
                    let mut budget = TraceBudget::default();
                    if is_used_up {
                        // All but one by others.
                        for number in 1..TRACES {
                            let another = cause((&format!("another{number}"), 100 + number), Class, Ksoftirqd);
                            assert_eq!(budget.take(&another, EVERY, now), Traced::Yes);
                        }
                    }
                    assert_eq!(budget.take(&first, EVERY, now), Traced::Yes);
                    let then = now + Duration::from_secs(passed);
                    let is_within = passed < 60;
                    let expected = match (is_same && is_within, is_used_up && is_same_class && is_within) {
                        (true, _) => Traced::SameCulprit(Duration::from_secs(passed)),
                        (false, true) => Traced::UsedUp,
                        (false, false) => Traced::Yes,
                    };
                    assert_eq!(budget.take(&other, EVERY, then), expected, "{other:?} after {passed} s, {is_used_up}");
                }
            }
        }
    }

    #[test]
    fn ever_new_names_take_no_more_than_the_budget() {
        let (mut lines, mut traces) = (LineBudget::default(), TraceBudget::default());
        let now = Instant::now();
        let (mut said, mut traced) = (0, 0);
        // Ten names a second for ten minutes.
        for tenth in 0..6000_u32 {
            let then = now + Duration::from_millis(100) * tenth;
            said += u32::from(lines.take(VictimClass::Programs, then).is_ok());
            let name = cause((&format!("n{tenth}"), 100 + tenth), unstarve_sched::Rule::Class, RoleKind::Other);
            traced += u32::from(traces.take(&name, EVERY, then) == Traced::Yes);
            assert!(traces.last.len() <= TRACES as usize + 1, "{}", traces.last.len());
        }
        assert_eq!((said, traced), (LINES + 59, TRACES + 9));
        assert_eq!(lines.take(VictimClass::Kernel, now), Ok(()), "those of another class cost nothing");
        let wait = lines.take(VictimClass::Programs, now + Duration::from_secs(599));
        assert!(wait.is_err_and(|wait| wait <= LINE_EVERY), "{wait:?}");
    }

    #[test]
    fn what_could_not_be_kept_is_given_back() {
        let mut budget = TraceBudget::default();
        let (now, hog) = (Instant::now(), cause(("hog", 7), unstarve_sched::Rule::Class, RoleKind::Other));
        for _ in 0..20 {
            assert_eq!(budget.take(&hog, EVERY, now), Traced::Yes);
            budget.give_back(&hog);
        }
    }

    #[test]
    fn who_shared_a_trace_gives_nothing_back() {
        let mut budget = TraceBudget::default();
        let now = Instant::now();
        let id = |name: &str| name.bytes().fold(100, |sum, byte| sum * 2 + u32::from(byte));
        let of = |name: &str| cause((name, id(name)), unstarve_sched::Rule::Class, RoleKind::Other);
        for name in ["first", "second"] {
            assert_eq!(budget.take(&of(name), EVERY, now), Traced::Yes);
        }
        let along = ["a", "b", "first"].map(of);
        along.iter().for_each(|cause| budget.share(cause, now));
        // The trace of `first` could not be kept.
        along.iter().for_each(|cause| budget.give_back(cause));
        let given: Vec<_> = ["a", "b", "c"].map(|name| budget.take(&of(name), EVERY, now)).into();
        assert_eq!(given, [Traced::Yes, Traced::Yes, Traced::UsedUp], "one was left, and one was given back");
    }
}
