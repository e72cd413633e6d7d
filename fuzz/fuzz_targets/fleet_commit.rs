//! A commit of an hour: refused, or what it says leads nowhere out of that hour, adds up, and is read again as it was.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_fleet::{Commit, Head, Input, Name, counting};

const HOUR: &str = "table=blame_rollup/date=2026-11-23/hour=08";

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let number = 1;
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = Head::decode(number, HOUR, first);
    let Ok(commit) = Commit::decode(number, HOUR, bytes) else {
        if let Ok(head) = head {
            check_names(&head);
        }
        return Corpus::Keep;
    };
    assert_eq!(head.as_ref(), Ok(&commit.head), "readers of the first line see what compactors see");
    check_names(&commit.head);
    for input in &commit.inputs {
        // Versions before 0440 merged names that are no plain text, too.
        let is_early = Name::text(input.name.as_bytes()).is_none();
        assert!((Name::of(&input.name) == Name::Part || is_early) && is_beside(&input.name));
        assert!(input.line_bytes() <= Input::most_line_bytes(&input.name) || input.digest.len() > 32);
    }
    assert_eq!(Commit::decode(number, HOUR, &commit.encode()).as_ref(), Ok(&commit));
    let names: Vec<String> =
        commit.inputs.iter().map(|input| input.name.clone()).chain(["new.parquet".to_owned()]).collect();
    let files = counting(&names, Some(&commit.head), || Ok::<_, ()>(commit.clone())).expect("nothing is read");
    let known: BTreeSet<&String> = commit.inputs.iter().map(|input| &input.name).collect();
    assert!(files.loose.iter().all(|name| !known.contains(name)));
    assert!(!commit.head.dropped || (files.outputs.is_empty() && files.loose.is_empty()));
    Corpus::Keep
});

/// What is read or removed by these names is in the hour, and merged rows.
fn check_names(head: &Head) {
    let outputs = head.outputs.iter().map(|output| &output.name);
    let names: Vec<&String> = outputs.chain(head.retired.iter().map(|old| &old.name)).collect();
    assert!(names.iter().all(|name| matches!(Name::of(name), Name::Merged(_)) && is_beside(name)));
    assert!(head.hour.as_ref().is_none_or(|hour| hour == HOUR));
}

fn is_beside(name: &str) -> bool {
    !name.contains(['/', '\0']) && !name.starts_with('.')
}
