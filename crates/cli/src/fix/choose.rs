//! Chooses the remedy to carry out: by `--finding` and `--remedy`, else the first that can be applied here.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use unstarve_diagnose::RemedyKind;
use unstarve_diagnose::report::{Finding, Predicted, Remedy, RemedyId, Report};
use unstarve_executor::authority::Named;
use unstarve_executor::plan::{Answer, Ids, Look, Planned, answer, draft, obstacles, permit};
use unstarve_term::clean;
use unstarve_term::fix::Skipped;

use super::LowArgs;
use super::origin::Origin;
use crate::suggested::{find, similar};

/// A remedy of a finding, as indices into the report.
pub struct Choice<'a> {
    pub finding: usize,
    pub remedy: usize,
    /// Remedies before it that cannot be applied, and why.
    pub skipped: Vec<Skipped>,
    /// What it changes here, as far as the origin and the command line permit it.
    pub plan: Vec<Planned<'a>>,
    /// What a model says that it would do, if it was asked.
    pub predicted: Option<Predicted>,
}

/// Maximum skipped remedies listed.
const MAX_LISTED_SKIPPED: usize = 16;

impl Choice<'_> {
    pub fn finding<'r>(&self, report: &'r Report) -> &'r Finding {
        &report.findings[self.finding]
    }

    pub fn remedy<'r>(&self, report: &'r Report) -> &'r Remedy {
        &self.finding(report).remedies[self.remedy]
    }
}

/// Which remedy, and those that were passed over.
struct Pick {
    finding: usize,
    remedy: usize,
    skipped: Vec<Skipped>,
}

/// The drafts of a recording's remedies on this host. Each is made once, so that what is compared, shown and applied is the
/// same.
struct Drafts<'a, 'l, L> {
    look: &'l L,
    report: &'a Report,
    ids: Ids,
    made: BTreeMap<(usize, usize), Vec<Planned<'a>>>,
}

impl<'a, L: Look> Drafts<'a, '_, L> {
    fn of(&mut self, finding: usize, remedy: usize) -> Vec<Planned<'a>> {
        let (finding_id, it) = (&self.report.findings[finding].id, &self.report.findings[finding].remedies[remedy]);
        // The purpose is written to the journal.
        let make = || draft(self.look, &it.changes, &format!("{RULE}{} for {finding_id}", it.id), self.ids);
        self.made.entry((finding, remedy)).or_insert_with(make).clone()
    }

    fn permitted(&mut self, pick: &Pick, origin: &Origin, named: Named) -> Vec<Planned<'a>> {
        permit(self.look, self.of(pick.finding, pick.remedy), &origin.authority(named))
    }
}

/// Whether the form of `--as` can keep a remedy (its finding and itself, as indices).
pub type Keeps<'k> = dyn Fn(usize, usize) -> bool + 'k;

/// Prefix of the purpose in journal entries made by `fix`.
pub const RULE: &str = "fix: ";

/// The remedy asked for, else the first applicable remedy of the worst finding, else the first of all. A number alone
/// refers to the worst finding with an applicable remedy: the one that `fix` shows without a number.
///
/// Chooses none by itself from a recording that others could have written: they could have made the other remedies
/// inapplicable.
pub fn choose<'a, L: Look>(
    report: &'a Report,
    look: &L,
    origin: &Origin,
    args: &LowArgs,
    keeps: &Keeps<'_>,
) -> Result<Choice<'a>> {
    let mut drafts = Drafts { look, report, ids: origin.ids, made: BTreeMap::new() };
    let pick = pick(&mut drafts, origin, args, keeps)?;
    let plan = drafts.permitted(&pick, origin, args.named());
    Ok(Choice { finding: pick.finding, remedy: pick.remedy, skipped: pick.skipped, plan, predicted: None })
}

