//! The content of a trace.dat other than its events.

use unstarve_model::{Comm, Coverage, CpuId, Loss, LossKind, ProvedBy, SavedTask, Tid, Until};

use crate::decode::Decoder;
use crate::endian::Endian;
use crate::kbuffer::PageFormat;

use super::clock::{self, Clock};
use super::compression::Compression;
use super::cursor::Cursor;
use super::v7::Packing;
use super::{TraceDatError, options};

/// The content of a file other than its events.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) version: u8,
    pub(super) endian: Endian,
    pub(super) page_size: u32,
    pub(super) compression: Compression,
    pub(super) pages: PageFormat,
    pub(super) decoder: Decoder,
    /// Number of systems whose formats are in the file.
    pub(super) systems: u32,
    pub(super) kallsyms: Option<Kallsyms>,
    pub(super) tasks: Vec<SavedTask>,
    pub(super) clock_name: Option<String>,
    pub(super) clock: Clock,
    pub(super) cpus: Option<u32>,
    /// CPUs that recorded nothing, according to their statistics.
    pub(super) empty_cpus: Vec<u32>,
    pub(super) kernel_release: Option<String>,
    pub(super) host: Option<String>,
    /// Whether times are wall-clock times (`trace-cmd record --date`).
    pub(super) is_dated: bool,
    /// Whether times were shifted by hand (`--ts-offset`).
    pub(super) is_moved: bool,
    pub(super) snapshot: Option<String>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) is_latency: bool,
    pub(super) losses: Vec<Loss>,
    /// The coverage that the statistics of the CPUs' buffers prove.
    pub(super) coverage: Coverage,
}

/// Where the symbols are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kallsyms {
    /// Offset of the text's 32-bit length in version 6, of the section in version 7.
    pub(super) at: u64,
}

/// One ring buffer: the top-level one or that of an instance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Buffer {
    pub(super) name: String,
    /// `None` in version 6, where all buffers use the file's clock.
    pub(super) clock: Option<String>,
    /// Offset of its section (version 7) or tables (version 6).
    pub(super) at: u64,
    pub(super) page_size: u32,
    pub(super) is_packed: bool,
    pub(super) cpus: Vec<CpuData>,
}

/// Where the pages of one CPU are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CpuData {
    pub(super) cpu: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Limit of tasks kept. A machine cannot have more (`PID_MAX_LIMIT` is 2^22).
const MAX_TASKS: usize = 1 << 22;

