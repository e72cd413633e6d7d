//! Settings of a host that a bundle has: files of `/proc` and `/sys` under their own names, `sysctl -a`, `uname -a`, lists of threads.
//! They become the snapshot that `check` judges. What a bundle lacks is absent there and named as missing, never a default.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use unstarve_facts::{
    Bandwidth, CgroupFacts, CgroupVersion, Cpus, Hierarchy, KernelInfo, Missing, Snapshot, TaskFacts, Throttled,
};
use unstarve_model::{CpuSet, Tid, is_harmful};
use unstarve_sched::KernelThread;

use crate::fact::Facts;

// `BUNDLE/proc/sys/kernel/sched_rt_runtime_us`, `…/sys/fs/cgroup/kubepods.slice/cpu.weight`
pattern!(
    FILE = r"(?:^|/)(?<path>proc/cmdline|proc/sys/kernel/[\w.-]+|sys/kernel/debug/(?:sched/[\w/]+|sched_features)|sys/kernel/sched_ext/(?:state|switch_all|root/ops)|sys/devices/system/cpu/(?:online|possible|isolated|nohz_full)|sys/fs/cgroup/(?:.*/)?cpu\.(?:max|weight|idle|shares|stat|cfs_quota_us|cfs_period_us))$"
);

/// Files of settings that are kept. A node with 1,000 pods has some 10,000 of cgroups.
const MAX_FILES: usize = 100_000;

/// A setting has a line; a group's `cpu.stat` some more.
const MAX_BYTES: usize = 4 << 10;

/// A bundle's file that has a setting of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathOnHost {
    /// Its path on the host.
    pub path: String,
    /// Directories of the bundle above the host's root: those of a container are deeper than the host's own.
    pub depth: usize,
}

/// The text of a file of settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingFile {
    pub text: String,
    /// As in [`PathOnHost`].
    pub depth: usize,
}

/// Keeps a file of settings, unless one is known that is less deep in its bundle.
pub fn keep_file(files: &mut BTreeMap<String, SettingFile>, path: String, new: SettingFile) {
    match files.entry(path) {
        Entry::Occupied(mut known) if new.depth < known.get().depth => {
            known.insert(new);
        }
        Entry::Occupied(_) => {}
        Entry::Vacant(free) => {
            free.insert(new);
        }
    }
}

/// The path on the host of a bundle's file that has a setting.
pub fn path_on_host(name: &str) -> Option<PathOnHost> {
    let found = FILE.captures(name)?.name("path")?;
    let (path, depth) = (format!("/{}", found.as_str()), name[..found.start()].matches('/').count());
    // A name that controls a terminal, and was written otherwise on the way, is the target of no command.
    if path.contains("\\u{") || path.chars().any(is_harmful) {
        return None;
    }
    // A dump, which is read as such.
    (path != "/sys/kernel/debug/sched/debug" && !path.contains("/../")).then_some(PathOnHost { path, depth })
}

/// Keeps the text of a file of settings.
pub fn add_file(PathOnHost { path, depth }: PathOnHost, text: &[u8], facts: &mut Facts) {
    if text.len() > MAX_BYTES || text.contains(&0) || facts.files.len() >= MAX_FILES {
        facts.left_out += 1;
        return;
    }
    let text = String::from_utf8_lossy(text).trim().to_owned();
    keep_file(&mut facts.files, path, SettingFile { text, depth });
}

