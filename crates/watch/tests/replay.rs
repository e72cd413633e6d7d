//! The watch's thresholds on recordings of known truth, counted as by the tracefs engine: a healthy machine gives no episode, a worker
//! that is starved gives one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unstarve_model::{Nanos, Severity};
use unstarve_watch::config::Thresholds;
use unstarve_watch::episode::{Begun, Detector};
use unstarve_watch::run::INTERVAL;
use unstarve_watch::{Engine as _, EngineError, Options, Recording};

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn episodes(path: &Path) -> Vec<Begun> {
    let begun = episodes_by(path, Thresholds::default());
    let remark = begun.iter().find(|begun| begun.severity() == Severity::Info);
    assert_eq!(remark, None, "{}: a remark begins nothing", path.display());
    begun
}

fn episodes_by(path: &Path, thresholds: Thresholds) -> Vec<Begun> {
    let source = unstarve_readers::open(path).expect("a readable recording");
    let step = Nanos(INTERVAL.as_nanos() as u64);
    let mut recording = Recording::new(source, step, Options::default()).expect("a beginning");
    let mut detector = Detector::new(thresholds);
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

/// Labels of recordings that were made from scenarios (bench/truth/truth.json).
fn labels() -> BTreeMap<String, serde_json::Value> {
    let labels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/truth/truth.json");
    let text = std::fs::read_to_string(labels).expect("labels");
    serde_json::from_str(&text).expect("JSON")
}

/// Scenarios that are healthy with what looks like a fault, too.
fn quiet() -> BTreeSet<String> {
    labels().into_iter().filter(|(_, label)| label["quiet"] == true).map(|(name, _)| name).collect()
}

/// Whether the label of this recording, or else of its scenario, says that nothing starves with the fault.
fn is_quiet(name: &str, quiet: &BTreeSet<String>) -> bool {
    let scenario = name.split('.').next().unwrap_or_default();
    let recording = name.split(".dat").next().unwrap_or_default();
    quiet.contains(recording) || quiet.contains(&format!("{scenario}.fault"))
}

fn is_healthy(name: &str) -> bool {
    [".none.dat", "-healthy.dat", "-good.dat", "-idle.dat"].iter().any(|part| name.contains(part))
}

#[test]
fn healthy_machines_give_no_episode() {
    let quiet = quiet();
    let mut judged = 0;
    for folder in ["truth", "traces"] {
        for entry in std::fs::read_dir(stored(folder)).expect("stored recordings") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_quiet = name.contains(".fault.dat") && is_quiet(&name, &quiet);
            if is_healthy(&name) || is_quiet {
                judged += 1;
                assert_eq!(shown(&episodes(&path)), Vec::<String>::new(), "{name}");
            }
        }
    }
    assert!(judged >= 66, "{judged} recordings");
}

/// Why a fault begins no episode. Each is how thresholds are meant; none is about a kernel worker that is starved for long while the watch looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// No wait is as long as a threshold, and long waits are not most of the time.
    ShortWaits,
    /// A kworker waited for less than what housekeeping may: what it worked at and whom that cost, counters do not know.
    CostUnknown,
    /// Programs, or their groups, have a weight that makes them wait; whether it was meant so sums do not know (decision 0290).
    WeightOfPrograms,
    /// By sums nobody is preferred (decision 0220).
    Equals,
    /// CPUs are idle meanwhile, or a deadline task waits for its own reservation: nobody else is preferred.
    NobodyElse,
    /// The limit takes less of what the group would use than a group has to bear.
    MildLimit,
}
use Why::{CostUnknown, Equals, MildLimit, NobodyElse, ShortWaits, WeightOfPrograms};

