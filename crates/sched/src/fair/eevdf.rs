//! EEVDF, the fair class since 6.6: among the entities that are owed time, the one with the earliest virtual deadline runs.
//!
//! Source of everything here, unless said otherwise: kernel/sched/fair.c of 6.12.117.

use super::{calc_delta_fair, scale};

/// The settings of EEVDF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// `base_slice_ns`, scaled by the number of CPUs: what an entity asks for at a time.
    pub base_slice: i64,
    /// The same before it is scaled, which the protection without RUN_TO_PARITY uses since 6.17.
    pub normalized_base_slice: i64,
    /// The length of a tick.
    pub tick: i64,
    /// Whether a task may have a slice of its own (6.12).
    pub takes_own_slices: bool,
    /// Its feature bits.
    pub features: Features,
    /// How long the running entity is protected against wakeups.
    pub protection: Protection,
}

/// Feature bits of EEVDF that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// An entity keeps its lag over a sleep.
    pub place_lag: bool,
    /// A new entity's first slice is half as long.
    pub place_deadline_initial: bool,
    /// An entity keeps the rest of its deadline over a migration (6.12).
    pub place_rel_deadline: bool,
    /// The running entity keeps the CPU until [`Protection`] ends.
    pub run_to_parity: bool,
    /// A woken entity with a shorter slice ends the protection (6.12).
    pub preempt_short: bool,
    /// An entity that is owed nothing stays queued when it goes to sleep, until it is picked or woken (6.12).
    pub delay_dequeue: bool,
    /// And then it has no lag (6.12).
    pub delay_zero: bool,
    /// Wakeups may preempt.
    pub wakeup_preemption: bool,
    /// The next buddy is preferred when picking (6.14, 6.12.13; before only with NEXT_BUDDY).
    pub pick_buddy: bool,
    /// Every woken task is a next buddy.
    pub next_buddy: bool,
}

/// How long the running entity is protected against wakeups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Until its deadline: until it has used its slice. Up to 6.16, with RUN_TO_PARITY only.
    Deadline,
    /// For the shortest slice of all queued entities (RUN_TO_PARITY), else for the base slice before scaling. From 6.17 on.
    ShortestSlice,
}

/// The weighted average of the virtual run times of the queued entities, the current one left out: `avg_vruntime` and
/// `avg_load` of a `cfs_rq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    zero: i64,
    /// The sum of (virtual run time − zero) × weight.
    sum: i128,
    load: i64,
}

/// An entity as the average knows it: its virtual run time and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Its virtual run time.
    pub vruntime: i64,
    /// Its load weight.
    pub weight: u32,
}

impl Average {
    fn key(&self, point: Point) -> i128 {
        i128::from(point.vruntime - self.zero) * i128::from(point.weight)
    }

    /// `avg_vruntime_add()`: an entity is queued.
    pub fn add(&mut self, point: Point) {
        self.sum += self.key(point);
        self.load += i64::from(point.weight);
    }

    /// `avg_vruntime_sub()`: an entity leaves.
    pub fn sub(&mut self, point: Point) {
        self.sum -= self.key(point);
        self.load -= i64::from(point.weight);
    }

    fn with(&self, curr: Option<Point>) -> (i128, i64) {
        match curr {
            Some(curr) => (self.sum + self.key(curr), self.load + i64::from(curr.weight)),
            None => (self.sum, self.load),
        }
    }

    /// The weight of all entities, with the current one.
    pub fn load(&self, curr: Option<Point>) -> i64 {
        self.with(curr).1
    }

    /// `avg_vruntime()`: the virtual time at which an entity is owed nothing and owes nothing, rounded down.
    pub fn avg_vruntime(&mut self, curr: Option<Point>) -> i64 {
        let (sum, load) = self.with(curr);
        if load > 0 {
            let delta = match i64::try_from(sum) {
                Ok(sum) => sum.div_euclid(load),
                Err(_) => sum.div_euclid(i128::from(load)).clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            };
            self.sum -= i128::from(self.load) * i128::from(delta);
            self.zero = self.zero.saturating_add(delta);
        }
        self.zero
    }

    /// `vruntime_eligible()`: whether an entity with this virtual run time is owed time, or owes none.
    pub fn vruntime_eligible(&self, vruntime: i64, curr: Option<Point>) -> bool {
        let (sum, load) = self.with(curr);
        sum >= i128::from(vruntime - self.zero) * i128::from(load)
    }
}

