//! Tracks interrupt handlers and softirqs: which are in progress on each CPU, and which softirqs the current task raised
//! itself.

use unstarve_model::{Context, Event, NameId, Nanos, Time, Vector};

use crate::cpus::Cpu;
use crate::{ActorId, ActorKind, Interrupt, Sink, World};

/// Maximum nesting of interrupt handlers on any architecture; more means that exit events are missing.
const DEEPEST_NESTING: usize = 8;
/// NET_TX, NET_RX and BLOCK, in `include/linux/interrupt.h`: what a task sends, and what it completes. A program raises others,
/// too (RCU, TASKLET), but did not ask for their work.
const SOFTIRQS_OF_SENDERS: [u8; 3] = [2, 3, 4];
/// A softirq raised by a hard interrupt is served right after its handler (`irq_exit`).
const RAISED_IS_SERVED_WITHIN: Nanos = Nanos::from_micros(20);
/// TIMER and RCU, which a kernel thread raises for its own work.
const SOFTIRQS_OF_KERNEL_THREADS: [u8; 2] = [1, 9];
/// Above all numbers of handlers.
const FIRST_VECTOR: u32 = 1 << 31;

/// Handlers on all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    cpus: Vec<Handlers>,
    /// Number of softirqs so far.
    softirqs: u64,
    /// Whether raises of senders' softirqs are recorded.
    records_raises: bool,
    /// Whether the end of each [`Vector`] is recorded: others record its beginning alone, which shows a tick.
    records_exits: [bool; Vector::ALL.len()],
}

/// Handlers on one CPU.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    /// Hard interrupt handlers in progress, the innermost last.
    hardirqs: Vec<Handler>,
    /// The softirq vector in progress.
    softirq: Option<Handler>,
    /// The softirqs that the current task raised itself for what it sends: bits by vector.
    raised: u32,
    /// Whether the current task has woken this CPU's ksoftirqd, and so raised a softirq.
    woke_ksoftirqd: bool,
    /// When the last hard interrupt handler ended, or a softirq that followed one.
    last_end: Option<Time>,
    /// The same of interrupts that have no handler: they raise timers' softirqs, and nothing that a device does.
    last_vector_end: Option<Time>,
}

/// A handler or softirq in progress.
#[derive(Clone, Copy, Debug)]
struct Handler {
    actor: ActorId,
    /// Interrupt number, a number above all of them for a [`Vector`], or softirq vector.
    number: u32,
    start: Time,
    /// Time of handlers nested inside.
    inner: Nanos,
    /// How it is known that the current task raised the softirq, if it did.
    raised_by_task: Option<Raise>,
    /// Whether a hard interrupt handler had just ended.
    follows_handler: bool,
    /// Whether it is the interrupted task's own work.
    is_own_work: bool,
    /// Whether `softirq_raise` shows that.
    raise_is_recorded: bool,
}

/// How it is known that a task raised a softirq.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raise {
    /// By a `softirq_raise` event.
    Seen,
    /// By the wakeup of ksoftirqd.
    Inferred,
}

impl Interrupts {
    /// Adds the next CPU.
    pub fn add_cpu(&mut self) {
        self.cpus.push(Handlers::default());
    }

    /// The handlers on this CPU.
    #[inline(always)]
    pub fn on(&self, index: usize) -> &Handlers {
        &self.cpus[index]
    }

    /// Number of softirqs so far. If none is recorded, a CPU that runs one task all the time is as silent as an idle one.
    pub fn softirqs(&self) -> u64 {
        self.softirqs
    }

    /// Clears the handlers: a context switch cannot happen inside one (except inside a preempted softirq thread of PREEMPT_RT),
    /// so exit events are missing.
    #[inline(always)]
    pub fn forget(&mut self, index: usize) {
        self.cpus[index].forget();
    }

    pub fn irq_entry(&mut self, cpu: &mut Cpu, world: &mut World, irq: u32, name: Option<NameId>) {
        self.hardirq_entry(cpu, world, ActorKind::Irq { irq, name }, irq);
    }

    pub fn vector_entry(&mut self, cpu: &mut Cpu, world: &mut World, vector: Vector) {
        if !self.records_exits[vector as usize] {
            return;
        }
        self.hardirq_entry(cpu, world, ActorKind::Vector(vector), FIRST_VECTOR + vector as u32);
    }

