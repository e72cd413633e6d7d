//! Rules about PREEMPT_RT's threads, hypervisors and BPF schedulers, each beside a host on which nothing is wrong.

use unstarve_check::Severity;
use unstarve_facts::CpuTimes;
use unstarve_model::SchedPolicy;

use super::host::{Host, healthy};

const NONE: [&str; 0] = [];

/// A kernel with threaded interrupts: the disk's on CPU 2, the timers of each CPU.
fn real_time_kernel() -> Host {
    let mut host = healthy();
    for (tid, comm, priority, cpu) in [
        (300, "irq/42-nvme0q2", 50, "2"),
        (301, "ktimers/2", 1, "2"),
        (302, "ktimers/3", 1, "3"),
        (303, "rcuc/3", 1, "3"),
    ] {
        let task = host.kernel_thread(tid, comm, cpu);
        (task.policy, task.rt_priority, task.affinity_fixed) = (SchedPolicy::Fifo, priority, !comm.starts_with("irq"));
    }
    host
}

#[test]
fn programs_ahead_of_interrupt_threads() {
    let rule = "rt-above-irq-thread";
    let mut host = real_time_kernel();
    host.real_time(900, "jackd", 70, "2-3", 0.3);
    insta::assert_snapshot!(host.says(rule).join("\n"), @"critical jackd[900] RR 70 may run on CPUs 2-3 ahead of irq/42-nvme0q2 (FIFO 50) and 3 more such threads.");
    let fixes = host.hits(rule).remove(0).fixes;
    assert!(fixes.iter().any(|fix| fix.apply.contains("--fifo --pid 71")), "{fixes:#?}");
    // Below the interrupts it is still above the timers.
    let mut below = real_time_kernel();
    below.real_time(900, "jackd", 40, "2-3", 0.3);
    assert!(below.says(rule)[0].contains("ahead of ktimers/2 (FIFO 1) and 2 more"), "{:?}", below.says(rule));
    // Nearly: pinned elsewhere; not real-time; a host whose interrupts have no threads; hardly ever running.
    let mut beside = real_time_kernel();
    beside.real_time(900, "jackd", 70, "5-6", 0.3);
    assert_eq!(beside.says(rule), NONE);
    let mut fair = real_time_kernel();
    fair.task(900, "jackd", "2-3", "/system.slice");
    assert_eq!(fair.says(rule), NONE);
    let mut plain = healthy();
    plain.real_time(900, "jackd", 70, "2-3", 0.3);
    assert_eq!(plain.says(rule), NONE);
    let mut quiet = real_time_kernel();
    quiet.real_time(900, "watchdogd", 99, "0-7", 0.0);
    assert_eq!(quiet.worst(rule), Some(Severity::Info));
}

#[test]
fn a_hypervisor_that_takes_time() {
    let rule = "stolen-time";
    let with = |steal: u64| {
        let mut host = healthy();
        let times = |steal| CpuTimes { busy: 10_000, idle: 90_000 - steal, steal };
        host.0.cpu_times = Some([(0, times(0)), (3, times(steal))].into());
        host
    };
    insta::assert_snapshot!(with(20_000).says(rule).join("\n"), @"warning The hypervisor took up to 20 % of the time of CPU 3 since boot.");
    assert_eq!(with(5_000).worst(rule), Some(Severity::Info));
    assert_eq!(with(1_000).says(rule), NONE);
    assert_eq!(healthy().says(rule), NONE);
    let advice = with(20_000).hits(rule).remove(0).fixes.remove(0);
    assert!(advice.apply.is_empty() && advice.text.contains("Weights and cgroups of this machine do not help"));
}

#[test]
fn a_bpf_scheduler_has_rules_of_its_own() {
    let rule = "bpf-scheduler";
    let with = |files: &[(&str, &str)]| {
        let mut host = healthy();
        host.group("/kubepods.slice", 2500).task(700, "broker", "0-7", "/kubepods.slice/pod1");
        for (path, text) in files {
            host.setting(&format!("/sys/kernel/sched_ext/{path}"), text);
        }
        host
    };
    let loaded = with(&[("state", "enabled"), ("root/ops", "lavd_1.0"), ("switch_all", "1")]);
    insta::assert_snapshot!(loaded.says(rule).join("\n"), @"info A BPF scheduler (lavd_1.0) schedules all ordinary tasks, kernel workers included; the rules about weights say nothing meanwhile.");
    assert_eq!(loaded.says("heavy-cgroup"), NONE, "weights are rules of the fair class");
    let partial = with(&[("state", "enabled"), ("root/ops", "lavd_1.0"), ("switch_all", "0")]);
    assert!(partial.says(rule)[0].ends_with("schedules tasks of SCHED_EXT."), "{:?}", partial.says(rule));
    assert_eq!(partial.says("heavy-cgroup").len(), 1);
    let unloaded = with(&[("state", "disabled"), ("switch_all", "0")]);
    assert_eq!((unloaded.says(rule).len(), unloaded.says("heavy-cgroup").len()), (0, 1));
}