/// `entity_lag()`: by how much an entity is behind the average, within the limits.
pub fn entity_lag(avg_vruntime: i64, vruntime: i64, weight: u32, slice: i64, tunables: &Tunables) -> i64 {
    let limit = calc_delta_fair((2 * slice).max(tunables.tick), weight);
    (avg_vruntime - vruntime).clamp(-limit, limit)
}

/// An entity that is put on a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its load weight.
    pub weight: u32,
    /// Its slice.
    pub slice: i64,
    /// Its lag when it left the queue.
    pub vlag: i64,
    /// What was left until its deadline, if it kept that.
    pub rel_deadline: Option<i64>,
}

/// Where an entity is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its virtual run time.
    pub vruntime: i64,
    /// Its virtual deadline.
    pub deadline: i64,
}

/// `place_entity()`: where an entity is put among others that weigh `load` in sum (0: it is alone) and have this average.
///
/// Its arrival moves the average, so its lag is inflated first: after the arrival it is what it was.
pub fn place_entity(arrival: &Arrival, avg_vruntime: i64, load: i64, tunables: &Tunables) -> Placed {
    let lag = match tunables.features.place_lag && load > 0 {
        true => scale(arrival.vlag, load + i64::from(arrival.weight), load),
        false => 0,
    };
    let vruntime = avg_vruntime - lag;
    let rest = arrival.rel_deadline.filter(|_| tunables.features.place_rel_deadline);
    Placed { vruntime, deadline: vruntime + rest.unwrap_or_else(|| calc_delta_fair(arrival.slice, arrival.weight)) }
}

/// The deadline of a new entity: the others are, on average, halfway through their slices (`place_entity()` with
/// ENQUEUE_INITIAL).
pub fn deadline_of_new(placed: Placed, tunables: &Tunables) -> i64 {
    let vslice = placed.deadline - placed.vruntime;
    placed.vruntime + if tunables.features.place_deadline_initial { vslice / 2 } else { vslice }
}

/// `update_deadline()`: the next deadline of an entity that has used its slice, and so lets others go first.
pub fn update_deadline(vruntime: i64, deadline: i64, weight: u32, slice: i64) -> Option<i64> {
    (vruntime >= deadline).then(|| vruntime + calc_delta_fair(slice, weight))
}

/// Up to which virtual run time the entity that begins to run is protected: `set_protect_slice()`.
///
/// Source: for [`Protection::ShortestSlice`] `set_protect_slice()` in kernel/sched/fair.c of 7.2.
pub fn set_protect_slice(placed: Placed, weight: u32, slice: i64, shortest: i64, tunables: &Tunables) -> i64 {
    match tunables.protection {
        Protection::Deadline if tunables.features.run_to_parity => placed.deadline,
        Protection::Deadline => i64::MIN,
        Protection::ShortestSlice => {
            let parity = tunables.features.run_to_parity;
            let protected = if parity { shortest } else { tunables.normalized_base_slice }.min(slice);
            if protected == slice {
                return placed.deadline;
            }
            placed.deadline.min(placed.vruntime + calc_delta_fair(protected, weight))
        }
    }
}

/// `protect_slice()`: whether the running entity is still protected up to what [`set_protect_slice`] said. Until 6.16 only a new
/// deadline ends the protection, which the kernel compares with the stored one.
pub fn protect_slice(placed: Placed, protected_until: i64, tunables: &Tunables) -> bool {
    match tunables.protection {
        Protection::Deadline => protected_until == placed.deadline,
        Protection::ShortestSlice => placed.vruntime < protected_until,
    }
}

/// An entity that may be picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate<K> {
    /// Which one.
    pub key: K,
    /// Its virtual run time.
    pub vruntime: i64,
    /// Its virtual deadline.
    pub deadline: i64,
}

