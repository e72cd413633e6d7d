//! Reader of Perfetto traces: ftrace events in protobuf.
//!
//! Packets are read one at a time. A packet of events holds those of one CPU. Packets of several CPUs overlap in time
//! by up to the interval at which Perfetto reads the kernel's buffers, so events wait in a window of fixed size.

mod bundle;
mod clocks;
pub mod ftrace_proto;
#[doc(hidden)]
pub mod messages;
mod packets;
mod proto;
mod turns;

use std::collections::BTreeMap;
use std::io::{self, Read};

use prost::Message;
use prost::bytes::Bytes;
use rustc_hash::FxHashMap;
use thiserror::Error;
use unstarve_model::{
    Batch, Comm, CpuId, Event, EventSet, EventSource, EventType, Loss, LossKind, ProvedBy, SourceError, Tid, TraceInfo,
    Until,
};

use self::bundle::{Bundles, KernelSymbols};
use self::clocks::Clocks;
use self::packets::{Next, Packets, begun_field};
use self::proto::{FtraceStats, InternedData, ProcessTree, SystemInfo, TraceConfig, TracePacket};
use self::turns::Turns;
use crate::reorder::Reorder;

pub use self::packets::recognises;

/// Reordering window. Perfetto reads the kernel's buffers every quarter of a second by default, so this suffices for
/// two million events a second.
const REORDER_WINDOW: usize = 1 << 19;

/// Limits for hostile files: this many bytes may be unpacked from compressed packets, plus so many for each compressed
/// byte. Scheduler events compress about tenfold. (`crate::unpack` limits one stream; here there may be thousands.)
const UNPACKED_FREE: u64 = 64 << 20;
const UNPACKED_RATIO: u64 = 100;

/// The fields of [`TracePacket`] that hold compressed packets.
const ZLIB_FIELD: u32 = 50;
const ZSTD_FIELD: u32 = 133;

/// Limits against hostile files: there is one sequence per writing thread, and one symbol per function.
const MAX_SEQUENCES: usize = 1 << 12;
const MAX_SYMBOLS: usize = 1 << 16;

/// Why a trace cannot be read at all. Damage further on ends the stream and is reported as a loss.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PerfettoError {
    /// A system call failed.
    #[error("byte {offset}: cannot read further")]
    Read {
        /// Where.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// There are packets, but none has kernel events.
    #[error(
        "no ftrace events in {packets} packets; record with the data source linux.ftrace and \
         ftrace_events: \"sched/sched_switch\", \"sched/sched_waking\""
    )]
    NoEvents {
        /// The number of packets.
        packets: u64,
    },
}

/// Reads Perfetto traces.
pub struct Perfetto {
    packets: Packets<Box<dyn Read + Send>>,
    /// Packets inside a compressed packet.
    inner: Option<Inner>,
    /// Bytes of compressed packets so far, and bytes unpacked from them.
    packed: u64,
    unpacked: u64,
    info: TraceInfo,
    bundles: Bundles,
    reorder: Reorder,
    scratch: Vec<Event>,
    sequences: FxHashMap<u32, KernelSymbols>,
    symbols: usize,
    configured: EventSet,
    seen: EventSet,
    /// Events overwritten per CPU, as counted at the start and at the end of the trace.
    overruns: BTreeMap<CpuId, (u64, u64)>,
    /// Events dropped per CPU because its buffer was full, as counted at the start and at the end.
    dropped: BTreeMap<CpuId, (u64, u64)>,
    turns: Turns,
    /// Packets were dropped before they reached the file.
    packets_dropped: bool,
    count: u64,
    bundle_count: u64,
    passed: u64,
    truncated: Option<String>,
    /// Some events could not be converted to boot time, so clock snapshots do not apply to them.
    on_another_clock: bool,
    at_end: bool,
}

/// Packets inside a compressed packet, of which at most `room` bytes are unpacked.
struct Inner {
    packets: Packets<Box<dyn Read + Send>>,
    room: u64,
}

impl Perfetto {
    /// A reader of `input` from its first packet on.
    pub fn new(input: Box<dyn Read + Send>) -> Perfetto {
        Perfetto {
            packets: Packets::new(input),
            inner: None,
            packed: 0,
            unpacked: 0,
            info: TraceInfo { format: "Perfetto".into(), ..TraceInfo::default() },
            bundles: Bundles::new(),
            reorder: Reorder::new(REORDER_WINDOW),
            scratch: Vec::new(),
            sequences: FxHashMap::default(),
            symbols: 0,
            configured: EventSet::default(),
            seen: EventSet::default(),
            overruns: BTreeMap::new(),
            dropped: BTreeMap::new(),
            turns: Turns::default(),
            packets_dropped: false,
            count: 0,
            bundle_count: 0,
            passed: 0,
            truncated: None,
            on_another_clock: false,
            at_end: false,
        }
    }

