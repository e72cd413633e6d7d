//! Two snapshots: what `check` finds on one and not on the other, and settings that differ.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use unstarve_check::{Hit, audit};
use unstarve_model::clean;

use super::Form;
use crate::knobs::diff::{Difference, between_hosts, page};
use crate::output::Out;
use crate::snapshot;

#[derive(Serialize)]
struct Hosts {
    schema: &'static str,
    /// What `check` finds in B and not in A.
    appeared: Vec<Hit>,
    /// What it finds in A and not in B.
    vanished: Vec<Hit>,
    /// What it finds in both.
    stays: usize,
    settings: Difference,
}

pub fn run(a: &Path, b: &Path, form: &Form) -> Result<ExitCode> {
    let (a, b) = (snapshot::read(a)?, snapshot::read(b)?);
    let (before, after) = (audit(&a).hits, audit(&b).hits);
    let same = |one: &Hit, other: &Hit| one.rule == other.rule && one.subject == other.subject;
    let only = |these: &[Hit], others: &[Hit]| -> Vec<Hit> {
        these.iter().filter(|hit| !others.iter().any(|other| same(hit, other))).cloned().collect()
    };
    let hosts = Hosts {
        schema: "unstarve.compare-hosts/1",
        appeared: only(&after, &before),
        vanished: only(&before, &after),
        stays: after.iter().filter(|hit| before.iter().any(|other| same(hit, other))).count(),
        settings: between_hosts(&a, &b),
    };
    let text = match form {
        Form::Json => serde_json::to_string_pretty(&hosts)? + "\n",
        Form::Page { look, .. } => findings(&hosts) + "\n" + &page(&hosts.settings, *look),
    };
    Out::new().text(&text)?;
    let differs = !hosts.appeared.is_empty() || !hosts.vanished.is_empty() || hosts.settings.has_changes();
    Ok(if differs { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn findings(hosts: &Hosts) -> String {
    let mut text = String::new();
    for (title, hits) in [("New in B", &hosts.appeared), ("Gone in B", &hosts.vanished)] {
        if !hits.is_empty() {
            text += &format!("{title}\n");
        }
        for hit in hits {
            text += &format!("  {:<8} {:<26} {}\n", hit.severity.word(), hit.rule, clean(&hit.sentence));
        }
    }
    match hosts.stays {
        0 => {}
        1 => text += "On both: 1 finding (unstarve check)\n",
        count => text += &format!("On both: {count} findings (unstarve check)\n"),
    }
    if text.is_empty() { "unstarve check finds nothing on either.\n".to_owned() } else { text }
}
