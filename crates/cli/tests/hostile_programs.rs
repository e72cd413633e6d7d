//! What a user of the same host leaves where root might run it: programs in a home, in the PATH and in the current directory, libraries, and
//! variables of the environment. Each leaves a mark if it is run, whoever runs it; no mark may appear.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// Somebody who is not root.
const USER: u32 = 65534;

/// A place of the user's, one of root's, and one for marks, which everybody can leave.
struct Host {
    directory: TempDir,
}

impl Host {
    /// `None`: only root can be led to run what is somebody else's.
    fn new() -> Option<Host> {
        if !rustix::process::geteuid().is_root() {
            unstarve_testing::not_possible_here("needs root, whom others lead to run something");
            return None;
        }
        let host = Host { directory: tempfile::tempdir().expect("a directory") };
        for below in ["", "theirs", "theirs/bin", "roots", "marks"] {
            fs::create_dir_all(host.path(below)).expect("made");
            host.mode(below, if below == "marks" { 0o777 } else { 0o755 });
        }
        host.write("roots/scenario.toml", SCENARIO);
        host.write("roots/modules/modules.builtin", "kernel/a/virtio_mmio.ko\nkernel/b/virtio_blk.ko\n");
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x306].copy_from_slice(b"6.1.0 ");
        fs::write(host.path("roots/bzImage"), image).expect("written");
        Some(host)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        let above = path.parent().expect("a parent");
        fs::create_dir_all(above).expect("made");
        fs::write(&path, text).expect("written");
    }

    fn script(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        unstarve_testing::install_script(text, &path).expect("written");
    }

    /// A script that says it is QEMU 10, and does this when it is to boot a guest.
    fn qemu(&self, below: &str, acts: &str) {
        let version = "if [ \"$*\" = --version ]; then echo 'QEMU emulator version 10.0.2'; exit; fi";
        self.script(below, &format!("#!/bin/bash\n{version}\n{acts}\n"));
    }

    /// A program that leaves a mark of its name.
    fn marks(&self, below: &str) {
        let name = below.replace('/', "-");
        let mark = self.path("marks").join(name);
        self.script(below, &format!("#!/bin/sh\n: >{}\necho 'QEMU emulator version 10.0.2'\n", mark.display()));
    }

    /// Gives a tree to the user.
    fn give(&self, below: &str) {
        let path = self.path(below);
        if path.is_dir() {
            for entry in fs::read_dir(&path).expect("listed") {
                let name = entry.expect("an entry").file_name();
                self.give(&format!("{below}/{}", name.to_string_lossy()));
            }
        }
        chown(&path, Some(USER), Some(USER)).expect("given away");
    }

    /// `unstarve …` as root, where the user has everything ready.
    fn unstarve(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.args(arguments).current_dir(self.path("theirs"));
        command.env("XDG_CACHE_HOME", self.path("roots/cache")).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null());
        command
    }

    fn add_kernel(&self) {
        let (image, modules) = (self.path("roots/bzImage"), self.path("roots/modules"));
        let mut command = self.unstarve(&["lab", "kernel", "add", "--name", "test"]);
        let output = command.arg(image).arg("--modules").arg(modules).output().expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
    }

    fn run(&self, scenario: &str) -> Command {
        let scenario = self.path(scenario).to_string_lossy().into_owned();
        self.unstarve(&["lab", "run", &scenario, "--kernel", "test", "--limit", "20"])
    }

    fn assert_no_mark(&self) {
        let marks: Vec<_> = fs::read_dir(self.path("marks")).expect("listed").filter_map(Result::ok).collect();
        assert!(marks.is_empty(), "somebody else's programs were run: {marks:?}");
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_home_of_somebody_else_is_not_roots_cache() {
    let Some(host) = Host::new() else { return };
    let cache = "theirs/.cache/unstarve/lab";
    host.add_kernel();
    host.marks(&format!("{cache}/qemu/usr/bin/qemu-system-x86_64"));
    let kernels = host.path("roots/cache/unstarve/lab/kernels");
    assert!(Command::new("cp").arg("-r").arg(kernels).arg(host.path(cache)).status().expect("cp runs").success());
    host.give("theirs");
    // As `sudo` with env_keep, and `su -p`.
    let mut command = host.run("roots/scenario.toml");
    let kept = command.env_remove("XDG_CACHE_HOME").env("HOME", host.path("theirs")).output().expect("it runs");
    host.assert_no_mark();
    assert_eq!(kept.status.code(), Some(2), "{}", said(&kept));
    assert!(said(&kept).contains("no kernel `test` in the store"), "root's own store has none: {}", said(&kept));
    // As `sudo -E`.
    let mut command = host.run("roots/scenario.toml");
    let given = command.env("XDG_CACHE_HOME", host.path("theirs/.cache")).output().expect("it runs");
    host.assert_no_mark();
    assert_eq!(given.status.code(), Some(2));
    assert!(said(&given).contains("the lab's cache is not used") && said(&given).contains("belongs to user"));
}

#[test]
fn a_qemu_that_others_can_write_is_not_asked_for_its_version() {
    let Some(host) = Host::new() else { return };
    host.add_kernel();
    let own = "roots/cache/unstarve/lab/qemu/usr/bin/qemu-system-x86_64";
    host.marks(own);
    chown(host.path(own), Some(USER), None).expect("given away");
    let output = host.run("roots/scenario.toml").env("PATH", host.path("none")).output().expect("it runs");
    host.assert_no_mark();
    assert!(said(&output).contains("not run: ") && said(&output).contains("belongs to user"), "{}", said(&output));
    // Its own libraries are as good as it is.
    chown(host.path(own), Some(0), None).expect("taken back");
    let library = "roots/cache/unstarve/lab/qemu/usr/lib/x86_64-linux-gnu/libc.so.6";
    host.write(library, "no library");
    host.mode(library, 0o666);
    let output = host.run("roots/scenario.toml").env("PATH", host.path("none")).output().expect("it runs");
    host.assert_no_mark();
    assert!(said(&output).contains("libc.so.6: not trusted: mode 0666"), "{}", said(&output));
}

#[test]
fn a_path_of_somebody_else_is_passed_over() {
    let Some(host) = Host::new() else { return };
    host.add_kernel();
    for name in ["qemu-system-x86_64", "ldd", "sh", "apt-get", "apt-cache", "dpkg-deb", "tar", "duckdb"] {
        host.marks(&format!("theirs/{name}"));
        host.marks(&format!("theirs/bin/{name}"));
    }
    host.give("theirs");
    host.write("roots/scenario.toml", &SCENARIO.replace("cpus = 1", "cpus = 1\ntools = [\"sh\"]"));
    host.qemu("roots/bin/qemu-system-x86_64", "echo 'qemu: could not load kernel' >&2; exit 1");
    host.mode("roots/bin", 0o755);
    let path =
        format!(":.:bin:{}:{}:/usr/bin:/bin:", host.path("theirs/bin").display(), host.path("roots/bin").display());
    let output = host.run("roots/scenario.toml").env("PATH", &path).output().expect("it runs");
    host.assert_no_mark();
    assert!(said(&output).contains("could not load kernel"), "root's own was run: {}", said(&output));
    // Nothing is fetched: there is no way out.
    let mut fetch = host.unstarve(&["lab", "kernel", "add", "6.1"]);
    fetch.env("PATH", &path).env("APT_CONFIG", host.path("theirs/apt.conf"));
    for name in ["http_proxy", "https_proxy"] {
        fetch.env(name, "http://127.0.0.1:9");
    }
    let output = fetch.output().expect("it runs");
    host.assert_no_mark();
    assert!(!output.status.success());
    let output = host.unstarve(&["sql", "--list"]).env("PATH", &path).output().expect("it runs");
    host.assert_no_mark();
    assert!(!said(&output).is_empty() || output.status.success());
}

#[test]
fn a_library_in_the_current_directory_is_not_loaded() {
    let Some(host) = Host::new() else { return };
    let Some(cc) = unstarve_testing::tool("cc") else { return };
    host.add_kernel();
    // What becomes QEMU needs a library of the user's name, which is in no directory of the system's.
    host.write("roots/lib.c", "int of_lib(void) { return 0; }\n");
    host.write("roots/qemu.c", "#include <stdio.h>\nint of_lib(void);\nint main(void) { puts(\"QEMU emulator version 10.0.2\"); return of_lib(); }\n");
    let mark = host.path("marks/library");
    host.write(
        "theirs/evil.c",
        &format!(
            "#include <fcntl.h>\n__attribute__((constructor)) static void mark(void) {{ open(\"{}\", O_CREAT | O_WRONLY, 0644); }}\n\
             int of_lib(void) {{ return 0; }}\n",
            mark.display()
        ),
    );
    let own = "roots/cache/unstarve/lab/qemu/usr/";
    for below in ["bin", "lib/x86_64-linux-gnu"] {
        fs::create_dir_all(host.path(&format!("{own}{below}"))).expect("made");
    }
    let library = host.path(&format!("{own}lib/x86_64-linux-gnu/libunstarve-test.so"));
    let program = host.path(&format!("{own}bin/qemu-system-x86_64"));
    let build = |arguments: &[&Path]| {
        let output = Command::new(&cc).args(arguments).output().expect("cc runs");
        assert!(output.status.success(), "{}", said(&output));
    };
    let shared = [Path::new("-shared"), Path::new("-fPIC"), Path::new("-o")];
    build(&[&shared[..], &[&library, &host.path("roots/lib.c")]].concat());
    build(&[Path::new("-o"), &program, &host.path("roots/qemu.c"), &library_by_name(&library)]);
    build(&[&shared[..], &[&host.path("theirs/libunstarve-test.so"), &host.path("theirs/evil.c")]].concat());
    host.give("theirs");
    let run = || host.run("roots/scenario.toml").env("PATH", host.path("none")).output().expect("it runs");
    let output = run();
    host.assert_no_mark();
    assert!(said(&output).contains("QEMU ended in stage `boot`"), "it found its own library: {}", said(&output));
    // Without its own, the one in the current directory is none.
    fs::remove_file(&library).expect("removed");
    let output = run();
    host.assert_no_mark();
    assert!(said(&output).contains("libunstarve-test.so"), "{}", said(&output));
    let mut given = host.run("roots/scenario.toml");
    given.env("PATH", host.path("none")).env("QEMU_MODULE_DIR", host.path("theirs"));
    let output = given.env("LD_LIBRARY_PATH", host.path("theirs")).output().expect("it runs");
    host.assert_no_mark();
    assert!(said(&output).contains("libunstarve-test.so"), "{}", said(&output));
}

/// A library by which a program finds it by name alone, wherever it is.
fn library_by_name(library: &Path) -> PathBuf {
    let above = library.parent().expect("a directory").display().to_string();
    PathBuf::from(format!("-Wl,-L{above},-l:libunstarve-test.so"))
}

#[test]
fn the_environment_of_somebody_else_reaches_no_shell() {
    let Some(host) = Host::new() else { return };
    host.add_kernel();
    host.write("theirs/profile", &format!(": >{}\n", host.path("marks/profile").display()));
    host.give("theirs");
    // It shows what it got.
    host.qemu("roots/bin/qemu-system-x86_64", "echo \"environment: $(env | sort | tr '\\n' ' ')\" >&2; exit 1");
    host.mode("roots/bin", 0o755);
    let mut command = host.run("roots/scenario.toml");
    command.env("PATH", format!("{}:/usr/bin:/bin", host.path("roots/bin").display()));
    for name in ["BASH_ENV", "ENV", "PYTHONSTARTUP", "PERL5OPT", "GCONV_PATH", "QEMU_MODULE_DIR", "SECRET"] {
        command.env(name, host.path("theirs/profile"));
    }
    let output = command.env("GLIBC_TUNABLES", "glibc.malloc.check=3").output().expect("it runs");
    host.assert_no_mark();
    let said = said(&output);
    let environment = said.split_once("environment: ").expect("it was run").1;
    assert!(environment.contains("PATH=/usr/sbin:/usr/bin:/sbin:/bin "), "{said}");
    assert!(!environment.contains("theirs/") && !environment.contains("GLIBC_TUNABLES"), "{said}");
}

#[test]
fn roots_qemu_is_nobody_with_no_way_back() {
    let Some(host) = Host::new() else { return };
    host.add_kernel();
    // A store that only root may look into.
    host.mode("roots", 0o700);
    let acts = "echo \"status: $(grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|NoNewPrivs)' /proc/self/status | tr '\\n\\t' '  ')\" >&2
        exit 1";
    host.qemu("roots/bin/qemu-system-x86_64", acts);
    host.mode("roots/bin", 0o755);
    for cpus in [1, 2] {
        host.write("roots/scenario.toml", &SCENARIO.replace("cpus = 1", &format!("cpus = {cpus}")));
        let path = format!("{}:/usr/bin:/bin", host.path("roots/bin").display());
        let output = host.run("roots/scenario.toml").env("PATH", path).output().expect("it runs");
        let said = said(&output);
        let status = said.split_once("status: ").expect("it was run").1;
        if unprivileged_ids() == 0 {
            unstarve_testing::not_possible_here("this user namespace has no user but root");
            return;
        }
        assert!(!status.contains("Uid: 0 ") && !status.contains("Gid: 0 "), "{cpus} CPUs: {said}");
        for expected in ["CapPrm: 0000000000000000", "CapEff: 0000000000000000", "NoNewPrivs: 1"] {
            assert!(status.contains(expected), "{cpus} CPUs: {expected}: {said}");
        }
    }
}

/// How many users but root there are.
fn unprivileged_ids() -> u64 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<u64>().saturating_sub(1)
}

#[test]
fn an_engine_that_others_can_write_is_not_run() {
    let Some(host) = Host::new() else { return };
    let place = host.path("theirs/bin");
    unstarve_testing::install_program(Path::new(env!("CARGO_BIN_EXE_unstarve")), &place.join("unstarve"))
        .expect("copied");
    host.marks("theirs/bin/duckdb");
    chown(place.join("duckdb"), Some(USER), None).expect("given away");
    let mut command = Command::new(place.join("unstarve"));
    let output = command.args(["sql", "select 1", "/"]).env("PATH", &place).stdin(Stdio::null()).output();
    let output = output.expect("it runs");
    host.assert_no_mark();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("duckdb: not trusted: it belongs to user"), "{}", said(&output));
}