/// What each recording of a fault gives: an episode that must be among those that begin, or why there is none.
const FAULTS: &[(&str, Result<&str, Why>)] = &[
    ("traces/linux-5.10-net-rt", Ok("ksoftirqd by real-time (class)")),
    ("traces/linux-5.10-lab-knfsd-faulty", Err(ShortWaits)),
    ("traces/linux-6.1-dio-weight", Ok("direct-io by other (wakeup-preemption)")),
    ("traces/linux-6.1-lab-granularity-compile-faulty", Err(ShortWaits)),
    ("traces/linux-6.1-pool", Err(Equals)),
    ("traces/linux-6.1-preempt", Err(ShortWaits)),
    ("traces/linux-6.12-lab-oplog-ext4-faulty", Ok("rcu by real-time (class)")),
    ("traces/linux-6.12-lab-spike-faulty", Ok("ksoftirqd by kernel (irq)")),
    ("traces/linux-6.18-perf-messaging", Err(Equals)),
    ("traces/linux-6.18-perf-rt-hog", Ok("other by real-time (class)")),
    ("traces/linux-7-lab-granularity-stream-faulty", Err(ShortWaits)),
    ("traces/linux-7-lab-kubepods-unwritten-faulty", Ok("direct-io by /kubepods (wakeup-preemption)")),
    ("traces/linux-7-lab-nfsd-faulty", Err(Equals)),
    ("traces/perfetto-rt-hog", Ok("other by real-time (class)")),
    ("traces/perfetto-rt-hog-compact", Ok("other by real-time (class)")),
    ("truth/autogroup-nice.6.12", Err(WeightOfPrograms)),
    ("truth/burst-less.6.12", Err(MildLimit)),
    ("truth/cpuset-move.6.12", Err(NobodyElse)),
    ("truth/deadline-hog.6.1", Ok("other by real-time (class)")),
    ("truth/deadline-hog.6.12", Ok("other by real-time (class)")),
    ("truth/deadline-overrun.6.1", Err(NobodyElse)),
    ("truth/deadline-overrun.6.12", Err(NobodyElse)),
    ("truth/drain-rt.6.12", Err(CostUnknown)),
    ("truth/fork-hog.6.1", Ok("rcu by other (weight)")),
    ("truth/fork-hog.6.12", Ok("rcu by other (weight)")),
    ("truth/guises.6.1", Ok("other by real-time (class)")),
    ("truth/guises.7", Ok("other by real-time (class)")),
    ("truth/highpri-xfs.6.1", Ok("rcu by real-time (class)")),
    ("truth/hog-beside-server.6.1", Ok("kworker by real-time (class)")),
    ("truth/hog-never-leaves.6.1", Ok("kworker by real-time (class)")),
    ("truth/hog-over-softirq.6.12", Ok("rcu by real-time (class)")),
    ("truth/hog-since-before.5.10", Ok("kworker by real-time (class)")),
    ("truth/hog-since-before.6.12", Ok("ksoftirqd by real-time (class)")),
    ("truth/hog-throttled.5.10", Ok("kworker by real-time (class)")),
    ("truth/hopper.6.1", Ok("other by real-time (class)")),
    ("truth/hopper.6.12", Ok("other by real-time (class)")),
    ("truth/idle-group.6.1", Err(WeightOfPrograms)),
    ("truth/idle-group.6.12", Err(WeightOfPrograms)),
    ("truth/idle-lock.6.1", Err(WeightOfPrograms)),
    ("truth/idle-lock.6.12", Err(WeightOfPrograms)),
    ("truth/iouring-rt.6.1", Ok("other by real-time (class)")),
    ("truth/iouring-rt.6.12", Ok("other by real-time (class)")),
    ("truth/kswapd-rt.6.1", Ok("storage by real-time (class)")),
    ("truth/kworker-idle.6.12", Ok("kworker by other (weight)")),
    ("truth/log-backpressure.6.12", Err(WeightOfPrograms)),
    ("truth/log-backpressure.7", Err(WeightOfPrograms)),
    ("truth/nested-quota.6.1", Ok("/limited by  (throttled)")),
    ("truth/nginx-weight.6.1", Err(WeightOfPrograms)),
    ("truth/nice-high.6.12", Err(WeightOfPrograms)),
    ("truth/partition-stack.6.12", Err(NobodyElse)),
    ("truth/pin-stack.6.12", Err(NobodyElse)),
    ("truth/polling-fair-thread.6.12", Ok("ksoftirqd by other (weight)")),
    ("truth/pty-weight.6.12", Ok("kworker by /batch (weight)")),
    ("truth/quota-and-rt.6.1", Ok("/limited by real-time (class)")),
    ("truth/redis-quota.6.1", Ok("/db by  (throttled)")),
    ("truth/redis-rt.6.12", Ok("other by real-time (class)")),
    ("truth/rr-equals.6.1", Ok("rcu by real-time (class)")),
    ("truth/rr-equals.6.12", Ok("rcu by real-time (class)")),
    ("truth/rt-asks-fair.5.10", Ok("other by real-time (class)")),
    ("truth/rt-asks-fair.6.1", Ok("other by real-time (class)")),
    ("truth/rt-behind-section.6.12", Ok("real-time by other (not-preempted)")),
    ("truth/short-victims.6.1", Ok("other by real-time (class)")),
    ("truth/sidecar-quota.6.1", Ok("/pod by  (throttled)")),
    ("truth/sidecar-quota.6.12", Ok("/pod by  (throttled)")),
    ("truth/vsock-weight.6.1", Ok("kworker by /batch (weight)")),
    ("truth/writeback-weight.6.1", Ok("kworker by /batch (weight)")),
    ("truth/yield-spin.6.1", Ok("other by real-time (class)")),
    ("truth/yield-spin.6.12", Ok("other by real-time (class)")),
];