    fn step(&mut self) -> Result<(), PerfettoError> {
        if let Some(inner) = &mut self.inner {
            match inner.packets.next() {
                Ok(Next::Packet(packet)) => self.packet(packet),
                Ok(Next::Passed) => self.passed += 1,
                Ok(Next::End) => self.end_inner(true),
                // The packets after a damaged compressed packet are intact.
                Ok(Next::Truncated { .. } | Next::Begun { .. }) | Err(_) => self.end_inner(false),
            }
            return Ok(());
        }
        if self.truncated.is_some() {
            return self.finish();
        }
        let offset = self.packets.offset();
        match self.packets.next() {
            Ok(Next::Packet(packet)) => self.packet(packet),
            Ok(Next::Passed) => self.passed += 1,
            Ok(Next::End) => return self.finish(),
            Ok(Next::Truncated { offset, cut }) => {
                let what = if cut { "within the packet at" } else { "there is no packet at" };
                self.truncated = Some(format!("{what} byte {offset}"));
            }
            // Nothing could be read at all.
            Ok(Next::Begun { bytes, why: Some(source), .. }) if bytes.is_empty() && self.is_at_first() => {
                return Err(PerfettoError::Read { offset, source });
            }
            Ok(Next::Begun { offset, bytes, why }) => {
                let why = why.map(|error| format!(": {error}")).unwrap_or_default();
                self.truncated = Some(format!("within the packet at byte {offset}{why}"));
                if let Some((number, packed)) = begun_field(&bytes, &[ZLIB_FIELD, ZSTD_FIELD]) {
                    self.unpack(number, bytes.slice_ref(packed));
                }
            }
            // The compressed file is truncated: keep what came before.
            Err(source) if !self.is_at_first() => self.truncated = Some(format!("at byte {offset}: {source}")),
            Err(source) => return Err(PerfettoError::Read { offset, source }),
        }
        Ok(())
    }

    fn is_at_first(&self) -> bool {
        self.count == 0 && self.passed == 0
    }

    /// Continues with the packets inside this compressed packet.
    fn unpack(&mut self, number: u32, packed: Bytes) {
        self.packed += packed.len() as u64;
        let room = (UNPACKED_FREE + UNPACKED_RATIO * self.packed).saturating_sub(self.unpacked);
        let packed = io::Cursor::new(packed);
        let unpacked: io::Result<Box<dyn Read + Send>> = match number {
            ZLIB_FIELD => Ok(Box::new(flate2::read::ZlibDecoder::new(packed))),
            _ => zstd(packed).map(|unpacked| Box::new(unpacked) as _),
        };
        match unpacked {
            Ok(unpacked) => {
                self.inner = Some(Inner { packets: Packets::unpacked(Box::new(unpacked.take(room))), room })
            }
            Err(_) => self.bundles.undecodable += 1,
        }
    }

    /// Leaves a compressed packet, at its end or where it is damaged.
    fn end_inner(&mut self, at_end: bool) {
        let Some(inner) = self.inner.take() else { return };
        let used = inner.packets.offset();
        self.unpacked += used;
        let is_whole = at_end && used < inner.room;
        // Damage at the end of the file is reported as truncation instead.
        self.bundles.undecodable += u64::from(!is_whole && self.truncated.is_none());
    }

    fn packet(&mut self, data: Bytes) {
        self.count += 1;
        let Ok(packet) = TracePacket::decode(data) else { return self.bundles.undecodable += 1 };
        let compressed = packet.compressed_packets.as_ref().or(packet.zstd_compressed_packets.as_ref());
        if compressed.is_some() && self.inner.is_some() {
            // Perfetto never nests compressed packets.
            return self.bundles.undecodable += 1;
        }
        if let Some(compressed) = packet.compressed_packets {
            self.unpack(ZLIB_FIELD, compressed);
        } else if let Some(compressed) = packet.zstd_compressed_packets {
            self.unpack(ZSTD_FIELD, compressed);
        } else if packet.machine_id.unwrap_or(0) == 0 {
            self.tables(&packet);
            if let Some(bundle) = packet.ftrace_events {
                self.bundle(&bundle, packet.trusted_packet_sequence_id.unwrap_or(0), packet.previous_packet_dropped);
            }
        }
    }