/// `pick_eevdf()`: the eligible entity with the earliest deadline; the current one if it is `protected` and eligible. `None`
/// if there is none at all.
pub fn pick_eevdf<K: Copy>(
    average: &Average,
    curr: Option<(Candidate<K>, Point)>,
    is_protected: bool,
    queued: impl Iterator<Item = Candidate<K>>,
) -> Option<K> {
    let point = curr.map(|(_, point)| point);
    let curr = curr.map(|(candidate, _)| candidate);
    let mut queued = queued.peekable();
    if queued.peek().is_none() {
        return curr.map(|curr| curr.key);
    }
    let curr = curr.filter(|curr| average.vruntime_eligible(curr.vruntime, point));
    if let Some(curr) = curr.filter(|_| is_protected) {
        return Some(curr.key);
    }
    let mut best: Option<Candidate<K>> = None;
    for candidate in queued {
        if best.is_none_or(|best| candidate.deadline < best.deadline)
            && average.vruntime_eligible(candidate.vruntime, point)
        {
            best = Some(candidate);
        }
    }
    match (curr, best) {
        (Some(curr), Some(best)) if curr.deadline < best.deadline => Some(curr.key),
        (curr, best) => best.or(curr).map(|best| best.key),
    }
}

/// An entity in a wakeup: its slice, and whether it is owed time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its slice.
    pub slice: i64,
    /// Its virtual deadline.
    pub deadline: i64,
    /// Whether it is owed time.
    pub is_eligible: bool,
}

