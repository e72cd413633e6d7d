//! Moves ring-buffer pages to temporary files, beside the work that is recorded.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use unstarve_model::CpuId;
use unstarve_readers::trace_dat_write::CpuPages;

use crate::RecordError;
use crate::instance::Instance;
use crate::signals::{Signals, Waker};

/// How many CPUs one thread looks after. Few threads disturb little, and one can move gigabytes a second.
const CPUS_PER_THREAD: usize = 16;

/// One pipe's worth of pages is moved with two system calls; this is the most that a plain user may ask for.
const PIPE_SIZE: usize = 1 << 20;

/// The threads that move pages while a recording runs.
pub(crate) struct Drain {
    threads: Vec<JoinHandle<Result<Vec<CpuPages>, RecordError>>>,
    stop: Vec<Sender<()>>,
    moved: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
}

impl Drain {
    /// Starts moving the pages of `cpus` to files in `directory`, every `interval`.
    pub(crate) fn start(
        instance: &Instance,
        cpus: &[u32],
        directory: &Path,
        interval: Duration,
        signals: &Signals,
    ) -> Result<Drain, RecordError> {
        let system = RecordError::system;
        let mut drain = Drain { threads: Vec::new(), stop: Vec::new(), moved: Arc::default(), failed: Arc::default() };
        for group in cpus.chunks(CPUS_PER_THREAD) {
            let sources = group.iter().map(|&cpu| Source::open(instance, cpu, directory)).collect::<Result<_, _>>()?;
            let mover = Mover {
                sources,
                pipe: Pipe::new().map_err(system("cannot make a pipe"))?,
                directory: directory.to_owned(),
                moved: Arc::clone(&drain.moved),
            };
            let waker = signals.waker().map_err(system("cannot make a socket"))?;
            let failed = Arc::clone(&drain.failed);
            let (stop, stopped) = channel();
            let thread = std::thread::Builder::new()
                .name("unstarve-record".into())
                .spawn(move || mover.run(&stopped, interval, &Alarm { waker, failed }))
                .map_err(system("cannot start a thread"))?;
            drain.threads.push(thread);
            drain.stop.push(stop);
        }
        Ok(drain)
    }

    /// How many bytes have been moved so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Whether a thread gave up; [`Drain::finish`] tells why.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Moves what is left, half-filled pages too, and gives the files. Call it once tracing is off.
    pub(crate) fn finish(mut self) -> Result<Vec<CpuPages>, RecordError> {
        self.stop.clear();
        let mut pages = Vec::new();
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(group)) => pages.extend(group),
                Ok(Err(error)) => result = Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result.map(|()| pages)
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // Their open files would keep the instance busy.
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Tells the main thread that there is no sense in going on.
struct Alarm {
    waker: Waker,
    failed: Arc<AtomicBool>,
}

struct Mover {
    sources: Vec<Source>,
    pipe: Pipe,
    directory: PathBuf,
    moved: Arc<AtomicU64>,
}

impl Mover {
    fn run(mut self, stopped: &Receiver<()>, interval: Duration, alarm: &Alarm) -> Result<Vec<CpuPages>, RecordError> {
        // The load that is recorded must not starve its recorder. Nice suffices and, other than a real-time priority,
        // can hardly hurt; without the right to it, go on without.
        let _ = rustix::process::setpriority_process(None, -20);
        let result = self.move_until(stopped, interval);
        if result.is_err() {
            alarm.failed.store(true, Ordering::Relaxed);
            alarm.waker.wake();
        }
        result?;
        Ok(self.sources.into_iter().map(|source| source.pages).collect())
    }

    fn move_until(&mut self, stopped: &Receiver<()>, interval: Duration) -> Result<(), RecordError> {
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            for source in &mut self.sources {
                let bytes = source.move_full_pages(&self.pipe).map_err(RecordError::output(&self.directory))?;
                self.moved.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        for source in &mut self.sources {
            source.move_everything(&self.pipe).map_err(RecordError::output(&self.directory))?;
        }
        Ok(())
    }
}

/// One CPU's buffer and where its pages go.
struct Source {
    raw: File,
    pages: CpuPages,
    page_size: usize,
}

impl Source {
    fn open(instance: &Instance, cpu: u32, directory: &Path) -> Result<Source, RecordError> {
        let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let raw = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(instance.path(&name))
            .map_err(|source| instance.error(&name, source))?;
        // A file without a name: whatever happens to this process, its space is freed.
        let file = tempfile::tempfile_in(directory).map_err(RecordError::output(directory))?;
        Ok(Source { raw, pages: CpuPages { cpu: CpuId(cpu), file, length: 0 }, page_size: rustix::param::page_size() })
    }

    /// Moves the pages that the kernel has filled; gives their bytes. Bounded by what a buffer can hold, so that one
    /// very busy CPU does not keep the others waiting.
    fn move_full_pages(&mut self, pipe: &Pipe) -> io::Result<u64> {
        let before = self.pages.length;
        for _ in 0..64 {
            match splice(&self.raw, None, &pipe.write, None, pipe.size, SpliceFlags::MOVE | SpliceFlags::NONBLOCK) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(bytes) => self.empty(pipe, bytes)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(self.pages.length - before)
    }

    fn empty(&mut self, pipe: &Pipe, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            match splice(&pipe.read, None, &self.pages.file, None, bytes, SpliceFlags::MOVE) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => {
                    bytes -= moved;
                    self.pages.length += moved as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Moves full pages, then reads the rest: splice(2) only ever gives full pages.
    fn move_everything(&mut self, pipe: &Pipe) -> io::Result<()> {
        while self.move_full_pages(pipe)? > 0 {}
        let mut page = vec![0; self.page_size];
        loop {
            match rustix::io::read(&self.raw, page.as_mut_slice()) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(length) => {
                    // The reader of the file expects whole pages; the header says how much of one is used.
                    page[length..].fill(0);
                    self.pages.file.write_all(&page)?;
                    self.pages.length += page.len() as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let size = fcntl_setpipe_size(&write, PIPE_SIZE).unwrap_or(16 * rustix::param::page_size());
        Ok(Pipe { read, write, size })
    }
}