    /// Reads everything in a packet except events.
    fn tables(&mut self, packet: &TracePacket) {
        let sequence = packet.trusted_packet_sequence_id.unwrap_or(0);
        let cleared = packet.sequence_flags.unwrap_or(0) & 1 != 0 || packet.incremental_state_cleared == Some(true);
        if cleared && let Some(symbols) = self.sequences.get_mut(&sequence) {
            self.symbols -= symbols.len();
            symbols.clear();
        }
        packet.interned_data.iter().for_each(|data| self.intern(sequence, data));
        if let Some(snapshot) = &packet.clock_snapshot {
            self.bundles.clocks.snapshot(snapshot);
            if let Some(pair) = Clocks::wall(snapshot) {
                self.info.note_clocks(pair);
            }
        }
        packet.process_tree.iter().for_each(|tree| self.process_tree(tree));
        packet.trace_config.iter().for_each(|config| self.config(config));
        packet.ftrace_stats.iter().for_each(|stats| self.stats(stats));
        packet.system_info.iter().for_each(|info| self.system_info(info));
    }

    fn intern(&mut self, sequence: u32, data: &InternedData) {
        if self.sequences.len() >= MAX_SEQUENCES && !self.sequences.contains_key(&sequence) {
            return;
        }
        let table = self.sequences.entry(sequence).or_default();
        for symbol in &data.kernel_symbols {
            if let (Some(iid), Some(name)) = (symbol.iid, &symbol.str)
                && self.symbols < MAX_SYMBOLS
                && table.insert(iid, self.bundles.names.intern(name)).is_none()
            {
                self.symbols += 1;
            }
        }
    }

    fn process_tree(&mut self, tree: &ProcessTree) {
        for process in &tree.processes {
            // The main thread usually has its program's name. A kernel thread's name is its only word.
            let program = process.cmdline.first().and_then(|word| word.rsplit(|&byte| byte == b'/').next());
            if let (Some(pid), Some(program)) = (process.pid.and_then(|pid| u32::try_from(pid).ok()), program) {
                self.bundles.tasks.note(Tid(pid), Comm::new(&program[..program.len().min(15)]));
            }
        }
        for thread in &tree.threads {
            if let (Some(tid), Some(name)) = (thread.tid.and_then(|tid| u32::try_from(tid).ok()), &thread.name) {
                self.bundles.tasks.note(Tid(tid), Comm::new(name));
            }
        }
    }

    /// The events that the configuration enabled: `sched/sched_switch`, `sched_switch`, `sched/*`.
    fn config(&mut self, config: &TraceConfig) {
        let sources = config.data_sources.iter().filter_map(|source| source.config.as_ref()?.ftrace_config.as_ref());
        for name in sources.flat_map(|ftrace| &ftrace.ftrace_events) {
            let (system, name) = name.split_once('/').map_or((None, &name[..]), |(system, name)| (Some(system), name));
            for &event in EventType::ALL {
                if event.name() == name || name == "*" && system == Some(event.system()) {
                    self.configured.insert(event);
                }
            }
        }
    }

    fn stats(&mut self, stats: &FtraceStats) {
        for cpu in &stats.cpu_stats {
            let id = cpu.cpu.and_then(|id| u32::try_from(id).ok()).filter(|&id| id < CpuId::LIMIT);
            let Some(id) = id.map(CpuId) else { continue };
            let lost = cpu.overrun.unwrap_or(0).saturating_add(cpu.dropped_events.unwrap_or(0));
            for (counts, count) in [(&mut self.overruns, lost), (&mut self.dropped, cpu.dropped_events.unwrap_or(0))] {
                let start = if stats.phase == Some(1) { count } else { counts.get(&id).map_or(0, |&(start, _)| start) };
                counts.insert(id, (start, count));
            }
        }
    }

    fn system_info(&mut self, info: &SystemInfo) {
        self.info.cpus = info.num_cpus.filter(|cpus| (1..=CpuId::LIMIT).contains(cpus)).or(self.info.cpus);
        if let Some(release) = info.utsname.as_ref().and_then(|uts| uts.release.as_ref()) {
            self.bundles.set_release(release);
            self.info.kernel_release = Some(release.clone());
        }
    }

