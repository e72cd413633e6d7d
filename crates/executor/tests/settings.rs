//! Setting and undoing by hand, on a made-up host: journal first, never over somebody else's value, nothing half done; and what
//! the journal of earlier versions tells of.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use unstarve_change::{Place, Value};
use unstarve_executor::audit::Audit;
use unstarve_executor::host::{ThisHost, place_of};
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{ByHand, ByHandError, Extent, KNOBS};
use unstarve_host::{Live, Root};
use unstarve_testing::host_tree::HostTree;

const RR: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
const FEATURES: &str = "/sys/kernel/debug/sched/features";

struct Host {
    tree: HostTree,
    root: Root,
}

impl Host {
    /// `None` where the lock of this machine cannot be had: it is root's.
    fn new() -> Option<Host> {
        if !rustix::process::geteuid().is_root() {
            unstarve_testing::not_possible_here("the lock for changes is root's");
            return None;
        }
        let tree = HostTree::new(&[
            ("/sys/devices/system/cpu/online", "0-1\n"),
            (RR, "100\n"),
            (FEATURES, "PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY\n"),
            ("/sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
            ("/sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000\n"),
        ]);
        Some(Host { root: Root::at(tree.path()), tree })
    }

    fn journal(&self) -> PathBuf {
        self.tree.path().join("journal")
    }

    fn name(&self) -> String {
        self.tree.path().canonicalize().expect("a path").display().to_string()
    }

    fn steps(&self, name: &str, value: &str) -> Vec<Step> {
        let root = self.name();
        let plan = Live::new(&self.root).plan(name, value).expect("a plan");
        let step = |step: &unstarve_host::Step| {
            let place = match &step.feature {
                Some(name) => Place::Feature { path: step.path.clone(), name: name.clone(), root: Some(root.clone()) },
                None => place_of(&step.path, Some(&root)).expect("there"),
            };
            Step::new(place, "", KNOBS, Value::content(&step.old), Value::content(&step.new))
        };
        plan.steps.iter().map(step).collect()
    }

    fn apply(&self, steps: &mut [Step]) -> Result<usize, ByHandError> {
        ByHand::open_file(&self.journal(), "test")?.apply(&mut ThisHost, &mut Audit::none(), steps)
    }

    fn set(&self, name: &str, value: &str) {
        self.apply(&mut self.steps(name, value)).expect("it can be written");
    }

    /// How many were restored, and how many somebody else has.
    fn undo(&self, extent: Extent) -> (usize, usize) {
        let mut hand = ByHand::open_file(&self.journal(), "test").expect("a journal");
        let taken = hand.undo(&mut ThisHost, &mut Audit::none(), extent, |_| true);
        (taken.undone.restored, taken.theirs.len() + taken.undone.failed.len())
    }
}

#[test]
fn what_was_set_is_undone_latest_first() {
    let Some(host) = Host::new() else { return };
    host.set("sched_rr_timeslice_ms", "050");
    host.set("fair_server_runtime", "10000000");
    assert_eq!(host.tree.read("/sys/kernel/debug/sched/fair_server/cpu1/runtime"), "10000000");
    assert_eq!(host.undo(Extent::Last), (2, 0), "what was set at once is undone at once");
    assert_eq!(host.tree.read("/sys/kernel/debug/sched/fair_server/cpu0/runtime"), "50000000");
    assert_eq!(host.tree.read(RR), "050");
    host.set("sched_rr_timeslice_ms", "060");
    assert_eq!(host.undo(Extent::All), (2, 0));
    assert_eq!(host.tree.read(RR), "100");
    assert_eq!(host.undo(Extent::All), (0, 0), "nothing is left");
}

#[test]
fn a_value_of_somebody_else_is_left_alone_and_stays_undoable() {
    let Some(host) = Host::new() else { return };
    host.set("sched_rr_timeslice_ms", "050");
    host.tree.write(RR, "077\n");
    assert_eq!(host.undo(Extent::All), (0, 1));
    assert_eq!(host.tree.read(RR), "077");
    host.tree.write(RR, "050\n");
    assert_eq!(host.undo(Extent::All), (1, 0));
    assert_eq!(host.tree.read(RR), "100");
}

#[test]
fn what_the_system_refuses_is_taken_back_as_a_whole() {
    let Some(host) = Host::new() else { return };
    let mut steps = host.steps("fair_server_runtime", "10000000");
    // Behind a link that was made between the plan and the deed.
    let second = host.tree.join("/sys/kernel/debug/sched/fair_server/cpu1");
    fs::rename(&second, host.tree.path().join("moved")).expect("moved");
    symlink(host.tree.path().join("moved"), &second).expect("a link");
    let error = host.apply(&mut steps).expect_err("the second is behind a link").to_string();
    assert!(error.contains("Nothing is changed"), "{error}");
    assert_eq!(host.tree.read("/sys/kernel/debug/sched/fair_server/cpu0/runtime"), "50000000");
    assert_eq!(host.undo(Extent::All), (0, 0));
}

#[test]
fn a_torn_journal_loses_only_what_was_not_begun() {
    let Some(host) = Host::new() else { return };
    host.set("sched_rr_timeslice_ms", "050");
    let whole = fs::read(host.journal()).expect("the journal");
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in (0..whole.len()).step_by(7).chain(ends.iter().map(|end| end - 1)) {
        fs::write(host.journal(), &whole[..cut]).expect("a shorter journal");
        host.tree.write(RR, "050\n");
        // The change's line is whole even without its end.
        let begun = cut + 1 >= ends[2];
        assert_eq!(host.undo(Extent::All), (usize::from(begun), 0), "cut at {cut} of {ends:?}");
        assert_eq!(host.tree.read(RR), if begun { "100" } else { "050" });
    }
}

/// A line of the journal of earlier versions, as whoever can write the file would forge it.
fn legacy(path: &str, feature: Option<&str>, old: &str, new: &str, root: &str) -> String {
    let mut entry = serde_json::json!({"what":"set","id":1,"path":path,"old":old,"new":new,"at":0,"root":root});
    if let Some(feature) = feature {
        entry["feature"] = feature.into();
    }
    let json = entry.to_string();
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

#[test]
fn what_an_earlier_version_has_set_is_undone_and_nothing_else() {
    let Some(host) = Host::new() else { return };
    let victim = host.tree.path().join("victim");
    fs::write(&victim, "precious").expect("a file");
    host.tree.write("/proc/sys/kernel/core_pattern", "core\n");
    host.tree.write("/proc/sys/kernel/sched_domain/flags", "1\n");
    fs::create_dir_all(host.tree.join("/sys/kernel/debug/sched/links")).expect("a directory");
    symlink(&victim, host.tree.join("/sys/kernel/debug/sched/links/x")).expect("a link");
    symlink(host.tree.path(), host.tree.join("/sys/kernel/debug/sched/there")).expect("a link");
    let root = host.name();
    let lines = [
        legacy("/victim", None, "x", "precious", &root),
        legacy("/proc/sys/kernel/core_pattern", None, "|/bin/sh", "core", &root),
        legacy("/proc/sys/kernel/sched_domain/../core_pattern", None, "|/bin/sh", "core", &root),
        legacy("/proc/sys/kernel/sched_domain//flags", None, "2", "1", &root),
        legacy("/sys/kernel/debug/sched/links/x", None, "x", "precious", &root),
        legacy("/sys/kernel/debug/sched/there/victim", None, "x", "precious", &root),
        legacy("/sys/kernel/debug/sched/fair_server/cpu0/../../../../victim", None, "x", "precious", &root),
        legacy("/victim", Some("precious"), "NO_precious", "precious", &root),
        legacy(FEATURES, Some("RUN_TO_PARITY"), "anything\nelse", "RUN_TO_PARITY", &root),
        legacy(RR, None, "1\n2", "100", &root),
        legacy(RR, None, "1", "100", "/elsewhere"),
    ];
    for line in lines {
        fs::write(host.journal(), &line).expect("a journal");
        assert_eq!(host.undo(Extent::All).0, 0, "{line}");
    }
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    assert_eq!(host.tree.read("/proc/sys/kernel/core_pattern"), "core");
    assert_eq!(host.tree.read("/proc/sys/kernel/sched_domain/flags"), "1");
    assert_eq!(
        (host.tree.read(FEATURES).as_str(), host.tree.read(RR).as_str()),
        ("PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY", "100")
    );
    for (path, feature, old, new) in [
        (RR, None, "099", "100"),
        ("/sys/kernel/debug/sched/fair_server/cpu1/runtime", None, "50000001", "50000000"),
        (FEATURES, Some("NEXT_BUDDY"), "NEXT_BUDDY", "NO_NEXT_BUDDY"),
    ] {
        fs::write(host.journal(), legacy(path, feature, old, new, &root)).expect("a journal");
        assert_eq!(host.undo(Extent::All), (1, 0), "what it can have written is undone: {path}");
    }
    let mut damaged = legacy(RR, None, "1", "99", &root).into_bytes();
    let lines = [damaged.clone(), damaged.clone(), damaged.clone()].concat();
    damaged = lines;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(host.journal(), &damaged).expect("a damaged journal");
    let error = ByHand::open_file(&host.journal(), "test").expect_err("damaged").to_string();
    assert!(error.contains("line 2"), "{error}");
    assert_eq!(fs::read(host.journal()).expect("the journal"), damaged, "left as it was");
}

#[test]
fn a_journal_that_others_can_have_written_is_refused() {
    let Some(host) = Host::new() else { return };
    host.set("sched_rr_timeslice_ms", "050");
    let path = host.journal();
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let refused = |what: &str| match ByHand::open_file(&path, "test") {
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(format!("{error} {source}").contains("not trusted"), "{what}: {error} {source}");
        }
        Ok(_) => panic!("{what}: it was taken"),
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
    refused("a file that all can write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::set_permissions(host.tree.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    refused("a directory that all can write");
    fs::set_permissions(host.tree.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    chown(&path, Some(65534), None).expect("given away");
    refused("somebody else's file");
    chown(&path, Some(0), None).expect("taken back");
    chown(host.tree.path(), Some(65534), None).expect("given away");
    refused("somebody else's directory");
    chown(host.tree.path(), Some(0), None).expect("taken back");
    let elsewhere = host.tree.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    symlink(&elsewhere, &path).expect("a link");
    refused("a symbolic link");
}

#[test]
fn a_journal_of_an_earlier_version_is_undone() {
    let Some(host) = Host::new() else { return };
    host.tree.write(RR, "050\n");
    host.tree.write(FEATURES, "PLACE_LAG NEXT_BUDDY RUN_TO_PARITY\n");
    let (root, boot) = (host.name(), unstarve_executor::journal::boot_id().expect("a boot"));
    let lines = [
        format!(r#"{{"record":"begin","version":1,"boot":"{boot}"}}"#),
        format!(
            r#"{{"record":"change","seq":1,"target":{{"file":{{"path":"{RR}","inode":0,"root":"{root}"}}}},"rule":"knobs set","old":{{"text":"100"}},"new":{{"text":"050"}},"at":7,"batch":1}}"#
        ),
        format!(
            r#"{{"record":"change","seq":2,"target":{{"feature":{{"path":"{FEATURES}","name":"NEXT_BUDDY","root":"{root}"}}}},"rule":"knobs set","old":{{"text":"NO_NEXT_BUDDY"}},"new":{{"text":"NEXT_BUDDY"}},"at":8,"batch":2}}"#
        ),
        // Nothing that an executor can have set.
        format!(
            r#"{{"record":"change","seq":3,"target":{{"file":{{"path":"/proc/sys/kernel/core_pattern","inode":0,"root":"{root}"}}}},"rule":"knobs set","old":{{"text":"|x"}},"new":{{"text":"core"}},"at":9,"batch":3}}"#
        ),
    ];
    host.tree.write("/proc/sys/kernel/core_pattern", "core\n");
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| unstarve_executor::journal::sealed(line.as_bytes(), &mut bytes));
    fs::write(host.journal(), bytes).expect("a journal");
    fs::set_permissions(host.journal(), fs::Permissions::from_mode(0o600)).expect("its mode");
    assert_eq!(host.undo(Extent::All), (2, 1));
    assert_eq!(host.tree.read(RR), "100");
    assert!(host.tree.read(FEATURES).starts_with("NO_NEXT_BUDDY"));
    assert_eq!(host.tree.read("/proc/sys/kernel/core_pattern"), "core");
}

/// A journal that somebody has made leads nobody but `knobs undo --root` into a directory.
#[test]
fn only_knobs_changes_files_below_another_root() {
    let Some(host) = Host::new() else { return };
    let mut steps = host.steps("sched_rr_timeslice_ms", "050");
    steps.iter_mut().for_each(|step| step.rule = "fix: a for b".to_owned());
    host.apply(&mut steps).expect("it can be written");
    assert_eq!(host.undo(Extent::All), (0, 0), "fix changes none");
    assert_eq!(host.tree.read(RR), "050");

    let guard = host.tree.path().join("state");
    std::fs::create_dir(&guard).expect("a directory");
    std::fs::copy(host.journal(), guard.join("trial.journal")).expect("a journal");
    let undone = unstarve_executor::trial::clear(&guard).expect("its end");
    assert_eq!((undone.restored, host.tree.read(RR).as_str()), (0, "050"), "and a trial changes none");
}
