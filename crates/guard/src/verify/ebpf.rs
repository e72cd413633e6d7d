//! Loads the BPF programs of `src/bpf/waits.bpf.c` and reads their wait histograms. The only user of libbpf here.

use std::io;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags};
use rustc_hash::FxHashMap;

use super::still::{Still, runnable};
use super::{Fared, Tally, Waits};
use unstarve_change::TaskKey;
use unstarve_executor::sched;

#[allow(clippy::all, missing_docs, unused, unreachable_pub, clippy::undocumented_unsafe_blocks)]
mod waits {
    include!(concat!(env!("OUT_DIR"), "/waits.skel.rs"));
}

use waits::types::{fared as RawFared, watched as RawWatched};
use waits::{WaitsSkel, WaitsSkelBuilder};

/// `SETS` of waits.bpf.c.
const MOST_SETS: usize = 1024;
/// `BUCKETS` of waits.bpf.c.
const BUCKETS: usize = 192;

/// Measures waits in the kernel.
pub(super) struct Meter {
    /// Declared before the skeleton that owns the programs, so that it is dropped first.
    _links: Vec<Link>,
    skeleton: WaitsSkel<'static>,
    /// The set that each task is in.
    marked: FxHashMap<TaskKey, usize>,
    /// The rules that select each set's tasks.
    sets: Vec<Vec<usize>>,
    /// Tasks that were runnable when they were marked. The BPF programs do not see them before their next context switch.
    still: FxHashMap<TaskKey, Still>,
}

impl Meter {
    pub(super) fn open() -> Result<Meter, String> {
        libbpf_rs::set_print(None);
        let fail = |what: &'static str| move |error: libbpf_rs::Error| format!("{what}: {error:#}");
        // Lives until the process exits, which verifies once.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let open = WaitsSkelBuilder::default().open(storage).map_err(fail("the programs cannot be read"))?;
        let skeleton = open.load().map_err(fail("the kernel does not take the programs (CAP_BPF, CAP_PERFMON)"))?;
        let programs = &skeleton.progs;
        let mut links = Vec::new();
        for program in [&programs.woken, &programs.woken_first, &programs.switched] {
            links.push(program.attach().map_err(fail("the scheduler's tracepoints"))?);
        }
        Ok(Meter {
            _links: links,
            skeleton,
            marked: FxHashMap::default(),
            sets: Vec::new(),
            still: FxHashMap::default(),
        })
    }

    fn watched(&self, tid: &[u8]) -> io::Result<Option<RawWatched>> {
        let bytes = self.skeleton.maps.tasks.lookup(tid, MapFlags::ANY).map_err(io::Error::other)?;
        // SAFETY: plain integers, any bits are valid; the length is checked.
        let read = |bytes: Vec<u8>| unsafe { bytes.as_ptr().cast::<RawWatched>().read_unaligned() };
        Ok(bytes.filter(|bytes| bytes.len() >= size_of::<RawWatched>()).map(read))
    }
}

impl super::Meter for Meter {
    fn see(&mut self, task: TaskKey, rules: &[usize], _: bool) -> io::Result<()> {
        if rules.is_empty() || self.marked.get(&task).is_some_and(|&set| self.sets[set] == rules) {
            return Ok(());
        }
        let set = self.sets.iter().position(|set| set == rules).unwrap_or(self.sets.len());
        if set == self.sets.len() {
            if set == MOST_SETS {
                return Err(io::Error::other(format!(
                    "the rules select more than {MOST_SETS} different sets of tasks"
                )));
            }
            self.sets.push(rules.to_vec());
        }
        if self.marked.insert(task, set).is_none()
            && let Some(ran) = runnable(task)
        {
            self.still.insert(task, Still::new(ran, sched::monotonic_ns()));
        }
        let tid = task.tid.0.to_ne_bytes();
        // A task that moves to another set keeps its state.
        let known = self.watched(&tid)?.filter(|known| known.start == task.start);
        let watched = RawWatched { start: task.start, set: set as u64, ..known.unwrap_or_default() };
        // SAFETY: plain integers without padding.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const watched).cast::<u8>(), size_of::<RawWatched>()) };
        self.skeleton.maps.tasks.update(&tid, bytes, MapFlags::ANY).map_err(io::Error::other)
    }

