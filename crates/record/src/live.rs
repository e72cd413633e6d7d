//! Live scheduler events without a file: ring buffer pages are read and decoded at once.

use std::io;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use unstarve_facts::Snapshot;
use unstarve_host::Root;
use unstarve_model::{Batch, Comm, Context, CpuId, Event, EventKind, EventSet, Issuer, SavedTask, Time, TraceInfo};
use unstarve_readers::kbuffer::{Missed, PageFormat};
use unstarve_readers::symbols::Symbols;
use unstarve_readers::{Decoder, Endian, Interner};

use crate::cpus::{self, CpuAvoidance, PriorityBoost, SetUpSpeed};
use crate::instance::{self, Instance};
use crate::recording::raise_file_limit;
use crate::ring_buffer::{RingBuffer, empty_page, page_format};
use crate::set_up::{Ready, SetUp, prepare};
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;
use crate::{BufferSize, Events, Notice, RecordError};

/// How many pages of one CPU a single [`Live::poll`] reads at most, so that a very busy CPU does not hold up the
/// others.
const MAX_PAGES_PER_POLL: usize = 4096;

/// How old an event must be to be readable: the kernel takes its timestamp slightly before it is in the buffer.
const SETTLED_NS: u64 = 1_000_000;

/// A live recording of this machine. Its tracefs instance is removed on drop.
pub struct Live {
    cpus: Vec<(CpuId, RingBuffer)>,
    page: Vec<u8>,
    format: PageFormat,
    decoder: Decoder,
    names: Interner,
    clock: String,
    /// Events that were read but not returned yet: another CPU may still have earlier ones.
    held: Vec<Event>,
    /// The latest event of the previous poll.
    before: Time,
    info: TraceInfo,
    /// Dropped after the buffer files, which would prevent its removal.
    instance: Instance,
    /// Affinity of the thread that started the recording.
    _avoidance: Option<CpuAvoidance>,
}

impl Live {
    /// Starts recording.
    ///
    /// # Errors See [`RecordError`].
    pub fn start(buffer: BufferSize, notices: &mut dyn FnMut(Notice)) -> Result<Live, RecordError> {
        let boost = PriorityBoost::raise();
        let tracefs = Arc::new(TraceFs::open()?);
        instance::remove_leftovers(&tracefs);
        let cpus = cpus::online();
        raise_file_limit(cpus.len());
        let Ready { instance, set_up, away } =
            prepare(&tracefs, Events::Usual, buffer, &cpus, SetUpSpeed::Fast, notices)?;
        let format = page_format(&tracefs, "cannot read ring buffers")?;
        let open = |&cpu: &u32| RingBuffer::open(&instance, cpu).map(|buffer| (CpuId(cpu), buffer));
        let opened = cpus.iter().map(open).collect::<Result<_, _>>()?;
        instance.set("tracing_on", "1")?;
        drop(boost);
        let snapshot = unstarve_host::take(&Root::host());
        let mut names = Interner::new();
        names.set_symbols(Symbols::lazily(Box::new(|| std::fs::read("/proc/kallsyms").ok())));
        Ok(Live {
            cpus: opened,
            page: empty_page(),
            format,
            decoder: decoder(&instance, &set_up)?,
            names,
            clock: set_up.clock.clone(),
            held: Vec::new(),
            before: Time(0),
            info: info(&snapshot, &set_up),
            instance,
            _avoidance: away,
        })
    }

    /// Facts about the machine, with its snapshot.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Clears `batch` and fills it with the events since the last call, in time order. Events so recent that another
    /// CPU may still have an earlier one come with the next call.
    ///
    /// # Errors If the buffers cannot be read.
    pub fn poll(&mut self, batch: &mut Batch) -> Result<(), RecordError> {
        batch.clear();
        let safe = self.safe_until();
        for index in 0..self.cpus.len() {
            self.read_cpu(index).map_err(RecordError::system("cannot read ring buffers"))?;
        }
        self.before = self.held.iter().map(|event| event.time).max().unwrap_or(self.before);
        // A stable sort keeps the order of each CPU's events.
        self.held.sort_by_key(|event| event.time);
        let safe = self.held.partition_point(|event| event.time <= safe);
        batch.events.extend(self.held.drain(..safe));
        self.names.take_new(&mut batch.names);
        Ok(())
    }

    /// The time up to which all events are in the buffers once they have been read: from the events' clock if it can be
    /// read, otherwise from the previous poll.
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
        for _ in 0..MAX_PAGES_PER_POLL {
            if !self.cpus[index].1.read_page(&mut self.page)? {
                break;
            }
            self.decode(self.cpus[index].0);
        }
        Ok(())
    }

    fn decode(&mut self, cpu: CpuId) {
        let Live { page, format, decoder, names, held, .. } = self;
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
            // A record that cannot be decoded is of a type that was not requested.
            let _ = decoder.decode(time, cpu, &page[data], names, |event| held.push(event));
        }
    }

    /// Events lost so far because the buffers were not read in time.
    pub fn lost(&self) -> u64 {
        let stats = self.cpus.iter().filter_map(|(cpu, _)| CpuStats::read(&self.instance, cpu.0));
        stats.map(|stats| stats.lost).sum()
    }
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
