//! The tables of decision 0624, row by row.

use super::finding::{Levels, Step, step};
use super::obstacle::{Claim, ObstacleKind};
use super::rate::{FLOOR_RATE, Relation, RunRate, judged, relate};
use super::*;

const DECISION_0624: &str = include_str!("../../../../../docs/decisions/0624-a-gate-for-ci.md");

/// The cells of the table that begins with this head.
fn table(first_head: &str) -> Vec<Vec<&'static str>> {
    let lines = DECISION_0624.lines().skip_while(|line| !line.starts_with(&format!("| {first_head} |")));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    let rows: Vec<Vec<&str>> = lines.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(rows.len() > 3, "{first_head}: no such table");
    rows[2..].to_vec()
}

fn judgement(word: &str) -> Judgement {
    Judgement::ALL.into_iter().find(|one| one.word() == word).unwrap_or_else(|| panic!("{word}"))
}

#[test]
fn waits_are_judged_as_the_table_says() {
    let matters = 2.0_f64.ln();
    let some = |change: f64, claim: f64, proof: f64| Relation { change, claim, proof };
    for row in table("rise is certain and matters") {
        let is = |index: usize| row[index] == "yes";
        let relations = match (is(0), is(1), is(2)) {
            (true, false, true) => vec![some(1.5 * matters, matters, 0.3), some(matters, 0.1, 0.1)],
            (false, true, false) => vec![some(-1.5 * matters, matters, 0.3), some(-matters, 0.1, 0.1)],
            // Nothing, a certain rise that does not matter, and a fall that is not certain.
            (false, false, false) => vec![some(0.0, 0.5, 0.3), some(0.5, 0.1, 0.1), some(-0.6, 1.0, 0.5)],
            // Too wide, also where a rise seems to matter.
            (false, false, true) => vec![some(0.0, 2.0, 1.0), some(0.5, 0.3, 0.2), some(1.5, 2.0, 1.0)],
            other => panic!("{other:?} cannot be"),
        };
        for relation in relations {
            assert_eq!(judged(Some(relation), 2.0), judgement(row[3]), "{relation:?}");
        }
    }
    assert_eq!(judged(None, 2.0), Judgement::Undecided, "a recording is too short");
}

#[test]
fn findings_are_judged_as_the_table_says() {
    let level = |word: &str| match word {
        "warning" => vec![Some(Severity::Warning)],
        "critical" => vec![Some(Severity::Critical)],
        "at most info" => vec![None, Some(Severity::Info)],
        other => panic!("{other}"),
    };
    let rows = table("in the base");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let (kind, of_base) = row[0].split_once(' ').expect("two words");
        let bases = match kind {
            "at" => level(row[0]).into_iter().map(|most| Levels { least: None, most }).collect::<Vec<_>>(),
            "some" => {
                let most = level(of_base)[0];
                vec![Levels { least: None, most }, Levels { least: Some(Severity::Info), most }]
            }
            "all" => vec![Levels { least: level(of_base)[0], most: level(of_base)[0] }],
            other => panic!("{other}"),
        };
        let expected = match row[2] {
            "nothing" => Step::Nothing,
            "by waits" => Step::ByWaits,
            "worse" => Step::Worse,
            "same" => Step::Same,
            "better" => Step::Better,
            other => panic!("{other}"),
        };
        for (base, new) in bases.iter().flat_map(|base| level(row[1]).into_iter().map(move |new| (*base, new))) {
            assert_eq!(step(base, Levels { least: new, most: new }), expected, "{row:?}: {base:?} {new:?}");
        }
    }
}

#[test]
fn obstacles_forbid_what_the_table_says() {
    let rows = table("obstacle");
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ObstacleKind::ALL.map(ObstacleKind::word));
    let claims = [
        (Claim::WorseByFinding, Judgement::Worse, Basis::Finding),
        (Claim::WorseByWaits, Judgement::Worse, Basis::Waits),
        (Claim::Same, Judgement::Same, Basis::Waits),
        (Claim::Better, Judgement::Better, Basis::Waits),
    ];
    for (row, kind) in rows.iter().zip(ObstacleKind::ALL) {
        let obstacles = [Obstacle { kind, text: String::new(), advice: String::new() }];
        for (column, (claim, verdict, basis)) in claims.iter().enumerate() {
            let expected = judgement(row[column + 1]);
            assert_eq!(under(*verdict, basis, &obstacles), expected, "{row:?} {claim:?}");
        }
        // An obstacle to sameness alone leaves nothing decided.
        let nothing = overall(std::iter::empty(), &obstacles);
        assert_eq!(nothing, judgement(row[3]), "{row:?}");
    }
}

#[test]
fn all_cases_together_are_as_their_worst() {
    use Judgement::{Better, Same, Undecided, Worse};
    for (cases, expected) in [
        (vec![Same, Better, Undecided, Worse], Worse),
        (vec![Same, Better, Undecided], Undecided),
        (vec![Same, Better], Better),
        (vec![Same, Same], Same),
        (vec![], Same),
    ] {
        assert_eq!(overall(cases.iter().copied(), &[]), expected, "{cases:?}");
    }
}

/// A run of 16 blocks that vary by a tenth.
fn run(mean: f64) -> RunRate {
    let blocks: Vec<f64> = (0..16).map(|index| mean * if index % 2 == 0 { 0.9 } else { 1.1 }).collect();
    RunRate::of(&blocks)
}

#[test]
fn more_recordings_of_the_base_decide_more() {
    let verdict = |base: &[f64], new: f64| {
        let base: Vec<RunRate> = base.iter().map(|mean| run(mean * FLOOR_RATE)).collect();
        judged(relate(&base, &[run(new * FLOOR_RATE)], 10), 2.0)
    };
    // One recording of the base: the assumed spread.
    assert_eq!(verdict(&[10.0], 10.0), Judgement::Same);
    assert_eq!(verdict(&[10.0], 16.0), Judgement::Undecided);
    assert_eq!(verdict(&[10.0], 60.0), Judgement::Worse);
    assert_eq!(verdict(&[60.0], 10.0), Judgement::Better);
    // Quiet runs show that a smaller rise is no noise, unquiet ones that a larger one may be.
    let (quiet, unquiet) = ([10.0, 10.3, 9.8, 10.1, 9.9, 10.0, 10.2], [10.0, 25.0, 6.0, 14.0, 30.0]);
    assert_eq!(verdict(&quiet, 25.0), Judgement::Worse);
    assert_eq!(verdict(&quiet, 14.0), Judgement::Same);
    assert_eq!(verdict(&unquiet, 25.0), Judgement::Undecided);
    // What is next to nothing is the same as nothing.
    assert_eq!(verdict(&[0.0], 0.2), Judgement::Same);
}

#[test]
fn an_interval_is_as_in_a_published_table() {
    // Student's quantiles of 0.95 and 0.9995 at eight degrees of freedom: 1.860 and 5.041.
    let relation = relate(&[run(0.0)], &[run(0.0)], 10).expect("it is long enough");
    let error = 0.15 * 2.0_f64.sqrt();
    assert!((relation.proof - 1.860 * error).abs() < 0.001, "{relation:?}");
    assert!((relation.claim - 5.041 * error).abs() < 0.001, "{relation:?}");
}
