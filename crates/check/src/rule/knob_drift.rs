//! Rule `knob-drift`: configured settings without effect, now or after an upgrade.

use std::collections::BTreeMap;

use unstarve_change::{Change, FeatureState as Set};
use unstarve_facts::{
    Configured, ConfiguredBy, Drift, DriftKind, FEATURES, Facts, FeatureState, Form, Knob, Presence, Snapshot, Version,
    drifts, feature_at,
};
use unstarve_model::Nanos;

use super::Rule;
use crate::case::AuditInput;
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::part::{Kind, OnHost};

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
        .brief(brief(drift, default_of(&then.unwrap_or(case).facts, "base_slice_ns", case.online.len())))
        .kind(kind(&drift.kind), OnHost::Has)
        .setting(name, drift.setting.value.trim(), later(&drift.kind))
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

fn kind(drift: &DriftKind) -> Kind {
    match drift {
        DriftKind::Gone(_) | DriftKind::Unknown => Kind::Gone,
        DriftKind::Moved(_) => Kind::Moved,
        DriftKind::Redefined(_) => Kind::Redefined,
        DriftKind::Translated(_) => Kind::Renamed,
        DriftKind::NotInForce(_) => Kind::Problem,
    }
}

fn later(drift: &DriftKind) -> Option<&str> {
    match drift {
        DriftKind::NotInForce(live) => Some(live),
        _ => None,
    }
}

/// `10000000 (10.0 ms)`.
fn shown(value: &str, unit: &str) -> String {
    match (unit, value.trim().parse::<u64>()) {
        ("ns", Ok(ns)) => format!("{} ({})", value.trim(), Nanos(ns)),
        _ => value.trim().to_owned(),
    }
}

