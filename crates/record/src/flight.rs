//! Flight recorder: keeps the last seconds of events in ring buffers that nobody reads until a file of them is
//! requested.
//!
//! There are two instances. One records. When it is frozen the other takes over, and the first can be written to a file
//! without haste. The events of the waiting instance are disabled, so it costs nothing. Only one can be written at a
//! time.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unstarve_host::Root;
use unstarve_model::{ClockPair, CpuId, Tid};
use unstarve_readers::kbuffer::PageFormat;
use unstarve_readers::trace_dat_write::{CpuPages, Head};

use crate::cpus::{PriorityBoost, SetUpSpeed};
use crate::instance::{self, Instance, name_of};
use crate::limit_counters::{self, Look};
use crate::output::{Delivery, OutputDirectory, pages_of};
use crate::recording::raise_file_limit;
use crate::ring_buffer::{RingBuffer, empty_page, page_format};
use crate::set_up::{self, Ready, SetUp};
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;
use crate::{BufferSize, Events, Lost, Notice, RecordError, capture, clocks, cpus};

/// The two instances, of which one records at any time.
pub struct Flight {
    tracefs: Arc<TraceFs>,
    cpus: Vec<u32>,
    length: Duration,
    current: Roll,
    /// The other instance, unless it is being written.
    spare: Option<Roll>,
    state: Running,
    small: Option<Notice>,
}

/// One of the two instances.
pub struct Roll {
    instance: Instance,
    set_up: SetUp,
}

/// Whether the instance records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Running {
    On,
    Off,
}

/// A stopped instance with the events of the past, still in the kernel.
pub struct Frozen {
    roll: Roll,
    tracefs: Arc<TraceFs>,
    cpus: Vec<u32>,
    length: Duration,
    clocks: Option<ClockPair>,
    readings: Vec<Look>,
}

/// A written file.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its size in bytes.
    pub size: u64,
    /// Pages left out because they are older than the requested time.
    pub older_pages: u64,
    /// Where events were lost within the file's time.
    pub lost: Vec<Lost>,
}

impl Flight {
    /// Creates both instances without recording yet. `length` is how much of the past a file covers at most, `buffer`
    /// the size of each CPU's buffer in each instance.
    ///
    /// # Errors See [`RecordError`].
    pub fn prepare(
        length: Duration,
        buffer: BufferSize,
        notices: &mut dyn FnMut(Notice),
    ) -> Result<Flight, RecordError> {
        let boost = PriorityBoost::raise();
        let tracefs = Arc::new(TraceFs::open()?);
        instance::remove_leftovers(&tracefs);
        let cpus = cpus::online();
        raise_file_limit(cpus.len());
        let mut small = None;
        let mut notices = |notice: Notice| {
            if matches!(notice, Notice::Starved { .. }) {
                small = Some(notice.clone());
            }
            notices(notice);
        };
        let current = Roll::prepare(&tracefs, buffer, &cpus, &mut notices)?;
        let spare = Roll::prepare(&tracefs, buffer, &cpus, &mut notices)?;
        drop(boost);
        Ok(Flight { tracefs, cpus, length, current, spare: Some(spare), state: Running::Off, small })
    }

    /// Why some buffers are smaller than requested, so that a file may cover less of the past; `None` if none is.
    pub fn small(&self) -> Option<&Notice> {
        self.small.as_ref()
    }

    /// Starts recording.
    ///
    /// # Errors If a tracefs file cannot be written.
    pub fn run(&mut self) -> Result<(), RecordError> {
        if self.state == Running::Off {
            self.current.run()?;
            self.state = Running::On;
        }
        Ok(())
    }

    /// Stops recording. The recorded events stay until they are overwritten.
    ///
    /// # Errors If a tracefs file cannot be written.
    pub fn rest(&mut self) -> Result<(), RecordError> {
        if self.state == Running::On {
            self.current.rest()?;
            self.state = Running::Off;
        }
        Ok(())
    }

    /// Whether it is recording.
    pub fn is_running(&self) -> bool {
        self.state == Running::On
    }

