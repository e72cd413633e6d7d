//! An attacker owns the directory that root records to, and constantly swaps files in it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::Completion;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, renameat_with};

use unstarve_testing::{place_for_all, program_for_all};

use crate::Outcome;
use crate::child::{Recorder, Task};
use crate::ends::place;

/// The user `nobody`, on every Linux.
const USER: u32 = 65534;

/// Tells the attacker which directory to attack, and where the secret is.
const DIRECTORY: &str = "UNSTARVE_TEST_DIRECTORY";
const SECRET: &str = "UNSTARVE_TEST_SECRET";

/// Replaces everything in a directory by links to a secret, and back, until killed or for a limited time.
pub fn attack() -> ExitCode {
    let (Some(directory), Some(secret)) = (std::env::var_os(DIRECTORY), std::env::var_os(SECRET)) else {
        return ExitCode::FAILURE;
    };
    let (directory, secret) = (PathBuf::from(directory), PathBuf::from(secret));
    let end = Instant::now() + Duration::from_secs(18);
    let mut turn = 0_u64;
    while Instant::now() < end {
        turn += 1;
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_root_s = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == 0);
            match is_root_s {
                true if !turn.is_multiple_of(8) => exchange(&directory, &name, &secret),
                _ => replace(&directory, &name, &secret, turn),
            }
        }
        let planted = directory.join(format!(".unstarve-part-{turn:016x}"));
        let _ = fs::create_dir(&planted);
        let _ = symlink(&secret, planted.join("cpu0.pages"));
        let _ = symlink(&secret, directory.join("t.dat"));
        if turn.is_multiple_of(50) {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
    ExitCode::SUCCESS
}

/// Files with a recorder's names, which the attacker wants to be given.
fn plant(lure: &Path, secret: &Path) {
    for name in ["trace.dat", "head", "head.part", "cpu0.pages", "cpu1.pages"] {
        let _ = fs::remove_file(lure.join(name));
        let _ = symlink(secret, lure.join(name));
    }
}

/// Exchanges root's directory and one of the attacker's, many times.
fn exchange(directory: &Path, name: &OsStr, secret: &Path) {
    let lure = directory.join("lure");
    let _ = fs::create_dir(&lure);
    plant(&lure, secret);
    for _ in 0..200 {
        let swapped = renameat_with(CWD, &lure, CWD, directory.join(name), RenameFlags::EXCHANGE).is_ok();
        let _ = fs::remove_file(directory.join(name).join("trace.dat"));
        let _ = symlink(secret, directory.join(name).join("trace.dat"));
        if swapped {
            std::thread::sleep(Duration::from_micros(20));
            let _ = renameat_with(CWD, &lure, CWD, directory.join(name), RenameFlags::EXCHANGE);
        }
    }
}

/// Puts something of the attacker's there for a moment.
fn replace(directory: &Path, name: &OsStr, secret: &Path, turn: u64) {
    let (path, aside) = (directory.join(name), directory.join(format!("aside-{}", turn % 64)));
    let _ = fs::rename(&path, &aside);
    match turn % 4 {
        // A link to the secret, or to its directory.
        0 => drop(symlink(secret, &path)),
        1 => drop(secret.parent().map(|above| symlink(above, &path))),
        2 => {
            let _ = fs::create_dir(&path);
            plant(&path, secret);
        }
        _ => drop(fs::hard_link(&aside, &path)),
    }
    let _ = fs::remove_file(&path);
    let _ = fs::remove_dir_all(&path);
    let _ = fs::rename(&aside, &path);
}

/// `program` is this one, at a path that the user can access.
fn attacker(program: &Path, directory: &Path, secret: &Path) -> Recorder {
    let mut invocation = Command::new("setpriv");
    let user = USER.to_string();
    invocation.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
    invocation.arg(program);
    invocation.env("UNSTARVE_TEST_ROLE", "attack").env(DIRECTORY, directory).env(SECRET, secret);
    Recorder::start(invocation)
}

/// What the attack must not change.
#[derive(PartialEq, Debug)]
struct State {
    owner: (u32, u32),
    mode: u32,
    content: Vec<u8>,
    names: usize,
}