fn brief(drift: &Drift<'_>, base_slice: Option<String>) -> String {
    let knob = Knob::named(&drift.name);
    let unit = knob.and_then(|knob| knob.rows().last()).map_or("", Form::unit);
    let value = shown(&drift.setting.value, unit);
    let default = base_slice.map_or(String::new(), |default| format!(", {} by default", shown(&default, "ns")));
    match &drift.kind {
        DriftKind::Unknown => format!("{value} is set, but the kernel has no such setting"),
        DriftKind::Gone(next) => match (knob.and_then(Knob::renamed_to), next) {
            (Some(new), _) => format!("{value} here; gone, now {}{default}", new.name()),
            (None, Some(next)) => format!("{value} here; gone; nearest is {}", next.name()),
            (None, None) => format!("{value} here; gone, nothing replaces it"),
        },
        DriftKind::Moved(path) => format!("{value} here; moves to {path}"),
        DriftKind::Redefined(meaning) => {
            let meaning = meaning.split(['.', ';']).next().unwrap_or(meaning);
            format!("{value} here; means something else: {meaning}")
        }
        DriftKind::NotInForce(live) => format!("{value} in the file, {live} in force"),
        DriftKind::Translated(to) => format!("{value} by TuneD, which writes it to {to}"),
    }
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
        DriftKind::Gone(_) if is_number && renamed(drift).is_some() => {
            let default = default_of(&case.facts, "base_slice_ns", case.online.len());
            let default = default.map_or(String::new(), |default| format!(" The default here is {default}."));
            Fix::of(
                FixNotes {
                    text: &format!("Set base_slice_ns instead, at each boot from a unit.{default}"),
                    risk: "A slice several times the default makes woken tasks wait that long: measure it first.",
                    valid_on: "6.6 and later",
                },
                vec![fix::setting(case.snapshot, renamed(drift)?.path(), value)],
            )
        }
        DriftKind::Unknown | DriftKind::Gone(_) | DriftKind::Moved(_) => Some(Fix::advice(FixNotes {
            text: "Remove the line, and measure whether its effect is missed.",
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

/// The form of the setting of another name that takes the number.
fn renamed(drift: &Drift<'_>) -> Option<Form> {
    Knob::named(&drift.name)?.renamed_to()?.rows().last()
}

fn upgrade(before: &AuditInput<'_>, after: &AuditInput<'_>) -> Vec<Hit> {
    let Some(version) = after.facts.version() else { return Vec::new() };
    // Settings that are gone or moved are found on the previewed host as on any other.
    let mut written = drifts(before.snapshot, Some(version));
    written.retain(|drift| matches!(drift.kind, DriftKind::Redefined(_)));
    let written = by_meaning(written).into_iter().map(|drifts| hit(before, &drifts, Some(after)));
    written.chain(unwritten(before.snapshot, after, version)).chain(features(before, version)).collect()
}

/// Settings that no file sets: those whose default changes, and those changed by hand.
fn unwritten(now: &Snapshot, after: &AuditInput<'_>, version: Version) -> Vec<Hit> {
    let facts = Facts::of_host(now);
    let Some(current) = facts.version() else { return Vec::new() };
    let cpus = after.online.len();
    let mut found = Vec::new();
    for knob in Knob::all() {
        let form = |version| knob.at(version, facts.distribution()).and_then(Presence::form);
        let Some(old) = form(current) else { continue };
        let Some(live) = now.settings.get(old.path()).map(|text| text.trim()) else { continue };
        let Some(was) = old.default_with(cpus) else { continue };
        let is_written = now.configured.iter().any(|setting| setting.key.ends_with(knob.name()));
        // The rule `autogroup` says more about it.
        if is_written || knob.name() == "sched_autogroup_enabled" {
            continue;
        }
        let will = form(version).and_then(|new| Some((new.default_with(cpus)?, new.unit())));
        // If a default scales other than logarithmically, nothing can be concluded.
        let is_logarithmic = || now.setting("sched_tunable_scaling").is_some_and(|(_, mode)| mode.trim() == "1");
        // Parameters of modules come from the boot line, or the kernel calculates them.
        let is_by_hand = live != was && old.kind() != "module" && (!old.is_scaled() || is_logarithmic());
        match (knob.at(version, facts.distribution()), will) {
            (_, Some((will, unit))) if live == was && was != will => {
                found.push(redefaulted(knob, &was, &will, unit, after));
            }
            // The default of the kernel that is booted next.
            (_, Some((will, _))) if is_by_hand && live != will => {
                found.push(by_hand(knob, live, &was, &will, old.path()))
            }
            (Some(Presence::Gone(_) | Presence::NotYet(_)), None) if is_by_hand => {
                found.push(gone_by_hand(knob, live, old, after));
            }
            _ => {}
        }
    }
    found
}

fn redefaulted(knob: Knob, was: &str, will: &str, unit: &str, after: &AuditInput<'_>) -> Hit {
    let unit = if ["ns", "us", "ms", "MB", "MB/s"].contains(&unit) { format!(" {unit}") } else { String::new() };
    Draft::new(RULE.id, Severity::Info, format!("default of {}", knob.name()))
        .says(format!("The default of {} goes from {was} to {will}{unit} with {}.", knob.name(), after.facts.name()))
        .brief(format!("{was} → {will}{unit}"))
        .kind(Kind::Default, OnHost::Default)
        .setting(knob.name(), was, Some(will))
        .because("it has its default now, and no file sets it")
        .done()
}

fn by_hand(knob: Knob, live: &str, was: &str, will: &str, path: &str) -> Hit {
    let key = knob.name();
    let about =
        FixNotes { text: "Write it down if it is wanted.", risk: "", valid_on: "kernels that have it as a sysctl" };
    let persistent = path.starts_with("/proc/sys/kernel/").then(|| Fix::kept(about, path, live)).flatten();
    Draft::new(RULE.id, Severity::Info, format!("{key} by hand"))
        .says(format!("{key} is {live}, its default {was}, and no file that was read sets it: the reboot loses it."))
        .brief(format!("{live} now, {will} after the reboot"))
        .kind(Kind::Lost, OnHost::Has)
        .setting(key, live, Some(will))
        .because(format!("{path} is {live}"))
        .would("After the reboot the default is in force.")
        .fix(persistent)
        .done()
}

fn gone_by_hand(knob: Knob, live: &str, old: Form, after: &AuditInput<'_>) -> Hit {
    let drift_brief = match (knob.renamed_to(), old.successor()) {
        (Some(new), _) => format!("gone, now {}", new.name()),
        (None, Some(next)) => format!("gone; nearest is {}", next.name()),
        (None, None) => "gone, nothing replaces it".to_owned(),
    };
    Draft::new(RULE.id, Severity::Warning, knob.name())
        .says(format!(
            "{} is {live} and no file that was read sets it; {} does not have it.",
            knob.name(),
            after.facts.name()
        ))
        .brief(format!("{} set by hand; {drift_brief}", shown(live, old.unit())))
        .kind(Kind::Gone, OnHost::Has)
        .setting(knob.name(), live, None)
        .because(format!("{} is {live}", old.path()))
        .would("The default of the other kernel is in force.")
        .done()
}

/// Feature bits that differ from their default: the reboot loses them, or the other kernel does not have them.
fn features(before: &AuditInput<'_>, version: Version) -> Vec<Hit> {
    let (Some(current), Some(features)) = (before.facts.version(), &before.snapshot.features) else {
        return Vec::new();
    };
    let rows = FEATURES.rows().filter(|row| row.is_stated());
    let found = rows.filter_map(|row| {
        let name = row.name().split([' ', '(']).next()?;
        let live = *features.get(name)?;
        let state = |on: bool| if on { "on" } else { "off" };
        let default = match feature_at(row, current) {
            FeatureState::On => true,
            FeatureState::Off => false,
            _ => return None,
        };
        let later = match feature_at(row, version) {
            FeatureState::On => Some(true),
            FeatureState::Off => Some(false),
            FeatureState::Absent => None,
            FeatureState::Depends(_) | FeatureState::Unknown(_) => return None,
        };
        (live != default && later != Some(live)).then(|| {
            let is = state(live);
            let draft = Draft::new(RULE.id, Severity::Info, format!("feature {name}"));
            let draft = match later {
                None => draft
                    .says(format!("The feature {name} was turned {is} here; Linux {version} does not have it."))
                    .brief(format!("turned {is} here; gone"))
                    .kind(Kind::Gone, OnHost::Has),
                Some(later) => draft
                    .says(format!("The feature {name} was turned {is} here; after the reboot it is {}.", state(later)))
                    .brief(format!("turned {is} here, {} after the reboot", state(later)))
                    .kind(Kind::Lost, OnHost::Has)
                    .fix(Fix::of(
                        FixNotes { text: "Turn it again, at each boot from a unit.", risk: "", valid_on: "debugfs" },
                        vec![
                            Change::feature(name, Set::from(live))
                                .from(unstarve_change::Value::content(Set::from(later).word(name))),
                        ],
                    )),
            };
            draft.setting(name, is, later.map(state)).because("its default on this kernel differs").done()
        })
    });
    found.collect()
}
