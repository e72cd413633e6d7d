//! Paths of settings on a made-up host, and what changing them would write.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use unstarve_host::{KnobError, Live, Root};

const RR: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
const FEATURES: &str = "/sys/kernel/debug/sched/features";

struct Host {
    _tree: TempDir,
    root: Root,
}

impl Host {
    fn new() -> Host {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = Host { root: Root::at(tree.path()), _tree: tree };
        host.write("/sys/devices/system/cpu/online", "0-1\n");
        host.write(RR, "100\n");
        host.write("/sys/kernel/debug/sched/migration_cost_ns", "500000\n");
        host.write(FEATURES, "PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY\n");
        host.write("/sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n");
        host.write("/sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000\n");
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().expect("a parent")).expect("a directory");
        fs::write(self.path(path), text).expect("a file");
    }
}

#[test]
fn where_it_is_is_asked_of_the_system() {
    let host = Host::new();
    let get = |name: &str| Live::new(&host.root).get(name).map_err(|error| error.to_string());
    assert_eq!(get("kernel.sched_rr_timeslice_ms"), Ok(vec![(RR.to_owned(), "100".to_owned())]));
    assert_eq!(
        get("sched_migration_cost_ns").map(|found| found[0].0.clone()),
        Ok("/sys/kernel/debug/sched/migration_cost_ns".into())
    );
    assert_eq!(get("fair_server_runtime").map(|found| found.len()), Ok(2));
    assert_eq!(get("fair_server/cpu1/runtime").map(|found| found.len()), Ok(1));
    assert_eq!(get("NEXT_BUDDY").map(|found| found[0].1.clone()), Ok("NO_NEXT_BUDDY".into()));
    let gone = get("sched_latency_ns").expect_err("not here");
    assert!(gone.contains("/proc/sys/kernel/sched_latency_ns nor at /sys/kernel/debug/sched/latency_ns"), "{gone}");
    let absent = get("NI_RANDOM").expect_err("a feature of other kernels");
    assert!(absent.contains("not found on this system at /sys/kernel/debug/sched/features"), "{absent}");
    for outside in ["/etc/passwd", "/proc/sys/kernel/panic", "/sys/kernel/debug/sched/../../panic", "nonsense\u{1b}"] {
        let error = get(outside).expect_err("not a setting");
        assert!(error.contains("neither a known setting") && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn of_several_words_the_one_in_force_is_put_back() {
    const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";
    let host = Host::new();
    host.write(PREEMPT, "none voluntary (full) lazy\n");
    let plan = Live::new(&host.root).plan("preempt", "lazy").expect("a plan");
    assert_eq!((plan.steps[0].old.as_str(), plan.steps[0].new.as_str()), ("full", "lazy"));
    host.write(PREEMPT, "none voluntary full (lazy)\n");
    assert!(
        Live::new(&host.root).plan("preempt", "lazy").expect("a plan").steps.iter().all(|step| step.old == step.new)
    );
    assert_eq!(unstarve_facts::chosen("/sys/x", "a (b)"), "a (b)");
}

#[test]
fn hostile_values_are_refused() {
    let host = Host::new();
    let plan = |name: &str, value: &str| Live::new(&host.root).plan(name, value);
    for value in ["", " ", "1\n2", "\u{1b}[2J", &"9".repeat(300)] {
        let error = plan("sched_rr_timeslice_ms", value).expect_err("no value").to_string();
        assert!(error.contains("no value for a setting") && !error.contains('\u{1b}'), "{error}");
    }
    assert!(plan("NEXT_BUDDY", "maybe").is_err());
}

#[test]
fn values_that_would_stop_the_machine_are_refused() {
    const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    const SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
    let host = Host::new();
    host.write(RUNTIME, "950000\n");
    host.write("/proc/sys/kernel/sched_rt_period_us", "1000000\n");
    host.write(SLICE, "3000000\n");
    let plan = |name: &str, value: &str| Live::new(&host.root).plan(name, value);
    let refused = |name: &str, value: &str| {
        let error = plan(name, value).expect_err("harm").to_string();
        assert!(matches!(plan(name, value), Err(KnobError::Harm { .. })), "{name} {value}: {error}");
        assert!(error.contains("Nothing was written") && error.contains("by hand"), "{error}");
    };
    for value in ["0", "00", "-0", "0x0", "1", "999", "0 5", "1000001"] {
        refused("kernel.sched_rt_runtime_us", value);
        refused(RUNTIME, value);
    }
    for value in ["1", "999", "950000001"] {
        refused("sched_rt_period_us", value);
    }
    for value in ["0", "4294967296", "99999", "2000000000"] {
        refused("base_slice_ns", value);
        refused("/sys/kernel/debug/sched/./base_slice_ns", value);
    }
    plan("sched_rt_runtime_us", "-1").expect("no limit may be");
    // Relative to the period of this host, not the default one.
    host.write("/proc/sys/kernel/sched_rt_period_us", "100000\n");
    plan("sched_rt_runtime_us", "100").expect("a thousandth");
}
