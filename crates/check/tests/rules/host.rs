//! A made-up host on which nothing is wrong, and small changes to it.

use std::collections::BTreeMap;

use unstarve_check::{Audit, Hit, Severity, audit, audit_upgrade};
use unstarve_facts::{
    Bandwidth, CgroupFacts, Configured, ConfiguredBy, IrqFacts, Mount, NetworkFacts, Services, Snapshot, TaskFacts,
    Throttled,
};
use unstarve_model::{CpuId, Nanos, SchedPolicy, Tid};

/// An hour after boot.
pub const UPTIME: u64 = 360_000;

pub struct Host(pub Snapshot);

/// Debian 12 on 8 CPUs: the network on CPUs 0 and 1, an NVMe queue on each CPU, XFS on it, two groups of default weight.
pub fn healthy() -> Host {
    let mut host = Host(empty());
    host.kernel("6.1.0-32-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-05-06)");
    for cpu in 0..8 {
        let id = 10 * (cpu + 2);
        host.kernel_thread(id, &format!("ksoftirqd/{cpu}"), &cpu.to_string());
        host.kernel_thread(id + 1, &format!("kworker/{cpu}:1-events"), &cpu.to_string());
        host.irq(40 + cpu, &format!("nvme0q{cpu}"), "block/nvme0n1", &cpu.to_string(), 180_000);
    }
    host.irq(30, "eth0-rx-0", "net/eth0", "0", 360_000).irq(31, "eth0-rx-1", "net/eth0", "1", 360_000);
    let snapshot = &mut host.0;
    snapshot.networks =
        vec![NetworkFacts { name: "eth0".into(), threaded: Some(false), hardware: true, ..NetworkFacts::default() }];
    snapshot.mounts = vec![Mount {
        device: "/dev/nvme0n1".into(),
        target: "/data".into(),
        fs: "xfs".into(),
        options: "rw,relatime".into(),
    }];
    host.setting("/proc/sys/kernel/sched_rt_runtime_us", "950000");
    host.setting("/proc/sys/kernel/sched_rt_period_us", "1000000");
    host.setting("/proc/sys/kernel/sched_autogroup_enabled", "0");
    host.group("/system.slice", 100).group("/user.slice", 100);
    host.task(500, "database", "0-7", "/system.slice/database.service");
    host
}

fn empty() -> Snapshot {
    let json = r#"{"schema":"unstarve.snapshot/1","kernel":{"machine":"x86_64","cmdline":"quiet"},
        "cpus":{"online":"0-7"},"hierarchy":{"version":"v2","mount":"/sys/fs/cgroup"}}"#;
    let mut snapshot = Snapshot::from_json(json).expect("a snapshot");
    snapshot.uptime_ticks = Some(UPTIME);
    snapshot.services = Some(Services::default());
    snapshot
}

impl Host {
    pub fn kernel(&mut self, release: &str, version: &str) -> &mut Host {
        self.0.kernel.release = Some(release.into());
        self.0.kernel.version = Some(version.into());
        self
    }

    pub fn setting(&mut self, path: &str, value: &str) -> &mut Host {
        self.0.settings.insert(path.into(), value.into());
        self
    }

    pub fn config(&mut self, option: &str, value: &str) -> &mut Host {
        self.0.config.get_or_insert_default().insert(option.into(), value.into());
        self
    }

    pub fn features(&mut self, names: &[(&str, bool)]) -> &mut Host {
        self.0.features = Some(names.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect());
        self
    }

    pub fn irq(&mut self, irq: u32, handler: &str, device: &str, cpu: &str, count: u64) -> &mut Host {
        let cpus: unstarve_model::CpuSet = cpu.parse().expect("CPUs");
        let first: CpuId = cpus.iter().next().expect("a CPU");
        self.0.irqs.push(IrqFacts {
            irq,
            handlers: vec![handler.into()],
            affinity: Some(cpus),
            effective: None,
            count: Some(count),
            per_cpu: Some(BTreeMap::from([(first.0, count)])),
            devices: vec![device.into()],
        });
        self
    }

