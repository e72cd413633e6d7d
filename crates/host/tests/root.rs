//! A tree that another user may have filled: reading below it stays below it, and does not block.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use unstarve_facts::Snapshot;
use unstarve_host::{Live, Root};
use unstarve_model::Tid;
use unstarve_testing::host_tree::HostTree;

const SECRET: &str = "root:$6$secret";

/// A directory with the tree in `host`, and next to it a file that the tree's owner may not read.
fn place() -> HostTree {
    let tree = HostTree::new(&[("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")]);
    fs::create_dir(outside(&tree)).expect("a directory");
    for name in ["shadow", "cpu.weight", "sched_x", "active_profile"] {
        fs::write(outside(&tree).join(name), format!("{SECRET}\n")).expect("a file");
    }
    tree
}

fn outside(tree: &HostTree) -> PathBuf {
    tree.path().with_file_name("outside")
}

fn fifo(tree: &HostTree, path: &str) {
    mkfifoat(CWD, tree.with_parents(path), Mode::RUSR | Mode::WUSR).expect("a FIFO");
}

/// The result, unless it blocks.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(60)).expect("it does not wait")
}

fn taken(tree: &HostTree) -> Snapshot {
    let root = Root::at(tree.path());
    in_time(move || unstarve_host::take_whole(&root))
}

const TASK: &str =
    "7 (bash) S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";

#[test]
fn links_lead_nowhere_outside() {
    let place = place();
    let outside = outside(&place);
    place.write("proc/7/task/7/stat", TASK);
    place.write("proc/7/task/7/status", "Cpus_allowed_list:\t0\n");
    for path in ["proc/sys/kernel/osrelease", "proc/7/task/7/cgroup", "proc/cmdline", "etc/sysctl.conf"] {
        place.link(path, outside.join("shadow"));
    }
    // More steps up than needed; and a directory instead of a file.
    place.link("proc/sys/kernel/version", format!("{}{}", "../".repeat(40), outside.join("shadow").display()));
    place.link("proc/sys/kernel/hostname", "../../../../outside/shadow");
    place.link("sys/kernel/debug/sched", &outside);
    place.link("etc/tuned", &outside);
    place.link("sys/class/net/eth0", &outside);
    place.link("sys/fs/cgroup/top", &outside);
    place.link("sys/fs/cgroup/below/cpu.weight", outside.join("cpu.weight"));
    // The file system in the list of mounts is in the tree, too.
    place.write("proc/mounts", "cgroup2 /../../outside cgroup2 rw 0 0\n");
    let before = taken(&place);
    place.write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    let snapshot = taken(&place);
    for snapshot in [before, snapshot.clone()] {
        let json = snapshot.to_json();
        assert!(!json.contains("secret"), "{json}");
        assert!(snapshot.settings.is_empty() && snapshot.networks.is_empty(), "{json}");
    }
    assert_eq!(snapshot.cgroups.iter().map(|group| group.path.as_str()).collect::<Vec<_>>(), ["/below"]);
    assert_eq!(snapshot.allowed_cpus(Tid(7)).map(ToString::to_string).as_deref(), Some("0"), "the rest is read");
    assert!(Live::new(&Root::at(place.path())).get("/sys/kernel/debug/sched/sched_x").is_err());
}

#[test]
fn links_lead_to_where_they_did_on_the_host() {
    let place = place();
    place.write("usr/lib/release", "6.1.0\n");
    place.link("proc/sys/kernel/osrelease", "/usr/lib/release");
    place.link("proc/sys/kernel/version", "../../../../../../../usr/lib/release");
    // The device's own directory has no interrupts, its parent has.
    place.write("sys/devices/pci/nic/irq", "31\n");
    place.write("sys/devices/pci/nic/virtio1/x", "");
    place.link("sys/class/net/eth0", "/sys/devices/virtual/eth0");
    place.link("sys/devices/virtual/eth0/device", "../../pci/nic/virtio1");
    place.write("proc/irq/31/smp_affinity_list", "0\n");
    place.write("proc/interrupts", "   CPU0\n 31:  1  MSI  x\n");
    // It masks a unit, whether or not there is such a device.
    place.write("usr/lib/systemd/system/a.service", "[Service]\nNice=-5\n");
    place.link("etc/systemd/system/a.service", "/dev/null");
    let snapshot = taken(&place);
    assert_eq!(snapshot.kernel.release.as_deref(), Some("6.1.0"));
    assert_eq!(snapshot.kernel.version.as_deref(), Some("6.1.0"));
    assert_eq!(snapshot.irqs[0].devices, ["net/eth0"]);
    assert_eq!(snapshot.configured, []);
}

#[test]
fn nothing_is_waited_for() {
    let place = place();
    place.write("proc/7/task/7/stat", TASK);
    place.write("proc/8/task/8/stat", &TASK.replace('7', "8"));
    place.write("proc/8/task/8/status", "Cpus_allowed_list:\t0\n");
    let fifos = [
        "proc/sys/kernel/osrelease",
        "proc/sys/kernel/sched_rt_runtime_us",
        "proc/config.gz",
        "proc/irq",
        "proc/7/task/7/status",
        "proc/8/task/8/cmdline",
        "proc/interrupts",
        "sys/kernel/debug/sched/features",
        "sys/fs/cgroup/a/cpu.weight",
        "etc/sysctl.d/a.conf",
        "etc/tuned/active_profile",
        "etc/systemd/system/a.service",
    ];
    fifos.iter().for_each(|path| fifo(&place, path));
    let snapshot = taken(&place);
    let why =
        |what: &str| snapshot.missing.iter().find(|missing| missing.what == what).map(|missing| missing.why.as_str());
    assert_eq!(why("/proc/sys/kernel/osrelease"), Some("it is a FIFO; expected a regular file"));
    assert_eq!(why("/etc/sysctl.d/a.conf"), Some("it is a FIFO; expected a regular file"));
    let tree = Root::at(place.path());
    let got = in_time(move || Live::new(&tree).get("sched_rt_runtime_us").map_err(|error| error.to_string()));
    assert!(got.expect_err("no file").contains("sched_rt_runtime_us: not found on this system at"));
    let tree = Root::at(place.path());
    in_time(move || unstarve_host::allows(&tree));
}

#[test]
fn what_is_no_tree_is_said() {
    let place = place();
    Root::at(place.path()).check().expect("a host");
    let missing = Root::at(place.join("none")).check().expect_err("nothing");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    fifo(&place, "fifo/proc");
    let no_directory = Root::at(place.join("fifo")).check().expect_err("a FIFO");
    assert_eq!(no_directory.kind(), std::io::ErrorKind::NotADirectory);
    // A link out of the tree does not count as /proc.
    place.link("linked/proc", "/proc");
    assert!(Root::at(place.join("linked")).check().is_err());
}