fn state(secret: &Path) -> State {
    let metadata = fs::symlink_metadata(secret).expect("the secret");
    let names = fs::read_dir(secret.parent().expect("a directory")).expect("listed").count();
    let content = fs::read(secret).expect("read");
    State { owner: (metadata.uid(), metadata.gid()), mode: metadata.mode(), content, names }
}

pub fn whoever_owns_the_directory_gains_nothing() -> Outcome {
    // The attacker can access both, so the links work.
    let [around, vault] = [(); 2].map(|()| place_for_all().expect("a directory"));
    let secret = vault.path().join("secret");
    fs::write(&secret, "root's own").expect("written");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode");
    let before = state(&secret);
    let mine = around.path().join("mine");
    fs::create_dir(&mine).expect("a directory");
    chown(&mine, Some(USER), Some(USER)).expect("given away");
    let (_program, program) = program_for_all(&std::env::current_exe().expect("this program")).expect("a program");
    let attacker = attacker(&program, &mine, &secret);
    std::thread::sleep(Duration::from_millis(100));
    let (mut recorded, mut refused) = (0, 0);
    let end = Instant::now() + Duration::from_secs(14);
    while Instant::now() < end {
        let output = mine.join("t.dat");
        let mut task = Task { milliseconds: Some(20), ..Task::to(&output) }.invocation();
        task.env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string());
        let ended = Recorder::start(task).finish();
        match ended.status.success() {
            true => recorded += 1,
            false => refused += 1,
        }
        assert_eq!(state(&secret), before, "after {recorded} recordings and {refused} refusals");
    }
    drop(attacker);
    assert!(recorded + refused > 5, "{recorded} recordings, {refused} refusals");
    println!("{recorded} recordings, {refused} refusals");
    // Without an attack the file belongs to the user.
    let output = mine.join("calm.dat");
    let mut task = Task { milliseconds: Some(20), ..Task::to(&output) }.invocation();
    task.env("SUDO_UID", USER.to_string()).env("SUDO_GID", USER.to_string());
    Recorder::start(task).finish().report();
    let metadata = fs::symlink_metadata(&output).expect("a recording");
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (USER, 0o600));
    Ok(Completion::Completed)
}

pub fn nodes_and_links_are_never_replaced() -> Outcome {
    let place = place();
    let fifo = place.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    let node = place.path().join("null");
    rustix::fs::mknodat(CWD, &node, FileType::CharacterDevice, Mode::from_raw_mode(0o600), rustix::fs::makedev(1, 3))
        .expect("a device");
    for (output, found) in [
        (Path::new("/dev/stdout"), "descriptor of a process"),
        (Path::new("/dev/fd/1"), "descriptor of a process"),
        (Path::new("/dev/null"), "character device"),
        (&node, "character device"),
        (&fifo, "FIFO"),
    ] {
        let ended = Task { milliseconds: Some(20), ..Task::to(output) }.run();
        assert!(ended.error().contains(&format!("is a {found}; a recording needs a regular file")), "{ended:?}");
    }
    assert!(fs::metadata(&fifo).expect("there").file_type().is_fifo());
    assert!(fs::metadata(&node).expect("there").file_type().is_char_device());
    assert!(fs::symlink_metadata("/dev/stdout").expect("there").is_symlink());
    // A descriptor of a process stays one even if it is a regular file: otherwise its link would be replaced.
    let stdout = place.path().join("stdout");
    symlink("/proc/self/fd/1", &stdout).expect("a link");
    let task = Task { milliseconds: Some(20), ..Task::to(&stdout) }.invocation();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >output"]).arg(task.get_program()).args(task.get_args());
    shell.current_dir(place.path());
    shell.envs(task.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(Recorder::start(shell).finish().status.code(), Some(2));
    assert!(fs::symlink_metadata(&stdout).expect("there").is_symlink());
    // Our own link is followed, and is kept.
    let (link, file) = (place.path().join("link"), place.path().join("file"));
    fs::File::create(&file).expect("a file").write_all(b"old").expect("written");
    symlink("file", &link).expect("a link");
    Task { milliseconds: Some(20), ..Task::to(&link) }.run().report();
    assert!(
        fs::symlink_metadata(&link).expect("there").is_symlink() && fs::metadata(&file).expect("there").len() > 1000
    );
    Ok(Completion::Completed)
}
