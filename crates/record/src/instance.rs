//! A tracefs instance of our own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use unstarve_model::EventType;

use crate::RecordError;
use crate::cpus;
use crate::remover::Remover;
use crate::tracefs::{TraceFs, control};

const INSTANCE_PREFIX: &str = "unstarve-";

/// A ring buffer of our own with its own set of enabled events, removed on drop.
///
/// Its directory is locked (flock) while its recorder lives. So a leftover can be distinguished from a recording in
/// progress without process ids, which are reused and differ between containers.
pub(crate) struct Instance {
    tracefs: Arc<TraceFs>,
    name: String,
    lock: Option<File>,
    /// Keeps the buffers alive. When it is closed, even by SIGKILL, the kernel stops tracing into them and frees their
    /// memory (Documentation/trace/ftrace.rst, `free_buffer`).
    buffers: Option<File>,
    /// Removes the instance if this process is killed.
    remover: Option<Remover>,
}

impl Instance {
    /// Creates an instance named after this process.
    pub(crate) fn create(tracefs: Arc<TraceFs>) -> Result<Instance, RecordError> {
        let pid = std::process::id();
        // A second recording in this process needs another name. And between creating and locking it, another recorder
        // may mistake the instance for a leftover.
        for attempt in 0..100 {
            let name = if attempt == 0 {
                format!("{INSTANCE_PREFIX}{pid}")
            } else {
                format!("{INSTANCE_PREFIX}{pid}-{attempt}")
            };
            let path = tracefs.path(&format!("instances/{name}"));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(source) => return Err(RecordError::Tracefs { path: format!("instances/{name}"), source }),
            }
            let mut instance =
                Instance { tracefs: Arc::clone(&tracefs), name, lock: None, buffers: None, remover: None };
            instance.lock = File::open(&path).ok().filter(|file| flock(file, FlockOperation::LockExclusive).is_ok());
            if instance.lock.is_some() && instance.path("tracing_on").exists() {
                instance.buffers = instance.tie_buffers_to_this_process();
                // If no process can be started, the next recorder removes what this one leaves behind.
                instance.remover = Remover::start(&tracefs.path("instances"), &instance.name).ok();
                return Ok(instance);
            }
        }
        Err(RecordError::Tracefs { path: "instances".into(), source: io::ErrorKind::AlreadyExists.into() })
    }

    /// `None` if the kernel lacks `free_buffer`: then a killed recorder's tracing continues until the next recorder
    /// ends it.
    fn tie_buffers_to_this_process(&self) -> Option<File> {
        self.set("options/disable_on_free", "1").ok()?;
        OpenOptions::new().write(true).open(self.path("free_buffer")).ok()
    }

    /// Prevents that closing `free_buffer` shrinks the buffers, which needs a worker on each CPU and waits for as long
    /// as a task monopolises one. A buffer that is being read through `trace` cannot be resized (`resize_disabled` in
    /// kernel/trace/ring_buffer.c), so the kernel skips it. Removing the instance frees the buffers without a worker.
    fn let_buffers_go(&mut self) {
        let Some(buffers) = self.buffers.take() else { return };
        let cpu = cpus::online().first().copied().unwrap_or(0);
        let reader = File::open(self.path(&format!("per_cpu/cpu{cpu}/trace")));
        drop(buffers);
        drop(reader);
    }

    /// Whether it was created through this `TraceFs`; each recorder has its own.
    pub(crate) fn is_of(&self, tracefs: &Arc<TraceFs>) -> bool {
        Arc::ptr_eq(&self.tracefs, tracefs)
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.tracefs.path(&format!("instances/{}/{relative}", self.name))
    }

    /// Reads a file of the instance.
    pub(crate) fn text(&self, relative: &str) -> Result<String, RecordError> {
        fs::read_to_string(self.path(relative)).map_err(|source| self.error(relative, source))
    }

    pub(crate) fn set(&self, relative: &str, value: &str) -> Result<(), RecordError> {
        control(&self.path(relative), value).map_err(|source| self.error(relative, source))
    }

    pub(crate) fn error(&self, relative: &str, source: io::Error) -> RecordError {
        RecordError::Tracefs { path: format!("instances/{}/{relative}", self.name), source }
    }

    /// Selects the clock: `mono` can be compared with the logs of other tools; `local` always exists.
    pub(crate) fn choose_clock(&self) -> Result<String, RecordError> {
        for clock in ["mono", "local"] {
            if self.set("trace_clock", clock).is_ok() {
                return Ok(clock.to_owned());
            }
        }
        self.set("trace_clock", "global").map(|()| "global".to_owned())
    }

    /// The current clock: `[local] global mono …`. Selecting a clock waits for RCU, even if it is the current one.
    pub(crate) fn clock(&self) -> Result<String, RecordError> {
        let text = self.text("trace_clock")?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Ok(chosen.map_or("local", |(clock, _)| clock).to_owned())
    }

    /// Resets what a new instance inherits from the system's options. Only in overwrite mode does the kernel mark
    /// missing events in the pages, and stack traces would take ten times the space of the events.
    pub(crate) fn reset_options(&self) -> Result<(), RecordError> {
        for (option, value) in [("overwrite", "1"), ("stacktrace", "0"), ("userstacktrace", "0")] {
            let file = format!("options/{option}");
            // Writing the current value takes time, too.
            if self.text(&file).is_ok_and(|now| now.trim() != value) {
                self.set(&file, value)?;
            }
        }
        // Since 6.8 a sub-buffer may be larger than a page.
        let page = (rustix::param::page_size() >> 10).to_string();
        if self.text("buffer_subbuf_size_kb").is_ok_and(|size| size.trim() != page) {
            self.set("buffer_subbuf_size_kb", &page)?;
        }
        Ok(())
    }

    /// Stops the kernel from saving the name of every task that is switched or woken, which costs almost as much as
    /// recording the events. The option is written here but applies to all tracing, so it is left alone if somebody
    /// else traces. Tracing that starts later is not affected. See decision 0022.
    pub(crate) fn stop_noting_names(&self) -> KernelNames {
        if !self.tracefs.anybody_traces() && self.set("trace_options", "norecord-cmd").is_ok() {
            KernelNames::Stale
        } else {
            KernelNames::Noted
        }
    }

    /// Whether this kernel has the event.
    pub(crate) fn has(&self, event: EventName) -> bool {
        self.path(&enable_file(event)).exists()
    }

    /// Keeps only records for which an expression is true; all of them for an empty one.
    pub(crate) fn filter(&self, (system, name): EventName, expression: &str) -> Result<(), RecordError> {
        let expression = if expression.is_empty() { "0" } else { expression };
        self.set(&format!("events/{system}/{name}/filter"), expression)
    }

    pub(crate) fn enable(&self, event: EventName) -> Result<(), RecordError> {
        self.set(&enable_file(event), "1")
    }
}

