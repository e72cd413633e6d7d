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

const LOCKUP: &str = "\
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
