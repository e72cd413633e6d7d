//! Inputs that differ slightly from what a reader expects: each is read correctly, or refused with advice.

use std::fs;
use std::io::Cursor;

use unstarve_model::{Batch, LossKind};
use unstarve_readers::{Input, foreign, open_input};

/// The events' times in microseconds, and the losses other than event types not recorded; or the error.
fn read(bytes: &[u8]) -> String {
    let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "x".into()).expect("a stream");
    let mut source = match open_input(input) {
        Ok(source) => source,
        Err(error) => return format!("refused: {error}"),
    };
    let (mut batch, mut times) = (Batch::default(), Vec::new());
    loop {
        match source.read(&mut batch) {
            Ok(true) => times.extend(batch.events.iter().map(|event| event.time.0 / 1000)),
            Ok(false) => break,
            Err(error) => return format!("refused: {error}"),
        }
    }
    let losses = source.losses().into_iter().filter(|loss| !matches!(loss.kind, LossKind::NotRecorded(_)));
    let losses: String = losses.map(|loss| format!("; {loss}")).collect();
    format!("{times:?}{losses}")
}

const WAKING: &str = "comm=cc1 pid=7 prio=120 target_cpu=000";

/// An ftrace text with events at these times.
fn ftrace(cpu: u32, times: &[&str]) -> String {
    format!("# tracer: nop\n#\n{}", events(cpu, times))
}

/// The same without a header.
fn events(cpu: u32, times: &[&str]) -> String {
    let line = |time: &&str| format!("    make-12    [{cpu:03}] d..2. {time}: sched_waking: {WAKING}\n");
    times.iter().map(line).collect()
}

/// Twenty events of perf or tracefs in reverse order.
fn reversed(line: impl Fn(u32) -> String) -> String {
    (0..20).rev().map(line).collect()
}

#[test]
fn each_is_read_rightly_or_refused_with_what_to_do() {
    let perf = |mode: &str, time: &str| format!("    make 12 [000] {mode}{time}: sched:sched_waking: {WAKING}\n");
    let fields = "comm=cc1 pid=0x7 (7) prio=0x78 (120) target_cpu=0x0 (0)";
    let table: &[(&str, String, &str)] = &[
        ("a clock of ticks", ftrace(0, &["987654321"]), "counts ticks (x86-tsc, counter, uptime)"),
        ("tracefs in seconds", ftrace(0, &["1.000001", "1.000002"]), "[1000001, 1000002]"),
        (
            "one CPU's text after another's",
            ftrace(0, &["1.5", "1.7"]) + &ftrace(1, &["1.6"]),
            "[1500000, 1600000, 1700000]",
        ),
        (
            "two recordings",
            ftrace(0, &["900.5", "900.7"]) + &ftrace(0, &["1.5", "1.7"]),
            "[900500000, 900700000]; another recording was not read (it begins before line 7: give it in a file of its own)",
        ),
        (
            "two recordings, the second of which begins on another CPU",
            ftrace(0, &["900.5", "900.7"])
                + &ftrace(1, &["5000.1"])
                + &events(0, &["5000.2"])
                + &events(1, &["5000.3"]),
            "[900500000, 900700000]; another recording was not read (it begins before line 8: give it in a file of its own)",
        ),
        ("the option fields", format!("    make-12    [000] d..2. 1.5: sched_waking: {fields}\n"), "[1500000]"),
        (
            "tracefs in reverse order",
            reversed(|at| format!("    make-12    [000] d..2. 1.{at:06}: sched_waking: {WAKING}\n")),
            "reverse it with `tac`",
        ),
        ("perf in reverse order", reversed(|at| perf("", &format!("1.{at:06}"))), "reverse it with `tac`"),
        (
            "two recordings of perf",
            format!("# captured on    : x\n#\n{}# captured on    : y\n#\n{}", perf("", "900.5"), perf("", "1.5")),
            "[900500000]; another recording was not read (it begins with line 4: give it in a file of its own)",
        ),
        ("perf -F +misc", perf("K     ", "1.5") + &perf("GK ", "1.6"), "[1500000, 1600000]"),
        ("perf -L", format!("make 12 0 1.5: sched:sched_waking: {WAKING}\n").repeat(2), "without -L"),
        (
            "perf data convert",
            "{\n\t\"linux-perf-json-version\": 1,\n\t\"samples\": []\n}\n".to_owned(),
            "give the perf.data",
        ),
    ];
    for (what, text, expected) in table {
        let found = read(text.as_bytes());
        assert!(found.contains(expected), "{what}: {found}");
    }
}

#[test]
fn a_directory_says_what_to_give_instead() {
    let directory = tempfile::tempdir().expect("a directory");
    let looks = || foreign::directory(directory.path()).unwrap_or("nothing");
    assert_eq!(looks(), "nothing");
    fs::write(directory.path().join("data"), "PERFILE2").expect("written");
    assert!(looks().contains("give the file `data`"), "{}", looks());
    fs::write(directory.path().join("data.0"), "").expect("written");
    assert!(looks().contains("perf script -i DIRECTORY"), "{}", looks());
}
