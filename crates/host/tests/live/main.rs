//! Compares snapshots of the machine that runs the tests with changes made to it. Needs root and a cgroup hierarchy
//! with the CPU controller; without them each test says what is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use unstarve_facts::{CgroupVersion, Hierarchy};
use unstarve_host::Root;
use unstarve_model::{Nanos, SchedPolicy, Tid};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::ignorable_test("a_limit_and_its_throttling_are_seen", a_limit_and_its_throttling_are_seen)
            .with_ignored_flag(true),
        Trial::ignorable_test("a_task_that_only_waits_is_seen", a_task_that_only_waits_is_seen).with_ignored_flag(true),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A cgroup of our own, removed on drop together with its only process.
struct Group {
    directory: PathBuf,
    name: String,
    member: Option<Child>,
}

impl Group {
    fn create(hierarchy: &Hierarchy) -> std::io::Result<Group> {
        let name = format!("unstarve-{}", std::process::id());
        let directory = Path::new(&hierarchy.mount).join(&name);
        fs::create_dir(&directory)?;
        Ok(Group { directory, name, member: None })
    }

    fn set(&self, file: &str, value: &str) -> std::io::Result<()> {
        fs::write(self.directory.join(file), value)
    }

    /// A process in this group that computes for two seconds at most.
    fn add_hog(&mut self) -> Tid {
        let hog = Command::new("timeout")
            .args(["2", "sh", "-c", "echo 0 > \"$1\"/cgroup.procs; exec nice -n 5 sh -c 'while :; do :; done'", "sh"])
            .arg(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a hog");
        self.member = Some(hog);
        let limit = std::time::Instant::now() + Duration::from_secs(5);
        loop {
            let members = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
            if let Some(member) = members.lines().next().and_then(|line| line.parse().ok()) {
                return Tid(member);
            }
            assert!(std::time::Instant::now() < limit, "the hog does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(member) = &mut self.member {
            // It ends the shell within two seconds; the group can be removed only after that.
            let _ = member.wait();
        }
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn a_limit_and_its_throttling_are_seen() -> Result<Completion, Failed> {
    let root = Root::host();
    let Some(hierarchy) = unstarve_host::take(&root).hierarchy else {
        return Ok(Completion::ignored_with("no cgroup hierarchy"));
    };
    let mut group = match Group::create(&hierarchy) {
        Ok(group) => group,
        Err(error) => return Ok(Completion::ignored_with(format!("no cgroup can be made: {error}"))),
    };
    let limited = match hierarchy.version {
        CgroupVersion::V1 => group.set("cpu.cfs_quota_us", "10000").and_then(|()| group.set("cpu.shares", "512")),
        CgroupVersion::V2 => group.set("cpu.max", "10000 100000").and_then(|()| group.set("cpu.weight", "50")),
    };
    if let Err(error) = limited {
        return Ok(Completion::ignored_with(format!("the CPU controller is not enabled: {error}")));
    }
    let begin = unstarve_host::take(&root);
    let hog = group.add_hog();
    std::thread::sleep(Duration::from_millis(700));
    let whole = begin.finished_by(unstarve_host::take(&root));

    let path = format!("/{}", group.name);
    assert_eq!(whole.cgroup_of(hog), Some(path.as_str()));
    assert_eq!(whole.weight_of_top_cgroup(hog), Some(512));
    assert_eq!(whole.policy_of(hog), Some(SchedPolicy::Other));
    let limit = whole.limited_cgroup_of(hog).and_then(|group| group.limit).expect("a limit");
    assert_eq!((limit.quota_us, limit.period_us), (10_000, 100_000));
    let throttled = whole.throttled_meanwhile(&path).expect("it was throttled");
    assert!(throttled.count >= 2 && throttled.ns > Nanos::from_millis(100), "{throttled:?}");
    Ok(Completion::Completed)
}

/// A limit of 1 ms per second keeps a task runnable but off the CPU.
fn a_task_that_only_waits_is_seen() -> Result<Completion, Failed> {
    let root = Root::host();
    let Some(hierarchy) = unstarve_host::take(&root).hierarchy else {
        return Ok(Completion::ignored_with("no cgroup hierarchy"));
    };
    let mut group = match Group::create(&hierarchy) {
        Ok(group) => group,
        Err(error) => return Ok(Completion::ignored_with(format!("no cgroup can be made: {error}"))),
    };
    let limited = match hierarchy.version {
        CgroupVersion::V1 => {
            group.set("cpu.cfs_period_us", "1000000").and_then(|()| group.set("cpu.cfs_quota_us", "1000"))
        }
        CgroupVersion::V2 => group.set("cpu.max", "1000 1000000"),
    };
    if let Err(error) = limited {
        return Ok(Completion::ignored_with(format!("the CPU controller is not enabled: {error}")));
    }
    let hog = group.add_hog();
    std::thread::sleep(Duration::from_millis(200));
    // Its millisecond may come between two snapshots, but not between those of each pair.
    let looks = (0..3).map(|_| {
        let begin = unstarve_host::take(&root);
        std::thread::sleep(Duration::from_millis(150));
        begin.finished_by(unstarve_host::take(&root))
    });
    let waited: Vec<Option<bool>> = looks.map(|look| look.task(hog).and_then(|task| task.has_only_waited())).collect();
    assert!(waited.contains(&Some(true)), "{waited:?}");
    Ok(Completion::Completed)
}
