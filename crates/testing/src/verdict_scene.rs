//! Recordings for every combination of victim, cause, length, open or finished wait, and payer. Each is half a minute
//! of ftrace text whose truth is known by construction. All commands must judge it alike.

use std::fmt::Write as _;

/// Half a minute: fractions of it stay small unless a wait takes seconds.
pub const SPAN_MS: u64 = 30_000;
/// When the wait begins, if it ends in the recording.
const BEGIN_MS: u64 = 2_000;
/// Lengths of waits.
pub const LENGTHS_MS: [u64; 7] = [3, 20, 60, 150, 300, 3_000, 20_000];

/// A task in the text.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Its name.
    pub comm: &'static str,
    /// Its thread id; 0 is the idle task.
    pub tid: u32,
    /// The kernel's priority: 120 is nice 0, below 100 is real-time.
    pub prio: i32,
    /// The work function of a worker, if recorded.
    pub work: Option<&'static str>,
}

const fn task(comm: &'static str, tid: u32, prio: i32) -> Task {
    Task { comm, tid, prio, work: None }
}

const fn worker(comm: &'static str, tid: u32, work: &'static str) -> Task {
    Task { comm, tid, prio: 120, work: Some(work) }
}

/// The idle task.
pub const IDLE: Task = task("swapper/3", 0, 120);

/// Kernel threads that serve others.
pub const SERVING: [Task; 6] = [
    worker("kworker/3:1", 52, "iomap_dio_complete_work"),
    task("ksoftirqd/3", 40, 120),
    task("rcu_preempt", 17, 120),
    task("jbd2/vda1-8", 300, 120),
    task("nfsd", 700, 120),
    task("kswapd0", 90, 120),
];
/// Housekeeping threads, and workers with unknown work.
pub const HOUSEKEEPING: [Task; 3] =
    [task("kworker/3:1", 52, 120), worker("kworker/3:2", 53, "vmstat_update"), task("kcompactd0", 91, 120)];
/// Real-time tasks.
pub const REAL_TIME: [Task; 2] = [task("motor-ctl", 77, 59), task("irq/27-eth0", 78, 59)];
/// Programs.
pub const PROGRAMS: [Task; 1] = [task("postgres", 800, 120)];
/// Tasks that asked to be last (nice 19).
pub const LAST: [Task; 2] = [task("updatedb", 900, 139), task("khugepaged", 92, 139)];

/// ftrace text under construction.
struct Scene(String);

impl Scene {
    fn new() -> Scene {
        Scene("# tracer: nop\n#\n".to_owned())
    }

    fn line(&mut self, us: u64, on: Task, cpu: u32, flags: &str, event: &str) {
        let (comm, tid) = if on.tid == 0 { ("<idle>", 0) } else { (on.comm, on.tid) };
        let time = format!("{}.{:06}", 100 + us / 1_000_000, us % 1_000_000);
        writeln!(self.0, "{:>16}-{tid:<7} [{cpu:03}] {flags} {time}: {event}", comm).expect("text");
    }

    fn wake(&mut self, us: u64, by: Task, flags: &str, cpu: u32, who: Task, target: u32) {
        let Task { comm, tid, prio, .. } = who;
        let of = format!("comm={comm} pid={tid} prio={prio} target_cpu={target:03}");
        self.line(us, by, cpu, flags, &format!("sched_waking: {of}"));
        self.line(us + 1, by, cpu, flags, &format!("sched_wakeup: {of}"));
    }

    fn switch(&mut self, us: u64, cpu: u32, prev: Task, state: &str, next: Task) {
        let event = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> next_comm={} next_pid={} next_prio={}",
            prev.comm, prev.tid, prev.prio, next.comm, next.tid, next.prio
        );
        self.line(us, prev, cpu, "d..2.", &event);
    }
}

/// How the victim is kept from the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The victim.
    pub victim: Task,
    /// The occupant; the idle task means that no task runs.
    pub occupant: Task,
    /// The wait's length.
    pub ms: u64,
    /// Whether the wait still lasts when the recording ends.
    pub is_open: bool,
    /// Whether a program sleeps until the victim has run.
    pub has_payer: bool,
}

