//! What to do next: which command shows what the text does not.

use unstarve_diagnose::report::NextStep;

use crate::case::InTheWay;
use crate::conclude::{Judged, Trouble, is_near};
use crate::fact::{Facts, RowOf, Seen, Sign, Stuck};
use crate::words;

const THREADS: &str = "ps -eLo pid,tid,cls,rtprio,ni,psr,stat,pcpu,wchan:20,comm";

/// The next steps, most useful first.
pub fn steps(worst: Option<&Judged<'_>>, facts: &Facts) -> Vec<NextStep> {
    let step = |why: &str, command: &str| NextStep { why: why.to_owned(), command: command.to_owned() };
    let record = step("while it happens, to see who had the CPU and by which rule", "sudo unstarve record --for 30s");
    let catch = step("to catch the next time", "sudo unstarve watch");
    let threads = step("add its output to this text, for policies and priorities", THREADS);
    let check = step("to find what is set up so that it will happen again", "sudo unstarve check");
    let stolen = || step("time that the hypervisor took from each CPU (8th number)", "grep '^cpu' /proc/stat");
    let second_look = step(
        "one look counts since the boot: a second one, 10 s later, added to this text says which interrupts come now",
        "sleep 10; cat /proc/interrupts /proc/softirqs",
    );
    let single_look = facts.has_single_look();
    let Some(worst) = worst else {
        return if single_look { vec![second_look, record] } else { vec![record, threads] };
    };
    let on_cpu = worst.cpus().first().map(|cpu| {
        let command = format!(
            "ps -eLo psr,pid,tid,cls,rtprio,ni,stat,pcpu,comm --sort=-pcpu | awk 'NR == 1 || $1 == {cpu}' | head -6"
        );
        step(&format!("which threads use CPU {cpu}; add the output to this text"), &command)
    });
    let threads = on_cpu.unwrap_or(threads);
    let list = threads.command.clone();
    let mut steps = match (worst.trouble, &worst.way) {
        (Trouble::Starved | Trouble::SeenRunnable, InTheWay::Proved(_)) if facts.lacks_threads() => {
            vec![threads, record, check]
        }
        (Trouble::Starved | Trouble::SeenRunnable, InTheWay::Proved(_)) => vec![record, check],
        (Trouble::Starved, InTheWay::Idle(_)) => {
            vec![record, step("time that the hypervisor took from each CPU (8th number)", "grep '^cpu' /proc/stat")]
        }
        // A list of processes, or without CPUs, is there: the next list may name who it is.
        (Trouble::Starved | Trouble::SeenRunnable, InTheWay::Unknown)
            if !facts.seen.is_empty() && facts.lacks_threads() =>
        {
            vec![threads, record, catch]
        }
        (Trouble::Starved | Trouble::SeenRunnable, _) => vec![record, threads, catch],
        (Trouble::CpuHeld | Trouble::TimerLate, InTheWay::Idle(_)) => {
            vec![step("time that the hypervisor took from each CPU (8th number)", "grep '^cpu' /proc/stat"), record]
        }
        // What stood still is over, and each CPU's code has nothing to do with it.
        (Trouble::CpuHeld | Trouble::TimerLate, _) if stood_still(worst, facts) => vec![stolen(), catch, record],
        (Trouble::CpuHeld | Trouble::TimerLate, _) => {
            vec![
                step(
                    "while it happens: what each CPU runs, in the kernel's log",
                    "echo l | sudo tee /proc/sysrq-trigger",
                ),
                record,
            ]
        }
        (Trouble::Hang, _) => vec![
            step("what the kernel printed before and after that line", "journalctl -k -o short-monotonic --no-pager"),
            step("while it happens: what each CPU runs, in the kernel's log", "echo l | sudo tee /proc/sysrq-trigger"),
            record,
        ],
        (Trouble::Remark, _) if single_look => vec![second_look, record],
        (Trouble::Remark, _) => vec![record, threads],
        (Trouble::Interrupts, _) if worst.stuck.sign == Sign::InterruptsCame => {
            let cpus = words::interrupt(worst.stuck).map(|number| {
                step("on which CPUs it may come", &format!("grep . /proc/irq/{number}/smp_affinity_list"))
            });
            let softirqs = step("which device they come from", "sleep 10; cat /proc/interrupts /proc/softirqs");
            vec![cpus.unwrap_or(softirqs), record, check]
        }
        (Trouble::Blocked, _) => vec![
            step("whether what it waits for is starved, while it lasts", "sudo unstarve record --for 30s"),
            step("all blocked threads with their stacks, in the kernel's log", "echo w | sudo tee /proc/sysrq-trigger"),
        ],
        (Trouble::BpfScheduler, _) => vec![
            step("the kernel's own scheduler took over; look at what it does", "sudo unstarve record --for 30s"),
            step("report the dump to the BPF scheduler's project", "cat /sys/kernel/sched_ext/root/ops"),
        ],
        (Trouble::RealTimeLimit, _) => vec![threads, record, check],
        (Trouble::Deadline | Trouble::LateWakeup, _) => vec![record, threads],
        (Trouble::GroupLimit, _) => vec![check, record],
        (Trouble::InterruptLoad, _) => vec![
            step(
                "which interrupts come, and on which CPU: add both looks to this text",
                "cat /proc/interrupts /proc/softirqs; sleep 10; cat /proc/interrupts /proc/softirqs",
            ),
            record,
        ],
        (Trouble::Interrupts | Trouble::UserHeld | Trouble::Machine, _) => {
            vec![step("time that the hypervisor took from each CPU (8th number)", "grep '^cpu' /proc/stat"), record]
        }
        (Trouble::Device, _) => {
            vec![step("whether a worker of the device is starved", "sudo unstarve record --for 30s")]
        }
    };
    let cpu = worst.cpus().first().copied();
    let is_of_cpu = |row: &Seen| row.of == RowOf::Thread && row.cpu.is_some() && (cpu.is_none() || row.cpu == cpu);
    let has_threads = !facts.lacks_threads() && facts.seen.iter().any(is_of_cpu);
    steps.retain(|step| !has_threads || step.command != list);
    steps.truncate(3);
    steps
}

/// Whether the machine as a whole, or its clock, stood still: the CPUs hung together, a clock jumped, or time was taken from them.
fn stood_still(worst: &Judged<'_>, facts: &Facts) -> bool {
    let says_so = |stuck: &Stuck| match stuck.sign {
        Sign::ClockJumped => stuck.at.is_same_boot(&worst.stuck.at) && is_near(stuck, worst.stuck),
        // Of no time.
        Sign::Steal => true,
        _ => false,
    };
    worst.way == InTheWay::Shared || facts.stuck.iter().any(says_so)
}
