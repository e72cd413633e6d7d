//! Who pays by way of a softirq: what the current task sent or completed is its own work; what an interrupt raised is nobody's. Every
//! kind of softirq, by who is current in it, by whether raises are recorded.

use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, EventSet, EventType, Issuer, PrevState, Prio, TaskRef, Tid, Time,
};
use unstarve_timeline::{NoSettings, Sink, Timeline, Wake, World};

const ROUNDS: u64 = 20;
/// Times of the scene are in microseconds.
const MICRO: u64 = 1000;

fn task(tid: u32, comm: &str) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio::NORMAL))
}

/// What the client paid for the server, in all rounds.
#[derive(Default)]
struct Paid {
    length: u64,
    certain: u64,
}

impl Sink for Paid {
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        for price in wake.prices.iter().filter(|price| world.name(price.victim) == "server") {
            self.length += price.length.0 / MICRO;
            self.certain += price.certain.0 / MICRO;
        }
    }
}

/// Who is current when the softirq wakes the client.
#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    /// The server, each time.
    Server,
    /// Whom an interrupt finds: the hog in nine of ten rounds.
    Anybody,
}

/// What the recording says of raises.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Raise {
    NotRecorded,
    /// Recorded, and the current task raised it.
    ByTask,
    /// Recorded, and an interrupt raised it.
    ByInterrupt,
}

/// In each round of 100 the client sleeps while the server waits 40 behind the hog and then runs for 10.
fn paid(vec: u8, at: At, raise: Raise) -> Paid {
    let all =
        EventType::ALL.iter().copied().filter(|&event| raise != Raise::NotRecorded || event != EventType::SoftirqRaise);
    let mut timeline = Timeline::new(Some(2), Some(all.collect::<EventSet>()), Box::new(NoSettings));
    let (server, client, hog, idle) = (task(10, "server"), task(20, "client"), task(30, "hog"), task(0, "swapper"));
    let mut events: Vec<Event> = Vec::new();
    let mut add = |time: u64, cpu: u32, by: TaskRef, context: Context, kind: EventKind| {
        events.push(Event {
            time: Time(time * MICRO),
            cpu: CpuId(cpu),
            issuer: Issuer::new(Some(by.tid()), context),
            kind,
        });
    };
    for round in 0..ROUNDS {
        let start = 1000 + 100 * round;
        let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
        let (waking, wakeup) = (
            EventKind::Waking { task: server, target_cpu: CpuId(0) },
            EventKind::Wakeup { task: server, target_cpu: CpuId(0) },
        );
        add(start, 1, client, Context::Task, waking);
        add(start, 1, client, Context::Task, wakeup);
        add(start + 1, 1, client, Context::Task, switch(client, PrevState::Sleeping, idle));
        let (wakes_at, current) = match at {
            At::Anybody if round % 10 > 0 => (start + 70, hog),
            _ => (start + 45, server),
        };
        add(start + 41, 0, hog, Context::Task, switch(hog, PrevState::Runnable, server));
        add(start + 51, 0, server, Context::Task, switch(server, PrevState::Sleeping, hog));
        match raise {
            Raise::NotRecorded => {}
            Raise::ByTask => add(wakes_at - 1, 0, current, Context::Task, EventKind::SoftirqRaise { vec }),
            Raise::ByInterrupt => add(wakes_at - 1, 0, current, Context::Hardirq, EventKind::SoftirqRaise { vec }),
        }
        add(wakes_at, 0, current, Context::Softirq, EventKind::SoftirqEntry { vec });
        let woken = EventKind::Waking { task: client, target_cpu: CpuId(1) };
        add(wakes_at + 1, 0, current, Context::Softirq, woken);
        add(wakes_at + 2, 0, current, Context::Softirq, EventKind::SoftirqExit { vec });
        add(start + 80, 1, idle, Context::Task, switch(idle, PrevState::Runnable, client));
    }
    events.sort_by_key(|event| event.time);
    let mut paid = Paid::default();
    events.iter().for_each(|event| timeline.push(event, &mut paid));
    timeline.finish(&mut paid);
    paid
}

#[test]
fn a_softirq_of_what_the_task_sends_or_completes_is_its_own_work() {
    for vec in 0..10 {
        // NET_TX, NET_RX, BLOCK: `include/linux/interrupt.h`.
        let sends = [2, 3, 4].contains(&vec);
        for (at, raise, part) in [
            (At::Server, Raise::ByTask, if sends { 1.0 } else { 0.0 }),
            (At::Server, Raise::ByInterrupt, 0.0),
            // The first rounds have nothing to be compared with.
            (At::Server, Raise::NotRecorded, if sends { 0.9 } else { 0.0 }),
            (At::Anybody, Raise::ByInterrupt, 0.0),
            (At::Anybody, Raise::NotRecorded, 0.0),
        ] {
            let paid = paid(vec, at, raise);
            let (least, most) = (part * 40.0 * ROUNDS as f64, if part > 0.0 { 40 * ROUNDS } else { 40 });
            let cell = format!("softirq {vec}, {at:?} current, raise {raise:?}: {} µs", paid.length);
            assert!(paid.length as f64 >= least && paid.length <= most, "{cell}");
            let proved = if raise == Raise::NotRecorded { 0 } else { paid.length };
            assert_eq!(paid.certain, proved, "{cell}");
        }
    }
}
