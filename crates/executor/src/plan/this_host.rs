//! Reads what a plan needs from this host.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use unstarve_change::Place;
use unstarve_facts::flag;
use unstarve_host::{cpu_cgroup, cpu_hierarchy, whole_cgroups};
use unstarve_model::Tid;
use unstarve_sched::setting::cgroup::{self, CgroupVersion};

use crate::host::{ThisHost, place_of, read_file};
use crate::look::Look;
use crate::proc;

impl Look for ThisHost {
    fn start_of(&self, tid: Tid) -> Option<u64> {
        proc::start_of(tid)
    }

    fn comm_of(&self, tid: Tid) -> Option<String> {
        let bytes = fs::read(format!("/proc/{tid}/comm")).ok()?;
        // The name itself may end with a newline, too.
        Some(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
    }

    fn flags_of(&self, tid: Tid) -> Option<u64> {
        proc::stat_of(tid).map(|stat| stat.flags)
    }

    fn user_of(&self, tid: Tid) -> Option<u32> {
        proc::user_of(tid)
    }

    fn owner_of_directory(&self, path: &str) -> Option<u32> {
        // Follows links, as the write will: a user's link can lead into another user's group.
        Some(fs::metadata(Path::new(path).parent()?).ok()?.uid())
    }

    fn threads_of(&self, process: Tid) -> Vec<Tid> {
        proc::numbers_in(&format!("/proc/{process}/task"))
    }

    fn kernel_threads(&self, prefix: &str) -> Vec<Tid> {
        let is_one = |tid: &Tid| {
            proc::stat_of(*tid).is_some_and(|stat| stat.flags & flag::KTHREAD != 0 && stat.comm.starts_with(prefix))
        };
        proc::numbers_in("/proc").into_iter().filter(is_one).collect()
    }

    fn file(&self, path: &str) -> Option<Place> {
        place_of(path, None)
    }

    fn text(&self, path: &str) -> io::Result<String> {
        Ok(read_file(path, None)?.trim().to_owned())
    }

    fn handlers_of(&self, irq: u32) -> Option<Vec<String>> {
        crate::host::handlers_of(irq)
    }

    fn session_of(&self, tid: Tid) -> Option<u64> {
        crate::session::of(tid).map(|session| session.id)
    }

    fn weight_file(&self, tid: Tid) -> Option<(String, CgroupVersion)> {
        let hierarchy = cpu_hierarchy()?;
        // Any user may create a group whose name is not UTF-8.
        let groups = String::from_utf8_lossy(&fs::read(format!("/proc/{tid}/cgroup")).ok()?).into_owned();
        let group = cpu_cgroup(&whole_cgroups(groups), hierarchy.version)?;
        let top = group.trim_start_matches('/').split('/').next().filter(|top| !top.is_empty())?;
        let file = format!("{}/{top}/{}", hierarchy.mount, cgroup::weight_file(hierarchy.version));
        Path::new(&file).exists().then_some((file, hierarchy.version))
    }
}
