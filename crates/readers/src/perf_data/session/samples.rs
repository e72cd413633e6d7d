//! Handles samples, the bulk of a recording.

use unstarve_model::{Event, EventKind};

use super::{ASK_EVERY, NO_OFFSET, Readiness, Recorded, Session, kind};
use crate::decode::{BadRecord, FastDecoder};
use crate::endian::Endian;
use crate::perf_data::event_ids::{EventIds, Near};
use crate::perf_data::records::Record;
use crate::perf_data::sample::{Sample, usual_presence, usual_sample};

impl Session {
    /// Handles a sample. Half of the samples of `perf sched record` belong to an event that unstarve does not read.
    #[inline(always)]
    pub fn sample(&mut self, record: Record<'_>, offset: u64) -> Readiness {
        match self.id_of(record.bytes, record.endian).and_then(|id| self.ids.near(id)) {
            Some(Near::Unread) => {
                self.note_presence(record.bytes);
                Readiness::Not
            }
            Some(Near::Event(event)) => match self.usual_sample(event, record.bytes) {
                Some(ripe) => ripe,
                None => self.read_sample(event, record.bytes, record.endian, offset),
            },
            None => self.far_sample(record.bytes, record.endian, offset),
        }
    }

    /// A sample of an event that unstarve does not read still proves that its CPU was being recorded.
    #[inline(always)]
    fn note_presence(&mut self, sample: &[u8]) {
        if self.all_usual
            && let Some((time, cpu, current)) = usual_presence(sample)
        {
            self.info.coverage.note_presence(cpu, time, current);
        }
    }

    /// The event id of a sample, if samples have one.
    #[inline(always)]
    fn id_of(&self, sample: &[u8], endian: Endian) -> Option<u64> {
        let (_, rest) = sample.split_at_checked(self.id_at)?;
        Some(endian.u64(*rest.first_chunk()?))
    }

    #[inline(never)]
    fn far_sample(&mut self, bytes: &[u8], endian: Endian, offset: u64) -> Readiness {
        let record = Record { kind: kind::SAMPLE, bytes, endian };
        match event_of(&self.events, &self.ids, self.id_at, record) {
            Some(event) => {
                self.usual_sample(event, bytes).unwrap_or_else(|| self.read_sample(event, bytes, endian, offset))
            }
            None => Readiness::Not,
        }
    }

    /// Takes the record in parts, so that no `Record` is built for samples that are skipped.
    #[inline(never)]
    fn read_sample(&mut self, event: u16, bytes: &[u8], endian: Endian, offset: u64) -> Readiness {
        let record = Record { kind: kind::SAMPLE, bytes, endian };
        let is_wanted = self.events.get(usize::from(event)).is_some_and(|event| event.wanted);
        if is_wanted && self.wanted_sample(event, record, offset) { self.ask() } else { Readiness::Not }
    }

    /// Checks from time to time whether events can be given out.
    #[inline(always)]
    fn ask(&mut self) -> Readiness {
        self.unasked += 1;
        if self.unasked < ASK_EVERY {
            return Readiness::Not;
        }
        self.release_passed();
        Readiness::Perhaps
    }

    /// Decodes a sample on the fast path; `None` if it does not have the usual layout.
    #[inline(never)]
    fn usual_sample(&mut self, event: u16, sample: &[u8]) -> Option<Readiness> {
        let event = self.events.get(usize::from(event)).and_then(|event| event.usual.as_ref());
        let (id, usual) = event?;
        let (time, cpu, raw) = usual_sample(sample)?;
        if FastDecoder::id(raw) != Some(*id) {
            return None;
        }
        if !self.reorder.push_with(cpu, |place| usual.read(time, cpu, raw, |event| *place = event)) {
            return None;
        }
        self.latest = self.latest.max(time);
        Some(self.ask())
    }

    /// Decodes any sample. Returns `false` if it is shorter than its counts say.
    #[inline(never)]
    fn wanted_sample(&mut self, event: u16, record: Record<'_>, offset: u64) -> bool {
        let layout = &self.events[usize::from(event)].layout;
        let Some(sample) = layout.sample(record.bytes, record.endian) else {
            self.undecodable(offset);
            return false;
        };
        let (decoder, names) = (&self.decoder, &mut self.names);
        let mut decoded = Ok(false);
        if sample.callchain.is_empty() {
            self.reorder.push_with(sample.cpu, |place| {
                decoded = decoder.decode(sample.time, sample.cpu, sample.raw, names, |event| *place = event);
                decoded == Ok(true)
            });
        } else {
            let mut event = None;
            decoded = decoder.decode(sample.time, sample.cpu, sample.raw, names, |read| event = Some(read));
            if let Some(event) = event.filter(|_| decoded == Ok(true)) {
                // The event may be the worker's switch away, so report its work first.
                self.work_on_stack(&sample, &event, record.endian);
                self.reorder.push(event);
            }
        }
        match decoded {
            Ok(true) => self.latest = self.latest.max(sample.time),
            Ok(false) => {}
            Err(BadRecord { event: Some(event), .. }) => {
                self.damage.malformed.note(event, || format!("the sample at byte {offset}"));
            }
            Err(_) => self.undecodable(offset),
        }
        true
    }

    /// If every event was opened once per CPU, each CPU has one buffer. While all CPUs are busy, events then need not
    /// wait for the ends of two rounds.
    #[cold]
    fn release_passed(&mut self) {
        self.unasked = 0;
        if let Some(cpus) = self.info.cpus
            && self.openings == Some(cpus as usize)
        {
            self.reorder.release_passed(cpus);
        }
    }

    /// Derives the work item of a kernel worker from its call stack.
    #[inline(never)]
    fn work_on_stack(&mut self, sample: &Sample<'_>, event: &Event, endian: Endian) {
        let function = self.stacks.work(sample.callchain, endian, &mut self.names);
        if let (Some(function), Some(tid)) = (function, event.issuer.current()) {
            self.reorder.push(Event { kind: EventKind::WorkOnStack { tid, function }, ..*event });
        }
    }
}

/// The event of a record. A file with one event has no ids; one with several has them at the same offset in all
/// samples.
#[inline(always)]
pub(super) fn event_of(events: &[Recorded], ids: &EventIds, id_at: usize, record: Record<'_>) -> Option<u16> {
    let first = events.first()?;
    if events.len() == 1 || ids.is_empty() {
        return Some(0);
    }
    let event = ids.get(record.u64_at(if id_at == NO_OFFSET { first.layout.id? } else { id_at })?)?;
    (usize::from(event) < events.len()).then_some(event)
}
