use crate::{CpuId, Nanos, Tid, Time};

/// How far a recording is proved to show what each CPU did.
///
/// A CPU without events is not a CPU whose recording ended: one task may hold it, or it may be idle. Only what a format says
/// besides its events proves that there were none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Of all CPUs.
    all: Option<Proof>,
    /// By number; CPUs beyond the end are as the default.
    cpus: Vec<CpuCoverage>,
    /// By number, for CPUs that issued events of types that are not read.
    bursts: Vec<Option<Burst>>,
    /// Nothing is proved of any CPU, whatever else is known: parts of the recording are missing.
    is_void: bool,
}

/// The same of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuCoverage {
    /// Up to when no event of it is missing behind its last one.
    pub proof: Option<Proof>,
    /// Events of it were dropped, nobody knows when, and those at the end may be among them: its buffer was full.
    pub dropped: bool,
    /// Its last event of a type that is not read.
    pub presence: Option<Presence>,
}

/// Up to when it is proved that a CPU would have been recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// Up to when.
    pub until: Until,
    /// By what.
    pub by: ProvedBy,
}

/// Up to when something is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Until {
    /// Up to this time.
    At(Time),
    /// Up to the end of the recording.
    End,
}

/// What proves that a CPU would have been recorded (`docs/formats.md` has the table).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProvedBy {
    /// Its own last event, which is as late as others'.
    OwnEvent,
    /// A later event of that CPU of a type that is not read, with the same task.
    LaterEvent,
    /// Its buffer was emptied later, and there was nothing in it: a round of perf, a turn of Perfetto.
    EmptiedBuffer,
    /// The text says how many events its buffers held, and has them all.
    EntryCount,
    /// The counters of its buffer, read when the recording was over: nothing was dropped.
    BufferCounters,
}

/// An event of a type that is not read: its CPU was recorded then, and this task was current.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Presence {
    /// When.
    pub time: Time,
    /// Who was current, where the format says so.
    pub current: Option<Tid>,
}

/// Events that came one upon the other: a CPU that begins to run again has several to handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Burst {
    /// The last event before the first of them.
    before: Option<Time>,
    first: Time,
    last: Time,
}

/// Events that are less apart than this, and all of them within it, are one burst.
const BURST: Nanos = Nanos::from_millis(1);

impl Burst {
    /// The last event that came earlier than a burst that goes on until now.
    fn heard(&self, now: Time) -> Option<Time> {
        if now.since(self.first) > BURST { Some(self.last) } else { self.before }
    }
}

impl Coverage {
    /// Notes a proof for one CPU; of several the one that goes furthest stays.
    pub fn prove(&mut self, cpu: CpuId, until: Until, by: ProvedBy) {
        if let Some(known) = self.place(cpu) {
            known.proof = further(known.proof, Some(Proof { until, by }));
        }
    }

    /// Notes a proof for all CPUs.
    pub fn prove_all(&mut self, until: Until, by: ProvedBy) {
        self.all = further(self.all, Some(Proof { until, by }));
    }

    /// Notes that events of a CPU were dropped, nobody knows when.
    pub fn note_dropped(&mut self, cpu: CpuId) {
        if let Some(known) = self.place(cpu) {
            known.dropped = true;
        }
    }

    /// Notes an event of a type that is not read.
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

    /// Notes an event that shows a tick, which is one of a type that is not read, too; the last of those that came more than a burst
    /// before it.
    pub fn note_tick(&mut self, cpu: CpuId, time: Time, current: Option<Tid>) -> Option<Time> {
        let heard = self.bursts.get(cpu.index()).copied().flatten().and_then(|burst| burst.heard(time));
        self.note_presence(cpu, time, current);
        heard
    }

    /// Forgets who was current at events that are not read: their ids are not those of the other events.
    pub fn forget_tasks(&mut self) {
        self.cpus.iter_mut().filter_map(|known| known.presence.as_mut()).for_each(|presence| presence.current = None);
    }

    /// Parts of the recording are missing: what was proved is not.
    pub fn void(&mut self) {
        self.is_void = true;
    }

    /// What is known of a CPU.
    pub fn of(&self, cpu: CpuId) -> CpuCoverage {
        let known = self.cpus.get(cpu.index()).copied().unwrap_or_default();
        let proof = further(self.all, known.proof).filter(|_| !self.is_void && !known.dropped);
        CpuCoverage { proof, ..known }
    }

    /// The last event of any CPU that is not read.
    pub fn last_presence(&self) -> Option<Time> {
        self.cpus.iter().filter_map(|known| known.presence).map(|presence| presence.time).max()
    }

    #[inline]
    fn note_burst(&mut self, cpu: CpuId, time: Time) {
        let Some(burst) = self.bursts.get_mut(cpu.index()) else { return self.first_burst(cpu, time) };
        *burst = Some(match *burst {
            None => Burst { before: None, first: time, last: time },
            Some(known) if time.since(known.first) <= BURST => Burst { last: time.max(known.last), ..known },
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
        // No CPU has that number.
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
        // What comes at once after a pause is of one burst.
        coverage.note_presence(CpuId(1), Time(308 * MS), None);
        let mut tick = |micros: u64| coverage.note_tick(CpuId(1), Time(micros * 1000), None).map(|time| time.0 / 1000);
        assert_eq!([tick(308_100), tick(308_900)], [Some(8_001), Some(8_001)]);
        // Events that follow one another for longer are no burst, however close together they are.
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