    fn push(&mut self, tid: u32, comm: &str, allowed: &str) -> &mut TaskFacts {
        self.0.tasks.push(TaskFacts {
            tid: Tid(tid),
            tgid: None,
            comm: comm.into(),
            policy: SchedPolicy::Other,
            rt_priority: 0,
            nice: 0,
            allowed: Some(allowed.parse().expect("CPUs")),
            policy_last: None,
            allowed_last: None,
            cgroup: Some("/".into()),
            kernel_thread: false,
            user: None,
            affinity_fixed: false,
            parent: None,
            cpu_ticks: Some(1000),
            child_ticks: Some(0),
            child_faults: Some(0),
            reset_on_fork: None,
            deadline: None,
            autogroup: None,
            cmdline: None,
            seen: None,
            seen_last: None,
            start_ticks: 1000,
        });
        self.0.tasks.last_mut().expect("just added")
    }

    pub fn kernel_thread(&mut self, tid: u32, comm: &str, allowed: &str) -> &mut TaskFacts {
        let task = self.push(tid, comm, allowed);
        (task.kernel_thread, task.affinity_fixed) = (true, true);
        task
    }

    pub fn task(&mut self, tid: u32, comm: &str, allowed: &str, cgroup: &str) -> &mut TaskFacts {
        let task = self.push(tid, comm, allowed);
        task.cgroup = Some(cgroup.into());
        task
    }

    /// A real-time task that used this part of a CPU.
    pub fn real_time(&mut self, tid: u32, comm: &str, priority: u32, allowed: &str, part: f64) -> &mut TaskFacts {
        let task = self.push(tid, comm, allowed);
        (task.policy, task.rt_priority, task.reset_on_fork) = (SchedPolicy::Rr, priority, Some(false));
        task.cpu_ticks = Some(((UPTIME - 1000) as f64 * part) as u64);
        task
    }

    pub fn group(&mut self, path: &str, weight: u32) -> &mut Host {
        self.0.cgroups.push(CgroupFacts { path: path.into(), weight: Some(weight), ..CgroupFacts::default() });
        self
    }

    pub fn limit(&mut self, path: &str, periods: u64, throttled: u64) -> &mut Host {
        self.0.cgroups.push(CgroupFacts {
            path: path.into(),
            weight: Some(100),
            limit: Some(Bandwidth { quota_us: 50_000, period_us: 100_000 }),
            throttled: Some(Throttled { periods, count: throttled, ns: Nanos::from_millis(40 * throttled) }),
            ..CgroupFacts::default()
        });
        self
    }

    pub fn written(&mut self, by: ConfiguredBy, key: &str, value: &str) -> &mut Host {
        let (file, owner) = match by {
            ConfiguredBy::Sysctl => ("/etc/sysctl.d/90-tuning.conf", None),
            ConfiguredBy::Tuned => ("/etc/tuned/fast/tuned.conf", Some("fast".to_owned())),
            ConfiguredBy::Unit => ("/etc/systemd/system/x.service", Some("x.service".to_owned())),
            _ => ("/proc/cmdline", None),
        };
        let line = (by != ConfiguredBy::Boot).then_some(7);
        self.0.configured.push(Configured { by, file: file.into(), line, owner, key: key.into(), value: value.into() });
        self
    }

    pub fn boots_with(&mut self, line: &str) -> &mut Host {
        self.0.kernel.cmdline = Some(line.into());
        for word in line.split(' ') {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            self.written(ConfiguredBy::Boot, key, value);
        }
        self
    }

    /// Through the file's form, which also sorts.
    pub fn audit(&self) -> Audit {
        audit(&Snapshot::from_json(&self.0.to_json()).expect("its own form"))
    }

    pub fn upgrade(&self, version: &str) -> Audit {
        let snapshot = Snapshot::from_json(&self.0.to_json()).expect("its own form");
        audit_upgrade(&snapshot, version.parse().expect("a version"))
    }

    pub fn hits(&self, rule: &str) -> Vec<Hit> {
        self.audit().hits.into_iter().filter(|hit| hit.rule == rule).collect()
    }

    /// What a rule says, in one line each.
    pub fn says(&self, rule: &str) -> Vec<String> {
        self.hits(rule).iter().map(line).collect()
    }

    pub fn worst(&self, rule: &str) -> Option<Severity> {
        self.hits(rule).into_iter().map(|hit| hit.severity).max()
    }
}

pub fn line(hit: &Hit) -> String {
    format!("{} {}", hit.severity.word(), hit.sentence)
}
