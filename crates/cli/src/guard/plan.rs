//! `unstarve guard plan`: what a policy would change.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::Value;
use unstarve_guard::decide::NoteKind;
use unstarve_guard::survey::Survey;
use unstarve_guard::{Policy, Remark, Task, Users};
use unstarve_term::clean;
use unstarve_term::guard::{note_text, owner_text, plan_page, starter_text};

use super::PolicyArgs;
use crate::output::{self, Out};

/// Show which tasks would change, from what to what, and why, and which rules have no effect; change nothing
#[derive(Args)]
pub struct PlanArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints warnings about the policy's rules to standard error.
pub(super) fn warn(policy: &Policy) {
    for rule in &policy.rules {
        for remark in rule.remarks().iter().filter(|remark| remark.is_warning()) {
            output::remark(&format!("{}: rule `{}`: {remark}", clean(&rule.place), clean(&rule.name)));
        }
    }
}

/// Prints to standard error what the policy asks for and will not get: each refusal of a rule once, with the number of
/// tasks, and settings that this host lacks.
pub(super) fn warn_of_refusals(policy: &Policy, survey: &Survey) {
    let mut refused: BTreeMap<(usize, String), (usize, &Task)> = BTreeMap::new();
    for (task, plan) in &survey.tasks {
        for note in plan.notes.iter().filter(|note| matches!(note.kind, NoteKind::Refused(_))) {
            refused.entry((note.rule, note_text(policy, note))).or_insert((0, task)).0 += 1;
        }
    }
    for ((rule, why), (count, task)) in refused {
        let rule = &policy.rules[rule];
        let who = format!("{}[{}]", clean(&task.comm), task.key.tid);
        let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        output::remark(&format!("{}: rule `{}`: {who}{more}: {why}", rule.place, rule.name));
    }
    for starter in &survey.starters {
        let rule = &policy.rules[starter.rule];
        let text = starter_text(&Users::of_this_machine(), starter);
        output::remark(&format!("{}: rule `{}`: {text}", clean(&rule.place), clean(&rule.name)));
    }
    for absent in &survey.absent {
        output::remark(&format!("{}: not here: {}", policy.settings[absent.setting].name, absent.reason));
    }
}

pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    let policy = args.policy.look_at()?;
    let survey = Survey::take(&policy, Vec::new()).context("the tasks of this machine")?;
    let out = Out::new();
    if args.json {
        let mut text = serde_json::to_string_pretty(&report(&policy, &survey))?;
        text.push('\n');
        out.text(&text)?;
    } else {
        out.text(&plan_page(&policy, &survey, &Users::of_this_machine()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `unstarve.guard-plan/1`; additions only.
#[derive(Serialize, JsonSchema)]
pub struct GuardPlan<'a> {
    schema: &'static str,
    looked_at: usize,
    tasks: Vec<TaskReport<'a>>,
    settings: Vec<SettingReport<'a>>,
    rules: Vec<RuleReport<'a>>,
    programs: usize,
    programs_realtime: usize,
    /// Programs that the policy raises and that have children of other users.
    starters: Vec<StarterReport<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct StarterReport<'a> {
    rule: &'a str,
    pid: u32,
    comm: &'a str,
    child: u32,
    child_comm: &'a str,
    child_uid: u32,
}

#[derive(Serialize, JsonSchema)]
struct RuleReport<'a> {
    rule: &'a str,
    place: &'a str,
    kind_implied: bool,
    remarks: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct TaskReport<'a> {
    tid: u32,
    start: u64,
    comm: &'a str,
    kind: unstarve_guard::Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective_uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    changes: Vec<ChangeReport<'a>>,
    notes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct ChangeReport<'a> {
    rule: &'a str,
    old: &'a Value,
    new: &'a Value,
}

#[derive(Serialize, JsonSchema)]
struct SettingReport<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<&'a str>,
}

fn report<'a>(policy: &'a Policy, survey: &'a Survey) -> GuardPlan<'a> {
    let found = survey.settings.iter().map(|found| SettingReport {
        name: &policy.settings[found.setting].name,
        target: Some(found.target.to_string()),
        old: Some(&found.old),
        new: Some(&found.new),
        absent: None,
    });
    let absent = survey.absent.iter().map(|absent| SettingReport {
        name: &policy.settings[absent.setting].name,
        target: None,
        old: None,
        new: None,
        absent: Some(&absent.reason),
    });
    let users = Users::of_this_machine();
    let rules = policy.rules.iter().map(|rule| RuleReport {
        rule: &rule.name,
        place: &rule.place,
        kind_implied: rule.implied_kthread,
        remarks: rule.remarks().iter().map(Remark::to_string).collect(),
    });
    let tasks = survey.tasks.iter().map(|(task, plan)| TaskReport {
        tid: task.key.tid.0,
        start: task.key.start,
        comm: &task.comm,
        kind: task.kind,
        uid: task.owner.map(|owner| owner.real.0),
        effective_uid: task.owner.map(|owner| owner.effective.0),
        user: task.owner.map(|owner| owner_text(&users, owner)),
        changes: plan
            .changes
            .iter()
            .map(|planned| ChangeReport {
                rule: &policy.rules[planned.rule].name,
                old: &planned.old,
                new: &planned.new,
            })
            .collect(),
        notes: plan.notes.iter().map(|note| note_text(policy, note)).collect(),
    });
    let starters = survey.starters.iter().map(|starter| StarterReport {
        rule: &policy.rules[starter.rule].name,
        pid: starter.program.0.0,
        comm: &starter.program.1,
        child: starter.child.0.0,
        child_comm: &starter.child.1,
        child_uid: starter.owner.real.0,
    });
    GuardPlan {
        schema: "unstarve.guard-plan/1",
        looked_at: survey.looked_at,
        tasks: tasks.collect(),
        settings: found.chain(absent).collect(),
        rules: rules.collect(),
        programs: survey.crowd.programs,
        programs_realtime: survey.crowd.realtime,
        starters: starters.collect(),
    }
}