    /// Stops the recording instance, returns it, and continues with the other one. Returns `None` while the other one
    /// is still being written ([`Flight::take_back`]).
    ///
    /// # Errors If a tracefs file cannot be written; the instance then continues to record.
    pub fn freeze(&mut self) -> Result<Option<Frozen>, RecordError> {
        let Some(mut next) = self.spare.take() else { return Ok(None) };
        if self.state == Running::On
            && let Err(error) = next.run()
        {
            let _ = next.rest();
            self.spare = Some(next);
            return Err(error);
        }
        std::mem::swap(&mut self.current, &mut next);
        let clocks = clocks::now(&next.instance, &next.set_up.clock, &self.cpus);
        if let Err(error) = next.instance.set("tracing_on", "0") {
            self.spare = Some(next);
            return Err(error);
        }
        // A CPU that comes online gets a buffer from the kernel; one that goes offline keeps its events.
        self.cpus = cpus::union_of(&self.cpus, &cpus::online());
        let (tracefs, cpus) = (Arc::clone(&self.tracefs), self.cpus.clone());
        Ok(Some(Frozen { roll: next, tracefs, cpus, length: self.length, clocks, readings: Vec::new() }))
    }

    /// Takes back the instance of a frozen recording. Returns an instance of another recorder, which may have other
    /// buffers.
    #[must_use = "what is not taken is removed when it is dropped, which takes its time"]
    pub fn take_back(&mut self, roll: Roll) -> Option<Roll> {
        match roll.instance.is_of(&self.tracefs) {
            true => self.spare.replace(roll),
            false => Some(roll),
        }
    }
}

impl Roll {
    fn prepare(
        tracefs: &Arc<TraceFs>,
        buffer: BufferSize,
        cpus: &[u32],
        notices: &mut dyn FnMut(Notice),
    ) -> Result<Roll, RecordError> {
        let Ready { instance, set_up, away } =
            set_up::prepare(tracefs, Events::Usual, buffer, cpus, SetUpSpeed::Thorough, notices)?;
        drop(away);
        let roll = Roll { instance, set_up };
        roll.disable()?;
        Ok(roll)
    }

    /// Enables the events first: `tracing_on`, set last, then starts all of them at once.
    fn run(&mut self) -> Result<(), RecordError> {
        for &event in &self.set_up.events {
            self.instance.enable(name_of(event))?;
        }
        self.instance.set("tracing_on", "1")
    }

    fn rest(&mut self) -> Result<(), RecordError> {
        self.instance.set("tracing_on", "0")?;
        self.disable()
    }

    fn disable(&self) -> Result<(), RecordError> {
        self.instance.set("events/enable", "0")
    }
}

impl Frozen {
    /// The trace clock and the wall clock at the moment of freezing, if the trace clock can be read.
    pub fn clocks(&self) -> Option<ClockPair> {
        self.clocks
    }

    /// Adds counter readings from before and during the recording, oldest first. The snapshot will contain how much the
    /// counters grew.
    pub fn note_limits(&mut self, readings: Vec<Look>) {
        self.readings = readings;
    }

    /// Writes a `trace.dat` with a host snapshot, and returns the empty instance for [`Flight::take_back`]. On failure
    /// the events are lost. The file is not synced to disk: the instance must not wait for that, so the caller syncs
    /// it.
    pub fn save(self, output: &Path) -> (Result<Saved, RecordError>, Roll) {
        let saved = self.write(output);
        // Disabled only now: each of these waits for other CPUs, and the file does not need it.
        let _ = self.roll.disable();
        let emptied = self.drop_everything();
        (saved.and_then(|saved| emptied.map(|()| saved)), self.roll)
    }

    /// Discards the events and returns the empty instance.
    pub fn discard(self) -> Roll {
        let _ = self.roll.disable();
        let _ = self.drop_everything();
        self.roll
    }

