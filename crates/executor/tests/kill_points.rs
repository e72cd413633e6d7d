//! A guard that is killed anywhere, in the middle of a line too, leaves nothing that undo does not put back.
//!
//! The machine is a model and the kill is a panic, so ten thousand of them take a moment; the live tests kill real ones.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::Path;
use std::rc::Rc;

use unstarve_change::{Aspect, Place, TaskKey, Value};
use unstarve_executor::act;
use unstarve_executor::audit::Audit;
use unstarve_executor::host::Host;
use unstarve_executor::inherited_changes::{self, Kin};
use unstarve_executor::journal::{Contents, Journal, Step, Store};
use unstarve_model::{CpuId, SchedPolicy, Tid};

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

type Values = BTreeMap<(Place, Aspect), Value>;

/// A machine in memory. It writes, and then is killed or not; or is killed before. Each task may have a child at any moment,
/// which has what its parent has.
struct Model {
    values: Rc<RefCell<Values>>,
    fuse: Fuse,
    births: Option<Random>,
}

/// Children have these numbers above their parent's.
const CHILD: u32 = 100;

impl Model {
    /// Somebody forks, now and then.
    fn maybe_born(&mut self) {
        let Some(random) = &mut self.births else { return };
        if random.below(3) > 0 {
            return;
        }
        let parent = 1 + random.below(5) + CHILD * random.below(3);
        let child = task(parent + CHILD);
        let mut values = self.values.borrow_mut();
        let of_parent: Vec<_> = values.range((task(parent), Aspect::Class)..=(task(parent), Aspect::Content)).collect();
        let of_child: Vec<_> =
            of_parent.into_iter().map(|((_, aspect), value)| ((child.clone(), *aspect), value.clone())).collect();
        for (key, value) in of_child {
            values.entry(key).or_insert(value);
        }
    }
}

impl Host for Model {
    fn read(&self, target: &Place, aspect: Aspect) -> io::Result<Option<Value>> {
        Ok(self.values.borrow().get(&(target.clone(), aspect)).cloned())
    }

    fn is_there(&self, target: &Place) -> bool {
        self.values.borrow().keys().any(|(known, _)| known == target)
    }

    fn write(&mut self, target: &Place, value: &Value) -> io::Result<()> {
        self.maybe_born();
        if self.fuse.burn() {
            panic_any(Killed);
        }
        let key = (target.clone(), value.aspect());
        match self.values.borrow_mut().get_mut(&key) {
            None => return Err(io::Error::from_raw_os_error(3)),
            // As the kernel does with an affinity that a cpuset limits: what is read is not what was written.
            Some(slot) => {
                *slot = match value {
                    Value::Affinity(cpus) => Value::Affinity(cpus.iter().filter(|cpu| cpu.0 < 2).collect()),
                    other => other.clone(),
                }
            }
        }
        self.maybe_born();
        if self.fuse.burn() {
            panic_any(Killed);
        }
        Ok(())
    }

    fn heirs(&self, changes: &[Step]) -> Vec<Step> {
        let values = self.values.borrow();
        let tasks: BTreeSet<TaskKey> = values.keys().filter_map(|(target, _)| key_of(target)).collect();
        let kin: Vec<Kin> = tasks
            .iter()
            .map(|key| Kin { key: *key, tgid: key.tid, parent: Tid(key.tid.0.saturating_sub(CHILD)), has_ended: false })
            .collect();
        inherited_changes::find(&kin, changes, |key, aspect| values.get(&(Place::Task(key), aspect)).cloned())
    }
}

