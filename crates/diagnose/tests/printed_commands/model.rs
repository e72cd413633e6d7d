//! A directory that stands for /proc, /sys and /run of the recorded host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use unstarve_change::{Change, Selector, Target};
use unstarve_diagnose::report::Report;
use unstarve_facts::{CgroupVersion, Snapshot, TaskFacts};
use unstarve_model::{Policy, Prio, SchedPolicy, Tid};

/// What a shell sees instead of the host's own.
const PLACES: [&str; 3] = ["sys", "run", "proc"];

pub struct Model {
    tree: TempDir,
    namespaces: Namespaces,
}

/// Whether a shell can have its own /proc and /sys here. Where it cannot, the paths in the commands are changed instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespaces {
    AsRoot,
    AsUser,
    No,
}

impl Namespaces {
    pub fn here() -> Namespaces {
        let can =
            |flag: &str| Command::new("unshare").args([flag, "true"]).output().is_ok_and(|out| out.status.success());
        match (can("-m"), can("-rm")) {
            (true, _) => Namespaces::AsRoot,
            (false, true) => Namespaces::AsUser,
            (false, false) => Namespaces::No,
        }
    }
}

impl Model {
    /// A host without threads and files.
    pub fn empty(namespaces: Namespaces) -> Model {
        let place = Some(Path::new("/dev/shm")).filter(|place| place.is_dir());
        let tree = tempfile::tempdir_in(place.unwrap_or(&std::env::temp_dir())).expect("a directory");
        let model = Model { tree, namespaces };
        PLACES.iter().for_each(|place| fs::create_dir(model.path(place)).expect("a directory"));
        model
    }

    /// The host of a report, as far as its remedies touch it.
    pub fn of(report: &Report, snapshot: Option<&Snapshot>, namespaces: Namespaces) -> Model {
        let model = Model::empty(namespaces);
        let changes: Vec<&Change> =
            report.findings.iter().flat_map(|finding| &finding.remedies).flat_map(|remedy| &remedy.changes).collect();
        let seen = priorities(report);
        for tid in tids(&changes, snapshot) {
            let known = snapshot.and_then(|snapshot| snapshot.task(tid));
            model.add_thread(tid, known, seen.get(&tid).map_or(&[], Vec::as_slice), snapshot);
        }
        snapshot.into_iter().for_each(|snapshot| model.add_files(snapshot));
        for change in changes {
            if let Target::File { path } = &change.target
                && !model.path(path).exists()
            {
                let was = change.was.as_ref();
                assert!(was.is_none(), "{path}: {was:?} was recorded, and the snapshot does not have it");
                model.write(path, "12345\n");
            }
        }
        model
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.path().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("written");
    }

    fn add_thread(&self, tid: Tid, known: Option<&TaskFacts>, seen: &[Prio], snapshot: Option<&Snapshot>) {
        let agrees = |task: &&TaskFacts| seen.is_empty() || task.prio().is_some_and(|prio| seen.contains(&prio));
        let odd = tid.0 % 2 == 1;
        let (sched, nice) = match (known.filter(agrees), seen.first().map(|prio| (prio, prio.policy()))) {
            (Some(task), _) => (sched(task.policy, task.rt_priority), task.nice),
            (None, Some((_, Policy::Deadline))) => (sched(SchedPolicy::Deadline, 0), 0),
            (None, Some((prio, Policy::Rt))) => {
                let policy = if odd { SchedPolicy::Fifo } else { SchedPolicy::Rr };
                (sched(policy, (99 - prio.0).unsigned_abs()), known.map_or(0, |task| task.nice))
            }
            (None, Some((prio, _))) => {
                let policy = if odd { SchedPolicy::Other } else { SchedPolicy::Batch };
                (sched(policy, 0), prio.nice().expect("fair"))
            }
            (None, None) => (sched(SchedPolicy::Other, 0), 0),
        };
        // Where nobody knows the flag, some have it.
        let kernel = known.is_some_and(|task| task.kernel_thread);
        let flag = known.and_then(|task| task.reset_on_fork).unwrap_or(!kernel && tid.0 % 3 == 0);
        let (policy, times) = sched.split_once('|').expect("two parts");
        self.write(&format!("/proc/{tid}/sched"), &format!("{policy} {} {times}\n", u8::from(flag)));
        let fields = format!("S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} 1 0 7");
        self.write(&format!("/proc/{tid}/stat"), &format!("{tid} (a) b) {fields}\n"));
        let cpus = known.and_then(|task| task.allowed.as_ref()).map_or("0-63".to_owned(), ToString::to_string);
        self.write(&format!("/proc/{tid}/status"), &format!("Name:\tx\nCpus_allowed_list:\t{cpus}\n"));
        if known.is_some_and(|task| task.affinity_fixed) {
            self.write(&format!("/proc/{tid}/fixed"), "");
        }
        let process = known.and_then(|task| task.tgid).unwrap_or(tid);
        self.write(&format!("/proc/{process}/task/{tid}/comm"), "x\n");
        self.add_group_of(tid, known.and_then(|task| task.cgroup.as_deref()), snapshot);
    }

