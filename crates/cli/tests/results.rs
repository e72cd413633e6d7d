//! Where results go: files, devices, FIFOs, links, full and closed things. Root runs this program: what it replaces is gone.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const LIMIT: &str = "60";

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Each command that writes a result to a file of the user's choice.
fn writers() -> Vec<Vec<String>> {
    let trace = testdata("traces/fsdevel-perf-script.txt");
    let own = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    vec![
        own(&["snapshot"]),
        own(&["snapshot", "--redact"]),
        own(&["report", &trace]),
        own(&["compare", &trace, &trace]),
        own(&["export", &trace, "--format", "perfetto"]),
        own(&["export", &trace, "--format", "firefox"]),
        own(&["export", &trace, "--format", "folded"]),
        own(&["export", &trace, "--format", "csv"]),
    ]
}

/// Killed by timeout(1) if it hangs.
fn command(arguments: &[String], output: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", LIMIT, env!("CARGO_BIN_EXE_unstarve")]).args(arguments).arg("-o").arg(output);
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &[String], output: &Path) -> Output {
    command(arguments, output).output().expect("it can be started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// Runs it for every command, with a fresh directory.
fn for_each(check: impl Fn(&[String], &Path)) {
    for arguments in writers() {
        let place = place();
        check(&arguments, place.path());
    }
}

#[test]
fn a_result_is_whole_private_and_alone() {
    for_each(|arguments, place| {
        let file = place.join("result");
        // The name that earlier versions wrote to, and followed: of any process that may come.
        let victim = place.join("victim");
        fs::write(&victim, "precious").expect("written");
        let output = run(arguments, &file);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        assert_eq!(names(place), ["result", "victim"], "{arguments:?}");
        let metadata = file.metadata().expect("a result");
        assert_eq!((metadata.mode() & 0o7777, metadata.len() > 0), (0o600, true), "{arguments:?}");
        let first = metadata.ino();
        assert!(run(arguments, &file).status.success());
        assert_ne!(file.metadata().expect("a result").ino(), first, "{arguments:?}: a new file, not the old one anew");
    });
}

#[test]
fn devices_stay_devices() {
    for_each(|arguments, _| {
        let output = run(arguments, Path::new("/dev/null"));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        let output = run(arguments, Path::new("/dev/full"));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("No space left on device"), "{arguments:?}: {}", said(&output));
        for device in ["/dev/null", "/dev/full"] {
            let kind = fs::symlink_metadata(device).expect("there").file_type();
            assert!(kind.is_char_device(), "{arguments:?}: {device}");
        }
    });
}

#[test]
fn dev_stdout_is_standard_output_whatever_that_is() {
    for_each(|arguments, place| {
        let before = fs::read_link("/dev/stdout").expect("a link");
        let stdout = Path::new("/dev/stdout");
        let output = run(arguments, stdout);
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}: {}", said(&output));
        let file = place.join("redirected");
        let mut to = File::create(&file).expect("a file");
        to.write_all(b"before\n").expect("written");
        let status = command(arguments, stdout).stdout(to).stderr(Stdio::null()).status().expect("started");
        let text = fs::read(&file).expect("a file");
        assert!(status.success() && text.starts_with(b"before\n") && text.len() > 7, "{arguments:?}");
        // A socket cannot be opened by its name.
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut child = {
            // Our own copy of the descriptor goes with the command.
            let mut command = command(arguments, stdout);
            command.stdout(std::os::fd::OwnedFd::from(theirs)).stderr(Stdio::null()).spawn().expect("started")
        };
        let mut bytes = Vec::new();
        ours.read_to_end(&mut bytes).expect("read");
        assert!(child.wait().expect("ended").success() && !bytes.is_empty(), "{arguments:?}: to a socket");
        // Nobody reads any more.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command(arguments, stdout).stdout(writer).stderr(Stdio::piped()).output().expect("started");
        assert_eq!((output.status.code(), said(&output).contains("panicked")), (Some(141), false), "{arguments:?}");
        assert_eq!(fs::read_link("/dev/stdout").expect("a link"), before, "{arguments:?}");
    });
}

#[test]
fn a_fifo_is_written_to() {
    for_each(|arguments, place| {
        let fifo = place.join("fifo");
        make_fifo(&fifo);
        let mut child = command(arguments, &fifo).stderr(Stdio::null()).spawn().expect("started");
        let bytes = fs::read(&fifo).expect("read to its end");
        assert!(child.wait().expect("ended").success() && !bytes.is_empty(), "{arguments:?}");
        assert!(fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo(), "{arguments:?}");
    });
}

fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
}