    fn hardirq_entry(&mut self, cpu: &mut Cpu, world: &mut World, kind: ActorKind, irq: u32) {
        let now = world.now;
        let actor = world.actors.of(kind);
        let handlers = &mut self.cpus[cpu.index()];
        if handlers.hardirqs.len() == DEEPEST_NESTING {
            handlers.hardirqs.clear();
        }
        // The new task may raise softirqs, too.
        handlers.woke_ksoftirqd = false;
        handlers.hardirqs.push(Handler {
            actor,
            number: irq,
            start: now,
            inner: Nanos::ZERO,
            raised_by_task: None,
            follows_handler: false,
            is_own_work: false,
            raise_is_recorded: false,
        });
        handlers.settle(cpu, now);
    }

    pub fn vector_exit(&mut self, cpu: &mut Cpu, world: &mut World, vector: Vector, sink: &mut impl Sink) {
        // Of the first one, the entry was passed over.
        if std::mem::replace(&mut self.records_exits[vector as usize], true) {
            self.irq_exit(cpu, world, FIRST_VECTOR + vector as u32, sink);
        }
    }

    pub fn irq_exit(&mut self, cpu: &mut Cpu, world: &mut World, irq: u32, sink: &mut impl Sink) {
        let now = world.now;
        let handlers = &mut self.cpus[cpu.index()];
        let Some(handler) = handlers.hardirqs.pop() else { return };
        if handler.number != irq {
            handlers.hardirqs.clear();
            handlers.settle(cpu, now);
            return;
        }
        let length = now.since(handler.start);
        let last_end = if irq >= FIRST_VECTOR { &mut handlers.last_vector_end } else { &mut handlers.last_end };
        *last_end = Some(now);
        if let Some(outer) = handlers.hardirqs.last_mut() {
            outer.inner += length;
        } else if let Some(softirq) = &mut handlers.softirq {
            softirq.inner += length;
        }
        handlers.settle(cpu, now);
        let own = length.saturating_sub(handler.inner);
        if let Some(key) = cpu.task() {
            world.tasks.get_mut(key).run.irq += own;
        }
        handler.report(cpu, world, sink);
    }

    pub fn softirq_entry(&mut self, cpu: &mut Cpu, world: &mut World, vec: u8) {
        self.softirqs += 1;
        let now = world.now;
        let actor = world.actors.of(ActorKind::Softirq { vec });
        let handlers = &mut self.cpus[cpu.index()];
        let bit = bit(vec);
        let raised_by_task = if handlers.raised & bit != 0 {
            Some(Raise::Seen)
        } else if handlers.woke_ksoftirqd && SOFTIRQS_OF_SENDERS.contains(&vec) {
            Some(Raise::Inferred)
        } else {
            None
        };
        handlers.raised &= !bit;
        let has_just = |end: Option<Time>| end.is_some_and(|end| now.since(end) <= RAISED_IS_SERVED_WITHIN);
        let follows_handler = has_just(handlers.last_end);
        let follows_vector = has_just(handlers.last_vector_end);
        let raise_is_recorded = self.records_raises && SOFTIRQS_OF_SENDERS.contains(&vec);
        let is_own_work = if raise_is_recorded {
            raised_by_task == Some(Raise::Seen)
        } else {
            raised_by_task == Some(Raise::Seen) || !follows_handler && !follows_vector
        };
        handlers.softirq = Some(Handler {
            actor,
            number: u32::from(vec),
            start: now,
            inner: Nanos::ZERO,
            raised_by_task,
            follows_handler,
            is_own_work,
            raise_is_recorded,
        });
        handlers.settle(cpu, now);
    }

    pub fn softirq_exit(&mut self, cpu: &mut Cpu, world: &mut World, vec: u8, sink: &mut impl Sink) {
        let now = world.now;
        let handlers = &mut self.cpus[cpu.index()];
        let Some(handler) = handlers.softirq.take() else { return };
        handlers.settle(cpu, now);
        // The next softirq of the round: raised by the same handler, or by one that came during this softirq.
        let came = handlers.last_end.is_some_and(|end| end >= handler.start);
        handlers.last_end = (handler.follows_handler || came).then_some(now);
        handlers.last_vector_end = handlers.last_vector_end.filter(|_| !handler.is_own_work).map(|_| now);
        // The softirq that the task raised is served; the next one may be an interrupt's without handler events.
        handlers.woke_ksoftirqd = false;
        if handler.number != u32::from(vec) {
            return;
        }
        let own = now.since(handler.start).saturating_sub(handler.inner);
        if let Some(key) = cpu.task()
            && !cpu.serves_softirqs()
        {
            world.tasks.get_mut(key).run.softirq += own;
        }
        handler.report(cpu, world, sink);
    }

