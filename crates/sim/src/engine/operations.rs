//! What actors do: operations, sleeps, tokens.

use unstarve_model::Nanos;

use super::EngineError;
use super::run::Engine;
use super::state::{Doing, TimerKind, Work};
use crate::{ActorId, Op};

impl Engine<'_> {
    /// Whether an actor sleeps, or has ended, when the program begins. It does then.
    pub(super) fn begins_asleep(&mut self, id: ActorId) -> bool {
        loop {
            let actor = &mut self.actors[id.index()];
            let op = actor.ops.get(actor.next_op).copied();
            let needs_cpu = matches!(op, Some(Op::Run(_) | Op::RunByClock(_) | Op::Wake(_) | Op::WakeAfter(..)));
            if needs_cpu {
                return false;
            }
            actor.next_op += 1;
            if op.is_some_and(Op::begins_item) {
                self.felt.began(id, 1);
            }
            let actor = &mut self.actors[id.index()];
            match op {
                Some(Op::Block | Op::Take) => actor.doing = Doing::Blocks,
                Some(Op::SleepUntil(at)) => {
                    if !self.sleeps_until(id, at) {
                        continue;
                    }
                }
                Some(Op::SleepFor(length)) => {
                    if !self.sleeps_for(id, length) {
                        continue;
                    }
                }
                _ => self.end(id),
            }
            return true;
        }
    }

    /// The running actor has done its operation: it does the next ones, until one takes time.
    ///
    /// Between operations that take no time nobody preempts it: in the kernel, too, a wakeup right before a sleep is part of
    /// the same system call.
    pub(super) fn advance(&mut self, id: ActorId) -> Result<(), EngineError> {
        loop {
            self.count()?;
            let actor = &mut self.actors[id.index()];
            let op = actor.ops.get(actor.next_op).copied();
            actor.next_op += 1;
            if op.is_some_and(Op::begins_item) {
                self.felt.began(id, 1);
            }
            let actor = &mut self.actors[id.index()];
            let is_asleep = match op {
                Some(Op::Run(Nanos(0)) | Op::RunByClock(Nanos(0))) => false,
                Some(Op::Run(length)) => {
                    let saved = std::mem::take(&mut actor.saved);
                    actor.work = Work::Cpu(length.0.saturating_add_signed(saved.saturating_neg()));
                    return Ok(());
                }
                Some(Op::RunByClock(length)) => {
                    actor.work = Work::Until(self.now.saturating_add(length.0));
                    return Ok(());
                }
                Some(Op::Wake(target)) => {
                    if let Some(log) = &mut self.log {
                        log.waker = Some(id);
                    }
                    let woke = self.give_token(target);
                    if let Some(log) = &mut self.log {
                        log.waker = None;
                    }
                    if !woke {
                        let cost = self.program.actor(id).costs.wake;
                        let saved = &mut self.actors[id.index()].saved;
                        *saved = saved.saturating_add_unsigned(cost.0);
                    }
                    false
                }
                Some(Op::WakeAfter(target, delay)) => {
                    self.timers.set(self.now.saturating_add(delay.0), TimerKind::Token(target));
                    false
                }
                Some(op @ (Op::Block | Op::Take)) => {
                    let cost = self.program.actor(id).costs.sleep.0;
                    let sleeps = actor.tokens == 0;
                    match (sleeps, op) {
                        (false, Op::Block) => actor.saved = actor.saved.saturating_add_unsigned(cost),
                        (true, Op::Take) => actor.saved = actor.saved.saturating_sub_unsigned(cost),
                        _ => {}
                    }
                    match sleeps {
                        true => actor.doing = Doing::Blocks,
                        false => actor.tokens -= 1,
                    }
                    sleeps
                }
                Some(Op::SleepUntil(at)) => self.sleeps_until(id, at),
                Some(Op::SleepFor(length)) => self.sleeps_for(id, length),
                None => {
                    self.end(id);
                    true
                }
            };
            if is_asleep {
                self.go_to_sleep(id);
                return Ok(());
            }
        }
    }

    fn sleeps_until(&mut self, id: ActorId, at: Nanos) -> bool {
        let at = at.0.saturating_add(self.actors[id.index()].shift);
        let is_to_come = at > self.now;
        if is_to_come {
            self.actors[id.index()].doing = Doing::Sleeps;
            self.timers.set(at, TimerKind::Wake(id));
        }
        is_to_come
    }

    fn sleeps_for(&mut self, id: ActorId, length: Nanos) -> bool {
        let sleeps = length > Nanos::ZERO;
        if sleeps {
            self.actors[id.index()].doing = Doing::Sleeps;
            self.timers.set(self.now.saturating_add(length.0), TimerKind::Wake(id));
        }
        sleeps
    }

    fn end(&mut self, id: ActorId) {
        let actor = &mut self.actors[id.index()];
        actor.doing = Doing::Ended;
        actor.finished = Some(self.now);
    }

    /// Gives an actor a token. Whether that woke it up.
    pub(super) fn give_token(&mut self, id: ActorId) -> bool {
        match self.actors[id.index()].doing {
            Doing::Blocks => self.wake(id),
            Doing::Ended => return false,
            Doing::Runs | Doing::Waits | Doing::Sleeps => {
                self.actors[id.index()].tokens += 1;
                return false;
            }
        }
        true
    }

    /// An actor's sleep is over: it waits for a CPU.
    pub(super) fn wake(&mut self, id: ActorId) {
        let now = self.now;
        let actor = &mut self.actors[id.index()];
        actor.slept += now - actor.since;
        actor.doing = Doing::Waits;
        actor.since = now;
        actor.was_woken = true;
        self.felt.woke(id);
        self.actors[id.index()].cpu = self.cpu_for_wakeup(id);
        self.note_wakeup(id);
        self.enqueue(id);
    }
}
