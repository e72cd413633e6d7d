//! Finds the fields of a sample. Source: the comment at `PERF_RECORD_SAMPLE` in `include/uapi/linux/perf_event.h`.

use unstarve_model::{CpuId, Tid, Time};

use super::attr::Attr;
use crate::endian::Endian;

const SAMPLE_IP: u64 = 1 << 0;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

/// The id of a task that has been reaped.
pub const NO_ID: u32 = u32::MAX;

/// Size of a record's header.
pub const RECORD_HEADER_BYTES: usize = 8;

/// The layout of the samples of one event. Offsets count from the record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    pub id: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    /// The end of the fields of fixed size.
    fixed: usize,
    read: Option<ReadFormat>,
    callchain: bool,
    raw: bool,
    trailer: Option<Trailer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadFormat {
    times: u64,
    values: u64,
    group: bool,
}

/// The ids and times at the end of records other than samples. Offsets count backwards from the record's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    size: usize,
}

/// When and where a record other than a sample was written, and which task ran there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub time: Option<Time>,
    pub cpu: Option<CpuId>,
    /// `None` also for a task that has been reaped and has no id any more.
    pub tid: Option<Tid>,
}

/// The needed fields of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub time: Time,
    pub cpu: CpuId,
    /// The tracepoint's raw record.
    pub raw: &'a [u8],
    /// The addresses of the call stack, innermost first; empty if none was recorded.
    pub callchain: &'a [u8],
}

impl SampleLayout {
    pub fn of(attr: &Attr) -> SampleLayout {
        let mut at = RECORD_HEADER_BYTES;
        let mut field = |bit| {
            let here = (attr.sample_type & bit != 0).then_some(at);
            at += if here.is_some() { 8 } else { 0 };
            here
        };
        let identifier = field(SAMPLE_IDENTIFIER);
        let (_, _, time, _) = (field(SAMPLE_IP), field(SAMPLE_TID), field(SAMPLE_TIME), field(SAMPLE_ADDR));
        let id = field(SAMPLE_ID);
        let (_, cpu, _) = (field(SAMPLE_STREAM_ID), field(SAMPLE_CPU), field(SAMPLE_PERIOD));
        let has = |bit| attr.sample_type & bit != 0;
        SampleLayout {
            id: identifier.or(id),
            time,
            cpu,
            fixed: at,
            read: has(SAMPLE_READ).then(|| ReadFormat::of(attr.read_format)),
            callchain: has(SAMPLE_CALLCHAIN),
            raw: has(SAMPLE_RAW),
            trailer: attr.sample_id_all.then(|| Trailer::of(attr.sample_type)),
        }
    }

    /// The first field that is needed and that samples of this event lack.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            SampleLayout { time: None, .. } => Some("times"),
            SampleLayout { cpu: None, .. } => Some("CPUs"),
            SampleLayout { raw: false, .. } => Some("the events' fields"),
            _ => None,
        }
    }

    /// Whether samples have the layout that `perf sched record` uses.
    pub fn is_usual(&self) -> bool {
        let places =
            (self.time, self.cpu, self.fixed) == (Some(usual::SAMPLE_TIME), Some(usual::SAMPLE_CPU), usual::SAMPLE_RAW);
        places && self.read.is_none() && !self.callchain && self.raw
    }

    /// Parses a sample record, including its header; `None` if it is shorter than its own counts say.
    #[inline]
    pub fn sample<'a>(&self, record: &'a [u8], endian: Endian) -> Option<Sample<'a>> {
        let time = Time(endian.u64_at(record, self.time?)?);
        let cpu = endian.u32_at(record, self.cpu?)?;
        let mut at = self.fixed;
        if let Some(read) = self.read {
            at = read.end(record, at, endian)?;
        }
        let mut callchain = &record[..0];
        if self.callchain {
            let frames = usize::try_from(endian.u64_at(record, at)?).ok()?;
            callchain = record.get(at + 8..)?.get(..frames.checked_mul(8)?)?;
            at += 8 + callchain.len();
        }
        if !self.raw {
            return None;
        }
        let size = endian.u32_at(record, at)? as usize;
        let raw = record.get(at + 4..)?.get(..size)?;
        (cpu < CpuId::LIMIT).then_some(Sample { time, cpu: CpuId(cpu), raw, callchain })
    }

    /// When and where a record other than a sample was written, as far as it says.
    pub fn trailer(&self, record: &[u8], endian: Endian) -> Written {
        let Some(trailer) = self.trailer.filter(|trailer| record.len() >= RECORD_HEADER_BYTES + trailer.size) else {
            return Written::default();
        };
        let time = trailer.time.and_then(|back| endian.u64_at(record, record.len() - back)).map(Time);
        let cpu = trailer.cpu.and_then(|back| endian.u32_at(record, record.len() - back));
        // The process id comes before the thread id.
        let tid = trailer.tid.and_then(|back| endian.u32_at(record, record.len() - back + 4));
        Written {
            time,
            cpu: cpu.filter(|&cpu| cpu < CpuId::LIMIT).map(CpuId),
            tid: tid.filter(|&tid| tid != NO_ID).map(Tid),
        }
    }
}

