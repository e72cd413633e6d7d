//! Who pays for a wait through a block device: every way to submit a request, by every way to complete it, by every way to be
//! woken; and what can happen to a request in between.
//!
//! ```text
//!            10        20         60  65        80 81
//! reader     sleeps ------------------------------ woken
//! victim               waits ---- runs, submits
//! request                             ---------- done      reader pays 40 for victim
//! ```

use std::fmt::Write;

use unstarve_model::{
    BlockRequest, Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time,
};
use unstarve_timeline::{NoSettings, Sink, Timeline, Wake, World};

/// Times of the scenes are in microseconds.
const MICRO: u64 = 1000;

fn task(tid: u32, comm: &str) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio::NORMAL))
}

fn idle() -> TaskRef {
    task(0, "swapper")
}

fn reader() -> TaskRef {
    task(100, "reader")
}

fn hog() -> TaskRef {
    task(300, "hog")
}

/// `reader pays 40 for victim (40 through a device)`, what each paid in all.
#[derive(Default)]
struct Paid(Vec<(String, String, u64, u64)>);

impl Sink for Paid {
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let payer = world.tasks.get(wake.wakee).comm.to_string();
        for price in wake.prices {
            let victim = world.name(price.victim);
            assert!(price.certain <= price.length && price.through_device <= price.length);
            self.0.push((payer.clone(), victim, price.length.0 / MICRO, price.through_device.0 / MICRO));
        }
    }
}

/// Events of three CPUs, in the order of their times.
#[derive(Clone, Default)]
struct Scene(Vec<Event>);

impl Scene {
    fn add(&mut self, time: u64, cpu: u32, by: (TaskRef, Context), kind: EventKind) {
        let issuer = Issuer::new(Some(by.0.tid()), by.1);
        self.0.push(Event { time: Time(time * MICRO), cpu: CpuId(cpu), issuer, kind });
    }

    fn switch(&mut self, time: u64, cpu: u32, prev: TaskRef, prev_state: PrevState, next: TaskRef) {
        self.add(time, cpu, (prev, Context::Task), EventKind::Switch { prev, prev_state, next });
    }

    fn wake(&mut self, time: u64, cpu: u32, by: (TaskRef, Context), task: TaskRef, target: u32) {
        self.add(time, cpu, by, EventKind::Waking { task, target_cpu: CpuId(target) });
        self.add(time, cpu, by, EventKind::Wakeup { task, target_cpu: CpuId(target) });
    }

    /// What was paid for somebody: `reader 40/40 victim`, the second number of it through a device.
    fn paid(&self) -> String {
        let mut events = self.0.clone();
        events.sort_by_key(|event| event.time);
        let mut timeline = Timeline::new(Some(3), None, Box::new(NoSettings));
        let mut paid = Paid::default();
        events.iter().for_each(|event| timeline.push(event, &mut paid));
        timeline.finish(&mut paid);
        let lines = paid.0.iter().map(|(payer, victim, all, through)| format!("{payer} {all}/{through} {victim}"));
        lines.collect::<Vec<_>>().join(", ")
    }
}

fn request(sector: u64, sectors: u32) -> BlockRequest {
    BlockRequest { device: 7 << 20, sector, sectors }
}

const WORK: u64 = 0xffff_8880_0000_1000;

fn queued() -> EventKind {
    EventKind::WorkQueued { work: WORK, function: None, workqueue: None }
}

/// Who submits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Submits {
    /// A program or a worker that waited, by itself.
    Task,
    /// The reader, whose driver hands the request to a worker that waits.
    Worker,
    /// ksoftirqd, which waited, in a softirq.
    Ksoftirqd,
    /// Into the queue, and the idle CPU's softirq issues it.
    TaskInserts,
    /// An interrupt on top of the victim.
    Interrupt,
}

const SUBMITS: [Submits; 5] =
    [Submits::Task, Submits::Worker, Submits::Ksoftirqd, Submits::TaskInserts, Submits::Interrupt];

impl Submits {
    fn victim(self) -> TaskRef {
        match self {
            Submits::Worker => task(200, "kworker/u8:1"),
            Submits::Ksoftirqd => task(201, "ksoftirqd/1"),
            _ => task(202, "victim"),
        }
    }

