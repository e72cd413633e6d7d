//! A commit of an hour: refused, or what it says leads nowhere out of that hour, adds up, and is read again as it was.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_fleet::{Commit, Input, Name};

const HOUR: &str = "table=blame_rollup/date=2026-11-23/hour=08";

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let number = 1;
    let head = Commit::decode_head(number, HOUR, bytes);
    let Ok(commit) = Commit::decode(number, HOUR, bytes) else {
        head.iter().for_each(check_names);
        return Corpus::Keep;
    };
    let head = head.expect("readers of the first line see what compactors see");
    assert_eq!(head.head, commit.head);
    check_names(&commit);
    for input in &commit.inputs {
        assert!(Name::of(&input.name) == Name::Part && is_beside(&input.name));
        assert!(input.line_bytes() <= Input::most_line_bytes(&input.name) || input.digest.len() > 32);
    }
    assert_eq!(Commit::decode(number, HOUR, &commit.encode()).as_ref(), Ok(&commit));
    Corpus::Keep
});

/// What is read or moved by these names is in the hour, and merged rows.
fn check_names(commit: &Commit) {
    let names = commit.head.outputs.iter().map(|output| &output.name);
    assert!(names.into_iter().all(|name| Name::of(name) == Name::Merged && is_beside(name)));
    assert_eq!(commit.head.hour, HOUR);
}

fn is_beside(name: &str) -> bool {
    !name.contains(['/', '\0']) && !name.starts_with('.')
}
