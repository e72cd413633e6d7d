//! Tests of which programs are run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use super::*;

/// A directory of ours, for programs that write a file `ran` next to themselves.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary directory"));
        place.program("bin/tool");
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn program(&self, below: &str) {
        let path = self.path(below);
        let above = path.parent().expect("a parent");
        fs::create_dir_all(above).expect("made");
        fs::write(&path, format!("#!/bin/sh\n: >{}\n", self.path("ran").display())).expect("written");
        for path in [above, &path] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
    }

    fn mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// Why the tool is not run; `None` if it may be.
    fn why_not(&self, below: &str) -> Option<String> {
        let refused = Program::at(&self.path(below)).err().map(|error| error.to_string());
        assert!(!self.path("ran").exists(), "it ran while it was looked at");
        refused
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn only_a_program_that_other_users_cannot_have_written_is_run() {
    // What is changed, which program is requested, and what the refusal says; empty if it may be run.
    type Change = fn(&Place);
    let ours: [(&str, Change, &str, Option<&str>); 16] = [
        ("as it is", |_| {}, "bin/tool", None),
        ("not readable by others", |p| p.mode("bin/tool", 0o700), "bin/tool", None),
        ("setuid", |p| p.mode("bin/tool", 0o4755), "bin/tool", None),
        ("written by its group", |p| p.mode("bin/tool", 0o775), "bin/tool", Some("lets its group write it")),
        ("written by others", |p| p.mode("bin/tool", 0o757), "bin/tool", Some("lets others write it")),
        ("executed by nobody", |p| p.mode("bin/tool", 0o644), "bin/tool", Some("does not let anyone execute it")),
        ("directory of a group", |p| p.mode("bin", 0o775), "bin/tool", Some("bin: not trusted: mode 0775")),
        ("directory of all", |p| p.mode("bin", 0o777), "bin/tool", Some("bin: not trusted: mode 0777")),
        ("directory like /tmp", |p| p.mode("bin", 0o1777), "bin/tool", Some("other users can create files in it")),
        ("above it one of a group", |p| p.mode(".", 0o770), "bin/tool", Some("mode 0770")),
        ("a directory", |p| fs::create_dir(p.path("bin/d")).expect("made"), "bin/d", Some("not a regular file")),
        ("absent", |_| {}, "bin/none", Some("No such file")),
        ("our link", |p| symlink("tool", p.path("bin/link")).expect("linked"), "bin/link", None),
        (
            "our link, in a directory of all",
            |p| {
                fs::create_dir(p.path("shared")).expect("made");
                p.mode("shared", 0o777);
                symlink("../bin/tool", p.path("shared/link")).expect("linked");
            },
            "shared/link",
            Some("shared: not trusted: mode 0777"),
        ),
        (
            "our link to what others can write",
            |p| {
                p.program("bin/other");
                p.mode("bin/other", 0o777);
                symlink("other", p.path("bin/link")).expect("linked");
            },
            "bin/link",
            Some("other: not trusted: mode 0777"),
        ),
        (
            "our link to a directory of all",
            |p| {
                p.program("open/tool");
                p.mode("open", 0o777);
                symlink("open", p.path("way")).expect("linked");
            },
            "way/tool",
            Some("open: not trusted: mode 0777"),
        ),
    ];
    let theirs: [(&str, Change, &str, Option<&str>); 4] = [
        (
            "somebody's program",
            |p| given(&p.path("bin/tool")),
            "bin/tool",
            Some("tool: not trusted: it belongs to user"),
        ),
        (
            "in somebody's directory",
            |p| given(&p.path("bin")),
            "bin/tool",
            Some("bin: not trusted: it belongs to user"),
        ),
        (
            "somebody's link to ours",
            |p| {
                symlink("tool", p.path("bin/link")).expect("linked");
                lchown(p.path("bin/link"), Some(65534), None).expect("given away");
            },
            "bin/link",
            Some("link: not trusted: it belongs to user"),
        ),
        (
            "through somebody's directory and back",
            |p| {
                fs::create_dir(p.path("theirs")).expect("made");
                given(&p.path("theirs"));
            },
            "theirs/../bin/tool",
            Some("theirs: not trusted: it belongs to user"),
        ),
    ];
    // Only root can give files away.
    let theirs = if is_root() { &theirs[..] } else { &[] };
    for (what, change, asked, expected) in ours.iter().chain(theirs) {
        let place = Place::new();
        change(&place);
        let why = place.why_not(asked);
        match (expected, &why) {
            (None, None) => {}
            (Some(expected), Some(why)) => assert!(why.contains(expected), "{what}: {why}"),
            _ => panic!("{what}: expected {expected:?}, and it said {why:?}"),
        }
    }
}

fn given(path: &Path) {
    chown(path, Some(65534), None).expect("given away");
}

#[test]
fn what_depends_on_the_current_directory_is_not_run() {
    for path in ["tool", "./tool", "../bin/sh", ""] {
        let why = Program::at(Path::new(path)).expect_err("relative").to_string();
        assert!(why.contains("the path is relative"), "{path}: {why}");
    }
}

#[test]
fn elements_of_path_that_depend_on_the_current_directory_are_passed_over() {
    for (path, expected) in [
        ("/usr/bin:/bin", &["/usr/bin", "/bin"][..]),
        ("/usr/bin:", &["/usr/bin"]),
        (":/usr/bin", &["/usr/bin"]),
        ("/usr/bin::/bin", &["/usr/bin", "/bin"]),
        (".:/usr/bin", &["/usr/bin"]),
        ("bin:../bin:/bin", &["/bin"]),
        ("~/bin:/bin", &["/bin"]),
        ("", &[]),
    ] {
        let found: Vec<PathBuf> = absolute_directories(OsStr::new(path)).collect();
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{path}");
    }
}

#[test]
fn the_first_that_can_be_trusted_is_found() {
    let place = Place::new();
    place.program("open/tool");
    place.mode("open", 0o777);
    place.program("late/tool");
    let found = |places: &[&str]| first_of("tool", places.iter().map(|below| place.path(below)).collect());
    assert_eq!(found(&["none", "open", "bin", "late"]).expect("found").path(), place.path("bin/tool"));
    // A shell skips these as well.
    place.mode("bin/tool", 0o644);
    fs::create_dir_all(place.path("directory/tool")).expect("made");
    assert_eq!(found(&["bin/tool", "directory", "bin", "late"]).expect("found").path(), place.path("late/tool"));
    let why = found(&["none", "open"]).expect_err("others can write it");
    assert!(!why.is_absent() && why.to_string().contains("open: not trusted"), "{why}");
    let why = found(&["none"]).expect_err("there is none");
    assert!(why.is_absent() && why.to_string().contains("tool is not installed"), "{why}");
}

#[test]
fn the_system_has_a_shell_whatever_path_says() {
    let shell = Program::of_system("sh").expect("every system has one");
    assert!(shell.path().is_absolute());
    let output = shell.command().args(["-c", "echo \"$0 $PATH ${LD_LIBRARY_PATH-none}\""]).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("sh {SYSTEM_PATH} none\n"));
}

