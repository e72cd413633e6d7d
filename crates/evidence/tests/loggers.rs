//! The same report as many loggers print it, and a program's words in each, which are nobody's fact.

use std::io::Cursor;
use std::time::Duration;

use unstarve_evidence::{Limits, explain, gather_input};
use unstarve_readers::Input;

/// A soft lockup, with a look at the CPU.
const LINES: [(&str, &str); 4] = [
    ("301.100000", "watchdog: BUG: soft lockup - CPU#3 stuck for 43s! [poller:900]"),
    ("301.100100", "CPU: 3 PID: 900 Comm: poller Not tainted 6.12.5-amd64 #1"),
    ("301.100200", "RIP: 0010:copy_page+0x7/0x10"),
    ("301.100300", " filemap_read+0x1/0x2"),
];

fn sentences(text: &str) -> Vec<String> {
    let limits = Limits { files: 10, archives: 1, bytes: 1 << 20, time: Duration::from_secs(60) };
    let input = Input::from_stream(Box::new(Cursor::new(text.as_bytes().to_vec())), "log".to_owned()).unwrap();
    let hosts = gather_input(input, limits).hosts;
    let findings = hosts.iter().flat_map(|host| explain(&host.facts, &host.sources).findings);
    findings.map(|finding| finding.sentence).collect()
}

/// The line of a logger: of the kernel, or of a program. The number is the line's, from 0.
type Logger = fn(usize, &str, &str, bool) -> String;

fn json(message: &str, stamp: &str, transport: &str) -> String {
    let us = stamp.replace('.', "");
    format!(
        r#"{{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1700000000000000","__MONOTONIC_TIMESTAMP":"{us}","_BOOT_ID":"0123","_TRANSPORT":"{transport}","SYSLOG_IDENTIFIER":"kernel","_HOSTNAME":"db7","MESSAGE":{message}}}"#
    )
}

fn transport(is_kernel: bool) -> &'static str {
    if is_kernel { "kernel" } else { "syslog" }
}

const LOGGERS: [(&str, Logger); 11] = [
    ("journalctl -o short-delta", |number, stamp, text, is_kernel| {
        let delta = if number == 0 { " ".repeat(16) } else { " <    0.000100 >".to_owned() };
        format!("[  {stamp}{delta}] db7 {}: {text}", if is_kernel { "kernel" } else { "app[77]" })
    }),
    ("journalctl -o json", |_, stamp, text, is_kernel| json(&format!("{text:?}"), stamp, transport(is_kernel))),
    ("journalctl -o json, bytes", |_, stamp, text, is_kernel| {
        json(&format!("{:?}", text.as_bytes()), stamp, transport(is_kernel))
    }),
    ("logcat -b kernel", |_, _, text, is_kernel| {
        let (tag, rest) = text.split_once(": ").filter(|(tag, _)| !tag.contains(' ')).unwrap_or(("", text));
        format!("11-30 10:11:12.123 {} W {tag:<8}: {rest}", if is_kernel { "    0     0" } else { "  811   812" })
    }),
    ("kubectl get events", |_, _, text, is_kernel| {
        let object = if is_kernel { "node/db7" } else { "pod/app-77" };
        format!("3m12s (x2 over 9m)   Warning   KernelOops   {object}   {text}")
    }),
    ("kubectl describe node", |_, _, text, is_kernel| {
        let from = if is_kernel { "kernel-monitor" } else { "kubelet" };
        format!("  Warning  TaskHung   5m23s (x2 over 9m)  {from}  {text}")
    }),
    ("RFC 5424", |_, stamp, text, is_kernel| match is_kernel {
        true => format!("<4>1 2026-11-30T10:11:12.123Z db7 kernel - - - [  {stamp}] {text}"),
        false => format!("<13>1 2026-11-30T10:11:12.123Z db7 app 77 - - [  {stamp}] {text}"),
    }),
    ("journalctl -o short-unix", |_, _, text, is_kernel| {
        format!("1764497472.123456 db7 {}: {text}", if is_kernel { "kernel" } else { "app[77]" })
    }),
    ("journalctl -o with-unit", |_, _, text, is_kernel| {
        format!("Mon 2026-11-30 10:11:12 UTC db7 {}: {text}", if is_kernel { "kernel" } else { "app.service[77]" })
    }),
    ("talosctl dmesg", |_, _, text, is_kernel| {
        let facility = if is_kernel { "kern" } else { "user" };
        format!("10.0.0.2: {facility}: warning: [2026-11-30T10:11:12.123456789Z]: {text}")
    }),
    ("journalctl, further lines of a message", |number, _, text, is_kernel| {
        let columns = "Nov 30 10:11:12 db7 ";
        match (is_kernel, number) {
            (true, _) => format!("{columns}kernel: {text}"),
            (false, 0) => format!("{columns}app[77]: this is what I found:\n                             {text}"),
            (false, _) => format!("                             {text}"),
        }
    }),
];

