//! Tests of where results are written.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

use super::resolve::write_to;
use super::*;

fn write(path: &Path, text: &str) -> Result<(), TargetError> {
    let target = Target::open(path, Readers::Owner)?;
    match &target {
        Target::Open { file, .. } => (&mut &*file).write_all(text.as_bytes()).expect("written"),
        Target::File(part) => part.file().write_all(text.as_bytes()).expect("written"),
        Target::Stdout => panic!("no standard output"),
    }
    target.deliver()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_result_appears_whole_or_not_at_all() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("r.html");
    fs::write(&path, "old").expect("written");
    let target = Target::open(&path, Readers::Owner).expect("a place");
    assert_eq!(names(place.path()).len(), 2);
    drop(target);
    assert_eq!((names(place.path()).len(), fs::read_to_string(&path).expect("old")), (1, "old".to_owned()));
    write(&path, "new").expect("written");
    assert_eq!((names(place.path()).len(), fs::read_to_string(&path).expect("new")), (1, "new".to_owned()));
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn devices_are_written_to_and_never_replaced() {
    write(Path::new("/dev/null"), "gone").expect("written");
    assert!(fs::metadata("/dev/null").expect("there").file_type().is_char_device());
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&writer);
    write(Path::new(&format!("/proc/self/fd/{descriptor}")), "piped").expect("written");
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    assert_eq!(text, "piped");
    assert!(matches!(write(Path::new("/tmp"), ""), Err(TargetError::NoFile { .. })));
    assert!(matches!(write(Path::new("/nonexistent/x"), ""), Err(TargetError::NoDirectory { .. })));
}

#[test]
fn a_place_for_a_regular_file_is_no_device_and_does_not_block() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let fifo = place.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    let link = place.path().join("link");
    symlink("fifo", &link).expect("a link");
    for (path, found) in [
        (fifo.as_path(), "FIFO"),
        (&link, "FIFO"),
        (Path::new("/dev/null"), "character device"),
        (Path::new("/proc/self/fd/0"), "descriptor of a process"),
        (Path::new("/tmp"), "directory"),
    ] {
        let error = Place::find(path).expect_err("no place");
        assert!(matches!(error, TargetError::NoFile { what, .. } if what == found), "{}: {error}", path.display());
    }
    assert_eq!(Place::find(&place.path().join("new")).expect("a place").name(), "new");
}

#[test]
fn a_directory_that_is_swapped_meanwhile_leads_nowhere() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (mine, other, moved) = (place.path().join("mine"), place.path().join("other"), place.path().join("moved"));
    fs::create_dir(&mine).expect("a directory");
    fs::create_dir(&other).expect("a directory");
    let target = Target::open(&mine.join("r"), Readers::Owner).expect("a place");
    fs::rename(&mine, &moved).expect("moved");
    symlink(&other, &mine).expect("swapped");
    target.deliver().expect("delivered");
    assert_eq!((names(&moved), names(&other)), (vec!["r".to_owned()], vec![]));
}

#[test]
fn root_follows_no_link_of_others() {
    if !rustix::process::geteuid().is_root() {
        return; // For other users the kernel's own rules are enough.
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let link = place.path().join("link");
    let victim = place.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    symlink(&victim, &link).expect("a link");
    // Root's own link is followed; the result is written next to its target.
    write(&link, "by our own link").expect("written");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(&victim).expect("read"), "by our own link");
    std::os::unix::fs::lchown(&link, Some(65534), None).expect("given away");
    assert!(matches!(write(&link, "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
    let made = place.path().join("made/here");
    trust::make_for_results(&made).expect("made");
    assert!(made.is_dir());
    let below = place.path().join("below");
    symlink(place.path(), &below).expect("a link");
    std::os::unix::fs::lchown(&below, Some(65534), None).expect("given away");
    assert!(matches!(write(&below.join("x"), "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
    let elsewhere = trust::make_for_results(&below.join("x"));
    assert!(matches!(elsewhere, Err(TargetError::Lure { owner: 65534, .. })) && !place.path().join("x").exists());
    let fifo = place.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    std::os::unix::fs::chown(&fifo, Some(65534), None).expect("given away");
    assert!(matches!(write(&fifo, "stolen"), Err(TargetError::Lure { owner: 65534, .. })));
    assert_eq!(fs::read_to_string(&victim).expect("read"), "by our own link");
}

#[test]
fn a_path_that_says_directory_is_none_for_a_result() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for path in ["r/", "r/.", "r//", "..", "."] {
        let error = write(&place.path().join(path), "x");
        assert!(matches!(error, Err(TargetError::NoFile { .. })), "{path}: {error:?}");
    }
    assert!(write(Path::new(""), "x").is_err());
    assert!(names(place.path()).is_empty());
}

#[test]
fn only_our_own_descriptors_are_written_to_through_procfs() {
    let mut child = std::process::Command::new("sleep").arg("9").stdout(std::process::Stdio::piped()).spawn();
    let child = child.as_mut().expect("a child");
    let error = write(Path::new(&format!("/proc/{}/fd/1", child.id())), "x");
    let within = write(Path::new(&format!("/proc/{}/cwd/x", child.id())), "x");
    let _ = child.kill();
    let _ = child.wait();
    assert!(matches!(error, Err(TargetError::NoFile { .. })), "{error:?}");
    if rustix::process::geteuid().is_root() {
        assert!(matches!(within, Err(TargetError::Led { why: trust::Distrust::MagicLink, .. })), "{within:?}");
    }
}

#[test]
fn root_follows_no_link_of_roots_that_others_can_move() {
    if !rustix::process::geteuid().is_root() {
        return; // For other users the kernel's own rules are enough.
    }
    let place = tempfile::tempdir().expect("a temporary directory");
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).expect("a directory");
    symlink(place.path(), theirs.join("link")).expect("a link of root's");
    symlink(place.path().join("r"), theirs.join("file")).expect("a link of root's");
    for path in ["link/r", "file"] {
        write(&theirs.join(path), "x").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    std::os::unix::fs::chown(&theirs, Some(65534), None).expect("given away");
    for path in ["link/r", "file"] {
        let error = write(&theirs.join(path), "x");
        let Err(TargetError::Led { why, .. }) = error else { panic!("{path}: {error:?}") };
        assert_eq!(why, trust::Distrust::PlantedLink, "{path}");
    }
    write(&theirs.join("r"), "a plain file of root's").expect("written");
}

#[test]
fn what_comes_there_after_the_look_is_not_opened() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let null = rustix::fs::stat("/dev/null").expect("there");
    let directory = plain_directory(place.path()).expect("a directory");
    symlink("/dev/null", place.path().join("link")).expect("a link");
    fs::write(place.path().join("file"), "").expect("written");
    for name in ["link", "file"] {
        let error = write_to(&directory, OsStr::new(name), WRITE_FLAGS, &null, Path::new(name));
        assert!(matches!(error, Err(TargetError::Io { .. })), "{name}: {error:?}");
    }
}
