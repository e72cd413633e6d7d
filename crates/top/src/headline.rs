//! The first line: who starves whom, in one sentence.

use std::collections::BTreeSet;

use unstarve_diagnose::report::{Culprit, Finding, Severity};
use unstarve_model::{CpuId, CpuSet, Nanos, Policy, clean};
use unstarve_sched::Rule;

use crate::policies::{Named, renamed};
use crate::screen::with_tid;
use crate::view::{Row, View};

/// The sentence, and how bad it is.
///
/// | known | sentence |
/// |---|---|
/// | a finding whose culprit is a task | `poller[19178] FIFO 50 starves 9 threads on CPU 0, up to 90.0 ms` |
/// | a finding without one (a limit, an interrupt, an idle CPU) | the finding's own |
/// | no findings, but a severe row: roles | `hog[4711] FIFO 50 starves ksoftirqd on CPU 1, up to 80.0 ms` |
/// | waits that harm nobody | `Nobody is starved (last 10.0 s): longest wait 8.60 ms, of wl[123]` |
/// | no wait in a whole window | `Nobody waited in the last 10.0 s` |
/// | no wait, and no whole window yet | `No wait so far (0.4 of 10.0 s)` |
pub(crate) fn headline(view: &View) -> (String, Option<Severity>) {
    let alarming = |severity: Severity| severity > Severity::Info;
    if let Some(lead) = view.findings.iter().find(|finding| alarming(finding.severity)) {
        return (of_finding(view, lead), Some(lead.severity));
    }
    let severe = view.all.iter().filter(|row| row.severity.is_some_and(alarming));
    if let Some(worst) = severe.max_by_key(|row| (row.severity, row.longest())) {
        return (of_row(view, worst), worst.severity);
    }
    (of_calm(view), None)
}

fn of_calm(view: &View) -> String {
    let window = Nanos(view.window_ns);
    // `0.4 of 10.0 s`
    let passed = format!("{:.1} of {window}", view.since_start_ns as f64 / 1e9);
    let longest = view.all.iter().filter(|row| !row.is_role()).max_by_key(|row| row.longest());
    let longest = longest.or_else(|| view.all.iter().max_by_key(|row| row.longest()));
    match (longest, view.has_seen_a_window()) {
        (None, true) => format!("Nobody waited in the last {window}"),
        (None, false) => format!("No wait so far ({passed})"),
        (Some(row), true) => format!("Nobody is starved (last {window}): {}", of_longest(row)),
        (Some(row), false) => format!("Nobody is starved so far ({passed}): {}", of_longest(row)),
    }
}

fn of_longest(row: &Row) -> String {
    format!("longest wait {}, of {}", Nanos(row.longest()), with_tid(&row.victim, row.tid))
}

/// Tasks of one name: the words, and how many they are.
struct Threads {
    words: String,
    count: u64,
}

impl Threads {
    fn of(name: &str, tids: &[u32], tasks: u32) -> Threads {
        let count = u64::from(tasks).max(tids.len() as u64);
        let name = clean(name);
        let words = match (tids, count) {
            ([tid], 0..=1) => format!("{name}[{tid}]"),
            (_, 0..=1) => name.into_owned(),
            _ => format!("{count} {name} threads"),
        };
        Threads { words, count }
    }

    fn starve(&self) -> &'static str {
        if self.count > 1 { "starve" } else { "starves" }
    }
}

