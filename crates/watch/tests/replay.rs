//! The watch's thresholds on recordings of known truth, counted as by the tracefs engine: a healthy machine gives no episode, a worker
//! that is starved gives one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unstarve_model::Nanos;
use unstarve_watch::config::Config;
use unstarve_watch::episode::{Begun, Detector};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording};

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn episodes(path: &Path) -> Vec<Begun> {
    let source = unstarve_readers::open(path).expect("a readable recording");
    let step = Nanos(INTERVAL.as_nanos() as u64);
    let mut recording = Recording::new(source, step, Options::default()).expect("a beginning");
    let mut detector = Detector::new(Config::default().thresholds);
    let mut begun = Vec::new();
    loop {
        match recording.read() {
            Ok(reading) => {
                for victim in reading.roles.iter().enumerate().filter_map(|(index, role)| role.as_ref().map(|_| index))
                {
                    let waits = reading.waits[victim].waited;
                    let id =
                        reading.roles[victim].as_ref().and_then(|role| reading.find(role.kind, role.cgroup.as_deref()));
                    assert_eq!(reading.blamed(id.expect("its own role")), waits, "{}", path.display());
                }
                begun.extend(detector.see(Arc::new(reading)).begun);
            }
            Err(EngineError::Ended) => return begun,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

fn shown(begun: &[Begun]) -> Vec<String> {
    let shown = |begun: &Begun| {
        let culprit = begun.culprit.as_ref().map_or_else(String::new, unstarve_watch::Role::name);
        let rule = begun.rule.map_or_else(String::new, |rule| rule.to_string());
        let victim = begun.group.as_deref().map_or_else(|| begun.victim.name(), str::to_owned);
        format!("{victim} by {culprit} ({rule})")
    };
    begun.iter().map(shown).collect()
}

/// Scenarios that are healthy with what looks like a fault, too (bench/truth/truth.json).
fn quiet() -> BTreeSet<String> {
    let labels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/truth/truth.json");
    let text = std::fs::read_to_string(labels).expect("labels");
    let labels: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    labels.into_iter().filter(|(_, label)| label["quiet"] == true).map(|(name, _)| name).collect()
}

#[test]
fn healthy_machines_give_no_episode() {
    let quiet = quiet();
    let mut judged = 0;
    for folder in ["truth", "traces"] {
        for entry in std::fs::read_dir(stored(folder)).expect("stored recordings") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let scenario = name.split('.').next().unwrap_or_default();
            let is_quiet = name.contains(".fault.dat") && quiet.contains(&format!("{scenario}.fault"));
            let is_healthy =
                [".none.dat", "-healthy.dat", "-good.dat", "-idle.dat"].iter().any(|part| name.contains(part));
            if is_healthy || is_quiet {
                judged += 1;
                assert_eq!(shown(&episodes(&path)), Vec::<String>::new(), "{name}");
            }
        }
    }
    assert!(judged >= 65, "{judged} recordings");
}

#[test]
fn starved_workers_and_groups_give_one() {
    for (name, expected) in [
        ("traces/linux-5.10-net-rt.dat", "ksoftirqd by real-time (class)"),
        ("traces/linux-6.1-dio-weight.dat", "direct-io by other (wakeup-preemption)"),
        ("traces/linux-6.12-lab-oplog-ext4-faulty.dat.zst", "rcu by real-time (class)"),
        ("traces/linux-6.12-lab-spike-faulty.dat.zst", "ksoftirqd by kernel (irq)"),
        ("traces/linux-7-lab-kubepods-unwritten-faulty.dat.zst", "direct-io by /kubepods (wakeup-preemption)"),
        ("truth/guises.6.1.fault.dat.zst", "other by real-time (class)"),
        ("truth/iouring-rt.6.1.fault.dat.zst", "other by real-time (class)"),
        ("truth/iouring-rt.6.12.fault.dat.zst", "other by real-time (class)"),
        ("truth/nested-quota.6.1.fault.dat.zst", "/limited by  (throttled)"),
        ("truth/quota-and-rt.6.1.fault.dat.zst", "/limited by real-time (class)"),
        ("truth/redis-quota.6.1.fault.dat.zst", "/db by  (throttled)"),
        ("truth/redis-rt.6.12.fault.dat.zst", "other by real-time (class)"),
        ("truth/rt-asks-fair.5.10.fault.dat.zst", "other by real-time (class)"),
        ("truth/rt-asks-fair.6.1.fault.dat.zst", "other by real-time (class)"),
        ("truth/short-victims.6.1.fault.dat.zst", "other by real-time (class)"),
        ("truth/sidecar-quota.6.1.fault.dat.zst", "/pod by  (throttled)"),
        ("truth/sidecar-quota.6.12.fault.dat.zst", "/pod by  (throttled)"),
        ("truth/yield-spin.6.1.fault.dat.zst", "other by real-time (class)"),
        ("truth/yield-spin.6.12.fault.dat.zst", "other by real-time (class)"),
        ("truth/kswapd-rt.6.1.fault.dat.zst", "rcu by real-time (class)"),
        ("truth/pty-weight.6.12.fault.dat.zst", "kworker by /batch (weight)"),
        ("truth/vsock-weight.6.1.fault.dat.zst", "kworker by /batch (weight)"),
        ("truth/writeback-weight.6.1.fault.dat.zst", "kworker by /batch (weight)"),
    ] {
        let begun = shown(&episodes(&stored(name)));
        assert!(begun.iter().any(|begun| begun == expected), "{name}: {begun:?}");
    }
}

#[test]
fn the_cause_is_named_before_anybody_explains_it() {
    let begun = episodes(&stored("truth/writeback-weight.6.1.fault.dat.zst"));
    let culprit = begun[0].culprit_task.expect("a task");
    assert_eq!(culprit.comm.to_string(), "cruncher");
    assert!(begun[0].victim_task.expect("a task").comm.to_string().starts_with("kworker/"));
}
