//! Reads services that affect scheduling.

use unstarve_facts::{NfsdFacts, Services, TaskFacts, WATCHED_PROGRAMS};

use crate::Root;

pub(super) fn read(root: &Root, tasks: &[TaskFacts]) -> Services {
    let runs = |name: &&str| {
        tasks.iter().any(|task| {
            let script = |line: &String| line.split(' ').take(3).any(|word| word.rsplit('/').next() == Some(*name));
            // TuneD is a Python script, so its task may have the interpreter's name.
            !task.kernel_thread
                && task.tgid.is_none()
                && (task.comm == **name || task.cmdline.as_ref().is_some_and(script))
        })
    };
    let profiles = root.text("/etc/tuned/active_profile").unwrap_or_default();
    Services {
        running: WATCHED_PROGRAMS.iter().filter(|name| runs(name)).map(|&name| name.to_owned()).collect(),
        tuned_profiles: profiles.split_ascii_whitespace().map(str::to_owned).collect(),
        nfsd: nfsd(root),
    }
}

fn nfsd(root: &Root) -> Option<NfsdFacts> {
    let threads: u32 = root.text("/proc/fs/nfsd/threads").ok()?.trim().parse().ok()?;
    (threads > 0).then(|| NfsdFacts { threads, pool_mode: root.text("/sys/module/sunrpc/parameters/pool_mode").ok() })
}