    fn bundle(&mut self, data: &[u8], sequence: u32, dropped: Option<u32>) {
        // The first packet of a sequence has this flag too.
        if dropped.unwrap_or(0) != 0 && self.bundle_count > 0 {
            self.bundles.packets_dropped();
            self.packets_dropped = true;
        }
        self.bundle_count += 1;
        let none = KernelSymbols::default();
        let symbols = self.sequences.get(&sequence).unwrap_or(&none);
        if let Some((cpu, presence)) = self.bundles.decode(data, symbols, &mut self.scratch) {
            let latest = self.scratch.iter().map(|event| event.time).max();
            self.turns.note(cpu, latest.max(presence.map(|presence| presence.time)));
            if let Some(presence) = presence {
                self.info.coverage.note_presence(cpu, presence.time, presence.current);
            }
        }
        for event in self.scratch.drain(..) {
            event.kind.event_type().into_iter().for_each(|event_type| self.seen.insert(event_type));
            self.reorder.push(event);
        }
        self.info.clock = self.bundles.clock.map(str::to_owned);
        self.on_another_clock |= self.bundles.clock.is_some_and(|clock| clock != "boot");
    }

    /// The enabled event types. Android's atrace categories enable some that the configuration does not name; those are
    /// known when they occur.
    fn recorded(&self) -> Option<EventSet> {
        (self.configured != EventSet::default()).then(|| {
            let enabled = |&event: &EventType| self.configured.contains(event) || self.seen.contains(event);
            EventType::ALL.iter().copied().filter(enabled).collect()
        })
    }

    /// Proves how far each CPU was recorded.
    fn prove(&mut self) {
        let coverage = &mut self.info.coverage;
        if let Some(time) = self.turns.proved() {
            coverage.prove_all(Until::At(time), ProvedBy::EmptiedBuffer);
        }
        let dropped = self.dropped.iter().filter(|(_, (start, end))| end > start);
        dropped.for_each(|(cpu, _)| coverage.note_dropped(*cpu));
        if self.packets_dropped || self.bundles.undecodable > 0 {
            coverage.void();
        }
    }

    fn finish(&mut self) -> Result<(), PerfettoError> {
        self.at_end = true;
        self.reorder.release_all();
        self.info.tasks = self.bundles.tasks.saved();
        self.info.recorded = self.recorded();
        self.prove();
        if self.on_another_clock {
            self.info.clocks.clear();
        }
        let damage = self.bundles.undecodable + self.passed + u64::from(self.truncated.is_some());
        if self.bundle_count == 0 && damage == 0 {
            return Err(PerfettoError::NoEvents { packets: self.count });
        }
        Ok(())
    }
}

fn zstd(packed: io::Cursor<Bytes>) -> io::Result<impl Read + Send> {
    /// 8 MiB, enough for zstd's levels up to 19: the memory that a hostile file can make us allocate.
    const WINDOW_LOG: u32 = 23;
    let mut unpacked = zstd::stream::read::Decoder::new(packed)?;
    unpacked.window_log_max(WINDOW_LOG)?;
    Ok(unpacked)
}

impl EventSource for Perfetto {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while !self.reorder.fill(&mut batch.events) && !self.at_end {
            self.step()?;
        }
        self.bundles.names.take_new(&mut batch.names);
        Ok(!batch.events.is_empty())
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (&cpu, &(start, end)) in self.overruns.iter().filter(|(_, (start, end))| end > start) {
            losses.push(Loss::lost_events(cpu, end - start));
        }
        if self.bundles.gaps > 0 {
            losses.push(Loss::new(LossKind::UncountedGap, self.bundles.gaps));
        }
        if let Some(what) = &self.truncated {
            losses.push(Loss::new(LossKind::Truncated, 1).with_detail(what.clone()));
        }
        if self.bundles.undecodable > 0 {
            losses.push(Loss::new(LossKind::Undecodable, self.bundles.undecodable).with_detail("events and packets"));
        }
        if self.passed > 0 {
            let loss = Loss::new(LossKind::Undecodable, self.passed);
            losses.push(loss.with_detail("packets of more than 2 MiB, most often of other data sources"));
        }
        losses.extend(self.reorder.loss());
        let recorded = self.info.recorded.unwrap_or(self.seen);
        let missing = EventType::ALL.iter().filter(|&&event| !recorded.contains(event) && !event.only_refines());
        losses.extend(missing.map(|&event| Loss::new(LossKind::NotRecorded(event), 1)));
        losses
    }
}

#[cfg(test)]
mod tests;