fn logged(logger: Logger, is_kernel: bool) -> String {
    let lines = LINES.iter().enumerate();
    lines.map(|(number, (stamp, text))| logger(number, stamp, text, is_kernel) + "\n").collect()
}

#[test]
fn each_logger_s_kernel_is_read_and_its_programs_are_not() {
    let expected = ["Kernel code holds CPU 3, in the thread poller[900]: at least 43.0 s."];
    for (name, logger) in LOGGERS {
        assert_eq!(sentences(&logged(logger, true)), expected, "{name}");
        assert_eq!(sentences(&logged(logger, false)), [""; 0], "{name}: a program's words");
        // Lines that nobody waits for are before it.
        let far = |number| logger(number, "300.000000", "nothing", false) + "\n";
        let before: String = (0..100).map(far).collect();
        assert_eq!(sentences(&(before + &logged(logger, false))), [""; 0], "{name}: a program's words, far below");
    }
}

#[test]
fn further_lines_of_a_program_s_message_are_the_program_s() {
    let forged = "INFO: task x:77 blocked for more than 120 seconds.";
    let first = "Nov 30 10:11:12 db7 app[77]: first";
    let indent = " ".repeat(29);
    let lines = |count: usize| format!("{indent}another line\n").repeat(count);
    let table = [
        (format!("{first}\n{indent}{forged}\n"), 0),
        (format!("{first}\n{}{indent}{forged}\n", lines(40)), 0),
        (format!("> {first}\n> {indent}{forged}\n"), 0),
        // Its own words are in the window of the kernel's.
        (
            format!(
                "Nov 30 10:11:11 db7 kernel: {forged}\n{first}\n{}{indent}{}\n",
                lines(9),
                forged.replace("77", "78")
            ),
            1,
        ),
        // What the kernel says next is the kernel's.
        (format!("{first}\n{indent}x\nNov 30 10:11:13 db7 kernel: {forged}\n"), 1),
        // A log without columns that somebody indented.
        (format!("see:\n\n    {forged}\n"), 1),
    ];
    for (text, count) in table {
        let found = sentences(&text);
        assert_eq!(found.len(), count, "{text}\n{found:?}");
        assert!(found.iter().all(|sentence| !sentence.contains("78")), "{found:?}");
    }
}

#[test]
fn a_boot_of_the_journal_has_a_name() {
    let entry = |boot: &str, stamp: &str, text: &str| json(&format!("{text:?}"), stamp, "kernel").replace("0123", boot);
    let lockup = "BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 44s!";
    let look = ["NMI backtrace for cpu 3", "CPU: 3 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1"];
    let text = |boot: &str| {
        let looks: String = look.iter().map(|line| entry(boot, "100.200000", line) + "\n").collect();
        entry("0123", "100.100000", lockup) + "\n" + &looks
    };
    assert!(sentences(&text("0123"))[0].contains("poller"), "{:?}", sentences(&text("0123")));
    assert!(!sentences(&text("4567"))[0].contains("poller"), "{:?}", sentences(&text("4567")));
}

