//! The threads and files of a model host before it starts.

use std::collections::BTreeMap;

use unstarve_facts::{CgroupVersion, Snapshot, TaskFacts};
use unstarve_model::{CpuSet, SchedPolicy};

use super::running::{NotHere, Running};

/// A host before it is started.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(super) files: BTreeMap<String, String>,
    /// Directories without files: an interrupt's handlers.
    pub(super) directories: Vec<String>,
    pub(super) threads: BTreeMap<u32, ModelThread>,
    /// Running services.
    pub(super) units: Vec<String>,
    /// Whether threads are in cgroup v1 hierarchies.
    pub(super) is_v1: bool,
    /// The mount point of the hierarchy, if unusual.
    pub(super) mount: Option<String>,
}

/// A thread of the host.
#[derive(Clone, Debug)]
pub struct ModelThread {
    /// Its process.
    pub tgid: u32,
    /// The id of its creator; 2 makes it a kernel thread.
    pub parent: u32,
    /// Its name.
    pub comm: String,
    /// Its policy.
    pub policy: SchedPolicy,
    /// 1 to 99, or 0.
    pub rt_priority: u32,
    /// Nice.
    pub nice: i32,
    /// Its CPUs as a list.
    pub allowed: String,
    /// Whether its affinity is fixed.
    pub affinity_fixed: bool,
    /// Whether its children start as ordinary tasks.
    pub reset_on_fork: bool,
    /// Its group, relative to the hierarchy's mount.
    pub cgroup: String,
    /// Its creation time in ticks.
    pub start: u64,
}

impl ModelThread {
    /// An ordinary process with one thread.
    pub fn new(tid: u32, comm: &str) -> ModelThread {
        ModelThread {
            tgid: tid,
            parent: 1,
            comm: comm.to_owned(),
            policy: SchedPolicy::Other,
            rt_priority: 0,
            nice: 0,
            allowed: "0-7".to_owned(),
            affinity_fixed: false,
            reset_on_fork: false,
            cgroup: "/".to_owned(),
            start: 100 + u64::from(tid),
        }
    }

    fn of(task: &TaskFacts) -> ModelThread {
        let plain = ModelThread::new(task.tid.0, &task.comm);
        ModelThread {
            tgid: task.tgid.unwrap_or(task.tid).0,
            parent: if task.kernel_thread { 2 } else { task.parent.map_or(1, |parent| parent.0) },
            policy: task.policy,
            rt_priority: task.rt_priority,
            nice: task.nice,
            allowed: task.allowed.as_ref().map_or(plain.allowed, CpuSet::to_string),
            affinity_fixed: task.affinity_fixed,
            reset_on_fork: task.reset_on_fork == Some(true),
            cgroup: task.cgroup.clone().unwrap_or(plain.cgroup),
            start: task.start_ticks,
            comm: plain.comm,
        }
    }
}

impl Model {
    /// A host with kthreadd only.
    pub fn new() -> Model {
        let mut model = Model::default();
        model.thread(2, ModelThread { parent: 0, ..ModelThread::new(2, "kthreadd") });
        model
    }

    /// A host with the threads and files of the snapshot.
    pub fn of(snapshot: &Snapshot) -> Model {
        let mut model = Model::new();
        for task in &snapshot.tasks {
            model.thread(task.tid.0, ModelThread::of(task));
        }
        for (path, text) in &snapshot.settings {
            model.file(path, text);
        }
        model.add_features(snapshot);
        model.add_groups(snapshot);
        for irq in &snapshot.irqs {
            irq.handlers.iter().for_each(|handler| {
                model.directory(&format!("/proc/irq/{}/{handler}", irq.irq));
            });
            if let Some(affinity) = &irq.affinity {
                model.file(&format!("/proc/irq/{}/smp_affinity_list", irq.irq), &affinity.to_string());
            }
        }
        for network in &snapshot.networks {
            let directory = format!("/sys/class/net/{}", network.name);
            if let Some(threaded) = network.threaded {
                model.file(&format!("{directory}/threaded"), &u8::from(threaded).to_string());
            }
            for (queue, mask) in &network.rps {
                model.file(&format!("{directory}/queues/{queue}/rps_cpus"), mask);
            }
        }
        for queue in &snapshot.workqueues {
            for (name, text) in &queue.settings {
                model.file(&format!("/sys/devices/virtual/workqueue/{}/{name}", queue.name), text);
            }
        }
        let services = snapshot.services.iter().flat_map(|services| &services.running);
        services.for_each(|name| {
            model.unit(name);
        });
        if let Some(nfsd) = snapshot.services.as_ref().and_then(|services| services.nfsd.as_ref()) {
            model.file("/proc/fs/nfsd/threads", &nfsd.threads.to_string());
        }
        model
    }

