//! Pseudonyms for names.

use std::collections::BTreeMap;

use super::services;

/// Replaces names by pseudonyms; within its lifetime the same name always gets the same one.
///
/// Pseudonyms are numbered in order of appearance, so they contain no information about the name: there is no key to
/// guess, and nothing can be compared with a list of names or with another file.
#[derive(Default, Debug)]
pub struct Pseudonyms {
    given: BTreeMap<(&'static str, String), String>,
    counts: BTreeMap<&'static str, usize>,
    services: Services,
}

/// Whether programs that affect scheduling keep their names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Services {
    /// No: they are treated like other programs.
    #[default]
    Named,
    /// Yes: they are the same on every host.
    Kept,
}

/// Length of a task name in events, without its NUL.
const MAX_PROGRAM_BYTES: usize = 15;

/// unstarve's own threads, which no finding is about.
const OWN_THREADS: [&str; 2] = ["unstarve-record", "unstarve-canary"];

/// More digits than this do not number a pool's thread, and may themselves be a name.
const MAX_POOL_DIGITS: usize = 4;

impl Pseudonyms {
    /// For a snapshot to be audited: programs that move interrupts or change policies, and systemd, keep their names.
    pub(super) fn with_services() -> Pseudonyms {
        Pseudonyms { services: Services::Kept, ..Pseudonyms::default() }
    }

    pub(super) fn of(&mut self, kind: &'static str, name: &str) -> String {
        if let Some(pseudonym) = self.given.get(&(kind, name.to_owned())) {
            return pseudonym.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let pseudonym = format!("{kind}-{count}");
        self.given.insert((kind, name.to_owned()), pseudonym.clone());
        pseudonym
    }

    /// The pseudonym of a task name. Threads of a pool keep their numbers, so that they can still be recognised as a
    /// pool. At most 15 bytes long, like names in the kernel.
    pub fn program(&mut self, comm: &str) -> String {
        if self.services == Services::Kept && (services::WATCHED_PROGRAMS.contains(&comm) || comm == "systemd") {
            return comm.to_owned();
        }
        if OWN_THREADS.contains(&comm) {
            return comm.to_owned();
        }
        let stem = comm.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &comm[stem.len()..];
        if !stem.is_empty() && digits.len() <= MAX_POOL_DIGITS {
            let pseudonym = format!("{}{}", self.of("program", stem), pool_number(digits));
            if pseudonym.len() <= MAX_PROGRAM_BYTES {
                return pseudonym;
            }
        }
        // Derived from the whole name: it cannot collide with a stem, which has no digits at its end.
        let mut pseudonym = self.of("program", comm);
        pseudonym.truncate(MAX_PROGRAM_BYTES);
        pseudonym
    }
}

/// A kernel thread's name, kept unless it contains an address: the NFS client's manager of a server is called
/// `10.0.0.7-manager` (`nfs4_schedule_state_manager()` in fs/nfs/nfs4state.c).
pub fn kernel_thread(comm: &str) -> &str {
    let address: Vec<char> = comm.chars().take_while(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':')).collect();
    let many = |of: char| address.iter().filter(|c| **c == of).count() >= 2;
    if many('.') || many(':') { "nfs-manager" } else { comm }
}

/// `worker12` becomes `program-3.12`. The dot distinguishes number 2 of `program-31` from number 12 of `program-3`.
fn pool_number(digits: &str) -> String {
    if digits.is_empty() { String::new() } else { format!(".{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_stays_one_and_digits_are_no_name() {
        let mut names = Pseudonyms::default();
        let given = ["worker1", "worker22", "other", "20260117", "cust123456", "worker1", "systemd", ""];
        let given = given.map(|name| names.program(name));
        let expected = [
            "program-1.1",
            "program-1.22",
            "program-2",
            "program-3",
            "program-4",
            "program-1.1",
            "program-5",
            "program-6",
        ];
        assert_eq!(given, expected);
        assert_eq!(Pseudonyms::with_services().program("systemd"), "systemd");
    }

    #[test]
    fn an_address_is_no_name_of_a_kernel_thread() {
        for (comm, kept) in [
            ("kworker/0:1", "kworker/0:1"),
            ("kworker/u8:3", "kworker/u8:3"),
            ("ext4-rsv-conver", "ext4-rsv-conver"),
            ("ceph-watch", "ceph-watch"),
            ("192.168.100.201", "nfs-manager"),
            ("10.0.0.7-manage", "nfs-manager"),
            ("fd00:1::7-manag", "nfs-manager"),
        ] {
            assert_eq!(kernel_thread(comm), kept);
        }
    }

    #[test]
    fn no_pseudonym_is_longer_than_a_name_can_be() {
        let mut names = Pseudonyms::default();
        for index in 0..20_000 {
            let name = names.program(&format!("p{index}x1234"));
            assert!(name.len() <= MAX_PROGRAM_BYTES, "{name}");
        }
    }
}
