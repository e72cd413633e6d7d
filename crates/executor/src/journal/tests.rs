//! Tests of the journal: parsing, partly written lines, and stored lines of earlier versions.

use std::fs::OpenOptions;

use unstarve_model::Tid;

use super::*;

fn opened(path: &Path) -> Journal {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path).unwrap();
    let before = Contents::parse(&fs::read(path).unwrap(), "now").unwrap();
    Journal::over(JournalFile::new(file).unwrap(), path, "now", before).unwrap()
}

fn change(seq: u64, tid: u32) -> Step {
    Step {
        seq,
        target: Place::Task(TaskKey { tid: Tid(tid), start: 7 }),
        comm: "kworker/0:1\n\u{1b}[31m".to_owned(),
        rule: "dio".to_owned(),
        old: Value::Nice(0),
        new: Value::Nice(-5),
        at: 0,
        from: None,
        batch: None,
        process: None,
    }
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| encode(record, &mut bytes));
    bytes
}

fn begin(boot: &str) -> Record {
    Record::Begin { version: 1, boot: boot.to_owned() }
}

#[test]
fn what_is_settled_or_of_another_boot_is_not_open() {
    let records = [
        begin("old"),
        Record::Change(change(1, 1)),
        begin("now"),
        Record::Change(change(2, 2)),
        Record::Change(change(3, 3)),
        Record::Settled { seq: 2 },
    ];
    let contents = Contents::parse(&written(&records), "now").unwrap();
    assert_eq!(contents, Contents { open: vec![change(3, 3)], stale: 1, damaged: 0, last_seq: 3, is_begun: true });
}

#[test]
fn a_journal_that_is_only_opened_does_not_grow() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    fs::write(&path, b"").unwrap();
    drop(opened(&path));
    let once = fs::metadata(&path).unwrap().len();
    assert!(once > 0);
    drop(opened(&path));
    drop(opened(&path));
    assert_eq!(fs::metadata(&path).unwrap().len(), once);
    // What is added later is of this boot still.
    opened(&path).promise(&mut [change(0, 7)]).unwrap();
    let contents = Contents::parse(&fs::read(&path).unwrap(), "now").unwrap();
    assert_eq!((contents.open.len(), contents.stale, contents.damaged), (1, 0, 0));
    // Another boot, another version, or a line that cannot be read: a first line is written again.
    let begun = |bytes: &[u8], boot: &str| Contents::parse(bytes, boot).unwrap().is_begun;
    let bytes = fs::read(&path).unwrap();
    assert!(begun(&bytes, "now") && !begun(&bytes, "later") && !begun(b"", "now"));
    assert!(!begun(&[&bytes[..], b"half a line"].concat(), "now"));
}

#[test]
fn a_journal_cut_anywhere_holds_what_was_whole() {
    let records = [begin("now"), Record::Change(change(1, 1)), Record::Change(change(2, 2))];
    let bytes = written(&records);
    let mut seen = Vec::new();
    for length in 0..=bytes.len() {
        let contents = Contents::parse(&bytes[..length], "now").unwrap();
        // A last line without its newline is complete, too.
        seen.push(contents.open.len());
        assert!(contents.damaged <= 1);
    }
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&2));
}

#[test]
fn a_flipped_byte_costs_its_line_alone() {
    let bytes = written(&[begin("now"), Record::Change(change(1, 1)), Record::Change(change(2, 2))]);
    let at = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 20;
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    let contents = Contents::parse(&damaged, "now").unwrap();
    assert_eq!((contents.open, contents.damaged), (vec![change(2, 2)], 1));
}

#[test]
fn a_later_version_is_not_guessed_at() {
    let bytes = written(&[Record::Begin { version: 9, boot: "now".to_owned() }]);
    assert_eq!(Contents::parse(&bytes, "now"), Err(9));
}

#[test]
fn writing_goes_on_after_a_torn_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut journal = opened(&path);
    journal.promise(&mut [change(0, 1)]).unwrap();
    drop(journal);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"0123abcd {\"rec").unwrap();
    let mut journal = opened(&path);
    let mut more = [change(0, 2)];
    journal.promise(&mut more).unwrap();
    assert_eq!(more[0].seq, 2);
    let contents = Contents::parse(&fs::read(&path).unwrap(), "now").unwrap();
    assert_eq!((contents.open.len(), contents.damaged), (2, 1));
}

/// A line for each kind of place and value, written by versions from before settings were types.
const STORED_JOURNAL: &str = include_str!("stored.jsonl");

#[test]
fn a_stored_journal_is_read_and_written_as_ever() {
    for line in STORED_JOURNAL.lines() {
        let record: Record = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
    let mut bytes = Vec::new();
    STORED_JOURNAL.lines().for_each(|line| sealed(line.as_bytes(), &mut bytes));
    let contents = Contents::parse(&bytes, "0f1a").unwrap();
    let file = contents.open.iter().find(|step| matches!(step.target, Place::File { .. })).unwrap();
    assert_eq!((&file.old, &file.new), (&Value::content("50000000"), &Value::content("200000000")));
    assert_eq!((contents.open.len(), contents.damaged), (STORED_JOURNAL.lines().count() - 3, 0));
}
