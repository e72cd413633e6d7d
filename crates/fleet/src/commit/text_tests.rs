//! Tests of commits as text.

use super::*;

const HOUR: &str = "table=blame_rollup/date=2026-11-23/hour=07";

fn example() -> Commit {
    let output = |number, rows, sum| Output {
        name: Name::merged(3, number),
        bytes: 4711,
        rows,
        sum: Sum(sum),
        hourly: (number == 1).then_some(HourlyFile { bytes: 7, rows: 1, sum: Sum(5) }),
    };
    let input = |name: &str, rows, sum| Input {
        name: name.to_owned(),
        bytes: 99,
        rows,
        sum: Sum(sum),
        digest: "00ff".to_owned(),
    };
    let outputs = vec![output(1, 5, u64::MAX), output(2, 7, 2)];
    let inputs = vec![input("web1-a.parquet", 4, 1), input("web2-b.parquet", 8, 0)];
    Commit::new(3, HOUR, 1_795_305_600_000_000_000, outputs, inputs)
}

#[test]
fn a_commit_is_read_as_it_was_written() {
    for commit in [example(), Commit::dropped(3, HOUR, 7)] {
        assert_eq!(Commit::decode(3, HOUR, &commit.encode()).as_ref(), Ok(&commit));
    }
}

/// A text that is cut anywhere, or has another number, is refused.
#[test]
fn what_is_not_whole_is_refused() {
    let text = example().encode();
    for length in 0..text.len() {
        assert!(Commit::decode(3, HOUR, &text[..length]).is_err(), "{length} bytes");
    }
    assert!(Commit::decode(4, HOUR, &text).is_err());
}

#[test]
fn a_commit_leads_nowhere_else_and_adds_up() {
    let refused = |change: fn(&mut Commit)| {
        let mut commit = example();
        change(&mut commit);
        Commit::decode(3, HOUR, &commit.encode()).expect_err("refused").to_string()
    };
    assert!(refused(|commit| commit.inputs[0].name = "../../etc/x.parquet".to_owned()).contains("line 2"));
    assert!(refused(|commit| commit.inputs[0].name = Name::merged(1, 1)).contains("line 2"));
    assert!(refused(|commit| commit.head.outputs[0].name = "/etc/passwd".to_owned()).contains("merged rows"));
    assert!(refused(|commit| commit.head.outputs[0].name = Name::merged(3, 2)).contains("twice"));
    assert!(refused(|commit| commit.head.outputs[0].rows += 1).contains("13 rows"));
    assert!(refused(|commit| commit.inputs[0].sum = Sum(9)).contains("sums differ"));
    assert!(
        refused(|commit| commit.head.hour = HOUR.replace("07", "08"))
            .contains("it is of table=blame_rollup/date=2026-11-23/hour=08")
    );
    assert!(refused(|commit| commit.head.format = 1).contains("format is 1"));
}

#[test]
fn the_length_of_a_line_is_known_before_it_is_written() {
    let commit = example();
    let lines: u64 = commit.inputs.iter().map(Input::line_bytes).sum();
    let text = commit.encode();
    let head = text.iter().position(|byte| *byte == b'\n').expect("a line") as u64 + 1;
    assert_eq!(head + lines, text.len() as u64);
}
