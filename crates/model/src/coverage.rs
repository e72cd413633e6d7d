//! How far a recording is proved to cover each CPU.

use crate::{CpuId, Nanos, Tid, Time};

/// How far a recording is proved to show what each CPU did.
///
/// A CPU without events may still have been recorded: one task may have held it, or it may have been idle. That there
/// were no events can be proved only by what a format contains besides its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// A proof for all CPUs.
    all: Option<Proof>,
    /// By CPU number; CPUs beyond the end have the default.
    cpus: Vec<CpuCoverage>,
    /// By CPU number, for CPUs with events that unstarve does not decode.
    bursts: Vec<Option<Burst>>,
    /// Nothing is proved for any CPU, because parts of the recording are missing.
    is_void: bool,
}

/// The coverage of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuCoverage {
    /// The time up to which no event is missing after its last one.
    pub proof: Option<Proof>,
    /// Its buffer was full and events were dropped at unknown times, perhaps at the end.
    pub dropped: bool,
    /// Its last event that unstarve does not decode.
    pub presence: Option<Presence>,
}

/// A proof that a CPU was being recorded up to some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// Up to when.
    pub until: Until,
    /// How it is proved.
    pub by: ProvedBy,
}

/// The end of a proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Until {
    /// Up to this time.
    At(Time),
    /// Up to the end of the recording.
    End,
}

/// How a CPU is proved to have been recorded (table in `docs/formats.md`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProvedBy {
    /// Its own last event, which is as late as those of other CPUs.
    OwnEvent,
    /// A later event of that CPU that unstarve does not decode, with the same current task.
    LaterEvent,
    /// Its buffer was read later and was empty: a round of perf, a turn of Perfetto.
    EmptiedBuffer,
    /// The text says how many events the buffers held, and contains them all.
    EntryCount,
    /// The counters of its buffer, read after the recording: nothing was dropped.
    BufferCounters,
}

/// An event that unstarve does not decode: it shows that its CPU was being recorded, and which task was current.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Presence {
    /// When.
    pub time: Time,
    /// The current task, if the format says so.
    pub current: Option<Tid>,
}

/// Events in quick succession: a CPU that leaves idle has several to handle at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Burst {
    /// The last event before the burst.
    before: Option<Time>,
    first: Time,
    last: Time,
}

/// Events closer together than this, and within this time altogether, form one burst.
const MAX_BURST: Nanos = Nanos::from_millis(1);

impl Burst {
    /// The last event before a burst that lasts until now.
    fn heard(&self, now: Time) -> Option<Time> {
        if now.since(self.first) > MAX_BURST { Some(self.last) } else { self.before }
    }
}

impl Coverage {
    /// Adds a proof for one CPU. The one that goes furthest is kept.
    pub fn prove(&mut self, cpu: CpuId, until: Until, by: ProvedBy) {
        if let Some(known) = self.place(cpu) {
            known.proof = further(known.proof, Some(Proof { until, by }));
        }
    }

    /// Adds a proof for all CPUs.
    pub fn prove_all(&mut self, until: Until, by: ProvedBy) {
        self.all = further(self.all, Some(Proof { until, by }));
    }

    /// Notes that events of a CPU were dropped at unknown times.
    pub fn note_dropped(&mut self, cpu: CpuId) {
        if let Some(known) = self.place(cpu) {
            known.dropped = true;
        }
    }

    /// Notes an event that unstarve does not decode.
    #[inline]
    pub fn note_presence(&mut self, cpu: CpuId, time: Time, current: Option<Tid>) {
        let presence = Some(Presence { time, current });
        self.note_burst(cpu, time);
        match self.cpus.get_mut(cpu.index()) {
            Some(known) if known.presence.is_none_or(|last| last.time <= time) => known.presence = presence,
            Some(_) => {}
            None => self.place(cpu).into_iter().for_each(|known| known.presence = presence),
        }
    }

    /// Notes an event that shows a tick. Returns the CPU's last event before the burst that contains the tick.
    pub fn note_tick(&mut self, cpu: CpuId, time: Time, current: Option<Tid>) -> Option<Time> {
        let heard = self.bursts.get(cpu.index()).copied().flatten().and_then(|burst| burst.heard(time));
        self.note_presence(cpu, time, current);
        heard
    }

    /// Forgets the current tasks of undecoded events: their ids do not match those of other events.
    pub fn forget_tasks(&mut self) {
        self.cpus.iter_mut().filter_map(|known| known.presence.as_mut()).for_each(|presence| presence.current = None);
    }

    /// Withdraws all proofs, because parts of the recording are missing.
    pub fn void(&mut self) {
        self.is_void = true;
    }

