//! Recordings that lie about a live thread, tried at each door as root: a hostile user's process named like a kernel thread, and
//! root's own process, in a file that the user has written. Nothing changes, and the exit code says so.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// nobody.
const MALLORY: u32 = 65534;

/// A process that waits until the test is over, under a name of its own choice.
struct Process(Child);

impl Process {
    fn start(name: &str, before: &[&str], user: Option<u32>) -> Process {
        let wait = format!("printf {name} > /proc/self/comm; read -r line");
        let words = [before, &["sh", "-c", &wait]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).current_dir("/");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let process = Process(command.spawn().expect("a process"));
        let began = Instant::now();
        while process.name() != name {
            assert!(began.elapsed() < Duration::from_secs(30), "{name}: {}", process.name());
            std::thread::sleep(Duration::from_millis(2));
        }
        process
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.id())).unwrap_or_default().trim_end().to_owned()
    }

    fn stat(&self) -> Vec<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        fields.split_ascii_whitespace().map(str::to_owned).collect()
    }

    fn start_ticks(&self) -> u64 {
        self.stat()[19].parse().expect("ticks")
    }

    /// Nice, real-time priority, policy and CPUs.
    fn scheduling(&self) -> String {
        let stat = self.stat();
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).expect("its CPUs").to_owned();
        format!("nice {} priority {} policy {} {cpus}", stat[16], stat[37], stat[38])
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a forged snapshot says of a thread.
struct Claim<'a> {
    process: &'a Process,
    /// Whom it stands for in the recording: its name and thread.
    instead: (&'a str, u32),
    /// `None`: the snapshot does not have it at all, so that there is its name alone.
    is_kernel: Option<bool>,
    user: Option<u32>,
}

