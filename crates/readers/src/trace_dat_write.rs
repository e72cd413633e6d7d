//! Writer of `trace.dat`, version 6, which every trace-cmd since 2010 and every KernelShark can read.
//!
//! A recorder collects raw pages (tracefs `per_cpu/cpuN/trace_pipe_raw`) in one file per CPU, because the format needs
//! each CPU's pages in one piece. [`write`] puts the tables before them and lets the kernel copy the pages
//! (`copy_file_range`; XFS and Btrfs share the blocks instead of copying). The file is written under another name and
//! renamed, so the file at the path is always complete.
//!
//! Format: trace-cmd's `Documentation/trace-cmd/trace-cmd.dat.v6.5.txt`.

mod place;

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use unstarve_model::CpuId;

use crate::endian::Endian;
use crate::trace_dat::{TRACE_DAT_MAGIC, options};

use place::{Place, Places, copy};

/// The content of a recording.
///
/// Each text is the content of the tracefs file of that name. Empty texts are omitted where the format allows it.
#[derive(Debug)]
pub struct Recording {
    /// The recorded machine's byte order and size of a `long`.
    pub machine: Machine,
    /// Size of a page of the ring buffer (sub-buffer), and alignment of each CPU's pages.
    pub page_size: u32,
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// `events/ftrace/*/format`: only needed to see `trace_printk` and the like in trace-cmd.
    pub ftrace_formats: Vec<Vec<u8>>,
    /// `events/<system>/<event>/format` of exactly the enabled events: readers conclude from this what was recorded.
    pub event_formats: Vec<SystemFormats>,
    /// `/proc/kallsyms`, or the lines of it that events may refer to.
    pub kallsyms: Vec<u8>,
    /// `printk_formats`.
    pub printk_formats: Vec<u8>,
    /// `saved_cmdlines`.
    pub saved_cmdlines: Vec<u8>,
    /// `trace_clock`: `[local] global counter …`.
    pub trace_clock: String,
    /// `sysname nodename release machine`.
    pub uname: String,
    /// For each CPU `per_cpu/cpuN/stats`, preceded by a line `CPU: N`.
    pub cpu_statistics: Vec<String>,
    /// The host snapshot, JSON.
    pub snapshot: Option<String>,
    /// Number of CPUs of the machine, with or without pages.
    pub cpu_count: u32,
    /// The pages, by CPU. CPUs without pages may be omitted.
    pub pages: Vec<CpuPages>,
}

/// The machine properties that determine the encoding of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Byte order.
    pub endian: Endian,
    /// Bytes of a `long`: 4 or 8.
    pub long: u8,
}

impl Machine {
    /// The machine that runs this code.
    pub const HOST: Machine = Machine { endian: Endian::HOST, long: size_of::<std::ffi::c_long>() as u8 };
}

/// The event formats of one system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemFormats {
    /// `sched`.
    pub system: String,
    /// The texts of its events' `format` files.
    pub formats: Vec<Vec<u8>>,
}

/// The pages of one CPU, contiguous from the start of their own file.
#[derive(Debug)]
pub struct CpuPages {
    /// The CPU.
    pub cpu: CpuId,
    /// The file with the pages.
    pub file: File,
    /// Bytes of pages in the file.
    pub length: u64,
}

/// Why a file could not be written. The path is unchanged then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A system call failed.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file to write.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not a regular file, which renaming would replace.
    #[error("{} is not a regular file, so it is not replaced", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A table is too long for its length field.
    #[error("{table} of {length} bytes is too long for a trace.dat")]
    TooLong {
        /// The table.
        table: &'static str,
        /// Its length in bytes.
        length: usize,
    },
    /// A file of pages is shorter than its stated length.
    #[error("the pages of CPU {cpu} end {missing} bytes early")]
    PagesMissing {
        /// The CPU.
        cpu: CpuId,
        /// How many bytes are missing.
        missing: u64,
    },
    /// Pages of a CPU beyond the number of CPUs.
    #[error("there are pages of CPU {cpu}, but the machine had {cpus} CPUs")]
    NoSuchCpu {
        /// The CPU.
        cpu: CpuId,
        /// The number of CPUs.
        cpus: u32,
    },
    /// Two page files for one CPU.
    #[error("there are two page files for CPU {cpu}")]
    Twice {
        /// The CPU.
        cpu: CpuId,
    },
}

/// Writes `recording` to `path`, replacing an existing file. `progress` gets the bytes of pages written so far, and the
/// total.
///
/// Needs as much free space at `path` as the pages take, unless the file system can share blocks. The data is not
/// synced to disk.
pub fn write(recording: Recording, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), WriteError> {
    let io = |source| WriteError::Io { path: path.to_owned(), source };
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(WriteError::NotAFile { path: path.to_owned() });
    }
    let (head, pages) = Head::of(recording)?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut target = tempfile::Builder::new()
        .prefix(".unstarve-")
        .suffix(".partial")
        // Minus the umask, as for any new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(io)?;
    head.write_into(&pages, target.as_file_mut(), path, progress)?;
    target.persist(path).map_err(|error| io(error.error))?;
    Ok(())
}

