//! Reads tasks from /proc and by system calls.

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use unstarve_change::TaskKey;
use unstarve_executor::proc::start_of;
use unstarve_executor::sched;
use unstarve_facts::{Stat, flag, unit_of};
use unstarve_host::whole_cgroups;
use unstarve_model::Tid;
use unstarve_sched::setting::TASK_SETTINGS;

use crate::owner::Owner;
use crate::policy::{Policy, Selector};
pub use crate::task::Wanted;
use crate::task::{Kind, Task, Work};

/// Reads tasks, and reuses its buffer.
#[derive(Debug, Default)]
pub struct Scanner {
    wanted: Wanted,
    /// Selectors that need a command line, without that condition: of tasks that match none, it is not read. Empty: it is read
    /// for all.
    cmdlines_of: Vec<Selector>,
    cmdlines: RefCell<CommandLines>,
    buffer: RefCell<Vec<u8>>,
}

/// The kernel returns command lines of any length, which the program chooses; globs need no more than this.
const LONGEST_CMDLINE: usize = 4096;

impl Scanner {
    /// A scanner that reads these files.
    pub fn new(wanted: Wanted) -> Scanner {
        Scanner { wanted, ..Scanner::default() }
    }

    /// A scanner that reads the files that a policy's rules need.
    pub fn of(policy: &Policy) -> Scanner {
        let asking = policy.rules.iter().map(|rule| &rule.selector).filter(|selector| selector.cmdline.is_some());
        let cmdlines_of = asking.map(|selector| Selector { cmdline: None, ..selector.clone() }).collect();
        Scanner { cmdlines_of, ..Scanner::new(policy.wanted()) }
    }

    /// All threads, in the order of /proc, without those that exit meanwhile.
    pub fn all(&self) -> std::io::Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let mut parents = FxHashMap::default();
        for process in fs::read_dir("/proc")?.flatten() {
            let Some(tgid) = numeric(&process) else { continue };
            let Ok(threads) = fs::read_dir(process.path().join("task")) else { continue };
            for thread in threads.flatten() {
                if let Some(tid) = numeric(&thread) {
                    tasks.extend(self.task_of(Some(tgid), tid, &mut parents));
                }
            }
        }
        Ok(tasks)
    }

    /// A task by its tid; `None` if it does not exist (any more).
    pub fn task(&self, tid: Tid) -> Option<Task> {
        self.task_of(None, tid, &mut FxHashMap::default())
    }

    /// A task whose process is known.
    pub fn task_in(&self, tgid: Tid, tid: Tid) -> Option<Task> {
        self.task_of(Some(tgid), tid, &mut FxHashMap::default())
    }

    fn task_of(&self, tgid: Option<Tid>, tid: Tid, parents: &mut FxHashMap<Tid, String>) -> Option<Task> {
        let stat = Stat::parse(&self.file(tid, "stat")?)?;
        let kernel = stat.is_kernel_thread();
        let status = match tgid {
            Some(_) if !self.wanted.owner => None,
            None if kernel && !self.wanted.owner => None,
            _ => Some(self.file(tid, "status")?),
        };
        // A kernel thread is a process of its own.
        let tgid = match tgid {
            Some(tgid) => tgid,
            None if kernel => tid,
            None => status_tgid(status.as_deref()?)?,
        };
        let (comm, work) = split_worker(&stat.comm, stat.flags);
        let cgroups = if self.wanted.cgroup { self.file(tid, "cgroup").map(whole_cgroups) } else { None };
        let parent = (self.wanted.parent && stat.parent.0 > 0).then(|| {
            let name = parents.entry(stat.parent).or_insert_with(|| self.comm(stat.parent).unwrap_or_default());
            (stat.parent, name.clone())
        });
        let mut task = Task {
            key: TaskKey { tid, start: stat.start },
            tgid,
            parent,
            kind: Kind::of(&comm, stat.flags),
            comm,
            cmdline: None,
            cgroup: cgroups.as_deref().and_then(cpu_group),
            unit: cgroups.as_deref().and_then(|text| unit(text, manager_root())),
            affinity_fixed: stat.flags & flag::NO_SETAFFINITY != 0,
            owner: status.as_deref().and_then(Owner::read),
            works: work.into_iter().collect(),
            attributes: sched::read(tid).ok()?,
        };
        if self.wanted.settings {
            let of_files = TASK_SETTINGS.into_iter().filter(|setting| setting.file.is_some());
            let read = of_files.filter_map(|setting| sched::read_value(tid, setting.aspect).ok()?);
            task.attributes.files = read.collect();
        }
        // Last, and only if a rule depends on it: it is the most expensive read, and the process can delay it.
        let asked_for = || self.cmdlines_of.is_empty() || self.cmdlines_of.iter().any(|rest| rest.matches(&task));
        if self.wanted.cmdline && !kernel && asked_for() {
            task.cmdline = self.cmdline(tgid);
        }
        Some(task)
    }

    fn comm(&self, tid: Tid) -> Option<String> {
        let stat = Stat::parse(&self.file(tid, "stat")?)?;
        Some(split_worker(&stat.comm, stat.flags).0)
    }

    fn cmdline(&self, tgid: Tid) -> Option<String> {
        let text = self.cmdlines.borrow_mut().of(tgid)?;
        Some(text.trim_end_matches('\0').replace('\0', " "))
    }

    fn file(&self, tid: Tid, name: &str) -> Option<String> {
        let mut buffer = self.buffer.borrow_mut();
        buffer.clear();
        let file = fs::File::open(format!("/proc/{tid}/{name}")).ok()?;
        file.take(LONGEST_CMDLINE as u64).read_to_end(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer).into_owned())
    }
}