fn pick<L: Look>(drafts: &mut Drafts<'_, '_, L>, origin: &Origin, args: &LowArgs, keeps: &Keeps<'_>) -> Result<Pick> {
    let report = drafts.report;
    if let (Some(why), None, true) = (&origin.written.why, &args.remedy, args.apply || args.form.is_some()) {
        bail!(
            "{}, so {} could have written anything in it and chosen which remedy comes first: read the plan, and name the \
             remedy (--remedy N)",
            clean(why),
            origin.written.author
        );
    }
    let findings: Vec<usize> = match &args.finding {
        Some(asked) => {
            let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
            vec![find(asked, &ids, "finding", "this recording")?]
        }
        None => (0..report.findings.len()).collect(),
    };
    let Some(asked) = &args.remedy else { return best(drafts, origin, args, &findings, keeps) };
    if args.finding.is_none() && asked.parse::<usize>().is_err() {
        // The id may belong to a finding after the worst.
        let asked = RemedyId::from(asked.as_str());
        let has_it = |finding: usize| {
            let remedy = report.findings[finding].remedies.iter().position(|remedy| remedy.id == asked)?;
            Some(Pick { finding, remedy, skipped: Vec::new() })
        };
        let none = || {
            let ids = report.findings.iter().flat_map(|finding| &finding.remedies).map(|remedy| remedy.id.as_str());
            let similar = similar(asked.as_str(), ids).map(|id| format!(", but there is {}", clean(id)));
            anyhow!(
                "no finding of this recording has that remedy{}; `unstarve explain --full` lists them",
                similar.unwrap_or_default()
            )
        };
        return findings.into_iter().find_map(has_it).ok_or_else(none);
    }
    let finding = match findings.as_slice() {
        [only] => *only,
        _ => best(drafts, origin, args, &findings, keeps)?.finding,
    };
    let ids: Vec<&str> = report.findings[finding].remedies.iter().map(|remedy| remedy.id.as_str()).collect();
    let whose = format!("finding {} ({})", finding + 1, clean(report.findings[finding].id.as_str()));
    let remedy = find(asked, &ids, "remedy", &whose)?;
    Ok(Pick { finding, remedy, skipped: Vec::new() })
}

/// The first applicable remedy of the first of these findings, else the first of all.
fn best<L: Look>(
    drafts: &mut Drafts<'_, '_, L>,
    origin: &Origin,
    args: &LowArgs,
    findings: &[usize],
    keeps: &Keeps<'_>,
) -> Result<Pick> {
    let report = drafts.report;
    let remedies = |&finding: &usize| (0..report.findings[finding].remedies.len()).map(move |remedy| (finding, remedy));
    let candidates: Vec<(usize, usize)> = findings.iter().flat_map(remedies).collect();
    // On another host or boot, and with --as, nothing changes here: obstacles do not matter.
    let as_asked = origin.ids != Ids::Hold || args.form.is_some();
    if args.form.is_some()
        && let Some(&(finding, remedy)) = candidates.iter().find(|&&(finding, remedy)| {
            on_request(&report.findings[finding].remedies[remedy]).is_none() && keeps(finding, remedy)
        })
    {
        return Ok(Pick { finding, remedy, skipped: Vec::new() });
    }
    let mut skipped = Vec::new();
    for &(finding, remedy) in &candidates {
        let it = &report.findings[finding].remedies[remedy];
        let mut obstacle = || if as_asked { None } else { obstacle(drafts.of(finding, remedy), drafts.look, origin) };
        match on_request(it).or_else(&mut obstacle) {
            None => return Ok(Pick { finding, remedy, skipped }),
            Some(why) if skipped.len() < MAX_LISTED_SKIPPED => skipped.push(Skipped { finding, remedy, why }),
            Some(_) => {}
        }
    }
    // No remedy is applicable: the first is shown with its obstacles, and these follow it.
    let needs_no_request =
        |&&(finding, remedy): &&(usize, usize)| on_request(&report.findings[finding].remedies[remedy]).is_none();
    let Some(&(finding, remedy)) = candidates.iter().find(needs_no_request).or(candidates.first()) else {
        bail!("the findings of this recording have no remedies")
    };
    skipped.retain(|other| (other.finding, other.remedy) != (finding, remedy));
    Ok(Pick { finding, remedy, skipped })
}

/// Why the remedy needs an explicit request.
fn on_request(remedy: &Remedy) -> Option<String> {
    let why = RemedyKind::of_id(remedy.id.as_str())?.on_request?;
    Some(format!("{why}, so it is applied only if it is named (--remedy)"))
}

