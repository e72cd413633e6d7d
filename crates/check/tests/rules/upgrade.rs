//! What an upgrade loses, moves, ends and begins.

use unstarve_check::{Audit, Severity, When};
use unstarve_facts::{ConfiguredBy, Holds, REGRESSIONS, Row, Version};

use crate::rules::host::{Host, healthy};

fn table(audit: &Audit, rules: &[&str]) -> String {
    let wanted = audit.hits.iter().filter(|hit| rules.contains(&hit.rule.as_str()));
    let line = |hit: &unstarve_check::Hit| {
        let when = match hit.holds {
            Some(When::After) => "after",
            Some(When::Both) => "both",
            Some(When::Now) => "now",
            None => "-",
        };
        format!("{when:<6}{:<9}{:<28}{}", hit.severity.word(), hit.rule, hit.sentence)
    };
    wanted.map(line).collect::<Vec<_>>().join("\n")
}

/// Debian 11, tuned as the vendors of databases recommended.
fn tuned_host() -> Host {
    let mut host = healthy();
    host.kernel("5.10.0-32-amd64", "#1 SMP Debian 5.10.223-1 (2024-08-10)").config("PREEMPT_VOLUNTARY", "y");
    for (name, value) in [
        ("sched_min_granularity_ns", "10000000"),
        ("sched_wakeup_granularity_ns", "15000000"),
        ("sched_migration_cost_ns", "5000000"),
    ] {
        host.setting(&format!("/proc/sys/kernel/{name}"), value);
        host.written(ConfiguredBy::Sysctl, &format!("kernel.{name}"), value);
    }
    host.setting("/proc/sys/kernel/sched_rr_timeslice_ms", "10");
    host.written(ConfiguredBy::Sysctl, "kernel.sched_rt_runtime_us", "950000");
    host.written(ConfiguredBy::Tuned, "sched_min_granularity_ns", "10000000");
    host
}

