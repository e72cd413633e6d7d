//! Kernel logs of guests that hang in a known way: `testdata/logs`, beside the guest's own recording of the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_diagnose::{Options, explain_beside};
use unstarve_evidence::{Limits, explain, gather};
use unstarve_timeline::{Run, Sink, Wait, World};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/logs")
}

/// What the log says.
fn explained(name: &str) -> Report {
    let gathered =
        gather(&[directory().join(name)], Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let [host] = gathered.hosts.as_slice() else { panic!("{name}: {} hosts", gathered.hosts.len()) };
    explain(&host.facts, &host.sources)
}

/// A thread of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Thread {
    tid: u32,
    comm: String,
}

/// What `bench/logs/recording.py` counted in the recording of the same run.
struct Truth {
    recording: String,
    /// Who waited; in state `running` nobody did.
    waited: Option<Thread>,
    cpu: u32,
    /// How long the wait lasted; in state `running` how long it ran there in all.
    seconds: f64,
    /// Who had the CPU.
    ran: Thread,
    /// Who slept because of the wait, and for how many seconds.
    blocked: Option<(Thread, f64)>,
}

/// A row of `labels.tsv`.
struct Label {
    file: String,
    state: String,
    victim: String,
    cpu: Option<u32>,
    lasted: Option<f64>,
    culprit: Option<u32>,
    may_be: Option<u32>,
    truth: Option<Truth>,
}

impl Label {
    fn of(row: &BTreeMap<&str, &str>) -> Label {
        let known = |column: &str| Some(row[column]).filter(|cell| *cell != "-");
        let thread = |column: &str| {
            let (tid, comm) = known(column)?.split_once('/')?;
            Some(Thread { tid: tid.parse().ok()?, comm: comm.to_owned() })
        };
        let culprit = |cell: &str| cell.split('/').next()?.parse().ok();
        let truth = known("recording").map(|recording| Truth {
            recording: recording.to_owned(),
            waited: thread("recorded_victim"),
            cpu: row["recorded_cpu"].parse().expect("a CPU"),
            seconds: row["recorded_s"].parse().expect("seconds"),
            ran: thread("recorded_culprit").expect("somebody ran"),
            blocked: thread("blocked").map(|thread| (thread, row["blocked_s"].parse().expect("seconds"))),
        });
        Label {
            file: row["file"].to_owned(),
            state: row["state"].to_owned(),
            victim: row["victim"].to_owned(),
            cpu: known("cpu").and_then(|cpu| cpu.parse().ok()),
            lasted: known("lasted_s").and_then(|lasted| lasted.parse().ok()),
            // In parentheses: the log shows it on its CPU, and need not be read as to blame it.
            may_be: culprit(row["culprit"].trim_matches(['(', ')'])),
            culprit: culprit(row["culprit"]),
            truth,
        }
    }

    /// Whether a finding of the log is about the row's victim.
    fn is_about(&self, finding: &Finding) -> bool {
        let victim = self.victim.as_str();
        // Of a pool its CPU is compared.
        victim == "-"
            || victim.starts_with("pool ") && finding.victim.comm.starts_with("kworker/")
            || finding.evidence.iter().any(|line| line.contains(victim))
            || finding.victim.comm.starts_with(victim)
            || finding.sentence.contains(victim)
    }
}

fn labels() -> Vec<Label> {
    let text = fs::read_to_string(directory().join("labels.tsv")).expect("labels");
    let mut lines = text.lines().filter(|line| !line.is_empty()).map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().expect("a heading");
    lines.map(|cells| Label::of(&columns.iter().copied().zip(cells).collect())).collect()
}