/// `truth/guises.6.1` of `truth/guises.6.1.fault.dat.zst`.
fn short(name: &str) -> &str {
    let end = [".fault.dat", ".dat", ".data", ".pftrace"].iter().filter_map(|part| name.find(part)).min();
    &name[..end.unwrap_or(name.len())]
}

/// Every recording of a fault, by its short name.
fn faults() -> BTreeMap<String, PathBuf> {
    let quiet = quiet();
    let mut all = BTreeMap::new();
    for folder in ["truth", "traces"] {
        for entry in std::fs::read_dir(stored(folder)).expect("stored recordings") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_recording = [".dat", ".data", ".pftrace"].iter().any(|part| name.contains(part));
            let is_healthy = is_healthy(&name) || is_quiet(&name, &quiet);
            if is_recording && !is_healthy {
                all.insert(short(&format!("{folder}/{name}")).to_owned(), path);
            }
        }
    }
    all
}

/// What a label's finding is to the counters.
fn rules_of(finding: &str) -> &'static [&'static str] {
    match finding {
        "rt-starvation" => &["class", "irq"],
        "weight-starvation" | "completion-ping-pong" => &["weight", "wakeup-preemption"],
        "throttled" => &["throttled"],
        "not-preemptible" => &["not-preempted"],
        _ => &[],
    }
}

#[test]
fn every_fault_begins_its_episode_or_has_a_reason_not_to() {
    let recordings = faults();
    let listed: BTreeSet<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
    let stored: BTreeSet<&str> = recordings.keys().map(String::as_str).collect();
    assert_eq!(listed, stored, "each recording of a fault is in the table, once");
    assert_eq!(listed.len(), FAULTS.len());
    let labels = labels();
    let mut wrong = Vec::new();
    for (name, expected) in FAULTS {
        let begun = shown(&episodes(&recordings[*name]));
        let is_right = match expected {
            Ok(expected) => begun.iter().any(|begun| begun == expected),
            Err(_) => begun.is_empty(),
        };
        let scenario = name.split_once('/').map_or("", |(_, name)| name).split('.').next().unwrap_or_default();
        let label = &labels.get(&format!("{scenario}.fault"));
        let fits = label.is_none_or(|label| fits(label, expected));
        if !is_right || !fits {
            wrong.push(format!("{name}: {begun:?}, expected {expected:?}, which fits the label: {fits}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether an episode is by a rule of the label's finding; a kernel worker that starves for long has one.
fn fits(label: &serde_json::Value, expected: &Result<&str, Why>) -> bool {
    let findings: Vec<&str> = label["top"].as_array().into_iter().flatten().filter_map(|top| top.as_str()).collect();
    let is_worker = |name: &str| ["kworker", "rcu", "ksoftirqd", "kswapd"].iter().any(|kernel| name.contains(kernel));
    match expected {
        Ok(episode) => {
            let rule = episode.rsplit_once('(').map_or("", |(_, rule)| rule.trim_end_matches(')'));
            findings.iter().any(|finding| rules_of(finding).contains(&rule))
        }
        Err(CostUnknown) => true,
        Err(why) => {
            let named = match why {
                WeightOfPrograms => "weight-starvation",
                MildLimit => "throttled",
                NobodyElse => return findings.iter().any(|finding| !rules_of(finding).contains(&"class")),
                _ => "",
            };
            let is_named = named.is_empty() || findings.contains(&named);
            is_named && !label["victim"].as_str().is_some_and(is_worker)
        }
    }
}

#[test]
fn whom_the_counters_name_is_who_had_the_cpu() {
    // A group is known. Its tasks had the CPU in turns, and by sums nobody knows which of them it was.
    let begun = episodes(&stored("truth/writeback-weight.6.1.fault.dat.zst"));
    assert_eq!(begun[0].culprit.as_ref().and_then(|role| role.cgroup.as_deref()), Some("/batch"));
    assert_eq!(begun[0].culprit_task, None);
    assert!(begun[0].victim_task.expect("it waits still").comm.to_string().starts_with("kworker/"));
    // A real-time task that has had the CPU for most of the wait is the one. What the table says of sums begins earlier, mostly between two waits.
    let by_keys_alone = Thresholds { verdict: false, ..Thresholds::default() };
    for (name, hog, thresholds) in [
        ("truth/guises.6.1.fault.dat.zst", "stage-3", &by_keys_alone),
        ("truth/quota-and-rt.6.1.fault.dat.zst", "rtpoll", &by_keys_alone),
        ("traces/perfetto-rt-hog.pftrace", "rt-hog", &Thresholds::default()),
    ] {
        let begun = episodes_by(&stored(name), thresholds.clone());
        let culprit = begun[0].culprit_task.expect(name);
        assert_eq!(culprit.comm.to_string(), hog, "{name}");
    }
}