    fn write(&self, output: &Path) -> Result<Saved, RecordError> {
        let Roll { instance, set_up } = &self.roll;
        let output_dir = OutputDirectory::beside(output)?;
        let mut snapshot = unstarve_host::take(&Root::host());
        snapshot.clock_pairs.extend(self.clocks);
        snapshot.recorder = Some(Tid(std::process::id()));
        let (pages, older_pages, begin) = self.pages(&output_dir, output)?;
        limit_counters::note(&mut snapshot, &self.readings, self.clocks.zip(begin));
        let statistics: Vec<CpuStats> = self.cpus.iter().filter_map(|&cpu| CpuStats::read(instance, cpu)).collect();
        let recording = capture::gather(&self.tracefs, instance, &self.cpus, set_up, &statistics, &snapshot, None)?;
        let (head, _) = Head::of(recording).map_err(RecordError::Write)?;
        drop(snapshot);
        let size = output_dir.deliver(&head, &pages, Delivery::Named, &mut |_, _| {})?;
        let lost = statistics.iter().filter(|cpu| cpu.dropped > 0);
        let lost = lost.map(|cpu| Lost { cpu: CpuId(cpu.cpu), count: cpu.dropped }).collect();
        Ok(Saved { size, older_pages, lost })
    }

    /// Writes the recent pages of all CPUs to files. Also returns how many pages were left out, and the start of the
    /// first one.
    fn pages(
        &self,
        output_dir: &OutputDirectory,
        output: &Path,
    ) -> Result<(Vec<CpuPages>, u64, Option<u64>), RecordError> {
        let format = page_format(&self.tracefs, "cannot read ring buffers")?;
        let ring = |&cpu: &u32| self.ring(cpu, &format, output_dir, output);
        let rings: Vec<Ring> = self.cpus.iter().map(ring).collect::<Result<_, _>>()?;
        let oldest = self.oldest(&rings);
        let (mut pages, mut older, mut begin) = (Vec::with_capacity(rings.len()), 0, None);
        for ring in rings {
            let (cpu, left_out) = (ring.cpu, ring.older_than(oldest));
            // A page that begins earlier is kept for the later part of its events.
            let first = ring.times.get(left_out).map(|first| (*first).max(oldest));
            begin = begin.into_iter().chain(first).min();
            let file = output_dir.hidden().create(&pages_of(cpu)).map_err(RecordError::output(output))?;
            let (file, length) = ring.rest(left_out, file, &format).map_err(RecordError::output(output))?;
            older += left_out as u64;
            pages.push(CpuPages { cpu: CpuId(cpu), file, length });
        }
        Ok((pages, older, begin))
    }

    /// The time from which on all CPUs have their events. Where a busy CPU has overwritten events, the other CPUs'
    /// events do not help either.
    fn oldest(&self, rings: &[Ring]) -> u64 {
        let asked = self.clocks.map(|now| now.trace.0.saturating_sub(self.length.as_nanos() as u64));
        let overwritten = rings.iter().filter_map(|ring| ring.times.get(ring.hole?).copied());
        asked.into_iter().chain(overwritten).max().unwrap_or(0)
    }

    /// Copies one CPU's buffer to a file, as it may be too much for memory on a large machine.
    fn ring(
        &self,
        cpu: u32,
        format: &PageFormat,
        output_dir: &OutputDirectory,
        output: &Path,
    ) -> Result<Ring, RecordError> {
        // Files of whole buffers use numbers above those of CPUs.
        let file =
            output_dir.hidden().create(&pages_of(cpu + WHOLE_BUFFER_NUMBER)).map_err(RecordError::output(output))?;
        let mut out = BufWriter::with_capacity(256 << 10, file);
        let (mut times, mut hole, mut written) = (Vec::new(), None, Ok(()));
        self.each_page(cpu, |page| {
            let Ok(cursor) = format.begin(page) else { return };
            if cursor.missed().is_some() {
                hole = Some(times.len());
            }
            times.push(cursor.time());
            if written.is_ok() {
                written = out.write_all(page);
            }
        })?;
        let file = written.and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
        Ok(Ring { cpu, file: file.map_err(RecordError::output(output))?, times, hole })
    }

    /// Reads whole pages until the buffer is empty; the last one is padded.
    fn each_page(&self, cpu: u32, mut take: impl FnMut(&[u8])) -> Result<(), RecordError> {
        let buffer = RingBuffer::open(&self.roll.instance, cpu)?;
        let mut page = empty_page();
        while buffer.read_page(&mut page).map_err(RecordError::system("cannot read ring buffers"))? {
            take(&page);
        }
        Ok(())
    }

