//! A guard that is killed anywhere, in the middle of a line too, leaves nothing that undo does not put back.
//!
//! The host is one in memory and the kill is a panic, so ten thousand of them take a moment; the live tests kill real ones.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::Path;
use std::rc::Rc;

use unstarve_change::{Aspect, Place, TaskKey, Value};
use unstarve_executor::act;
use unstarve_executor::audit::Audit;
use unstarve_executor::journal::{Contents, Journal, Step, Store};
use unstarve_model::{CpuId, SchedPolicy, Tid};
use unstarve_testing::fake_host::FakeHost;

/// What a kill throws.
struct Killed;

/// Counts down effects; at 0 the guard is killed.
#[derive(Clone)]
struct Fuse(Rc<Cell<u32>>);

impl Fuse {
    fn burn(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 1
    }
}

/// Children have these numbers above their parent's.
const CHILD: u32 = 100;

/// The host writes and the guard is killed, or not; or it is killed before. Each task may have a child at any moment.
fn kill_at_writes(host: &FakeHost, fuse: Fuse, births: Option<Random>) {
    let births = RefCell::new(births);
    host.at_write(move |host| {
        if let Some(random) = births.borrow_mut().as_mut() {
            maybe_born(host, random);
        }
        if fuse.burn() {
            panic_any(Killed);
        }
    });
}

/// Somebody forks, now and then.
fn maybe_born(host: &FakeHost, random: &mut Random) {
    if random.below(3) > 0 {
        return;
    }
    let parent = 1 + random.below(5) + CHILD * random.below(3);
    host.fork_as(Tid(parent), key(parent + CHILD));
}

/// A disk that keeps a part of what was being written when the power went.
struct Disk {
    bytes: Rc<RefCell<Vec<u8>>>,
    fuse: Fuse,
    random: Random,
}

impl Store for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.fuse.burn() {
            let kept = self.random.below(bytes.len() as u32 + 1) as usize;
            self.bytes.borrow_mut().extend_from_slice(&bytes[..kept]);
            panic_any(Killed);
        }
        self.bytes.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }
}

/// Knuth's generator: the same kills in each run.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit.max(1))) as u32
    }
}

fn key(number: u32) -> TaskKey {
    // Children are born after anything that is changed.
    let start = if number < CHILD { u64::from(number) * 7 } else { u64::MAX };
    TaskKey { tid: Tid(number), start }
}

/// A cpuset has the first two CPUs: what is read of an affinity is not what was written.
fn five_tasks() -> FakeHost {
    let host = FakeHost::default().limited_to("0-1".parse().unwrap());
    (1..=5).fold(host, |host, number| host.program(number, key(number).start, "t"))
}

/// All that can be set, of each task.
fn values(host: &FakeHost) -> Vec<(TaskKey, Value)> {
    let aspects = [Aspect::Class, Aspect::Nice, Aspect::Slice, Aspect::Affinity, Aspect::ResetOnFork];
    let of = |key: TaskKey| aspects.iter().filter_map(move |aspect| Some((key, host.value(key.tid, *aspect)?)));
    host.threads().into_iter().flat_map(|thread| of(thread.key)).collect()
}

/// What the first ancestor of a task began with.
fn at_first(key: TaskKey, aspect: Aspect) -> Value {
    five_tasks().value(Tid(key.tid.0 % CHILD), aspect).unwrap()
}

fn any_value(random: &mut Random, aspect: Aspect) -> Value {
    let number = random.below(4);
    match aspect {
        Aspect::Class => Value::Class { policy: SchedPolicy::Fifo, rt_priority: 1 + number, slice: None },
        Aspect::Slice => Value::Slice(1_000_001 + u64::from(number) * 1_000_000),
        Aspect::ResetOnFork => Value::ResetOnFork(true),
        // The cpuset has the first two.
        Aspect::Affinity => Value::Affinity([CpuId(number % 2), CpuId(2 + number)].into_iter().collect()),
        _ => Value::Nice(number as i32 - 2),
    }
}

/// Some changes of what is there.
fn changes(random: &mut Random, host: &FakeHost) -> Vec<Step> {
    let mut changes = Vec::new();
    for (key, old) in values(host) {
        let new = any_value(random, old.aspect());
        if random.below(2) == 0 && !new.same(&old) {
            changes.push(Step::new(Place::Task(key), "t", "rule", old, new));
        }
    }
    changes
}