    /// One that the recording does not know is heavy.
    fn add_group_of(&self, tid: Tid, group: Option<&str>, snapshot: Option<&Snapshot>) {
        let hierarchy = snapshot.and_then(|snapshot| snapshot.hierarchy.as_ref());
        let path = group.unwrap_or("/box/inner");
        if hierarchy.is_some_and(|hierarchy| hierarchy.version == CgroupVersion::V1) {
            self.write(&format!("/proc/{tid}/cgroup"), &format!("5:memory:/m\n4:cpu,cpuacct:{path}\n0::/e\n"));
            self.write("/sys/fs/cgroup/cpu/box/cpu.shares", "51200\n");
        } else {
            self.write(&format!("/proc/{tid}/cgroup"), &format!("0::{path}\n"));
            self.write("/sys/fs/cgroup/box/cpu.weight", "5000\n");
        }
    }

    fn add_files(&self, snapshot: &Snapshot) {
        for (path, text) in &snapshot.settings {
            self.write(path, &format!("{text}\n"));
        }
        for irq in &snapshot.irqs {
            if let Some(cpus) = &irq.affinity {
                self.write(&format!("/proc/irq/{}/smp_affinity_list", irq.irq), &format!("{cpus}\n"));
            }
        }
        let Some(hierarchy) = &snapshot.hierarchy else { return };
        for group in &snapshot.cgroups {
            let file = |name: &str| format!("{}{}/{name}", hierarchy.mount.trim_end_matches('/'), group.path);
            if let Some(weight) = group.weight {
                self.write(&file("cpu.weight"), &format!("{weight}\n"));
            }
            if let Some(shares) = group.shares {
                self.write(&file("cpu.shares"), &format!("{shares}\n"));
            }
            match (group.limit, hierarchy.version) {
                (Some(limit), CgroupVersion::V2) => {
                    self.write(&file("cpu.max"), &format!("{} {}\n", limit.quota_us, limit.period_us));
                }
                (Some(limit), CgroupVersion::V1) => {
                    self.write(&file("cpu.cfs_quota_us"), &format!("{}\n", limit.quota_us));
                }
                (None, _) => {}
            }
        }
    }

    /// Runs a line as printed, under `sh -eu`.
    pub fn run(&self, line: &str) -> Output {
        let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/printed_commands/bin");
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        let tree = self.tree.path().to_str().expect("UTF-8");
        let mount = "for p in sys run proc; do mount --bind \"$1/$p\" /$p; done; exec sh -euc \"$2\"";
        let mut command = match self.namespaces {
            Namespaces::AsRoot => Command::new("unshare"),
            Namespaces::AsUser => Command::new("unshare"),
            Namespaces::No => Command::new("sh"),
        };
        match self.namespaces {
            Namespaces::AsRoot => command.args(["-m", "sh", "-euc", mount, "sh", tree, line]),
            Namespaces::AsUser => command.args(["-rm", "sh", "-euc", mount, "sh", tree, line]),
            Namespaces::No => command.args(["-euc", &elsewhere(line, tree)]),
        };
        command.env("PATH", path).output().expect("sh")
    }

    /// All files with their texts.
    pub fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        let mut directories = vec![self.tree.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("a directory") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("a type").is_dir() {
                    directories.push(entry.path());
                } else {
                    state.insert(entry.path(), fs::read_to_string(entry.path()).expect("text"));
                }
            }
        }
        state
    }
}

/// The same line for files elsewhere.
fn elsewhere(line: &str, tree: &str) -> String {
    PLACES.iter().fold(line.to_owned(), |line, place| line.replace(&format!("/{place}/"), &format!("{tree}/{place}/")))
}

/// `policy priority|runtime deadline period`.
fn sched(policy: SchedPolicy, priority: u32) -> String {
    let times = if policy == SchedPolicy::Deadline { "5000001 10000000 20000000" } else { "0 0 0" };
    format!("{} {priority}|{times}", unstarve_change::policy_name(policy))
}

/// The priorities that the report shows of each thread.
fn priorities(report: &Report) -> BTreeMap<Tid, Vec<Prio>> {
    let mut seen: BTreeMap<Tid, Vec<Prio>> = BTreeMap::new();
    for finding in &report.findings {
        let rows = finding.culprits.iter().chain(&finding.blame).map(|row| (&row.tids, row.prio));
        for (tids, prio) in rows.chain([(&finding.victim.tids, finding.victim.prio)]) {
            for tid in tids {
                seen.entry(Tid(*tid)).or_default().extend(prio.map(Prio));
            }
        }
    }
    seen
}

/// The threads that changes name, and all others of their processes.
fn tids(changes: &[&Change], snapshot: Option<&Snapshot>) -> BTreeSet<Tid> {
    let mut tids: BTreeSet<Tid> = BTreeSet::new();
    for change in changes {
        match &change.target {
            Target::Thread(thread) | Target::GroupWeightOf(thread) => tids.insert(thread.tid),
            Target::Threads(Selector::Process(process)) => tids.insert(process.tid),
            _ => false,
        };
    }
    let Some(snapshot) = snapshot else { return tids };
    let processes: BTreeSet<Tid> = tids.iter().filter_map(|tid| snapshot.process_of(*tid)).collect();
    let theirs = snapshot.tasks.iter().filter(|task| processes.contains(&task.tgid.unwrap_or(task.tid)));
    tids.extend(theirs.map(|task| task.tid));
    tids
}