#[test]
fn each_log_names_its_victim_and_never_a_wrong_culprit() {
    let mut faults = Vec::new();
    for label in labels() {
        let Label { file, state, victim, cpu, lasted, culprit, may_be, .. } = &label;
        let report = explained(file);
        let Some(finding) = report.findings.iter().find(|finding| label.is_about(finding)) else {
            faults.push(format!("{file}: nothing about {victim}"));
            continue;
        };
        if let Some(cpu) = cpu.filter(|cpu| !finding.cpus.contains(cpu)) {
            faults.push(format!("{file}: CPU {cpu} is not among {:?}", finding.cpus));
        }
        if (state == "blocked") != (finding.id.as_str() == "blocked-task") {
            faults.push(format!("{file}: {state}, but {}", finding.id));
        }
        if let Some(lasted) = lasted.filter(|lasted| finding.waits.max_ns as f64 / 1e9 > lasted * 1.1) {
            faults.push(format!("{file}: at least {lasted} s, but {} ns", finding.waits.max_ns));
        }
        let named: Vec<u32> = report
            .findings
            .iter()
            .filter(|finding| cpu.is_none_or(|cpu| finding.cpus == [cpu]))
            .flat_map(|finding| &finding.culprits)
            .flat_map(|culprit| culprit.tids.iter().copied())
            .collect();
        match culprit {
            Some(culprit) if !named.contains(culprit) => {
                faults.push(format!("{file}: {culprit} is not named: {named:?}"))
            }
            None if named.iter().any(|tid| Some(*tid) != *may_be) && state != "blocked" => {
                faults.push(format!("{file}: names {named:?}"))
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What the recording says: the longest wait of each thread, and its whole time on each CPU.
#[derive(Default)]
struct Spans {
    /// Seconds, CPU, and who had it most of the time.
    waits: BTreeMap<u32, (f64, u32, String)>,
    /// By thread and CPU.
    seconds_on: BTreeMap<(u32, u32), f64>,
}

impl Sink for Spans {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let tid = world.tasks.get(wait.task).tid.0;
        let lasted = wait.end.since(wait.start).as_secs_f64();
        if self.waits.get(&tid).is_none_or(|(longest, ..)| *longest < lasted) {
            let occupant = wait.pieces.iter().max_by_key(|piece| piece.length);
            let name = occupant.map_or_else(String::new, |piece| world.name(piece.occupant));
            self.waits.insert(tid, (lasted, wait.cpu.0, name));
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let (tid, cpu) = (world.tasks.get(run.task).tid.0, run.cpu.0);
        *self.seconds_on.entry((tid, cpu)).or_default() += run.length().as_secs_f64();
    }
}

fn recorded(name: &str) -> (Report, Spans) {
    let path = directory().join("recordings").join(name);
    let source = unstarve_readers::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut spans = Spans::default();
    let explained = explain_beside(source, &Options::default(), &mut spans, |_| {});
    (explained.unwrap_or_else(|error| panic!("{name}: {error}")).report, spans)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.05
}

/// How `explain` of the recording differs from what was counted without it.
fn mistakes_about_the_recording(truth: &Truth, report: &Report, spans: &Spans) -> Vec<String> {
    let Truth { waited, cpu, seconds, ran, blocked, .. } = truth;
    let mut mistakes = Vec::new();
    let Some(waited) = waited else {
        let ran_for = spans.seconds_on.get(&(ran.tid, *cpu));
        if ran_for.is_none_or(|ran_for| !near(*ran_for, *seconds)) {
            mistakes.push(format!("{ran:?} ran {seconds} s on CPU {cpu}, not {ran_for:?}"));
        }
        return mistakes;
    };
    let wait = spans.waits.get(&waited.tid);
    let idle = ran.tid == 0;
    let same =
        |(lasted, on, name): &(f64, u32, String)| near(*lasted, *seconds) && on == cpu && (idle || *name == ran.comm);
    if !wait.is_some_and(same) {
        mistakes.push(format!("{waited:?} waited {seconds} s on CPU {cpu} for {ran:?}, not {wait:?}"));
    }
    let accuses = |finding: &Finding| {
        finding.severity >= Severity::Warning
            && finding.cpus.contains(cpu)
            && finding.culprits.iter().any(|culprit| culprit.tids.contains(&ran.tid))
    };
    if !idle && !report.findings.iter().any(accuses) {
        mistakes.push(format!("{ran:?} on CPU {cpu} is the culprit of no finding"));
    }
    if let Some((blocked, _)) = blocked
        && spans.waits.get(&blocked.tid).is_some_and(|(lasted, ..)| *lasted > 1.0)
    {
        mistakes.push(format!("{blocked:?} did not sleep, but waited for a CPU"));
    }
    mistakes
}

/// Whether a finding of the log is about this thread. Of a pool, and of RCU's threads, logs have no thread's id; of several threads
/// that wait for a CPU the finding has one as victim, and quotes the lines of the others.
fn names(finding: &Finding, thread: &Thread) -> bool {
    let Thread { tid, comm } = thread;
    let quoted = |line: &String| line.contains(comm) && line.contains(&tid.to_string());
    if finding.victim.tids.is_empty() {
        return finding.victim.comm == *comm
            || finding.victim.comm.starts_with("kworker/") && comm.starts_with("kworker/");
    }
    finding.victim.tids.contains(tid) || finding.evidence.iter().any(quoted)
}

/// What the log says otherwise than the recording.
fn contradictions(label: &Label, truth: &Truth, report: &Report, spans: &Spans) -> Vec<String> {
    let mut found = Vec::new();
    let about: Vec<&Finding> = report.findings.iter().filter(|finding| label.is_about(finding)).collect();
    let victim = truth.blocked.as_ref().map(|(thread, _)| thread).or(truth.waited.as_ref());
    if let Some(victim) = victim.filter(|_| label.victim != "-")
        && !about.iter().any(|finding| names(finding, victim))
    {
        let victims: Vec<_> = about.iter().map(|finding| (&finding.victim.comm, &finding.victim.tids)).collect();
        found.push(format!("the victim is {victim:?}, not one of {victims:?}"));
    }
    let lasted = truth.blocked.as_ref().map_or(truth.seconds, |(_, seconds)| *seconds);
    if let Some(finding) = about.iter().find(|finding| finding.waits.max_ns as f64 / 1e9 > lasted) {
        found.push(format!("{lasted} s, not {} ns: {}", finding.waits.max_ns, finding.sentence));
    }
    for finding in &report.findings {
        let is_elsewhere = finding.cpus.iter().any(|cpu| *cpu != truth.cpu);
        if finding.severity >= Severity::Warning && truth.blocked.is_none() && is_elsewhere {
            found.push(format!("CPU {}, not {:?}: {}", truth.cpu, finding.cpus, finding.sentence));
        }
        for culprit in finding.culprits.iter().flat_map(|culprit| &culprit.tids) {
            // Whether it had the CPU for most of the time that the victim waited.
            let had = spans.seconds_on.get(&(*culprit, truth.cpu)).copied().unwrap_or_default();
            if *culprit != truth.ran.tid || had < truth.seconds / 2.0 {
                found.push(format!("names {culprit}, not {:?}: {}", truth.ran, finding.sentence));
            }
        }
    }
    found
}

#[test]
fn a_log_and_the_recording_of_the_same_run_name_the_same_victim_cpu_and_culprit() {
    let mut faults = Vec::new();
    let mut recordings = BTreeMap::new();
    let mut without = Vec::new();
    for label in labels() {
        let Some(truth) = &label.truth else {
            without.push(label.file);
            continue;
        };
        let (report, spans) = recordings.entry(truth.recording.clone()).or_insert_with(|| recorded(&truth.recording));
        let mut say = |which: &str, texts: Vec<String>| {
            faults.extend(texts.into_iter().map(|text| format!("{} ({which}): {text}", label.file)));
        };
        say("recording", mistakes_about_the_recording(truth, report, spans));
        say("log", contradictions(&label, truth, &explained(&label.file), spans));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Kernels of before `kernel.config` had PCI brought no results out of the guest.
    assert!(without.iter().all(|file| file.ends_with(".6.12.log")), "without a recording: {without:?}");
    assert!(recordings.len() >= 25, "{} recordings", recordings.len());
}
