//! Each command that a report prints runs as printed, changes something, and its undo leaves everything as it was.
//!
//! All traces of `testdata/` are explained; each remedy is tried by `sh -eu` on a model of the recorded host: its files, and
//! its threads, whose policies, nice values and CPUs stand in files that stand-ins for chrt, renice and taskset keep.

mod model;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Model, Namespaces};
use unstarve_change::{Change, Commands, Relative, Target, Thread, Value};
use unstarve_diagnose::report::{Remedy, Report};
use unstarve_diagnose::{Options, explain_beside};
use unstarve_facts::Snapshot;
use unstarve_model::Tid;
use unstarve_timeline::Sink;

/// All files below a directory of `testdata/` that can be read as traces.
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

/// What is wrong with the texts alone.
fn faults_of_text(remedy: &Remedy) -> Vec<String> {
    let mut faults = Vec::new();
    for line in [&remedy.apply, &remedy.undo] {
        for odd in ["OLD", "# ", "\n", " IF", "$(1", "RUNTIME"] {
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
    for change in &remedy.changes {
        match &change.target {
            Target::Thread(thread) if thread.tid == Tid(1) => faults.push("touches the first process".to_owned()),
            _ => {}
        }
    }
    faults
}

/// What is wrong with the commands when they are run.
fn faults_of_commands(model: &Model, remedy: &Remedy) -> Result<(), String> {
    // The kernel's file of features takes one word at a time, and a file of the model holds what it was given last.
    for change in &remedy.changes {
        if let Target::Feature { name } = &change.target {
            let text = match &change.was {
                Some(Value::Text(was)) => was.clone(),
                _ => name.clone(),
            };
            model.write("/sys/kernel/debug/sched/features", &format!("{text}\n"));
        }
    }
    let before = model.state();
    let ran = |what: &str, line: &str| {
        let output = model.run(line);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(|| format!("{what} failed: {line}\n{errors}"))
    };
    ran("apply", &remedy.apply)?;
    let after = model.state();
    let recorded = |state: &std::collections::BTreeMap<PathBuf, String>| {
        state.iter().filter(|(path, _)| !path.to_string_lossy().contains("unstarve-undo")).count()
    };
    let is_same = after.iter().filter(|(path, text)| before.get(*path) == Some(*text)).count() == recorded(&after);
    if is_same {
        return Err(format!("changes nothing: {}", remedy.apply));
    }
    ran("undo", &remedy.undo)?;
    let restored = model.state();
    match restored.iter().find(|(path, text)| before.get(*path) != Some(*text)) {
        Some((path, text)) => Err(format!(
            "not as before: {} was {:?}, is {text:?}\n{}\n{}",
            path.display(),
            before.get(path),
            remedy.apply,
            remedy.undo
        )),
        None if restored.len() != before.len() => Err("a file is gone".to_owned()),
        None => Ok(()),
    }
}

fn try_all(directory: &str) {
    let namespaces = Namespaces::here();
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in traces(directory) {
        let Some((report, snapshot)) = explained(&path) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let model = Model::of(&report, snapshot.as_deref(), namespaces);
        for remedy in report.findings.iter().flat_map(|finding| &finding.remedies) {
            let mut faults = faults_of_text(remedy);
            if !remedy.apply.is_empty() {
                tried += 1;
                faults.extend(faults_of_commands(&model, remedy).err());
            }
            wrong.extend(faults.into_iter().map(|fault| format!("{name}: {}: {fault}", remedy.id)));
        }
    }
    println!("{directory}: {tried} remedies tried ({namespaces:?})");
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
    let thread = Thread::known_by(Tid(7), "x");
    let change = Change::relative(Target::GroupWeightOf(thread), Relative::Weight(100));
    let Commands { apply, undo } = unstarve_change::commands(&[change]).expect("commands");
    for (groups, file, text) in [
        ("0::/box/inner\n", "/sys/fs/cgroup/box/cpu.weight", "100\n"),
        ("5:memory:/m\n4:cpu,cpuacct:/box/inner\n0::/\n", "/sys/fs/cgroup/cpu/box/cpu.shares", "1024\n"),
    ] {
        let model = Model::empty(Namespaces::here());
        model.write("/proc/7/cgroup", groups);
        model.write(file, "50000\n");
        let before = model.state();
        assert!(model.run(&apply).status.success(), "{apply}");
        assert_eq!(model.state()[&model.path(file)], text);
        assert!(model.run(&undo).status.success(), "{undo}");
        assert_eq!(model.state(), before);
    }
}

/// The model sees what it is for: each of these is a fault of the commands that used to be printed.
#[test]
fn the_model_refuses_what_a_kernel_would() {
    let model = Model::empty(Namespaces::here());
    model.write("/proc/7/sched", "fifo 10 1 0 0 0\n");
    model.write("/proc/7/stat", "7 (a) b) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7\n");
    model.write("/proc/7/status", "Cpus_allowed_list:\t0-3\n");
    model.write("/proc/7/fixed", "");
    for wrong in [
        "chrt --fifo --pid 0 7",
        "chrt --other --pid 0 8",
        "chrt --deadline --sched-runtime 2 --sched-deadline 1 --sched-period 1 --pid 0 7",
        "renice -n -30 -p 7",
        "taskset -pc 1 7",
        "echo $g",
        "echo OLD > /sys/nowhere/cpu.weight",
    ] {
        assert!(!model.run(wrong).status.success(), "{wrong}");
    }
    let shown = model.run("chrt -p 7").stdout;
    assert_eq!(
        String::from_utf8_lossy(&shown),
        "pid 7's current scheduling policy: SCHED_FIFO|SCHED_RESET_ON_FORK\npid 7's current scheduling priority: 10\n"
    );
}