    /// The victim waits on CPU 1 from 20 to 60, and the request is submitted.
    fn play(self, scene: &mut Scene) {
        let victim = self.victim();
        scene.switch(1, 0, idle(), PrevState::Runnable, reader());
        scene.switch(1, 1, idle(), PrevState::Runnable, victim);
        scene.switch(2, 1, victim, PrevState::Sleeping, hog());
        scene.switch(1, 2, idle(), PrevState::Runnable, task(301, "other"));
        scene.switch(2, 2, task(301, "other"), PrevState::Sleeping, idle());
        if self == Submits::Worker {
            scene.add(8, 0, (reader(), Context::Task), EventKind::BlockIssue(request(64, 8)));
            scene.add(9, 0, (reader(), Context::Task), queued());
        }
        scene.switch(10, 0, reader(), PrevState::Uninterruptible, idle());
        scene.wake(20, 1, (hog(), Context::Hardirq), victim, 1);
        scene.switch(60, 1, hog(), PrevState::Preempted, victim);
        match self {
            Submits::Task => scene.add(65, 1, (victim, Context::Task), EventKind::BlockIssue(request(64, 8))),
            Submits::Worker => {
                scene.add(62, 1, (victim, Context::Task), EventKind::WorkStart { work: WORK, function: None });
                scene.add(66, 1, (victim, Context::Task), EventKind::WorkEnd { work: WORK, function: None });
            }
            Submits::Ksoftirqd => {
                scene.add(62, 1, (victim, Context::Softirq), EventKind::SoftirqEntry { vec: 4 });
                scene.add(65, 1, (victim, Context::Softirq), EventKind::BlockIssue(request(64, 8)));
                scene.add(66, 1, (victim, Context::Softirq), EventKind::SoftirqExit { vec: 4 });
            }
            Submits::TaskInserts => {
                scene.add(63, 1, (victim, Context::Task), EventKind::BlockInsert(request(64, 8)));
                scene.add(64, 2, (idle(), Context::Softirq), EventKind::SoftirqEntry { vec: 4 });
                scene.add(65, 2, (idle(), Context::Softirq), EventKind::BlockIssue(request(64, 8)));
                scene.add(66, 2, (idle(), Context::Softirq), EventKind::SoftirqExit { vec: 4 });
            }
            Submits::Interrupt => scene.add(65, 1, (victim, Context::Hardirq), EventKind::BlockIssue(request(64, 8))),
        }
        scene.switch(70, 1, victim, PrevState::Sleeping, hog());
    }

    fn expected(self) -> Option<&'static str> {
        match self {
            Submits::Task | Submits::TaskInserts => Some("victim"),
            Submits::Worker => Some("kworker/u8:1"),
            Submits::Ksoftirqd => Some("ksoftirqd/1"),
            Submits::Interrupt => None,
        }
    }
}

/// Who completes, on CPU 2 from 79 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Completes {
    /// A device's interrupt.
    Interrupt,
    /// A timer's, or one of another CPU, whose begin and end have no events.
    BareInterrupt,
    /// The softirq BLOCK on an idle CPU.
    Softirq,
    /// The same in ksoftirqd.
    Ksoftirqd,
    /// The thread of an interrupt.
    IrqThread,
    /// A worker, in a work item.
    Worker,
}

const COMPLETES: [Completes; 6] = [
    Completes::Interrupt,
    Completes::BareInterrupt,
    Completes::Softirq,
    Completes::Ksoftirqd,
    Completes::IrqThread,
    Completes::Worker,
];

const OTHER_WORK: u64 = 0xffff_8880_0000_2000;

impl Completes {
    fn by(self) -> (TaskRef, Context) {
        match self {
            Completes::Interrupt | Completes::BareInterrupt => (idle(), Context::Hardirq),
            Completes::Softirq => (idle(), Context::Softirq),
            Completes::Ksoftirqd => (task(28, "ksoftirqd/2"), Context::Softirq),
            Completes::IrqThread => (task(29, "irq/40-nvme"), Context::Task),
            Completes::Worker => (task(30, "kworker/2:1"), Context::Task),
        }
    }

    /// Begins, does `what`, and ends.
    fn play(self, scene: &mut Scene, what: impl FnOnce(&mut Scene, (TaskRef, Context))) {
        let by = self.by();
        if !by.0.tid().is_idle() {
            scene.switch(78, 2, idle(), PrevState::Runnable, by.0);
        }
        let (begin, end) = match self {
            Completes::Interrupt => {
                (Some(EventKind::IrqEntry { irq: 40, name: None }), Some(EventKind::IrqExit { irq: 40 }))
            }
            Completes::Softirq | Completes::Ksoftirqd => {
                (Some(EventKind::SoftirqEntry { vec: 4 }), Some(EventKind::SoftirqExit { vec: 4 }))
            }
            Completes::BareInterrupt | Completes::IrqThread => (None, None),
            Completes::Worker => (
                Some(EventKind::WorkStart { work: OTHER_WORK, function: None }),
                Some(EventKind::WorkEnd { work: OTHER_WORK, function: None }),
            ),
        };
        begin.into_iter().for_each(|kind| scene.add(79, 2, by, kind));
        what(scene, by);
        end.into_iter().for_each(|kind| scene.add(85, 2, by, kind));
    }

