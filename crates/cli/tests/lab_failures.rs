//! What a user is told when a guest goes wrong, with a stand-in for QEMU: no guest is booted.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "nothing"
title = "Nothing is wrong"
source = "a test"
cpus = 1
seconds = 1.0
[[load]]
name = "daemon"
argv = ["load", "daemon", "seconds={seconds}"]
main = true
[expect]
finding = []
metrics = []
"#;

#[test]
fn a_table_of_no_proofs_is_not_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = directory.path().join("proofs.tsv");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    lab.args(["lab", "proofs", "--cells"]).arg(directory.path()).arg("--table").arg(&table);
    let done = lab.output().expect("unstarve");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && said.contains("no outcome of `lab prove --all --cells`"), "{said}");
    assert!(!table.exists());
}

/// A cache with one kernel, a scenario, and a QEMU that does what a test wants.
struct Bench {
    directory: TempDir,
}

impl Bench {
    /// `acts` is the shell script that the stand-in runs when it is to boot a guest.
    fn new(version: &str, acts: &str) -> Bench {
        let bench = Bench { directory: tempfile::tempdir().expect("a directory") };
        bench.write("scenario.toml", SCENARIO);
        let builtin = "kernel/drivers/virtio/virtio_mmio.ko\nkernel/drivers/block/virtio_blk.ko\n";
        bench.write("modules/modules.builtin", builtin);
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x306].copy_from_slice(b"6.1.0 ");
        fs::write(bench.path("bzImage"), image).expect("written");
        let script = format!(
            "#!/bin/sh\nif [ \"$*\" = --version ]; then echo 'QEMU emulator version {version}'; exit; fi\n{acts}\n"
        );
        fs::create_dir_all(bench.path("bin")).expect("made");
        // Whatever the umask is: others must not be able to write it.
        fs::set_permissions(bench.path("bin"), fs::Permissions::from_mode(0o755)).expect("a mode");
        unstarve_testing::install_script(&script, &bench.path("bin/qemu-system-x86_64")).expect("written");
        let added = bench.output(&["kernel", "add", "bzImage", "--modules", "modules", "--name", "test"]);
        assert!(added.status.success(), "{}", said(&added));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command.arg("lab").args(arguments).current_dir(self.directory.path());
        command.env("PATH", path).env("XDG_CACHE_HOME", self.path("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments).spawn().expect("it can be started"))
    }

    /// Runs the scenario, which fails; what is said, without the stages.
    fn failure(&self, more: &[&str]) -> String {
        let output = self.output(&[&["run", "scenario.toml", "--kernel", "test"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        self.assert_nothing_is_left();
        let lines: Vec<String> = said(&output).lines().map(str::to_owned).collect();
        let lines = lines.iter().skip_while(|line| is_stage(line));
        lines.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn assert_nothing_is_left(&self) {
        let runs = self.path("cache/unstarve/lab/runs/nothing/test");
        let left: Vec<PathBuf> =
            fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        self.assert_no_process_is_left();
    }

    fn assert_no_process_is_left(&self) {
        // What was killed may take a moment to be gone.
        let until = Instant::now() + Duration::from_secs(5);
        while !processes_with(self.directory.path()).is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(processes_with(self.directory.path()), Vec::<String>::new());
    }
}

fn is_stage(line: &str) -> bool {
    ["boot", "modules", "setup", "record", "load", "collect", "done"]
        .iter()
        .any(|stage| line.strip_prefix("unstarve: ") == Some(stage))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Nothing here takes as long.
const LIMIT: Duration = Duration::from_secs(60);

fn finish(mut child: Child) -> Output {
    let until = Instant::now() + LIMIT;
    while child.try_wait().expect("it can be waited for").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            panic!("took longer than {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("its output")
}

/// The processes that have something in a directory open, ours left out: a guest's files are given to QEMU by descriptor, and what it starts
/// inherits them.
fn processes_with(directory: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok).map(|entry| entry.path());
    let has_open = |process: &PathBuf| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().filter_map(Result::ok);
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|open| open.starts_with(directory))
    };
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let others = processes.filter(|process| *process != own && has_open(process));
    others.map(|process| format!("{}: {}", process.display(), name_of(&process))).collect()
}

fn name_of(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

#[test]
fn a_panic_is_told_with_the_last_lines() {
    let panic = "echo '[    1.0] VFS: Cannot open root device'\n\
                 echo '[    1.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)'";
    assert_eq!(
        Bench::new("10.0.2", panic).failure(&[]),
        "unstarve: the guest failed in stage `boot`: the guest's kernel panicked: VFS: Unable to mount root fs on \
         unknown-block(0,0)\n    | [    1.0] VFS: Cannot open root device\n    | [    1.1] Kernel panic - not syncing: \
         VFS: Unable to mount root fs on unknown-block(0,0)"
    );
}

#[test]
fn a_guest_says_itself_why_it_failed() {
    let failed = r#"echo '@unstarve {"stage":"setup","failed":"this kernel has no scheduler feature X"}'; sleep 30"#;
    assert_eq!(
        Bench::new("7.2.1", failed).failure(&[]),
        "unstarve: the guest failed in stage `setup`: this kernel has no scheduler feature X"
    );
}

#[test]
fn want_of_memory_is_the_reason_even_if_something_else_fails_after_it() {
    let killed = r#"echo '[ 3.0] Out of memory: Killed process 81 (fio) total-vm:900kB'
        echo '@unstarve {"stage":"load","failed":"load `fio` ended with signal: 9"}'; sleep 30"#;
    let failure = Bench::new("10.0.2", killed).failure(&[]);
    assert!(failure.contains("stage `load`: the guest ran out of memory (81 (fio) total-vm:900kB)"), "{failure}");
}

#[test]
fn a_hang_ends_at_the_limit() {
    let hang = r#"echo '@unstarve {"stage":"load"}'; trap '' TERM INT; sleep 30 & sleep 30"#;
    let failure = Bench::new("10.0.2", hang).failure(&["--limit", "1"]);
    assert_eq!(failure, "unstarve: the guest was still in stage `load` after 1 s");
}

#[test]
fn a_guest_that_falls_silent_is_given_up() {
    let hang = r#"echo '[ 0.1] PCI: probing'; sleep 30"#;
    let failure = Bench::new("10.0.2", hang).failure(&["--stall", "1"]);
    let expected =
        "unstarve: the guest hangs in stage `boot`: nothing on its console for 1 s\n    | [ 0.1] PCI: probing";
    assert_eq!(failure, expected);
}

#[test]
fn an_early_end_shows_what_qemu_said() {
    let failure = Bench::new("10.0.2", "echo 'qemu: could not load kernel' >&2; exit 1").failure(&[]);
    let expected = "unstarve: QEMU ended in stage `boot`, before the guest was done (exit status: 1: qemu: could not load \
                    kernel)";
    assert_eq!(failure, expected);
}

#[test]
fn results_that_are_none_are_not_kept() {
    let failure = Bench::new("10.0.2", r#"echo '@unstarve {"stage":"done","release":"6.1.0"}'"#).failure(&[]);
    assert_eq!(failure, "unstarve: the guest returned no trace.dat");
}

#[test]
fn an_old_qemu_is_refused_for_several_cpus_only() {
    let bench = Bench::new("7.2.17 (Debian 1:7.2)", "exit 3");
    assert!(bench.failure(&[]).contains("before the guest was done"));
    bench.write("scenario.toml", &SCENARIO.replace("cpus = 1", "cpus = 2"));
    let failure = bench.failure(&[]);
    let expected = "qemu-system-x86_64 is version 7.2.17; 2 CPUs in virtual time need QEMU 10 or later (older ones hang \
                    when they start the second CPU): run `unstarve lab qemu add`";
    assert!(failure.ends_with(expected), "{failure}");
}

#[test]
fn what_is_absent_is_named_with_what_to_do() {
    let bench = Bench::new("10.0.2", "exit 3");
    let kernel = said(&bench.output(&["run", "scenario.toml", "--kernel", "6.1"]));
    assert!(kernel.contains("no kernel `6.1` in the store (there are: test); add it with"), "{kernel}");
    bench.write("scenario.toml", &SCENARIO.replace("seconds = 1.0", "seconds = 1.0\nmodules = [\"xfs\"]"));
    let module = bench.failure(&[]);
    assert!(
        module.starts_with("unstarve: kernel 6.1.0 has no module `xfs`: there is neither a file of it"),
        "{module}"
    );
    bench.write("scenario.toml", &SCENARIO.replace("seconds = 1.0", "seconds = 1.0\ntools = [\"no-such-tool\"]"));
    let tool = bench.failure(&[]);
    assert_eq!(tool, "unstarve: the scenario needs `no-such-tool`, which is not installed on this host");
    fs::create_dir(bench.path("empty")).expect("made");
    let mut without = bench.command(&["run", "scenario.toml", "--kernel", "test"]);
    let qemu = said(&finish(without.env("PATH", bench.path("empty")).spawn().expect("it can be started")));
    if !Path::new("/usr/sbin/qemu-system-x86_64").exists() {
        let expected = "unstarve: no qemu-system-x86_64 on PATH; install the package qemu-system-x86, or let `unstarve \
                        lab qemu add` fetch one for the lab alone\n";
        assert_eq!(qemu, expected);
    }
    let remedy = bench.failure(&["--remedy", "prayer"]);
    let expected =
        "unstarve: scenario nothing has no remedy `prayer`; it has none of its own; remedies of explain are ";
    assert!(remedy.starts_with(expected) && remedy.contains("batch-wakee"), "{remedy}");
}

#[test]
fn a_kvm_that_runs_no_kernel_is_blamed() {
    let failure = Bench::new("10.0.2", "echo 'failed to set MSR 0x10a' >&2; exit 3").failure(&["--kvm"]);
    if fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        assert!(failure.starts_with("unstarve: --kvm: /dev/kvm cannot be used: "), "{failure}");
        return;
    }
    let (first, then) = failure.split_once('\n').expect("two lines");
    let expected =
        "unstarve: QEMU ended in stage `boot`, before the guest was done (exit status: 3: failed to set MSR 0x10a)";
    assert_eq!(first, expected);
    assert!(then.starts_with("with --kvm the guest's kernel did not even come up"), "{failure}");
    let silent = Bench::new("10.0.2", "sleep 30").failure(&["--kvm", "--stall", "1"]);
    assert!(silent.contains("nothing on its console for 1 s\nwith --kvm"), "{silent}");
    // One that came up has another reason.
    let later = Bench::new("10.0.2", r#"echo '@unstarve {"stage":"load"}'; exit 3"#).failure(&["--kvm"]);
    assert!(!later.contains("--kvm"), "{later}");
}

#[test]
fn an_interrupt_leaves_no_process_and_no_result() {
    assert_interrupt_leaves_nothing(1);
}

#[test]
fn nor_does_it_with_a_supervisor_in_between() {
    assert_interrupt_leaves_nothing(2);
}

#[test]
fn a_supervised_end_shows_what_qemu_said() {
    let bench = Bench::new("10.0.2", "echo 'qemu: could not load kernel' >&2; exit 3");
    bench.write("scenario.toml", &SCENARIO.replace("cpus = 1", "cpus = 2"));
    let expected = "unstarve: QEMU ended in stage `boot`, before the guest was done (exit status: 3: qemu: could not load \
                    kernel)";
    assert_eq!(bench.failure(&[]), expected);
}

fn assert_interrupt_leaves_nothing(cpus: u32) {
    let bench = Bench::new("10.0.2", HANGS);
    let (heard, output) = bench.end_while_it_runs(cpus, rustix::process::Signal::INT);
    assert_eq!(output.status.code(), Some(2), "{heard}");
    assert!(heard.ends_with("unstarve: interrupted; nothing was kept\n"), "{heard}");
    bench.assert_nothing_is_left();
}

/// What root's QEMU is ends with the lab, too: a change of users would clear what the kernel was asked for.
#[test]
fn a_killed_lab_leaves_no_process() {
    for cpus in [1, 2] {
        let bench = Bench::new("10.0.2", HANGS);
        let (heard, output) = bench.end_while_it_runs(cpus, rustix::process::Signal::KILL);
        assert_eq!(output.status.code(), None, "{heard}");
        bench.assert_no_process_is_left();
    }
}

const HANGS: &str = r#"echo '@unstarve {"stage":"load"}'; trap '' TERM INT; exec sleep 30"#;

impl Bench {
    fn end_while_it_runs(&self, cpus: u32, signal: rustix::process::Signal) -> (String, Output) {
        self.write("scenario.toml", &SCENARIO.replace("cpus = 1", &format!("cpus = {cpus}")));
        let mut child = self.command(&["run", "scenario.toml", "--kernel", "test"]).spawn().expect("it can be started");
        let mut stderr = child.stderr.take().expect("a pipe");
        let mut heard = String::new();
        let until = Instant::now() + LIMIT;
        while !heard.contains("unstarve: load") {
            let mut bytes = [0; 256];
            let length = stderr.read(&mut bytes).expect("it can be read");
            assert!(length > 0 && Instant::now() < until, "no guest was started: {heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        assert!(processes_with(self.directory.path()).len() > 1, "the lab and QEMU can be seen");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).expect("it lives");
        let output = finish(child);
        stderr.read_to_string(&mut heard).expect("it can be read");
        (heard, output)
    }
}

/// In a mount namespace of its own, which takes the small file system along when it ends.
#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let bench = Bench::new("10.0.2", "exit 3");
    let full = bench.path("full");
    fs::create_dir(&full).expect("made");
    let script = "mount -t tmpfs -o size=256k none full || exit 77\n\
                  \"$0\" lab run scenario.toml --kernel test --out full/result; status=$?\n\
                  [ -z \"$(ls -A full)\" ] || exit 78\nexit $status";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_unstarve")]).current_dir(bench.directory.path());
    command.env("PATH", format!("{}:/usr/bin:/bin", bench.path("bin").display()));
    command.env("XDG_CACHE_HOME", bench.path("cache"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().expect("it can be started"));
    if output.status.code() == Some(77) || said(&output).contains("unshare failed: Operation not permitted") {
        unstarve_testing::not_possible_here("needs root for a small file system");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("No space left on device"), "{}", said(&output));
}
