//! Runs all rules on a host's snapshot.

use serde::{Deserialize, Serialize};
use unstarve_facts::{LabComparison, Missing, Snapshot, Version};
use unstarve_model::clean;

use crate::case::AuditInput;
use crate::direction::is_older;
use crate::hit::{Hit, Severity, When};
use crate::rule::{RULES, Rule};

/// The result of an audit: JSON with the schema id [`Audit::SCHEMA`]. Later versions only add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Audit {
    /// The schema id.
    pub schema: String,
    /// The host.
    pub host: Host,
    /// For an upgrade preview: the version of the running kernel, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_from: Option<String>,
    /// The kernel of the upgrade preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_to: Option<String>,
    /// Whether that kernel is older than the running one: the preview is of a downgrade.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_downgrade: bool,
    /// What guests with both kernels showed in the lab's scenarios, where such were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabComparison>,
    /// What the rules found, worst first.
    pub hits: Vec<Hit>,
    /// The ids of the rules that ran.
    pub rules: Vec<String>,
    /// Missing parts of the snapshot, because of which rules may have missed something.
    pub missing: Vec<Missing>,
}

/// The host in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Host {
    /// `uname -r`.
    pub kernel: Option<String>,
    /// The number of CPUs in use.
    pub cpus: Option<usize>,
    /// The number of threads seen.
    pub threads: usize,
    /// How many of them are real-time and not kernel threads.
    pub real_time: usize,
}

impl Audit {
    /// The schema id of the JSON.
    pub const SCHEMA: &str = "unstarve.check/1";

    /// Whether anything is at least this severe.
    pub fn reaches(&self, severity: Severity) -> bool {
        self.hits.iter().any(|hit| hit.severity >= severity && hit.holds != Some(When::Now))
    }
}

/// Runs all rules on a host.
pub fn audit(snapshot: &Snapshot) -> Audit {
    let case = AuditInput::new(snapshot);
    let hits = hits(&case);
    report(snapshot, &case, hits, None)
}

/// Runs all rules on a host as it is and as it would be under another kernel, and the rules about the change itself.
/// Assumes that a reboot loses values set by hand, and that tasks, groups and interrupts stay the same.
pub fn audit_upgrade(snapshot: &Snapshot, version: Version) -> Audit {
    let projected = snapshot.under(version);
    let (before, after) = (AuditInput::new(snapshot), AuditInput::new(&projected));
    let mut now = hits(&before);
    let mut all = Vec::new();
    for mut hit in hits(&after) {
        let known = now.iter().position(|old| (&old.rule, &old.subject) == (&hit.rule, &hit.subject));
        hit.holds = Some(known.map_or(When::After, |index| {
            now.remove(index);
            When::Both
        }));
        all.push(hit);
    }
    all.extend(now.into_iter().map(|hit| Hit { holds: Some(When::Now), ..hit }));
    let changes = RULES.iter().filter_map(|rule| rule.upgrade).flat_map(|check| check(&before, &after));
    all.extend(changes.map(|hit| Hit { holds: Some(When::After), ..hit }));
    let mut audit = report(snapshot, &before, all, Some(version));
    if version.is_unread() {
        let why = format!("the rules know kernels up to {}; what changed after it is not known", Version::NEWEST_READ);
        audit.missing.insert(0, Missing { what: format!("Linux {version}"), why });
    }
    audit
}

fn report(snapshot: &Snapshot, case: &AuditInput<'_>, mut hits: Vec<Hit>, upgrade: Option<Version>) -> Audit {
    sort(&mut hits);
    Audit {
        schema: Audit::SCHEMA.to_owned(),
        host: Host {
            kernel: snapshot.kernel.release.as_deref().map(|text| clean(text).into_owned()),
            cpus: snapshot.cpus.online.as_ref().map(unstarve_model::CpuSet::len),
            threads: snapshot.tasks.len(),
            real_time: case.real_time.iter().map(|group| group.tasks.len()).sum(),
        },
        upgrade_from: upgrade.and(Version::of(&snapshot.kernel)).map(|version| version.to_string()),
        upgrade_to: upgrade.map(|version| version.to_string()),
        is_downgrade: upgrade.zip(Version::of(&snapshot.kernel)).is_some_and(|(to, from)| is_older(to, from)),
        lab: upgrade.and_then(|to| LabComparison::of(&snapshot.kernel, to)),
        hits,
        rules: RULES.iter().map(|rule| rule.id.to_owned()).collect(),
        missing: snapshot.missing.iter().map(cleaned).collect(),
    }
}

fn hits(case: &AuditInput<'_>) -> Vec<Hit> {
    RULES.iter().flat_map(|rule: &Rule| (rule.check)(case)).collect()
}

/// Hits that the upgrade ends come last; before them worst first, then in the order of the rules (stable sort).
fn sort(hits: &mut [Hit]) {
    hits.sort_by_key(|hit| (hit.holds == Some(When::Now), std::cmp::Reverse(hit.severity)));
}

fn cleaned(missing: &Missing) -> Missing {
    Missing { what: clean(&missing.what).into_owned(), why: clean(&missing.why).into_owned() }
}
