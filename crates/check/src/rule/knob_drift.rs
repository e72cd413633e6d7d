//! Rule `knob-drift`: configured settings without effect, now or after an upgrade.

use std::collections::BTreeMap;

use unstarve_facts::{Configured, ConfiguredBy, Drift, DriftKind, Facts, Knob, Presence, Snapshot, Version, drifts};

use super::Rule;
use crate::case::AuditInput;
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "knob-drift",
    title: "A setting is written down and does not take effect, or an upgrade moves, drops or redefines it",
    about: "sysctl lines, TuneD profiles and units survive kernels. When the setting moves to debugfs or goes away, nothing but a \
            line in a log says so, and the default is back: three times slower in one published case.",
    source: "data/knobs.tsv, a source in each row; commit 8a99b6833c88 (5.13), EEVDF (6.6), 5f6bd380c7bd (6.12); case D: VMware, \
             lkml.iu.edu/hypermail/linux/kernel/2107.3/07025.html (R01); TuneD's commit 87ff27c (R43)",
    check,
    upgrade: Some(upgrade),
};

const PRICE: &str = "Linux 5.13 moved the granularities to debugfs, TuneD could not write its 10 ms and 15 ms any more, and 3 ms and 4 ms \
                     were back: a kernel compile took up to three times as long, small network packets lost 40 % (VMware, 2021).";

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let found = by_meaning(drifts(case.snapshot, None));
    found.into_iter().map(|drifts| hit(case, &drifts, None)).collect()
}

/// Lines about the same setting that fail in the same way form one hit.
fn by_meaning(drifts: Vec<Drift<'_>>) -> Vec<Vec<Drift<'_>>> {
    let mut groups: BTreeMap<(String, String), Vec<Drift<'_>>> = BTreeMap::new();
    for drift in drifts {
        let name = Knob::named(&drift.name).map_or(drift.name.clone(), |knob| knob.name().to_owned());
        groups.entry((name, format!("{:?}", drift.kind))).or_default().push(drift);
    }
    groups.into_values().collect()
}

fn hit(case: &AuditInput<'_>, drifts: &[Drift<'_>], then: Option<&AuditInput<'_>>) -> Hit {
    let drift = &drifts[0];
    let name = Knob::named(&drift.name).map_or(drift.name.as_str(), |knob| knob.name());
    let kernel = then.unwrap_or(case).facts.name();
    let matters = matters(case, drift);
    let severity = match (&drift.kind, matters) {
        (DriftKind::Unknown | DriftKind::NotInForce(_), _) | (_, false) => Severity::Info,
        _ => Severity::Warning,
    };
    let places: Vec<&Configured> = drifts.iter().map(|drift| drift.setting).collect();
    Draft::new(RULE.id, severity, name)
        .says(sentence(name, drift, &kernel))
        .because_of(evidence(case, drift))
        .would(consequence(drift))
        .priced_if(matches!(drift.kind, DriftKind::Moved(_) | DriftKind::Gone(_)).then_some(PRICE))
        .fix(cure(case, drift))
        .set_at(places)
        .done()
}

/// A line that asks for the default has no effect to lose.
fn matters(case: &AuditInput<'_>, drift: &Drift<'_>) -> bool {
    let wanted = drift.setting.value.trim();
    let default = default_of(&case.facts, &drift.name, case.online.len());
    default.is_none_or(|default| default != wanted)
}

fn default_of(facts: &Facts<'_>, name: &str, cpus: usize) -> Option<String> {
    let form = Knob::named(name)?.at(facts.version()?, facts.distribution()).and_then(Presence::form)?;
    form.default_with(cpus)
}

fn sentence(name: &str, drift: &Drift<'_>, kernel: &str) -> String {
    let who = match drift.setting.by {
        ConfiguredBy::Tuned => "TuneD",
        ConfiguredBy::Unit => "A unit",
        ConfiguredBy::Boot => "The boot line",
        _ => "A sysctl file",
    };
    match &drift.kind {
        DriftKind::Unknown => format!("{who} sets {name}, which {kernel} does not have."),
        DriftKind::Gone(_) => format!("{who} sets {name}, which {kernel} does not have any more."),
        DriftKind::Moved(path) => format!("{who} sets {name} where {kernel} does not have it: it is at {path}."),
        DriftKind::Redefined(_) => format!("{who} sets {name}, which means something else on {kernel}."),
        DriftKind::NotInForce(live) => format!("{who} sets {name} to {}, but it is {live}.", drift.setting.value),
        DriftKind::Translated(to) => format!("{who} sets {name}, which on {kernel} it writes to {to}."),
    }
}

fn evidence(case: &AuditInput<'_>, drift: &Drift<'_>) -> Option<String> {
    match &drift.kind {
        DriftKind::Gone(Some(next)) => Some(format!("the nearest thing is {}", next.name())),
        DriftKind::Gone(None) => Some("it has no successor".into()),
        DriftKind::Moved(path) => {
            let live = case.snapshot.settings.get(*path);
            live.map(|value| format!("{path} is {}, the line asks for {}", value.trim(), drift.setting.value))
        }
        DriftKind::Translated(_) => {
            let default = Knob::named("base_slice_ns")?.forms(None).last()?.default_with(case.online.len())?;
            Some(format!(
                "the default of base_slice_ns here is {default} ns, the profile asks for {}",
                drift.setting.value
            ))
        }
        _ => None,
    }
}

