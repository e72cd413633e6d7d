//! Reads the state of a host into a [`Snapshot`].

mod cgroups;
mod configured;
mod devices;
mod kernel;
mod network;
mod services;
mod settings;
mod softirqs;
mod tasks;
mod tuned;
mod units;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use unstarve_facts::{CpuTimes, Missing, Snapshot};
use unstarve_model::CpuSet;

use crate::Root;

pub use cgroups::cpu_hierarchy;
pub use tasks::{cpu_cgroup, task};

/// Reads what a recording needs of the host at `root`. Never fails: what cannot be read is listed in
/// [`Snapshot::missing`].
pub fn take(root: &Root) -> Snapshot {
    take_with(root, Detail::Recording)
}

/// Reads everything that an audit needs, including programs that change other tasks' scheduling, devices and their
/// interrupts, and configured settings. Command lines are read but not kept.
pub fn take_whole(root: &Root) -> Snapshot {
    let mut snapshot = take_with(root, Detail::Whole);
    let mut missing = Gaps { list: std::mem::take(&mut snapshot.missing) };
    devices::add_counts_and_devices(root, &mut snapshot.irqs, &mut missing);
    snapshot.networks = network::read_all(root, &mut missing);
    snapshot.services = Some(services::read(root, &snapshot.tasks));
    // Command lines contain passwords, and nothing else needs them.
    snapshot.tasks.iter_mut().for_each(|task| task.cmdline = None);
    snapshot.configured = configured::read_all(root, snapshot.kernel.cmdline.as_deref(), &mut missing);
    snapshot.view = Some(view::read(root, &snapshot, &mut missing));
    snapshot.missing = missing.list;
    snapshot
}

fn take_with(root: &Root, detail: Detail) -> Snapshot {
    let mut missing = Gaps::default();
    let hierarchy = cgroups::find_hierarchy(root, &mut missing);
    let cgroups = hierarchy.as_ref().map(|h| cgroups::read_all(root, h, &mut missing)).unwrap_or_default();
    Snapshot {
        schema: Snapshot::SCHEMA.to_owned(),
        kernel: kernel::read(root, &mut missing),
        config: kernel::read_config(root, &mut missing),
        features: settings::read_features(root, &mut missing),
        undecided_features: BTreeSet::new(),
        settings: settings::read_all(root, &mut missing),
        cpus: devices::read_cpus(root, &mut missing),
        cgroups,
        throttled_meanwhile: None,
        tasks: tasks::read_all(root, hierarchy.as_ref(), detail, &mut missing),
        hierarchy,
        irqs: devices::read_irqs(root, &mut missing),
        workqueues: devices::read_workqueues(root),
        mounts: devices::read_mounts(root, &mut missing),
        recorder: None,
        host: kernel::host_name(root),
        boot: root.text("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned()),
        clock_pairs: Vec::new(),
        uptime_ticks: view::read_uptime(root),
        softirqs: softirqs::read(root),
        cpu_times: read_cpu_times(root),
        cpu_times_meanwhile: None,
        networks: Vec::new(),
        services: None,
        configured: Vec::new(),
        view: None,
        missing: missing.list,
    }
}

fn read_cpu_times(root: &Root) -> Option<BTreeMap<u32, CpuTimes>> {
    let times = CpuTimes::parse(&root.text("/proc/stat").ok()?);
    (!times.is_empty()).then_some(times)
}

/// How much of a host is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Detail {
    /// For a recording. It is part of every trace, so it contains nothing private and nothing slow to read.
    Recording,
    /// For an audit.
    Whole,
}

/// Collects what is missing.
#[derive(Default)]
pub(crate) struct Gaps {
    list: Vec<Missing>,
}

impl Gaps {
    /// Notes that `what` is missing because of `why`.
    fn note(&mut self, what: impl Into<String>, why: impl ToString) {
        self.list.push(Missing { what: what.into(), why: why.to_string() });
    }

    /// The file's text. If it cannot be read, notes why.
    fn text(&mut self, root: &Root, path: &str) -> Option<String> {
        root.text(path).map_err(|error| self.note(path, error)).ok()
    }

    /// A file with a list of CPUs.
    fn cpus(&mut self, root: &Root, path: &str) -> Option<CpuSet> {
        self.text(root, path)?.parse().map_err(|error| self.note(path, error)).ok()
    }
}
