//! Setting and undoing, on a made-up host: journal first, never over somebody else's value, nothing half done.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use tempfile::TempDir;
use unstarve_host::{Extent, Journal, JournalError, KnobError, Live, Root};

const RR: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
const FEATURES: &str = "/sys/kernel/debug/sched/features";

struct Host {
    tree: TempDir,
    root: Root,
}

impl Host {
    fn new() -> Host {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let host = Host { root: Root::at(tree.path()), tree };
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

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file").trim().to_owned()
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.tree.path().join("journal")).expect("a journal")
    }

    fn set(&self, name: &str, value: &str) -> Result<(), KnobError> {
        let live = Live::new(&self.root);
        // A plain file keeps the tail of a longer old value, a sysctl does not: write all of it.
        let plan = live.plan(name, value)?;
        live.apply(&plan, &mut self.journal())
    }

    fn undo(&self, extent: Extent) -> (usize, Vec<String>) {
        let (undone, failed) = Live::new(&self.root).undo(&mut self.journal(), extent);
        (undone.len(), failed.iter().map(ToString::to_string).collect())
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
    assert!(absent.contains("does not have it at /sys/kernel/debug/sched/features"), "{absent}");
    for outside in ["/etc/passwd", "/proc/sys/kernel/panic", "/sys/kernel/debug/sched/../../panic", "nonsense\u{1b}"] {
        let error = get(outside).expect_err("not a setting");
        assert!(error.contains("neither a known setting") && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn what_was_set_is_undone_latest_first() {
    let host = Host::new();
    host.set("sched_rr_timeslice_ms", "050").expect("it can be written");
    host.set("fair_server_runtime", "10000000").expect("it can be written");
    assert_eq!(host.read("/sys/kernel/debug/sched/fair_server/cpu1/runtime"), "10000000");
    assert_eq!(host.undo(Extent::Last), (1, vec![]));
    assert_eq!(host.read("/sys/kernel/debug/sched/fair_server/cpu0/runtime"), "10000000");
    assert_eq!(host.read("/sys/kernel/debug/sched/fair_server/cpu1/runtime"), "50000000");
    assert_eq!(host.undo(Extent::All), (2, vec![]));
    assert_eq!(
        (host.read(RR), host.read("/sys/kernel/debug/sched/fair_server/cpu0/runtime")),
        ("100".into(), "50000000".into())
    );
    assert_eq!(host.undo(Extent::All), (0, vec![]), "nothing is left");
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
fn a_value_of_somebody_else_is_left_alone_and_told() {
    let host = Host::new();
    host.set("sched_rr_timeslice_ms", "050").expect("it can be written");
    host.write(RR, "77\n");
    let (undone, failed) = host.undo(Extent::All);
    assert_eq!(undone, 0);
    assert!(failed[0].contains("is `77`, but unstarve set it to `050`: somebody has changed it since"), "{failed:?}");
    assert_eq!(host.read(RR), "77");
    // Whoever gives it back makes it undoable again.
    host.write(RR, "050\n");
    assert_eq!(host.undo(Extent::All), (1, vec![]));
    assert_eq!(host.read(RR), "100");
}

#[test]
fn hostile_values_are_refused_before_anything_is_written() {
    let host = Host::new();
    for value in ["", " ", "1\n2", "\u{1b}[2J", &"9".repeat(300)] {
        let error = host.set("sched_rr_timeslice_ms", value).expect_err("no value").to_string();
        assert!(error.contains("no value for a setting") && !error.contains('\u{1b}'), "{error}");
    }
    assert!(host.set("NEXT_BUDDY", "maybe").is_err());
    assert!(!host.tree.path().join("journal").exists());
    assert_eq!(host.read(RR), "100");
}

#[test]
fn values_that_would_stop_the_machine_are_refused_before_anything_is_written() {
    const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    const SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
    let host = Host::new();
    host.write(RUNTIME, "950000\n");
    host.write("/proc/sys/kernel/sched_rt_period_us", "1000000\n");
    host.write(SLICE, "3000000\n");
    let refused = |name: &str, value: &str| {
        let error = host.set(name, value).expect_err("harm").to_string();
        assert!(matches!(host.set(name, value), Err(KnobError::Harm { .. })), "{name} {value}: {error}");
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
    assert_eq!((host.read(RUNTIME), host.read(SLICE)), ("950000".to_owned(), "3000000".to_owned()));
    assert_eq!(host.journal().pending(), []);
    host.set("sched_rt_runtime_us", "-1").expect("no limit may be");
    // By the period of this host, not the default one.
    host.write("/proc/sys/kernel/sched_rt_period_us", "100000\n");
    host.set("sched_rt_runtime_us", "100").expect("a thousandth");
}

#[test]
fn what_the_kernel_refuses_is_taken_back_as_a_whole() {
    let host = Host::new();
    // The second of two files goes away between the plan and the deed.
    let live = Live::new(&host.root);
    let plan = live.plan("fair_server_runtime", "10000000").expect("a plan");
    fs::remove_file(host.path("/sys/kernel/debug/sched/fair_server/cpu1/runtime")).expect("a file");
    let error = live.apply(&plan, &mut host.journal()).expect_err("the second is gone").to_string();
    assert!(error.contains("the kernel refuses `10000000`"), "{error}");
    assert_eq!(host.read("/sys/kernel/debug/sched/fair_server/cpu0/runtime"), "50000000");
    assert_eq!(host.journal().pending(), []);
}

#[test]
fn a_torn_journal_loses_only_what_was_not_begun() {
    let host = Host::new();
    host.set("sched_rr_timeslice_ms", "050").expect("it can be written");
    let path = host.tree.path().join("journal");
    let whole = fs::read(&path).expect("the journal");
    let first = whole.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).expect("a shorter journal");
        host.write(RR, "050\n");
        let (undone, failed) = host.undo(Extent::All);
        assert_eq!((undone, failed), (usize::from(cut >= first), vec![]), "cut at {cut}");
        assert_eq!(host.read(RR), if cut >= first { "100" } else { "050" });
    }
    // Damage before the end is no accident of power.
    let mut damaged = whole.clone();
    damaged[first / 2] ^= 1;
    fs::write(&path, &damaged).expect("a damaged journal");
    match Journal::open(&path) {
        Err(JournalError::Damaged { line: 1, .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
    assert_eq!(fs::read(&path).expect("the journal"), damaged, "left as it was");
}

#[test]
fn two_at_a_time_are_one_too_many() {
    let host = Host::new();
    let _first = host.journal();
    assert!(matches!(Journal::open(&host.tree.path().join("journal")), Err(JournalError::InUse(_))));
}

/// A journal's line, as whoever can write the file would forge it.
fn forged(path: &str, feature: Option<&str>, old: &str, new: &str, root: &str) -> String {
    let mut entry = serde_json::json!({"what":"set","id":1,"path":path,"old":old,"new":new,"at":0,"root":root});
    if let Some(feature) = feature {
        entry["feature"] = feature.into();
    }
    let json = entry.to_string();
    let mut crc = flate2::Crc::new();
    crc.update(json.as_bytes());
    format!("{:08x} {json}\n", crc.sum())
}

#[test]
fn an_undo_writes_only_what_a_set_can_have_written() {
    let host = Host::new();
    let victim = host.tree.path().join("victim");
    fs::write(&victim, "precious").expect("a file");
    host.write("/proc/sys/kernel/core_pattern", "core\n");
    host.write("/proc/sys/kernel/sched_domain/flags", "1\n");
    fs::create_dir_all(host.path("/sys/kernel/debug/sched/links")).expect("a directory");
    symlink(&victim, host.path("/sys/kernel/debug/sched/links/x")).expect("a link");
    symlink(host.tree.path(), host.path("/sys/kernel/debug/sched/there")).expect("a link");
    let root = host.tree.path().canonicalize().expect("a path").display().to_string();
    let lines = [
        forged("/victim", None, "x", "precious", &root),
        forged("/proc/sys/kernel/core_pattern", None, "|/bin/sh", "core", &root),
        forged("/proc/sys/kernel/sched_domain/../core_pattern", None, "|/bin/sh", "core", &root),
        forged("/proc/sys/kernel/sched_domain//flags", None, "2", "1", &root),
        forged("/sys/kernel/debug/sched/links/x", None, "x", "precious", &root),
        forged("/sys/kernel/debug/sched/there/victim", None, "x", "precious", &root),
        forged("/sys/kernel/debug/sched/fair_server/cpu0/../../../../victim", None, "x", "precious", &root),
        forged("/victim", Some("precious"), "NO_precious", "precious", &root),
        forged(FEATURES, Some("RUN_TO_PARITY"), "anything\nelse", "RUN_TO_PARITY", &root),
        forged(FEATURES, None, "anything", "PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY", &root),
        forged(RR, None, "1\n2", "100", &root),
        forged(RR, None, "1", "100", "/elsewhere"),
    ];
    for line in lines {
        fs::write(host.tree.path().join("journal"), &line).expect("a journal");
        let (undone, failed) = host.undo(Extent::All);
        assert_eq!((undone, failed.len()), (0, 1), "{line}{failed:?}");
    }
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    assert_eq!(host.read("/proc/sys/kernel/core_pattern"), "core");
    assert_eq!(host.read(FEATURES), "PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY");
    assert_eq!(host.read(RR), "100");
    for (path, feature, old, new) in [
        (RR, None, "99", "100"),
        ("/sys/kernel/debug/sched/fair_server/cpu1/runtime", None, "50000001", "50000000"),
        (FEATURES, Some("NEXT_BUDDY"), "NEXT_BUDDY", "NO_NEXT_BUDDY"),
    ] {
        fs::write(host.tree.path().join("journal"), forged(path, feature, old, new, &root)).expect("a journal");
        assert_eq!(host.undo(Extent::All), (1, vec![]), "what it can have written is undone: {path}");
    }
}

#[test]
fn what_was_set_below_one_directory_is_not_undone_below_another() {
    let (one, other) = (Host::new(), Host::new());
    one.set("sched_rr_timeslice_ms", "050").expect("set");
    other.write(RR, "050\n");
    let (undone, failed) = Live::new(&other.root).undo(&mut one.journal(), Extent::All);
    assert!(undone.is_empty() && failed.len() == 1, "{undone:?}");
    assert!(failed[0].to_string().contains("undo it with --root"), "{}", failed[0]);
    assert_eq!((other.read(RR).as_str(), one.undo(Extent::All)), ("050", (1, vec![])));
}

#[test]
fn a_journal_that_others_can_have_written_is_refused() {
    let host = Host::new();
    host.set("sched_rr_timeslice_ms", "050").expect("set");
    let path = host.tree.path().join("journal");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let refused = |what: &str| match Journal::open(&path) {
        Err(JournalError::Untrusted(error)) => assert!(error.to_string().contains("not trusted"), "{what}: {error}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: it was taken"),
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
    refused("a file that all can write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::set_permissions(host.tree.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    refused("a directory that all can write");
    fs::set_permissions(host.tree.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    if rustix::process::geteuid().is_root() {
        chown(&path, Some(65534), None).expect("given away");
        refused("somebody else's file");
        chown(&path, Some(0), None).expect("taken back");
        chown(host.tree.path(), Some(65534), None).expect("given away");
        refused("somebody else's directory");
        chown(host.tree.path(), Some(0), None).expect("taken back");
    }
    let elsewhere = host.tree.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    symlink(&elsewhere, &path).expect("a link");
    refused("a symbolic link");
}
