//! Results on disks that are full or read-only, and names of groups that somebody chose to do harm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{Done, Running};
use crate::stage::{Ended, Stage, Stop, need};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A small tmpfs of our own, unmounted on drop.
pub struct Disk(pub PathBuf);

impl Disk {
    pub fn mount(stage: &Stage, options: &str) -> Result<Disk, Stop> {
        let path = stage.path("disk");
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "unstarve-test"]).arg(&path);
        let status = mount.status().map_err(|error| error.to_string())?;
        if status.success() { Ok(Disk(path)) } else { Err(Stop::Skip("no tmpfs can be mounted here".to_owned())) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn trace() -> String {
    format!("{}/../../testdata/traces/fsdevel-perf-script.txt", env!("CARGO_MANIFEST_DIR"))
}

/// Each command that writes a result, to this file.
fn all(stage: &Stage, file: &Path) -> Result<Vec<(String, Done)>, Stop> {
    let trace = trace();
    let commands: [&[&str]; 4] =
        [&["snapshot"], &["report", &trace], &["compare", &trace, &trace], &["export", &trace, "--format", "folded"]];
    let mut done = Vec::new();
    for arguments in commands {
        let mut command = stage.unstarve();
        command.args(arguments).arg("-o").arg(file);
        done.push((arguments[0].to_owned(), Running::start(&mut command)?.finish(TEST_TIMEOUT)?));
    }
    Ok(done)
}

fn expect(condition: bool, otherwise: String) -> Ended {
    if condition { Ok(()) } else { Err(Stop::Fail(otherwise)) }
}

pub fn full_disk(stage: &Stage) -> Ended {
    need("mount")?;
    let disk = Disk::mount(stage, "size=64k,mode=755")?;
    let file = disk.0.join("result");
    fs::write(&file, "old").map_err(|error| error.to_string())?;
    // All but nothing of the rest.
    let _ = fs::write(disk.0.join("ballast"), vec![0; 64 << 10]);
    for (name, done) in all(stage, &file)? {
        expect(done.status.code() == Some(2), format!("{name}: {:?} {}", done.status, done.err))?;
        expect(done.err.contains("No space left"), format!("{name}: {}", done.err))?;
        let left = fs::read_dir(&disk.0).map_err(|error| error.to_string())?.count();
        expect(left == 2, format!("{name}: {left} files are left"))?;
        expect(fs::read_to_string(&file).is_ok_and(|text| text == "old"), format!("{name}: the old result is gone"))?;
    }
    Ok(())
}

pub fn read_only_disk(stage: &Stage) -> Ended {
    need("mount")?;
    let disk = Disk::mount(stage, "size=64k,ro")?;
    for (name, done) in all(stage, &disk.0.join("result"))? {
        expect(done.status.code() == Some(2), format!("{name}: {:?} {}", done.status, done.err))?;
        expect(done.err.contains("Read-only file system"), format!("{name}: {}", done.err))?;
    }
    Ok(())
}

pub fn unwritable_directory(_: &Stage) -> Ended {
    need("setpriv")?;
    // The program may lie where only root may look.
    let copy = std::env::temp_dir().join(format!("unstarve-live-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_unstarve"), &copy).map_err(|error| error.to_string())?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args([
        "snapshot",
        "-o",
        "/etc/unstarve-x",
    ]);
    let done = Running::start(&mut command)?.finish(TEST_TIMEOUT);
    let _ = fs::remove_file(&copy);
    let done = done?;
    expect(done.status.code() == Some(2), format!("{:?} {}", done.status, done.err))?;
    expect(done.err.contains("Permission denied") && !Path::new("/etc/unstarve-x").exists(), done.err)
}

pub fn hostile_group(stage: &Stage) -> Ended {
    // A kernel refuses a line feed in it, and nothing else.
    let name = "\u{1b}]0;x\u{7}\u{202e}<script>$(id)'";
    let group = crate::cgroup::Cgroup::new(name, 100)?;
    let mut sleep = Command::new("sleep").arg("20").spawn().map_err(|error| error.to_string())?;
    let result = group.add(sleep.id()).and_then(|()| looked_at(stage));
    let _ = sleep.kill();
    let _ = sleep.wait();
    result
}

fn looked_at(stage: &Stage) -> Ended {
    let harmful = |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
    let file = stage.path("host.json");
    let name = file.to_str().unwrap_or_default();
    let commands: [&[&str]; 4] = [
        &["snapshot", "-o", name],
        &["check", "--fail-on", "never"],
        &["check", "--snapshot", name, "--fail-on", "never"],
        &["check", "--snapshot", name, "--fail-on", "never", "--sarif"],
    ];
    for arguments in commands {
        let mut command = stage.unstarve();
        command.args(arguments);
        let done = Running::start(&mut command)?.succeed(TEST_TIMEOUT)?;
        let bad = done.out.chars().chain(done.err.chars()).find(harmful);
        expect(bad.is_none(), format!("{arguments:?}: {bad:?}"))?;
    }
    let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let snapshot: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    expect(snapshot["cgroups"].to_string().contains("<script>$(id)'"), "the group was not seen".to_owned())
}