#[test]
fn what_5_10_loses_on_6_12() {
    let audit = tuned_host().upgrade("6.12");
    insta::assert_snapshot!(table(&audit, &["knob-drift", "autogroup", "preempt-mode"]), @"
    after warning  knob-drift                  A sysctl file sets sched_migration_cost_ns where Linux 6.12 does not have it: it is at /sys/kernel/debug/sched/migration_cost_ns.
    after warning  knob-drift                  A sysctl file sets sched_min_granularity_ns, which Linux 6.12 does not have any more.
    after warning  knob-drift                  TuneD sets sched_min_granularity_ns, which on Linux 6.12 it writes to base_slice_ns.
    after warning  knob-drift                  A sysctl file sets sched_wakeup_granularity_ns, which Linux 6.12 does not have any more.
    after info     knob-drift                  A sysctl file sets sched_rt_runtime_us, which means something else on Linux 6.12.
    after info     knob-drift                  sched_rr_timeslice_ms is 10, its default 100, and no file that was read sets it: the reboot loses it.
    after info     autogroup                   Linux 6.12 turns autogroup on.
    ");
    assert!(audit.reaches(Severity::Warning) && !audit.reaches(Severity::Critical));
    assert_eq!(audit.upgrade_to.as_deref(), Some("6.12"));
}

#[test]
fn what_moves_on_6_1_is_still_there() {
    insta::assert_snapshot!(table(&tuned_host().upgrade("6.1"), &["knob-drift"]), @"
    after warning  knob-drift                  A sysctl file sets sched_migration_cost_ns where Linux 6.1 does not have it: it is at /sys/kernel/debug/sched/migration_cost_ns.
    after warning  knob-drift                  A sysctl file sets sched_min_granularity_ns where Linux 6.1 does not have it: it is at /sys/kernel/debug/sched/min_granularity_ns.
    after warning  knob-drift                  A sysctl file sets sched_wakeup_granularity_ns where Linux 6.1 does not have it: it is at /sys/kernel/debug/sched/wakeup_granularity_ns.
    after info     knob-drift                  sched_rr_timeslice_ms is 10, its default 100, and no file that was read sets it: the reboot loses it.
    ");
}

#[test]
fn lazy_preemption_comes_with_7() {
    let mut host = healthy();
    host.kernel("6.12.107+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1").config("PREEMPT_VOLUNTARY", "y");
    host.boots_with("preempt=none");
    insta::assert_snapshot!(table(&host.upgrade("7.2"), &["preempt-mode", "knob-drift"]), @"
    after warning  preempt-mode                Linux 7.2 ignores preempt=none and goes on as it was built.
    after warning  preempt-mode                Linux 7.2 changes the preemption mode from none to lazy.
    after info     knob-drift                  The default of sched_rt_runtime_us goes from 950000 to 1000000 us with Linux 7.2.
    ");
}

#[test]
fn an_upgrade_ends_what_it_mends() {
    let mut host = healthy();
    // Where completions come in is not known, so it may be anywhere.
    host.0.irqs.clear();
    host.real_time(900, "stargate", 10, "2-7", 0.9);
    let audit = host.upgrade("7.2");
    insta::assert_snapshot!(table(&audit, &["rt-beside-completion-worker", "known-bug"]), @"
    both  warning  rt-beside-completion-worker stargate[900] RR 10 may run on CPUs 2-7, where a worker of normal priority completes direct writes of xfs on /dev/nvme0n1.
    now   info     known-bug                   Interrupts between CPUs that push real-time tasks can lock up a CPU that is busy with softirqs.
    ");
    assert!(!audit.reaches(Severity::Critical), "what is only now does not fail the upgrade");
    assert!(host.audit().reaches(Severity::Critical));
}

#[test]
fn known_changes_are_those_between() {
    let audit = healthy().upgrade("6.12");
    let is_of_kernel = |hit: &&unstarve_check::Hit| ["known-change", "known-bug"].contains(&hit.rule.as_str());
    let new = audit.hits.iter().filter(is_of_kernel).filter(|hit| hit.holds == Some(When::After));
    let mut ids: Vec<&str> = new.map(|hit| hit.report.as_deref().expect("a report")).collect();
    ids.sort_unstable();
    // Each once: as a bug where the host has what it needs, else as a report.
    insta::assert_snapshot!(ids.join(" "), @"
    R04 R05 R06 R07 R08 R09 R10 R19 R27 R28 R29 R31 R34 R46 R47
    ");
    assert!(healthy().upgrade("6.1").hits.iter().all(|hit| hit.rule != "known-change"));
}

#[test]
fn known_changes_are_told_by_the_stable_level() {
    let told = |from: &str, to: &str, id: &str| {
        let mut host = healthy();
        host.kernel(from, "#1 SMP");
        let hits = host.upgrade(to).hits;
        hits.iter().any(|hit| hit.report.as_deref() == Some(id) && hit.holds == Some(When::After))
    };
    // The cost of the fair server, the slices of idle tasks, and the newidle cost.
    for (to, expected) in [("6.12.91", true), ("6.12.92", false), ("6.12", true), ("6.17", false)] {
        assert_eq!(told("6.1.176", to, "R08"), expected, "R08 {to}");
    }
    for (to, expected) in [("6.12.22", true), ("6.12.23", false), ("6.14.1", true), ("6.14.2", false)] {
        assert_eq!(told("6.1.176", to, "R28"), expected, "R28 {to}");
    }
    for (to, expected) in
        [("6.18.2", true), ("6.18.3", false), ("6.18.44", false), ("6.6.110", true), ("6.6.120", false)]
    {
        assert_eq!(told("6.1.120", to, "R10"), expected, "R10 {to}");
    }
    // The other slice came within 5.10, and went with CFS.
    for (to, expected) in
        [("5.10.35", false), ("5.10.36", true), ("5.15", true), ("6.1", true), ("6.6", false), ("7.2", false)]
    {
        assert_eq!(told("5.10.30", to, "R37"), expected, "R37 {to}");
    }
    assert!(!told("5.10.40", "6.1", "R37"), "it has it already");
    // What only a vendor's kernel had is not told of others.
    assert!(!told("6.1.176", "6.12.20", "R39"));
}

/// Whether it begins as a sentence does, or with a commit, a word of a command line or a file, and ends as one.
fn is_sentence(text: &str) -> bool {
    let word = text.split([' ', ',']).next().unwrap_or_default();
    let is_commit = word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let begins = text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
        || is_commit
        || word.contains('=')
        || word == "debugfs";
    begins && text.ends_with('.') && !text.ends_with("..")
}

fn has_a_bare_dash(text: &str) -> bool {
    text == "-" || text.starts_with("- ") || text.contains(" - ") || text.contains(": -.") || text.ends_with(" -")
}

#[test]
fn whatever_a_report_says_is_said_in_sentences() {
    let series = [
        "4.0", "4.1", "4.8", "4.9", "4.17", "4.18", "5.2", "5.3", "5.4", "5.5", "5.10", "5.11", "5.12", "5.13", "5.15",
        "5.16", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.10", "6.11", "6.12", "6.14", "6.15", "6.16", "6.17",
        "6.18", "6.19", "7.0", "7.1", "7.2",
    ];
    let mut told = std::collections::BTreeSet::new();
    for pair in series.windows(2) {
        let mut host = healthy();
        host.kernel(pair[0], "#1 SMP");
        let audit = host.upgrade(pair[1]);
        for hit in audit.hits.iter().filter(|hit| hit.rule == "known-change" || hit.rule == "known-bug") {
            told.extend(hit.report.clone());
            let consequence = Some(&hit.consequence).filter(|text| !text.is_empty());
            let sentences = [&hit.sentence].into_iter().chain(consequence).chain(&hit.price);
            for text in sentences.chain(hit.fixes.iter().map(|fix| &fix.text)) {
                assert!(is_sentence(text) && !has_a_bare_dash(text), "{text}");
                assert!(!text.contains("no number"), "{text}");
            }
            for text in &hit.evidence {
                assert!(!text.is_empty() && !has_a_bare_dash(text) && !text.ends_with('.'), "{text}");
                assert!(!text.contains("good up to") && !text.contains("bad from"), "{text}");
            }
        }
    }
    let all = REGRESSIONS.rows().filter(|row| row.is_stated() && row.kernels().is_some()).map(Row::name);
    assert_eq!(all.filter(|name| !told.contains(*name)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_kernels_of_a_report_are_versions_and_have_it() {
    for row in REGRESSIONS.rows() {
        let Some(text) = row.kernels() else { continue };
        let words = text.split([' ', ',', ';']).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let versions: Vec<Version> =
            words.map(|word| word.parse().unwrap_or_else(|_| panic!("{}: {text}", row.name()))).collect();
        assert_ne!(row.holds_on(versions[0]), Some(Holds::No), "{}: {text}", row.name());
    }
    let kernels = |id: &str| REGRESSIONS.row(id).and_then(Row::kernels).unwrap_or_default();
    assert_eq!(kernels("R04"), "Linux 6.6 to 6.16 have it");
    assert_eq!(kernels("R08"), "Linux 6.12 to 6.16 have it; it is fixed in 6.12.92");
    assert_eq!(kernels("R19"), "Linux 6.5 and later have it");
    assert_eq!(kernels("R22"), "Linux 6.3 has it");
    assert_eq!(kernels("R29"), "Linux 6.15 and later have it, and stable kernels from 6.12.31 and 6.14.9 on");
    assert_eq!(kernels("R32"), "", "no kernels");
}

#[test]
fn an_upgrade_ends_a_bug_only_where_that_is_known() {
    let mut host = healthy();
    host.real_time(900, "monitor", 10, "0-7", 0.2);
    host.features(&[("RT_PUSH_IPI", true)]);
    let holds = |to: &str| {
        let audit = host.upgrade(to);
        let hit = audit.hits.iter().find(|hit| hit.subject == "rt-push-ipi").expect("told either way");
        let is_sure = hit.evidence[0].ends_with(" has it");
        (hit.holds, is_sure)
    };
    for to in ["5.4", "6.5", "6.8", "6.11", "6.14", "6.17", "6.19", "7.0", "6.12.95", "6.6.144"] {
        assert_eq!(holds(to), (Some(When::Both), true), "{to}");
    }
    for to in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        assert_eq!(holds(to), (Some(When::Both), false), "{to}: the level is not named");
    }
    for to in ["6.12.96", "6.6.145", "6.18.39", "7.1.4", "7.2"] {
        assert_eq!(holds(to).0, Some(When::Now), "{to}");
    }
}

#[test]
fn of_a_kernel_that_nobody_has_read_it_says_so() {
    let unseen =
        |version: &str| healthy().upgrade(version).missing.iter().any(|missing| missing.what.starts_with("Linux"));
    assert!(unseen("99.1") && unseen("7.3") && !unseen("7.2") && !unseen("6.12"));
}
