//! Every command with arguments, files and descriptors that nobody means: never a panic, an abort, a hang.
//!
//! What commands and options there are is asked of the program's own help, so that a new one is abused, too.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_unstarve");

/// Of a single run, in seconds. It is the debug build, beside other tests.
const LIMIT: &str = "30";

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A command with arguments that make it work; what follows `--` on its line are options that take no part.
struct Sound {
    name: &'static str,
    arguments: Vec<String>,
}

/// Commands that change the machine, run as long as they are told to, or fetch from the network, are abused in the live tests
/// of their own crates: record, guard apply, run, verify and dead-man, lab kernel add and qemu add.
fn sound() -> Vec<Sound> {
    let trace = testdata("traces/fsdevel-perf-script.txt");
    let snapshot = testdata("snapshots/storage-controller-5.10.json");
    let policy = format!("{}/../../examples/policies/dio-workers.toml", env!("CARGO_MANIFEST_DIR"));
    let of = |name: &'static str, arguments: &[&str]| Sound {
        name,
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
    };
    vec![
        of("explain", &[&trace]),
        of("explain", &[&trace, "--json"]),
        of("report", &[&trace, "-o", "-"]),
        of("timeline", &[&trace]),
        of("timeline", &[&trace, "--summary"]),
        of("compare", &[&trace, &trace]),
        of("compare", &[&trace, &trace, "--json"]),
        of("compare", &[&snapshot, &snapshot]),
        of("export", &[&trace, "--format", "perfetto", "-o", "-"]),
        of("export", &[&trace, "--format", "firefox", "-o", "-"]),
        of("export", &[&trace, "--format", "folded", "-o", "-"]),
        of("export", &[&trace, "--format", "csv", "-o", "-"]),
        of("top", &[&trace, "--once"]),
        of("top", &[&trace, "--json"]),
        of("check", &["--snapshot", &snapshot]),
        of("check", &["--snapshot", &snapshot, "--json"]),
        of("check", &["--snapshot", &snapshot, "--sarif"]),
        of("check", &["--rules"]),
        of("snapshot", &[]),
        of("knobs explain", &["sched_rt_runtime_us"]),
        of("knobs list", &["--snapshot", &snapshot]),
        of("knobs get", &["sched_rt_runtime_us"]),
        of("knobs set", &["sched_rt_runtime_us", "950000", "--dry-run"]),
        of("knobs undo", &["--journal", "none/journal"]),
        of("knobs diff", &["--kernel", "5.10", "--kernel", "6.12"]),
        of("knobs diff", &[&snapshot, &snapshot]),
        of("guard plan", &["--policy", &policy]),
        of("guard status", &["--state", "none"]),
        of("guard schema", &[]),
        of("lab list", &[]),
        of("lab list", &["kubepods"]),
        of("lab runs list", &[]),
        of("lab runs list", &["--json"]),
        of("lab runs clean", &["--keep", "1"]),
        of("lab kernel list", &[]),
        of("lab kernel list", &["--json"]),
        of("lab kernel remove", &["none"]),
        of("lab run", &["kubepods", "--kernel", "6.1"]),
        of("lab compare", &["kubepods", "--a", "kernel=6.1"]),
        of("lab bisect", &["kubepods", "--a", "kernel=6.1", "--b", "kernel=6.12"]),
        of("lab prove", &["raise-worker", "--scenario", "kubepods", "--kernel", "6.1"]),
        of("lab truth", &["--scenario", "spike"]),
        of("lab repeat", &["kubepods", "--kernel", "6.1"]),
        of("lab replay", &[&trace, "--kernel", "6.1"]),
    ]
}

/// Where it runs: nothing that it writes under a silly name stays, and no lab of the user is touched.
fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn command(place: &Path, name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "2", LIMIT, PROGRAM]).args(name.split(' ')).args(arguments);
    command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("XDG_CACHE_HOME", place).env("HOME", place).env_remove("RUST_BACKTRACE");
    command
}

/// What is wrong with how it ended, if anything is.
fn complaint(mut command: Command, allowed: &[i32]) -> Option<String> {
    let status = command.status().expect("timeout(1) can be started");
    let what = match (status.code(), status.signal()) {
        (Some(code), _) if allowed.contains(&code) => return None,
        (Some(124 | 137), _) => "hung".to_owned(),
        (Some(101 | 134), _) => "panicked".to_owned(),
        (code, signal) => format!("ended with {code:?}, signal {signal:?}"),
    };
    let words: Vec<_> =
        command.get_args().skip(4).map(|word| word.to_string_lossy().chars().take(60).collect::<String>()).collect();
    Some(format!("{what}: unstarve {}", words.join(" ")))
}

