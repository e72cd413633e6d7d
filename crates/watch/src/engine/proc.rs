//! Reads the current state of a task from `/proc`.

use std::{fs, io};

use unstarve_facts::Stat;
use unstarve_host::whole_cgroups;
#[cfg(feature = "bpf")]
use unstarve_model::Comm;
use unstarve_model::Tid;

/// Whether the task exists and is runnable or running; `None` if that cannot be read.
pub(crate) fn is_runnable(tid: Tid) -> Option<bool> {
    says_runnable(fs::read(format!("/proc/{tid}/stat")))
}

fn says_runnable(stat: io::Result<Vec<u8>>) -> Option<bool> {
    match stat {
        // A task's name can contain any bytes.
        Ok(stat) => Stat::parse(&String::from_utf8_lossy(&stat)).map(|stat| stat.state == 'R'),
        Err(error) => is_gone(&error).then_some(false),
    }
}

/// Whether the task does not exist, or ended after its file was opened: then reading fails with ESRCH.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Whether the task has the flag of kernel threads; `None` if it has ended.
pub(crate) fn is_kernel_thread(tid: Tid) -> Option<bool> {
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&stat)).map(|stat| stat.is_kernel_thread())
}

/// A task's name.
#[cfg(feature = "bpf")]
pub(crate) fn comm(tid: Tid) -> Option<Comm> {
    let text = fs::read(format!("/proc/{tid}/comm")).ok()?;
    Some(Comm::new(text.strip_suffix(b"\n").unwrap_or(&text)))
}

/// The process of a thread.
pub(crate) fn process_of(tid: Tid) -> Option<Tid> {
    // A task's name can contain any bytes.
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Tid)
}

/// The path of the task's cgroup in the hierarchy with the cpu controller; `None` if the task has ended.
pub(crate) fn group(tid: Tid, unified: bool) -> Option<String> {
    let text = fs::read(format!("/proc/{tid}/cgroup")).ok()?;
    group_of(&whole_cgroups(String::from_utf8_lossy(&text).into_owned()), unified).map(str::to_owned)
}

/// Parses lines such as `7:cpu,cpuacct:/user.slice/a` (v1) or `0::/user.slice/a` (v2).
fn group_of(text: &str, unified: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_meant = if unified { number == "0" } else { controllers.split(',').any(|one| one == "cpu") };
        is_meant.then_some(path)
    })
}

/// The top-level cgroup of a path; `None` of the root.
pub(crate) fn top_of(path: &str) -> Option<String> {
    let top = path.strip_prefix('/')?.split('/').next()?;
    (!top.is_empty()).then(|| format!("/{top}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_runs_and_nobody_has_number_zero() {
        let tid = Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        assert_eq!(is_runnable(tid), Some(true));
        assert_eq!(is_runnable(Tid(0)), Some(false));
        assert_eq!(process_of(tid), Some(Tid(std::process::id())));
        assert_eq!((is_kernel_thread(tid), is_kernel_thread(Tid(0))), (Some(false), None));
    }

    #[test]
    fn who_ends_after_its_file_was_opened_does_not_run() {
        use std::io::Read;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let mut opened = fs::File::open(format!("/proc/{}/stat", child.id())).expect("its file");
        child.kill().expect("ended");
        child.wait().expect("reaped");
        let mut stat = Vec::new();
        let read = opened.read_to_end(&mut stat).map(|_| stat);
        assert!(read.is_err(), "{read:?}");
        assert_eq!(says_runnable(read), Some(false));
    }

    #[test]
    fn the_top_level_group_is_the_first_part_of_the_path() {
        let text = "12:cpuacct:/a\n7:cpu,x:/b:c/d\n0::/e.slice/f\n";
        let top = |text: &str, unified| group_of(text, unified).and_then(top_of);
        assert_eq!(group_of(text, false), Some("/b:c/d"));
        assert_eq!(top(text, false).as_deref(), Some("/b:c"));
        assert_eq!(top(text, true).as_deref(), Some("/e.slice"));
        assert_eq!(top("0::/\n", true), None);
    }
}
