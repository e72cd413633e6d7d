//! Whether `explain` finds the cause that a scenario injects, and reports nothing without it.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::report::{Finding, FindingId, Report, Severity};

use crate::bench::{Bench, describe};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::{Expect, Expected, Names, Scenario, Victim, fits};

/// Explains an outcome's trace.
pub type Explain<'a> = dyn FnMut(&Outcome) -> Result<Report, Box<dyn Error + Send + Sync>> + 'a;

/// One scenario on one kernel, with or without its fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name in the store.
    pub kernel: String,
    /// Whether the fault was there.
    pub fault: bool,
    /// The ids of which `explain` must report one; empty: none.
    pub expected: Vec<FindingId>,
    /// Its first finding above `info`.
    pub found: Option<String>,
    /// The judgement.
    pub judgement: Judgement,
}

/// The judgement of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The injected cause is the top finding, with the right victim and culprit.
    Hit,
    /// No fault, no finding.
    Quiet,
    /// The injected cause is not the top finding, with the reason.
    Miss(String),
    /// A finding without a fault.
    FalseAlarm(String),
    /// The scenario states no expectation.
    NotJudged,
    /// The scenario does not apply to this kernel.
    NotHere,
    /// The guest or the explanation failed; why.
    Failed(String),
}

impl Judgement {
    /// Whether the judgement is right.
    pub fn is_right(&self) -> bool {
        matches!(self, Judgement::Hit | Judgement::Quiet)
    }

    /// Whether it counts: rows without expectation, or of scenarios that do not apply, do not.
    pub fn counts(&self) -> bool {
        !matches!(self, Judgement::NotHere | Judgement::NotJudged)
    }
}

/// The whole table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// By scenario and kernel, faulty before healthy.
    pub rows: Vec<Row>,
}

/// Runs every scenario on every kernel, with and without the fault, and judges `explain`. A failed run is a row; runs
/// not started when the user asked to stop are missing.
pub fn truth<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenarios: &[Scenario],
    kernels: &[String],
    seed: u64,
    explain: &mut Explain<'_>,
) -> Truth {
    let suits = |scenario: &Scenario, kernel: &str| scenario.suits(kernel).unwrap_or(true);
    let pairs = || scenarios.iter().flat_map(|scenario| kernels.iter().map(move |kernel| (scenario, kernel)));
    bench.expect(2 * pairs().filter(|(scenario, kernel)| suits(scenario, kernel)).count());
    let mut rows = Vec::new();
    for (scenario, kernel) in pairs() {
        for fault in [true, false] {
            if bench.is_interrupted() {
                return Truth { rows };
            }
            let request = Request { fault, ..Request::faulty(scenario.clone(), kernel, seed) };
            let row = if suits(scenario, kernel) { row(bench, &request, explain) } else { not_here(&request) };
            rows.push(row);
        }
    }
    Truth { rows }
}

fn empty_row(request: &Request, judgement: Judgement) -> Row {
    Row {
        scenario: request.scenario.name.clone(),
        kernel: request.kernel.clone(),
        fault: request.fault,
        expected: if request.fault { expected(&request.scenario.expect) } else { Vec::new() },
        found: None,
        judgement,
    }
}

fn not_here(request: &Request) -> Row {
    empty_row(request, Judgement::NotHere)
}

fn row<R: Runner>(bench: &mut Bench<'_, R>, request: &Request, explain: &mut Explain<'_>) -> Row {
    let outcome = match bench.run(request) {
        Ok(outcome) => outcome,
        Err(error) => return empty_row(request, Judgement::Failed(error.to_string())),
    };
    match explain(&outcome) {
        Ok(report) => judge(request, &report),
        Err(error) => empty_row(request, Judgement::Failed(format!("{}: {error}", describe(request)))),
    }
}

/// The findings that a scenario expects.
pub(crate) fn expected(expect: &Expect) -> Vec<FindingId> {
    let top = expect.top().unwrap_or_default().iter();
    top.chain(expect.all.iter().map(|one| &one.finding)).cloned().collect()
}

