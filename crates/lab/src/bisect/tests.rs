use super::*;
use crate::model::{self, Model, sets};

const KNOBS: usize = 13;

fn knob(number: usize) -> String {
    format!("sched_feature.F{number:02}")
}

/// A side with all knobs at `value`.
fn side(value: &str) -> Side {
    let knobs: Vec<String> = (0..KNOBS).map(|number| format!("set:{}={value}", knob(number))).collect();
    format!("kernel=6.1,{}", knobs.join(",")).parse().expect("a side")
}

/// Bisects `off` to `on` of a model, and returns the result with the number of guests that were run.
fn found(answer: impl FnMut(&Request) -> Option<f64>, seeds: u64) -> (Bisection, usize) {
    let mut model = Model::new(answer);
    let mut tell = |_: crate::bench::Upcoming<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let search = Search { seeds, ..Search::default() };
    let sides = (&side("off"), &side("on"));
    let found = bisect(&mut bench, &model::scenario(), sides, &|_| Settings::new(), &search).expect("a result");
    (found, model.runs)
}

fn names(found: &Bisection) -> Vec<String> {
    found.cause.iter().map(|change| change.to_string()).collect()
}

#[test]
fn one_planted_knob_among_thirteen_is_found_within_the_budget() {
    let budget = (2.0 * (KNOBS as f64).log2() + 4.0) as usize;
    for planted in 0..KNOBS {
        let (found, runs) =
            found(|request| Some(if sets(request, &knob(planted), "on") { 30_400.0 } else { 38_400.0 }), 1);
        assert_eq!(names(&found), [format!("{}: off -> on", knob(planted))]);
        assert!(runs <= budget && found.steps == runs, "{runs} runs, {} steps, budget {budget}", found.steps);
        assert_eq!((found.explained, found.necessary), (1.0, Some(true)));
        assert!(found.unexplained.is_empty(), "{:?}", found.unexplained);
    }
}

#[test]
fn one_planted_knob_is_found_through_noise_of_a_quarter_of_its_effect() {
    for planted in 0..KNOBS {
        let answer = |request: &Request| {
            let effect = if sets(request, &knob(planted), "on") { 30_000.0 } else { 38_000.0 };
            Some(effect + 2_000.0 * model::noise(request))
        };
        let (found, _) = found(answer, 1);
        assert_eq!(names(&found), [format!("{}: off -> on", knob(planted))]);
    }
}

#[test]
fn a_pair_that_only_acts_together_is_found_as_a_pair() {
    let both = |request: &Request| sets(request, &knob(2), "on") && sets(request, &knob(11), "on");
    let (found, _) = found(|request| Some(if both(request) { 20_000.0 } else { 38_400.0 }), 1);
    assert_eq!(names(&found), ["sched_feature.F02: off -> on", "sched_feature.F11: off -> on"]);
}

#[test]
fn every_cause_that_suffices_alone_is_found() {
    let either = |request: &Request| sets(request, &knob(2), "on") || sets(request, &knob(11), "on");
    let (found, _) = found(|request| Some(if either(request) { 20_000.0 } else { 38_400.0 }), 1);
    assert_eq!(found.necessary, Some(false));
    let text = found.to_string();
    insta::assert_snapshot!(text[text.find("  13 settings").expect("a count")..], @"
      13 settings differ, 16 configurations tried
    cause (100 % of the difference, A with it: 20.0 k/s):
      sched_feature.F02: off -> on
    without that, the same difference is made by:
      sched_feature.F11: off -> on
    ");
    assert!(found.unexplained.is_empty(), "{:?}", found.unexplained);
}

#[test]
fn no_difference_ends_after_the_two_sides() {
    let (found, runs) = found(|request| Some(38_000.0 + 100.0 * model::noise(request)), 1);
    assert_eq!((runs, found.cause.len()), (2, 0));
    assert!(found.unexplained[0].contains("nothing to explain"), "{:?}", found.unexplained);
}

/// Two kernels with three features that differ, one that only the newer has.
fn across(answer: impl FnMut(&Request) -> Option<f64>) -> Bisection {
    let settings = |outcome: &Outcome| {
        let newer = outcome.request.kernel == "6.12";
        let value = if newer { "on" } else { "off" };
        let mut settings: Settings = (0..3)
            .map(|number| (knob(number), value.to_owned()))
            .chain([("sysctl.same".to_owned(), "1".to_owned())])
            .collect();
        if newer {
            settings.insert("sched_feature.PLACE_LAG".to_owned(), "on".to_owned());
        }
        settings
    };
    let mut model = Model::new(answer);
    let mut tell = |_: crate::bench::Upcoming<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let (a, b) = ("kernel=6.1".parse().expect("a side"), "kernel=6.12".parse().expect("a side"));
    bisect(&mut bench, &model::scenario(), (&a, &b), &settings, &Search::default()).expect("a result")
}

#[test]
fn between_kernels_the_settings_take_their_part_and_the_code_is_named_for_the_rest() {
    let found = across(|request| {
        Some(if request.kernel == "6.12" {
            20_000.0
        } else if sets(request, &knob(1), "on") {
            30_000.0
        } else {
            40_000.0
        })
    });
    insta::assert_snapshot!(found, @"
    model: main.iops
      A: kernel=6.1: 40.0 k/s
      B: kernel=6.12: 20.0 k/s
      3 settings differ, 7 configurations tried
    cause (50 % of the difference, A with it: 30.0 k/s):
      sched_feature.F01: off -> on
    not explained: only B's kernel has PLACE_LAG
    not explained: 50 % of the difference is not explained by these settings
    ");
}

#[test]
fn between_kernels_nothing_settable_is_told() {
    let found = across(|request| Some(if request.kernel == "6.12" { 20_000.0 } else { 40_000.0 }));
    insta::assert_snapshot!(found, @"
    model: main.iops
      A: kernel=6.1: 40.0 k/s
      B: kernel=6.12: 20.0 k/s
      3 settings differ, 3 configurations tried
    no cause found among the settings
    not explained: only B's kernel has PLACE_LAG
    not explained: all 3 settings that differ and that A's kernel has make 0 % of the difference: the rest is in the kernels' code or in settings that only one of them has
    ");
}

#[test]
fn fault_and_remedy_are_candidates_too() {
    let mut model = Model::new(|request: &Request| {
        Some(if request.fault && request.remedy.is_none() { 7_000.0 } else { 38_000.0 })
    });
    let mut tell = |_: crate::bench::Upcoming<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let (a, b) = ("kernel=6.1".parse().expect("a side"), "remedy=cure,set:sched_feature.X=on".parse().expect("a side"));
    let found = bisect(&mut bench, &model::scenario(), (&a, &b), &|_| Settings::new(), &Search::default());
    assert_eq!(names(&found.expect("a result")), ["remedy cure"]);
}

#[test]
fn a_guest_that_fails_ends_the_search_with_its_name() {
    let mut model = Model::new(|request: &Request| (request.kernel == "6.1").then_some(1.0));
    let mut tell = |_: crate::bench::Upcoming<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let (a, b) = ("kernel=6.1".parse().expect("a side"), "kernel=6.12".parse().expect("a side"));
    let error = bisect(&mut bench, &model::scenario(), (&a, &b), &|_| Settings::new(), &Search::default());
    assert_eq!(error.expect_err("a failure").to_string(), "model on 6.12, seed 1: the model's guest panicked");
}