/// `do_preempt_short()`: whether a woken entity ends the protection of the current one, because its slice is shorter.
pub fn do_preempt_short(woken: Claim, curr: Claim, tunables: &Tunables) -> bool {
    tunables.features.preempt_short
        && woken.slice < curr.slice
        && woken.is_eligible
        && (woken.deadline < curr.deadline || !curr.is_eligible)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of 6.12.31 and later with eight CPUs and 250 Hz.
    const EIGHT_CPUS: Tunables = Tunables {
        base_slice: 2_800_000,
        normalized_base_slice: 700_000,
        tick: 4_000_000,
        takes_own_slices: true,
        features: Features {
            place_lag: true,
            place_deadline_initial: true,
            place_rel_deadline: true,
            run_to_parity: true,
            preempt_short: true,
            delay_dequeue: true,
            delay_zero: true,
            wakeup_preemption: true,
            pick_buddy: true,
            next_buddy: false,
        },
        protection: Protection::Deadline,
    };

    fn point(vruntime: i64, weight: u32) -> Point {
        Point { vruntime, weight }
    }

    fn average(points: &[Point]) -> Average {
        let mut average = Average::default();
        points.iter().for_each(|point| average.add(*point));
        average
    }

    #[test]
    fn the_average_is_weighted_and_rounded_down() {
        assert_eq!(average(&[point(0, 1024), point(3_000, 2048)]).avg_vruntime(None), 2_000);
        assert_eq!(average(&[point(0, 1024)]).avg_vruntime(Some(point(-3, 1024))), -2);
        assert_eq!(average(&[point(-5_000, 3)]).avg_vruntime(Some(point(5_000, 3))), 0);
        let mut changing = average(&[point(1_000, 1024), point(9_000, 1024)]);
        assert_eq!(changing.avg_vruntime(None), 5_000);
        changing.sub(point(9_000, 1024));
        assert_eq!(changing.avg_vruntime(None), 1_000, "also after its zero has moved");
        assert_eq!(changing.load(Some(point(0, 15))), 1039);
    }

    #[test]
    fn who_is_not_ahead_of_the_average_is_eligible() {
        let three = average(&[point(0, 1024), point(100, 1024), point(201, 1024)]);
        let eligible = |vruntime| three.vruntime_eligible(vruntime, None);
        assert_eq!([0, 100, 101, 201].map(eligible), [true, true, false, false]);
    }

    #[test]
    fn an_arrival_has_the_lag_with_which_it_left() {
        for (lag, weight) in [(0, 1024), (1_000_000, 1024), (-1_000_000, 1024), (500_000, 88761), (-2_000_000, 15)] {
            let mut queue = average(&[point(10_000_000, 1024), point(12_000_000, 1024)]);
            let arrival = Arrival { weight, slice: 2_800_000, vlag: lag, rel_deadline: None };
            let avg = queue.avg_vruntime(None);
            let placed = place_entity(&arrival, avg, queue.load(None), &EIGHT_CPUS);
            queue.add(point(placed.vruntime, weight));
            let after = queue.avg_vruntime(None) - placed.vruntime;
            assert!((after - lag).abs() <= 1, "lag {lag}, weight {weight}: {after}");
            assert_eq!(placed.deadline - placed.vruntime, calc_delta_fair(2_800_000, weight));
        }
        assert_eq!(deadline_of_new(Placed { vruntime: 10, deadline: 110 }, &EIGHT_CPUS), 60);
        let alone = Arrival { weight: 1024, slice: 2_800_000, vlag: 9, rel_deadline: Some(100) };
        assert_eq!(place_entity(&alone, 50, 0, &EIGHT_CPUS), Placed { vruntime: 50, deadline: 150 });
    }

    #[test]
    fn lag_is_limited_to_two_slices() {
        let lag = |vruntime, weight| entity_lag(0, vruntime, weight, 2_800_000, &EIGHT_CPUS);
        assert_eq!(lag(-1_000_000_000, 1024), 5_600_000);
        assert_eq!(lag(1_000_000_000, 1024), -5_600_000);
        assert_eq!(lag(1_000_000_000, 9548), -600_586);
        assert_eq!(entity_lag(0, 1_000_000_000, 1024, 100_000, &EIGHT_CPUS), -4_000_000, "at least a tick");
    }

    #[test]
    fn the_earliest_deadline_among_the_eligible_is_picked() {
        // key, virtual run time, deadline; all of nice 0. `c` is the current one.
        type Row = (char, i64, i64);
        type Case = (&'static str, Option<Row>, bool, &'static [Row], Option<char>);
        let table: [Case; 7] = [
            ("nobody", None, false, &[], None),
            ("alone, whatever its lag", Some(('c', 9, 9)), false, &[], Some('c')),
            ("earliest deadline", Some(('c', 0, 30)), false, &[('a', 0, 20), ('b', 0, 10)], Some('b')),
            ("only the eligible", Some(('c', 0, 30)), false, &[('a', 0, 20), ('b', 90, 10)], Some('a')),
            ("the protected goes on", Some(('c', 0, 30)), true, &[('a', 0, 20)], Some('c')),
            ("but not if it owes time", Some(('c', 50, 30)), true, &[('a', 0, 90)], Some('a')),
            ("of equals the queued", Some(('c', 0, 20)), false, &[('a', 0, 20), ('b', 0, 20)], Some('a')),
        ];
        for (case, curr, is_protected, queued, picked) in table {
            let average = average(&queued.iter().map(|&(_, v, _)| point(v, 1024)).collect::<Vec<_>>());
            let candidate = |&(key, vruntime, deadline): &Row| Candidate { key, vruntime, deadline };
            let curr = curr.as_ref().map(|row| (candidate(row), point(row.1, 1024)));
            assert_eq!(pick_eevdf(&average, curr, is_protected, queued.iter().map(candidate)), picked, "{case}");
        }
    }

    #[test]
    fn a_used_slice_moves_the_deadline() {
        assert_eq!(update_deadline(99, 100, 1024, 10), None);
        assert_eq!(update_deadline(100, 100, 1024, 10), Some(110));
        assert_eq!(update_deadline(105, 100, 512, 10), Some(125));
    }

    #[test]
    fn protection_lasts_to_the_deadline_and_since_6_17_for_the_shortest_slice() {
        let placed = Placed { vruntime: 1_000_000, deadline: 3_800_000 };
        let until = |tunables: Tunables, shortest| set_protect_slice(placed, 1024, 2_800_000, shortest, &tunables);
        assert_eq!(until(EIGHT_CPUS, 100_000), 3_800_000);
        let newer = Tunables { protection: Protection::ShortestSlice, ..EIGHT_CPUS };
        assert_eq!(until(newer, 2_800_000), 3_800_000);
        assert_eq!(until(newer, 100_000), 1_100_000);
        let without = |tunables: Tunables| {
            let features = Features { run_to_parity: false, ..tunables.features };
            Tunables { features, ..tunables }
        };
        assert_eq!(until(without(EIGHT_CPUS), 100_000), i64::MIN, "not at all");
        assert_eq!(until(without(newer), 100_000), 1_700_000, "the base slice of one CPU");
    }

    #[test]
    fn a_shorter_slice_ends_the_protection_of_who_would_have_to_wait() {
        let claim = |slice, deadline, is_eligible| Claim { slice, deadline, is_eligible };
        for (woken, curr, expected) in [
            (claim(100, 50, true), claim(200, 60, true), true),
            (claim(200, 50, true), claim(200, 60, true), false),
            (claim(100, 50, false), claim(200, 60, true), false),
            (claim(100, 70, true), claim(200, 60, true), false),
            (claim(100, 70, true), claim(200, 60, false), true),
        ] {
            assert_eq!(do_preempt_short(woken, curr, &EIGHT_CPUS), expected, "{woken:?} {curr:?}");
        }
    }
}
