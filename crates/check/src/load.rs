//! Whether a host runs what a bug or a reported regression is about: the words in the column `needs` of the tables.

use unstarve_facts::TaskFacts;
use unstarve_model::{SchedPolicy, clean};

use crate::case::{AuditInput, counted, grouped};
use crate::interrupts::Device;

/// Whether a host runs something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// It does; what shows it.
    Yes(String),
    No,
    /// A snapshot does not show it.
    Unknown,
}

impl Runs {
    fn of(seen: Option<String>) -> Runs {
        seen.map_or(Runs::No, Runs::Yes)
    }
}

/// Interrupts a second of a network device above which a host has a load from the network.
const NETWORK_LOAD: f64 = 1000.0;

/// Whether the host runs what a row of a table needs. An empty word means any host.
pub(crate) fn runs(case: &AuditInput<'_>, need: &str) -> Runs {
    match found(case, need) {
        // What was not collected may be there all the same.
        Runs::No if !is_known(case, need) => Runs::Unknown,
        found => found,
    }
}

/// Whether the snapshot has what a need is judged by.
fn is_known(case: &AuditInput<'_>, need: &str) -> bool {
    let has_mounts = !case.snapshot.mounts.is_empty();
    match need {
        "databases" | "postgres" | "vhost" | "idle-tasks" | "real-time-tasks" => case.knows_threads(),
        "nested-cgroups" | "limited-cgroups" => case.snapshot.hierarchy.is_some() || case.knows_threads(),
        "nfs" => case.knows_threads() && has_mounts || case.knows_interrupts(),
        "btrfs-or-xfs" | "device-mapper" => has_mounts || case.knows_interrupts(),
        "network" => case.knows_interrupts(),
        _ => true,
    }
}

fn found(case: &AuditInput<'_>, need: &str) -> Runs {
    let groups = || case.snapshot.cgroups.iter();
    match need {
        "databases" => program(case, &["mysqld", "mariadbd", "postgres", "mongod", "oracle", "cassandra"]),
        "postgres" => program(case, &["postgres"]),
        "vhost" => Runs::of(threads("vhost thread", case, |task| task.comm.starts_with("vhost-"))),
        "idle-tasks" => {
            Runs::of(threads("SCHED_IDLE thread", case, |task| task.policy == SchedPolicy::Idle && !task.kernel_thread))
        }
        "real-time-tasks" => {
            let count: usize = case.real_time.iter().map(|group| group.tasks.len()).sum();
            Runs::of((count > 0).then(|| counted(count as u64, "real-time thread")))
        }
        "nested-cgroups" => {
            let nested = groups().filter(|group| group.path.matches('/').count() >= 2 && group.load_weight().is_some());
            Runs::of(some(nested.count(), "nested cgroup"))
        }
        "limited-cgroups" => {
            Runs::of(some(groups().filter(|group| group.limit.is_some()).count(), "cgroup with a CPU limit"))
        }
        "network" => Runs::of(network(case)),
        "nfs" => Runs::of(
            threads("nfsd thread", case, |task| task.kernel_thread && task.comm == "nfsd")
                .or_else(|| mounted(case, |fs, _| fs == "nfs" || fs == "nfs4")),
        ),
        "btrfs-or-xfs" => Runs::of(mounted(case, |fs, _| fs == "btrfs" || fs == "xfs")),
        "device-mapper" => {
            Runs::of(mounted(case, |_, device| device.starts_with("/dev/mapper/") || device.starts_with("/dev/dm-")))
        }
        // The rule `knob-drift` reports these settings one by one.
        "granularities" => Runs::No,
        _ => Runs::Unknown,
    }
}

fn some(count: usize, what: &str) -> Option<String> {
    (count > 0).then(|| match what.split_once(" with ") {
        Some((thing, rest)) => format!("{} with {rest}", counted(count as u64, thing)),
        None => counted(count as u64, what),
    })
}

fn threads(what: &str, case: &AuditInput<'_>, is_one: impl Fn(&TaskFacts) -> bool) -> Option<String> {
    some(case.snapshot.tasks.iter().filter(|task| is_one(task)).count(), what)
}

/// One of these programs. A redacted snapshot does not name programs.
fn program(case: &AuditInput<'_>, names: &[&str]) -> Runs {
    if case.snapshot.view.as_ref().is_some_and(|view| view.redacted) {
        return Runs::Unknown;
    }
    let is_one = |task: &&TaskFacts| !task.kernel_thread && names.contains(&task.comm.as_str());
    Runs::of(case.snapshot.tasks.iter().find(is_one).map(|task| format!("{}[{}]", clean(&task.comm), task.tid)))
}

fn mounted(case: &AuditInput<'_>, is_one: impl Fn(&str, &str) -> bool) -> Option<String> {
    let mount = case.snapshot.mounts.iter().find(|mount| is_one(&mount.fs, &mount.device))?;
    Some(clean(&format!("{} on {}", mount.fs, mount.device)).into_owned())
}

fn network(case: &AuditInput<'_>) -> Option<String> {
    let rates = case.online.iter().filter_map(|cpu| Some((cpu, case.interrupts.rate(Device::Net, cpu)?)));
    let (cpu, rate) = rates.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, rate)| *rate >= NETWORK_LOAD)?;
    Some(format!("CPU {cpu} serves {} network interrupts a second", grouped(rate.round() as u64)))
}

#[cfg(test)]
mod tests {
    use unstarve_facts::{BUGS, REGRESSIONS, Row, Snapshot};

    use super::*;

    #[test]
    fn every_need_in_the_tables_is_known() {
        let json = r#"{"schema":"unstarve.snapshot/1","kernel":{},"irqs":[{"irq":1}],
            "tasks":[{"tid":1,"comm":"init","policy":"other","start_ticks":1}]}"#;
        let snapshot = Snapshot::from_json(json).expect("a snapshot");
        let case = AuditInput::new(&snapshot);
        let needs: Vec<&str> = BUGS.rows().chain(REGRESSIONS.rows()).filter_map(|row: Row| row.get("needs")).collect();
        assert!(needs.len() > 15, "{needs:?}");
        for need in needs {
            assert_eq!(runs(&case, need), Runs::No, "{need}");
        }
        assert_eq!(runs(&case, ""), Runs::Unknown);
    }

    #[test]
    fn what_was_not_collected_is_unknown() {
        let snapshot = Snapshot::from_json(r#"{"schema":"unstarve.snapshot/1","kernel":{}}"#).expect("a snapshot");
        let case = AuditInput::new(&snapshot);
        for need in ["databases", "real-time-tasks", "nested-cgroups", "nfs", "device-mapper", "network"] {
            assert_eq!(runs(&case, need), Runs::Unknown, "{need}");
        }
    }
}
