//! Reads and writes the values: on this machine, or on a test's model of one.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};
use unstarve_model::Tid;

use crate::groups::{self, Whereabouts};
use crate::journal::Step;
use crate::registry::Registry;
use crate::session;
use crate::{inherited_changes, proc, sched};
use unstarve_change::TaskKey;
use unstarve_change::{Aspect, Place, Value};
use unstarve_sched::setting::{self, Content, File, Setting, feature};

/// A machine whose values can be read and set.
pub trait Host {
    /// The current value; `None` if the target is gone or was replaced by another one.
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>>;
    /// Whether the target exists and is still the same.
    fn is_there(&self, target: &Place) -> bool;
    /// Sets a value of a target that was just checked. ESRCH if it is gone.
    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()>;
    /// The names of an interrupt's handlers, for the affinity file of an interrupt: its number may later belong to another
    /// device.
    fn handlers(&self, _target: &Place) -> Option<Vec<String>> {
        None
    }
    /// Changes that tasks inherited from these and that are not among them; empty if nothing is inherited.
    fn heirs(&self, _changes: &[Step]) -> Vec<Step> {
        Vec::new()
    }
    /// The leader of a task's process, if the task is another thread.
    fn process_of(&self, _task: TaskKey) -> Option<TaskKey> {
        None
    }
    /// The changed task that a task inherited from, if it is recorded.
    fn origin(&self, _tid: Tid) -> Option<Tid> {
        None
    }
    /// Tasks that others inherited from, as far as recorded.
    fn origins(&self) -> FxHashSet<Tid> {
        FxHashSet::default()
    }
    /// Allows dropping the records of exited tasks.
    fn forget_ended(&self) {}
    /// Nothing that was set is left on a task: inheritance by its children need no longer be recorded.
    fn forget(&self, _tid: Tid) {}
    /// Waits until forks that were in progress during the revert have finished. A child copies its parent's values long before
    /// it becomes visible, and a parent preempted in between may wait for its CPU.
    fn let_births_finish(&self, _changes: &[Step]) {}
}

/// A parent that has run this long since has finished any fork that was in progress.
const LONG_FORK: u64 = 300_000_000;
/// Maximum time to wait for forks in progress.
const LONGEST_BIRTH: Duration = Duration::from_millis(1500);
/// The same while the guard continues and has other work.
const LONGEST_BIRTH_MEANWHILE: Duration = Duration::from_millis(200);

/// Tasks that may be in a fork: running, runnable, or in an uninterruptible sleep. With their CPU time.
fn may_be_forking(changes: &[Step]) -> FxHashMap<TaskKey, u64> {
    let tasks = changes.iter().filter_map(|change| match &change.target {
        Place::Task(key) => Some(*key),
        _ => None,
    });
    let tasks: FxHashSet<TaskKey> = tasks.collect();
    let busy = tasks.into_iter().filter(|key| proc::is_busy_program(*key));
    busy.filter_map(|key| Some((key, proc::waited(key.tid)?.0))).collect()
}

/// This machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

fn wait_for_births(changes: &[Step], longest: Duration) {
    let mut busy = may_be_forking(changes);
    let (began, mut pause) = (Instant::now(), Duration::from_millis(2));
    while !busy.is_empty() && began.elapsed() < longest {
        // Long enough for other tasks to run, whatever this thread's priority.
        thread::sleep(pause.min(longest));
        pause = (pause * 2).min(Duration::from_millis(100));
        busy.retain(|key, ran| {
            let now = proc::waited(key.tid).map_or(u64::MAX, |(ran, _)| ran);
            proc::is_busy_program(*key) && now.saturating_sub(*ran) < LONG_FORK
        });
    }
}

/// This machine, with what its kernel recorded of inheritance.
#[derive(Debug, Default)]
pub struct Watched {
    /// The record; `None` if the kernel keeps none.
    pub registry: Option<Registry>,
    /// A guard is running, and must not block for long.
    pub at_work: bool,
}

