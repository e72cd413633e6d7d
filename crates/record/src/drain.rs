//! Moves ring buffer pages to temporary files while the recording runs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use unstarve_model::CpuId;
use unstarve_readers::trace_dat_write::CpuPages;

use crate::disk_limit::DiskLimit;
use crate::instance::Instance;
use crate::output::{OutputDirectory, pages_of};
use crate::redact::Redactor;
use crate::ring_buffer::{RingBuffer, empty_page};
use crate::signals::{Signals, Waker};
use crate::{Full, RecordError};

/// CPUs per thread. Few threads disturb the load little, and one can move gigabytes a second.
const CPUS_PER_THREAD: usize = 16;

/// A full pipe of pages is moved with two system calls. This is the largest pipe an unprivileged user may have.
const PIPE_SIZE: usize = 1 << 20;

/// The threads that move pages.
pub(crate) struct Drain {
    threads: Vec<JoinHandle<Result<Vec<CpuPages>, RecordError>>>,
    stop: Vec<Sender<()>>,
    state: Arc<State>,
}

/// State shared by these threads and the main thread.
struct State {
    moved: AtomicU64,
    failed: AtomicBool,
    limit: DiskLimit,
    full: Mutex<Option<Full>>,
}

impl Drain {
    /// Starts moving the pages of `cpus` to files in the output directory, every `interval`.
    pub(crate) fn start(
        instance: &Instance,
        cpus: &[u32],
        output_dir: &OutputDirectory,
        limit: DiskLimit,
        interval: Duration,
        redactor: Option<&Redactor>,
        signals: &Signals,
    ) -> Result<Drain, RecordError> {
        let system = RecordError::system;
        let state = State { moved: AtomicU64::new(0), failed: AtomicBool::new(false), limit, full: Mutex::new(None) };
        let mut drain = Drain { threads: Vec::new(), stop: Vec::new(), state: Arc::new(state) };
        for group in cpus.chunks(CPUS_PER_THREAD) {
            let sources = group.iter().map(|&cpu| Source::open(instance, cpu, output_dir)).collect::<Result<_, _>>()?;
            let page_mover = PageMover {
                sources,
                pipe: Pipe::new().map_err(system("cannot make a pipe"))?,
                redactor: redactor.map(Redactor::again),
                output: output_dir.place().path().to_owned(),
                state: Arc::clone(&drain.state),
                waker: signals.waker().map_err(system("cannot make a socket"))?,
            };
            let (stop, stopped) = channel();
            let thread = std::thread::Builder::new()
                .name("unstarve-record".into())
                .spawn(move || page_mover.run(&stopped, interval))
                .map_err(system("cannot start a thread"))?;
            drain.threads.push(thread);
            drain.stop.push(stop);
        }
        Ok(drain)
    }

    /// Bytes moved so far.
    pub(crate) fn moved(&self) -> u64 {
        self.state.moved.load(Ordering::Relaxed)
    }

    /// Whether the limit of bytes has been reached.
    pub(crate) fn full(&self) -> Option<Full> {
        *self.state.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has failed; [`Drain::finish`] returns the error.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.failed.load(Ordering::Relaxed)
    }

    /// Moves what is left, including partly filled pages, and returns the files. Call it after tracing is off.
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
        // Open files would keep the instance busy.
        self.stop.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct PageMover {
    sources: Vec<Source>,
    pipe: Pipe,
    redactor: Option<Redactor>,
    /// Path used in errors.
    output: PathBuf,
    state: Arc<State>,
    /// Wakes the main thread when this thread fails.
    waker: Waker,
}

impl PageMover {
    fn run(mut self, stopped: &Receiver<()>, interval: Duration) -> Result<Vec<CpuPages>, RecordError> {
        // The recorded load must not starve the recorder. Nice −20 is enough, and unlike a real-time priority can
        // hardly do harm. Without the right to set it, continue without.
        let _ = rustix::process::setpriority_process(None, -20);
        let result = self.move_until(stopped, interval);
        if result.is_err() {
            self.state.failed.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
        result.map_err(RecordError::output(&self.output))?;
        Ok(self.sources.into_iter().map(|source| source.pages).collect())
    }

    fn move_until(&mut self, stopped: &Receiver<()>, interval: Duration) -> io::Result<()> {
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            for source in &mut self.sources {
                let bytes = source.move_full_pages(&self.pipe, &mut self.redactor)?;
                self.state.moved.fetch_add(bytes, Ordering::Relaxed);
            }
            self.check_disk_limit();
        }
        for source in &mut self.sources {
            source.move_everything(&self.pipe, &mut self.redactor)?;
        }
        Ok(())
    }

