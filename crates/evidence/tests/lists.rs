//! Lists of threads and of processes: what a row may be blamed for.

use unstarve_diagnose::report::Report;
use unstarve_evidence::{Facts, explain, scan};

use crate::scenes::LOCKUP;

/// What a lockup of CPU 3's workers is, with a list beside it.
fn beside(list: &str) -> Report {
    let mut facts = Facts::default();
    let texts = [("log", LOCKUP), ("list", list)];
    let sources: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(place, (name, text))| scan(text.as_bytes(), name, place as u32, &mut facts).expect("memory can be read"))
        .collect();
    explain(&facts, &sources)
}

fn culprit(report: &Report) -> Option<(String, Vec<u32>)> {
    report.findings[0].culprits.first().map(|culprit| (culprit.comm.clone(), culprit.tids.clone()))
}

fn first_step(report: &Report) -> &str {
    report.evidence.as_ref().and_then(|evidence| evidence.next.first()).map_or("", |step| step.command.as_str())
}

/// A case, its list, and the culprit with its id.
type Row = (&'static str, &'static str, Option<(&'static str, u32)>);

#[test]
fn a_row_is_blamed_for_a_cpu_only_if_it_is_one_thread() {
    // What the list is, its text, and who is the culprit.
    let table: [Row; 12] = [
        (
            "threads",
            "  PID   TID CLS RTPRIO  NI PSR STAT %CPU COMMAND\n 2211  2219  FF     50   - 3 RLl 99.9 reactor_3\n",
            Some(("reactor_3", 2219)),
        ),
        (
            "threads of processes with several",
            "UID        PID  PPID   LWP  C NLWP PSR STAT COMMAND\nroot      2211     1  2219 99    8   3 RLl  reactor_3\n",
            Some(("reactor_3", 2219)),
        ),
        (
            "processes, with a sign that there are several threads",
            "  PID PSR CLS RTPRIO  NI STAT %CPU COMMAND\n 2211   3  FF     50   - RLl  99.9 reactor\n",
            None,
        ),
        (
            "processes, with a state that has no sign of several threads",
            "  PID PSR CLS RTPRIO  NI STAT %CPU COMMAND\n 2211   3  FF     50   - RL+  99.9 poller\n",
            Some(("poller", 2211)),
        ),
        (
            "processes with a state of one letter",
            "  PID PSR CLS RTPRIO  NI S %CPU COMMAND\n 2211   3  FF     50   - R 99.9 poller\n",
            None,
        ),
        (
            "processes with the number of threads: one",
            "  PID PSR NLWP CLS RTPRIO S %CPU COMMAND\n 2211   3    1  FF     50 R 99.9 poller\n",
            Some(("poller", 2211)),
        ),
        (
            "processes with the number of threads: several",
            "  PID PSR NLWP CLS RTPRIO S %CPU COMMAND\n 2211   3   12  FF     50 R 99.9 poller\n",
            None,
        ),
        (
            "a thread of the kernel, by its brackets",
            "  PID PSR S %CPU COMMAND\n  812   3 R 99.9 [z_wr_iss]\n",
            Some(("z_wr_iss", 812)),
        ),
        (
            "a thread of the kernel, by its parent",
            "  PID  PPID PSR S %CPU COMMAND\n  812     2   3 R 99.9 z_wr_iss\n",
            Some(("z_wr_iss", 812)),
        ),
        (
            "a thread of the kernel, by its name",
            "  PID PSR S %CPU COMMAND\n  812   3 R 99.9 irq/45-nvme0q3\n",
            Some(("irq/45-nvme0q3", 812)),
        ),
        (
            "top with CPUs, of processes",
            "Tasks: 200 total,   2 running, 198 sleeping,   0 stopped,   0 zombie\n\n    PID USER      PR  NI S  %CPU  P COMMAND\n   2211 root     -51   0 R  99.9  3 reactor_3\n",
            None,
        ),
        (
            "top with CPUs, of threads",
            "Threads: 532 total,   2 running, 530 sleeping,   0 stopped,   0 zombie\n%Cpu(s): 12.5 us,  0.4 sy,  0.0 ni, 87.1 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\nMiB Mem :  15884.1 total,   9120.0 free,   1764.1 used,   5000.0 buff/cache\nMiB Swap:      0.0 total,      0.0 free,      0.0 used.  13800.0 avail Mem\n\n    PID USER      PR  NI S  %CPU  P COMMAND\n   2219 root     -51   0 R  99.9  3 reactor_3\n",
            Some(("reactor_3", 2219)),
        ),
    ];
    for (what, list, expected) in table {
        let report = beside(list);
        let found = culprit(&report);
        let found = found.as_ref().map(|(comm, tids)| (comm.as_str(), tids[0]));
        assert_eq!(found, expected, "{what}: {}", report.findings[0].sentence);
    }
}

#[test]
fn a_busy_process_is_quoted_and_its_threads_are_asked_for() {
    let aux = "\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           1  0.0  0.1 167000 11000 ?        Ss   Nov29   0:09 /sbin/init
root        2211  300  1.0 900000 50000 ?        RLl  Nov29 900:00 /usr/bin/spdk_tgt -m 0xe
";
    let report = beside(aux);
    assert_eq!(culprit(&report), None);
    assert!(first_step(&report).starts_with("ps -eLo "), "{}", first_step(&report));
    let quoted = report.findings[0].evidence.iter().find(|line| line.contains("spdk_tgt"));
    assert!(quoted.is_some_and(|line| line.contains("all its threads together")), "{:?}", report.findings[0].evidence);
    assert_eq!(report.trace.format, "kernel log, list of processes (ps)");
}

#[test]
fn top_of_threads_without_a_cpu_is_quoted() {
    let top = "\
top - 10:11:12 up 1 day,  2:03,  1 user,  load average: 9,01, 8,02, 7,03
Threads: 532 gesamt,   2 laufend, 530 schlafend,   0 gestoppt,   0 Zombie
%CPU(s): 12,5 be,  0,4 sy,  0,0 ni, 87,1 un,  0,0 wa,  0,0 hi,  0,0 si, 23,0 st

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     ZEIT+ BEFEHL
   2219 root     -51   0  900000  50000   9000 R  99,9   1,0 900:00.00 reactor_3
";
    let report = beside(top);
    assert_eq!(culprit(&report), None);
    let evidence = &report.findings[0].evidence;
    assert!(
        evidence.iter().any(|line| line.contains("reactor_3[2219]: 99.9 % of a CPU, the list does not say on which"))
    );
    assert!(report.findings.iter().any(|finding| finding.sentence.contains("23 %")), "{:?}", report.findings);
    assert_eq!(report.trace.format, "kernel log, list of threads (top)");
}

#[test]
fn pidstat_has_threads_and_their_cpus() {
    let pidstat = "\
Linux 6.12.5-amd64 (db7)  11/30/26  _x86_64_  (8 CPU)

10:11:12 AM   UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:11:13 AM     0      2211         -   99.01    0.99    0.00    0.00  297.00     3  spdk_tgt
10:11:13 AM     0         -      2211    0.00    0.00    0.00    0.00    0.00     3  |__spdk_tgt
10:11:13 AM     0         -      2219   99.01    0.00    0.00    0.00   99.01     3  |__reactor_3

10:11:13 AM   UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command
10:11:14 AM     0         -      2219   99.01    0.00    0.00    0.00   99.01     3  |__reactor_3
";
    let report = beside(pidstat);
    assert_eq!(culprit(&report), Some(("reactor_3".to_owned(), vec![2219])));
    assert_eq!(report.trace.format, "kernel log, list of threads (pidstat)");
    // Without -t its rows are processes.
    let processes = "10:11:12      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n10:11:13        0      2211   99.01    0.00    0.00    0.00   99.01     3  spdk_tgt\n";
    assert_eq!(culprit(&beside(processes)), None);
}

#[test]
fn a_pool_s_own_worker_does_not_starve_the_pool() {
    let list = |name: &str| {
        format!("  PID   TID CLS RTPRIO  NI PSR STAT %CPU COMMAND\n   52    52  TS      -   0   3 R    99.0 {name}\n")
    };
    let report = beside(&list("kworker/3:1-events"));
    insta::assert_snapshot!(report.findings[0].sentence, @"kworkers of CPU 3 wait: their own worker kworker/3:1[52] does not finish its work: at least 43.0 s.");
    assert_eq!(report.findings[0].id.as_str(), "kernel-holds-cpu");
    // A worker of the other pool of that CPU competes with it.
    let other = beside(&list("kworker/3:1H-kblockd"));
    assert_eq!(other.findings[0].id.as_str(), "stuck-equal");
}