impl Host for Watched {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        ThisHost.read(target, aspect)
    }

    fn is_there(&self, target: &Place) -> bool {
        ThisHost.is_there(target)
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        ThisHost.write(target, value)
    }

    fn handlers(&self, target: &Place) -> Option<Vec<String>> {
        ThisHost.handlers(target)
    }

    fn process_of(&self, task: TaskKey) -> Option<TaskKey> {
        ThisHost.process_of(task)
    }

    fn origin(&self, tid: Tid) -> Option<Tid> {
        self.registry.as_ref()?.origin(tid)
    }

    fn origins(&self) -> FxHashSet<Tid> {
        let tasks = self.registry.as_ref().map(Registry::tasks).unwrap_or_default();
        tasks.into_iter().filter(|kept| kept.from != kept.tid).map(|kept| kept.from).collect()
    }

    fn forget_ended(&self) {
        if let Some(registry) = &self.registry {
            registry.forget_ended();
        }
    }

    fn forget(&self, tid: Tid) {
        if let Some(registry) = &self.registry {
            registry.forget(tid);
        }
    }

    fn let_births_finish(&self, changes: &[Step]) {
        wait_for_births(changes, if self.at_work { LONGEST_BIRTH_MEANWHILE } else { LONGEST_BIRTH });
    }

    /// Combines the process tree with the kernel's record, which includes orphans.
    fn heirs(&self, changes: &[Step]) -> Vec<Step> {
        let mut found = ThisHost.heirs(changes);
        let Some(registry) = &self.registry else { return found };
        let mut by_tid: FxHashMap<Tid, Vec<&Step>> = FxHashMap::default();
        for change in changes {
            if let Place::Task(key) = &change.target {
                by_tid.entry(key.tid).or_default().push(change);
            }
        }
        let known: FxHashSet<Place> = found.iter().map(|change| change.target.clone()).collect();
        for kept in registry.tasks() {
            let Some(of_ancestor) = by_tid.get(&kept.from).filter(|_| kept.from != kept.tid) else { continue };
            let Some(start) = proc::start_of(kept.tid) else { continue };
            let key = TaskKey { tid: kept.tid, start };
            if !known.contains(&Place::Task(key)) {
                found.extend(inherited_changes::of_one(key, of_ancestor, value_of));
            }
        }
        found
    }
}

fn value_of(key: TaskKey, aspect: Aspect) -> Option<Value> {
    sched::read_value(key.tid, aspect).ok()?
}

