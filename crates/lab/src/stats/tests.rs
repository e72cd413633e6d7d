//! Statistics against published tables and simulated experiments.

use proptest::prelude::*;

use super::*;

fn pairs(values: &[(f64, f64)]) -> Vec<Pair> {
    values.iter().map(|&(a, b)| Pair { a, b }).collect()
}

fn row(name: &str, values: &[(f64, f64)], better: Better) -> String {
    let found = contrast(&pairs(values), better, 0.03);
    let interval =
        found.interval.map_or("-".to_owned(), |(low, high)| format!("{:+.1}..{:+.1}", low * 100.0, high * 100.0));
    let relative = found.relative.map_or("-".to_owned(), |relative| format!("{:+.1}", relative * 100.0));
    let p = found.signed_rank_p.map_or("-".to_owned(), |p| format!("{p:.3}"));
    format!("{name:<22} {:>2} {relative:>7} {interval:>15} {p:>6} {}", found.pairs, found.verdict.words())
}

#[test]
fn verdicts_as_a_table() {
    let iops = [(38.4, 30.4), (38.1, 30.9), (38.6, 30.2)];
    let six: Vec<(f64, f64)> = (0..6).map(|i| (100.0 + f64::from(i), 90.0 + f64::from(i * i % 5))).collect();
    let table = [
        row("lost throughput", &iops, Better::Higher),
        row("lower latency", &iops, Better::Lower),
        row("no direction", &iops, Better::Neither),
        row("two pairs only", &iops[..2], Better::Higher),
        row("below what matters", &[(100.0, 101.0), (100.0, 101.1), (100.0, 100.9)], Better::Higher),
        row("one wild pair of three", &[(100.0, 100.0), (100.0, 101.0), (100.0, 180.0)], Better::Lower),
        row("six pairs", &six, Better::Higher),
        row("identical", &[(5.0, 5.0), (6.0, 6.0), (7.0, 7.0)], Better::Lower),
        row("all zero", &[(0.0, 0.0); 3], Better::Lower),
        row("from zero", &[(0.0, 4.0), (0.0, 5.0), (0.0, 6.0)], Better::Lower),
        row("nothing", &[], Better::Lower),
    ]
    .join("\n");
    insta::assert_snapshot!(table, @"
    lost throughput         3   -20.5    -24.0..-16.8      - worse
    lower latency           3   -20.5    -24.0..-16.8      - better
    no direction            3   -20.5    -24.0..-16.8      - differs
    two pairs only          2   -19.9               -      - too few pairs to claim anything
    below what matters      3    +1.0      +0.8..+1.2      - no difference that matters
    one wild pair of three  3   +22.0   -47.1..+181.6      - unclear
    six pairs               6   -10.6     -13.1..-8.0  0.031 worse
    identical               3    +0.0      +0.0..+0.0      - no difference that matters
    all zero                3       -               -      - no difference that matters
    from zero               3  +100.0   +50.3..+149.7      - worse
    nothing                 0       -               -      - too few pairs to claim anything
    ");
}

/// Values of the test's published tables (Wilcoxon 1945; two-sided): n = 6 all of one sign 2/64; n = 8 with rank
/// sum 3 of the rarer sign 10/256.
#[test]
fn signed_ranks_agree_with_the_tables() {
    assert!((signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) - 2.0 / 64.0).abs() < 1e-12);
    assert!((signed_rank(&[1.0, 2.0, -3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) - 10.0 / 256.0).abs() < 1e-12);
    assert!((signed_rank(&[1.0, -1.0]) - 1.0).abs() < 1e-12);
    assert!((signed_rank(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
}

/// Student's quantile for two degrees of freedom is 4.303.
#[test]
fn three_values_get_the_wide_interval_they_deserve() {
    let (low, high) = mean_interval(&[-1.0, 0.0, 1.0]);
    assert!((high - 4.303 / 3f64.sqrt()).abs() < 1e-2 && (low + high).abs() < 1e-9, "{low}..{high}");
}

/// Regression: Student's interval of differences reported −122 % for a count.
#[test]
fn no_bound_lies_below_nothing() {
    let counts = [(90.0, 8.0), (40.0, 39.0), (310.0, 5.0)];
    let found = contrast(&pairs(&counts), Better::Lower, 0.03);
    let (low, high) = found.interval.expect("three pairs");
    assert_eq!((found.scale, found.verdict), (Scale::Ratio, Verdict::Unclear));
    assert!(
        -1.0 < low && low < high && found.pairs_to_tell.is_some_and(|pairs| (7..=12).contains(&pairs)),
        "{found:?}"
    );
    let to_zero = contrast(&pairs(&[(90.0, 0.0), (40.0, 3.0), (310.0, 0.0)]), Better::Lower, 0.03);
    assert_eq!((to_zero.scale, to_zero.interval.map(|(low, _)| low)), (Scale::Difference, Some(-1.0)));
}

/// 95 % of the intervals contain the truth: here a factor of one half with multiplicative noise.
#[test]
fn intervals_of_ratios_hold_the_truth_as_often_as_they_say() {
    let mut state = 7u64;
    let mut noise = || {
        // A sum of twelve uniform numbers is nearly normal.
        let mut sum = -6.0;
        for _ in 0..12 {
            state = unstarve_load::seed::mix(state);
            sum += (state >> 11) as f64 / (1u64 << 53) as f64;
        }
        (0.5 * sum).exp()
    };
    let holds = (0..2000)
        .filter(|_| {
            let sample: Vec<Pair> = (0..4).map(|_| Pair { a: 100.0 * noise(), b: 50.0 * noise() }).collect();
            let (low, high) = contrast(&sample, Better::Lower, 0.03).interval.expect("four pairs");
            low <= -0.5 && -0.5 <= high
        })
        .count();
    assert!((1860..=1940).contains(&holds), "{holds} of 2000 intervals hold the truth");
}

/// The estimated number of seeds decides in four of five cases.
#[test]
fn the_seeds_that_are_asked_for_are_about_enough() {
    let effects = Effects { mean: 0.2, deviation: 0.4, matters: 0.03 };
    let needed = effects.pairs_to_tell(0.05).expect("not too many");
    assert!((30..=36).contains(&needed), "{needed}");
    assert_eq!(Effects { mean: 0.001, deviation: 4.0, matters: 0.03 }.pairs_to_tell(0.05), None);
}

#[test]
fn pure_noise_is_rarely_called_a_difference() {
    // 1000 experiments of five pairs without any effect, spread 10 %.
    let mut state = 1u64;
    let mut noise = || {
        state = unstarve_load::seed::mix(state);
        100.0 + (state >> 11) as f64 / (1u64 << 53) as f64 * 20.0
    };
    let claims = (0..1000)
        .filter(|_| {
            let sample: Vec<Pair> = (0..5).map(|_| Pair { a: noise(), b: noise() }).collect();
            let verdict = contrast(&sample, Better::Higher, 0.03).verdict;
            matches!(verdict, Verdict::Better | Verdict::Worse)
        })
        .count();
    assert!((10..80).contains(&claims), "{claims} of 1000 experiments without an effect claimed one");
}

/// Student's two-sided 5 % point for two degrees of freedom is 4.303.
#[test]
fn the_test_agrees_with_the_interval() {
    let border = 4.303 / 3f64.sqrt();
    assert!((mean_p(&[border - 1.0, border, border + 1.0]) - 0.05).abs() < 1e-4);
    assert_eq!((mean_p(&[0.0; 3]), mean_p(&[2.0; 3]), mean_p(&[-1.0, 0.0, 1.0])), (1.0, 0.0, 1.0));
}

#[test]
fn of_many_metrics_without_an_effect_one_is_rarely_called_different() {
    // Seen with kubepods: three pairs and fifteen metrics; without a correction half of all comparisons of a side with
    // itself called a metric worse or better.
    let mut state = 1u64;
    let mut noise = || {
        state = unstarve_load::seed::mix(state);
        100.0 + (state >> 11) as f64 / (1u64 << 53) as f64 * 20.0
    };
    let mut claims = |correct: bool| {
        (0..400)
            .filter(|_| {
                let mut metrics: Vec<Contrast> = (0..15)
                    .map(|_| {
                        let sample: Vec<Pair> = (0..3).map(|_| Pair { a: noise(), b: noise() }).collect();
                        contrast(&sample, Better::Higher, 0.03)
                    })
                    .collect();
                if correct {
                    correct_for_number(metrics.iter_mut());
                }
                metrics.iter().any(|metric| metric.verdict.is_claim())
            })
            .count()
    };
    let (raw, corrected) = (claims(false), claims(true));
    assert!(raw > 120 && corrected <= 36, "{raw} and {corrected} of 400 comparisons without an effect claimed one");
}

#[test]
fn a_correction_leaves_what_is_sure() {
    let sure = [(38.4, 30.4), (38.1, 30.2), (38.6, 30.7)];
    let vague = [(100.0, 110.0), (100.0, 112.0), (100.0, 107.0)];
    let mut metrics: Vec<Contrast> = (0..14).map(|_| contrast(&pairs(&vague), Better::Lower, 0.03)).collect();
    metrics.push(contrast(&pairs(&sure), Better::Higher, 0.03));
    assert!(metrics.iter().all(|metric| metric.verdict == Verdict::Worse));
    correct_for_number(metrics.iter_mut());
    let verdicts: Vec<Verdict> = metrics.iter().map(|metric| metric.verdict).collect();
    assert_eq!(verdicts[14], Verdict::Worse);
    assert!(verdicts[..14].iter().all(|verdict| *verdict == Verdict::Unclear));
    assert!(
        metrics[..14].iter().all(|metric| metric.taken_back == Some(Verdict::Worse) && metric.pairs_to_tell > Some(3))
    );
}

proptest! {
    #[test]
    fn swapping_the_sides_swaps_the_verdict(values in prop::collection::vec((50.0..150.0f64, 50.0..150.0f64), 3..9)) {
        let forth = contrast(&pairs(&values), Better::Higher, 0.0);
        let back: Vec<(f64, f64)> = values.iter().map(|&(a, b)| (b, a)).collect();
        let back = contrast(&pairs(&back), Better::Higher, 0.0);
        let swapped = match forth.verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        };
        prop_assert_eq!(back.verdict, swapped);
    }
}