impl Scenario {
    /// The recording as ftrace text.
    pub fn text(&self) -> String {
        let Scenario { victim, occupant, ms, is_open, has_payer } = *self;
        let client = task("client", 950, 120);
        let idle1 = Task { comm: "swapper/1", ..IDLE };
        let begin = if is_open { SPAN_MS - ms } else { BEGIN_MS } * 1000;
        let end = begin + ms * 1000;
        let mut events: Vec<(u64, Scene)> = Vec::new();
        let mut at = |us: u64, write: &dyn Fn(&mut Scene)| {
            let mut scene = Scene(String::new());
            write(&mut scene);
            events.push((us, scene));
        };
        let before = if occupant.tid == 0 { task("cat", 951, 120) } else { IDLE };
        at(0, &|scene| scene.switch(0, 3, before, if before.tid == 0 { "R" } else { "S" }, occupant));
        // Both CPUs have events until the end.
        let goes_on = !is_open && victim.prio < occupant.prio && occupant.tid != 0;
        for tick in (0..=SPAN_MS).step_by(100) {
            let us = tick * 1000 + 50;
            let running = if !is_open && us > end && !goes_on { IDLE } else { occupant };
            at(us, &|scene| {
                scene.line(us, running, 3, "d.h2.", "irq_handler_entry: irq=27 name=arch_timer");
                scene.line(us + 5, running, 3, "d.h2.", "irq_handler_exit: irq=27 ret=handled");
            });
        }
        for second in 0..SPAN_MS / 1000 {
            let (us, sshd) = (second * 1_000_000 + 500, task("sshd", 60, 120));
            let idle = Task { comm: "swapper/0", ..IDLE };
            at(us, &|scene| {
                scene.wake(us, idle, "d.h3.", 0, sshd, 0);
                scene.switch(us + 10, 0, idle, "R", sshd);
                scene.switch(us + 300, 0, sshd, "S", idle);
            });
        }
        if has_payer {
            at(begin - 200, &|scene| {
                scene.switch(begin - 200, 1, idle1, "R", client);
                scene.switch(begin - 100, 1, client, "S", idle1);
            });
        }
        at(begin, &|scene| scene.wake(begin, occupant, "dNh4.", 3, victim, 3));
        if !is_open {
            at(end, &|scene| {
                // A task that was not preempted for long is preempted at the end; others leave.
                scene.switch(end, 3, occupant, if goes_on || occupant.tid == 0 { "R" } else { "S" }, victim);
                if let Some(work) = victim.work {
                    let event = format!("workqueue_execute_start: work struct 00000000cafe0001: function {work}");
                    scene.line(end + 10, victim, 3, ".....", &event);
                    let event = format!("workqueue_execute_end: work struct 00000000cafe0001: function {work}");
                    scene.line(end + 150, victim, 3, ".....", &event);
                }
                if has_payer {
                    scene.wake(end + 160, victim, "d..2.", 3, client, 1);
                    scene.switch(end + 170, 1, idle1, "R", client);
                }
                scene.switch(end + 200, 3, victim, "S", if goes_on { occupant } else { IDLE });
                if has_payer {
                    scene.switch(end + 900, 1, client, "S", idle1);
                }
            });
        } else if let Some(work) = victim.work {
            // Its work is known from an earlier run.
            let us = 1_000_000 + 100;
            at(us, &|scene| {
                scene.wake(us, occupant, "dNh4.", 3, victim, 3);
                scene.switch(us + 10, 3, occupant, "R+", victim);
                let event = format!("workqueue_execute_start: work struct 00000000cafe0001: function {work}");
                scene.line(us + 20, victim, 3, ".....", &event);
                let event = format!("workqueue_execute_end: work struct 00000000cafe0001: function {work}");
                scene.line(us + 30, victim, 3, ".....", &event);
                scene.switch(us + 40, 3, victim, "S", occupant);
            });
        }
        events.sort_by_key(|(us, _)| *us);
        events.iter().fold(Scene::new().0, |text, (_, scene)| text + &scene.0)
    }