impl Tables {
    pub(super) fn new(version: u8, endian: Endian, long: u8, page_size: u32, compression: Compression) -> Tables {
        Tables {
            version,
            endian,
            page_size,
            compression,
            pages: PageFormat::usual(endian, usize::from(long)),
            decoder: Decoder::new(endian),
            systems: 0,
            kallsyms: None,
            tasks: Vec::new(),
            clock_name: None,
            clock: Clock::default(),
            cpus: None,
            empty_cpus: Vec::new(),
            kernel_release: None,
            host: None,
            is_dated: false,
            is_moved: false,
            snapshot: None,
            buffers: Vec::new(),
            is_latency: false,
            losses: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    pub(super) fn packing(&self) -> Packing {
        Packing { endian: self.endian, compression: self.compression }
    }

    /// Notes damage that leaves something readable.
    pub(super) fn damaged(&mut self, error: &TraceDatError) {
        let kind = match error {
            TraceDatError::Truncated { .. } => LossKind::Truncated,
            _ => LossKind::Undecodable,
        };
        self.lose(Loss::new(kind, 1).with_detail(error.to_string()));
    }

    pub(super) fn undecodable(&mut self, detail: impl Into<String>) {
        self.lose(Loss::new(LossKind::Undecodable, 1).with_detail(detail));
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        /// A file of garbage must not fill the memory with losses.
        const MAX: usize = 10_000;
        if self.losses.len() < MAX {
            self.losses.push(loss);
        }
    }

    /// `header_page` and `header_event`.
    pub(super) fn read_headers(&mut self, cursor: &mut Cursor) -> Result<(), TraceDatError> {
        cursor.expect(b"header_page\0", "the section `header_page`")?;
        let page = cursor.blob64("the text of header_page")?;
        cursor.expect(b"header_event\0", "the section `header_event`")?;
        let event = cursor.blob64("the text of header_event")?;
        if String::from_utf8_lossy(&event).lines().any(|line| line.trim_start().starts_with("type ")) {
            return Err(TraceDatError::OldKernel);
        }
        match PageFormat::parse(self.endian, &String::from_utf8_lossy(&page)) {
            Ok(format) => self.pages = format,
            Err(error) => self.undecodable(format!("{error}; the usual layout is assumed")),
        }
        Ok(())
    }

    /// Skips the formats of ftrace's own events.
    pub(super) fn skip_ftrace_formats(&mut self, cursor: &mut Cursor) -> Result<(), TraceDatError> {
        for _ in 0..cursor.u32("the number of ftrace formats")? {
            let length = cursor.u64("the length of an ftrace format")?;
            cursor.skip(length, "an ftrace format")?;
        }
        Ok(())
    }

    /// Reads the event formats of each system.
    pub(super) fn read_event_formats(&mut self, cursor: &mut Cursor) -> Result<(), TraceDatError> {
        self.systems = cursor.u32("the number of event systems")?;
        for _ in 0..self.systems {
            let system = cursor.string("the name of an event system")?;
            for _ in 0..cursor.u32("the number of events of a system")? {
                let text = cursor.short_blob64("an event's format")?;
                let text = String::from_utf8_lossy(&text);
                if let Err(error) = self.decoder.add_format(&system, &text) {
                    self.undecodable(error.to_string());
                }
            }
        }
        Ok(())
    }

    /// The text of tracefs `saved_cmdlines`.
    pub(super) fn read_cmdlines(&mut self, cursor: &mut Cursor) -> Result<(), TraceDatError> {
        let text = cursor.blob64("the saved command lines")?;
        for line in text.split(|&byte| byte == b'\n').take(MAX_TASKS) {
            let Some(space) = memchr::memchr(b' ', line) else { continue };
            let (tid, comm) = (&line[..space], &line[space + 1..]);
            if let Some(tid) = std::str::from_utf8(tid).ok().and_then(|tid| tid.trim().parse().ok()) {
                self.tasks.push(SavedTask { tid: Tid(tid), comm: Comm::new(comm) });
            }
        }
        Ok(())
    }

    /// Reads an option that means the same in both versions. `BUFFER` and options that point to sections are handled by
    /// the caller.
    pub(super) fn read_option(&mut self, id: u16, data: &[u8]) {
        let text = || String::from_utf8_lossy(data).trim_end_matches('\0').to_owned();
        let add = |offset: Option<i64>, clock: &mut Clock| {
            clock.offset = clock.offset.saturating_add(offset.unwrap_or(0));
        };
        match id {
            // Microseconds, unlike OFFSET.
            options::DATE => {
                let offset = clock::number(&text()).map(|us| us.saturating_mul(1000));
                self.is_dated |= offset.is_some();
                add(offset, &mut self.clock);
            }
            options::OFFSET => {
                let offset = clock::number(&text());
                self.is_moved |= offset.is_some_and(|offset| offset != 0);
                add(offset, &mut self.clock);
            }
            options::TRACECLOCK => {
                self.clock_name = clock::chosen(&text()).map(str::to_owned).or(self.clock_name.take())
            }
            options::UNAME => {
                // `Linux node release machine`; a node name has no spaces.
                let text = text();
                let mut words = text.split_whitespace().skip(1).map(str::to_owned);
                // `(none)` is the name of a machine without a name.
                self.host = words.next().filter(|name| name != "(none)");
                self.kernel_release = words.next();
            }
            options::CPUCOUNT => self.cpus = self.endian.u32_at(data, 0).filter(|&cpus| cpus <= CpuId::LIMIT),
            options::CPUSTAT => self.read_cpu_statistics(&text()),
            options::TSC2NSEC => {
                let (multiplier, shift) = (self.endian.u32_at(data, 0), self.endian.u32_at(data, 4));
                self.clock.cycles = multiplier.zip(shift).filter(|&(multiplier, _)| multiplier != 0);
            }
            options::BUFFER_TEXT => self.is_latency = true,
            options::SNAPSHOT => self.snapshot = Some(text()),
            _ => {}
        }
    }

    /// tracefs `per_cpu/cpuN/stats`. Overwritten events (`overrun`) are also flagged in the pages. Events dropped
    /// because a buffer in no-overwrite mode was full are counted only here.
    fn read_cpu_statistics(&mut self, text: &str) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        let nothing = |key| value(key) == Some(0);
        if let Some(cpu) = value("CPU:").and_then(|cpu| u32::try_from(cpu).ok())
            && ["entries:", "overrun:", "bytes:", "read events:"].into_iter().all(nothing)
            && self.empty_cpus.len() < CpuId::LIMIT as usize
        {
            self.empty_cpus.push(cpu);
        }
        self.note_coverage(value("CPU:"), value("dropped events:"));
        if let Some(dropped) = value("dropped events:").filter(|&dropped| dropped > 0) {
            let cpu = value("CPU:").map_or(String::from("a CPU"), |cpu| format!("CPU {cpu}"));
            self.lose(
                Loss::new(LossKind::LostEvents, dropped)
                    .with_detail(format!("{cpu}, whose buffer was full and not to be overwritten; when is not known")),
            );
        }
    }

    /// Notes what the counters prove. Tracing stops on all CPUs at once, then the counters are read. A buffer in
    /// overwrite mode keeps its newest events. One in no-overwrite mode drops them when it is full, and counts them;
    /// without that counter nothing is proved.
    fn note_coverage(&mut self, cpu: Option<u64>, dropped: Option<u64>) {
        let Some(cpu) = cpu.and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId) else { return };
        match dropped {
            Some(0) => self.coverage.prove(cpu, Until::End, ProvedBy::BufferCounters),
            Some(_) => self.coverage.note_dropped(cpu),
            None => {}
        }
    }

    /// Checks a page size from the file.
    pub(super) fn checked_page_size(offset: u64, size: u32) -> Result<u32, TraceDatError> {
        // Sub-buffers have at least one page, and since 6.8 up to 2^10 pages.
        if (64..=64 << 20).contains(&size) {
            return Ok(size);
        }
        Err(TraceDatError::unexpected(offset, "a page size between 64 bytes and 64 MiB", size))
    }

    /// Checks a number of CPUs from the file.
    pub(super) fn checked_cpus(offset: u64, cpus: u32) -> Result<u32, TraceDatError> {
        if cpus <= CpuId::LIMIT {
            return Ok(cpus);
        }
        Err(TraceDatError::unexpected(offset, "at most 8192 CPUs", cpus))
    }
}