/// Everything before the pages, encoded. A recorder can store it next to its pages, so that another process can
/// complete the file.
#[derive(Clone, Debug)]
pub struct Head {
    before: Vec<u8>,
    /// kallsyms, the largest table, kept separate so that it is never copied. Empty in a stored head.
    symbols: Vec<u8>,
    after: Vec<u8>,
    /// Offset of the still empty CPU table in the part after the symbols.
    cpu_table: usize,
    cpus: u32,
    endian: Endian,
    page_size: u32,
}

/// Marks the end of a stored [`Head`].
const HEAD_END: &[u8; 16] = b"unstarve head 1\n";

impl Head {
    /// The head of a recording, and its pages.
    ///
    /// # Errors If a table is too long.
    pub fn of(recording: Recording) -> Result<(Head, Vec<CpuPages>), WriteError> {
        let cpus = cpu_count(&recording)?;
        let endian = recording.machine.endian;
        let mut out = Out { endian, bytes: Vec::with_capacity(1 << 18) };
        out.bytes.extend_from_slice(TRACE_DAT_MAGIC);
        out.bytes.extend_from_slice(b"6\0");
        out.bytes.push(u8::from(endian == Endian::Big));
        out.bytes.push(recording.machine.long);
        out.u32(recording.page_size);
        out.bytes.extend_from_slice(b"header_page\0");
        out.blob64(&recording.header_page);
        out.bytes.extend_from_slice(b"header_event\0");
        out.blob64(&recording.header_event);
        out.count("the list of ftrace formats", recording.ftrace_formats.len())?;
        recording.ftrace_formats.iter().for_each(|format| out.blob64(format));
        out.count("the list of systems", recording.event_formats.len())?;
        for system in &recording.event_formats {
            out.bytes.extend_from_slice(system.system.as_bytes());
            out.bytes.push(0);
            out.count("the list of events", system.formats.len())?;
            system.formats.iter().for_each(|format| out.blob64(format));
        }
        out.count("kallsyms", recording.kallsyms.len())?;
        let before = std::mem::take(&mut out.bytes);
        // Allocate for the large parts at once: a growing vector is temporarily in memory twice.
        let large = recording.saved_cmdlines.len() + recording.snapshot.as_ref().map_or(0, String::len);
        out.bytes.reserve(large + (1 << 16));
        out.blob32("printk_formats", &recording.printk_formats)?;
        out.blob64(&recording.saved_cmdlines);
        out.u32(cpus);
        out.options(&recording)?;
        out.bytes.extend_from_slice(b"flyrecord\0");
        let cpu_table = out.bytes.len();
        out.bytes.resize(cpu_table + cpus as usize * 16, 0);
        // Only the selected clock, in its brackets.
        let clock = recording.trace_clock.split_once('[').and_then(|(_, after)| after.split_once(']'));
        out.blob64(clock.map_or(String::from("[local]"), |(name, _)| format!("[{name}]")).as_bytes());
        let Recording { kallsyms: symbols, page_size, pages, .. } = recording;
        Ok((Head { before, symbols, after: out.bytes, cpu_table, cpus, endian, page_size }, pages))
    }

    /// Stores the head.
    ///
    /// # Errors If it cannot be written.
    pub fn keep(&self, to: &mut impl Write) -> io::Result<()> {
        for part in [&self.before, &self.symbols, &self.after] {
            to.write_all(part)?;
        }
        let cpu_table = self.before.len() + self.symbols.len() + self.cpu_table;
        to.write_all(&(cpu_table as u64).to_le_bytes())?;
        to.write_all(&self.cpus.to_le_bytes())?;
        to.write_all(&self.page_size.to_le_bytes())?;
        to.write_all(HEAD_END)
    }