    /// The coverage of a CPU.
    pub fn of(&self, cpu: CpuId) -> CpuCoverage {
        let known = self.cpus.get(cpu.index()).copied().unwrap_or_default();
        let proof = further(self.all, known.proof).filter(|_| !self.is_void && !known.dropped);
        CpuCoverage { proof, ..known }
    }

    /// The last undecoded event of any CPU.
    pub fn last_presence(&self) -> Option<Time> {
        self.cpus.iter().filter_map(|known| known.presence).map(|presence| presence.time).max()
    }

    #[inline]
    fn note_burst(&mut self, cpu: CpuId, time: Time) {
        let Some(burst) = self.bursts.get_mut(cpu.index()) else { return self.first_burst(cpu, time) };
        *burst = Some(match *burst {
            None => Burst { before: None, first: time, last: time },
            Some(known) if time.since(known.first) <= MAX_BURST => Burst { last: time.max(known.last), ..known },
            Some(known) => Burst { before: Some(known.last), first: time, last: time.max(known.last) },
        });
    }

    #[cold]
    fn first_burst(&mut self, cpu: CpuId, time: Time) {
        if cpu.0 < CpuId::LIMIT {
            self.bursts.resize(cpu.index() + 1, None);
            self.note_burst(cpu, time);
        }
    }

    #[cold]
    fn place(&mut self, cpu: CpuId) -> Option<&mut CpuCoverage> {
        if cpu.0 >= CpuId::LIMIT {
            return None;
        }
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, CpuCoverage::default());
        }
        self.cpus.get_mut(cpu.index())
    }
}

fn further(one: Option<Proof>, other: Option<Proof>) -> Option<Proof> {
    one.into_iter().chain(other).max_by_key(|proof| (proof.until, proof.by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_furthest_proof_of_a_cpu_counts() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.of(CpuId(3)), CpuCoverage::default());
        coverage.prove_all(Until::At(Time(50)), ProvedBy::EmptiedBuffer);
        coverage.prove(CpuId(1), Until::At(Time(20)), ProvedBy::BufferCounters);
        coverage.prove(CpuId(2), Until::End, ProvedBy::EntryCount);
        let until = |cpu| coverage.of(CpuId(cpu)).proof.map(|proof| (proof.until, proof.by));
        assert_eq!(until(0), Some((Until::At(Time(50)), ProvedBy::EmptiedBuffer)));
        assert_eq!(until(1), Some((Until::At(Time(50)), ProvedBy::EmptiedBuffer)));
        assert_eq!(until(2), Some((Until::End, ProvedBy::EntryCount)));
        assert_eq!(until(8191), until(0));
        // No CPU has this number.
        coverage.prove(CpuId(u32::MAX), Until::End, ProvedBy::EntryCount);
        coverage.note_presence(CpuId(u32::MAX), Time(5), None);
        assert_eq!((coverage.cpus.len(), coverage.last_presence()), (3, None));
    }

    #[test]
    fn a_tick_says_when_its_cpu_was_heard_before() {
        const MS: u64 = 1_000_000;
        let mut coverage = Coverage::default();
        let mut tick = |micros: u64| coverage.note_tick(CpuId(1), Time(micros * 1000), None).map(|time| time.0 / 1000);
        assert_eq!([tick(1), tick(4_001), tick(8_001)], [None, Some(1), Some(4_001)]);
        // Events at once after a pause form one burst.
        coverage.note_presence(CpuId(1), Time(308 * MS), None);
        let mut tick = |micros: u64| coverage.note_tick(CpuId(1), Time(micros * 1000), None).map(|time| time.0 / 1000);
        assert_eq!([tick(308_100), tick(308_900)], [Some(8_001), Some(8_001)]);
        // Events that go on for longer than a burst are none, however close together they are.
        for step in 0..200 {
            coverage.note_presence(CpuId(1), Time(400 * MS + step * MS / 2), None);
        }
        let heard = coverage.note_tick(CpuId(1), Time(500 * MS), None);
        assert!(heard >= Some(Time(498 * MS)), "{heard:?}");
        assert_eq!(coverage.note_tick(CpuId(u32::MAX), Time(1), None), None);
    }

    #[test]
    fn where_events_were_dropped_or_parts_are_missing_nothing_is_proved() {
        let mut coverage = Coverage::default();
        coverage.prove_all(Until::End, ProvedBy::BufferCounters);
        coverage.note_dropped(CpuId(1));
        coverage.note_presence(CpuId(1), Time(7), Some(Tid(9)));
        coverage.note_presence(CpuId(1), Time(6), Some(Tid(8)));
        let known = coverage.of(CpuId(1));
        assert_eq!((known.proof, known.dropped), (None, true));
        assert_eq!(known.presence, Some(Presence { time: Time(7), current: Some(Tid(9)) }));
        assert!(coverage.of(CpuId(0)).proof.is_some());
        coverage.void();
        assert_eq!(coverage.of(CpuId(0)).proof, None);
    }
}