/// One guard's life: undo what an earlier one left, apply twice, undo. Whether it was killed.
fn live(host: &FakeHost, disk: &Rc<RefCell<Vec<u8>>>, fuse: u32, random: &mut Random, applies: u32) -> bool {
    let fuse = Fuse(Rc::new(Cell::new(fuse)));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let births = (applies > 0).then(|| random.clone());
        let mut host = host.clone();
        kill_at_writes(&host, fuse.clone(), births);
        let contents = Contents::parse(&disk.borrow(), "boot").unwrap();
        let store = Disk { bytes: disk.clone(), fuse: fuse.clone(), random: random.clone() };
        let open = contents.open.clone();
        let mut journal = Journal::over(store, Path::new("journal"), "boot", contents).unwrap();
        let mut audit = Audit::none();
        act::undo(&mut host, &mut journal, &mut audit, &open);
        for _ in 0..applies {
            let mut changes = changes(random, &host);
            act::apply(&mut host, &mut journal, &mut audit, &mut changes).unwrap();
        }
        if applies > 0 {
            let open = journal.open_changes();
            assert_eq!(open, Contents::parse(&disk.borrow(), "boot").unwrap().open, "memory and disk say the same");
            act::undo(&mut host, &mut journal, &mut audit, &open);
        }
    }));
    random.below(1);
    match result {
        Ok(()) => false,
        Err(thrown) if thrown.is::<Killed>() => true,
        Err(thrown) => std::panic::resume_unwind(thrown),
    }
}

fn quietly<T>(run: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Killed>() {
            hook(info);
        }
    }));
    run()
}

#[test]
fn after_ten_thousand_kills_everything_is_as_it_began() {
    let mut random = Random(20_240_501);
    let (mut kills, mut born) = (0, 0);
    quietly(|| {
        while kills < 10_000 {
            let host = five_tasks();
            let disk = Rc::new(RefCell::new(Vec::new()));
            // A few guards in a row are killed, each at another point, before one may put things right.
            for _ in 0..=random.below(4) {
                let fuse = 1 + random.below(90);
                kills += u32::from(live(&host, &disk, fuse, &mut random, 2));
            }
            assert!(!live(&host, &disk, 0, &mut random, 0));
            for (key, value) in values(&host) {
                let first = at_first(key, value.aspect());
                assert!(
                    value.same(&first),
                    "{key:?} has {value}, and its first ancestor began with {first}:\n{}",
                    String::from_utf8_lossy(&disk.borrow())
                );
            }
            born += host.threads().len() - 5;
            let open = Contents::parse(&disk.borrow(), "boot").unwrap().open;
            assert!(open.is_empty(), "{open:?}");
        }
    });
    assert!(born > 5000, "only {born} children were born");
}

#[test]
fn what_somebody_else_has_set_since_is_theirs() {
    let mut random = Random(7);
    let mut left = 0;
    quietly(|| {
        for _ in 0..300 {
            let host = five_tasks();
            let disk = Rc::new(RefCell::new(Vec::new()));
            live(&host, &disk, 1 + random.below(60), &mut random, 1);
            // Nobody of ours sets nice 7.
            let theirs = Value::Nice(7);
            host.set(Tid(3), theirs.clone());
            assert!(!live(&host, &disk, 0, &mut random, 0));
            assert_eq!(host.value(Tid(3), Aspect::Nice).as_ref(), Some(&theirs));
            for (key, value) in values(&host) {
                let first = at_first(key, value.aspect());
                // A child may have what somebody else has set on its parent.
                assert!(value.same(&first) || value.same(&theirs), "{key:?} has {value} and not {first}");
            }
            left += 1;
        }
    });
    assert_eq!(left, 300);
}

#[test]
fn what_the_kernel_made_of_a_value_is_recognised() {
    let cpus = |text: &str| Value::Affinity(text.parse().unwrap());
    let mut host = five_tasks();
    host.set(Tid(1), cpus("0"));
    let disk = Rc::new(RefCell::new(Vec::new()));
    let fuse = Fuse(Rc::new(Cell::new(0)));
    let store = Disk { bytes: disk.clone(), fuse, random: Random(1) };
    let mut journal = Journal::over(store, Path::new("journal"), "boot", Contents::default()).unwrap();
    let mut changes = [Step::new(Place::Task(key(1)), "t", "rule", cpus("0"), cpus("1-3"))];
    act::apply(&mut host, &mut journal, &mut Audit::none(), &mut changes).unwrap();
    let is = |host: &FakeHost| host.value(Tid(1), Aspect::Affinity).unwrap();
    assert_eq!(is(&host), cpus("1"));
    let open = Contents::parse(&disk.borrow(), "boot").unwrap().open;
    let undone = act::undo(&mut host, &mut journal, &mut Audit::none(), &open);
    assert_eq!((undone.restored, is(&host)), (1, cpus("0")));
}
