//! Each command that a report prints runs as printed, changes something, and its undo leaves everything as it was.
//!
//! All traces of `testdata/` are explained, and each remedy is tried by `sh -eu` on a model of the recorded host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unstarve_change::{Change, Commands, Relative, Selector, Target, Thread};
use unstarve_diagnose::report::{Remedy, Report};
use unstarve_diagnose::{Options, explain_beside};
use unstarve_facts::{Snapshot, TaskFacts};
use unstarve_model::{Comm, Policy, Prio, SchedPolicy, Tid};
use unstarve_sched::KernelThread;
use unstarve_testing::model::{Model, ModelThread};
use unstarve_timeline::Sink;

/// All files of a directory of `testdata/` that may be traces.
fn traces(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(directory);
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| !["toml", "md", "txt", "json"].iter().any(|no| end == *no)));
    paths.sort();
    paths
}

fn explained(path: &Path) -> Option<(Report, Option<Arc<Snapshot>>)> {
    struct Nothing;
    impl Sink for Nothing {}
    let source = unstarve_readers::open(path).ok()?;
    let explained = explain_beside(source, &Options::default(), &mut Nothing, |_| {}).ok()?;
    Some((explained.report, explained.driven.snapshot))
}

/// The recorded host: what its snapshot shows, and what the trace alone shows of threads. Files that the recording does not
/// know exist with a value that no remedy sets.
fn host(report: &Report, snapshot: Option<&Snapshot>) -> Model {
    let seen = priorities(report);
    let remedies = report.findings.iter().flat_map(|finding| &finding.remedies);
    let changes: Vec<&Change> = remedies.flat_map(|remedy| &remedy.changes).collect();
    let mut model = snapshot.map_or_else(Model::new, |snapshot| Model::of(&touched(snapshot, &changes, &seen)));
    for change in changes {
        if let Target::File { path } = &change.target {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            for handler in &change.handlers {
                model.directory(&format!("{directory}/{handler}"));
            }
        }
        match &change.target {
            Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => {
                let seen = seen.get(&thread.tid).and_then(|seen| seen.first());
                let facts = snapshot.and_then(|snapshot| snapshot.task(thread.tid));
                model.thread(thread.tid.0, as_traced(thread, seen, facts));
            }
            Target::GroupWeightOf(thread) => {
                let new = ModelThread { cgroup: "/box/inner".into(), ..ModelThread::new(thread.tid.0, &thread.comm) };
                model.thread(thread.tid.0, new);
                model.file("/sys/fs/cgroup/box/cpu.weight", "5000");
            }
            Target::File { path } if change.was.is_none() => {
                model.file(path, "12345");
            }
            Target::Feature { name } if snapshot.is_none_or(|snapshot| snapshot.features.is_none()) => {
                model.file("/sys/kernel/debug/sched/features", &format!("A {name} NO_B"));
            }
            _ => {}
        }
    }
    model
}

/// The snapshot with the processes that are changed, without threads that the trace has seen as something else. Where it does
/// not know the flag, some have it.
fn touched(snapshot: &Snapshot, changes: &[&Change], seen: &BTreeMap<Tid, BTreeSet<Prio>>) -> Snapshot {
    let named = changes.iter().filter_map(|change| match &change.target {
        Target::Thread(thread) | Target::Threads(Selector::Process(thread)) | Target::GroupWeightOf(thread) => {
            snapshot.process_of(thread.tid)
        }
        _ => None,
    });
    let processes: BTreeSet<Tid> = named.collect();
    let mut touched = snapshot.clone();
    let as_seen = |task: &TaskFacts| {
        let seen = seen.get(&task.tid).filter(|seen| !seen.is_empty());
        seen.is_none_or(|seen| task.prio().is_some_and(|prio| seen.contains(&prio)))
    };
    touched.tasks.retain(|task| processes.contains(&task.tgid.unwrap_or(task.tid)) && as_seen(task));
    for task in touched.tasks.iter_mut().filter(|task| !task.kernel_thread) {
        task.reset_on_fork = task.reset_on_fork.or(Some(task.tid.0.is_multiple_of(3)));
    }
    touched
}

/// A thread of which the trace alone shows what it is: FIFO or RR, with the flag or without, as nobody can know.
fn as_traced(thread: &Thread, seen: Option<&Prio>, facts: Option<&TaskFacts>) -> ModelThread {
    let odd = thread.tid.0 % 2 == 1;
    let mut new = ModelThread::new(thread.tid.0, &thread.comm);
    new.start = thread.start.unwrap_or(new.start);
    // What a trace alone says: a name that kernel threads have.
    if thread.kernel_thread.unwrap_or_else(|| KernelThread::is_name_of_one(&Comm::from(thread.comm.as_str()))) {
        new.parent = 2;
    }
    new.reset_on_fork = facts.is_none_or(|facts| !facts.kernel_thread) && thread.tid.0.is_multiple_of(3);
    if let Some(facts) = facts {
        new.nice = facts.nice;
        new.tgid = facts.tgid.unwrap_or(facts.tid).0;
        new.allowed = facts.allowed.as_ref().map_or(new.allowed, ToString::to_string);
    }
    let Some(prio) = seen else { return new };
    (new.policy, new.rt_priority) = match prio.policy() {
        Policy::Deadline => (SchedPolicy::Deadline, 0),
        Policy::Rt => (if odd { SchedPolicy::Fifo } else { SchedPolicy::Rr }, (99 - prio.0).unsigned_abs()),
        Policy::Fair | Policy::Idle => (if odd { SchedPolicy::Other } else { SchedPolicy::Batch }, 0),
    };
    new.nice = prio.nice().unwrap_or(new.nice);
    new
}

