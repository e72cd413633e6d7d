//! `unstarve guard verify`: measures whether a policy's rules help.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_guard::Policy;
use unstarve_guard::run;
use unstarve_guard::survey::Survey;
use unstarve_guard::verify::{self, By, Fared, Figures, Keep, Outcome, Trial, Verdict};
use unstarve_term::guard::verify_page;

use super::{PolicyArgs, StateArgs, rights};
use crate::output::{self, Out};

/// Measure the waits of the selected tasks without the policy, with it, and without it again; report which rules helped
#[derive(Args)]
#[command(
    after_help = "Run it while the affected load runs. The measurement with the policy works like `guard run`: new tasks are changed, too, real-time tasks have a budget, and a dead-man process stands by. SIGTERM, SIGINT and SIGHUP restore everything.
With --keep, the rules that helped are applied once at the end, as by `guard apply --once`. No process watches them afterwards.
Exit code: 0 if every rule helped, 1 if one did not or cannot be judged, 2 if it could not run."
)]
pub struct VerifyArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    state: StateArgs,
    /// How long each of the three measurements takes: 10s, 2m
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: Duration,
    /// Keep the changes of the rules that helped (`unstarve guard undo` reverts them)
    #[arg(long)]
    keep: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = crate::record::parse_time(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("it must be between 1s and 1h".to_owned()),
    }
}

const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

pub fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let policy = args.policy.load()?;
    rights::require(&policy)?;
    let audit = args.state.audit()?;
    super::plan::warn(&policy);
    Survey::take(&policy, Vec::new()).context("the tasks of this machine")?.crowd.check()?;
    let options = run::Options {
        policy_path: args.policy.policy.clone(),
        state: args.state.state.clone(),
        metrics: None,
        source: None,
        dead_man: super::run::dead_man_command(&args.state, policy.limits.dead_man)?,
        end: run::on_signals(&[SIGTERM, SIGINT, SIGHUP]).context("signals")?,
        time: None,
        say: Box::new(output::remark),
    };
    let keep = if args.keep { Keep::WhatHelped } else { Keep::Nothing };
    let trial = Trial { time: args.time, step: PROGRESS_INTERVAL, keep };
    let outcome = verify::run(policy.clone(), options, audit, trial)?;
    super::warn_of_race(&outcome.undone);
    let page = if args.json { json(&policy, &outcome)? } else { verify_page(&policy, &outcome, keep) };
    Out::new().text(&page)?;
    Ok(ExitCode::from(u8::from(outcome.judged.iter().any(|judged| judged.verdict != Verdict::Helped))))
}

/// `unstarve.guard-verify/1`; additions only.
#[derive(Serialize, JsonSchema)]
pub struct GuardVerified<'a> {
    schema: &'static str,
    measured: &'a By,
    rules: Vec<VerifiedRule<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct VerifiedRule<'a> {
    rule: &'a str,
    /// Where it is in the policy.
    place: &'a str,
    /// Without the rule.
    before: &'a Fared,
    /// With it.
    after: &'a Fared,
    /// Without it again.
    again: &'a Fared,
    verdict: Verdict,
    reason: String,
    /// The figures that decided against it.
    decided_by: Option<Figures>,
}

/// The outcome as JSON.
fn json(policy: &Policy, outcome: &Outcome) -> Result<String> {
    let Outcome { before, with, again, judged, .. } = outcome;
    let rules = policy.rules.iter().zip(judged).enumerate().map(|(index, (rule, judged))| VerifiedRule {
        rule: &rule.name,
        place: &rule.place,
        before: &before.rules[index],
        after: &with.rules[index],
        again: &again.rules[index],
        verdict: judged.verdict,
        reason: judged.reason.to_string(),
        decided_by: judged.reason.figures(),
    });
    let (schema, measured) = ("unstarve.guard-verify/1", &with.by);
    output::sorted_json(&GuardVerified { schema, measured, rules: rules.collect() })
}