    /// It is over, and something else is done there.
    fn next(self, scene: &mut Scene) -> (TaskRef, Context) {
        let by = self.by();
        match self {
            Completes::Interrupt => scene.add(90, 2, by, EventKind::IrqEntry { irq: 41, name: None }),
            // No event shows that it is another one but the time that has passed.
            Completes::BareInterrupt => {}
            Completes::Softirq | Completes::Ksoftirqd => scene.add(90, 2, by, EventKind::SoftirqEntry { vec: 4 }),
            Completes::IrqThread => {
                scene.switch(90, 2, by.0, PrevState::Sleeping, task(301, "other"));
                scene.switch(91, 2, task(301, "other"), PrevState::Sleeping, by.0);
            }
            Completes::Worker => {
                scene.add(90, 2, by, EventKind::WorkStart { work: OTHER_WORK, function: None });
            }
        }
        by
    }
}

fn done() -> EventKind {
    EventKind::BlockComplete(request(64, 8))
}

#[test]
fn whoever_submits_and_whoever_completes_the_reader_pays_for_the_submitter() {
    for submits in SUBMITS {
        for completes in COMPLETES {
            let mut scene = Scene::default();
            submits.play(&mut scene);
            completes.play(&mut scene, |scene, by| {
                scene.add(80, 2, by, done());
                scene.wake(81, 2, by, reader(), 0);
            });
            let expected = submits.expected().map_or(String::new(), |victim| format!("reader 40/40 {victim}"));
            assert_eq!(scene.paid(), expected, "{submits:?}, {completes:?}");
        }
    }
}

#[test]
fn a_wakeup_that_is_not_for_this_completion_is_nobody_s_debt() {
    for completes in COMPLETES {
        // Before the completion, in the same handler.
        let mut scene = Scene::default();
        Submits::Task.play(&mut scene);
        completes.play(&mut scene, |scene, by| {
            scene.wake(79, 2, by, reader(), 0);
            scene.add(80, 2, by, done());
        });
        assert_eq!(scene.paid(), "", "before, {completes:?}");

        // After the completion of another request, of which nothing is known.
        let mut scene = Scene::default();
        Submits::Task.play(&mut scene);
        completes.play(&mut scene, |scene, by| {
            scene.add(80, 2, by, done());
            scene.add(80, 2, by, EventKind::BlockComplete(request(4096, 8)));
            scene.wake(81, 2, by, reader(), 0);
        });
        assert_eq!(scene.paid(), "", "after another completion, {completes:?}");

        // In the next handler of the same kind there, or the next turn of the same thread.
        let mut scene = Scene::default();
        Submits::Task.play(&mut scene);
        completes.play(&mut scene, |scene, by| scene.add(80, 2, by, done()));
        let by = completes.next(&mut scene);
        scene.wake(140, 2, by, reader(), 0);
        assert_eq!(scene.paid(), "", "in the next, {completes:?}");
    }
}

#[test]
fn an_interrupt_on_top_of_what_completes_is_not_part_of_it() {
    let mut scene = Scene::default();
    Submits::Task.play(&mut scene);
    Completes::Softirq.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, done());
        scene.wake(81, 2, (idle(), Context::Hardirq), reader(), 0);
    });
    assert_eq!(scene.paid(), "");

    // And does not end it.
    let mut scene = Scene::default();
    Submits::Task.play(&mut scene);
    Completes::Softirq.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, done());
        let inner = (idle(), Context::Hardirq);
        scene.add(81, 2, inner, EventKind::IrqEntry { irq: 40, name: None });
        scene.add(81, 2, inner, EventKind::BlockComplete(request(4096, 8)));
        scene.add(82, 2, inner, EventKind::IrqExit { irq: 40 });
        scene.wake(83, 2, by, reader(), 0);
    });
    assert_eq!(scene.paid(), "reader 40/40 victim");
}