/// The kernel has a directory for each handler next to the interrupt's files.
pub(crate) fn handlers_of(irq: u32) -> Option<Vec<String>> {
    let entries = fs::read_dir(format!("/proc/irq/{irq}")).ok()?.flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Some(directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// std has no error kind for ESRCH.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || error.kind() == ErrorKind::NotFound
}

impl Host for ThisHost {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        let value = match target {
            Place::Task(key) => sched::read_value(key.tid, aspect),
            // Any process found is in the session: nothing more to check.
            Place::Session { id } => {
                return Ok(session::nice_of(*id).map(Value::Nice).filter(|_| aspect == Aspect::Nice));
            }
            Place::File { path, inode, root } => {
                let Some(now) = located(path, *inode, root.as_deref())? else { return Ok(None) };
                return match read_of(&now, root.as_deref(), *inode) {
                    Ok(text) => Ok(File::at(path).map(|file| Value::content(file.in_force(text.trim())))),
                    Err(error) if is_gone(&error) => Ok(None),
                    Err(error) => Err(error),
                };
            }
            Place::Feature { path, name, root } => {
                read_file(path, root.as_deref()).map(|text| feature::word_in(&text, name).map(Value::content))
            }
        };
        match value {
            // Checked after the read, to notice a reused tid.
            Ok(value) => Ok(if is_same(target) { value } else { None }),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_there(&self, target: &Place) -> bool {
        is_same(target)
    }

    fn handlers(&self, target: &Place) -> Option<Vec<String>> {
        match target {
            // A file below another root belongs to a model.
            Place::File { path, root: None, .. } => handlers_of(setting::interrupt_of(path)?),
            _ => None,
        }
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        match (target, value) {
            (Place::Task(key), value) => sched::set_value(key.tid, value),
            (Place::Session { id }, Value::Nice(nice)) => session::set_nice(*id, *nice),
            (Place::File { path, inode, root }, Value::Content(content)) => {
                match located(path, *inode, root.as_deref())? {
                    Some(now) => write_file(&now, root.as_deref(), *inode, content),
                    None => Err(io::Error::from_raw_os_error(libc::ESRCH)),
                }
            }
            (Place::Feature { path, name, root }, Value::Content(word))
                if feature::name_of(word.as_str()) == name && feature::FILES.contains(&path.as_str()) =>
            {
                write_file(path, root.as_deref(), ANY, word)
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn process_of(&self, task: TaskKey) -> Option<TaskKey> {
        let first = proc::process_of(task.tid).filter(|first| *first != task.tid)?;
        Some(TaskKey { tid: first, start: proc::start_of(first)? })
    }

    fn let_births_finish(&self, changes: &[Step]) {
        wait_for_births(changes, LONGEST_BIRTH);
    }

    fn heirs(&self, changes: &[Step]) -> Vec<Step> {
        if !changes.iter().any(|change| matches!(change.target, Place::Task(_))) {
            return Vec::new();
        }
        // Kernel threads do not inherit: the kernel resets them at creation (`kthread()`, kernel/kthread.c).
        let kin = proc::kin().unwrap_or_default();
        let mut found = inherited_changes::find(&kin, changes, value_of);
        found.extend(inherited_changes::taken_over(changes, proc::start_of, value_of));
        found
    }
}

/// In one write, as kernel files require; never creates a file, never follows a symbolic link at the end, and only on file
/// systems where the kernel keeps settings: otherwise a journal could be used to write any file.
fn write_file(path: &str, root: Option<&str>, inode: u64, content: &Content) -> io::Result<()> {
    use std::io::Write;
    if !content.is_line() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "no line that a setting could hold"));
    }
    let (mut file, setting) = open_setting(path, root, OFlags::WRONLY)?;
    check_identity(&file, path, inode)?;
    let mut write = || file.write_all(content.as_str().as_bytes());
    if setting.may_be_busy { BUSY.wait(LONGEST_BUSY, write) } else { write() }
}

/// Reads a setting's file. The path comes from a recording, so the file may be anything: a FIFO, or a file that never ends.
pub fn read_file(path: &str, root: Option<&str>) -> io::Result<String> {
    let mut text = String::new();
    open_setting(path, root, OFlags::RDONLY)?.0.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The same, unless another file has the path now.
fn read_of(path: &str, root: Option<&str>, inode: u64) -> io::Result<String> {
    let mut text = String::new();
    let (file, _) = open_setting(path, root, OFlags::RDONLY)?;
    check_identity(&file, path, inode)?;
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Any inode: see [`inode_of`].
const ANY: u64 = 0;

/// Whether an open file is the expected one: it can have been replaced between the check and the open.
fn check_identity(file: &fs::File, path: &str, inode: u64) -> io::Result<()> {
    match inode == ANY || file.metadata()?.ino() == inode {
        true => Ok(()),
        false => Err(io::Error::other(format!("{path} is another file than a moment ago; nothing is written to it"))),
    }
}

/// The current path of a file; `None` if it is gone. A cgroup may have been renamed.
///
/// # Errors
/// If it may still exist under another name.
fn located<'a>(path: &'a str, inode: u64, root: Option<&str>) -> io::Result<Option<Cow<'a, str>>> {
    if inode_below(root, path) == Some(inode) {
        return Ok(Some(Cow::Borrowed(path)));
    }
    // Groups below another root belong to a recording or a model.
    if root.is_some() || setting::group_of(path).is_none() {
        return Ok(None);
    }
    Ok(match groups::find(path, inode)? {
        Whereabouts::Moved(now) => Some(Cow::Owned(now)),
        Whereabouts::Gone => None,
    })
}

/// Opens a setting's file and nothing else.
fn open_setting(path: &str, root: Option<&str>, access: OFlags) -> io::Result<(fs::File, &'static Setting)> {
    let refused = |why| io::Error::new(ErrorKind::PermissionDenied, why);
    let known = File::at(path).ok_or_else(|| refused("no setting of the scheduler's"))?;
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match root {
        // `/proc/PID/root` would lead into another process's mount namespace.
        None => openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?,
        Some(root) => open_below(root, path, flags)?,
    };
    // A tree named with `--root` is trusted to be one.
    let magic = fstatfs(&file)?.f_type;
    if root.is_none() && !known.lives_on(magic as u64) {
        return Err(refused("not on a file system of the kernel's settings"));
    }
    Ok((fs::File::from(file), known.setting))
}

/// No setting is longer: the list of features has some 1,000 bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// How long to retry a file that returns EBUSY.
const LONGEST_BUSY: Duration = Duration::from_secs(3);

static BUSY: Busy = Busy { in_vain: AtomicBool::new(false) };

/// Files that return EBUSY. There is one for each CPU, and all may stay busy.
struct Busy {
    /// The last file stayed busy: the next one is tried once.
    in_vain: AtomicBool,
}

impl Busy {
    /// Retries while the file returns EBUSY, up to a limit.
    fn wait(&self, longest: Duration, mut write: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let longest = if self.in_vain.load(Ordering::Relaxed) { Duration::ZERO } else { longest };
        let (began, mut pause) = (Instant::now(), Duration::from_millis(10));
        loop {
            let result = write();
            let is_busy = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EBUSY));
            if !is_busy || began.elapsed() >= longest {
                self.in_vain.store(is_busy, Ordering::Relaxed);
                return result;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }
}

/// Follows no symbolic link below the directory: no kernel setting is behind one.
fn open_below(root: &str, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    Ok(openat2(&root, path.trim_start_matches('/'), flags, Mode::empty(), resolve)?)
}

fn at(path: &str, root: Option<&str>) -> PathBuf {
    match root {
        None => PathBuf::from(path),
        Some(root) => Path::new(root).join(path.trim_start_matches('/')),
    }
}

/// Whether the target is still the same.
fn is_same(target: &Place) -> bool {
    match target {
        Place::Task(key) => proc::start_of(key.tid) == Some(key.start),
        Place::Session { id } => session::nice_of(*id).is_some(),
        // A file that may exist counts as the same: using it returns the error.
        Place::File { path, inode, root } => !matches!(located(path, *inode, root.as_deref()), Ok(None)),
        Place::Feature { path, root, .. } => at(path, root.as_deref()).exists(),
    }
}

/// A file's inode number. Those in /proc/sys change whenever the kernel drops the inode from its cache, so they count as 0.
pub fn inode_of(path: &Path) -> Option<u64> {
    let inode = fs::metadata(path).ok()?.ino();
    Some(if path.starts_with("/proc") { 0 } else { inode })
}

/// As [`inode_of`], for a file below a directory.
fn inode_below(root: Option<&str>, path: &str) -> Option<u64> {
    let inode = inode_of(&at(path, root))?;
    Some(if path.starts_with("/proc/") { 0 } else { inode })
}

/// A file's place, if it exists; `root` is the directory that its path is relative to.
pub fn place_of(path: &str, root: Option<&str>) -> Option<Place> {
    let inode = inode_below(root, path)?;
    Some(Place::File { path: path.to_owned(), inode, root: root.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_file_is_tried_again_for_a_while() {
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        let files = Busy { in_vain: AtomicBool::new(false) };
        let mut tries = 0;
        let mut write = |most: u32, error: fn() -> io::Error, longest| {
            tries = 0;
            let result = files.wait(longest, || {
                tries += 1;
                if tries < most { Err(error()) } else { Ok(()) }
            });
            (result.map_err(|error| error.raw_os_error()), tries)
        };
        assert_eq!(write(4, busy, Duration::from_secs(60)), (Ok(()), 4));
        let (refused, tries) = write(u32::MAX, busy, Duration::from_millis(100));
        assert_eq!(refused, Err(Some(libc::EBUSY)));
        assert!(tries > 1, "{tries}");
        assert_eq!(
            write(2, busy, Duration::from_secs(60)),
            (Err(Some(libc::EBUSY)), 1),
            "the next one is not waited for"
        );
        assert_eq!(write(1, busy, Duration::from_secs(60)), (Ok(()), 1));
        assert_eq!(write(4, busy, Duration::from_secs(60)), (Ok(()), 4), "they are no longer busy");
        let denied = || io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(write(4, denied, Duration::from_secs(60)), (Err(Some(libc::EPERM)), 1), "other errors are no wait");
    }

    #[test]
    fn a_file_of_a_setting_s_name_elsewhere_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.weight");
        fs::write(&path, "1").unwrap();
        let target =
            Place::File { path: path.to_str().unwrap().to_owned(), inode: inode_of(&path).unwrap(), root: None };
        let error = ThisHost.write(&target, &Value::content(100)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    }
}