/// The sample layout of `perf sched record`, perf 3.12 and later: `IDENTIFIER`, `IP`, `TID`, `TIME`, `CPU`, `PERIOD`,
/// `RAW`.
mod usual {
    pub const SAMPLE_TID: usize = 28;
    pub const SAMPLE_TIME: usize = 32;
    pub const SAMPLE_CPU: usize = 40;
    pub const SAMPLE_RAW: usize = 56;
}

/// A faster [`SampleLayout::sample`] for little-endian records where [`SampleLayout::is_usual`]: time, CPU and raw
/// record.
#[inline(always)]
pub fn usual_sample(record: &[u8]) -> Option<(Time, CpuId, &[u8])> {
    let (head, raw) = record.split_first_chunk::<{ usual::SAMPLE_RAW + 4 }>()?;
    let time = Time(Endian::Little.u64_at(head, usual::SAMPLE_TIME)?);
    let cpu = CpuId(Endian::Little.u32_at(head, usual::SAMPLE_CPU)?);
    let raw = raw.get(..Endian::Little.u32_at(head, usual::SAMPLE_RAW)? as usize)?;
    (cpu.0 < CpuId::LIMIT).then_some((time, cpu, raw))
}

/// The same for a sample that is not decoded: when and where it was taken, and the current task.
#[inline(always)]
pub fn usual_presence(record: &[u8]) -> Option<(Time, CpuId, Option<Tid>)> {
    let head = record.first_chunk::<{ usual::SAMPLE_CPU + 4 }>()?;
    // -1 for a task that has been reaped.
    let tid = Endian::Little.u32_at(head, usual::SAMPLE_TID).filter(|tid| *tid != u32::MAX).map(Tid);
    let time = Time(Endian::Little.u64_at(head, usual::SAMPLE_TIME)?);
    Some((time, CpuId(Endian::Little.u32_at(head, usual::SAMPLE_CPU)?), tid))
}

impl ReadFormat {
    fn of(format: u64) -> ReadFormat {
        let has = |bit: u64| u64::from(format & bit != 0);
        // The read_format bits: TOTAL_TIME_ENABLED 1, TOTAL_TIME_RUNNING 2, ID 4, GROUP 8, LOST 16.
        ReadFormat { times: has(1) + has(2), values: 1 + has(4) + has(16), group: has(8) != 0 }
    }

    /// The offset after the values that begin at `at`.
    fn end(self, record: &[u8], at: usize, endian: Endian) -> Option<usize> {
        let words = if self.group {
            let count = endian.u64_at(record, at)?;
            count.checked_mul(self.values)?.checked_add(1 + self.times)?
        } else {
            self.values + self.times
        };
        at.checked_add(usize::try_from(words).ok()?.checked_mul(8)?)
    }
}