/// What happens to the request that the victim issued at 65, and is done at 80.
#[test]
fn what_can_happen_to_a_request() {
    let victim = || (Submits::Task.victim(), Context::Task);
    let interrupt = || (hog(), Context::Hardirq);
    type Happens = Box<dyn Fn(&mut Scene)>;
    let table: Vec<(&str, Happens, BlockRequest, &str)> = vec![
        ("nothing", Box::new(|_| {}), request(64, 8), "reader 40/40 victim"),
        ("its device is another", Box::new(|_| {}), BlockRequest { device: 8 << 20, ..request(64, 8) }, ""),
        (
            "a part of it is done first",
            Box::new(move |scene| scene.add(72, 1, interrupt(), EventKind::BlockComplete(request(64, 2)))),
            request(66, 6),
            "reader 40/40 victim",
        ),
        (
            "all of it was done before",
            Box::new(move |scene| scene.add(72, 1, interrupt(), EventKind::BlockComplete(request(64, 8)))),
            request(64, 8),
            "",
        ),
        (
            "it was in the queue first, by the victim",
            Box::new(move |scene| scene.add(64, 1, victim(), EventKind::BlockInsert(request(64, 8)))),
            request(64, 8),
            "reader 40/40 victim",
        ),
        ("it was merged and begins elsewhere", Box::new(|_| {}), request(56, 16), ""),
        (
            "it is issued once more, by an interrupt",
            Box::new(move |scene| scene.add(72, 1, interrupt(), EventKind::BlockIssue(request(64, 8)))),
            request(64, 8),
            "",
        ),
        (
            "its completion is missing, and another is put in the same place",
            Box::new(move |scene| {
                scene.add(72, 1, interrupt(), EventKind::BlockInsert(request(64, 8)));
                scene.add(73, 1, interrupt(), EventKind::BlockIssue(request(64, 8)));
            }),
            request(64, 8),
            "",
        ),
        (
            "events of another CPU are lost",
            Box::new(move |scene| scene.add(72, 0, (idle(), Context::Unknown), EventKind::Lost { count: None })),
            request(64, 8),
            "",
        ),
        (
            "the submitter ends",
            Box::new(move |scene| {
                scene.switch(68, 1, victim().0, PrevState::Dead, hog());
                scene.switch(69, 1, hog(), PrevState::Preempted, task(202, "new"));
            }),
            request(64, 8),
            "reader 40/40 victim",
        ),
        (
            "another is issued there after it, on another CPU",
            Box::new(move |scene| scene.add(72, 1, interrupt(), EventKind::BlockIssue(request(128, 8)))),
            request(64, 8),
            "reader 40/40 victim",
        ),
    ];
    let mut shown = String::new();
    for (what, happens, done, expected) in table {
        let mut scene = Scene::default();
        Submits::Task.play(&mut scene);
        if what == "the submitter ends" {
            scene.0.retain(|event| event.time != Time(70 * MICRO));
        }
        happens(&mut scene);
        Completes::Interrupt.play(&mut scene, |scene, by| {
            scene.add(80, 2, by, EventKind::BlockComplete(done));
            scene.wake(81, 2, by, reader(), 0);
        });
        let paid = scene.paid();
        if paid != expected {
            writeln!(shown, "{what}: {paid:?}, not {expected:?}").expect("writing to a String");
        }
    }
    assert!(shown.is_empty(), "{shown}");
}

#[test]
fn requests_without_sectors_are_not_followed() {
    let mut scene = Scene::default();
    Submits::Task.play(&mut scene);
    scene.0.iter_mut().for_each(|event| {
        if let EventKind::BlockIssue(issued) = &mut event.kind {
            *issued = request(0, 0);
        }
    });
    Completes::Interrupt.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, EventKind::BlockComplete(request(0, 0)));
        scene.wake(81, 2, by, reader(), 0);
    });
    assert_eq!(scene.paid(), "");
}