#[test]
fn a_link_stays_and_what_it_names_is_replaced() {
    for_each(|arguments, place| {
        let (link, below) = (place.join("link"), place.join("below"));
        fs::create_dir(&below).expect("a directory");
        symlink("below/real", &link).expect("a link");
        let output = run(arguments, &link);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        assert_eq!((names(place), names(&below)), (vec!["below".into(), "link".into()], vec!["real".to_owned()]));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), None).expect("given away");
            let before = fs::read(below.join("real")).expect("a result");
            let output = run(arguments, &link);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}");
            assert!(said(&output).contains("symbolic link of user 65534"), "{arguments:?}: {}", said(&output));
            assert_eq!(fs::read(below.join("real")).expect("a result"), before);
        }
    });
}

#[test]
fn what_cannot_be_written_is_said_before_any_work() {
    for_each(|arguments, place| {
        let slash = PathBuf::from(format!("{}/", place.join("new").display()));
        let is_csv = arguments.iter().any(|word| word == "csv");
        for path in [place.to_owned(), slash, place.join("none/x"), "/proc/none".into(), "..".into()] {
            if is_csv && (path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")) {
                continue; // A directory is where tables go.
            }
            let output = run(arguments, &path);
            assert_eq!(output.status.code(), Some(2), "{arguments:?} {}: {}", path.display(), said(&output));
            assert!(said(&output).starts_with("unstarve: "), "{arguments:?}: {}", said(&output));
        }
        assert_eq!(names(place), [] as [&str; 0], "{arguments:?}");
    });
}

#[test]
fn a_recording_is_not_replaced_by_what_is_made_of_it() {
    let place = place();
    let trace = place.path().join("trace.txt");
    fs::copy(testdata("traces/fsdevel-perf-script.txt"), &trace).expect("copied");
    let before = fs::read(&trace).expect("a recording");
    fs::hard_link(&trace, place.path().join("other")).expect("a second name");
    let name = |path: &Path| path.display().to_string();
    let around = place.path().join("../").join(place.path().file_name().expect("a name")).join("trace.txt");
    for output in [trace.clone(), place.path().join("other"), around] {
        for arguments in [
            vec!["report".to_owned(), name(&trace)],
            vec!["compare".to_owned(), name(&trace), name(&trace)],
            vec!["export".to_owned(), name(&trace), "--format".to_owned(), "csv".to_owned()],
        ] {
            let ended = run(&arguments, &output);
            assert_eq!(ended.status.code(), Some(2), "{arguments:?} {}", output.display());
            assert!(said(&ended).contains("input recording"), "{}", said(&ended));
        }
    }
    assert_eq!(fs::read(&trace).expect("a recording"), before);
}

/// An ordinary user's results, and a directory that user may not write.
#[test]
fn an_unwritable_directory_is_an_error() {
    if rustix::process::geteuid().is_root() {
        return; // Root may write any directory; the live tests have a full and a read-only file system.
    }
    for_each(|arguments, place| {
        fs::set_permissions(place, fs::Permissions::from_mode(0o500)).expect("a mode");
        let output = run(arguments, &place.join("x"));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains("Permission denied"), "{}", said(&output));
        fs::set_permissions(place, fs::Permissions::from_mode(0o700)).expect("a mode");
    });
}

#[test]
fn who_reads_from_a_fifo_says_so_before_it_waits() {
    let place = place();
    let fifo = place.path().join("recording");
    let within = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", LIMIT]).args(words).stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let path = fifo.to_str().expect("a name in UTF-8");
    assert!(within(&["mkfifo", path]).status().expect("it runs").success());
    let mut reader = within(&[env!("CARGO_BIN_EXE_unstarve"), "explain", path]);
    let mut reader = reader.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut said = String::new();
    let mut words = BufReader::new(reader.stderr.take().expect("a pipe"));
    words.read_line(&mut said).expect("it is said while nobody writes");
    assert!(said.contains("reading from the pipe") && said.contains("until its writer closes it"), "{said}");
    let trace = testdata("traces/fsdevel-perf-script.txt");
    assert!(within(&["cp", &trace, path]).status().expect("it runs").success());
    let ended = reader.wait().expect("it ends");
    assert!(matches!(ended.code(), Some(0 | 1)), "{ended}");
}

#[test]
fn a_fifo_that_nobody_writes_to_ends() {
    let place = place();
    let fifo = place.path().join("fifo");
    make_fifo(&fifo);
    let path = fifo.to_str().expect("a name in UTF-8");
    let begin = |command: &str| {
        let mut reader = Command::new("timeout");
        reader.args(["-k", "5", LIMIT, env!("CARGO_BIN_EXE_unstarve"), command, path]);
        reader.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    for reader in ["explain", "check", "timeline"].map(begin) {
        let output = reader.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("nobody wrote to it within 10 s"), "{}", said(&output));
    }
}
