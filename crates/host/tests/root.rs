//! A tree that another user may have filled: reading below it stays below it, and does not block.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use unstarve_facts::Snapshot;
use unstarve_host::{Live, Root};
use unstarve_model::Tid;

const SECRET: &str = "root:$6$secret";

/// A directory with the tree in `host`, and next to it a file that the tree's owner may not read.
fn place() -> TempDir {
    let place = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(place.path().join("outside")).expect("a directory");
    for name in ["shadow", "cpu.weight", "sched_x", "active_profile"] {
        fs::write(place.path().join("outside").join(name), format!("{SECRET}\n")).expect("a file");
    }
    write(&place, "proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    place
}

fn write(place: &TempDir, path: &str, text: &str) {
    fs::write(made(place, path), text).expect("a file");
}

fn made(place: &TempDir, path: &str) -> std::path::PathBuf {
    let full = place.path().join("host").join(path);
    fs::create_dir_all(full.parent().expect("a parent")).expect("a directory");
    full
}

fn link(place: &TempDir, path: &str, to: impl AsRef<Path>) {
    symlink(to, made(place, path)).expect("a link");
}

fn fifo(place: &TempDir, path: &str) {
    mkfifoat(CWD, made(place, path), Mode::RUSR | Mode::WUSR).expect("a FIFO");
}

fn root(place: &TempDir) -> Root {
    Root::at(place.path().join("host"))
}

/// The result, unless it blocks.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(60)).expect("it does not wait")
}

fn taken(place: &TempDir) -> Snapshot {
    let root = root(place);
    in_time(move || unstarve_host::take_whole(&root))
}

const TASK: &str =
    "7 (bash) S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n";

#[test]
fn links_lead_nowhere_outside() {
    let place = place();
    let outside = place.path().join("outside");
    write(&place, "proc/7/task/7/stat", TASK);
    write(&place, "proc/7/task/7/status", "Cpus_allowed_list:\t0\n");
    for path in ["proc/sys/kernel/osrelease", "proc/7/task/7/cgroup", "proc/cmdline", "etc/sysctl.conf"] {
        link(&place, path, outside.join("shadow"));
    }
    // More steps up than needed; and a directory instead of a file.
    link(&place, "proc/sys/kernel/version", format!("{}{}", "../".repeat(40), outside.join("shadow").display()));
    link(&place, "proc/sys/kernel/hostname", "../../../../outside/shadow");
    link(&place, "sys/kernel/debug/sched", &outside);
    link(&place, "etc/tuned", &outside);
    link(&place, "sys/class/net/eth0", &outside);
    link(&place, "sys/fs/cgroup/top", &outside);
    link(&place, "sys/fs/cgroup/below/cpu.weight", outside.join("cpu.weight"));
    // The file system in the list of mounts is in the tree, too.
    write(&place, "proc/mounts", "cgroup2 /../../outside cgroup2 rw 0 0\n");
    let before = taken(&place);
    write(&place, "proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    let snapshot = taken(&place);
    for snapshot in [before, snapshot.clone()] {
        let json = snapshot.to_json();
        assert!(!json.contains("secret"), "{json}");
        assert!(snapshot.settings.is_empty() && snapshot.networks.is_empty(), "{json}");
    }
    assert_eq!(snapshot.cgroups.iter().map(|group| group.path.as_str()).collect::<Vec<_>>(), ["/below"]);
    assert_eq!(snapshot.allowed_cpus(Tid(7)).map(ToString::to_string).as_deref(), Some("0"), "the rest is read");
    assert!(Live::new(&root(&place)).get("/sys/kernel/debug/sched/sched_x").is_err());
}

#[test]
fn links_lead_to_where_they_did_on_the_host() {
    let place = place();
    write(&place, "usr/lib/release", "6.1.0\n");
    link(&place, "proc/sys/kernel/osrelease", "/usr/lib/release");
    link(&place, "proc/sys/kernel/version", "../../../../../../../usr/lib/release");
    // The device's own directory has no interrupts, its parent has.
    write(&place, "sys/devices/pci/nic/irq", "31\n");
    write(&place, "sys/devices/pci/nic/virtio1/x", "");
    link(&place, "sys/class/net/eth0", "/sys/devices/virtual/eth0");
    link(&place, "sys/devices/virtual/eth0/device", "../../pci/nic/virtio1");
    write(&place, "proc/irq/31/smp_affinity_list", "0\n");
    write(&place, "proc/interrupts", "   CPU0\n 31:  1  MSI  x\n");
    // It masks a unit, whether or not there is such a device.
    write(&place, "usr/lib/systemd/system/a.service", "[Service]\nNice=-5\n");
    link(&place, "etc/systemd/system/a.service", "/dev/null");
    let snapshot = taken(&place);
    assert_eq!(snapshot.kernel.release.as_deref(), Some("6.1.0"));
    assert_eq!(snapshot.kernel.version.as_deref(), Some("6.1.0"));
    assert_eq!(snapshot.irqs[0].devices, ["net/eth0"]);
    assert_eq!(snapshot.configured, []);
}

#[test]
fn nothing_is_waited_for() {
    let place = place();
    write(&place, "proc/7/task/7/stat", TASK);
    write(&place, "proc/8/task/8/stat", &TASK.replace('7', "8"));
    write(&place, "proc/8/task/8/status", "Cpus_allowed_list:\t0\n");
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
    let tree = root(&place);
    let got = in_time(move || Live::new(&tree).get("sched_rt_runtime_us").map_err(|error| error.to_string()));
    assert!(got.expect_err("no file").contains("sched_rt_runtime_us: this system does not have it"));
    let tree = root(&place);
    in_time(move || unstarve_host::allows(&tree));
}

#[test]
fn what_is_no_tree_is_said() {
    let place = place();
    root(&place).check().expect("a host");
    let missing = Root::at(place.path().join("none")).check().expect_err("nothing");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    fifo(&place, "fifo/proc");
    let no_directory = Root::at(place.path().join("host/fifo")).check().expect_err("a FIFO");
    assert_eq!(no_directory.kind(), std::io::ErrorKind::NotADirectory);
    // A link out of the tree does not count as /proc.
    link(&place, "linked/proc", "/proc");
    assert!(Root::at(place.path().join("host/linked")).check().is_err());
}