/// Reads command lines in a separate thread: the kernel takes the process's mmap lock for that, which the process can hold as
/// long as it likes. When the read times out, the task has no command line.
#[derive(Debug, Default)]
struct CommandLines {
    reader: Option<Reader>,
    /// When readers timed out recently.
    late: Vec<Instant>,
}

/// Requests to the reader thread, and its answers.
type Reader = (mpsc::Sender<Tid>, mpsc::Receiver<(Tid, String)>);

/// Timeout of a read that takes microseconds.
const CMDLINE_PATIENCE: Duration = Duration::from_millis(100);
/// No new reader is started while this many timed out within…
const MOST_LATE: usize = 16;
/// …this time.
const FORGIVEN: Duration = Duration::from_secs(30);

impl CommandLines {
    fn of(&mut self, tgid: Tid) -> Option<String> {
        self.late.retain(|at| at.elapsed() < FORGIVEN);
        if self.late.len() >= MOST_LATE {
            return None;
        }
        if self.reader.is_none() {
            self.reader = Some(CommandLines::start()?);
        }
        let (ask, answers) = self.reader.as_ref()?;
        let answer = ask.send(tgid).ok().and_then(|()| answers.recv_timeout(CMDLINE_PATIENCE).ok());
        if answer.is_none() {
            // The thread exits when it returns and the channel is closed.
            self.reader = None;
            self.late.push(Instant::now());
        }
        answer.filter(|(of, _)| *of == tgid).map(|(_, text)| text)
    }