    /// A task that sends to a task of its own host raises the softirq that delivers it.
    pub fn softirq_raise(&mut self, cpu: &Cpu, world: &World, event: &Event, vec: u8) {
        self.records_raises |= SOFTIRQS_OF_SENDERS.contains(&vec);
        let handlers = &mut self.cpus[cpu.index()];
        let by_task = match event.issuer.context() {
            Context::Task => true,
            Context::Unknown => handlers.are_none(),
            Context::Softirq | Context::Hardirq | Context::Nmi => false,
        };
        let is_own = match cpu.task() {
            Some(_) if SOFTIRQS_OF_SENDERS.contains(&vec) => true,
            Some(key) => SOFTIRQS_OF_KERNEL_THREADS.contains(&vec) && world.tasks.get(key).kernel_thread.is_some(),
            None => false,
        };
        // What an interrupt adds to the vector is served with it.
        if by_task && is_own {
            handlers.raised |= bit(vec);
        } else {
            handlers.raised &= !bit(vec);
        }
    }

    /// A task that raises a softirq outside of interrupts and with softirqs enabled wakes this CPU's ksoftirqd
    /// (`raise_softirq_irqoff` in kernel/softirq.c), and serves the softirq itself if it enables softirqs first. So the raise
    /// is visible also if it is not recorded.
    #[cold]
    pub fn ksoftirqd_woken(&mut self, cpu: &Cpu, event: &Event) {
        let handlers = &mut self.cpus[cpu.index()];
        let by_task = event.issuer.context() == Context::Task && handlers.are_none();
        handlers.woke_ksoftirqd = by_task && cpu.task().is_some();
    }
}

impl Handlers {
    #[inline]
    fn forget(&mut self) {
        self.hardirqs.clear();
        self.softirq = None;
        self.raised = 0;
        self.woke_ksoftirqd = false;
    }

    fn are_none(&self) -> bool {
        self.hardirqs.is_empty() && self.softirq.is_none()
    }

    /// Whether a hard interrupt is being served.
    pub fn in_hardirq(&self) -> bool {
        !self.hardirqs.is_empty()
    }

    /// Whether a softirq is in progress, interrupted or not.
    pub fn in_softirq(&self) -> bool {
        self.softirq.is_some()
    }

    /// Whether this softirq is being served now.
    pub fn serves_softirq(&self, vec: u8) -> bool {
        self.hardirqs.is_empty() && self.softirq.is_some_and(|softirq| softirq.number == u32::from(vec))
    }

    /// The innermost handler or softirq.
    pub fn innermost(&self) -> Option<ActorId> {
        self.hardirqs.last().or(self.softirq.as_ref()).map(|handler| handler.actor)
    }

    /// Logs the occupant of the CPU: the innermost handler or the current task. For a task that serves softirqs, they are its
    /// own work.
    #[inline]
    pub fn settle(&self, cpu: &mut Cpu, now: Time) {
        let softirq = self.softirq.as_ref().filter(|_| !cpu.serves_softirqs());
        cpu.settle(now, self.hardirqs.last().or(softirq).map(|handler| handler.actor));
    }

    /// Number and start of the innermost hard interrupt.
    pub fn hardirq(&self) -> Option<(u32, Time)> {
        self.hardirqs.last().map(|handler| (handler.number, handler.start))
    }

    /// Vector and start of the softirq.
    pub fn softirq(&self) -> Option<(u32, Time)> {
        self.softirq.map(|handler| (handler.number, handler.start))
    }

    /// How it is known that the current task raised the softirq being served, if it did.
    pub fn raised_by_task(&self) -> Option<Raise> {
        self.softirq.and_then(|softirq| softirq.raised_by_task).filter(|_| self.hardirqs.is_empty())
    }
}

impl Handler {
    fn report(&self, cpu: &Cpu, world: &World, sink: &mut impl Sink) {
        let interrupt = Interrupt {
            actor: self.actor,
            cpu: cpu.id(),
            start: self.start,
            end: world.now,
            task: cpu.task(),
            follows_handler: self.follows_handler,
            is_own_work: self.is_own_work,
            raise_is_recorded: self.raise_is_recorded,
        };
        sink.interrupt(world, &interrupt);
    }
}

fn bit(vec: u8) -> u32 {
    1_u32.checked_shl(u32::from(vec)).unwrap_or(0)
}