/// Runs all, a few at a time; none may complain.
fn check_all(runs: Vec<(Command, &'static [i32])>) {
    let count = runs.len();
    let (runs, wrong) = (Mutex::new(runs.into_iter()), Mutex::new(Vec::new()));
    let next = || runs.lock().expect("no panic").next();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((command, allowed)) = next() {
                    let complaint = complaint(command, allowed);
                    wrong.lock().expect("no panic").extend(complaint);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

const ANY_EXIT_CODE: &[i32] = &[0, 1, 2, 3];

/// And that of what ended before it had read what it was asked for.
const UNREAD: &[i32] = &[0, 1, 2, 141];

#[test]
fn nobody_reads_what_is_written() {
    let place = place();
    let mut runs = Vec::new();
    let helps = [("--help", vec![]), ("--version", vec![]), ("lab truth", vec!["--help".to_owned()])];
    let all = sound().into_iter().map(|sound| (sound.name, sound.arguments)).chain(helps);
    for (name, arguments) in all {
        for closed in ["both", "out", "error"] {
            let mut to = command(place.path(), name, &arguments);
            if closed != "error" {
                to.stdout(nobody());
            }
            if closed != "out" {
                to.stderr(nobody());
            }
            runs.push((to, UNREAD));
        }
        let mut full = command(place.path(), name, &arguments);
        let device = || File::options().write(true).open("/dev/full").expect("a device");
        full.stdout(device()).stderr(device());
        runs.push((full, ANY_EXIT_CODE));
        // Without any standard descriptors.
        let mut shell = Command::new("sh");
        let closed = command(place.path(), name, &arguments);
        shell.arg("-c").arg("exec \"$@\" <&- >&- 2>&-").arg("sh").arg(closed.get_program()).args(closed.get_args());
        shell.current_dir(place.path()).env("XDG_CACHE_HOME", place.path()).env("HOME", place.path());
        runs.push((shell, ANY_EXIT_CODE));
    }
    check_all(runs);
}

/// A pipe whose reader is gone.
fn nobody() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer
}

/// What a command's help says of its options with a value: `--for`, `-o`.
fn options(name: &str) -> Vec<String> {
    let output = Command::new(PROGRAM).args(name.split(' ')).arg("--help").output().expect("started");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let option = |line: &str| {
        let line = line.trim_start();
        let at = line.starts_with('-').then(|| line.find("--")).flatten()?;
        let (option, rest) = line.get(at..)?.split_once(' ')?;
        rest.trim_start().starts_with('<').then(|| option.to_owned())
    };
    text.lines().filter_map(option).collect()
}

/// The sound arguments with one option given anew.
fn with(arguments: &[String], option: &str, value: &OsStr) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut skip = false;
    for word in arguments {
        let is_it = word == option || option == "--output" && word == "-o";
        if !is_it && !skip {
            words.push(word.into());
        }
        skip = is_it;
    }
    let mut both = OsString::from(option);
    both.push("=");
    both.push(value);
    words.push(both);
    words
}

const EXTREME: [&str; 26] = [
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "4294967296",
    "65536",
    "1e308",
    "-1e308",
    "1e-320",
    "nan",
    "inf",
    "",
    "99999999999999999999999h",
    "18446744073709551615s",
    "+18446744073709551615s",
    "+1e300s",
    "0.0000000001ms",
    "584y",
    "0-18446744073709551615",
    "0-4294967295",
    "4294967295",
    "*",
    "💥",
    "6.999999999999",
];

#[test]
fn numbers_that_nobody_means() {
    let place = place();
    let mut runs = Vec::new();
    for Sound { name, arguments } in sound() {
        for option in options(name) {
            // A guest of a real lab is not meant; none can be booted here anyway.
            for value in EXTREME {
                runs.push((command(place.path(), name, with(&arguments, &option, OsStr::new(value))), ANY_EXIT_CODE));
            }
        }
    }
    assert!(runs.len() > 1000, "only {} runs: is the help read right?", runs.len());
    check_all(runs);
}

#[test]
fn words_that_are_no_text() {
    let place = place();
    let wrong = OsStr::from_bytes(b"\xff\xfe\x1b[2J");
    let mut runs = Vec::new();
    for Sound { name, arguments } in sound() {
        for option in options(name) {
            runs.push((command(place.path(), name, with(&arguments, &option, wrong)), ANY_EXIT_CODE));
        }
        for at in 0..arguments.len() {
            let mut words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            words[at] = wrong.to_owned();
            runs.push((command(place.path(), name, words), ANY_EXIT_CODE));
        }
        runs.push((command(place.path(), name, [wrong; 3]), ANY_EXIT_CODE));
    }
    check_all(runs);
}

/// Files in place of those that are meant.
fn strange_files(place: &Path) -> Vec<OsString> {
    let file = |name: &str, bytes: &[u8]| {
        let path = place.join(name);
        fs::write(&path, bytes).expect("written");
        path.into_os_string()
    };
    let mut state = 0x9e37_79b9_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let noise: Vec<u8> = (0..8192).map(|_| noise()).collect();
    let trace = fs::read(testdata("traces/linux-7-lab-nfsd-healthy.dat.zst")).expect("a recording");
    let snapshot = fs::read(testdata("snapshots/storage-controller-5.10.json")).expect("a snapshot");
    let deep = [b"[".repeat(200_000), b"]".repeat(200_000)].concat();
    let mut files = vec![
        file("empty", b""),
        file("newline", b"\n"),
        file("noise", &noise),
        file("half.zst", &trace[..trace.len() / 2]),
        file("half.json", &snapshot[..snapshot.len() / 2]),
        file("deep.json", &deep),
        file("trace.head", b"\x17\x08\x44tracing6\0"),
        file("perf.head", b"PERFILE2"),
        file("gzip.head", b"\x1f\x8b\x08"),
        file("line", &b"x".repeat(3 << 20)),
        file("numbers.json", br#"{"schema":"unstarve.snapshot/1","kernel":{},"tasks":[{"tid":4294967295,"comm":"","policy":"fifo","rt_priority":4294967295,"nice":-2147483648,"start_ticks":18446744073709551615,"cpu_ticks":18446744073709551615,"allowed":"0-4294967294"}],"uptime_ticks":0,"cgroups":[{"path":"","weight":4294967295}],"cpus":{"online":"0-8191"}}"#),
        file("names.json", "{\"schema\":\"unstarve.snapshot/1\",\"kernel\":{\"release\":\"\\u001b[2J\"},\"settings\":{\"\":\"\",\"/proc/sys/kernel/sched_é\":\"é\"}}".as_bytes()),
    ];
    // Not above it: a recording may have any length, and nobody ends these.
    files.extend([
        place.as_os_str().to_owned(),
        "/dev/null".into(),
        "/proc/self/mem".into(),
        "/nonexistent".into(),
        "".into(),
    ]);
    files
}

#[test]
fn files_that_are_something_else() {
    let place = place();
    let files = strange_files(place.path());
    let mut runs = Vec::new();
    for Sound { name, arguments } in sound() {
        for (at, argument) in arguments.iter().enumerate().filter(|(_, argument)| argument.starts_with('/')) {
            assert!(Path::new(argument).exists(), "{argument}");
            for file in &files {
                let mut words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
                words[at].clone_from(file);
                runs.push((command(place.path(), name, words), ANY_EXIT_CODE));
            }
        }
    }
    for file in &files {
        for option in ["--latency-a", "--latency-b"] {
            let trace = testdata("traces/fsdevel-perf-script.txt").into();
            let words = [&trace, &trace, &OsString::from(option), file];
            runs.push((command(place.path(), "compare", words), ANY_EXIT_CODE));
        }
        runs.push((command(place.path(), "lab run", [OsStr::new("--kernel"), OsStr::new("6.1"), file]), &[2]));
    }
    check_all(runs);
}

/// What has no end is given up, not read until memory is full.
#[test]
fn files_without_an_end() {
    let place = place();
    let snapshot = testdata("snapshots/storage-controller-5.10.json");
    let trace = testdata("traces/fsdevel-perf-script.txt");
    let mut runs = Vec::new();
    for endless in ["/dev/zero", "/dev/urandom"] {
        for (name, words) in [
            ("check", vec!["--snapshot", endless]),
            ("knobs list", vec!["--snapshot", endless]),
            ("knobs diff", vec![&snapshot, endless]),
            ("knobs diff", vec![endless, &snapshot]),
            ("compare", vec![&trace, &trace, "--latency-a", endless]),
            ("lab run", vec!["--kernel", "6.1", endless]),
            ("lab kernel add", vec![endless]),
            ("explain", vec![endless]),
            ("report", vec![endless, "-o", "-"]),
            ("guard plan", vec!["--policy", endless]),
        ] {
            // So that what takes too much fails, and not the machine.
            let mut shell = Command::new("sh");
            let inner = command(place.path(), name, words);
            shell
                .arg("-c")
                .arg("ulimit -v 4000000; exec \"$@\"")
                .arg("sh")
                .arg(inner.get_program())
                .args(inner.get_args());
            shell.current_dir(place.path()).env("XDG_CACHE_HOME", place.path()).env("HOME", place.path());
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            runs.push((shell, &[2][..]));
        }
    }
    check_all(runs);
}

/// What is read whole may come through a pipe.
#[test]
fn a_snapshot_may_come_through_a_pipe() {
    let snapshot = fs::read(testdata("snapshots/kubernetes-node-6.1.json")).expect("a snapshot");
    for arguments in [["check", "--snapshot", "-"], ["check", "--snapshot", "/dev/stdin"]] {
        let mut child = Command::new(PROGRAM);
        let child = child.args(arguments).args(["--fail-on", "never"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().expect("started");
        child.stdin.take().expect("a pipe").write_all(&snapshot).expect("written");
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
}
