//! What a host, and the rights of this process on it, allow; for `unstarve doctor`.

use std::io::{self, Read};

use unstarve_facts::{Allowed, Capability, Version, effective_rights, hides_addresses};

use crate::Root;
use crate::root::Opened;

/// Everything that can be read from files. Whether tracing and eBPF work has to be tried, which is not done here.
pub fn allows(root: &Root) -> Vec<Allowed> {
    [kernel(root), change(root), lockdown(root), types(root), symbols(root), cgroups(root), features(root), waits(root)]
        .into_iter()
        .chain(container(root))
        .collect()
}

fn kernel(root: &Root) -> Allowed {
    const ID: Capability = Capability::Kernel;
    let Ok(release) = root.text("/proc/sys/kernel/osrelease") else {
        return Allowed::no(ID, "/proc/sys/kernel/osrelease cannot be read", "nothing is known of this kernel", None);
    };
    match release.parse::<Version>() {
        Ok(version) if (version.major, version.minor) >= (5, 10) => Allowed::yes(ID, format!("Linux {release}")),
        Ok(_) => Allowed::part(
            ID,
            format!("Linux {release}"),
            "5.10 is the oldest that is tested; counting and the guard's sight of births by eBPF need it",
            Some("boot a kernel from 5.10 on; recordings of this one can be explained on any machine".to_owned()),
        ),
        Err(_) => {
            Allowed::part(ID, format!("`{release}` is no version of Linux"), "facts by version are not used", None)
        }
    }
}

/// A bit of `CapEff` (include/uapi/linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// Files of kernel settings belong to root and need no capability. Container runtimes mount them read-only.
const KERNEL_SETTINGS: [(&str, &str); 2] =
    [("/proc/sys", "/proc/sys/kernel/sched_rt_runtime_us"), ("/proc/irq", "/proc/irq/default_smp_affinity")];

/// Whether this process is in the host's user namespace. Rights in another user namespace do not extend to the host's
/// threads and settings.
fn is_of_the_host(root: &Root) -> Option<bool> {
    let map = root.text("/proc/self/uid_map").ok()?;
    let fields: Vec<&str> = map.split_ascii_whitespace().collect();
    Some(fields == ["0", "0", "4294967295"])
}

fn change(root: &Root) -> Allowed {
    const ID: Capability = Capability::Change;
    const WITHOUT: &str = "fix and guard can only print plans";
    if is_of_the_host(root) == Some(false) {
        return Allowed::no(
            ID,
            "a user namespace of its own: its rights are not about the host's threads and settings",
            WITHOUT,
            Some("run it in the host's user namespace".to_owned()),
        );
    }
    let Some(rights) = root.text("/proc/self/status").ok().and_then(|status| effective_rights(&status)) else {
        return Allowed::no(ID, "/proc/self/status does not say this process's rights", WITHOUT, None);
    };
    if rights & (1 << CAP_SYS_NICE) == 0 {
        let get = "run it with sudo; in a container add this capability".to_owned();
        return Allowed::no(ID, "CAP_SYS_NICE missing", WITHOUT, Some(get));
    }
    let fixed: Vec<&str> =
        KERNEL_SETTINGS.iter().filter(|(_, file)| !may_write(root, file)).map(|(directory, _)| *directory).collect();
    if fixed.is_empty() {
        return Allowed::yes(ID, "priorities, CPUs and settings may be changed");
    }
    Allowed::part(
        ID,
        format!("priorities and CPUs may be changed; {} cannot be written", fixed.join(" and ")),
        "fix and guard change no settings there; what they do to threads and cgroups works",
        Some("run it as root outside of a container, whose runtime mounts these read-only".to_owned()),
    )
}

/// A path that does not exist counts as writable: there is nothing to change.
fn may_write(root: &Root, path: &str) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let asked = accessat(CWD, root.path(path), Access::WRITE_OK, AtFlags::EACCESS);
    asked.is_ok() || asked == Err(rustix::io::Errno::NOENT)
}

fn lockdown(root: &Root) -> Allowed {
    const ID: Capability = Capability::Lockdown;
    let get = || Some("it is set at boot (lockdown=, Secure Boot) and cannot be lifted later".to_owned());
    let text = root.text("/sys/kernel/security/lockdown").unwrap_or_default();
    if text.contains("[confidentiality]") {
        return Allowed::no(ID, "confidentiality", "tracing and eBPF are forbidden, even to root", get());
    }
    if text.contains("[integrity]") {
        let without = "settings below /sys/kernel/debug cannot be read or changed, even by root";
        return Allowed::part(ID, "integrity", without, get());
    }
    if text.contains("[none]") {
        return Allowed::yes(ID, "the kernel is not locked down");
    }
    let without = "where the kernel is locked down, settings below /sys/kernel/debug or all tracing are forbidden";
    let get = "sudo mount -t securityfs none /sys/kernel/security, and look again".to_owned();
    Allowed::part(ID, "not known: /sys/kernel/security/lockdown is not there", without, Some(get))
}

fn types(root: &Root) -> Allowed {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    match root.open(PATH) {
        Ok(_) => Allowed::yes(Capability::Btf, format!("{PATH} is there")),
        Err(error) => Allowed::no(
            Capability::Btf,
            format!("{PATH}: {}", words(&error)),
            "no eBPF: watch and top count by tracefs at some percent of a CPU, and the guard learns of births later",
            Some("a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build since about 2020".to_owned()),
        ),
    }
}

