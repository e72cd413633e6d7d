//! What the scheduler does now, event by event, with no file: pages are read from the ring buffers and decoded at once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use unstarve_facts::Snapshot;
use unstarve_host::Root;
use unstarve_model::{Batch, Comm, Context, CpuId, Event, EventKind, EventSet, Issuer, SavedTask, Time, TraceInfo};
use unstarve_readers::kbuffer::{Missed, PageFormat};
use unstarve_readers::symbols::Symbols;
use unstarve_readers::{Decoder, Endian, Interner};

use crate::cpus::{self, Away, Hurry, Patience};
use crate::instance::{self, Instance};
use crate::recording::raise_file_limit;
use crate::set_up::{Ready, SetUp, prepare};
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;
use crate::{BlockEvents, BufferSize, Notice, RecordError};

/// Pages of one CPU that one [`Live::poll`] reads at most, so that a very busy CPU does not hold the others up for ever.
const PAGES: usize = 4096;

/// The kernel takes an event's time a little before the event can be read.
const SETTLED_NS: u64 = 1_000_000;

/// A recording of this machine that is read while it goes on. Its tracefs instance is removed on drop.
pub struct Live {
    cpus: Vec<(CpuId, File)>,
    page: Vec<u8>,
    format: PageFormat,
    decoder: Decoder,
    names: Interner,
    clock: String,
    /// Read, but not yet given: another CPU may still have something earlier.
    held: Vec<Event>,
    /// The latest event of the poll before.
    before: Time,
    info: TraceInfo,
    /// Dropped after the files of its buffers, which would keep it from being removed.
    instance: Instance,
    /// Of the thread that began to record.
    _away: Option<Away>,
}

impl Live {
    /// Begins to record.
    ///
    /// # Errors
    /// As a recording's, see [`RecordError`].
    pub fn start(buffer: BufferSize, notices: &mut dyn FnMut(Notice)) -> Result<Live, RecordError> {
        let hurry = Hurry::up();
        let tracefs = Arc::new(TraceFs::open()?);
        instance::remove_leftovers(&tracefs);
        let cpus = cpus::online();
        raise_file_limit(cpus.len());
        let Ready { instance, set_up, away } =
            prepare(&tracefs, BlockEvents::Off, buffer, &cpus, Patience::Hurried, notices)?;
        let header = crate::capture::header(&tracefs, "events/header_page")?;
        let format = PageFormat::parse(Endian::HOST, &String::from_utf8_lossy(&header))
            .map_err(|error| RecordError::system("cannot read ring buffers")(io::Error::other(error)))?;
        let open = |&cpu: &u32| open(&instance, cpu).map(|file| (CpuId(cpu), file));
        let opened = cpus.iter().map(open).collect::<Result<_, _>>()?;
        instance.set("tracing_on", "1")?;
        drop(hurry);
        let snapshot = unstarve_host::take(&Root::host());
        let mut names = Interner::new();
        names.set_symbols(Symbols::lazily(Box::new(|| std::fs::read("/proc/kallsyms").ok())));
        Ok(Live {
            cpus: opened,
            page: vec![0; rustix::param::page_size()],
            format,
            decoder: decoder(&instance, &set_up)?,
            names,
            clock: set_up.clock.clone(),
            held: Vec::new(),
            before: Time(0),
            info: info(&snapshot, &set_up),
            instance,
            _away: away,
        })
    }

    /// What is known of the machine, with its snapshot.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Fills `batch` (cleared first) with what happened since the last call, in order. What came so late that another CPU
    /// may still have something earlier comes with the next call.
    ///
    /// # Errors
    /// If the buffers cannot be read.
    pub fn poll(&mut self, batch: &mut Batch) -> Result<(), RecordError> {
        batch.clear();
        let safe = self.safe_until();
        for index in 0..self.cpus.len() {
            self.read_cpu(index).map_err(RecordError::system("cannot read ring buffers"))?;
        }
        self.before = self.held.iter().map(|event| event.time).max().unwrap_or(self.before);
        // Stable: what one CPU did stays in its order.
        self.held.sort_by_key(|event| event.time);
        let safe = self.held.partition_point(|event| event.time <= safe);
        batch.events.extend(self.held.drain(..safe));
        self.names.take_new(&mut batch.names);
        Ok(())
    }

    /// Everything up to here is in the buffers once they are read: by the clock of the events where it can be asked, else
    /// by what the poll before saw.
    fn safe_until(&self) -> Time {
        match self.clock.as_str() {
            "mono" => {
                let now = clock_gettime(ClockId::Monotonic);
                let now = (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64);
                Time(now.saturating_sub(SETTLED_NS))
            }
            _ => self.before,
        }
    }

    fn read_cpu(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..PAGES {
            match rustix::io::read(&self.cpus[index].1, self.page.as_mut_slice()) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(length) => self.decode(self.cpus[index].0, length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn decode(&mut self, cpu: CpuId, length: usize) {
        let Live { page, format, decoder, names, held, .. } = self;
        // Behind what is used of the page is what was there before.
        page[length..].fill(0);
        let Ok(mut cursor) = format.begin(page) else { return };
        let mut missed = cursor.missed();
        while let Some(Ok((time, data))) = format.next(page, &mut cursor) {
            let time = Time(time);
            if let Some(missed) = missed.take() {
                let count = match missed {
                    Missed::Count(count) => Some(count),
                    Missed::Uncounted => None,
                };
                let kind = EventKind::Lost { count };
                held.push(Event { time, cpu, issuer: Issuer::new(None, Context::Unknown), kind });
            }
            // A record that cannot be decoded is of a type that was not asked for.
            let _ = decoder.decode(time, cpu, &page[data], names, |event| held.push(event));
        }
    }

    /// Events that the kernel has lost so far because nobody fetched them in time.
    pub fn lost(&self) -> u64 {
        let stats = self.cpus.iter().filter_map(|(cpu, _)| CpuStats::read(&self.instance, cpu.0));
        stats.map(|stats| stats.lost).sum()
    }
}

fn open(instance: &Instance, cpu: u32) -> Result<File, RecordError> {
    let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(instance.path(&name))
        .map_err(|source| instance.error(&name, source))
}

fn decoder(instance: &Instance, set_up: &SetUp) -> Result<Decoder, RecordError> {
    let mut decoder = Decoder::new(Endian::HOST);
    for event in &set_up.events {
        let format = instance.text(&format!("events/{}/{}/format", event.system(), event.name()))?;
        decoder
            .add_format(event.system(), &format)
            .map_err(|error| RecordError::system("cannot read an event's format")(io::Error::other(error)))?;
    }
    Ok(decoder)
}

fn info(snapshot: &Snapshot, set_up: &SetUp) -> TraceInfo {
    let cpus = snapshot.cpus.possible.as_ref().or(snapshot.cpus.online.as_ref());
    let name = |comm: &str| Comm::from(crate::capture::traced_name(comm));
    TraceInfo {
        format: "live".into(),
        clock: Some(set_up.clock.clone()),
        cpus: cpus.and_then(|cpus| cpus.iter().last()).map(|last| last.0 + 1),
        cpus_recorded: None,
        recorded: Some(set_up.events.iter().copied().collect::<EventSet>()),
        tasks: snapshot.tasks.iter().map(|task| SavedTask { tid: task.tid, comm: name(&task.comm) }).collect(),
        snapshot: Some(snapshot.to_json()),
        kernel_release: snapshot.kernel_release().map(str::to_owned),
        host: snapshot.host.clone(),
        clocks: snapshot.clock_pairs.clone(),
        ..TraceInfo::default()
    }
}