#[test]
fn a_moment_is_paid_for_once_if_the_completing_thread_waited_too() {
    // The victim waits 20..60, ksoftirqd/2 50..78.
    for submits in [Submits::Task, Submits::Worker] {
        let mut scene = Scene::default();
        submits.play(&mut scene);
        let ksoftirqd = Completes::Ksoftirqd.by().0;
        let other = task(301, "other");
        scene.switch(45, 2, idle(), PrevState::Runnable, ksoftirqd);
        scene.switch(46, 2, ksoftirqd, PrevState::Sleeping, other);
        scene.wake(50, 2, (other, Context::Softirq), ksoftirqd, 2);
        scene.switch(77, 2, other, PrevState::Sleeping, idle());
        Completes::Ksoftirqd.play(&mut scene, |scene, by| {
            scene.add(80, 2, by, done());
            scene.wake(81, 2, by, reader(), 0);
        });
        let victim = submits.victim().comm().to_string();
        let expected = format!("reader 30/30 {victim}, reader 28/0 ksoftirqd/2");
        let swapped = format!("reader 28/0 ksoftirqd/2, reader 30/30 {victim}");
        let paid = scene.paid();
        assert!(paid == expected || paid == swapped, "{paid}");
    }
}

#[test]
fn a_worker_that_completes_by_itself_is_paid_once_and_not_through_the_device() {
    let mut scene = Scene::default();
    Submits::Worker.play(&mut scene);
    let worker = Submits::Worker.victim();
    scene.add(64, 1, (worker, Context::Task), done());
    scene.wake(65, 1, (worker, Context::Task), reader(), 0);
    assert_eq!(scene.paid(), "reader 40/0 kworker/u8:1");
}

#[test]
fn an_idle_worker_that_a_completion_wakes_pays_nothing_and_hands_it_on() {
    // dm-crypt: the interrupt queues the decryption, whose worker wakes the reader.
    let worker = task(30, "kworker/2:1");
    let mut scene = Scene::default();
    scene.switch(3, 2, idle(), PrevState::Runnable, worker);
    scene.switch(4, 2, worker, PrevState::Idle, idle());
    Submits::Task.play(&mut scene);
    Completes::Interrupt.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, done());
        scene.add(81, 2, by, queued());
        scene.wake(81, 2, by, worker, 2);
    });
    scene.switch(87, 2, idle(), PrevState::Runnable, worker);
    scene.add(88, 2, (worker, Context::Task), EventKind::WorkStart { work: WORK, function: None });
    scene.wake(89, 2, (worker, Context::Task), reader(), 0);
    let paid = scene.paid();
    assert!(paid.contains("reader 40/40 victim"), "{paid}");
    assert!(!paid.contains("kworker/2:1 4"), "{paid}");
}

#[test]
fn a_thread_that_is_woken_at_every_interrupt_s_end_pays_nothing() {
    let mut scene = Scene::default();
    let ksoftirqd = task(28, "ksoftirqd/2");
    Submits::Task.play(&mut scene);
    Completes::Interrupt.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, done());
        scene.wake(81, 2, by, ksoftirqd, 2);
    });
    assert_eq!(scene.paid(), "");
}

#[test]
fn a_request_that_waits_for_another_s_completion_takes_its_debts_over() {
    let mut scene = Scene::default();
    Submits::Task.play(&mut scene);
    Completes::Interrupt.play(&mut scene, |scene, by| {
        scene.add(72, 2, by, done());
        scene.add(73, 2, by, EventKind::BlockIssue(request(256, 8)));
    });
    // The order of the events counts: the handler began before.
    scene.0.iter_mut().filter(|event| matches!(event.kind, EventKind::IrqEntry { irq: 40, .. })).for_each(|event| {
        event.time = Time(71 * MICRO);
    });
    scene.add(100, 2, (idle(), Context::Hardirq), EventKind::IrqEntry { irq: 40, name: None });
    scene.add(101, 2, (idle(), Context::Hardirq), EventKind::BlockComplete(request(256, 8)));
    scene.wake(102, 2, (idle(), Context::Hardirq), reader(), 0);
    assert_eq!(scene.paid(), "reader 40/40 victim");
}

/// The driver's work item is queued already when the next request comes: its worker serves that, too.
#[test]
fn requests_that_find_the_work_queued_wait_for_the_same_worker() {
    let mut scene = Scene::default();
    let second = task(101, "second");
    Submits::Worker.play(&mut scene);
    scene.switch(11, 0, idle(), PrevState::Runnable, second);
    scene.add(12, 0, (second, Context::Task), EventKind::BlockIssue(request(512, 8)));
    scene.switch(13, 0, second, PrevState::Uninterruptible, idle());
    Completes::Softirq.play(&mut scene, |scene, by| {
        scene.add(80, 2, by, done());
        scene.wake(81, 2, by, reader(), 0);
        scene.add(82, 2, by, EventKind::BlockComplete(request(512, 8)));
        scene.wake(83, 2, by, second, 0);
    });
    assert_eq!(scene.paid(), "reader 40/40 kworker/u8:1, second 40/40 kworker/u8:1");
}

