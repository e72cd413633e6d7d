//! Replicas: the same program with its timers a little shifted.

use unstarve_model::Nanos;

use crate::ActorId;

/// A replica of a program: what no recording fixes, chosen by a seed. What changes from replica to replica cannot be predicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replica {
    seed: Option<u64>,
}

impl Replica {
    /// Timers as recorded, ticks from the beginning of the recording.
    pub const AS_RECORDED: Replica = Replica { seed: None };

    /// How far absolute sleeps are shifted at most.
    const LONGEST_SHIFT: Nanos = Nanos(2_000_000);

    /// Each actor's absolute sleeps later by 0 to 2 ms, the same for all of one actor, and ticks and the periods of limits at
    /// another phase.
    pub fn seeded(seed: u64) -> Replica {
        Replica { seed: Some(seed) }
    }

    /// How much later the absolute sleeps of an actor are.
    pub(crate) fn shift_of(self, actor: ActorId) -> u64 {
        self.seed.map_or(0, |seed| mix(seed, u64::from(actor.0)) % (Self::LONGEST_SHIFT.0 + 1))
    }

    /// When the first tick is, up to `tick`.
    pub(super) fn first_tick(self, tick: u64) -> u64 {
        self.first_of(tick, u64::MAX)
    }

    /// When the first period of a cgroup's limit ends, up to `period`.
    pub(super) fn first_refill(self, group: usize, period: u64) -> u64 {
        self.first_of(period, (1 << 32) + group as u64)
    }

    /// When the first period of the real-time limit ends, if a real-time actor is there from the beginning.
    pub(super) fn first_realtime_period(self, period: u64) -> u64 {
        self.first_of(period, u64::MAX - 1)
    }

    fn first_of(self, period: u64, place: u64) -> u64 {
        let period = period.max(1);
        self.seed.map_or(period, |seed| 1 + mix(seed, place) % period)
    }
}

/// A number for a seed and a place: SplitMix64.
fn mix(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_are_within_2_ms_and_differ() {
        let shifts: Vec<u64> = (0..1000).map(|actor| Replica::seeded(7).shift_of(ActorId(actor))).collect();
        assert!(shifts.iter().all(|shift| *shift <= 2_000_000));
        let mean = shifts.iter().sum::<u64>() / 1000;
        assert!((900_000..1_100_000).contains(&mean), "{mean}");
        assert_ne!(Replica::seeded(8).shift_of(ActorId(0)), shifts[0]);
        assert_eq!(Replica::AS_RECORDED.shift_of(ActorId(5)), 0);
        assert_eq!(Replica::AS_RECORDED.first_tick(4_000_000), 4_000_000);
        assert!((1..=4_000_000).contains(&Replica::seeded(1).first_tick(4_000_000)));
        let refills = [0, 1].map(|group| Replica::seeded(1).first_refill(group, 100_000_000));
        assert!(refills[0] != refills[1] && refills.iter().all(|at| (1..=100_000_000).contains(at)), "{refills:?}");
    }
}