/// The lab's recording of a real-time monitor over ksoftirqd/1, of this boot and about these processes.
fn forged(claims: &[Claim<'_>]) -> Vec<u8> {
    let packed = format!("{}/../../testdata/traces/linux-6.12-lab-spike-faulty.dat.zst", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = Vec::new();
    let packed = File::open(packed).expect("a recording");
    std::io::copy(&mut zstd::Decoder::new(packed).expect("zstd"), &mut bytes).expect("unpacked");
    for claim in claims {
        let (name, tid) = claim.instead;
        let mut event = name.as_bytes().to_vec();
        event.resize(16, 0);
        event.extend(tid.to_le_bytes());
        let places: Vec<usize> =
            bytes.windows(event.len()).enumerate().filter(|(_, part)| *part == event).map(|(at, _)| at + 16).collect();
        assert!(places.len() > 10, "{name}: {}", places.len());
        for at in places {
            bytes[at..at + 4].copy_from_slice(&claim.process.id().to_le_bytes());
        }
    }
    let marker = br#"{"schema":"unstarve.snapshot"#;
    let begin = bytes.windows(marker.len()).position(|part| part == marker).expect("a snapshot");
    let size = u32::from_le_bytes(bytes[begin - 4..begin].try_into().expect("four bytes")) as usize;
    let end = begin + bytes[begin..begin + size].iter().rposition(|byte| *byte == b'}').expect("JSON") + 1;
    let mut snapshot: Value = serde_json::from_slice(&bytes[begin..end]).expect("JSON");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    snapshot["boot"] = json!(boot.trim());
    for field in ["settings", "workqueues", "irqs", "softirqs", "missing"] {
        snapshot.as_object_mut().expect("an object").remove(field);
    }
    let tasks = snapshot["tasks"].as_array_mut().expect("tasks");
    for claim in claims {
        let at = tasks.iter().position(|task| task["tid"] == claim.instead.1).expect("a task");
        let mut task = tasks.remove(at);
        let Some(is_kernel) = claim.is_kernel else { continue };
        task["tid"] = json!(claim.process.id());
        task["tgid"] = json!(claim.process.id());
        task["start_ticks"] = json!(claim.process.start_ticks());
        task["kernel_thread"] = json!(is_kernel);
        task["user"] = json!(claim.user);
        tasks.push(task);
    }
    let mut text = serde_json::to_vec(&snapshot).expect("JSON");
    assert!(text.len() <= end - begin, "{} of {}", text.len(), end - begin);
    text.resize(end - begin, b' ');
    bytes[begin..end].copy_from_slice(&text);
    bytes
}

/// A directory for all, with a recording of mallory's and the same of root's.
struct Files {
    _place: tempfile::TempDir,
    mallorys: PathBuf,
    roots: PathBuf,
    state: PathBuf,
}

impl Files {
    fn new(bytes: &[u8]) -> Files {
        let place = unstarve_testing::place_for_all().expect("a directory");
        let home = place.path().join("home");
        fs::create_dir(&home).expect("made");
        let (mallorys, roots) = (home.join("rt.dat"), place.path().join("rt.dat"));
        for file in [&mallorys, &roots] {
            fs::write(file, bytes).expect("written");
            fs::set_permissions(file, Permissions::from_mode(0o644)).expect("a mode");
        }
        for path in [&mallorys, &home] {
            chown(path, Some(MALLORY), Some(MALLORY)).expect("given away");
        }
        let state = place.path().join("state");
        Files { _place: place, mallorys, roots, state }
    }

    fn fix(&self, file: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.arg("fix").arg(file).args(["--finding", "rt-starvation", "--state"]).arg(&self.state).args(arguments);
        command.stdin(Stdio::null()).output().expect("it runs")
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Lines are wrapped.
fn one_line(output: &Output) -> String {
    text(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        unstarve_testing::not_possible_here("only root can start a process of another user, and could change it");
    }
    is_root
}

const FORMS: [&str; 7] = ["shell", "systemd", "sysctl", "tmpfiles", "cmdline", "guard", "tuned"];

fn ksoftirqd(process: &Process, is_kernel: Option<bool>) -> Claim<'_> {
    Claim { process, instead: ("ksoftirqd/1", 27), is_kernel, user: None }
}

#[test]
fn a_program_that_a_recording_calls_a_kernel_thread_is_raised_at_no_door() {
    if !is_root() {
        return;
    }
    let impostor = Process::start("ksoftirqd/1", &[], Some(MALLORY));
    let before = impostor.scheduling();
    for (is_kernel, reason) in [
        (Some(true), "is a program, and the recording says that it is a kernel thread"),
        (None, "is a program that calls itself ksoftirqd/1"),
    ] {
        let files = Files::new(&forged(&[ksoftirqd(&impostor, is_kernel)]));
        let target = impostor.id().to_string();
        let named = ["--remedy", "victim-above-intruder", "--target", &target];
        for file in [&files.mallorys, &files.roots] {
            for arguments in [&["--apply"][..], &["--apply", "--verify", "1s"], &[]] {
                let output = files.fix(file, &[&named, arguments].concat());
                let said = one_line(&output);
                assert!(output.status.code() == Some(1) && said.contains(reason), "{arguments:?}: {said}");
                assert_eq!(impostor.scheduling(), before, "{arguments:?}");
            }
            for form in FORMS {
                let output = files.fix(file, &[&named[..], &["--as", form]].concat());
                assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{form}: {}", text(&output));
                assert!(text(&output).contains(reason), "{form}: {}", text(&output));
            }
            // The default is another remedy, or none.
            let plan: Value = serde_json::from_slice(&files.fix(file, &["--json"]).stdout).expect("JSON");
            assert!(!plan["plan"].to_string().contains(&format!("\"tid\":{target},")), "{plan:#}");
        }
        // What a report prints is run by hand, where nothing else looks.
        let mut explain = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        let output =
            explain.args(["explain", "--json", "--fail-on", "never"]).arg(&files.roots).output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        let remedies = findings.iter().flat_map(|finding| finding["remedies"].as_array().expect("remedies"));
        let raising: Vec<&str> = remedies
            .filter(|remedy| remedy["id"] == "victim-above-intruder")
            .filter_map(|remedy| remedy["apply"].as_str())
            .filter(|line| line.contains(&target))
            .collect();
        assert!(!raising.is_empty(), "{report:#}");
        for line in raising {
            let ran = Command::new("sh").args(["-euc", line]).output().expect("sh");
            assert!(String::from_utf8_lossy(&ran.stderr).contains("has ended"), "{line}: {}", text(&ran));
            assert_eq!(impostor.scheduling(), before, "{line}");
            if let Some(file) = line.split("u=").nth(1).and_then(|rest| rest.split(';').next()) {
                assert!(file.starts_with("/run/unstarve-undo-"), "{line}");
                let _ = fs::remove_file(file);
            }
        }
    }
}

#[test]
fn nothing_is_chosen_out_of_a_recording_that_others_could_have_written() {
    if !is_root() {
        return;
    }
    let impostor = Process::start("ksoftirqd/1", &[], Some(MALLORY));
    let before = impostor.scheduling();
    let files = Files::new(&forged(&[ksoftirqd(&impostor, Some(true))]));
    let asked = ["--apply", "--as shell", "--as guard", "--as sysctl", "--apply --verify 1s"];
    let refused = |output: &Output, whose: &str| {
        let said = one_line(output);
        let says_whose = said.contains(whose) && said.contains("could have written anything in it");
        assert!(output.status.code() == Some(2) && says_whose && said.contains("--remedy N"), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        assert_eq!(impostor.scheduling(), before);
    };
    for words in asked {
        let words: Vec<&str> = words.split(' ').collect();
        refused(&files.fix(&files.mallorys, &words), "home belongs to uid 65534");
    }
    // Root's file that others can write, a packed one, and one that comes through a pipe.
    fs::set_permissions(&files.roots, Permissions::from_mode(0o666)).expect("a mode");
    refused(&files.fix(&files.roots, &["--apply"]), "mode 0666 lets its group and others write it");
    let bytes = fs::read(&files.roots).expect("read");
    let packed = files.mallorys.with_extension("zst");
    fs::write(&packed, zstd::encode_all(&bytes[..], 1).expect("packed")).expect("written");
    refused(&files.fix(&packed, &["--apply"]), "belongs to uid 65534");
    for stdin_is_root_s_file in [false, true] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.args(["fix", "-", "--apply", "--state"]).arg(&files.state);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = match stdin_is_root_s_file {
            true => command.stdin(File::open(&files.roots).expect("opened")).spawn().expect("it runs"),
            false => {
                let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
                child.stdin.take().expect("a pipe").write_all(&bytes).expect("read to its end");
                child
            }
        };
        refused(&child.wait_with_output().expect("ended"), "it came through standard input");
    }
    assert!(!files.state.exists(), "there is no journal of nothing");
    // The plan may be seen; it says whose the recording is.
    let plan = files.fix(&files.mallorys, &[]);
    assert!(one_line(&plan).contains("uid 65534 could have written anything in this recording"), "{}", text(&plan));
}

/// The monitor is root's own, and would be made an ordinary task.
#[test]
fn another_user_s_recording_lowers_root_s_process_only_if_that_is_named() {
    if !is_root() {
        return;
    }
    let Some(chrt) = unstarve_testing::tool("chrt") else { return };
    let chrt = chrt.display().to_string();
    let monitor = Process::start("monitor", &[&chrt, "--rr", "10"], None);
    let before = monitor.scheduling();
    if !before.contains("policy 2 ") {
        return unstarve_testing::not_possible_here("real-time policies");
    }
    let claim = Claim { process: &monitor, instead: ("monitor", 142), is_kernel: Some(false), user: Some(0) };
    let files = Files::new(&forged(&[claim]));
    let target = monitor.id().to_string();
    let named = ["--remedy", "intruder-to-fair"];
    for arguments in [&["--apply"][..], &["--apply", "--target", "1"], &[], &["--as", "shell"], &["--as", "guard"]] {
        let output = files.fix(&files.mallorys, &[&named, arguments].concat());
        let said = one_line(&output);
        assert!(output.status.code() == Some(1), "{arguments:?}: {said}");
        assert!(said.contains("uid 0: rr 10 -> other: uid 65534 could have written this"), "{arguments:?}: {said}");
        assert!(said.contains(&format!("--remedy N --target {target}")), "{arguments:?}: {said}");
        assert_eq!(monitor.scheduling(), before, "{arguments:?}");
    }
    // A recording of root's needs no more than before, and says for whom the task runs.
    let plan: Value =
        serde_json::from_slice(&files.fix(&files.roots, &[&named[..], &["--json"]].concat()).stdout).expect("JSON");
    let planned = plan["plan"].as_array().expect("changes");
    let users: Vec<&Value> = planned
        .iter()
        .flat_map(|planned| planned["steps"].as_array().expect("steps"))
        .map(|step| &step["user"])
        .collect();
    assert_eq!(users, [&json!(0), &json!(0)], "{plan:#}");
    assert!(planned.iter().all(|planned| planned["obstacle"].is_null()), "{plan:#}");
    assert_eq!(plan["written_by_others"], Value::Null);
    let output = files.fix(&files.mallorys, &[&named[..], &["--apply", "--target", &target]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(monitor.scheduling().contains("nice -10 priority 0 policy 0 "), "{}", monitor.scheduling());
    let mut undo = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    let undone = undo.args(["fix", "--undo", "--state"]).arg(&files.state).output().expect("it runs");
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(monitor.scheduling(), before);
}

/// The third attack: what is no intruder at all would get a better nice than it has.
#[test]
fn a_recording_raises_no_program_of_its_author_s() {
    if !is_root() {
        return;
    }
    let own = Process::start("monitor", &[], Some(MALLORY));
    let before = own.scheduling();
    for user in [Some(MALLORY), None, Some(0)] {
        let claim = Claim { process: &own, instead: ("monitor", 142), is_kernel: Some(false), user };
        let files = Files::new(&forged(&[claim]));
        for arguments in [&["--apply"][..], &["--as", "shell"], &["--as", "systemd"]] {
            let output = files.fix(&files.mallorys, &[&["--remedy", "intruder-to-fair"], arguments].concat());
            let said = one_line(&output);
            assert!(
                output.status.code() == Some(1) && output.stdout.is_empty() != (arguments[0] == "--apply"),
                "{said}"
            );
            let reason = if user == Some(0) {
                "runs for uid 65534, and the recording says for uid 0"
            } else {
                "uid 65534: nice 0 -> nice -10"
            };
            assert!(said.contains(reason), "{user:?} {arguments:?}: {said}");
            assert_eq!(own.scheduling(), before, "{user:?} {arguments:?}");
        }
    }
}