fn consequence(drift: &Drift<'_>) -> String {
    match &drift.kind {
        DriftKind::Unknown | DriftKind::Gone(_) | DriftKind::Moved(_) => {
            "The line does nothing and the default is in force; only a message at boot says so.".into()
        }
        DriftKind::Redefined(meaning) => format!("There: {meaning}"),
        DriftKind::NotInForce(_) => "Something changed it after the files were read, or it was refused.".into(),
        DriftKind::Translated(_) => {
            "A minimum granularity of CFS becomes a slice of EEVDF: tasks that wake wait behind slices several times the default."
                .into()
        }
    }
}

fn cure(case: &AuditInput<'_>, drift: &Drift<'_>) -> Option<Fix> {
    let value = drift.setting.value.trim();
    let is_number = value.chars().all(|c| c.is_ascii_digit() || c == '-') && !value.is_empty();
    match &drift.kind {
        DriftKind::Moved(path) if is_number && path.starts_with("/sys/kernel/debug") => Fix::of(
            FixNotes {
                text: "Write it where it is now, at each boot: from a unit, or with TuneD 2.16 or later ([scheduler]).",
                risk: "debugfs needs root, and a kernel that is not locked down (Secure Boot).",
                valid_on: "kernels that have it there",
            },
            vec![fix::setting(case.snapshot, path, value)],
        ),
        DriftKind::Unknown | DriftKind::Gone(_) | DriftKind::Moved(_) => Some(Fix::advice(FixNotes {
            text: "Take the line out, so that nobody believes in it; measure whether its effect is missed.",
            risk: "It is still needed where the same file serves older kernels.",
            valid_on: "all kernels",
        })),
        DriftKind::Translated(to) => Some(Fix::advice(FixNotes {
            text: &format!("Set {to} itself in the profile, to its default or to what was measured."),
            risk: "",
            valid_on: "TuneD 2.25 and later on 6.6 and later",
        })),
        _ => None,
    }
}

fn upgrade(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let Some(version) = after.facts.version() else { return Vec::new() };
    // Settings that are gone or moved are found on the previewed host as on any other.
    let mut written = drifts(before.snapshot, Some(version));
    written.retain(|drift| matches!(drift.kind, DriftKind::Redefined(_)));
    let written = by_meaning(written).into_iter().map(|drifts| hit(before, &drifts, Some(after)));
    written.chain(unwritten(before.snapshot, after, version)).collect()
}

/// Settings that no file sets: those whose default changes, and those changed by hand.
fn unwritten(now: &Snapshot, after: &AuditInput<'_>, version: Version) -> Vec<Hit> {
    let facts = Facts::of_host(now);
    let Some(current) = facts.version() else { return Vec::new() };
    let cpus = after.online.len();
    let mut found = Vec::new();
    for knob in Knob::all() {
        let form = |version| knob.at(version, facts.distribution()).and_then(Presence::form);
        let (Some(old), Some(new)) = (form(current), form(version)) else { continue };
        let Some(live) = now.settings.get(old.path()).map(|text| text.trim()) else { continue };
        let (Some(was), Some(will)) = (old.default_with(cpus), new.default_with(cpus)) else { continue };
        let is_written = now.configured.iter().any(|setting| setting.key.ends_with(knob.name()));
        // The rule `autogroup` says more about it.
        if is_written || knob.name() == "sched_autogroup_enabled" {
            continue;
        }
        // If a default scales other than logarithmically, nothing can be concluded.
        if live == was && was != will {
            found.push(redefaulted(knob, &was, &will, new.unit(), after));
        } else if live != was && !old.is_scaled() {
            found.push(by_hand(knob, live, &was, old.path()));
        }
    }
    found
}

fn redefaulted(knob: Knob, was: &str, will: &str, unit: &str, after: &AuditInput<'_>) -> Hit {
    let unit = if ["ns", "us", "ms", "MB", "MB/s"].contains(&unit) { format!(" {unit}") } else { String::new() };
    Draft::new(RULE.id, Severity::Info, format!("default of {}", knob.name()))
        .says(format!("The default of {} goes from {was} to {will}{unit} with {}.", knob.name(), after.facts.name()))
        .because("it has its default now, and no file sets it")
        .would("It changes with that kernel.")
        .done()
}

fn by_hand(knob: Knob, live: &str, was: &str, path: &str) -> Hit {
    let key = knob.name();
    let about =
        FixNotes { text: "Write it down if it is wanted.", risk: "", valid_on: "kernels that have it as a sysctl" };
    let persistent = path.starts_with("/proc/sys/kernel/").then(|| Fix::kept(about, path, live)).flatten();
    Draft::new(RULE.id, Severity::Info, format!("{key} by hand"))
        .says(format!(
            "{key} is {live}, its default {was}, and no file that was read sets it: the reboot takes it away."
        ))
        .because(format!("{path} is {live}"))
        .would("After the reboot the default is in force.")
        .fix(persistent)
        .done()
}