fn of_finding(view: &View, lead: &Finding) -> String {
    let whole = if lead.headline.is_empty() { &lead.sentence } else { &lead.headline };
    let Some(culprit) = lead.culprits.first().filter(|culprit| is_another_task(lead, culprit)) else {
        return clean(whole).into_owned();
    };
    // Findings by the same culprit are one trouble.
    let of_culprit = |other: &&Finding| {
        let first = other.culprits.first();
        other.severity > Severity::Info
            && first.is_some_and(|it| (&it.comm, &it.tids) == (&culprit.comm, &culprit.tids))
    };
    let all: Vec<&Finding> = view.findings.iter().filter(of_culprit).collect();
    // A thread may be in several findings.
    let tids: BTreeSet<u32> = all.iter().flat_map(|finding| finding.victim.tids.iter().copied()).collect();
    let unlisted: u64 = all
        .iter()
        .map(|finding| u64::from(finding.victim.tasks).saturating_sub(finding.victim.tids.len() as u64))
        .sum();
    let victims = match tids.len() as u64 + unlisted {
        0 | 1 => Threads::of(&lead.victim.comm, &lead.victim.tids, lead.victim.tasks).words,
        count => format!("{count} threads"),
    };
    let cpus: CpuSet = all.iter().flat_map(|finding| finding.cpus.iter().copied()).map(CpuId).collect();
    let longest = all.iter().map(|finding| finding.waits.max_ns).max().unwrap_or(0);
    let by = Threads::of(&culprit.comm, &culprit.tids, culprit.tasks);
    let name = with_priority(view, culprit, &by.words);
    format!("{name} {} {victims}{}, up to {}", by.starve(), place(&cpus), Nanos(longest))
}

/// Whether the culprit is a task with precedence, and not the victim itself.
fn is_another_task(finding: &Finding, culprit: &Culprit) -> bool {
    let is_task = !culprit.tids.is_empty() || culprit.tasks > 0;
    let is_victim = culprit.comm == finding.victim.comm && culprit.tids == finding.victim.tids;
    is_task && !is_victim && culprit.rule != Rule::Throttled && unstarve_watch::is_precedence(culprit.rule)
}

fn with_priority(view: &View, culprit: &Culprit, name: &str) -> String {
    let asked = match culprit.tids.as_slice() {
        [tid] => view.policies.get(tid),
        _ => None,
    };
    let by_events = match (culprit.policy, culprit.prio) {
        (Some(Policy::Rt), Some(prio)) => format!("{name} RT {}", 99 - prio.clamp(-1, 99)),
        (Some(Policy::Deadline), _) => format!("{name} deadline"),
        _ => return name.to_owned(),
    };
    asked.and_then(|policy| renamed(&by_events, policy, Named::ByEvents)).unwrap_or(by_events)
}

fn place(cpus: &CpuSet) -> String {
    match cpus.iter().count() {
        0 => String::new(),
        1 => format!(" on CPU {cpus}"),
        _ => format!(" on CPUs {cpus}"),
    }
}

fn of_row(view: &View, worst: &Row) -> String {
    let victim = with_tid(&worst.victim, worst.tid);
    if worst.rule == Some(Rule::Throttled) {
        return format!("{victim} is throttled by its CPU limit, up to {}", Nanos(worst.longest()));
    }
    let Some(culprit) = &worst.culprit else {
        return format!("{victim} waited up to {}", Nanos(worst.longest()));
    };
    let Some(tid) = worst.culprit_tid else {
        return format!("{victim} is starved by {culprit}{}, up to {}", of_cpu(worst), Nanos(worst.longest()));
    };
    let is_victim = |row: &&Row| !row.is_role() && row.culprit_tid == Some(tid) && row.severity > Some(Severity::Info);
    let threads: Vec<&Row> = view.all.iter().filter(is_victim).collect();
    let longest = threads.iter().map(|row| row.longest()).chain([worst.longest()]).max().unwrap_or(0);
    let cpus: CpuSet = threads.iter().chain([&worst]).filter_map(|row| row.cpu).map(CpuId).collect();
    let victims = match threads.as_slice() {
        [] => victim,
        [one] => with_tid(&one.victim, one.tid),
        several => format!("{} threads", several.len()),
    };
    format!("{} starves {victims}{}, up to {}", identified(culprit, tid), place(&cpus), Nanos(longest))
}

/// `hog[4711] FIFO 50` of `hog FIFO 50`.
pub(crate) fn identified(culprit: &str, tid: u32) -> String {
    for policy in [" FIFO ", " RR ", " RT ", " DL"] {
        if let Some(at) = culprit.rfind(policy) {
            return format!("{}[{tid}]{}", &culprit[..at], &culprit[at..]);
        }
    }
    format!("{culprit}[{tid}]")
}

fn of_cpu(row: &Row) -> String {
    row.cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default()
}