    /// Reads a stored head; `None` if the bytes are incomplete.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Option<Head> {
        let at = bytes.len().checked_sub(HEAD_END.len() + 16)?;
        let (places, end) = bytes[at..].split_at(16);
        if end != HEAD_END || !bytes.starts_with(TRACE_DAT_MAGIC) {
            return None;
        }
        let cpu_table = usize::try_from(Endian::Little.u64_at(places, 0)?).ok()?;
        let (cpus, page_size) = (Endian::Little.u32_at(places, 8)?, Endian::Little.u32_at(places, 12)?);
        let endian = if bytes.get(TRACE_DAT_MAGIC.len() + 2) == Some(&1) { Endian::Big } else { Endian::Little };
        let table_end = (cpus as usize).checked_mul(16)?.checked_add(cpu_table)?;
        bytes.truncate(at);
        if table_end > at || page_size == 0 {
            return None;
        }
        let after = bytes.split_off(cpu_table);
        Some(Head { before: bytes, symbols: Vec::new(), after, cpu_table: 0, cpus, endian, page_size })
    }

    /// The number of CPUs of the machine.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The page size in bytes.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Writes head and pages to an empty file, called `path` in errors. Returns its length.
    ///
    /// # Errors If a system call fails, if pages are missing, or if there are pages of a CPU beyond the head's number
    /// of CPUs.
    pub fn write_into(
        &self,
        pages: &[CpuPages],
        target: &mut File,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, WriteError> {
        let io = |source| WriteError::Io { path: path.to_owned(), source };
        if let Some(beyond) = pages.iter().find(|pages| pages.cpu.0 >= self.cpus) {
            return Err(WriteError::NoSuchCpu { cpu: beyond.cpu, cpus: self.cpus });
        }
        let places = self.place(pages);
        let table_end = self.cpu_table + places.cpus.len() * 16;
        let mut table = Vec::with_capacity(places.cpus.len() * 16);
        for place in &places.cpus {
            table.extend(self.endian.bytes64(place.offset));
            table.extend(self.endian.bytes64(place.length));
        }
        for part in [&self.before, &self.symbols, &self.after[..self.cpu_table], &table, &self.after[table_end..]] {
            target.write_all(part).map_err(io)?;
        }
        let total = places.cpus.iter().map(|place| place.length).sum();
        let mut done = 0;
        for pages in pages {
            let place = &places.cpus[pages.cpu.index()];
            let copied = copy(&pages.file, target, *place, &mut |bytes| {
                done += bytes;
                progress(done, total);
            })
            .map_err(io)?;
            if copied < place.length {
                return Err(WriteError::PagesMissing { cpu: pages.cpu, missing: place.length - copied });
            }
        }
        target.set_len(places.end).map_err(io)?;
        Ok(places.end)
    }

    fn place(&self, pages: &[CpuPages]) -> Places {
        let align = |at: u64| at.next_multiple_of(u64::from(self.page_size.max(1)));
        let mut end = align((self.before.len() + self.symbols.len() + self.after.len()) as u64);
        let mut cpus = vec![Place::default(); self.cpus as usize];
        for pages in pages {
            cpus[pages.cpu.index()] = Place { offset: end, length: pages.length };
            end = align(end + pages.length);
        }
        Places { cpus, end }
    }
}

fn cpu_count(recording: &Recording) -> Result<u32, WriteError> {
    let mut cpus: Vec<CpuId> = recording.pages.iter().map(|pages| pages.cpu).collect();
    cpus.sort_unstable();
    match cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(WriteError::Twice { cpu: pair[0] }),
        None => Ok(cpus.last().map_or(0, |cpu| cpu.0 + 1).max(recording.cpu_count)),
    }
}

/// Encodes values in the recorded machine's byte order.
struct Out {
    endian: Endian,
    bytes: Vec<u8>,
}

impl Out {
    fn u32(&mut self, value: u32) {
        self.bytes.extend(self.endian.bytes32(value));
    }

    fn count(&mut self, table: &'static str, count: usize) -> Result<(), WriteError> {
        self.u32(u32::try_from(count).map_err(|_| WriteError::TooLong { table, length: count })?);
        Ok(())
    }

    fn blob64(&mut self, blob: &[u8]) {
        self.bytes.extend(self.endian.bytes64(blob.len() as u64));
        self.bytes.extend_from_slice(blob);
    }

    fn blob32(&mut self, table: &'static str, blob: &[u8]) -> Result<(), WriteError> {
        self.count(table, blob.len())?;
        self.bytes.extend_from_slice(blob);
        Ok(())
    }

    /// Text options end with a NUL, which trace-cmd relies on.
    fn text_option(&mut self, id: u16, table: &'static str, text: &str) -> Result<(), WriteError> {
        self.bytes.extend(self.endian.bytes16(id));
        self.count(table, text.len() + 1)?;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        Ok(())
    }

    fn options(&mut self, recording: &Recording) -> Result<(), WriteError> {
        self.bytes.extend_from_slice(b"options  \0");
        self.text_option(options::TRACECLOCK, "the clock", &recording.trace_clock)?;
        self.text_option(options::UNAME, "uname", &recording.uname)?;
        self.text_option(options::VERSION, "the version", concat!("unstarve ", env!("CARGO_PKG_VERSION")))?;
        for statistics in &recording.cpu_statistics {
            self.text_option(options::CPUSTAT, "a CPU's statistics", statistics)?;
        }
        if let Some(snapshot) = &recording.snapshot {
            self.text_option(options::SNAPSHOT, "the host snapshot", snapshot)?;
        }
        self.bytes.extend(self.endian.bytes16(options::DONE));
        Ok(())
    }
}
