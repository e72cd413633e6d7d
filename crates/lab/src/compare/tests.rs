//! Comparisons of model runs with known differences.

use super::*;
use crate::model::{self, Model};
use crate::run::Request;
use crate::stats::Verdict;

fn compared(answer: impl FnMut(&Request) -> Option<f64>, seeds: u64) -> Comparison {
    let mut model = Model::new(answer);
    let mut tell = |_: crate::bench::NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let (a, b) = ("kernel=5.10".parse().expect("a side"), "kernel=6.12".parse().expect("a side"));
    compare(&mut bench, &model::scenario(), (&a, &b), Plan { seeds, matters: 0.03 }).expect("a comparison")
}

fn verdict(comparison: &Comparison) -> Verdict {
    comparison.main().expect("the main metric").contrast.verdict
}

#[test]
fn a_comparison_reads_as_a_table() {
    let comparison = compared(
        |request| Some(if request.kernel == "5.10" { 38_000.0 } else { 30_000.0 } + 400.0 * model::noise(request)),
        5,
    );
    insta::assert_snapshot!(comparison, @"
    model
      A: kernel=5.10
      B: kernel=6.12
      5 pairs of the same seed
    B against A: worse: main.iops (-21.2 %)

    metric                             A           B     B - A  95 % interval        verdict
    main.iops                   38.0 k/s    30.0 k/s   -21.2 %  -21.6 % to -20.8 %   worse
    main.cost                     100 /s      100 /s    -0.0 %  -0.0 % to -0.0 %     no difference that matters
    In a guest an instruction takes a nanosecond: no caches, no memory to wait for. Who waits for whom carries over
    to a real machine, and ratios of waits mostly do; rates do not.
    ");
}

#[test]
fn identical_runs_are_not_samples() {
    let comparison = compared(|request| Some(if request.kernel == "5.10" { 38_000.0 } else { 30_000.0 }), 5);
    assert_eq!((comparison.pairs_run, comparison.pairs), (5, 1));
    assert_eq!(verdict(&comparison), Verdict::TooFewPairs);
}

#[test]
fn noise_alone_is_no_difference_that_matters() {
    let comparison = compared(|request| Some(38_000.0 + 400.0 * model::noise(request)), 5);
    assert_eq!(verdict(&comparison), Verdict::NoDifferenceThatMatters);
}

#[test]
fn a_metric_that_a_run_lacks_is_named_and_not_taken_for_zero() {
    let mut scenario = model::scenario();
    scenario.expect.metrics.push("main.max".to_owned());
    let outcome = |seed| {
        let mut model = Model::new(|request: &Request| Some(request.seed as f64));
        model.run(&Request::faulty(model::scenario(), "6.1", seed)).expect("an outcome")
    };
    let mut pairs: Vec<_> = (1..=3).map(|seed| (outcome(seed), outcome(seed + 10))).collect();
    pairs[1].1.metrics.retain(|metric| metric.name != "main.cost");
    let comparison = of_outcomes(&scenario, ("a".into(), "b".into()), &pairs, 0.03);
    assert_eq!(comparison.missing, ["main.cost", "main.max"]);
}

/// A metric's name and direction, and its values on both sides with three seeds.
type Measured<'a> = (&'a str, Better, [(f64, f64); 3]);