    fn so_far(&mut self, rules: usize) -> io::Result<Vec<Fared>> {
        let now = sched::monotonic_ns();
        let mut sums: Vec<Sum> = (0..self.sets.len()).map(|set| self.sum(set)).collect::<io::Result<_>>()?;
        for (task, set) in &self.marked {
            let watched = self.watched(&task.tid.0.to_ne_bytes())?.filter(|watched| watched.start == task.start);
            let waited = self.still.get_mut(task).map_or(0, |still| {
                // The BPF programs count it from its next context switch on.
                if watched.is_some_and(|watched| watched.seen == 0) {
                    still.look(runnable(*task), now);
                }
                still.waited
            });
            sums[*set].wait(waited);
            // A task that loses its CPU is not seen before its next context switch; it waits for that.
            match watched.filter(|watched| watched.seen > 0 || watched.waiting > 0) {
                Some(watched) => {
                    sums[*set].tasks += 1;
                    sums[*set].open(&watched, now);
                }
                None => sums[*set].tasks += usize::from(waited > 0),
            }
        }
        let mut of_rules: Vec<Sum> = (0..rules).map(|_| Sum::default()).collect();
        for (set, sum) in self.sets.iter().zip(&sums) {
            set.iter().for_each(|&rule| of_rules[rule].merge(sum));
        }
        Ok(of_rules.iter().map(Sum::fared).collect())
    }
}

impl Meter {
    /// The counts of a set, summed over all CPUs.
    fn sum(&self, set: usize) -> io::Result<Sum> {
        let mut sum = Sum::default();
        let set = (set as u32).to_ne_bytes();
        let cpus = self.skeleton.maps.sums.lookup_percpu(&set, MapFlags::ANY).map_err(io::Error::other)?;
        for bytes in cpus.unwrap_or_default() {
            if bytes.len() >= size_of::<RawFared>() {
                // SAFETY: plain integers, any bits are valid; the length is checked.
                let fared = unsafe { bytes.as_ptr().cast::<RawFared>().read_unaligned() };
                sum.merge(&Sum::from(&fared));
            }
        }
        Ok(sum)
    }
}

/// Sums of the tasks of a set or of a rule.
struct Sum {
    tasks: usize,
    count: u64,
    waited: u64,
    ran: u64,
    longest: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { tasks: 0, count: 0, waited: 0, ran: 0, longest: 0, buckets: [0; BUCKETS] }
    }
}

impl From<&RawFared> for Sum {
    fn from(fared: &RawFared) -> Sum {
        let RawFared { waits, waited, ran, longest, buckets } = *fared;
        Sum { tasks: 0, count: waits, waited, ran, longest, buckets }
    }
}

impl Sum {
    fn merge(&mut self, other: &Sum) {
        self.tasks += other.tasks;
        self.count += other.count;
        self.waited += other.waited;
        self.ran += other.ran;
        self.longest = self.longest.max(other.longest);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
    }

    /// Adds a wait or run still in progress up to now: it may be the longest of all.
    fn open(&mut self, watched: &RawWatched, now: u64) {
        if watched.waiting > 0 {
            self.wait(now.saturating_sub(watched.waiting));
        }
        if watched.running > 0 {
            self.ran += now.saturating_sub(watched.running);
        }
    }

    fn wait(&mut self, ns: u64) {
        if ns > 0 {
            self.count += 1;
            self.waited += ns;
            self.longest = self.longest.max(ns);
            self.buckets[bucket(ns)] += 1;
        }
    }

    fn quantile(&self, part: f64) -> u64 {
        let mut left = (self.count as f64 * part).ceil() as u64;
        for (at, count) in self.buckets.iter().enumerate() {
            left = left.saturating_sub(*count);
            if left == 0 {
                return lower_end(at);
            }
        }
        self.longest
    }

    fn fared(&self) -> Fared {
        let waits =
            Waits { count: self.count, p50_ns: self.quantile(0.5), p99_ns: self.quantile(0.99), max_ns: self.longest };
        let sum = Tally { ran_ns: self.ran, waited_ns: self.waited, waits: self.count, lasted_ns: 0 };
        Fared {
            tasks: self.tasks,
            ran_ns: self.ran,
            waited_ns: self.waited,
            waits: (self.count > 0).then_some(waits),
            slices: vec![sum],
        }
    }
}

/// `bucket` of waits.bpf.c: four for each power of two; the first eight for times below 8 ns.
fn bucket(ns: u64) -> usize {
    let power = (ns | 4).ilog2();
    (power as usize * 4 + (ns >> (power - 2) & 3) as usize).min(BUCKETS - 1)
}

fn lower_end(bucket: usize) -> u64 {
    let part = bucket as u64 & 3;
    if bucket < 12 { part } else { (4 + part) << (bucket / 4 - 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_in_the_step_that_begins_at_or_before_it() {
        for ns in (0..200).chain([1_000, 4_095, 4_096, 1_000_000, 123_456_789, 1 << 40]) {
            let at = bucket(ns);
            assert!(lower_end(at) <= ns, "{ns} in {at}");
            assert!(ns < 12 || lower_end(at + 1) > ns, "{ns} in {at}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_wait_that_has_not_ended_counts() {
        let mut sum = Sum::default();
        sum.open(&RawWatched { waiting: 1_000, ..RawWatched::default() }, 5_000_000);
        let waits = sum.fared().waits.unwrap();
        assert_eq!((waits.count, waits.max_ns, waits.p99_ns), (1, 4_999_000, lower_end(bucket(4_999_000))));
    }
}