/// Why the remedy cannot be applied here, or should not be.
fn obstacle<L: Look>(draft: Vec<Planned<'_>>, look: &L, origin: &Origin) -> Option<String> {
    // A plan that is only shown lists the targets that must be named.
    let named = if origin.is_trusted() { Named::Nothing } else { Named::Everything };
    let plan = permit(look, draft, &origin.authority(named));
    match answer(&plan) {
        Answer::CanBeDone => None,
        Answer::IsSoAlready => Some("it is so already".to_owned()),
        Answer::NamesNothing => Some("it names nothing that a program could change".to_owned()),
        Answer::Obstructed => {
            let obstacles = obstacles(&plan);
            let (first, rest) = obstacles.split_first()?;
            let more = (!rest.is_empty()).then(|| unstarve_model::counted(rest.len() as u64, "obstacle"));
            Some(more.map_or_else(|| first.clone(), |more| format!("{first}, and {more} more")))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;
    use unstarve_change::{Change, Target, Thread, Value};
    use unstarve_executor::authority::Author;
    use unstarve_model::Tid;
    use unstarve_testing::fake_host::FakeHost;

    use super::*;
    use crate::input::Authorship;

    #[derive(Parser)]
    struct Fix {
        #[command(flatten)]
        args: LowArgs,
    }

    fn args(words: &[&str]) -> LowArgs {
        Fix::parse_from([&["fix", "x.dat"], words].concat()).args
    }

    fn any(_: usize, _: usize) -> bool {
        true
    }

    fn nice(tid: u32) -> Change {
        Change::of(Target::Thread(Thread::known_by(Tid(tid), "db")), Value::Nice(-5))
    }

    /// A finding with these remedies.
    pub fn finding(id: &str, remedies: &[(&str, &[Change])]) -> serde_json::Value {
        let remedies: Vec<_> = remedies
            .iter()
            .map(|(id, changes)| {
                serde_json::json!({"id": id, "text": "", "apply": "", "undo": "", "risk": "", "valid_on": "", "changes": changes})
            })
            .collect();
        serde_json::json!({
            "id": id, "severity": "warning", "confidence": 1.0, "sentence": "", "blame": [], "cpus": [], "period_ns": null,
            "victim": {"kind": "task", "comm": "v", "tids": [1], "tasks": 1, "policy": null, "prio": null, "work": null},
            "culprits": [], "waits": {"count": 1, "total_ns": 1, "max_ns": 1, "p99_ns": 1, "owed_ns": 1},
            "price": [], "evidence": [], "worst": [], "losses": [], "remedies": remedies,
        })
    }

    pub fn report(findings: &[serde_json::Value]) -> Report {
        let trace = serde_json::to_value(unstarve_diagnose::report::TraceSummary::default()).expect("JSON");
        let report = serde_json::json!({
            "schema": "unstarve.explain/1", "trace": trace, "findings": findings, "worst_waits": [], "losses": [],
        });
        serde_json::from_value(report).expect("a report")
    }

    const THIS_HOST: Origin =
        Origin { ids: Ids::Hold, why: None, written: Authorship { author: Author::Trusted, why: None } };

    #[test]
    fn a_remedy_that_is_passed_over_says_why() {
        let host = FakeHost::default()
            .program(7, 1, "db")
            .program(8, 1, "other")
            .file("/proc/sys/kernel/sched_rt_runtime_us", "900000");
        let boot = Change::at_boot("preempt=full");
        let so_already = Change::file("/proc/sys/kernel/sched_rt_runtime_us", "900000");
        let first = finding("rt-starvation", &[("a", &[Change::advice()]), ("b", &[nice(8)]), ("c", &[boot])]);
        let second =
            finding("weight-starvation", &[("d", &[so_already]), ("e", &[nice(6), nice(8)]), ("f", &[nice(7)])]);
        let report = report(&[first, second]);
        let chosen = choose(&report, &host, &THIS_HOST, &args(&[]), &any).expect("a choice");
        assert_eq!((chosen.finding, chosen.remedy), (1, 2));
        let why: Vec<String> = (chosen.skipped.iter())
            .map(|skipped| format!("{}.{} {}", skipped.finding, skipped.remedy, skipped.why))
            .collect();
        assert_eq!(
            why,
            [
                "0.0 only a person can do this",
                "0.1 thread 8 is another one by now",
                "0.2 it is read at boot: put it on the kernel's command line (--as cmdline)",
                "1.0 it is so already",
                "1.1 thread 6 has ended, and 1 obstacle more",
            ]
        );
        // A named remedy is chosen, and none counts as skipped.
        let named =
            choose(&report, &host, &THIS_HOST, &args(&["--finding", "1", "--remedy", "2"]), &any).expect("a choice");
        assert_eq!((named.finding, named.remedy, named.skipped.len()), (0, 1, 0));
        // A number alone refers to the finding that is chosen without it; an id to the first finding with it.
        let numbered = choose(&report, &host, &THIS_HOST, &args(&["--remedy", "2"]), &any).expect("a choice");
        assert_eq!((numbered.finding, numbered.remedy, numbered.skipped.len()), (1, 1, 0));
        let by_id = choose(&report, &host, &THIS_HOST, &args(&["--remedy", "b"]), &any).expect("a choice");
        assert_eq!((by_id.finding, by_id.remedy), (0, 1));
        // If none is applicable, the first is chosen; its obstacles are shown.
        let none =
            choose(&report, &FakeHost::default(), &THIS_HOST, &args(&["--finding", "1"]), &any).expect("a choice");
        assert_eq!((none.finding, none.remedy, none.skipped.len()), (0, 0, 2));
    }

    /// A value that is read again can be another one: what is compared, shown and applied has to be the same.
    #[test]
    fn each_remedy_is_planned_once() {
        let path = "/proc/sys/kernel/sched_rt_runtime_us";
        let host = FakeHost::default().program(7, 1, "db").file(path, "900000");
        let setting = Change::file(path, "800000");
        let report = report(&[finding("rt-starvation", &[("ended", &[nice(6)]), ("lower", &[setting])])]);
        for words in [&[][..], &["--remedy", "2"]] {
            let before = host.reads();
            let chosen = choose(&report, &host, &THIS_HOST, &args(words), &any).expect("a choice");
            assert_eq!((chosen.remedy, answer(&chosen.plan)), (1, Answer::CanBeDone), "{words:?}");
            assert_eq!(host.reads() - before, 1, "{words:?}");
            assert_eq!(chosen.plan[0].steps[0].rule, "fix: lower for rt-starvation");
        }
    }

    #[test]
    fn a_form_takes_the_first_remedy_that_it_can_keep() {
        let host = FakeHost::default();
        let report = report(&[finding("rt-starvation", &[("a", &[nice(6)]), ("b", &[nice(7)]), ("c", &[nice(8)])])]);
        let chosen = |words: &[&str], keeps: &Keeps<'_>| {
            choose(&report, &host, &THIS_HOST, &args(words), keeps).expect("a choice").remedy
        };
        let last = |_: usize, remedy: usize| remedy == 2;
        assert_eq!(chosen(&["--as", "guard"], &last), 2);
        assert_eq!(chosen(&["--as", "guard", "--remedy", "2"], &last), 1, "it was asked for");
        assert_eq!(chosen(&["--as", "guard"], &|_, _| false), 0);
        assert_eq!(chosen(&[], &last), 0, "no form was asked for");
    }

    #[test]
    fn a_number_that_fits_no_remedy_names_the_finding() {
        let host = FakeHost::default().program(7, 1, "db");
        let few = [("a", &[Change::advice()][..]), ("f", &[nice(7)])];
        let report = report(&[finding("count-starvation", &[]), finding("weight-starvation", &few)]);
        let refusal = |words: &[&str]| match choose(&report, &host, &THIS_HOST, &args(words), &any) {
            Ok(choice) => panic!("{words:?}: {} {}", choice.finding, choice.remedy),
            Err(error) => error.to_string(),
        };
        assert_eq!(choose(&report, &host, &THIS_HOST, &args(&["--remedy", "1"]), &any).expect("a choice").finding, 1);
        assert_eq!(
            refusal(&["--remedy", "3"]),
            "there is no remedy 3; expected a number from 1 to 2, or one that finding 2 (weight-starvation) has: a, f"
        );
        assert_eq!(
            refusal(&["--finding", "1", "--remedy", "1"]),
            "there is no remedy 1: finding 1 (count-starvation) has none"
        );
        assert_eq!(
            refusal(&["--remedy", "x"]),
            "no finding of this recording has that remedy; `unstarve explain --full` lists them"
        );
    }

    #[test]
    fn what_is_done_on_request_alone_has_its_own_reason() {
        let off = Change::file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
        let host = FakeHost::default().file("/proc/sys/kernel/sched_rt_runtime_us", "950000");
        let both = [("no-wakeup-preemption", &[off.clone()][..]), ("no-rt-throttling", &[off][..])];
        let report = report(&[finding("x", &both)]);
        let chosen = choose(&report, &host, &THIS_HOST, &args(&[]), &any).expect("a choice");
        let why: Vec<&str> = chosen.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
        assert_eq!(chosen.remedy, 0);
        assert_eq!(
            why,
            [
                "a real-time task that never sleeps can then hang the machine, so it is applied only if it is named (--remedy)"
            ]
        );
    }

    #[test]
    fn commands_repeat_the_journal_and_the_promise() {
        let words = ["--state", "/run/a b", "--this-boot"];
        let chosen = Choice { finding: 1, remedy: 0, skipped: Vec::new(), plan: Vec::new(), predicted: None };
        let commands = super::super::commands::of(&args(&words), &chosen);
        assert_eq!(
            commands.apply,
            "sudo unstarve fix x.dat --finding 2 --remedy 1 --this-boot --state '/run/a b' --apply --verify 10s"
        );
        assert_eq!(commands.undo, "sudo unstarve fix --undo --state '/run/a b'");
        let plain = super::super::commands::of(&args(&[]), &chosen);
        assert_eq!(plain.undo, "sudo unstarve fix --undo");
    }
}