#[test]
fn a_year_ends_within_a_log_without_years() {
    let log = |day: &str| {
        format!(
            "Dec 31 23:59:59 db7 kernel: BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 44s!
{day} db7 kernel: NMI backtrace for cpu 3
{day} db7 kernel: CPU: 3 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1
"
        )
    };
    assert!(sentences(&log("Jan  1 00:00:00"))[0].contains("poller"));
    assert!(!sentences(&log("Jan  3 00:00:00"))[0].contains("poller"));
}

#[test]
fn a_vendor_s_word_before_a_message() {
    let expected = "Kernel code holds CPU 3, in the thread poller[900]: at least 43.0 s.";
    let lockup = "BUG: soft lockup - CPU#3 stuck for 43s! [poller:900]";
    // What stands before it, and whether it is the kernel's.
    let table = [
        ("", true),
        ("mykernel: ", true),
        ("[  301.100000] vendor-5.4: ", true),
        ("NMI watchdog: ", true),
        ("[  301.100000] mykernel: watchdog: ", true),
        ("Nov 30 10:11:12 db7 kernel: mykernel: ", true),
        ("Nov 30 10:11:12 db7 app[77]: mykernel: ", false),
        ("Nov 30 10:11:12 db7 app: ", false),
        ("Nov 30 10:11:12 app: ", false),
    ];
    let task = "INFO: task x:77 blocked for more than 120 seconds.";
    for (before, is_kernel) in table {
        let found = sentences(&format!("{before}{task}\n"));
        let is_it = found.first().is_some_and(|sentence| sentence.contains("x[77]"));
        // The watchdog does not say this.
        assert!(is_it == is_kernel || before.contains("watchdog"), "{before}: {found:?}");
        let found = sentences(&format!("{before}{lockup}\n"));
        let is_it = found.first().is_some_and(|sentence| sentence == expected);
        assert_eq!(is_it, is_kernel, "{before}: {found:?}");
    }
}

/// What two CPUs print at once: CPU 3 is held, and CPU 5 waits for it.
const OF_TWO: [[&str; 4]; 2] = [
    LOCKUP_OF_CPU_3,
    [
        "watchdog: BUG: soft lockup - CPU#5 stuck for 43s! [waiter:901]",
        "CPU: 5 PID: 901 Comm: waiter Not tainted 6.12.5-amd64 #1",
        "RIP: 0010:smp_call_function_many_cond+0x12a/0x300",
        " on_each_cpu_cond_mask+0x1/0x2",
    ],
];
const LOCKUP_OF_CPU_3: [&str; 4] = [LINES[0].1, LINES[1].1, LINES[2].1, LINES[3].1];

/// What explain says of lines without columns but the kernel's.
fn of_kernel(lines: &[&str]) -> Vec<String> {
    let line = |(number, line): (usize, &&str)| format!("[  301.{number:06}]{line}\n");
    sentences(&lines.iter().enumerate().map(line).collect::<String>())
}