/// Judges a report by what the request injected.
pub fn judge(request: &Request, report: &Report) -> Row {
    let loud: Vec<&Finding> = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    let mut row = empty_row(request, Judgement::Quiet);
    row.found = loud.first().map(|finding| one_line(finding));
    let expect = &request.scenario.expect;
    let judged = expect.top().is_some() || !expect.all.is_empty() || expect.max_findings.is_some();
    row.judgement = match loud.first() {
        _ if !judged => Judgement::NotJudged,
        None if row.expected.is_empty() => too_many(expect, report).map_or(Judgement::Quiet, Judgement::Miss),
        None => Judgement::Miss("nothing was found".to_owned()),
        Some(_) if row.expected.is_empty() && request.fault && expect.top().is_none() => {
            too_many(expect, report).map_or(Judgement::Hit, Judgement::Miss)
        }
        Some(finding) if row.expected.is_empty() => Judgement::FalseAlarm(finding.sentence.clone()),
        Some(_) => mistake(expect, &loud).or_else(|| too_many(expect, report)).map_or(Judgement::Hit, Judgement::Miss),
    };
    row
}

fn too_many(expect: &Expect, report: &Report) -> Option<String> {
    let count = report.findings.len();
    let most = expect.max_findings.filter(|&most| count > most)?;
    Some(format!("{count} findings, at most {most} are expected"))
}

/// Whether the victim that a scenario expects is starved by its culprit, whatever else there is.
pub(crate) fn is_expected(expect: &Expect, loud: &[&Finding]) -> bool {
    let fits = |finding: &&Finding, id: &FindingId, victim: &Victim, culprit: &Names| {
        finding.id == *id && wrong_in(finding, victim, culprit, &Names::default()).is_none()
    };
    let top = expect.top().unwrap_or_default();
    let has_top = loud.iter().any(|finding| top.iter().any(|id| fits(finding, id, &expect.victim, &expect.culprit)));
    let has = |one: &Expected| loud.iter().any(|finding| fits(finding, &one.finding, &one.victim, &one.culprit));
    let names_any = !top.is_empty() || !expect.all.is_empty();
    names_any && (top.is_empty() || has_top) && expect.all.iter().all(has)
}

/// What is wrong with the findings, worst first.
fn mistake(expect: &Expect, loud: &[&Finding]) -> Option<String> {
    let top = expect.top().zip(loud.first()).and_then(|(ids, finding)| {
        if !ids.contains(&finding.id) {
            return Some(format!("found {}", finding.id));
        }
        wrong_in(finding, &expect.victim, &expect.culprit, &expect.payer)
    });
    let is_found = |one: &&Expected| {
        let fits = |finding: &&&Finding| {
            finding.id == one.finding && wrong_in(finding, &one.victim, &one.culprit, &one.payer).is_none()
        };
        loud.iter().any(|finding| fits(&finding))
    };
    top.or_else(|| expect.all.iter().find(|one| !is_found(one)).map(|one| format!("there is no {one}")))
}

/// What is wrong with one finding's victim, culprits and payers.
fn wrong_in(finding: &Finding, victim: &Victim, culprit: &Names, payer: &Names) -> Option<String> {
    for (key, wanted) in &victim.0 {
        let found = match key.as_str() {
            "kind" => Some(finding.victim.kind.word()),
            "comm" => Some(finding.victim.comm.as_str()),
            "work" => finding.victim.work.as_ref().map(|work| work.function.as_str()),
            _ => None,
        };
        if !found.is_some_and(|found| fits(wanted, found)) {
            return Some(format!("victim's {key} is {}, not {wanted}", found.unwrap_or("unknown")));
        }
    }
    let absent =
        |names: &Names, have: &[&str]| names.0.iter().find(|name| !have.iter().any(|comm| fits(name, comm))).cloned();
    let culprits: Vec<&str> = finding.culprits.iter().map(|culprit| culprit.comm.as_str()).collect();
    let payers: Vec<&str> = finding.price.iter().map(|payer| payer.comm.as_str()).collect();
    let culprit = absent(culprit, &culprits).map(|name| format!("{name} is not among the culprits"));
    culprit.or_else(|| absent(payer, &payers).map(|name| format!("{name} is not among those who paid")))
}

/// `rt-starvation of kworker/0:2 by hog`.
pub(crate) fn one_line(finding: &Finding) -> String {
    let by = finding.culprits.first().map(|culprit| format!(" by {}", culprit.comm)).unwrap_or_default();
    format!("{} of {}{by}", finding.id, finding.victim.comm)
}