    fn check_disk_limit(&self) {
        let Some(full) = self.state.limit.is_full(self.state.moved.load(Ordering::Relaxed)) else { return };
        let mut noted = self.state.full.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.replace(full).is_none() {
            self.waker.wake();
        }
    }
}

/// One CPU's buffer and the file for its pages.
struct Source {
    raw: RingBuffer,
    pages: CpuPages,
}

impl Source {
    fn open(instance: &Instance, cpu: u32, output_dir: &OutputDirectory) -> Result<Source, RecordError> {
        let raw = RingBuffer::open(instance, cpu)?;
        // The file has a name, so that the recording survives if this process is killed.
        let file =
            output_dir.hidden().create(&pages_of(cpu)).map_err(RecordError::output(output_dir.place().path()))?;
        Ok(Source { raw, pages: CpuPages { cpu: CpuId(cpu), file, length: 0 } })
    }

    /// Moves the pages that are full; returns their size. Limited to one buffer's worth, so that one very busy CPU does
    /// not hold up the others.
    fn move_full_pages(&mut self, pipe: &Pipe, redactor: &mut Option<Redactor>) -> io::Result<u64> {
        let before = self.pages.length;
        for _ in 0..64 {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            match retry_on_intr(|| splice(&self.raw, None, &pipe.write, None, pipe.size, flags)) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(bytes) => match redactor {
                    Some(redactor) => self.empty_redacted(pipe, bytes, redactor)?,
                    None => self.empty(pipe, bytes)?,
                },
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(self.pages.length - before)
    }

    fn empty(&mut self, pipe: &Pipe, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            match retry_on_intr(|| splice(&pipe.read, None, &self.pages.file, None, bytes, SpliceFlags::MOVE))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                moved => {
                    bytes -= moved;
                    self.pages.length += moved as u64;
                }
            }
        }
        Ok(())
    }

    /// The same for pages that must be redacted first.
    fn empty_redacted(&mut self, pipe: &Pipe, bytes: usize, redactor: &mut Redactor) -> io::Result<()> {
        let mut pages = vec![0; bytes];
        (&pipe.read).read_exact(&mut pages)?;
        for page in pages.chunks_mut(rustix::param::page_size()) {
            redactor.redact(page);
        }
        self.write(&pages)
    }

    fn write(&mut self, pages: &[u8]) -> io::Result<()> {
        self.pages.file.write_all(pages)?;
        self.pages.length += pages.len() as u64;
        Ok(())
    }

    /// Moves full pages, then reads the rest: splice(2) only moves full pages.
    fn move_everything(&mut self, pipe: &Pipe, redactor: &mut Option<Redactor>) -> io::Result<()> {
        while self.move_full_pages(pipe, redactor)? > 0 {}
        let mut page = empty_page();
        while self.raw.read_page(&mut page)? {
            if let Some(redactor) = redactor {
                redactor.redact(&mut page);
            }
            self.write(&page)?;
        }
        Ok(())
    }
}

struct Pipe {
    read: File,
    write: OwnedFd,
    size: usize,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let size = fcntl_setpipe_size(&write, PIPE_SIZE).unwrap_or(16 * rustix::param::page_size());
        Ok(Pipe { read: read.into(), write, size })
    }
}
