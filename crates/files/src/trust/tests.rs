//! Tests of which files are trusted.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a temporary directory");
    fs::write(place.path().join("policy"), "yes").expect("written");
    fs::set_permissions(place.path().join("policy"), fs::Permissions::from_mode(0o644)).expect("a mode");
    place
}

fn why(result: Result<(PathBuf, Vec<u8>), TrustError>) -> String {
    match result {
        Ok((path, _)) => format!("{} was believed", path.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_only_we_can_write_is_believed_also_below_a_sticky_directory() {
    let place = place();
    let (path, bytes) = read_trusted(&place.path().join("policy"), 10).expect("believed");
    assert_eq!((path.file_name(), bytes.as_slice()), (Some(OsStr::new("policy")), b"yes".as_slice()));
    let link = place.path().join("link");
    symlink("policy", &link).expect("a link");
    assert_eq!(read_trusted(&link, 10).expect("our own link").1, b"yes");
    let around = place.path().join("../").join(place.path().file_name().expect("a name")).join("./policy");
    assert_eq!(read_trusted(&around, 10).expect("the same").1, b"yes");
    assert!(matches!(read_trusted(&link, 2), Err(TrustError::TooLarge { .. })));
    assert!(read_trusted(&place.path().join("none"), 2).is_err_and(|error| error.is_absent()));
}

#[test]
fn what_others_can_write_is_not_believed() {
    let place = place();
    let policy = place.path().join("policy");
    for (mode, who, chmod) in
        [(0o664, "its group", "g-w"), (0o646, "others", "o-w"), (0o666, "its group and others", "go-w")]
    {
        fs::set_permissions(&policy, fs::Permissions::from_mode(mode)).expect("a mode");
        let text = why(read_trusted(&policy, 10));
        let expected = format!("mode 0{mode:o} lets {who} write it. Run: chmod {chmod} {}", policy.display());
        assert!(text.ends_with(&expected), "{text}");
    }
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o770)).expect("a mode");
    let text = why(read_trusted(&policy, 10));
    assert!(text.contains("mode 0770") && !text.contains("policy:"), "the directory is at fault: {text}");
}

#[test]
fn what_belongs_to_others_is_not_believed() {
    if us() != 0 {
        return; // Only root can give files away; the program's live tests run as root.
    }
    let place = place();
    let policy = place.path().join("policy");
    let link = place.path().join("link");
    symlink("policy", &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(65534), None).expect("a link of nobody's");
    assert!(why(read_trusted(&link, 10)).contains("belongs to user 65534"));
    let below = place.path().join("theirs");
    fs::create_dir(&below).expect("a directory");
    fs::write(below.join("policy"), "no").expect("written");
    chown(&below, Some(65534), None).expect("given away");
    assert!(why(read_trusted(&below.join("policy"), 10)).contains("belongs to user 65534"));
    // Through another user's directory and back: that user could redirect us the next time.
    assert!(why(read_trusted(&below.join("../policy"), 10)).contains("belongs to user 65534"));
    chown(&policy, Some(65534), None).expect("given away");
    let text = why(read_trusted(&policy, 10));
    assert!(text.contains("policy: not trusted: it belongs to user 65534; expected root. Keep the file"), "{text}");
    assert!(!text.contains("chown"), "a command that would take a home away from its user: {text}");
}

#[test]
fn no_link_no_fifo_and_no_directory_is_opened_as_a_file() {
    let place = place();
    let directory = Directory::open(place.path()).expect("ours");
    symlink("/etc/passwd", place.path().join("lock")).expect("a link");
    for how in [How::Read, How::Update, How::Append] {
        assert!(matches!(
            directory.file(OsStr::new("lock"), how),
            Err(TrustError::Untrusted { why: Distrust::NoFile, .. })
        ));
    }
    let fifo = place.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    fs::create_dir(place.path().join("below")).expect("a directory");
    for name in ["fifo", "below"] {
        assert!(directory.file(OsStr::new(name), How::Update).is_err(), "{name}");
    }
}

#[test]
fn a_directory_is_made_for_us_alone_to_write() {
    let place = place();
    let path = place.path().join("a/b");
    let directory = Directory::make(&path).expect("made");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o022, 0);
    directory.replace(OsStr::new("x"), b"1", 0o600).expect("written");
    directory.replace(OsStr::new("x"), b"22", 0o600).expect("written again");
    assert_eq!(directory.read(OsStr::new("x"), 9).expect("read").as_deref(), Some(b"22".as_slice()));
    assert_eq!(fs::read_dir(&path).expect("listed").count(), 1, "nothing is left beside it");
    fs::remove_dir_all(&path).expect("removed");
    assert!(!directory.is_there());
}