fn of_values(metrics: &[Measured<'_>]) -> Comparison {
    let mut scenario = model::scenario();
    scenario.expect.metrics = vec![metrics[0].0.to_owned()];
    let mut model = Model::new(|request: &Request| Some(request.seed as f64));
    let mut pairs = Vec::new();
    for seed in 1..=3 {
        let mut side = |fault: bool| {
            let request = Request { fault, ..Request::faulty(model::scenario(), "6.1", seed) };
            let mut outcome = model.run(&request).expect("an outcome");
            let value = |pair: (f64, f64)| if fault { pair.1 } else { pair.0 };
            outcome.trace_digest = format!("{fault}{seed}");
            outcome.metrics = metrics
                .iter()
                .map(|(name, better, values)| Metric {
                    name: (*name).to_owned(),
                    value: value(values[seed as usize - 1]),
                    unit: "ns".to_owned(),
                    better: *better,
                })
                .collect();
            outcome
        };
        pairs.push((side(false), side(true)));
    }
    of_outcomes(&scenario, ("a".into(), "b".into()), &pairs, 0.03)
}

/// Seen in practice: a remedy makes the slowest ping faster and all others slower.
#[test]
fn harm_is_told_first() {
    let comparison = of_values(&[
        ("ping.max", Better::Lower, [(97e6, 16e6), (95e6, 15.5e6), (99e6, 16.4e6)]),
        ("ping.p99", Better::Lower, [(2.0e6, 4.56e6), (2.01e6, 4.58e6), (1.99e6, 4.54e6)]),
        ("ping.mean", Better::Lower, [(0.4e6, 0.604e6), (0.41e6, 0.62e6), (0.39e6, 0.59e6)]),
    ]);
    assert_eq!(comparison.conclusion(), "worse: ping.mean (+51.2 %), ping.p99 (+128.0 %); better: ping.max (-83.5 %)");
    let text = comparison.to_string();
    let line = text.lines().position(|line| line.starts_with("B against A: worse")).expect("the conclusion");
    assert!(line < 5 && comparison.claims_a_difference(), "{text}");
}

#[test]
fn harm_that_is_not_sure_among_so_many_is_told_with_a_footnote_and_how_many_seeds_it_takes() {
    let comparison = of_values(&[
        ("ping.max", Better::Lower, [(10e6, 5.0e6), (10.1e6, 5.04e6), (9.9e6, 4.96e6)]),
        ("ping.mean", Better::Lower, [(1e6, 1.10e6), (1e6, 1.13e6), (1e6, 1.08e6)]),
        ("ping.p99", Better::Lower, [(1e6, 1.0e6), (1e6, 1.3e6), (1e6, 0.8e6)]),
        ("ping.p50", Better::Lower, [(1e6, 1.0e6), (1e6, 1.2e6), (1e6, 0.9e6)]),
    ]);
    let text = comparison.to_string();
    assert!(text.contains("perhaps worse: ping.mean (+10.3 %) (*)"), "{text}");
    let row = text.lines().find(|line| line.starts_with("ping.mean")).expect("its row");
    assert!(row.contains("seeds may be enough *"), "{row}");
    assert!(text.contains("\n* Its own interval leaves out zero, but 3 metrics were looked at"), "{text}");
    assert!(text.contains("an instruction takes a nanosecond"), "{text}");
}

#[test]
fn every_pair_is_shown_on_request() {
    let comparison = of_values(&[("ping.max", Better::Lower, [(10e6, 5e6), (20e6, 5e6), (40e6, 4e6)])]);
    insta::assert_snapshot!(PerSeed(&comparison), @"
    metric                   seed A seed B           A           B     B - A
    ping.max                      1      1     10.0 ms     5.00 ms   -50.0 %
    ping.max                      2      2     20.0 ms     5.00 ms   -75.0 %
    ping.max                      3      3     40.0 ms     4.00 ms   -90.0 %
    ");
}

#[test]
fn a_side_against_itself_gets_seeds_of_its_own() {
    let mut model = Model::new(|request: &Request| Some(38_000.0 + 400.0 * model::noise(request)));
    let mut tell = |_: crate::bench::NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let (a, b) =
        ("kernel=6.1,set:sched_feature.A=on,set:sched_feature.B=on", "set:sched_feature.B=on,set:sched_feature.A=on");
    let (a, b) = (a.parse().expect("a side"), b.parse().expect("a side"));
    let comparison =
        compare(&mut bench, &model::scenario(), (&a, &b), Plan { seeds: 4, matters: 0.03 }).expect("compared");
    assert_eq!((model.runs, comparison.pairs), (8, 4));
    assert_eq!(comparison.seeds, [(1, 5), (2, 6), (3, 7), (4, 8)]);
    assert!(comparison.to_string().contains("4 pairs of different seeds, as both sides are the same"), "{comparison}");
}

#[test]
fn a_kernel_of_b_does_not_change_a() {
    let mut model = Model::new(|_: &Request| Some(1.0));
    let mut tell = |_: crate::bench::NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let b = "kernel=6.12".parse().expect("a side");
    let error =
        compare(&mut bench, &model::scenario(), (&Side::default(), &b), Plan::default()).expect_err("no kernel");
    assert!(error.to_string().starts_with("side A names no kernel"), "{error}");
}

#[test]
fn sides_without_a_kernel_are_refused() {
    let mut model = Model::new(|_: &Request| Some(1.0));
    let mut tell = |_: crate::bench::NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let error = compare(&mut bench, &model::scenario(), (&Side::default(), &Side::default()), Plan::default());
    assert!(error.expect_err("no kernel").to_string().contains("kernel="));
}
