use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_guard::host::ThisHost;
use unstarve_guard::state::State;
use unstarve_guard::survey::Survey;
use unstarve_guard::verify::{self, By, Fared, Measured, Verdict};
use unstarve_guard::{Policy, act};
use unstarve_model::Nanos;
use unstarve_report::clean;

use super::{PolicyArgs, StateArgs, rights};
use crate::output::Out;

/// Measure the waits of the tasks meant, apply the policy, measure again, and take back the rules that did not help
#[derive(Args)]
#[command(
    after_help = "Run it while the load that suffers runs. It works on the tasks that are there: what is born later is measured, but
not changed. Without --keep everything is taken back at the end, so that `guard run` can begin.
Exit code: 0 if every rule helped, 1 if one did not or cannot be judged."
)]
pub struct VerifyArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    state: StateArgs,
    /// How long to measure each side: 10s, 2m
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: Duration,
    /// Leave the rules that helped in place (`unstarve guard undo` takes them back)
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

const STEP: Duration = Duration::from_millis(500);

pub fn run(args: &VerifyArgs) -> Result<ExitCode> {
    let policy = args.policy.load()?;
    rights::require(&policy)?;
    let mut audit = args.state.audit()?;
    let mut state = State::lock(&args.state.state, "guard verify")?;
    let time = args.time;
    super::plan::warn(&policy);
    Survey::take(&policy, Vec::new()).context("the tasks of this machine")?.crowd.check()?;
    let watch = || verify::watch(&policy, time, STEP).context("the tasks of this machine");
    let before = watch()?;
    let survey = Survey::take(&policy, Vec::new()).context("the tasks of this machine")?;
    let mut changes = survey.changes(&policy);
    if !changes.is_empty() {
        act::apply(&mut ThisHost, &mut state.journal()?, &mut audit, &mut changes)?;
    }
    // A failed measurement must not leave anything changed.
    let after = match watch() {
        Ok(after) => after,
        Err(error) => {
            state.undo(&mut ThisHost, &mut audit)?;
            return Err(error);
        }
    };
    let verdicts: Vec<Verdict> =
        before.rules.iter().zip(&after.rules).map(|(before, after)| verify::judge(before, after)).collect();
    let useless = |rule: &str| {
        policy.rules.iter().zip(&verdicts).any(|(other, verdict)| other.name == rule && *verdict != Verdict::Helped)
    };
    if args.keep {
        let open = state.contents()?.open;
        let taken: Vec<_> = open.into_iter().filter(|change| useless(&change.rule)).collect();
        act::undo(&mut ThisHost, &mut state.journal()?, &mut audit, &taken);
    } else {
        state.undo(&mut ThisHost, &mut audit)?;
    }
    audit.flush();
    let judged = Judged { policy: &policy, before: &before, after: &after, verdicts: &verdicts };
    let page = if args.json { judged.json()? } else { judged.text(args.keep) };
    Out::new().text(&page)?;
    Ok(ExitCode::from(u8::from(verdicts.iter().any(|verdict| *verdict != Verdict::Helped))))
}

/// What came of each rule.
struct Judged<'a> {
    policy: &'a Policy,
    before: &'a Measured,
    after: &'a Measured,
    verdicts: &'a [Verdict],
}

impl Judged<'_> {
    fn json(&self) -> Result<String> {
        let rules: Vec<_> = (self.policy.rules.iter().zip(self.verdicts).enumerate())
            .map(|(index, (rule, verdict))| {
                let (before, after) = (&self.before.rules[index], &self.after.rules[index]);
                serde_json::json!({ "rule": rule.name, "place": rule.place, "before": before, "after": after, "verdict": verdict })
            })
            .collect();
        let page = serde_json::json!({
            "schema": "unstarve.guard-verify/1", "measured": self.after.by, "rules": rules,
        });
        Ok(serde_json::to_string_pretty(&page)? + "\n")
    }

    fn text(&self, keep: bool) -> String {
        let mut page = String::new();
        for (index, rule) in self.policy.rules.iter().enumerate() {
            let _ = writeln!(page, "{} ({})", clean(&rule.name), clean(&rule.place));
            let (before, after) = (&self.before.rules[index], &self.after.rules[index]);
            let _ = writeln!(page, "  before: {}\n  after:  {}", side(before), side(after));
            let verdict = match (self.verdicts[index], keep) {
                (Verdict::Helped, true) => "helped; left in place",
                (Verdict::Helped, false) => "helped; taken back, as everything",
                (Verdict::DidNotHelp, _) => "did not help (by a tenth); taken back",
                (Verdict::Unknown, _) => "cannot be judged: none of its tasks ran on one side; taken back",
            };
            let _ = writeln!(page, "  {verdict}");
        }
        if let By::Schedstat { reason } = &self.after.by {
            let _ = writeln!(page, "measured by /proc/PID/schedstat, which knows no single waits: {}", clean(reason));
        }
        page
    }
}

fn side(fared: &Fared) -> String {
    let ratio = fared.wait_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.3} s"));
    let mut side = format!(
        "{} tasks ran {} and waited {}: {ratio} of waiting for each second of running",
        fared.tasks,
        Nanos(fared.ran_ns),
        Nanos(fared.waited_ns)
    );
    if let Some(waits) = fared.waits {
        let (p50, p99, max) = (Nanos(waits.p50_ns), Nanos(waits.p99_ns), Nanos(waits.max_ns));
        let _ = write!(side, "\n          {} waits: median {p50}, 99th percentile {p99}, longest {max}", waits.count);
    }
    side
}