    fn add_features(&mut self, snapshot: &Snapshot) {
        let Some(features) = &snapshot.features else { return };
        let words = features.iter().map(|(name, on)| if *on { format!("{name} ") } else { format!("NO_{name} ") });
        // A preview of another kernel knows of some features only that they exist.
        let undecided = snapshot.undecided_features.iter().map(|name| format!("{name} "));
        let text: String = words.chain(undecided).collect();
        let release = snapshot.kernel.release.as_deref().unwrap_or_default();
        let version: Option<unstarve_facts::Version> = release.parse().ok();
        let is_new = version.is_none_or(|version| version.is_at_least(5, 13));
        let path = if is_new { "/sys/kernel/debug/sched/features" } else { "/sys/kernel/debug/sched_features" };
        self.files.insert(path.to_owned(), format!("{text}\n"));
    }

    fn add_groups(&mut self, snapshot: &Snapshot) {
        let Some(hierarchy) = &snapshot.hierarchy else { return };
        self.is_v1 = hierarchy.version == CgroupVersion::V1;
        let mount = hierarchy.mount.trim_end_matches('/');
        self.mount = Some(mount.to_owned());
        for group in &snapshot.cgroups {
            let directory = format!("{mount}{}", group.path);
            let period = group.limit.map_or(100_000, |limit| limit.period_us);
            match hierarchy.version {
                CgroupVersion::V1 => {
                    if let Some(shares) = group.shares {
                        self.file(&format!("{directory}/cpu.shares"), &shares.to_string());
                    }
                    let quota = group.limit.map_or("-1".to_owned(), |limit| limit.quota_us.to_string());
                    self.file(&format!("{directory}/cpu.cfs_quota_us"), &quota);
                    self.file(&format!("{directory}/cpu.cfs_period_us"), &period.to_string());
                }
                CgroupVersion::V2 => {
                    if let Some(weight) = group.weight {
                        self.file(&format!("{directory}/cpu.weight"), &weight.to_string());
                        self.file(&format!("{directory}/cpu.idle"), &u8::from(group.idle).to_string());
                    }
                    let quota = group.limit.map_or("max".to_owned(), |limit| limit.quota_us.to_string());
                    self.file(&format!("{directory}/cpu.max"), &format!("{quota} {period}"));
                }
            }
        }
    }

    /// Adds or replaces a file. Ignores paths outside the model's own directories: no test writes there.
    pub fn file(&mut self, path: &str, text: &str) -> &mut Model {
        let own = ["/proc/", "/sys/", "/run/", "/etc/"].iter().any(|directory| path.starts_with(directory));
        if own && !path.split('/').any(|part| part == "..") {
            self.files.insert(path.to_owned(), format!("{}\n", text.trim_end()));
        }
        self
    }

    /// Adds a directory below `/proc/irq`.
    pub fn directory(&mut self, path: &str) -> &mut Model {
        if path.starts_with("/proc/irq/") && !path.split('/').any(|part| part == "..") {
            self.directories.push(path.to_owned());
        }
        self
    }

    /// Adds a running service.
    pub fn unit(&mut self, name: &str) -> &mut Model {
        self.units.push(name.trim_end_matches(".service").to_owned());
        self
    }

    /// Adds a thread, unless its id is taken: a recording may have seen two threads with one id in succession.
    pub fn thread(&mut self, tid: u32, thread: ModelThread) -> &mut Model {
        self.threads.entry(tid).or_insert(thread);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If this machine permits no mount namespace.
    pub fn start(self) -> Result<Running, NotHere> {
        Running::start(self)
    }
}