fn symbols(root: &Root) -> Allowed {
    const ID: Capability = Capability::Symbols;
    const WITHOUT: &str = "watch counts workers that complete direct I/O or write back as other kernel workers";
    let Ok(first) = first_lines(root, "/proc/kallsyms") else {
        return Allowed::no(ID, "/proc/kallsyms cannot be read", WITHOUT, None);
    };
    match hides_addresses(&first) {
        true => Allowed::no(
            ID,
            "/proc/kallsyms hides its addresses",
            WITHOUT,
            Some(
                "run it with sudo, or give it CAP_SYSLOG; kernel.kptr_restrict=2 hides them from root, too".to_owned(),
            ),
        ),
        false => Allowed::yes(ID, "/proc/kallsyms shows its addresses"),
    }
}

fn cgroups(root: &Root) -> Allowed {
    const ID: Capability = Capability::Cgroups;
    const WITHOUT: &str = "weights and limits of cgroups are not known, so nobody can be blamed by them";
    let mounts = root.text("/proc/mounts").unwrap_or_default();
    let fields = || mounts.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest);
    let has_cpu = |options: &str| options.split(',').any(|option| option == "cpu");
    let kind = |rest: &str| -> Option<(String, String, bool)> {
        let mut words = rest.split(' ');
        let (mount, kind, options) = (words.next()?, words.next()?, words.next()?);
        Some((mount.to_owned(), kind.to_owned(), has_cpu(options)))
    };
    let mounted: Vec<_> = fields().filter_map(kind).collect();
    if let Some((mount, ..)) = mounted.iter().find(|(_, kind, cpu)| kind == "cgroup" && *cpu) {
        return Allowed::yes(ID, format!("version 1, cpu controller at {mount}"));
    }
    let Some((mount, ..)) = mounted.iter().find(|(_, kind, _)| kind == "cgroup2") else {
        let get = "mount -t cgroup2 none /sys/fs/cgroup".to_owned();
        return Allowed::no(ID, "no hierarchy with the cpu controller is mounted", WITHOUT, Some(get));
    };
    let controllers = root.text(&format!("{mount}/cgroup.controllers")).unwrap_or_default();
    match controllers.split_ascii_whitespace().any(|name| name == "cpu") {
        true => Allowed::yes(ID, format!("version 2 at {mount}, with the cpu controller")),
        false => Allowed::part(ID, format!("version 2 at {mount}, without the cpu controller"), WITHOUT, None),
    }
}

fn features(root: &Root) -> Allowed {
    const PATH: &str = "/sys/kernel/debug/sched";
    const OLD: &str = "/sys/kernel/debug/sched_features";
    let read = |path: &str| root.open(path).and_then(first_bytes);
    match read(&format!("{PATH}/features")).or_else(|error| read(OLD).map_err(|_| error)) {
        Ok(_) => Allowed::yes(Capability::Debugfs, "the scheduler's settings below /sys/kernel/debug can be read"),
        Err(error) => Allowed::part(
            Capability::Debugfs,
            format!("{PATH}: {}", words(&error)),
            "scheduler features, base slice and fair server are not known and not changed",
            match error.raw_os_error() {
                Some(libc::ENOENT) => Some("sudo mount -t debugfs none /sys/kernel/debug".to_owned()),
                Some(libc::EACCES) => Some("run it with sudo".to_owned()),
                // Lockdown or a security module: the error does not say which.
                _ => None,
            },
        ),
    }
}

fn waits(root: &Root) -> Allowed {
    match root.text("/proc/self/schedstat") {
        Ok(text) if text.split(' ').count() == 3 => {
            Allowed::yes(Capability::Schedstat, "the kernel counts each thread's waits")
        }
        _ => Allowed::part(
            Capability::Schedstat,
            "/proc/PID/schedstat is not there",
            "who waited before a recording began is not known, and guard verify needs eBPF",
            Some("a kernel with CONFIG_SCHED_INFO=y".to_owned()),
        ),
    }
}

/// `None` outside of containers, and if other users' processes are hidden.
fn container(root: &Root) -> Option<Allowed> {
    let status = root.text("/proc/self/status").unwrap_or_default();
    let namespaces =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")).map(|ids| ids.split_ascii_whitespace().count());
    // The innermost id is the only one visible in the PID namespace that /proc was mounted for.
    let is_inner = namespaces.is_some_and(|count| count > 1) || has_no_kernel_threads(root);
    is_inner.then(|| {
        Allowed::part(
            Capability::Container,
            "a PID namespace of its own: /proc shows no kernel thread",
            "the host's threads cannot be named or changed from here",
            Some("share the host's PID namespace (docker run --pid=host, hostPID: true)".to_owned()),
        )
    })
}

/// kthreadd is process 2 of every host, and of no container. If `/proc` is mounted with `hidepid`, an unprivileged user
/// does not see it.
fn has_no_kernel_threads(root: &Root) -> bool {
    match root.text("/proc/2/comm") {
        Ok(comm) => comm != "kthreadd",
        Err(error) => error.kind() == io::ErrorKind::NotFound && !hides_processes(root),
    }
}

fn hides_processes(root: &Root) -> bool {
    let mounts = root.text("/proc/mounts").unwrap_or_default();
    let proc = mounts.lines().filter_map(|line| line.split_once(' ')).find(|(_, rest)| rest.starts_with("/proc proc "));
    proc.is_some_and(|(_, rest)| rest.contains("hidepid=") && !rest.contains("hidepid=0"))
}

fn first_lines(root: &Root, path: &str) -> io::Result<String> {
    first_bytes(root.open(path)?)
}

/// Enough of a long file to judge it.
fn first_bytes(file: Opened) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The error text without the number that the library adds.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
