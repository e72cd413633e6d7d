//! Recognises the work item of a kernel worker in its call stack: the function that the worker's loop called.

/// Functions that call a work item's function. Since 6.5 compilers inline the first into the second.
pub fn is_worker_loop(symbol: &[u8]) -> bool {
    [&b"process_one_work"[..], b"process_scheduled_works"].contains(&symbol)
}

/// Whether a function called by the worker's loop is a work item's. The loop also calls the scheduler, and can be
/// interrupted and traced.
pub fn is_work_function(symbol: &[u8]) -> bool {
    const OWN_CALLEES: &[&[u8]] = &[
        b"process_one_work",
        b"__schedule",
        b"schedule",
        b"preempt_schedule_common",
        b"preempt_schedule_irq",
        b"preempt_schedule_thunk",
        b"preempt_schedule",
        b"__cond_resched",
        b"_cond_resched",
        b"try_to_wake_up",
        b"wake_up_process",
        b"wake_up_worker",
        b"kick_pool",
        b"pwq_dec_nr_in_flight",
        b"wq_worker_tick",
        b"common_interrupt",
        b"ret_from_intr",
        b"ret_from_fork",
        b"do_softirq",
        b"__local_bh_enable_ip",
        b"[unknown]",
    ];
    const PREFIXES: &[&[u8]] =
        &[b"asm_", b"sysvec_", b"trace_", b"perf_trace_", b"__traceiter_", b"ftrace_", b"bpf_trace", b"_raw_spin_"];
    !OWN_CALLEES.contains(&symbol) && !PREFIXES.iter().any(|prefix| symbol.starts_with(prefix))
}