    /// Empties the buffers. If writing stopped early, the rest would end up in the next file.
    fn drop_everything(&self) -> Result<(), RecordError> {
        self.cpus.iter().try_for_each(|&cpu| self.each_page(cpu, |_| {}))
    }
}

/// Added to a CPU's number to name the file of its whole buffer.
const WHOLE_BUFFER_NUMBER: u32 = 1 << 24;

/// The content of one CPU's buffer.
struct Ring {
    cpu: u32,
    /// Whole pages, in order.
    file: File,
    /// The start time of each page.
    times: Vec<u64>,
    /// The last page with missing events before it. Often it is the second page: the page the reader had reached when
    /// the buffer was last read to its end is filled first when recording resumes, and is never overwritten. So it is
    /// that old, and events before a hole do not belong to those after it.
    hole: Option<usize>,
}

impl Ring {
    /// How many pages end before `oldest` or are before the hole. A page ends where the next one begins; the last page
    /// may reach up to now.
    fn older_than(&self, oldest: u64) -> usize {
        let ended = self.times.iter().skip(1).take_while(|begin| **begin <= oldest).count();
        ended.max(self.hole.unwrap_or(0))
    }

    /// Copies the pages after the first `left_out` to an empty file; returns it and its length.
    fn rest(mut self, left_out: usize, mut to: File, format: &PageFormat) -> io::Result<(File, u64)> {
        let page = rustix::param::page_size();
        let length = (self.times.len() - left_out) * page;
        if length == 0 {
            return Ok((to, 0));
        }
        self.file.seek(SeekFrom::Start((left_out * page) as u64))?;
        let mut first = vec![0; page];
        self.file.read_exact(&mut first)?;
        format.make_first(&mut first);
        to.write_all(&first)?;
        io::copy(&mut self.file, &mut to)?;
        // Not needed any more: frees half the disk space.
        self.file.set_len(0)?;
        Ok((to, length as u64))
    }
}

#[cfg(test)]
mod tests {
    use unstarve_readers::Endian;

    use super::*;

    fn ring(times: &[u64]) -> Ring {
        let mut file = tempfile::tempfile().expect("a file");
        for time in times {
            let mut bytes = vec![0; rustix::param::page_size()];
            bytes[..8].copy_from_slice(&Endian::HOST.bytes64(*time));
            bytes[8..16].copy_from_slice(&Endian::HOST.bytes64(1 << 31));
            file.write_all(&bytes).expect("written");
        }
        Ring { cpu: 0, file, times: times.to_vec(), hole: Some(0) }
    }

    #[test]
    fn pages_that_ended_before_are_left_out_and_the_first_says_nothing_is_missing() {
        let format = PageFormat::usual(Endian::HOST, 8);
        let page = rustix::param::page_size();
        let whole = ring(&[10, 20, 30, 40]);
        assert_eq!(whole.older_than(30), 2, "the second ended at 30");
        assert_eq!(whole.older_than(1_000), 3, "the last page may be of now");
        assert_eq!((ring(&[]).older_than(30), ring(&[50]).older_than(30)), (0, 0));
        let stale = Ring { hole: Some(1), ..ring(&[1, 30, 40]) };
        assert_eq!(stale.older_than(2), 1, "what was left of the time before, whatever the seconds asked for");
        let (mut kept, length) = whole.rest(2, tempfile::tempfile().expect("a file"), &format).expect("copied");
        assert_eq!(length, 2 * page as u64);
        let mut bytes = Vec::new();
        kept.seek(SeekFrom::Start(0)).and_then(|_| kept.read_to_end(&mut bytes)).expect("read");
        let begin = |at: usize| format.begin(&bytes[at * page..][..page]).expect("a page");
        assert_eq!((begin(0).time(), begin(1).time(), bytes.len()), (30, 40, 2 * page));
        assert!(begin(0).missed().is_none() && begin(1).missed().is_some(), "only the first page is the beginning");
    }
}