/// The priorities that the report shows of each thread.
fn priorities(report: &Report) -> BTreeMap<Tid, BTreeSet<Prio>> {
    let mut seen: BTreeMap<Tid, BTreeSet<Prio>> = BTreeMap::new();
    for finding in &report.findings {
        let rows = finding.culprits.iter().chain(&finding.blame).map(|row| (&row.tids, row.prio));
        for (tids, prio) in rows.chain([(&finding.victim.tids, finding.victim.prio)]) {
            for tid in tids {
                seen.entry(Tid(*tid)).or_default().extend(prio.map(Prio));
            }
        }
    }
    seen
}

/// What is wrong with the texts alone.
fn faults_of_text(remedy: &Remedy) -> Vec<String> {
    let mut faults = Vec::new();
    for line in [&remedy.apply, &remedy.undo] {
        for odd in ["OLD", "# ", "\n", " IF", "RUNTIME"] {
            if line.contains(odd) {
                faults.push(format!("has `{}`: {line}", odd.escape_debug()));
            }
        }
        if line.chars().any(unstarve_model::is_harmful) {
            faults.push(format!("has characters that a terminal takes otherwise: {line:?}"));
        }
    }
    if remedy.changes.is_empty() {
        faults.push("changes nothing and is no advice".to_owned());
    }
    let advises = remedy.changes.iter().all(|change| !change.is_for_a_program());
    if advises != remedy.apply.is_empty() || advises != remedy.undo.is_empty() {
        faults.push(format!("its commands are not those of its changes: {:?}", remedy.changes));
    }
    let first = |change: &Change| matches!(&change.target, Target::Thread(thread) if thread.tid == Tid(1));
    if remedy.changes.iter().any(first) {
        faults.push("touches the first process".to_owned());
    }
    faults
}

fn try_all(directory: &str) {
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in traces(directory) {
        let Some((report, snapshot)) = explained(&path) else { continue };
        let remedies: Vec<&Remedy> = report.findings.iter().flat_map(|finding| &finding.remedies).collect();
        let mut fault = |remedy: &Remedy, fault: String| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            wrong.push(format!("{name}: {}: {fault}", remedy.id));
        };
        remedies.iter().for_each(|remedy| faults_of_text(remedy).into_iter().for_each(|what| fault(remedy, what)));
        let commands: Vec<&Remedy> = remedies.into_iter().filter(|remedy| !remedy.apply.is_empty()).collect();
        if commands.is_empty() {
            continue;
        }
        let mut host = match host(&report, snapshot.as_deref()).start() {
            Ok(host) => host,
            Err(why) => return unstarve_testing::not_possible_here(why),
        };
        for remedy in commands {
            tried += 1;
            host.there_and_back(&remedy.apply, &remedy.undo).unwrap_or_else(|why| fault(remedy, why));
        }
    }
    println!("{directory}: {tried} remedies tried");
    assert!(tried >= 20, "only {tried} remedies in {directory}");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn remedies_of_the_labelled_traces_run_as_printed() {
    try_all("traces");
}

#[test]
fn remedies_of_the_traces_with_outside_truth_run_as_printed() {
    try_all("truth");
}

#[test]
fn the_weight_of_an_unknown_group_is_set_on_either_hierarchy() {
    let change = Change::relative(Target::GroupWeightOf(Thread::known_by(Tid(7), "x")), Relative::WeightAtMost(100));
    let Commands { apply, undo } = unstarve_change::commands(&[change]).expect("commands");
    for (version, mount, file) in [
        ("v2", "/sys/fs/cgroup", "/sys/fs/cgroup/box/cpu.weight"),
        ("v1", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu/box/cpu.shares"),
        ("v1", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/box/cpu.shares"),
        ("v1", "/sys/fs/other", "/sys/fs/other/box/cpu.shares"),
    ] {
        let json = format!(
            r#"{{"schema":"unstarve.snapshot/1","kernel":{{}},"hierarchy":{{"version":"{version}","mount":"{mount}"}}}}"#
        );
        let mut model = Model::of(&Snapshot::from_json(&json).expect("a snapshot"));
        model.thread(7, ModelThread { cgroup: "/box/inner".into(), ..ModelThread::new(7, "x") }).file(file, "5000");
        match model.start() {
            Ok(mut host) => assert_eq!(host.there_and_back(&apply, &undo), Ok(())),
            Err(why) => return unstarve_testing::not_possible_here(why),
        }
    }
}