    fn start() -> Option<Reader> {
        let (ask, questions) = mpsc::channel::<Tid>();
        let (answer, answers) = mpsc::channel();
        // The same priority as the caller, whose threads start as ordinary ones.
        let priority = sched::read(Tid(0)).map_or(0, |own| own.rt_priority);
        let read = move || {
            if priority > 0 {
                let _ = sched::become_realtime(priority);
            }
            while let Ok(tgid) = questions.recv() {
                let mut bytes = Vec::new();
                let file = fs::File::open(format!("/proc/{tgid}/cmdline"));
                let read = file.and_then(|file| file.take(LONGEST_CMDLINE as u64).read_to_end(&mut bytes));
                let text = if read.is_ok() { String::from_utf8_lossy(&bytes).into_owned() } else { String::new() };
                if answer.send((tgid, text)).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("unstarve-names".to_owned()).spawn(read).ok()?;
        Some((ask, answers))
    }
}

fn numeric(entry: &fs::DirEntry) -> Option<Tid> {
    entry.file_name().to_str()?.parse().ok().map(Tid)
}

/// The owner of a task, if the tid still belongs to the same task.
pub fn owner_of(key: TaskKey) -> Option<Owner> {
    // The kernel escapes newlines in `Name:`, so no task can add a line of its own.
    let owner = Owner::read(&fs::read_to_string(format!("/proc/{}/status", key.tid)).ok()?);
    // Compared after the read, to notice a reused tid.
    owner.filter(|_| start_of(key.tid) == Some(key.start))
}

fn status_tgid(text: &str) -> Option<Tid> {
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok().map(Tid)
}

/// /proc appends a worker's item to its name (`+` if it runs now, `-` if it was the last): `kworker/0:1-dio/nvme0n1`. A
/// rescuer's name contains its workqueue (`kworker/R-dio/nvme0n1`, since 6.8).
fn split_worker(comm: &str, flags: u64) -> (String, Option<Work>) {
    if flags & flag::KTHREAD == 0 || flags & flag::WQ_WORKER == 0 {
        return (comm.to_owned(), None);
    }
    let of = |workqueue: &str| Some(Work { workqueue: Some(workqueue.to_owned()), function: None });
    let Some(rest) = comm.strip_prefix("kworker/") else { return (comm.to_owned(), of(comm)) };
    if let Some(workqueue) = rest.strip_prefix("R-") {
        return (comm.to_owned(), of(workqueue));
    }
    match rest.find(['-', '+']) {
        Some(at) => (format!("kworker/{}", &rest[..at]), of(&rest[at + 1..])),
        None => (comm.to_owned(), None),
    }
}

/// The cgroup in the hierarchy with the CPU controller: `7:cpu,cpuacct:/x` (v1), else `0::/x` (v2).
fn cpu_group(text: &str) -> Option<String> {
    let mut unified = None;
    for (controllers, path) in groups(text) {
        if controllers.split(',').any(|controller| controller == "cpu") {
            return Some(path.to_owned());
        }
        if controllers.is_empty() {
            unified = Some(path.to_owned());
        }
    }
    unified
}

/// The cgroup in systemd's hierarchy: `name=systemd` in v1, or v2.
fn manager_group(text: &str) -> Option<&str> {
    groups(text)
        .find(|(controllers, _)| *controllers == "name=systemd")
        .or_else(|| groups(text).find(|(controllers, _)| controllers.is_empty()))
        .map(|(_, path)| path)
}

/// The unit that the system's service manager created ([`unit_of`]).
fn unit(text: &str, root: &str) -> Option<String> {
    unit_of(manager_group(text)?, root)
}

/// The cgroup below which the system's service manager creates its groups: that of the init process, without `/init.scope`. It
/// is the root, unless this is a container that sees the host's cgroups.
pub fn manager_root() -> &'static str {
    static ROOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ROOT.get_or_init(|| {
        let text = whole_cgroups(fs::read_to_string("/proc/1/cgroup").unwrap_or_default());
        manager_group(&text).map(root_of).unwrap_or_default().to_owned()
    })
}

fn root_of(path: &str) -> &str {
    path.strip_suffix("/init.scope").unwrap_or("")
}

fn groups(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_split_from_its_work() {
        let worker = flag::KTHREAD | flag::WQ_WORKER;
        for (comm, flags, name, workqueue) in [
            ("kworker/0:1-dio/nvme0n1", worker, "kworker/0:1", Some("dio/nvme0n1")),
            ("kworker/1:2H+kblockd", worker, "kworker/1:2H", Some("kblockd")),
            ("kworker/u8:3-events_unbound", worker, "kworker/u8:3", Some("events_unbound")),
            ("kworker/0:0", worker, "kworker/0:0", None),
            ("kworker/R-dio/vda", worker, "kworker/R-dio/vda", Some("dio/vda")),
            ("dio/vda", worker, "dio/vda", Some("dio/vda")),
            ("kworker/0:1-dio/nvme0n1", 0, "kworker/0:1-dio/nvme0n1", None),
        ] {
            let (shown, work) = split_worker(comm, flags);
            assert_eq!((shown.as_str(), work.and_then(|work| work.workqueue).as_deref()), (name, workqueue), "{comm}");
        }
    }

    #[test]
    fn a_name_with_parentheses_and_newlines_does_not_shift_the_fields() {
        let text = "12 (a) R 9 (\n) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.comm.as_str(), stat.parent, stat.start), ("a) R 9 (\n", Tid(2), 4711));
    }

    #[test]
    fn groups_of_both_versions() {
        let v1 = "7:cpu,cpuacct:/kube\n1:name=systemd:/system.slice/x.service/sub\n0::/y\n";
        assert_eq!((cpu_group(v1).as_deref(), unit(v1, "").as_deref()), (Some("/kube"), Some("x.service")));
        let v2 = "0::/user.slice/session-3.scope\n";
        assert_eq!(
            (cpu_group(v2).as_deref(), unit(v2, "").as_deref()),
            (Some("/user.slice/session-3.scope"), Some("session-3.scope"))
        );
    }

    #[test]
    fn a_unit_is_the_systems_and_not_what_somebody_made_below_it() {
        for (path, expected) in [
            ("/system.slice/db.service", Some("db.service")),
            ("/system.slice/system-getty.slice/getty@tty1.service", Some("getty@tty1.service")),
            ("/system.slice/db.service/worker.service", Some("db.service")),
            ("/init.scope", Some("init.scope")),
            ("/user.slice/user-1001.slice/user@1001.service/app.slice/db.service", Some("user@1001.service")),
            ("/user.slice/user-1001.slice/user@1001.service/init.scope", Some("user@1001.service")),
            ("/user.slice/user-1001.slice/session-3.scope/db.service", Some("session-3.scope")),
            ("/system.slice/docker-4f.scope/system.slice/db.service", Some("docker-4f.scope")),
            ("/machine.slice/libpod-4f.scope/container/db.service", Some("libpod-4f.scope")),
            ("/kubepods.slice/kubepods-besteffort.slice/cri-containerd-4f.scope", Some("cri-containerd-4f.scope")),
            ("/system.slice/_cpu.service", Some("cpu.service")),
            (r"/system.slice/dev-disk\x2dby.swap", Some(r"dev-disk\x2dby.swap")),
            // Groups that no service manager created, with unit names below them.
            ("/kubepods/burstable/pod1/db.service", None),
            ("/docker/4f/system.slice/db.service", None),
            ("/lxc.payload.c1/system.slice/db.service", None),
            ("/../../system.slice/db.service", None),
            ("/system.slice", None),
            ("/system.slice/.service", None),
            ("/.slice/db.service", None),
            ("/", None),
        ] {
            assert_eq!(unit(&format!("0::{path}\n"), "").as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_container_that_sees_its_hosts_groups_has_units_of_its_own() {
        let root = root_of("/docker/4f/init.scope");
        assert_eq!(unit("0::/docker/4f/system.slice/db.service\n", root).as_deref(), Some("db.service"));
        assert_eq!(unit("0::/system.slice/db.service\n", root), None);
        assert_eq!((root_of("/init.scope"), root_of("/"), root_of("/docker/4f")), ("", "", ""));
    }

    #[test]
    fn a_kernel_threads_name_alone_makes_none() {
        assert_eq!(Kind::of("ksoftirqd/0", 0), Kind::User);
        assert_eq!(Kind::of("ksoftirqd/0", flag::KTHREAD), Kind::Ksoftirqd);
        assert_eq!(Kind::of("migration/1", flag::KTHREAD), Kind::Untouchable);
        assert_eq!(Kind::of("dio/vda", flag::KTHREAD | flag::WQ_WORKER), Kind::Kworker);
    }
}