#[test]
fn nothing_is_believed_that_is_in_a_shared_directory_itself() {
    let place = place();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    let text = why(read_trusted(&place.path().join("policy"), 10));
    assert!(text.contains("other users can create files in it") && !text.contains("chmod"), "{text}");
    Directory::check_way(place.path()).expect("what we make there stays ours");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    assert!(Directory::check_way(place.path()).is_err(), "here others can swap it");
}

#[test]
fn a_link_that_others_can_have_put_there_is_not_followed() {
    if us() != 0 {
        return; // Only root can give files away.
    }
    // A directory like /tmp.
    let place = place();
    let shared = place.path().join("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("a mode");
    symlink(place.path(), shared.join("link")).expect("root's link");
    read_trusted(&shared.join("link/policy"), 10).expect("nobody else can move it");
    fs::hard_link(shared.join("link"), shared.join("planted")).expect("a second name");
    let text = why(read_trusted(&shared.join("planted/policy"), 10));
    assert!(text.contains("that other users can write; name its target"), "{text}");
}

#[test]
fn a_file_with_a_second_name_is_read_and_not_written() {
    let place = place();
    let directory = Directory::open(place.path()).expect("ours");
    fs::hard_link(place.path().join("policy"), place.path().join("lock")).expect("a second name");
    directory.file(OsStr::new("lock"), How::Read).expect("read");
    for how in [How::Update, How::Append] {
        let error = directory.file(OsStr::new("lock"), how);
        assert!(matches!(error, Err(TrustError::Untrusted { why: Distrust::Names(2), .. })), "{error:?}");
    }
}

#[test]
fn magic_links_of_procfs_are_not_followed() {
    for path in ["/proc/self/root/etc/passwd", "/proc/self/cwd/Cargo.toml", "/proc/self/fd/0"] {
        let text = why(read_trusted(Path::new(path), 1 << 20));
        assert!(text.contains("link of procfs") || text.contains("not trusted"), "{path}: {text}");
    }
    assert!(read_trusted(Path::new("/proc/self/status"), 1 << 20).is_ok(), "an ordinary link of procfs");
}

/// A recording: who can have written it, and chosen that the path leads to it.
#[test]
fn the_author_of_an_open_file_is_every_user_who_can_write_it_or_its_path() {
    let author =
        |path: &Path| check_author(&File::open(path).expect("opened"), path).map_err(|error| error.to_string());
    let place = place();
    let file = place.path().join("policy");
    assert_eq!(author(&file), Ok(()));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a mode");
    assert!(author(&file).is_err_and(|why| why.contains("mode 0666 lets its group and others write it")));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    // As in /tmp: others can create files next to it but not change it.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
    assert_eq!(author(&file), Ok(()));
    fs::hard_link(&file, place.path().join("other")).expect("a link");
    assert!(author(&file).is_err_and(|why| why.contains("it has 2 names")));
    fs::remove_file(place.path().join("other")).expect("removed");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    assert!(author(&file).is_err_and(|why| why.contains("mode 0777")));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    let opened = File::open(&file).expect("opened");
    fs::rename(&file, place.path().join("moved")).expect("moved");
    fs::write(&file, "another").expect("written");
    assert!(check_author(&opened, &file).is_err_and(|error| error.to_string().contains("replaced by another file")));
    if us() != 0 {
        return; // Only root can give files away.
    }
    chown(&file, Some(65534), None).expect("given away");
    assert!(author(&file).is_err_and(|why| why.contains("belongs to user 65534")));
    chown(&file, Some(0), None).expect("taken back");
    chown(place.path(), Some(65534), None).expect("given away");
    assert!(author(&file).is_err_and(|why| why.contains("belongs to user 65534") && !why.contains("policy")));
}