/// An interrupt on top of the submitter queues an item of its own before the driver queues the request's.
#[test]
fn an_interrupt_in_between_takes_no_link_away() {
    let mut scene = Scene::default();
    Submits::Worker.play(&mut scene);
    let of_interrupt = EventKind::WorkQueued { work: WORK + 64, function: None, workqueue: None };
    let at = scene.0.iter().position(|event| event.kind == queued()).expect("the driver queues");
    let issued = scene.0[at - 1];
    let issuer = Issuer::new(Some(reader().tid()), Context::Hardirq);
    scene.0.insert(at, Event { issuer, kind: of_interrupt, ..issued });
    scene.add(80, 2, (idle(), Context::Softirq), done());
    scene.wake(81, 2, (idle(), Context::Softirq), reader(), 0);
    assert_eq!(scene.paid(), "reader 40/40 kworker/u8:1");
}

/// The worker was in time for this request, and waits before it does another one's run of the same item.
#[test]
fn a_later_run_of_the_item_is_not_for_this_request() {
    let (worker, prompt) = (task(200, "kworker/u8:1"), task(203, "kworker/u8:2"));
    let mut scene = Scene::default();
    scene.switch(1, 0, idle(), PrevState::Runnable, reader());
    scene.switch(1, 2, idle(), PrevState::Runnable, prompt);
    scene.add(2, 0, (reader(), Context::Task), EventKind::BlockIssue(request(64, 8)));
    scene.add(3, 0, (reader(), Context::Task), queued());
    scene.add(4, 2, (prompt, Context::Task), EventKind::WorkStart { work: WORK, function: None });
    scene.add(5, 2, (prompt, Context::Task), EventKind::WorkEnd { work: WORK, function: None });
    scene.switch(6, 2, prompt, PrevState::Idle, idle());
    let another_runs_it = |scene: &mut Scene| {
        scene.switch(1, 1, idle(), PrevState::Runnable, worker);
        scene.switch(2, 1, worker, PrevState::Idle, hog());
        scene.wake(20, 1, (hog(), Context::Hardirq), worker, 1);
        scene.add(19, 1, (hog(), Context::Hardirq), queued());
        scene.switch(60, 1, hog(), PrevState::Preempted, worker);
        scene.add(62, 1, (worker, Context::Task), EventKind::WorkStart { work: WORK, function: None });
        scene.add(66, 1, (worker, Context::Task), EventKind::WorkEnd { work: WORK, function: None });
    };
    another_runs_it(&mut scene);
    scene.switch(10, 0, reader(), PrevState::Uninterruptible, idle());
    scene.add(80, 2, (idle(), Context::Softirq), done());
    scene.wake(81, 2, (idle(), Context::Softirq), reader(), 0);
    assert_eq!(scene.paid(), "");
}

/// Nobody has queued anything for the request, or the worker was done with it before.
#[test]
fn work_that_is_not_the_driver_s_links_nobody() {
    let late_queue = |at: u64, context: Context| {
        let mut scene = Scene::default();
        Submits::Worker.play(&mut scene);
        for event in scene.0.iter_mut().filter(|event| matches!(event.kind, EventKind::WorkQueued { .. })) {
            event.time = Time(at * MICRO / 10);
            event.issuer = Issuer::new(Some(reader().tid()), context);
        }
        Completes::Softirq.play(&mut scene, |scene, by| {
            scene.add(80, 2, by, done());
            scene.wake(81, 2, by, reader(), 0);
        });
        scene.paid()
    };
    assert_eq!(late_queue(90, Context::Task), "reader 40/40 kworker/u8:1", "as it is");
    assert_eq!(late_queue(90, Context::Hardirq), "", "an interrupt queued it");
    assert_eq!(late_queue(70, Context::Task), "", "before the request");
}

/// Without contexts the handler's events show where a wakeup belongs; without those too, it is inferred.
#[test]
fn without_contexts_handlers_show_what_belongs_together() {
    for completes in COMPLETES {
        let mut scene = Scene::default();
        Submits::Task.play(&mut scene);
        completes.play(&mut scene, |scene, by| {
            scene.add(80, 2, by, done());
            scene.wake(81, 2, by, reader(), 0);
        });
        for event in &mut scene.0 {
            event.issuer = Issuer::new(event.issuer.current(), Context::Unknown);
        }
        assert_eq!(scene.paid(), "reader 40/40 victim", "{completes:?}");
    }
}