#[test]
fn an_idle_cpu_or_another_caller_takes_nothing_from_a_look() {
    let dump = [
        "[    C3] CPU: 3 PID: 900 Comm: poller Not tainted 6.12.5-amd64 #1",
        "[    C3] RIP: 0010:copy_page+0x7/0x10",
        "[    C3]  filemap_read+0x1/0x2",
        "[    C3] RIP: 0033:0x7f30",
    ];
    let stall = [
        "[    C0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[    C0] rcu: \t3-....: (1 GPs behind) idle=e1a4/1/0x4000000000000000 softirq=1/2 fqs=2",
        "[    C0] rcu: \t(detected by 0, t=5252 jiffies, g=85, q=41 ncpus=4)",
    ];
    let plain = |lines: &[&'static str]| lines.iter().map(|line| &line[8..]).collect::<Vec<_>>();
    let idle = " NMI backtrace for cpu 0 skipped: idling at mwait_idle+0x80/0x90";
    let with_caller = of_kernel(&[stall.as_slice(), &dump].concat());
    assert_eq!(with_caller.len(), 1, "{with_caller:?}");
    assert!(with_caller[0].contains("poller[900]"), "{with_caller:?}");
    assert_eq!(of_kernel(&[plain(&stall), plain(&dump)].concat()), with_caller, "without callers");
    assert_eq!(of_kernel(&[plain(&stall), vec![idle], plain(&dump)].concat()), with_caller, "beside an idle CPU");
}

/// A stall that is open when the machine starts again is a finding, whoever printed in between.
#[test]
fn a_stall_before_a_boot_is_kept() {
    let stall = [
        "[    C3] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[    C3] rcu: \t3-....: (5249 ticks this GP) idle=e1a4/1/0x4000000000000000 softirq=1/2 fqs=2",
        "[    C3] rcu: \t(t=5252 jiffies g=85 q=41 ncpus=4)",
    ];
    let boot = " Linux version 6.12.5-amd64 (d@d) (gcc 14) #1 SMP PREEMPT_DYNAMIC";
    let alone = of_kernel(&stall);
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert_eq!(of_kernel(&[stall.as_slice(), &[boot]].concat()), alone);
    assert_eq!(of_kernel(&[stall.as_slice(), &["[   T45] systemd[1]: x", boot]].concat()), alone);
}

/// Of more callers than are kept the oldest are ended, and none is lost.
#[test]
fn many_callers_lose_nothing() {
    for callers in [63, 64, 65, 200] {
        let mut text = format!("[  301.000000][    C3] {}\n[  301.000001][    C3] {}\n", OF_TWO[0][0], OF_TWO[0][1]);
        for caller in 0..callers {
            text += &format!(
                "[  301.000002][  T{}] INFO: task x:{caller} blocked for more than 120 seconds.\n",
                caller + 100
            );
        }
        text += &format!("[  301.000003][    C3] {}\n", OF_TWO[0][2]);
        let found = sentences(&text);
        assert!(found.iter().any(|sentence| sentence.contains("poller[900]")), "{callers}: {found:?}");
    }
}

/// All orders in which the lines of two CPUs can be merged.
fn orders(left: [usize; 2]) -> Vec<Vec<usize>> {
    let mut all = if left == [0, 0] { vec![Vec::new()] } else { Vec::new() };
    for cpu in 0..2 {
        if left[cpu] > 0 {
            let mut rest = left;
            rest[cpu] -= 1;
            all.extend(orders(rest).into_iter().map(|order| [vec![cpu], order].concat()));
        }
    }
    all
}

#[test]
fn cpus_that_print_at_once_keep_their_own_stacks() {
    let held = "Kernel code holds CPU 3, in the thread poller[900]: at least 43.0 s.";
    for order in orders([4, 4]) {
        let text = |has_caller: bool| {
            let mut next = [0; 2];
            let line = |cpu: &usize| {
                let line = OF_TWO[*cpu][next[*cpu]];
                next[*cpu] += 1;
                let caller = if has_caller { format!("[    C{}]", [3, 5][*cpu]) } else { String::new() };
                format!("[  301.100000]{caller} {line}\n")
            };
            order.iter().map(line).collect::<String>()
        };
        let found = sentences(&text(true));
        assert_eq!(found, sentences(&[text_of(0), text_of(1)].concat()), "with callers, {order:?}");
        // Without them the stack of who waits clears nobody else.
        let found = sentences(&text(false));
        assert!(found.contains(&held.to_owned()), "{order:?}: {found:?}");
    }
}

/// The report of one CPU alone.
fn text_of(cpu: usize) -> String {
    let line = |line: &&str| format!("[  301.100000][    C{}] {line}\n", [3, 5][cpu]);
    OF_TWO[cpu].iter().map(line).collect()
}
