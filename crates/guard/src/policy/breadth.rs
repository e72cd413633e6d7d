//! Refuses patterns that match too much: judged by what they match, not by how they are written.

use unstarve_model::Glob;

use super::select::{Parent, Selector};
use crate::owner::{Uid, UidSet};
use crate::task::Kind;

/// A pattern of wildcards alone matches everything, unless it requires names longer than this.
const SHORT: usize = 6;
/// Programs that are on nearly every machine, and some that are on many. A pattern that matches three of four counts as
/// matching all programs.
const COMMS: [&str; 16] = [
    "systemd",
    "systemd-journal",
    "systemd-udevd",
    "dbus-daemon",
    "sshd",
    "sshd-session",
    "cron",
    "agetty",
    "bash",
    "sh",
    "rsyslogd",
    "containerd",
    "java",
    "python3",
    "nginx",
    "postgres",
];
const CMDLINES: [&str; 8] = [
    "/usr/lib/systemd/systemd-journald",
    "/usr/bin/dbus-daemon --system --nofork",
    "/usr/sbin/sshd -D",
    "/usr/sbin/cron -f",
    "-bash",
    "/usr/bin/java -jar app.jar",
    "python3 -m http.server",
    "nginx: worker process",
];
/// A pattern that matches all of one row matches every program of a kind.
const UNITS: [&[&str]; 3] = [
    &["ssh.service", "dbus.service", "systemd-journald.service", "cron.service", "getty@tty1.service"],
    &["user@1000.service", "user@1001.service"],
    &["session-1.scope", "session-2.scope", "session-c3.scope"],
];
const GROUPS: [&[&str]; 4] = [
    &[
        "/system.slice/ssh.service",
        "/system.slice/dbus.service",
        "/system.slice/systemd-journald.service",
        "/system.slice/system-getty.slice/getty@tty1.service",
    ],
    &["/user.slice/user-1000.slice/session-1.scope", "/user.slice/user-1001.slice/session-2.scope"],
    &["/user.slice/user-1000.slice/user@1000.service/app.slice/a", "/user.slice/user-1001.slice/user@1001.service/b"],
    &["/a", "/b/c", "/docker/4f2a", "/machine.slice/libpod-4f.scope", "/kubepods/burstable/pod1/c"],
];
/// Names of the init process.
const FIRST: [&str; 2] = ["systemd", "init"];
/// No program has this many user ids of its own: such a set means every user, or every container's users.
const MANY_USERS: u64 = 10_000;

fn takes_most(glob: &Glob, names: &[&str]) -> bool {
    let taken = names.iter().filter(|name| glob.matches(name)).count();
    glob.matches_all_from(SHORT) || taken * 4 >= names.len() * 3
}

fn takes_a_class(glob: &Glob, classes: &[&[&str]]) -> bool {
    glob.matches_all_from(SHORT) || classes.iter().any(|names| names.iter().all(|name| glob.matches(name)))
}

/// Whether a pattern matches every cgroup below the root.
pub(super) fn is_every_group(path: &Glob) -> bool {
    path.matches_all_from(SHORT) || GROUPS.iter().all(|names| names.iter().all(|name| path.matches(name)))
}

/// Whether a set of users is too large to mean one program or service.
pub(super) fn is_many_users(set: &UidSet) -> bool {
    set.count() >= MANY_USERS
}

impl Selector {
    /// Whether no condition distinguishes some programs from others. Affinity does not count as one: most programs may run on
    /// all CPUs, and each can set its own.
    pub(super) fn is_every_program(&self) -> bool {
        let broad = |glob: &Option<Glob>, judge: &dyn Fn(&Glob) -> bool| glob.as_ref().is_none_or(judge);
        matches!(self.kind, None | Some(Kind::User))
            && !self.asks_for_work()
            && broad(&self.comm, &|glob| takes_most(glob, &COMMS))
            && broad(&self.cmdline, &|glob| takes_most(glob, &CMDLINES))
            && broad(&self.cgroup, &|glob| takes_a_class(glob, &GROUPS))
            && broad(&self.unit, &|glob| takes_a_class(glob, &UNITS))
            && self.owner.as_ref().is_none_or(|set| set.contains(Uid::ROOT) || is_many_users(set))
            && self.parent.as_ref().is_none_or(|parent| match parent {
                // The init process is the parent of every service.
                Parent::Comm(glob) => takes_most(glob, &COMMS) || FIRST.iter().any(|name| glob.matches(name)),
                Parent::Pid(pid) => pid.0 == 1,
            })
    }

    /// Whether the selector matches every kernel thread.
    pub(super) fn is_every_kernel_thread(&self) -> bool {
        let others = [&self.cmdline, &self.cgroup, &self.unit, &self.workqueue, &self.work];
        matches!(self.kind, None | Some(Kind::Kthread))
            && others.into_iter().all(Option::is_none)
            && self.cpu.is_none()
            && self.comm.as_ref().is_none_or(|glob| glob.matches_all_from(SHORT))
            && self.owner.as_ref().is_none_or(|set| set.contains(Uid::ROOT))
            && self.parent.as_ref().is_none_or(|parent| match parent {
                Parent::Comm(glob) => glob.matches("kthreadd"),
                Parent::Pid(pid) => pid.0 == 2,
            })
    }
}