/// The settings of a host as far as its texts have them; `None` if they do not even name the kernel.
pub fn snapshot(facts: &Facts) -> Option<Snapshot> {
    let release = facts.kernel.clone()?;
    let file = |path: &str| facts.files.get(path).map(|file| file.text.as_str());
    let cpus =
        |name: &str| file(&format!("/sys/devices/system/cpu/{name}")).and_then(|list| list.parse::<CpuSet>().ok());
    let (hierarchy, cgroups) = cgroups(&facts.files);
    let mut snapshot = empty();
    snapshot.kernel = KernelInfo {
        release: Some(release),
        version: facts.kernel_version.clone(),
        cmdline: facts.command_line.clone().or_else(|| file("/proc/cmdline").map(str::to_owned)),
        ..KernelInfo::default()
    };
    snapshot.features = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"]
        .into_iter()
        .find_map(file)
        .map(features);
    snapshot.settings = settings(facts);
    snapshot.cpus = Cpus {
        online: cpus("online"),
        possible: cpus("possible"),
        isolated: cpus("isolated"),
        nohz_full: cpus("nohz_full"),
    };
    (snapshot.hierarchy, snapshot.cgroups) = (hierarchy, cgroups);
    snapshot.tasks = tasks(facts);
    snapshot.host.clone_from(&facts.host);
    snapshot.missing = missing(&snapshot);
    Some(snapshot)
}

