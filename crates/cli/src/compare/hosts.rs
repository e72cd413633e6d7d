//! Compares two snapshots: findings of `check` on only one host, and settings that differ.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_check::{Hit, audit};
use unstarve_term::hosts_page;

use super::Form;
use crate::knobs::diff::{Difference, between_hosts, page};
use crate::output::Out;
use crate::snapshot;

#[derive(Serialize, JsonSchema)]
pub struct Hosts {
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
        Form::Page { look, .. } => {
            hosts_page(&hosts.appeared, &hosts.vanished, hosts.stays) + "\n" + &page(&hosts.settings, *look)
        }
    };
    Out::new().text(&text)?;
    let differs = !hosts.appeared.is_empty() || !hosts.vanished.is_empty() || hosts.settings.has_changes();
    Ok(if differs { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
