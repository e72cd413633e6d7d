//! What a call stack shows about an event: the context in which it happened, and the work item of a kernel worker.

use unstarve_model::Context;

use super::line::Frame;
use crate::work_stack::{is_work_function, is_worker_loop};

/// Collects the frames of one event's stack, innermost first.
#[derive(Debug, Default)]
pub struct Stack {
    any_kernel_frame: bool,
    elided: bool,
    context: Option<Context>,
    /// The last frame, if no frame is missing after it.
    inner: Option<Vec<u8>>,
    work: Work,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Work {
    /// The worker's loop has not been seen.
    #[default]
    NotMet,
    /// The worker's loop called this function.
    Function(Vec<u8>),
    /// The worker's loop was seen, but what it called is missing or not a work function.
    Unknown,
}

impl Stack {
    /// Adds the next frame outwards.
    pub fn frame(&mut self, frame: Frame<'_>) {
        if !frame.in_kernel {
            self.inner = None;
            return;
        }
        self.any_kernel_frame = true;
        if self.context.is_none() {
            self.context = interrupt_context(frame.symbol);
        }
        if self.work == Work::NotMet && is_worker_loop(frame.symbol) {
            self.work = match self.inner.take() {
                Some(function) if is_work_function(&function) => Work::Function(function),
                _ => Work::Unknown,
            };
        }
        self.inner = Some(frame.symbol.to_vec());
    }

    /// Notes that frames were removed here.
    pub fn elision(&mut self) {
        self.elided = true;
        self.inner = None;
    }

    /// The function that the worker's loop called, if the stack shows it.
    pub fn work_function(&self) -> Option<&[u8]> {
        match &self.work {
            Work::Function(function) => Some(function),
            _ => None,
        }
    }

    /// The event's context: the innermost interrupt on the stack, or task context.
    pub fn context(&self) -> Context {
        match self.context {
            Some(context) => context,
            None if self.any_kernel_frame && !self.elided => Context::Task,
            None => Context::Unknown,
        }
    }
}

fn interrupt_context(symbol: &[u8]) -> Option<Context> {
    let is = |names: &[&[u8]]| names.contains(&symbol);
    if is(&[b"__do_softirq", b"handle_softirqs", b"__softirqentry_text_start", b"do_softirq"]) {
        return Some(Context::Softirq);
    }
    if is(&[b"exc_nmi", b"asm_exc_nmi", b"do_nmi", b"nmi_handle"]) {
        return Some(Context::Nmi);
    }
    let hard = is(&[
        b"__handle_irq_event_percpu",
        b"handle_irq_event",
        b"common_interrupt",
        b"__common_interrupt",
        b"do_IRQ",
        b"el1_interrupt",
        b"gic_handle_irq",
        b"hrtimer_interrupt",
    ]) || symbol.starts_with(b"sysvec_")
        || symbol.starts_with(b"__sysvec_");
    hard.then_some(Context::Hardirq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(frames: &[&str]) -> (Context, Option<String>) {
        let mut stack = Stack::default();
        for symbol in frames {
            match *symbol {
                "..." => stack.elision(),
                symbol => stack.frame(Frame { symbol: symbol.as_bytes(), in_kernel: true }),
            }
        }
        (stack.context(), stack.work_function().map(|name| String::from_utf8_lossy(name).into_owned()))
    }

    #[test]
    fn the_function_below_the_workers_loop_is_the_work() {
        let work = |name: &str| (Context::Task, Some(name.to_owned()));
        assert_eq!(
            of(&["try_to_wake_up", "aio_complete_rw", "process_one_work", "worker_thread"]),
            work("aio_complete_rw")
        );
        assert_eq!(of(&["schedule", "xfs_end_io", "process_scheduled_works", "worker_thread"]), work("xfs_end_io"));
        // The loop itself reschedules between items.
        assert_eq!(of(&["__schedule", "__cond_resched", "process_one_work"]), (Context::Task, None));
        assert_eq!(of(&["schedule", "worker_thread", "kthread"]), (Context::Task, None));
        assert_eq!(of(&["try_to_wake_up", "...", "process_one_work"]), (Context::Unknown, None));
    }

    #[test]
    fn the_innermost_interrupt_is_the_context() {
        assert_eq!(of(&["try_to_wake_up", "nvme_irq", "common_interrupt", "syscall"]).0, Context::Hardirq);
        assert_eq!(of(&["x", "handle_softirqs", "irq_exit_rcu", "sysvec_apic_timer_interrupt"]).0, Context::Softirq);
        assert_eq!(of(&["schedule", "do_syscall_64"]).0, Context::Task);
        assert_eq!(of(&[]).0, Context::Unknown);
    }
}