fn empty() -> Snapshot {
    let json = format!(r#"{{"schema":"{}","kernel":{{}}}}"#, Snapshot::SCHEMA);
    Snapshot::from_json(&json).expect("the least snapshot")
}

/// `NEXT_BUDDY` and `NO_NEXT_BUDDY`.
pub fn features(text: &str) -> BTreeMap<String, bool> {
    let feature = |word: &str| match word.strip_prefix("NO_") {
        Some(name) => (name.to_owned(), false),
        None => (word.to_owned(), true),
    };
    text.split_whitespace().map(feature).collect()
}

/// Settings by their path; those of `sysctl -a` have a path, too.
fn settings(facts: &Facts) -> BTreeMap<String, String> {
    let is_setting = |path: &str| {
        path.starts_with("/proc/sys/kernel/")
            || path.starts_with("/sys/kernel/sched_ext/")
            || path.starts_with("/sys/kernel/debug/sched/") && !path.ends_with("/features")
    };
    let files =
        facts.files.iter().filter(|(path, _)| is_setting(path)).map(|(path, file)| (path.clone(), file.text.clone()));
    let sysctl =
        facts.settings.iter().map(|(key, value)| (format!("/proc/sys/{}", key.replace('.', "/")), value.clone()));
    sysctl.chain(files).collect()
}

/// The groups below the root of the hierarchy that has the CPU controller.
fn cgroups(files: &BTreeMap<String, SettingFile>) -> (Option<Hierarchy>, Vec<CgroupFacts>) {
    const ROOT: &str = "/sys/fs/cgroup";
    const CONTROLLERS: [&str; 4] = ["/cpu,cpuacct", "/cpuacct,cpu", "/cpu", "/unified"];
    let mut groups: BTreeMap<&str, CgroupFacts> = BTreeMap::new();
    let mut mount = None;
    for (path, SettingFile { text, .. }) in files {
        let Some((directory, name)) = path.strip_prefix(ROOT).and_then(|below| below.rsplit_once('/')) else {
            continue;
        };
        let is_in = |controller: &str| {
            directory.strip_prefix(controller).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let controller = CONTROLLERS.into_iter().find(|controller| is_in(controller)).unwrap_or_default();
        let group = &directory[controller.len()..];
        mount = mount.or(Some((controller, matches!(name, "cpu.shares" | "cpu.cfs_quota_us" | "cpu.cfs_period_us"))));
        if group.is_empty() {
            continue;
        }
        let facts =
            groups.entry(group).or_insert_with(|| CgroupFacts { path: group.to_owned(), ..CgroupFacts::default() });
        let period = || files.get(&path.replace("cpu.cfs_quota_us", "cpu.cfs_period_us")).map(|file| &file.text);
        match name {
            "cpu.weight" => facts.weight = text.parse().ok(),
            "cpu.shares" => facts.shares = text.parse().ok(),
            "cpu.idle" => facts.idle = text == "1",
            "cpu.max" => facts.limit = Bandwidth::of_v2(text),
            "cpu.cfs_quota_us" => facts.limit = period().and_then(|period| Bandwidth::of_v1(text, period)),
            "cpu.stat" => facts.throttled = Throttled::parse(text),
            _ => {}
        }
    }
    let is_v1 = groups.values().any(|group| group.shares.is_some()) || mount.is_some_and(|(_, is_v1)| is_v1);
    let version = if is_v1 { CgroupVersion::V1 } else { CgroupVersion::V2 };
    let hierarchy = mount.map(|(controller, _)| Hierarchy { version, mount: format!("{ROOT}{controller}") });
    (hierarchy, groups.into_values().collect())
}

/// The threads of a list that has all of them, with their policies: init and kthreadd are among them.
fn tasks(facts: &Facts) -> Vec<TaskFacts> {
    let mut tasks: BTreeMap<u32, TaskFacts> = BTreeMap::new();
    for seen in facts.seen.iter().filter(|seen| !seen.comm.is_empty()) {
        let Some(policy) = seen.policy else { continue };
        let kernel_thread = KernelThread::of(&seen.comm.as_str().into()).is_some() || seen.comm == "kthreadd";
        tasks.insert(
            seen.pid,
            TaskFacts {
                tid: Tid(seen.pid),
                tgid: None,
                comm: seen.comm.clone(),
                policy,
                rt_priority: seen.rt_priority.unwrap_or_default(),
                nice: seen.nice.unwrap_or_default(),
                allowed: None,
                policy_last: None,
                allowed_last: None,
                cgroup: None,
                kernel_thread,
                user: None,
                affinity_fixed: false,
                parent: None,
                cpu_ticks: None,
                child_ticks: None,
                child_faults: None,
                reset_on_fork: None,
                deadline: None,
                autogroup: None,
                cmdline: None,
                seen: None,
                seen_last: None,
                start_ticks: 0,
            },
        );
    }
    let is_whole = tasks.contains_key(&1) && tasks.get(&2).is_some_and(|task| task.comm == "kthreadd");
    if is_whole { tasks.into_values().collect() } else { Vec::new() }
}

/// What a bundle lacks, and the command that prints it.
fn missing(snapshot: &Snapshot) -> Vec<Missing> {
    let table = [
        (snapshot.tasks.is_empty(), "threads", "ps -eLo pid,tid,cls,rtprio,ni,psr,stat,pcpu,comm"),
        (snapshot.settings.is_empty(), "settings", "sudo sysctl -a"),
        (snapshot.features.is_none(), "features of the scheduler", "sudo cat /sys/kernel/debug/sched/features"),
        (snapshot.kernel.cmdline.is_none(), "boot parameters", "cat /proc/cmdline"),
        (snapshot.cgroups.is_empty(), "cgroups", "sudo grep -r . /sys/fs/cgroup --include='cpu.*'"),
        (true, "affinities, interrupts, mounts and files of settings", "sudo unstarve snapshot -o host.json"),
    ];
    let entry = |(_, what, command): (bool, &str, &str)| Missing {
        what: what.to_owned(),
        why: format!("not in the texts; on the host: {command}"),
    };
    table.into_iter().filter(|(is_missing, ..)| *is_missing).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_bundles_have_their_path_on_the_host() {
        let table = [
            ("sos/proc/sys/kernel/sched_rt_runtime_us", Some("/proc/sys/kernel/sched_rt_runtime_us")),
            ("b.tar.gz/x/sys/fs/cgroup/kubepods.slice/cpu.weight", Some("/sys/fs/cgroup/kubepods.slice/cpu.weight")),
            ("sys/kernel/debug/sched/features", Some("/sys/kernel/debug/sched/features")),
            ("sys/kernel/debug/sched/debug", None),
            ("sys/fs/cgroup/../../cpu.weight", None),
            ("notes/cpu.weight", None),
            ("sys/fs/cgroup/a\x1b[2J/cpu.weight", None),
            ("sys/fs/cgroup/a\\u{1b}[2J/cpu.weight", None),
            ("sys/fs/cgroup/serial\\x2dgetty/cpu.weight", Some("/sys/fs/cgroup/serial\\x2dgetty/cpu.weight")),
            ("myproc/sys/kernel/x", None),
        ];
        for (name, path) in table {
            assert_eq!(path_on_host(name).map(|found| found.path).as_deref(), path, "{name}");
        }
    }

    #[test]
    fn what_the_texts_have_is_in_the_snapshot_and_the_rest_is_missing() {
        let mut facts = Facts::default();
        assert!(snapshot(&facts).is_none(), "no kernel is named");
        facts.kernel = Some("6.12.43".to_owned());
        facts.settings.insert("kernel.sched_rt_runtime_us".to_owned(), "-1".to_owned());
        let files = [
            ("/sys/fs/cgroup/kubepods.slice/cpu.weight", "468\n"),
            ("/sys/fs/cgroup/kubepods.slice/pod1/cpu.max", "50000 100000\n"),
            (
                "/sys/fs/cgroup/kubepods.slice/pod1/cpu.stat",
                "nr_periods 100\nnr_throttled 50\nthrottled_usec 2500000\n",
            ),
            ("/sys/kernel/debug/sched/features", "PLACE_LAG NO_NEXT_BUDDY\n"),
            ("/sys/devices/system/cpu/online", "0-3\n"),
        ];
        files.into_iter().for_each(|(path, text)| {
            add_file(PathOnHost { path: path.to_owned(), depth: 0 }, text.as_bytes(), &mut facts)
        });
        let found = snapshot(&facts).expect("a kernel is named");
        assert_eq!(found.setting("sched_rt_runtime_us"), Some(("/proc/sys/kernel/sched_rt_runtime_us", "-1")));
        assert_eq!(
            (found.feature("PLACE_LAG"), found.feature("NEXT_BUDDY"), found.feature("X")),
            (Some(true), Some(false), None)
        );
        assert_eq!(found.cpus.online.as_ref().map(CpuSet::len), Some(4));
        let groups: Vec<_> = found
            .cgroups
            .iter()
            .map(|group| (group.path.as_str(), group.weight, group.limit.is_some(), group.throttled.is_some()))
            .collect();
        assert_eq!(groups, [("/kubepods.slice", Some(468), false, false), ("/kubepods.slice/pod1", None, true, true)]);
        assert_eq!(found.hierarchy.map(|found| found.version), Some(CgroupVersion::V2));
        let missing: Vec<_> = found.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(missing, ["threads", "boot parameters", "affinities, interrupts, mounts and files of settings"]);
    }

    #[test]
    fn a_limit_that_no_kernel_takes_is_none() {
        let limit = |text: &str| {
            let mut facts = Facts { kernel: Some("6.12.0".to_owned()), ..Facts::default() };
            let path = PathOnHost { path: "/sys/fs/cgroup/a/cpu.max".to_owned(), depth: 0 };
            add_file(path, text.as_bytes(), &mut facts);
            snapshot(&facts).expect("a kernel is named").cgroups[0].limit.is_some()
        };
        let table = [
            ("50000 100000", true),
            ("1000 1000", true),
            ("max 100000", false),
            ("18446744073709551615 1", false),
            ("999 100000", false),
            ("50000 1000001", false),
            ("17592186044416 100000", false),
        ];
        for (text, is_one) in table {
            assert_eq!(limit(text), is_one, "{text}");
        }
    }

    #[test]
    fn groups_of_the_first_version() {
        let mut facts = Facts { kernel: Some("4.18.0".to_owned()), ..Facts::default() };
        let files = [
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.shares", "2048"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"),
        ];
        files.into_iter().for_each(|(path, text)| {
            add_file(PathOnHost { path: path.to_owned(), depth: 0 }, text.as_bytes(), &mut facts)
        });
        let found = snapshot(&facts).expect("a kernel is named");
        assert_eq!(
            found.hierarchy.as_ref().map(|found| (found.version, found.mount.as_str())),
            Some((CgroupVersion::V1, "/sys/fs/cgroup/cpu,cpuacct"))
        );
        assert_eq!(
            (found.cgroups[0].path.as_str(), found.cgroups[0].shares, found.cgroups[0].limit),
            ("/a", Some(2048), None)
        );
    }
}