/// Whether the kernel's table of names (`saved_cmdlines`) is updated while recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KernelNames {
    Noted,
    Stale,
}

/// An event's system and name, as in tracefs paths.
pub(crate) type EventName = (&'static str, &'static str);

pub(crate) fn name_of(event: EventType) -> EventName {
    (event.system(), event.name())
}

fn enable_file((system, name): EventName) -> String {
    format!("events/{system}/{name}/enable")
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A drop cannot report errors. An instance that stays is removed by the next recording.
        let _ = self.set("tracing_on", "0");
        self.let_buffers_go();
        self.lock = None;
        let path = self.tracefs.path(&format!("instances/{}", self.name));
        // The instance is busy while another process reads one of its files (`cat …/trace`).
        for _ in 0..20 {
            match fs::remove_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => break,
            }
        }
        if let Some(remover) = self.remover.take() {
            match path.exists() {
                // The remover keeps trying for a while.
                true => drop(remover),
                false => remover.dismiss(),
            }
        }
    }
}

/// Removes the instances of recorders that were killed together with their removers; returns how many.
pub(crate) fn remove_leftovers(tracefs: &TraceFs) -> usize {
    let Ok(entries) = fs::read_dir(tracefs.path("instances")) else { return 0 };
    let is_ours =
        |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.starts_with(INSTANCE_PREFIX));
    entries.flatten().filter(is_ours).filter(|entry| remove_if_orphaned(&entry.path())).count()
}

fn remove_if_orphaned(path: &Path) -> bool {
    let Ok(directory) = File::open(path) else { return false };
    if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // Another process may be reading one of its files, which prevents removal; its enabled events still cost time at
    // each switch.
    let _ = control(&path.join("events/enable"), "0");
    let _ = control(&path.join("tracing_on"), "0");
    fs::remove_dir(path).is_ok()
}
