//! Programs that start other users' programs: sshd, cron, a shell. Raising one of them can raise every user's tasks.

use std::sync::LazyLock;

use unstarve_model::Glob;

use super::Selector;
use crate::task::Kind;

/// A line of `launchers.tsv`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Launcher {
    comm: &'static str,
    name: Glob,
    unit: Option<Glob>,
    starts: &'static str,
}

/// A program that a rule matches, and what it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Starts {
    /// The name in the table.
    pub program: &'static str,
    /// `every login over the network`.
    pub what: &'static str,
}

static LAUNCHERS: LazyLock<Vec<Launcher>> = LazyLock::new(|| {
    let lines = include_str!("launchers.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let launcher = |line: &'static str| {
        let mut fields = line.split('\t');
        let (comm, unit, starts) = (fields.next()?, fields.next()?, fields.next()?);
        let unit = (unit != "-").then(|| Glob::new(unit));
        Some(Launcher { comm, name: Glob::new(comm), unit, starts })
    };
    lines.filter_map(launcher).collect()
});

/// A pattern that matches this many of them means programs in general, and says nothing about launchers.
const IN_GENERAL: usize = 12;

/// The launchers in the table that a selector matches: by name, or by unit if it has no name.
pub(super) fn among(selector: &Selector) -> Vec<Starts> {
    if !matches!(selector.kind, None | Some(Kind::User)) || selector.asks_for_work() {
        return Vec::new();
    }
    // A service's cgroup has the service's name.
    let unit = selector.unit.clone().or_else(|| selector.cgroup.as_ref().and_then(unit_of_path));
    let is_meant = |launcher: &&Launcher| match (&selector.comm, &unit) {
        (Some(comm), _) => comm.overlaps(&launcher.name),
        (None, Some(unit)) => launcher.unit.as_ref().is_some_and(|its| unit.overlaps(its)),
        (None, None) => false,
    };
    let found: Vec<Starts> = LAUNCHERS
        .iter()
        .filter(is_meant)
        .map(|launcher| Starts { program: launcher.comm, what: launcher.starts })
        .collect();
    if found.len() > IN_GENERAL { Vec::new() } else { found }
}

/// The first service name in a cgroup path: the groups below it belong to the service, too.
fn unit_of_path(group: &Glob) -> Option<Glob> {
    let name = group.as_str().split('/').find(|name| name.ends_with(".service") || name.ends_with(".service*"))?;
    Some(Glob::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_a_name_and_what_it_starts() {
        assert!(LAUNCHERS.len() > 40);
        let lines = include_str!("launchers.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
        assert_eq!(lines.count(), LAUNCHERS.len(), "a line lacks a field");
        assert!(LAUNCHERS.iter().all(|launcher| !launcher.comm.is_empty() && !launcher.starts.is_empty()));
    }

    #[test]
    fn launchers_are_known_by_name_or_by_unit() {
        let of = |comm: Option<&str>, unit: Option<&str>, kind| {
            let selector =
                Selector { comm: comm.map(Glob::new), unit: unit.map(Glob::new), kind, ..Selector::default() };
            among(&selector).into_iter().map(|starts| starts.program).collect::<Vec<_>>()
        };
        assert_eq!(of(Some("sshd"), None, None), ["sshd*"]);
        assert_eq!(of(Some("ssh*"), None, None), ["sshd*"]);
        assert_eq!(of(Some("cron*"), None, None), ["cron", "crond"]);
        assert_eq!(of(None, Some("cron.service"), None), ["cron"]);
        assert_eq!(of(None, Some("ssh.service"), None), ["sshd*"]);
        // A rule for a service by a name in it that is not a launcher.
        assert_eq!(of(Some("worker"), Some("cron.service"), None), [""; 0]);
        assert_eq!(of(Some("postgres"), None, None), [""; 0]);
        assert_eq!(of(Some("*"), None, None), [""; 0], "that is everybody");
        assert_eq!(of(Some("sshd"), None, Some(Kind::Kthread)), [""; 0]);
        assert_eq!(of(None, None, None), [""; 0]);
        let of_group = |cgroup: &str| {
            let selector = Selector { cgroup: Some(Glob::new(cgroup)), ..Selector::default() };
            among(&selector).into_iter().map(|starts| starts.program).collect::<Vec<_>>()
        };
        assert_eq!(of_group("/system.slice/cron.service"), ["cron"]);
        assert_eq!(of_group("/system.slice/ssh.service/*"), ["sshd*"]);
        assert_eq!(of_group("/system.slice/postgresql.service"), [""; 0]);
        assert_eq!(of_group("/system.slice/*"), [""; 0], "those are services in general");
    }
}
