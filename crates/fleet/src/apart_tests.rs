use unstarve_tables::HOSTS;

use super::*;

/// A child by a shell: it reads questions as the real one does, and notes each start.
fn shell(starts: &std::path::Path, answers: &str) -> Apart {
    let script = format!(
        r#"echo started >> "$0"
answer() {{
    read -r question || exit 0
    bytes=${{question#*\"bytes\":}}
    head -c "${{bytes%%,*}}" >/dev/null
    echo "$1"
}}
{answers}"#
    );
    Apart::new("/bin/sh".into(), vec!["-c".into(), script.into(), starts.into()])
}

const FOUND: &str = r#"answer '{"found":{"rows":1,"sum":"5","memory":8}}'"#;

fn ask(apart: &Apart) -> Result<u64, String> {
    apart.examine(&HOSTS, &Bytes::from_static(b"what a host wrote"), Most::INPUT).map(|found| found.rows)
}

fn starts(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).expect("it was started").lines().count()
}

#[test]
fn a_file_that_ends_a_used_child_is_asked_of_a_new_one() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    // Its room is used up by the first file.
    let apart = shell(&noted, FOUND);
    assert_eq!([ask(&apart), ask(&apart), ask(&apart)], [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 3);
}

#[test]
fn a_used_childs_refusal_does_not_count() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, &format!("{FOUND}\nanswer '{{\"refused\":\"no room\"}}'\n{FOUND}"));
    assert_eq!([ask(&apart), ask(&apart)], [Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 2);
}

#[test]
fn what_a_new_child_says_counts_at_once() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, "answer '{\"refused\":\"column `ns` is Utf8\"}'");
    assert_eq!(ask(&apart), Err("column `ns` is Utf8".to_owned()));
    assert_eq!(starts(&noted), 1);
    let apart = shell(&noted, "exit 3");
    let why = ask(&apart).expect_err("refused");
    assert!(why.contains("ended the process") && why.contains("exit status: 3"), "{why}");
    assert_eq!(starts(&noted), 2);
}

#[test]
fn one_child_reads_many_files() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, &format!("{FOUND}\n{FOUND}\n{FOUND}"));
    assert_eq!([ask(&apart), ask(&apart), ask(&apart)], [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 1);
}