    /// `rcu_preempt behind poller for 60 ms, ended, a program sleeps`.
    pub fn name(&self) -> String {
        let open = if self.is_open { "open" } else { "ended" };
        let payer = if self.has_payer { ", a program sleeps" } else { "" };
        format!("{} behind {} for {} ms, {open}{payer}", self.victim.comm, self.occupant.comm, self.ms)
    }
}

/// A real-time task that keeps the CPU.
pub const HOG: Task = task("poller", 1000, 49);
/// A task with a higher priority than all others.
pub const HIGHER: Task = task("audio", 1001, 9);
/// A program of nice 0.
pub const EQUAL: Task = task("reactor_0", 1002, 120);
/// A program with nice -20.
pub const HEAVY: Task = task("cruncher", 1003, 100);
/// A task with the priority of [`REAL_TIME`].
pub const PEER: Task = task("pump-ctl", 1004, 59);
/// A deadline task.
pub const DEADLINE: Task = task("radio", 1005, -1);
/// Another program that asked to be last.
pub const LAST_TOO: Task = task("mlocate", 1006, 139);
/// The number of threads woken together.
const CROWD: usize = 12;

/// CPU 3 beside a program that works for 0.3 ms each second on CPU 0.
struct CpuScenes(Vec<(u64, Scene)>);

impl CpuScenes {
    fn new() -> CpuScenes {
        let (mut beside, sshd) = (CpuScenes(Vec::new()), task("sshd", 60, 120));
        let idle = Task { comm: "swapper/0", ..IDLE };
        for second in 0..SPAN_MS / 1000 {
            let us = second * 1_000_000 + 500;
            beside.at(us, |scene| {
                scene.wake(us, idle, "d.h3.", 0, sshd, 0);
                scene.switch(us + 10, 0, idle, "R", sshd);
                scene.switch(us + 300, 0, sshd, "S", idle);
            });
        }
        beside
    }

    fn at(&mut self, us: u64, write: impl FnOnce(&mut Scene)) {
        let mut scene = Scene(String::new());
        write(&mut scene);
        self.0.push((us, scene));
    }

    fn text(mut self) -> String {
        self.0.sort_by_key(|(us, _)| *us);
        self.0.iter().fold(Scene::new().0, |text, (_, scene)| text + &scene.0)
    }
}

/// A turn among equals.
const TURN_MS: u64 = 3;

/// The victim waits behind a task for a part of the wait, and behind turns of equals for the rest.
pub fn partly_behind(victim: Task, by: Task, ms: u64, percent: u64) -> String {
    let (begin, end) = (BEGIN_MS * 1000, (BEGIN_MS + ms) * 1000);
    let changes = begin + ms * 10 * percent;
    let equal = |place: u64| Task { comm: "cc1", tid: 1200 + (place % 4) as u32, ..EQUAL };
    let mut beside = CpuScenes::new();
    beside.at(begin - 500, |scene| scene.switch(begin - 500, 3, IDLE, "R", by));
    beside.at(begin, |scene| scene.wake(begin, by, "dNh4.", 3, victim, 3));
    // Not before: they would wait for the same task.
    for place in 0..4 {
        let us = changes - 40 + 5 * place;
        beside.at(us, |scene| scene.wake(us, by, "dNh4.", 3, equal(place), 3));
    }
    let starts: Vec<u64> = (changes..end).step_by(TURN_MS as usize * 1000).collect();
    for (place, us) in starts.iter().enumerate() {
        let place = place as u64;
        let (prev, state) = if place == 0 { (by, "S") } else { (equal(place - 1), "R") };
        beside.at(*us, |scene| scene.switch(*us, 3, prev, state, equal(place)));
    }
    let last = starts.len().checked_sub(1).map_or(by, |last| equal(last as u64));
    beside.at(end, |scene| {
        scene.switch(end, 3, last, if starts.is_empty() { "S" } else { "R" }, victim);
        scene.switch(end + 300, 3, victim, "S", equal(0));
    });
    // They end one after another.
    for place in 0..4 {
        let us = end + 400 + 100 * place;
        let next = if place < 3 { equal(place + 1) } else { IDLE };
        beside.at(us, |scene| scene.switch(us, 3, equal(place), "S", next));
    }
    beside.text()
}

