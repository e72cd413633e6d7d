use unstarve_model::{Context, Event, NameId, Nanos};

use crate::cpus::{Current, Handler};
use crate::timeline::Timeline;
use crate::wake_graph::wake_chain::Basis;
use crate::{ActorKind, Interrupt, Sink};

/// Interrupt handlers nest at most this deep on any architecture; more means that exits are missing.
const DEEPEST: usize = 8;
/// NET_TX, NET_RX and BLOCK, in `include/linux/interrupt.h`: what a task sends, and what it completes. A program raises others, too (RCU,
/// TASKLET), but what those do is not what the task asked for.
const OF_SENDERS: [u8; 3] = [2, 3, 4];
/// What a hard interrupt raises is served when its handler has ended (`irq_exit`).
const RAISED_IS_SERVED_WITHIN: Nanos = Nanos::from_micros(20);
/// TIMER and RCU, which a kernel thread raises for its own work's sake.
const OF_KERNEL_THREADS: [u8; 2] = [1, 9];

impl Timeline {
    pub(crate) fn irq_entry(&mut self, index: usize, irq: u32, name: Option<NameId>) {
        let now = self.world.now;
        let actor = self.world.actors.of(ActorKind::Irq { irq, name });
        let cpu = &mut self.cpus[index];
        if cpu.hardirqs.len() == DEEPEST {
            cpu.hardirqs.clear();
        }
        // It may raise softirqs, too.
        cpu.woke_ksoftirqd = false;
        cpu.hardirqs.push(Handler {
            actor,
            number: irq,
            start: now,
            inner: Nanos::ZERO,
            raised_by_task: None,
            follows_handler: false,
        });
        cpu.settle(now);
    }

    pub(crate) fn irq_exit(&mut self, index: usize, irq: u32, sink: &mut impl Sink) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let Some(handler) = cpu.hardirqs.pop() else { return };
        if handler.number != irq {
            cpu.hardirqs.clear();
            cpu.settle(now);
            return;
        }
        let length = now.since(handler.start);
        cpu.handler_ended = Some(now);
        if let Some(outer) = cpu.hardirqs.last_mut() {
            outer.inner += length;
        } else if let Some(softirq) = &mut cpu.softirq {
            softirq.inner += length;
        }
        cpu.settle(now);
        let own = length.saturating_sub(handler.inner);
        if let Current::Task(key) = cpu.current {
            self.world.tasks.get_mut(key).run.irq += own;
        }
        self.report_interrupt(index, handler, sink);
    }

    pub(crate) fn softirq_entry(&mut self, index: usize, vec: u8) {
        let now = self.world.now;
        let actor = self.world.actors.of(ActorKind::Softirq { vec });
        let cpu = &mut self.cpus[index];
        let bit = bit(vec);
        let raised_by_task = if cpu.raised & bit != 0 {
            Some(Basis::Seen)
        } else if cpu.woke_ksoftirqd && OF_SENDERS.contains(&vec) {
            Some(Basis::Inferred)
        } else {
            None
        };
        cpu.raised &= !bit;
        let follows_handler = cpu.handler_ended.is_some_and(|end| now.since(end) <= RAISED_IS_SERVED_WITHIN);
        let number = u32::from(vec);
        cpu.softirq = Some(Handler { actor, number, start: now, inner: Nanos::ZERO, raised_by_task, follows_handler });
        cpu.settle(now);
    }

    /// A task that sends to a task of its own host raises the softirq that delivers what it sends.
    pub(crate) fn softirq_raise(&mut self, index: usize, event: &Event, vec: u8) {
        let cpu = &mut self.cpus[index];
        let by_task = match event.issuer.context() {
            Context::Task => true,
            Context::Unknown => cpu.hardirqs.is_empty() && cpu.softirq.is_none(),
            Context::Softirq | Context::Hardirq | Context::Nmi => false,
        };
        let is_own = match cpu.current {
            Current::Task(_) if OF_SENDERS.contains(&vec) => true,
            Current::Task(key) => OF_KERNEL_THREADS.contains(&vec) && self.world.tasks.get(key).kernel_thread.is_some(),
            Current::Idle | Current::Unknown => false,
        };
        // What an interrupt adds to it, comes with it.
        if by_task && is_own {
            cpu.raised |= bit(vec);
        } else {
            cpu.raised &= !bit(vec);
        }
    }

    /// A task that raises a softirq outside of interrupts and without softirqs disabled wakes this CPU's ksoftirqd (`raise_softirq_irqoff` in
    /// kernel/softirq.c), and serves the softirq itself if it enables softirqs first. So a raise shows where it is not recorded.
    #[cold]
    pub(crate) fn wakes_own_ksoftirqd(&mut self, index: usize, event: &Event) {
        let cpu = &mut self.cpus[index];
        let by_task = event.issuer.context() == Context::Task && cpu.hardirqs.is_empty() && cpu.softirq.is_none();
        cpu.woke_ksoftirqd = by_task && matches!(cpu.current, Current::Task(_));
    }

    pub(crate) fn softirq_exit(&mut self, index: usize, vec: u8, sink: &mut impl Sink) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let Some(handler) = cpu.softirq.take() else { return };
        cpu.settle(now);
        // The next softirq of the round: of the same handler, or of one that came during this softirq.
        let came = cpu.handler_ended.is_some_and(|end| end >= handler.start);
        cpu.handler_ended = (handler.follows_handler || came).then_some(now);
        // What the task raised is served; another softirq may be that of an interrupt without a handler's events.
        cpu.woke_ksoftirqd = false;
        if handler.number != u32::from(vec) {
            return;
        }
        let own = now.since(handler.start).saturating_sub(handler.inner);
        if let Current::Task(key) = cpu.current
            && !cpu.serves_softirqs
        {
            self.world.tasks.get_mut(key).run.softirq += own;
        }
        self.report_interrupt(index, handler, sink);
    }

    fn report_interrupt(&mut self, index: usize, handler: Handler, sink: &mut impl Sink) {
        let cpu = &self.cpus[index];
        let task = match cpu.current {
            Current::Task(key) => Some(key),
            Current::Idle | Current::Unknown => None,
        };
        let interrupt = Interrupt {
            actor: handler.actor,
            cpu: cpu.id,
            start: handler.start,
            end: self.world.now,
            task,
            follows_handler: handler.follows_handler,
        };
        sink.interrupt(&self.world, &interrupt);
    }

    /// A switch cannot happen inside a handler (but inside a preempted softirq thread of PREEMPT_RT): exits are missing.
    pub(crate) fn forget_handlers(&mut self, index: usize) {
        self.cpus[index].forget_handlers();
    }
}

fn bit(vec: u8) -> u32 {
    1_u32.checked_shl(u32::from(vec)).unwrap_or(0)
}
