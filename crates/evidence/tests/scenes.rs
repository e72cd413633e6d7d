//! Texts in the shape that reporters give them.

use unstarve_diagnose::report::Report;
use unstarve_evidence::{Facts, explain, scan};

fn explained(texts: &[(&str, &str)]) -> Report {
    let mut facts = Facts::default();
    let sources: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(place, (name, text))| scan(text.as_bytes(), name, place as u32, &mut facts).expect("memory can be read"))
        .collect();
    explain(&facts, &sources)
}

/// Each finding in a line: id, victim, CPUs, culprit, sentence.
fn findings(texts: &[(&str, &str)]) -> String {
    let report = explained(texts);
    let line = |finding: &unstarve_diagnose::report::Finding| {
        let culprit =
            finding.culprits.first().map_or("-".to_owned(), |culprit| format!("{}{:?}", culprit.comm, culprit.tids));
        format!(
            "{} {} {:?} by {culprit} ({})\n  {}",
            finding.severity.word(),
            finding.id,
            finding.cpus,
            finding.confidence,
            finding.sentence
        )
    };
    if report.findings.is_empty() {
        report.verdict.text
    } else {
        report.findings.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

pub const LOCKUP: &str = "\
[  301.100000] BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 43s!
[  301.100100] Showing busy workqueues and worker pools:
[  301.100200] workqueue mm_percpu_wq: flags=0x8
[  301.100300]   pwq 14: cpus=3 node=0 flags=0x0 nice=0 active=1/256 refcnt=2
[  301.100400]     pending: vmstat_update
[  301.100500] pool 14: cpus=3 node=0 flags=0x0 nice=0 hung=43s workers=2 idle: 52 19
";

const LIST: &str = "\
    PID     TID CLS RTPRIO  NI PSR STAT %CPU WCHAN                COMMAND
     52      52  TS      -   0   3 R     0.0 -                    kworker/3:1-events
   2211    2219  FF     50   -   3 RLl  99.9 -                    reactor_3
   2211    2220  FF     50   -   2 RLl  99.9 -                    reactor_2
";

const BACKTRACE: &str = "\
[  301.200000] NMI backtrace for cpu 3
[  301.200100] CPU: 3 PID: 2219 Comm: reactor_3 Not tainted 6.12.5-amd64 #1
[  301.200200] RIP: 0033:0x55d0
";

#[test]
fn a_log_names_the_pool_and_the_list_the_culprit() {
    insta::assert_snapshot!(findings(&[("log", LOCKUP)]));
    insta::assert_snapshot!(findings(&[("log", LOCKUP), ("ps", LIST)]));
    let log = format!("{LOCKUP}{BACKTRACE}");
    insta::assert_snapshot!(findings(&[("log", &log)]));
    insta::assert_snapshot!(findings(&[("log", &log), ("ps", LIST)]));
}

#[test]
fn a_backtrace_of_another_cpu_or_time_names_nobody() {
    let other_cpu = format!("{LOCKUP}{}", BACKTRACE.replace("cpu 3", "cpu 2").replace("CPU: 3", "CPU: 2"));
    let other_time = format!("{}{LOCKUP}", BACKTRACE.replace("  301.", "  101."));
    let other_boot = format!("{}[    0.000000] Linux version 6.12.5\n{LOCKUP}", BACKTRACE.replace("  301.", "  300."));
    for log in [other_cpu, other_time, other_boot] {
        let report = explained(&[("log", &log)]);
        assert_eq!(report.findings.len(), 1, "{log}");
        assert!(report.findings[0].culprits.is_empty(), "{:?}", report.findings[0].sentence);
    }
}

#[test]
fn who_is_blocked_behind_a_starved_worker_is_its_cost() {
    let hung = "\
[  310.000000] INFO: task cp:700 blocked for more than 30 seconds.
[  310.000100]       Not tainted 6.12.5-amd64 #1
[  310.000200] task:cp              state:D stack:0     pid:700   tgid:700   ppid:1      flags:0x00004000
[  310.000300] Call Trace:
[  310.000400]  __schedule+0x3a2/0xa40
[  310.000500]  schedule_timeout+0x101/0x110
[  310.000600]  __flush_work+0x1ae/0x2e0
[  310.000700]  lru_add_drain_all+0x1/0x20
";
    let report = explained(&[("log", &format!("{LOCKUP}{hung}"))]);
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!(finding.price.iter().map(|payer| payer.comm.as_str()).collect::<Vec<_>>(), ["cp"]);
    // Alone it is no starvation.
    insta::assert_snapshot!(findings(&[("log", hung)]));
}

#[test]
fn all_cpus_that_hang_together_accuse_no_thread() {
    let lockup = |cpu: u32, comm: &str| {
        format!("[  500.{cpu}00000] watchdog: BUG: soft lockup - CPU#{cpu} stuck for 22s! [{comm}:{}]\n", 900 + cpu)
    };
    let log: String = [(0, "nginx"), (1, "postgres"), (2, "java")].map(|(cpu, comm)| lockup(cpu, comm)).concat();
    insta::assert_snapshot!(findings(&[("log", &log)]));
    insta::assert_snapshot!(findings(&[("log", &lockup(1, "postgres"))]));
}

#[test]
fn rcu_that_sleeps_is_not_starved() {
    let stall = |state: &str, current: &str| {
        format!(
            "[  400.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[  400.1] rcu: \t1-...!: (0 ticks this GP) idle=2d6/1/0x4000000000000000 softirq=9/9 fqs=0
[  400.2] rcu: \t(detected by 0, t=5252 jiffies, g=5, q=7 ncpus=4)
[  400.3] rcu: rcu_preempt kthread starved for 5252 jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state={state} ->cpu=1
[  400.4] rcu: RCU grace-period kthread stack dump:
[  400.5] task:rcu_preempt     state:R stack:0     pid:18    tgid:18    ppid:2      flags:0x00004000
[  400.6] Call Trace:
[  400.7]  __schedule+0x2c8/0x8d8
[  400.8] rcu: Stack dump where RCU GP kthread last ran:
[  400.9] NMI backtrace for cpu 1{current}
"
        )
    };
    let runs = "\n[  401.0] CPU: 1 PID: 900 Comm: poller Not tainted 6.12.5-amd64 #1";
    insta::assert_snapshot!(findings(&[("log", &stall("0x0", runs))]));
    insta::assert_snapshot!(findings(&[("log", &stall("0x402", " skipped: idling at mwait_idle+0x80/0x90"))]));
}

#[test]
fn a_bpf_scheduler_is_named_unless_a_real_time_thread_had_the_cpu() {
    let dump = |class: &str| {
        format!(
            "sched_ext: BPF scheduler \"simple\" disabled (runnable task stall)
sched_ext: simple: kworker/3:0[106] failed to run for 5.037s
CPU 3   : nr_run=2 flags=0x1 cpu_rel=0 ops_qseq=1 pnt_seq=2
          curr=audio[994] class={class}
  R kworker/3:0[106] -5037ms
"
        )
    };
    insta::assert_snapshot!(findings(&[("log", &dump("rt_sched_class"))]));
    insta::assert_snapshot!(findings(&[("log", &dump("ext_sched_class"))]));
}

#[test]
fn a_device_that_is_late_explains_who_is_blocked() {
    let log = "\
[  310.000000] INFO: task jbd2/dm-1-8:730 blocked for more than 120 seconds.
[  310.000200] task:jbd2/dm-1-8     state:D stack:0     pid:730   ppid:2      flags:0x00004000
[  310.000400]  __schedule+0x3a2/0xa40
[  310.000500]  io_schedule+0x12/0x40
[  311.000000] nvme nvme1: I/O 12 QID 3 timeout, aborting
";
    insta::assert_snapshot!(findings(&[("log", log)]));
}

#[test]
fn a_text_without_a_word_of_it_says_so() {
    insta::assert_snapshot!(findings(&[("mail", "Hello,\n\nmy disk is slow.\n")]));
}

/// A stall of CPU 1 that another CPU noticed, with the stack of what runs there.
fn stall(thread: &str, stack: &str) -> String {
    let stack: String = stack.lines().map(|line| format!("[  100.500006] {line}\n")).collect();
    format!(
        "[  100.500000] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[  100.500001] rcu: \t1-...0: (1 GPs behind) idle=1fe/1/0x4000000000000000 softirq=498/499 fqs=2379
[  100.500002] rcu: \t(detected by 0, t=5252 jiffies, g=5, q=7 ncpus=4)
[  100.500003] Sending NMI from CPU 0 to CPUs 1:
[  100.500004] NMI backtrace for cpu 1
[  100.500005] CPU: 1 PID: 900 Comm: {thread} Not tainted 6.1.0-18-amd64 #1
{stack}"
    )
}

#[test]
fn what_a_look_shows_the_cpu_doing() {
    let rows = [
        // A thread of the kernel or of a program that runs kernel code is what holds the CPU.
        ("its own code", "dd", "RIP: 0010:copy_page+0x7/0x10\n Call Trace:\n  <TASK>\n filemap_read+0x1/0x2\n"),
        // In an instrumented kernel the innermost function is the instrument.
        (
            "waits for another CPU, below an instrument",
            "dd",
            "RIP: 0010:__sanitizer_cov_trace_pc+0x20/0x50\n smp_call_function_many_cond+0x1/0x2\n",
        ),
        ("the stopper of a CPU waits for others", "migration/1", "RIP: 0010:rcu_momentary_eqs+0x2/0x10\n"),
        (
            "softirqs at the end of an interrupt",
            "dd",
            "RIP: 0010:net_rx_action+0x77/0x2a8\n __do_softirq+0x1/0x2\n irq_exit_rcu+0x1/0x2\n sysvec_apic_timer_interrupt+0x1/0x2\n",
        ),
        (
            "softirqs are the work of ksoftirqd",
            "ksoftirqd/1",
            "RIP: 0010:net_rx_action+0x77/0x2a8\n handle_softirqs+0x1/0x2\n run_ksoftirqd+0x1/0x2\n",
        ),
        (
            "softirqs that the thread raised itself",
            "iperf",
            "RIP: 0010:net_rx_action+0x77/0x2a8\n __do_softirq+0x1/0x2\n do_softirq+0x1/0x2\n __local_bh_enable_ip+0x1/0x2\n",
        ),
        (
            "an interrupt's handler",
            "dd",
            "RIP: 0010:mmio_read+0x77/0x2a8\n handle_irq_event+0x1/0x2\n handle_edge_irq+0x1/0x2\n",
        ),
        ("arm64", "dd", "pc : queued_spin_lock_slowpath+0x60/0x3a4\nlr : x+0x1/0x2\n"),
        ("arm64, a program", "dd", "pc : 0000ffff8a1b2c3d\nlr : 0000ffff8a1b2c3d\n"),
        ("arm", "dd", "PC is at csd_lock_wait+0x10/0x20\nLR is at x+0x1/0x2\n"),
        (
            "powerpc",
            "dd",
            "NIP:  c00000000018a4ec LR: c00000000018a4b0 CTR: 0\nNIP [c00000000018a4ec] smp_call_function_many_cond+0x4dc/0x5e0\nLR [c00000000018a4b0] x+0x1/0x2\n",
        ),
        ("s390", "dd", "Krnl PSW : 0704e00180000000 000000000012ab34 (arch_spin_lock_wait+0x1c/0x50)\n"),
        ("RISC-V", "dd", "epc : smp_call_function_many_cond+0x1ba/0x436\n ra : x+0x1/0x2\n"),
    ];
    let lines =
        rows.map(|(what, thread, stack)| format!("{what}\n  {}", findings(&[("dmesg", &stall(thread, stack))])));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_work_item_belongs_to_the_thread_above_it() {
    let text = stall("udevd", "RIP: 0010:advance_sched+0x9cc/0xc90\n")
        + "task:kworker/1:1     state:R  running task     stack:22536 pid:43    tgid:43    ppid:2      flags:0x00004000
Workqueue: mld mld_ifc_work
Call Trace:
 __schedule+0x1/0x2
";
    let found = findings(&[("dmesg", &text)]);
    assert!(found.contains("RCU cannot go on: udevd[900] holds CPU 1"), "{found}");
}

#[test]
fn the_thread_of_rcu_is_not_what_runs_on_the_cpu_that_noticed() {
    let text = "[  100.000000] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 32s!
[  100.500000] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[  100.500001] rcu: \t(detected by 0, t=3752 jiffies, g=2501, q=587)
[  100.500002] rcu: All QSes seen, last rcu_preempt kthread activity 557 (4295471128-4295470571), jiffies_till_next_fqs=1, root ->qsmask 0x0
[  100.500003] rcu: rcu_preempt kthread starved for 557 jiffies! g2705 f0x2 RCU_GP_CLEANUP(7) ->state=0x0 ->cpu=0
[  100.500004] task:rcu_preempt     state:R  running task     stack:    0 pid:   10 ppid:     2 flags:0x00000428
[  100.500005] Call trace:
[  100.500006]  __switch_to+0x14c/0x1e0
";
    let found = findings(&[("dmesg", text)]);
    assert!(!found.contains("starved by rcu_preempt"), "{found}");
}

#[test]
fn a_log_with_a_sign_of_a_hang_is_not_healthy() {
    let log = |line: &str| {
        let boot = "[    0.000000] Linux version 6.1.0-18-amd64 (gcc-12) #1 SMP\n[    1.000000] usb 1-1: new device\n";
        format!("{boot}[  100.500000] {line}\n[  101.000000] usb 2-1: USB disconnect, device number 4\n")
    };
    let lines = [
        "INFO: rcu_tasks detected stalls on tasks:",
        "watchdog: bug: soft LOCKUP - cpu#1 stuck for 22s! [x:900]",
        "BUG: soft lockup detected on CPU#1!",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 61s!",
        "BUG: spinlock lockup suspected on CPU#0, kswapd0/643",
        "watchdog: CPU 12 detected hard LOCKUP on other CPUs 13",
        "watchdog: CPU 12 self-detected hard LOCKUP @ x+0x1/0x2",
        "watchdog: CPU232: Watchdog detected hard LOCKUP on cpu 232",
        "Kernel panic - not syncing: Watchdog detected hard LOCKUP on cpu 0",
        "Kernel panic - not syncing: hung_task: blocked tasks",
        "task kworker/u8:3:123 blocked for more than 120 seconds",
        "vkhungtaskd: INFO: task \"f2fs_ckpt-254:5\":769 blocked for more than 193 seconds.",
        "INFO: rcu_sched_state detected stall on CPU 3 (t=2500 jiffies)",
        "rcu: rcu_sched kthread timer wakeup didn't happen for 5250 jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402",
        "After 10 seconds, these CPUS still haven't responded to the NMI: 3",
        "[sched_delayed] sched: RT throttling activated",
        "sched: DL replenish lagged to much",
        "sched_ext: simple: watchdog failed to check in for 5.001s",
        "e1000e 0000:00:19.0 eth0: NETDEV WATCHDOG: CPU: 2: transmit queue 0 timed out 8040 ms",
        "NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5000 ms",
        "nvme nvme0: controller is down; will reset: CSTS=0x3",
        "amdgpu 0000:0c:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2",
        // Trouble beside.
        "Out of memory: Killed process 900 (x) total-vm:1kB",
        "I/O error, dev sda, sector 1 op 0x0:(READ) flags 0x0",
        "irq 16: nobody cared (try booting with the \"irqpoll\" option)",
        "CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",
        "perf samples too long (2506 > 2500), lowering kernel.perf_event_max_sample_rate to 50000",
        "Clocksource tsc unstable (delta = 299958957929 ns)",
        // None.
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "watchdog: Delayed init of the lockup detector failed: -19",
        "rcu: \tRCU CPU stall warnings timeout set to 100 (rcu_cpu_stall_timeout).",
        "Kernel command line: root=/dev/sda1 softlockup_panic=1 hung_task_panic=1",
    ];
    insta::assert_snapshot!(lines.map(|line| format!("{line}\n  {}", findings(&[("dmesg", &log(line))]))).join("\n"));
}

#[test]
fn a_line_of_a_hang_that_a_mailer_broke_is_whole_again() {
    let text = "> > [  607.608845] INFO: task fio:3382 blocked for more than 121\n> > seconds.\n> > [  607.608900]  __schedule+0x1/0x2\n> > [  607.608901]  io_schedule+0x1/0x2\n";
    let found = findings(&[("mail", text)]);
    assert!(found.contains("fio[3382] is blocked"), "{found}");
    let bare = "> > INFO: task kworker/u36:10:377691 blocked for more than 122\n> > seconds.\n";
    let found = findings(&[("mail", bare)]);
    assert!(found.contains("kworker/u36:10[377691] is blocked"), "{found}");
    let title = "cannot exit for a long time, then trigger hungtask:\nINFO: task kworker/56:0:1391396 blocked for more than 122 seconds.\n";
    let found = findings(&[("mail", title)]);
    assert!(found.contains("kworker/56:0[1391396] is blocked"), "{found}");
}

#[test]
fn messages_that_were_joined_to_a_line_are_read() {
    let text = "> [30881.451577] note: kworker/60:1[1740] exited with irqs disabled [31086.440252] watchdog: CPU232: Watchdog detected hard LOCKUP on cpu 232 [31086.440253] Modules linked in: x\n";
    let found = findings(&[("mail", text)]);
    assert!(found.contains("Kernel code holds CPU 232"), "{found}");
}

#[test]
fn a_number_of_jiffies_that_ran_over_says_nothing() {
    for jiffies in ["18446744073709551615", "4294967211"] {
        let text = format!(
            "[  100.5] rcu: rcu_preempt kthread starved for {jiffies} jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1\n"
        );
        let found = findings(&[("dmesg", &text)]);
        assert!(found.ends_with("the text does not say what ran there."), "{found}");
    }
}

#[test]
fn a_thread_that_hangs_on_one_cpu_after_the_other_is_not_the_cause() {
    let lockup = |second: u32, cpu: u32, thread: &str| {
        format!("[{second:5}.100000] watchdog: BUG: soft lockup - CPU#{cpu} stuck for 26s! [{thread}]\n")
    };
    let first = lockup(1000, 15, "kworker/15:7:818734") + &lockup(1400, 4, "systemd:1") + &lockup(1600, 7, "systemd:1");
    let found = findings(&[("dmesg", &(first.clone() + &lockup(1700, 5, "systemd:1")))]);
    assert!(!found.contains("in the thread systemd"), "{found}");
    assert!(findings(&[("dmesg", &first)]).contains("in the thread systemd"));
    let two = lockup(1000, 7, "systemd:1") + &lockup(1100, 7, "systemd-journal:820197");
    let found = findings(&[("dmesg", &two)]);
    assert!(found.contains("thread systemd[1]") && found.contains("thread systemd-journal[820197]"), "{found}");
}

/// The commands of the next steps.
fn commands(text: &str) -> Vec<String> {
    let steps = explained(&[("log", text)]).evidence.expect("texts").next;
    steps.into_iter().map(|step| step.command).collect()
}

#[test]
fn what_a_line_says_of_its_thread_or_its_cpus_is_said() {
    let dated = |text: &str| text.lines().map(|line| format!("[  500.100000] {line}\n")).collect::<String>();
    let rows = [
        (
            "RCU's tasks",
            dated(
                "INFO: rcu_tasks detected stalls on tasks:\n000000005e8a3a1b: .. nvcsw: 1/1 holdout: 1 idle_cpu: -1/3\ntask:poller          state:R  running task     stack:    0 pid:  900 ppid:     1 flags:0x00004000\nCall Trace:\n __schedule+0x1/0x2",
            ),
        ),
        (
            "a spinlock",
            dated(
                "BUG: spinlock lockup suspected on CPU#1, comm/123\n lock: jiffies_lock+0x0/0x40, .magic: dead4ead, .owner: kswapd0/643, .owner_cpu: 0",
            ),
        ),
        ("a BPF scheduler", dated("sched_ext: BPF scheduler \"lavd_1.0.5\" disabled (runnable task stall)")),
        (
            "a BPF scheduler, then the thread",
            dated(
                "sched_ext: BPF scheduler \"lavd_1.0.5\" disabled (runnable task stall)\nsched_ext: lavd_1.0.5: kworker/3:0[106] failed to run for 5.037s",
            ),
        ),
        ("a BPF scheduler, taken away", dated("sched_ext: BPF scheduler \"lavd_1.0.5\" disabled (unregistered from user space)")),
        ("a BPF scheduler's watchdog", dated("sched_ext: lavd: watchdog failed to check in for 5.001s")),
        (
            "an interrupt's handler in the idle task",
            dated(
                "NMI watchdog: Watchdog detected hard LOCKUP on cpu 1\nCPU: 1 PID: 0 Comm: swapper/1 Not tainted 6.1.0-18-amd64 #1\nRIP: 0010:native_queued_spin_lock_slowpath+0x60/0x3a4\nCall Trace:\n <IRQ>\n _raw_spin_lock+0x1/0x2\n handle_irq_event+0x1/0x2",
            ),
        ),
        (
            "an interrupt's handler in the idle task that does not end",
            dated(
                "NMI watchdog: Watchdog detected hard LOCKUP on cpu 1\nCPU: 1 PID: 0 Comm: swapper/1 Not tainted 6.1.0-18-amd64 #1\nRIP: 0010:mmio_read+0x60/0x3a4\nCall Trace:\n <IRQ>\n handle_irq_event+0x1/0x2\n handle_edge_irq+0x1/0x2",
            ),
        ),
        ("powerpc, several CPUs", dated("watchdog: CPU 12 detected hard LOCKUP on other CPUs 13,16-17")),
        (
            "powerpc, one CPU after the other",
            "[  500.1] watchdog: CPU 12 self-detected hard LOCKUP @ x+0x1/0x2\n[ 1500.1] watchdog: CPU 13 self-detected hard LOCKUP @ x+0x1/0x2\n".to_owned(),
        ),
        ("stalld without a CPU", "Nov 30 10:11:12 db7 stalld[77]: ksoftirqd/3-40 starved for 61 seconds\n".to_owned()),
        (
            "Corosync",
            "Nov 30 10:11:12 db7 corosync[77]: [MAIN  ] Corosync main process was not scheduled (@1681222048760) for 4500.1234 ms (threshold is 800.0000 ms). Consider token timeout increase.\n".to_owned(),
        ),
    ];
    let lines = rows.map(|(what, text)| format!("{what}\n  {}", findings(&[("log", &text)])));
    insta::assert_snapshot!(lines.join("\n"));
}

fn interrupts(count: u64) -> String {
    format!(
        "           CPU0       CPU1\n 45:          7  {count}   PCI-MSI 524288-edge      nvme0q1\nLOC:   500     500   Local timer interrupts\n\n"
    )
}

#[test]
fn the_next_step_is_about_what_was_seen() {
    let lockup =
        |cpu: u32| format!("[  500.100000] watchdog: BUG: soft lockup - CPU#{cpu} stuck for 26s! [x{cpu}:90{cpu}]\n");
    let all: String = (0..4).map(lockup).collect();
    let jump = "[  500.200000] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:\n";
    // The text, a part of the first command, and a part that no command may have.
    let table = [
        ("a storm of interrupts", interrupts(5) + &interrupts(900_000), "/proc/irq/45/", "/proc/stat"),
        ("one look at interrupts", interrupts(900_000), "sleep 10; cat /proc/interrupts", "/proc/stat"),
        ("one CPU that hangs", lockup(1), "sysrq-trigger", "/proc/stat"),
        ("all CPUs that hang together", all, "/proc/stat", "sysrq"),
        ("a CPU that hangs while the clock jumps", lockup(1) + jump, "/proc/stat", "sysrq"),
    ];
    for (what, text, first, never) in table {
        let commands = commands(&text);
        assert!(commands[0].contains(first), "{what}: {commands:?}");
        assert!(!commands.iter().any(|command| command.contains(never)), "{what}: {commands:?}");
    }
    let one_look = explained(&[("interrupts", &interrupts(900_000))]);
    assert!(one_look.verdict.text.starts_with("One look at the interrupts"), "{}", one_look.verdict.text);
}

#[test]
fn a_tool_that_found_nothing_late_says_so() {
    let row = |number: u32, max: u32| {
        format!("T: {number} ( 123{number}) P:80 I:1000 C: 100000 Min:      2 Act:    3 Avg:    4 Max:      {max}\n")
    };
    assert_eq!(
        findings(&[("cyclictest", &(row(0, 21) + &row(1, 35) + &row(0, 22)))]),
        "Nothing was late: cyclictest: 2 threads woke at most 35.0 µs late."
    );
    assert!(findings(&[("cyclictest", &(row(0, 21) + &row(1, 35_000)))]).contains("cyclictest[1231] woke late"));
}