/// Wakeup preemption: a task that was just woken preempts the victim and stays.
pub fn pushed_off(victim: Task, by: Task, ms: u64) -> String {
    let (begin, end) = (BEGIN_MS * 1000, (BEGIN_MS + ms) * 1000);
    let mut beside = CpuScenes::new();
    beside.at(begin - 400, |scene| scene.switch(begin - 400, 3, IDLE, "R", victim));
    beside.at(begin, |scene| {
        scene.wake(begin, victim, "dNh4.", 3, by, 3);
        scene.switch(begin + 20, 3, victim, "R+", by);
    });
    beside.at(end, |scene| {
        scene.switch(end + 20, 3, by, "S", victim);
        scene.switch(end + 300, 3, victim, "S", IDLE);
    });
    beside.text()
}

/// Count: more threads of one program are woken together than there are CPUs, with the victim behind them.
pub fn behind_a_crowd(victim: Task, ms: u64) -> String {
    let (begin, end) = (BEGIN_MS * 1000, (BEGIN_MS + ms) * 1000);
    let thread = |place: usize| Task { tid: 1100 + place as u32, ..task("httpd", 0, 120) };
    let mut beside = CpuScenes::new();
    beside.at(begin, |scene| {
        scene.wake(begin, IDLE, "dNh4.", 3, victim, 3);
        for place in 0..CROWD {
            scene.wake(begin + 2 + 2 * place as u64, IDLE, "dNh4.", 3, thread(place), 3);
        }
        scene.switch(begin + 40, 3, IDLE, "R", thread(0));
    });
    for place in 0..CROWD {
        let us = begin + 40 + (place as u64 + 1) * (end - begin) / CROWD as u64;
        let next = if place + 1 < CROWD { thread(place + 1) } else { victim };
        beside.at(us, |scene| scene.switch(us, 3, thread(place), "S", next));
    }
    beside.at(end + 300, |scene| scene.switch(end + 300, 3, victim, "S", IDLE));
    beside.text()
}

/// Throttling: the CPU repeatedly goes idle although the victim is runnable there.
pub fn limited(victim: Task, ms: u64) -> String {
    let mut beside = CpuScenes::new();
    beside.at(100, |scene| {
        let sshd = task("sshd", 60, 120);
        scene.line(100, IDLE, 0, "d..2.", "sched_migrate_task: comm=sshd pid=60 prio=120 orig_cpu=1 dest_cpu=0");
        scene.wake(110, IDLE, "d.h3.", 0, sshd, 0);
        let idle = Task { comm: "swapper/0", ..IDLE };
        scene.switch(120, 0, idle, "R", sshd);
        scene.switch(220, 0, sshd, "S", idle);
    });
    for turn in 0..4 {
        let begin = (BEGIN_MS + turn * (ms + 100)) * 1000;
        beside.at(begin, |scene| {
            scene.switch(begin, 3, IDLE, "R", victim);
            scene.switch(begin + 5_000, 3, victim, "R", IDLE);
            scene.switch(begin + 5_000 + ms * 1000, 3, IDLE, "R", victim);
            scene.switch(begin + 9_000 + ms * 1000, 3, victim, "S", IDLE);
        });
    }
    beside.text()
}

/// The victim waits behind a task whose ticks stay away for as long: the CPU itself does not run.
pub fn on_a_stopped_cpu(victim: Task, by: Task, ms: u64) -> String {
    let (begin, end) = (BEGIN_MS * 1000, (BEGIN_MS + ms) * 1000);
    let mut beside = CpuScenes::new();
    beside.at(begin - 120_000, |scene| scene.switch(begin - 120_000, 3, IDLE, "R", by));
    for us in (begin - 100_000..=begin).step_by(4_000).chain([end]) {
        beside.at(us, |scene| scene.line(us, by, 3, "d.h2.", "local_timer_entry: vector=236"));
    }
    for us in (begin - 100_000..end).step_by(5_000) {
        let idle = Task { comm: "swapper/0", ..IDLE };
        beside.at(us + 7, |scene| scene.line(us + 7, idle, 0, "d.h2.", "softirq_raise: vec=1 [action=TIMER]"));
    }
    beside.at(begin - 50, |scene| scene.wake(begin - 50, by, "dNh4.", 3, victim, 3));
    beside.at(end + 4_100, |scene| {
        scene.switch(end + 4_100, 3, by, "S", victim);
        scene.switch(end + 4_300, 3, victim, "S", IDLE);
    });
    beside.text()
}