#[test]
fn a_program_is_run_by_its_descriptor_also_if_it_has_another_name_meanwhile() {
    let place = Place::new();
    let tool = Program::at(&place.path("bin/tool")).expect("ours");
    fs::rename(place.path("bin/tool"), place.path("bin/old")).expect("renamed");
    fs::write(place.path("bin/tool"), "#!/bin/sh\nexit 9\n").expect("another one");
    place.mode("bin/tool", 0o755);
    assert!(tool.command_by_descriptor().status().expect("it runs").success());
    assert!(place.path("ran").exists());
    assert_eq!(tool.command().status().expect("the new one runs").code(), Some(9));
}

const CHILD_MARK: &str = "UNSTARVE_TEST_AGAIN_CHILD";

/// The child process of the next test.
#[test]
fn again() {
    if std::env::var_os(CHILD_MARK).is_some() {
        // Set on the main thread, because tests run in threads with names of their own.
        rustix::thread::set_name(c"exe").expect("a name");
        ThisProgram::take_name();
        let name = rustix::thread::name().expect("a name");
        let path = std::env::var("PATH").expect("a path");
        println!("\nagain {} {path}", name.to_string_lossy());
    }
}

#[test]
fn this_program_is_started_again_without_the_environment() {
    let this = ThisProgram::find().expect("this program");
    let mut command = this.command();
    command.args(["--exact", "program::tests::again", "--nocapture"]).env(CHILD_MARK, "1");
    let output = command.output().expect("it runs");
    let own = std::env::current_exe().expect("this program");
    let own: String = own.file_name().expect("a name").to_string_lossy().chars().take(15).collect();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("\nagain {own} {SYSTEM_PATH}\n")), "{said}");
}

#[test]
fn a_tree_is_trusted_if_other_users_cannot_have_written_any_of_it() {
    let place = Place::new();
    place.program("lib/sub/one.so");
    place.mode("lib", 0o755);
    symlink("sub/one.so", place.path("lib/link.so")).expect("linked");
    symlink("/nonexistent/unstarve", place.path("lib/dangling.so")).expect("linked");
    trust::check_tree(&place.path("lib")).expect("all of it is ours");
    place.mode("lib/sub/one.so", 0o666);
    let why = trust::check_tree(&place.path("lib")).expect_err("others can write it").to_string();
    assert!(why.contains("one.so: not trusted: mode 0666"), "{why}");
    place.mode("lib/sub/one.so", 0o755);
    place.mode("lib/sub", 0o777);
    let why = trust::check_tree(&place.path("lib")).expect_err("other users can create files in it").to_string();
    assert!(why.contains("sub: not trusted: mode 0777"), "{why}");
}