impl Trailer {
    fn of(sample_type: u64) -> Trailer {
        let mut back = 0;
        let mut field = |bit| {
            back += if sample_type & bit != 0 { 8 } else { 0 };
            (sample_type & bit != 0).then_some(back)
        };
        let (_, cpu, _, _) = (field(SAMPLE_IDENTIFIER), field(SAMPLE_CPU), field(SAMPLE_STREAM_ID), field(SAMPLE_ID));
        let (time, tid) = (field(SAMPLE_TIME), field(SAMPLE_TID));
        Trailer { tid, time, cpu, size: back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(sample_type: u64, read_format: u64) -> SampleLayout {
        let attr = Attr {
            tracepoint: Some(1),
            sample_type,
            read_format,
            sample_id_all: true,
            clock: None,
            context_switch: false,
        };
        SampleLayout::of(&attr)
    }

    fn words(words: &[u64], raw: &[u8]) -> Vec<u8> {
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        record.extend((raw.len() as u32).to_le_bytes());
        record.extend(raw);
        record
    }

    #[test]
    fn every_field_that_can_stand_before_the_raw_record_is_passed_over() {
        let all = SAMPLE_IDENTIFIER
            | SAMPLE_IP
            | SAMPLE_TID
            | SAMPLE_TIME
            | SAMPLE_ADDR
            | SAMPLE_ID
            | SAMPLE_STREAM_ID
            | SAMPLE_CPU
            | SAMPLE_PERIOD;
        //                        header id ip tid time addr id stream cpu period
        let fixed = [0, 77, 1, 2, 123, 4, 77, 5, 3, 6];
        // value, enabled, running, id, lost; then two frames.
        let single = [&fixed[..], &[1, 2, 3, 4, 5, 2, 100, 200]].concat();
        // two counters of value, id: count, enabled, 2 × 2.
        let group = [&fixed[..], &[2, 9, 1, 2, 3, 4, 1, 100]].concat();
        for (extra, format, record) in [
            (0, 0, &fixed[..]),
            (SAMPLE_READ | SAMPLE_CALLCHAIN, 1 | 2 | 4 | 16, &single),
            (SAMPLE_READ | SAMPLE_CALLCHAIN, 1 | 4 | 8, &group),
        ] {
            let layout = layout(all | SAMPLE_RAW | extra, format);
            let record = words(record, b"raw!");
            let sample = layout.sample(&record, Endian::Little).unwrap();
            assert_eq!((sample.time, sample.cpu, sample.raw), (Time(123), CpuId(3), &b"raw!"[..]));
            assert_eq!(layout.id, Some(8));
            for length in 0..record.len() {
                assert!(layout.sample(&record[..length], Endian::Little).is_none(), "{length}");
            }
        }
    }

    #[test]
    fn hostile_counts_lead_nowhere() {
        let layout = layout(SAMPLE_TIME | SAMPLE_CPU | SAMPLE_READ | SAMPLE_CALLCHAIN | SAMPLE_RAW, 8);
        for count in [u64::MAX, u64::MAX / 8, 1 << 60] {
            assert!(layout.sample(&words(&[0, 1, 2, count, 0, 0], b""), Endian::Little).is_none());
            assert!(layout.sample(&words(&[0, 1, 2, 0, count, 0], b""), Endian::Little).is_none());
        }
    }

    #[test]
    fn other_records_say_at_their_end_when_and_where() {
        let layout = layout(SAMPLE_TID | SAMPLE_TIME | SAMPLE_ID | SAMPLE_CPU | SAMPLE_IDENTIFIER | SAMPLE_RAW, 0);
        let record: Vec<u8> =
            [0u64, 55, 2 << 32 | 1, 123, 77, 3, 77].iter().flat_map(|word| word.to_le_bytes()).collect();
        let written = Written { time: Some(Time(123)), cpu: Some(CpuId(3)), tid: Some(Tid(2)) };
        assert_eq!(layout.trailer(&record, Endian::Little), written);
        assert_eq!(layout.trailer(&record[..40], Endian::Little), Written::default());
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(layout(SAMPLE_CPU | SAMPLE_RAW, 0).missing(), Some("times"));
        assert_eq!(layout(SAMPLE_TIME | SAMPLE_RAW, 0).missing(), Some("CPUs"));
        assert_eq!(layout(SAMPLE_TIME | SAMPLE_CPU, 0).missing(), Some("the events' fields"));
        assert_eq!(layout(SAMPLE_TIME | SAMPLE_CPU | SAMPLE_RAW, 0).missing(), None);
    }
}