/// A table, with every miss in full below it.
impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<20} {:<7} {:<8} {:<12} top finding", "scenario", "kernel", "twin", "judgement")?;
        for row in &self.rows {
            let judgement = match &row.judgement {
                Judgement::Hit => "hit",
                Judgement::Quiet => "quiet",
                Judgement::Miss(_) => "MISS",
                Judgement::FalseAlarm(_) => "FALSE ALARM",
                Judgement::NotJudged => "not judged",
                Judgement::NotHere => "not here",
                Judgement::Failed(_) => "FAILED",
            };
            let twin = if row.fault { "faulty" } else { "healthy" };
            let found = row.found.as_deref().unwrap_or("-");
            writeln!(f, "{:<20} {:<7} {twin:<8} {judgement:<12} {found}", row.scenario, row.kernel)?;
        }
        for row in &self.rows {
            if let Judgement::Miss(why) | Judgement::FalseAlarm(why) | Judgement::Failed(why) = &row.judgement {
                let twin = if row.fault { "faulty" } else { "healthy" };
                writeln!(f, "{} on {}, {twin}: {why}", row.scenario, row.kernel)?;
            }
        }
        let counted = self.rows.iter().filter(|row| row.judgement.counts()).count();
        let right = self.rows.iter().filter(|row| row.judgement.is_right()).count();
        writeln!(f, "{right} of {counted} right")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Model};

    /// A report whose top finding is `id` with this victim and culprit.
    fn report(id: &str, severity: &str, kind: &str, work: &str, culprit: &str) -> Report {
        let json = serde_json::json!({
            "schema": "unstarve.explain/1",
            "trace": {"format": "x", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 1, "kernel": null,
                "snapshot": false, "waits_total_ns": 0, "waits_count": 0},
            "findings": [{
                "id": id, "severity": severity, "confidence": 1.0, "sentence": format!("a sentence about {id}"),
                "victim": {"kind": kind, "comm": "kworker/0:2", "tids": [1], "tasks": 1, "policy": null, "prio": null,
                    "work": {"function": work, "workqueue": null}},
                "culprits": [{"comm": culprit, "tids": [2], "policy": null, "prio": null, "rule": "class", "ns": 1}],
                "blame": [], "waits": {"count": 1, "total_ns": 1, "max_ns": 1, "p99_ns": 1, "owed_ns": 1}, "cpus": [0],
                "period_ns": null, "price": [], "evidence": [], "worst": [], "losses": [], "remedies": []}],
            "worst_waits": [], "losses": []
        });
        serde_json::from_value(json).expect("a report")
    }

    /// A runner that is asked to stop during its first run.
    struct Stopped(usize);

    impl Runner for Stopped {
        type Error = std::fmt::Error;

        fn run(&mut self, _: &Request) -> Result<Outcome, std::fmt::Error> {
            self.0 += 1;
            Err(std::fmt::Error)
        }

        fn is_interrupted(&self) -> bool {
            self.0 > 0
        }
    }

    #[test]
    fn nothing_is_announced_after_somebody_asked_to_stop() {
        let (mut runner, mut announced) = (Stopped(0), 0);
        let mut tell = |_: crate::bench::NextRun<'_>| announced += 1;
        let mut bench = Bench::new(&mut runner, &mut tell);
        let kernels = ["5.10", "6.1", "6.12"].map(String::from);
        let mut explain = |_: &Outcome| Ok(report("x", "info", "task", "x", "y"));
        let truth = truth(&mut bench, &[model::scenario()], &kernels, 1, &mut explain);
        assert_eq!((truth.rows.len(), announced, runner.0), (1, 1, 1), "{truth}");
    }

    #[test]
    fn the_table_tells_hits_misses_and_false_alarms() {
        let mut model = Model::new(|request: &Request| (request.kernel != "7").then_some(1.0));
        let mut tell = |_: crate::bench::NextRun<'_>| {};
        let mut bench = Bench::new(&mut model, &mut tell);
        let kernels = ["5.4", "5.10", "6.1", "6.12", "6.13", "6.14", "6.15", "7"].map(String::from);
        let mut explain = |outcome: &Outcome| {
            let (kernel, fault) = (outcome.request.kernel.as_str(), outcome.request.fault);
            Ok(match (kernel, fault) {
                ("5.10", true) => report("rt-starvation", "critical", "kworker", "dio_complete", "hog"),
                ("6.1", true) => report("wake-storm", "critical", "kworker", "dio_complete", "hog"),
                ("6.12", true) => report("weight-starvation", "warning", "kworker", "other", "hog"),
                ("6.13", true) => report("weight-starvation", "warning", "kworker", "dio_complete", "fio"),
                ("6.14", true) => report("rt-starvation", "info", "kworker", "dio_complete", "hog"),
                ("6.15", true) => return Err("torn trace".into()),
                ("6.1", false) => report("throttled", "warning", "task", "x", "y"),
                _ => report("throttled", "info", "task", "x", "y"),
            })
        };
        let truth = truth(&mut bench, &[model::scenario()], &kernels, 1, &mut explain);
        insta::assert_snapshot!(truth, @"
        scenario             kernel  twin     judgement    top finding
        model                5.4     faulty   not here     -
        model                5.4     healthy  not here     -
        model                5.10    faulty   hit          rt-starvation of kworker/0:2 by hog
        model                5.10    healthy  quiet        -
        model                6.1     faulty   MISS         wake-storm of kworker/0:2 by hog
        model                6.1     healthy  FALSE ALARM  throttled of kworker/0:2 by y
        model                6.12    faulty   MISS         weight-starvation of kworker/0:2 by hog
        model                6.12    healthy  quiet        -
        model                6.13    faulty   MISS         weight-starvation of kworker/0:2 by fio
        model                6.13    healthy  quiet        -
        model                6.14    faulty   MISS         -
        model                6.14    healthy  quiet        -
        model                6.15    faulty   FAILED       -
        model                6.15    healthy  quiet        -
        model                7       faulty   FAILED       -
        model                7       healthy  FAILED       -
        model on 6.1, faulty: found wake-storm
        model on 6.1, healthy: a sentence about throttled
        model on 6.12, faulty: victim's work is other, not dio_complete
        model on 6.13, faulty: hog is not among the culprits
        model on 6.14, faulty: nothing was found
        model on 6.15, faulty: model on 6.15, seed 1: torn trace
        model on 7, faulty: model on 7, seed 1: the model's guest panicked
        model on 7, healthy: model on 7, seed 1, without the fault: the model's guest panicked
        6 of 14 right
        ");
    }

    /// The judgement of findings with these ids, victims, culprits and payers under this `[expect]`.
    fn judged(expect: &str, findings: &[(&str, &str, &str, &str, &str)]) -> Judgement {
        let text = format!("[[load]]\nargv = [\"load\"]\n{expect}");
        let request = Request::faulty(Scenario::parse("x.toml", &text).expect("a scenario"), "6.1", 1);
        let mut whole = report("none", "info", "task", "x", "y");
        let finding = |(id, severity, victim, culprit, payer): &(&str, &str, &str, &str, &str)| {
            let mut finding = report(id, severity, "task", "x", culprit).findings.remove(0);
            finding.victim.comm = (*victim).to_owned();
            let price = serde_json::json!([{"comm": payer, "tids": [3], "ns": 1}]);
            finding.price = serde_json::from_value(price).expect("a price");
            finding
        };
        whole.findings = findings.iter().map(finding).collect();
        judge(&request, &whole).judgement
    }

    #[test]
    fn several_culprits_payers_and_findings_are_judged() {
        let two = [
            ("rt-starvation", "critical", "apisrv", "rtmon", "client"),
            ("weight-starvation", "warning", "webwork", "cruncher", "user"),
        ];
        let all = |second: &str| {
            format!(
                "[expect]\nall = [{{ finding = \"weight-starvation\", victim = \"webwork|webapi\", culprit = \"crunch*\" }},\n\
                 {{ finding = \"rt-starvation\", victim = \"apisrv\", culprit = \"{second}\", payer = \"client\" }}]\n"
            )
        };
        assert_eq!(judged(&all("rtmon"), &two), Judgement::Hit);
        let miss = Judgement::Miss("there is no rt-starvation of apisrv by rtaudio, paid by client".to_owned());
        assert_eq!(judged(&all("rtaudio"), &two), miss);
        let top = |who: &str| format!("[expect]\nfinding = [\"rt-starvation\"]\nvictim = \"apisrv\"\n{who}\n");
        assert_eq!(judged(&top("culprit = [\"rtmon\"]\npayer = \"client\""), &two), Judgement::Hit);
        let miss = Judgement::Miss("other is not among the culprits".to_owned());
        assert_eq!(judged(&top("culprit = [\"rtmon\", \"other\"]"), &two), miss);
        let miss = Judgement::Miss("user is not among those who paid".to_owned());
        assert_eq!(judged(&top("payer = \"user\""), &two), miss);
        assert_eq!(
            judged(&top("max_findings = 1"), &two),
            Judgement::Miss("2 findings, at most 1 are expected".to_owned())
        );
        assert!(matches!(judged("[expect]\nquiet = true\n", &two), Judgement::FalseAlarm(_)));
        assert_eq!(judged("[expect]\nquiet = true\n", &[]), Judgement::Quiet);
        assert_eq!(judged("", &two), Judgement::NotJudged);
    }
}