/// NET_RX takes two fifths of the victim's time, for a device's packets, or for packets that it sends over loopback:
/// the only device's interrupt is on another CPU.
pub fn interrupted_by_packets(victim: Task, ms: u64, by_device: bool) -> String {
    let (begin, end) = (BEGIN_MS * 1000, (BEGIN_MS + ms) * 1000);
    let mut beside = CpuScenes::new();
    beside.at(begin, |scene| {
        let idle0 = Task { comm: "swapper/0", ..IDLE };
        scene.line(begin, idle0, 0, "d.h1.", "irq_handler_entry: irq=24 name=nvme0q1");
        scene.line(begin + 1, idle0, 0, "d.h1.", "irq_handler_exit: irq=24 ret=handled");
        scene.wake(begin + 2, IDLE, "dNh4.", 3, victim, 3);
        scene.switch(begin + 5, 3, IDLE, "R", victim);
    });
    for us in (begin + 10..end).step_by(500) {
        beside.at(us, |scene| {
            if by_device {
                scene.line(us - 2, victim, 3, "d.h1.", "irq_handler_entry: irq=25 name=eth0");
                scene.line(us - 1, victim, 3, "d.h1.", "irq_handler_exit: irq=25 ret=handled");
            }
            scene.line(us, victim, 3, "..s1.", "softirq_entry: vec=3 [action=NET_RX]");
            scene.line(us + 200, victim, 3, "..s1.", "softirq_exit: vec=3 [action=NET_RX]");
        });
    }
    beside.at(end + 500, |scene| scene.switch(end + 500, 3, victim, "S", IDLE));
    beside.text()
}

/// The victim repeatedly waits although a CPU on which it finally runs is idle.
pub fn beside_another_idle_cpu(victim: Task, by: Task, ms: u64) -> String {
    let mut beside = CpuScenes::new();
    let idle1 = Task { comm: "swapper/1", ..IDLE };
    beside.at(100, |scene| scene.switch(100, 1, task("cat", 952, 120), "S", idle1));
    beside.at(200, |scene| scene.switch(200, 3, IDLE, "R", by));
    for turn in 0..6 {
        let begin = (BEGIN_MS + turn * (ms + 100)) * 1000;
        let end = begin + ms * 1000;
        beside.at(begin, |scene| {
            scene.wake(begin, by, "dNh4.", 3, victim, 3);
            let Task { comm, tid, prio, .. } = victim;
            let moved = format!("sched_migrate_task: comm={comm} pid={tid} prio={prio} orig_cpu=3 dest_cpu=1");
            scene.line(end, idle1, 1, "d..2.", &moved);
            scene.switch(end + 10, 1, idle1, "R", victim);
            scene.switch(end + 300, 1, victim, "S", idle1);
        });
    }
    beside.text()
}

/// From the first second on a real-time task takes `piece_us` of every `every_us` from the victim, which computes.
pub fn in_pieces(victim: Task, by: Task, piece_us: u64, every_us: u64) -> String {
    let mut beside = CpuScenes::new();
    let begin = 1_000_000;
    beside.at(begin, |scene| scene.switch(begin, 3, IDLE, "R", victim));
    let mut us = begin + every_us - piece_us;
    while us + piece_us < SPAN_MS * 1000 {
        beside.at(us, |scene| {
            scene.wake(us - 2, victim, "d.h3.", 3, by, 3);
            scene.switch(us, 3, victim, "R", by);
        });
        beside.at(us + piece_us, |scene| scene.switch(us + piece_us, 3, by, "S", victim));
        us += every_us;
    }
    beside.text()
}
