//! Who pays by way of a softirq: what the current task sent or completed is its own work; what an interrupt raised is nobody's. Every
//! kind of softirq, by what shows who raised it.

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time};
use unstarve_timeline::{NoSettings, Sink, Timeline, Wake, World};

/// Times of the scene are in microseconds.
const MICRO: u64 = 1000;

/// TIMER, NET_TX, NET_RX, BLOCK and RCU, in `include/linux/interrupt.h`.
const TIMER: u8 = 1;
const SENT_OR_COMPLETED: [u8; 3] = [2, 3, 4];
const TASKLET: u8 = 6;
const RCU: u8 = 9;

/// What shows who raised the softirq that wakes the client.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Raise {
    /// Nothing.
    NotShown,
    /// `softirq_raise` of the server.
    OfTask,
    /// `softirq_raise` of an interrupt.
    OfInterrupt,
    /// The server wakes the ksoftirqd of its CPU.
    WakesKsoftirqd,
    /// It wakes another CPU's.
    WakesAnother,
    /// An interrupt wakes it.
    InterruptWakesKsoftirqd,
    /// The server wakes it, and then an interrupt comes.
    WakesKsoftirqdAndInterrupt,
    /// The server wakes it, and another softirq is served first.
    WakesKsoftirqdAndIsServed,
    /// A task does that was switched out since.
    TaskBeforeWakesKsoftirqd,
}

fn task(tid: u32, comm: &str) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio::NORMAL))
}

/// What the client paid, `40 server`, with a question mark for what is inferred.
#[derive(Default)]
struct Paid(Vec<String>);

impl Sink for Paid {
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        for price in wake.prices {
            let how = if price.certain == price.length { "" } else { "?" };
            self.0.push(format!("{} {}{how}", price.length.0 / MICRO, world.name(price.victim)));
        }
    }
}

/// The client sleeps while the server, a kernel thread or a program, waits for 40 behind the hog; the server then runs for 20, and in
/// it a softirq wakes the client.
fn paid(server: TaskRef, vec: u8, raise: Raise) -> String {
    let mut timeline = Timeline::new(Some(2), None, Box::new(NoSettings));
    let (client, hog, idle) = (task(20, "client"), task(30, "hog"), task(0, "swapper"));
    let (ksoftirqd, another) = (task(15, "ksoftirqd/0"), task(16, "ksoftirqd/1"));
    let mut events: Vec<Event> = Vec::new();
    let mut add = |time: u64, cpu: u32, by: TaskRef, context: Context, kind: EventKind| {
        events.push(Event {
            time: Time(time * MICRO),
            cpu: CpuId(cpu),
            issuer: Issuer::new(Some(by.tid()), context),
            kind,
        });
    };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let waking = |task, cpu| EventKind::Waking { task, target_cpu: CpuId(cpu) };
    add(0, 1, idle, Context::Task, switch(idle, PrevState::Runnable, client));
    add(0, 0, idle, Context::Task, switch(idle, PrevState::Runnable, hog));
    add(10, 1, client, Context::Task, waking(server, 0));
    add(11, 1, client, Context::Task, switch(client, PrevState::Sleeping, idle));
    if raise == Raise::TaskBeforeWakesKsoftirqd {
        add(45, 0, hog, Context::Task, waking(ksoftirqd, 0));
    }
    add(51, 0, hog, Context::Task, switch(hog, PrevState::Runnable, server));
    match raise {
        Raise::NotShown | Raise::TaskBeforeWakesKsoftirqd => {}
        Raise::OfTask => add(55, 0, server, Context::Task, EventKind::SoftirqRaise { vec }),
        Raise::OfInterrupt => add(55, 0, server, Context::Hardirq, EventKind::SoftirqRaise { vec }),
        Raise::WakesKsoftirqd | Raise::WakesKsoftirqdAndInterrupt => {
            add(55, 0, server, Context::Task, waking(ksoftirqd, 0))
        }
        Raise::WakesKsoftirqdAndIsServed => {
            add(53, 0, server, Context::Task, waking(ksoftirqd, 0));
            add(54, 0, server, Context::Softirq, EventKind::SoftirqEntry { vec: TASKLET });
            add(55, 0, server, Context::Softirq, EventKind::SoftirqExit { vec: TASKLET });
        }
        Raise::WakesAnother => add(55, 0, server, Context::Task, waking(another, 1)),
        Raise::InterruptWakesKsoftirqd => add(55, 0, server, Context::Hardirq, waking(ksoftirqd, 0)),
    }
    if raise == Raise::WakesKsoftirqdAndInterrupt {
        add(56, 0, server, Context::Hardirq, EventKind::IrqEntry { irq: 24, name: None });
        add(57, 0, server, Context::Hardirq, EventKind::IrqExit { irq: 24 });
    }
    add(60, 0, server, Context::Softirq, EventKind::SoftirqEntry { vec });
    add(61, 0, server, Context::Softirq, waking(client, 1));
    add(62, 0, server, Context::Softirq, EventKind::SoftirqExit { vec });
    add(70, 0, server, Context::Task, switch(server, PrevState::Sleeping, hog));
    let mut paid = Paid::default();
    events.sort_by_key(|event| event.time);
    events.iter().for_each(|event| timeline.push(event, &mut paid));
    timeline.finish(&mut paid);
    paid.0.join(", ")
}

#[test]
fn a_softirq_of_what_the_task_sends_or_completes_is_its_own_work() {
    let (program, thread) = (task(10, "server"), task(10, "kworker/0:1H"));
    for vec in 0..10 {
        let sends = SENT_OR_COMPLETED.contains(&vec);
        let of_kernel_threads = [TIMER, RCU].contains(&vec);
        let own = |server: &TaskRef, is_own: bool, how: &str| {
            if is_own { format!("40 {}{how}", server.comm()) } else { String::new() }
        };
        for server in [program, thread] {
            let is_thread = server.comm() == thread.comm();
            for (raise, expected) in [
                (Raise::NotShown, String::new()),
                (Raise::OfTask, own(&server, sends || of_kernel_threads && is_thread, "")),
                (Raise::OfInterrupt, String::new()),
                (Raise::WakesKsoftirqd, own(&server, sends, "?")),
                (Raise::WakesAnother, String::new()),
                (Raise::InterruptWakesKsoftirqd, String::new()),
                (Raise::WakesKsoftirqdAndInterrupt, String::new()),
                (Raise::WakesKsoftirqdAndIsServed, String::new()),
                (Raise::TaskBeforeWakesKsoftirqd, String::new()),
            ] {
                assert_eq!(paid(server, vec, raise), expected, "softirq {vec} of {}, {raise:?}", server.comm());
            }
        }
    }
}