fn key_of(target: &Place) -> Option<TaskKey> {
    match target {
        Place::Task(key) => Some(*key),
        _ => None,
    }
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

fn task(number: u32) -> Place {
    // Children are born after anything that is changed.
    let start = if number < CHILD { u64::from(number) * 7 } else { u64::MAX };
    Place::Task(TaskKey { tid: Tid(number), start })
}

fn at_first() -> Values {
    let class = Value::Class { policy: SchedPolicy::Other, rt_priority: 0, slice: Some(2_000_000) };
    let values = |number: u32| {
        let cpus = Value::Affinity([CpuId(0), CpuId(1)].into_iter().collect());
        [class.clone(), Value::Nice(0), Value::Slice(2_000_000), Value::ResetOnFork(false), cpus]
            .map(|value| ((task(number), value.aspect()), value))
    };
    (1..=5).flat_map(values).collect()
}

fn any_value(random: &mut Random, aspect: Aspect) -> Value {
    let number = random.below(4);
    match aspect {
        Aspect::Class => Value::Class { policy: SchedPolicy::Fifo, rt_priority: 1 + number, slice: None },
        Aspect::Slice => Value::Slice(1_000_001 + u64::from(number) * 1_000_000),
        Aspect::ResetOnFork => Value::ResetOnFork(true),
        // The model's cpuset has the first two.
        Aspect::Affinity => Value::Affinity([CpuId(number % 2), CpuId(2 + number)].into_iter().collect()),
        _ => Value::Nice(number as i32 - 2),
    }
}

/// Some changes of what is there.
fn changes(random: &mut Random, values: &Values) -> Vec<Step> {
    let mut changes = Vec::new();
    for ((target, aspect), old) in values {
        let new = any_value(random, *aspect);
        if random.below(2) == 0 && !new.same(old) {
            changes.push(Step::new(target.clone(), "t", "rule", old.clone(), new));
        }
    }
    changes
}

/// One guard's life: undo what an earlier one left, apply twice, undo. Whether it was killed.
fn live(
    values: &Rc<RefCell<Values>>,
    disk: &Rc<RefCell<Vec<u8>>>,
    fuse: u32,
    random: &mut Random,
    applies: u32,
) -> bool {
    let fuse = Fuse(Rc::new(Cell::new(fuse)));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let births = (applies > 0).then(|| random.clone());
        let mut host = Model { values: values.clone(), fuse: fuse.clone(), births };
        let contents = Contents::parse(&disk.borrow(), "boot").unwrap();
        let store = Disk { bytes: disk.clone(), fuse: fuse.clone(), random: random.clone() };
        let open = contents.open.clone();
        let mut journal = Journal::over(store, Path::new("journal"), "boot", contents).unwrap();
        let mut audit = Audit::none();
        act::undo(&mut host, &mut journal, &mut audit, &open);
        for _ in 0..applies {
            let mut changes = changes(random, &values.borrow());
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
            let values = Rc::new(RefCell::new(at_first()));
            let disk = Rc::new(RefCell::new(Vec::new()));
            // A few guards in a row are killed, each at another point, before one may put things right.
            for _ in 0..=random.below(4) {
                let fuse = 1 + random.below(90);
                kills += u32::from(live(&values, &disk, fuse, &mut random, 2));
            }
            assert!(!live(&values, &disk, 0, &mut random, 0));
            for ((target, aspect), value) in values.borrow().iter() {
                let first = &at_first()[&(ancestor(target), *aspect)];
                assert!(
                    value.same(first),
                    "{target} has {value}, and its first ancestor began with {first}:\n{}",
                    String::from_utf8_lossy(&disk.borrow())
                );
            }
            born += values.borrow().len() / 4 - 5;
            let open = Contents::parse(&disk.borrow(), "boot").unwrap().open;
            assert!(open.is_empty(), "{open:?}");
        }
    });
    assert!(born > 5000, "only {born} children were born");
}

fn ancestor(target: &Place) -> Place {
    key_of(target).map_or_else(|| target.clone(), |key| task(key.tid.0 % CHILD))
}

#[test]
fn what_somebody_else_has_set_since_is_theirs() {
    let mut random = Random(7);
    let mut left = 0;
    quietly(|| {
        for _ in 0..300 {
            let values = Rc::new(RefCell::new(at_first()));
            let disk = Rc::new(RefCell::new(Vec::new()));
            live(&values, &disk, 1 + random.below(60), &mut random, 1);
            // Nobody of ours sets nice 7.
            let theirs = Value::Nice(7);
            let key = (task(3), Aspect::Nice);
            values.borrow_mut().insert(key.clone(), theirs.clone());
            assert!(!live(&values, &disk, 0, &mut random, 0));
            assert_eq!(values.borrow()[&key], theirs);
            for ((target, aspect), value) in values.borrow().iter().filter(|(other, _)| **other != key) {
                let first = &at_first()[&(ancestor(target), *aspect)];
                // A child may have what somebody else has set on its parent.
                assert!(value.same(first) || value.same(&theirs), "{target} has {value} and not {first}");
            }
            left += 1;
        }
    });
    assert_eq!(left, 300);
}

#[test]
fn what_the_kernel_made_of_a_value_is_recognised() {
    let key = (task(1), Aspect::Affinity);
    let cpus = |text: &str| Value::Affinity(text.parse().unwrap());
    let values = Rc::new(RefCell::new(Values::from([(key.clone(), cpus("0"))])));
    let disk = Rc::new(RefCell::new(Vec::new()));
    let fuse = Fuse(Rc::new(Cell::new(0)));
    let mut host = Model { values: values.clone(), fuse: fuse.clone(), births: None };
    let store = Disk { bytes: disk.clone(), fuse, random: Random(1) };
    let mut journal = Journal::over(store, Path::new("journal"), "boot", Contents::default()).unwrap();
    let mut changes = [Step::new(task(1), "t", "rule", cpus("0"), cpus("1-3"))];
    act::apply(&mut host, &mut journal, &mut Audit::none(), &mut changes).unwrap();
    assert_eq!(values.borrow()[&key], cpus("1"));
    let open = Contents::parse(&disk.borrow(), "boot").unwrap().open;
    let undone = act::undo(&mut host, &mut journal, &mut Audit::none(), &open);
    assert_eq!((undone.restored, &values.borrow()[&key]), (1, &cpus("0")));
}
