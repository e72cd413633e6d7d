//! What to record next: a row for each thing that a recording cannot say.

use serde_json::Value as Json;

/// A sign in a report, and what to record for it.
struct Row {
    sign: fn(&Json) -> bool,
    why: &'static str,
    how: &'static str,
}

/// Shorter recordings may have missed what comes once in a while.
const SHORT_NS: u64 = 5_000_000_000;

fn lost(report: &Json) -> bool {
    report.pointer("/trace/lost").and_then(Json::as_u64).is_some_and(|lost| lost > 0)
}

fn has_finding(report: &Json, ids: &[&str]) -> bool {
    super::facts::list(report, "findings")
        .iter()
        .any(|finding| finding.get("id").and_then(Json::as_str).is_some_and(|id| ids.contains(&id)))
}

fn has_no_finding(report: &Json) -> bool {
    super::facts::list(report, "findings").is_empty()
}

fn is_short(report: &Json) -> bool {
    let at = |name| report.pointer(name).and_then(Json::as_u64);
    at("/trace/start_ns").zip(at("/trace/end_ns")).is_some_and(|(start, end)| end.saturating_sub(start) < SHORT_NS)
}

fn has_no_snapshot(report: &Json) -> bool {
    report.pointer("/trace/snapshot").and_then(Json::as_bool) == Some(false)
}

fn waits_through_io(report: &Json) -> bool {
    super::facts::list(report, "findings")
        .iter()
        .any(|finding| finding.pointer("/victim/work").is_some_and(|work| !work.is_null()))
}

fn has_unknown_waits(report: &Json) -> bool {
    report.pointer("/trace/waits_unknown_ns").and_then(Json::as_u64).is_some_and(|ns| ns > 0)
}

fn always(_: &Json) -> bool {
    true
}

/// The most useful first.
const ROWS: &[Row] = &[
    Row {
        sign: lost,
        why: "Events were lost: with a larger buffer they are kept.",
        how: "sudo unstarve record --for 10s --buffer-size 64M",
    },
    Row {
        sign: has_no_snapshot,
        why: "It has no settings of its host, so kernel, weights and limits are guessed: record with unstarve itself.",
        how: "sudo unstarve record --for 10s",
    },
    Row {
        sign: has_no_finding,
        why: "Nobody was starved while it was made: record while it is slow, or let the daemon wait for it.",
        how: "sudo unstarve record --for 60s    # or, for what comes once a night: sudo unstarve watch",
    },
    Row {
        sign: is_short,
        why: "It is shorter than 5 s: what recurs more rarely is not in it.",
        how: "sudo unstarve record --for 30s",
    },
    Row {
        sign: has_unknown_waits,
        why: "The beginning of some waits is not in it: a longer one has fewer of those.",
        how: "sudo unstarve record --for 30s",
    },
    Row {
        sign: waits_through_io,
        why: "A kernel worker waits with work for a device: block I/O shows which requests, and who waits for them.",
        how: "sudo unstarve record --for 10s --io",
    },
    Row {
        sign: |report| has_finding(report, &["cpu-stopped"]),
        why: "A CPU did not run: the host of the virtual machine knows why.",
        how: "sudo unstarve record --for 30s    # on the hypervisor",
    },
    Row {
        sign: always,
        why: "Predictions guess less with timers, block I/O and the CPUs' own interrupts in it.",
        how: "sudo unstarve record --for 10s --predictable",
    },
];

/// What to record, as text; `None` is for a first recording.
pub fn next(report: Option<&Json>) -> String {
    const FIRST: &str = "While it is slow, on that machine, a person with root runs:\n  sudo unstarve record --for 10s      # writes unstarve.dat\n\
                         What comes once a night: sudo unstarve watch records each starvation.\nWithout root: the kernel log and the output of \
                         `ps -eLo pid,tid,cls,rtprio,ni,psr,comm` go to explain, too.";
    let Some(report) = report else { return FIRST.to_owned() };
    let rows = ROWS.iter().filter(|row| (row.sign)(report));
    let said = rows.enumerate().map(|(at, row)| format!("{}. {}\n   {}\n", at + 1, row.why, row.how));
    format!("For a person with root, on the recorded machine; the most useful first:\n{}", said.collect::<String>())
}
