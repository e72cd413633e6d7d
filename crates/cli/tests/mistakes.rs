//! What is typed out of habit or by mistake, and what the answer has to contain: above all what to type instead.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn stored(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory with `rec.dat`, `b.dat`, `snap.json` and an empty directory `traces`.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a place for files");
    for (from, to) in [
        ("traces/linux-5.10-net-rt.dat", "rec.dat"),
        ("traces/linux-6.1-idle.dat", "b.dat"),
        ("snapshots/storage-controller-5.10.json", "snap.json"),
    ] {
        std::fs::copy(stored(from), directory.path().join(to)).expect("copied");
    }
    std::fs::create_dir(directory.path().join("traces")).expect("a directory");
    directory
}

fn typed(directory: &Path, line: &str) -> Output {
    let mut words = Vec::new();
    let mut quoted = line.split('\'');
    // Every second part is within quotes.
    while let Some(plain) = quoted.next() {
        words.extend(plain.split_whitespace());
        words.extend(quoted.next());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(words).current_dir(directory).env_remove("COLUMNS").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).output().expect("it can be started")
}

/// Typed after `unstarve`; what the answer contains.
const MISTAKES: &[(&str, &str)] = &[
    // Words that are no command.
    ("explan rec.dat", "'explain'"),
    ("status", "unstarve watch status, unstarve guard status, unstarve fix --status"),
    ("start", "unstarve record, unstarve watch"),
    ("stop", "Ctrl-C ends record"),
    ("upgrade 6.12", "unstarve check --upgrade-to VERSION"),
    ("completion bash", "unstarve generate"),
    ("version", "unstarve --version"),
    ("stats", "sudo unstarve top"),
    ("trace", "sudo unstarve record --for 10s"),
    ("monitor", "sudo unstarve watch"),
    ("rollback", "unstarve fix --undo, unstarve knobs undo"),
    ("apply rec.dat", "unstarve fix FILE shows the plan; with --apply: do it"),
    ("verify", "--apply --verify 10s"),
    ("episodes", "sudo unstarve watch episodes"),
    ("sysctl", "unstarve knobs list"),
    ("policy", "unstarve guard plan --policy FILE"),
    ("setup", "unstarve doctor"),
    ("uninstall", "docs/install.md"),
    ("query", "unstarve sql"),
    ("csv rec.dat", "unstarve export FILE -o NAME"),
    ("whatif", "unstarve predict FILE --change CHANGE"),
    ("predict", "unstarve record --for 10s"),
    ("cluster", "unstarve fleet"),
    ("findings", "unstarve help findings"),
    ("latency rec.dat", "unstarve timeline FILE --summary"),
    ("kubernetes", "unstarve help pod"),
    ("nosuch.dat", "there is no file nosuch.dat here"),
    ("traces", "unstarve explain traces/FILE"),
    // Words of other tools that do what was meant.
    ("rec.dat", "CRITICAL  ksoftirqd/1 is starved by wl"),
    ("show rec.dat", "CRITICAL  ksoftirqd/1 is starved by wl"),
    ("diagnose rec.dat", "CRITICAL  ksoftirqd/1 is starved by wl"),
    ("timehist rec.dat --task ksoftirqd/1", "wait"),
    ("example", "CRITICAL  kworker/0:1"),
    ("diff rec.dat rec.dat", "A  trace.dat"),
    // Options before the file, or without a command.
    ("-v rec.dat", "unstarve explain FILE --full"),
    ("--verbose rec.dat", "unstarve explain FILE --full"),
    ("--json rec.dat", "\"schema\": \"unstarve.explain/1\""),
    ("-v", "unstarve --version"),
    ("-v nosuch.dat", "unstarve explain FILE --full"),
    // explain
    ("explain", "sudo unstarve record --for 10s && unstarve explain unstarve.dat"),
    ("explain nosuch.dat", "cannot read nosuch.dat"),
    ("explain traces", "expected a recording"),
    ("explain snap.json", "unstarve"),
    ("explain rec.dat b.dat", "unstarve compare rec.dat b.dat"),
    ("explain rec.dat ksoftirqd", "--task ksoftirqd"),
    ("explain rec.dat p.html", "unstarve report rec.dat -o p.html"),
    ("explain -v rec.dat", "unstarve explain FILE --full"),
    ("explain rec.dat --verbose", "unstarve explain FILE --full"),
    ("explain rec.dat --top 5", "--full, which has all findings"),
    ("explain rec.dat -n 5", "--full, which has all findings"),
    ("explain rec.dat --all", "--full, which has all findings"),
    ("explain rec.dat --pid 18", "--task TID|NAME"),
    ("explain rec.dat -p 18", "--task TID|NAME"),
    ("explain rec.dat --comm ksoftirqd", "--task TID|NAME"),
    ("explain rec.dat --severity critical", "--min-severity SEVERITY"),
    ("explain rec.dat -o x", "> FILE keeps it"),
    ("explain rec.dat --output x", "> FILE keeps it"),
    ("explain rec.dat --format json", "--json"),
    ("explain rec.dat --yaml", "--json"),
    ("explain rec.dat --html", "unstarve report FILE writes a page"),
    ("explain rec.dat --fix", "with --apply: do it"),
    ("explain rec.dat --remedy 2", "unstarve fix FILE --remedy N"),
    ("explain rec.dat --summary", "explain prints one screen"),
    ("explain rec.dat --since 1s", "--from TIME and --to TIME"),
    ("explain rec.dat --until 2s", "--to TIME"),
    ("explain rec.dat -C 1", "--cpu LIST"),
    ("explain rec.dat --cpus 1", "--cpu"),
    ("explain rec.dat --no-color", "--color never"),
    ("explain rec.dat --no-pager", "PAGER=cat"),
    ("explain -i rec.dat", "unstarve explain FILE"),
    ("explain rec.dat --csv", "unstarve export FILE -o waits.csv"),
    ("explain rec.dat --cpu 9", "it has no CPU 9, but CPU 0-2"),
    ("explain rec.dat --task nosuch", "unstarve timeline -s FILE"),
    ("explain rec.dat --from 99999", "it goes from"),
    ("explain rec.dat --width 100", "COLUMNS=120"),
    ("explain rec.dat -q", "explain prints one screen"),
    ("explain rec.dat --finding 9", "this recording has one, rt-starvation"),
    ("explain rec.dat --finding rt-starvatoin", "this recording has one, rt-starvation"),
    // record
    ("record -d 5", "--for 10s"),
    ("record -t 5", "--for 10s"),
    ("record --duration 5", "--for 10s"),
    ("record -p 123", "unstarve explain FILE --task NAME"),
    ("record --cpu 1", "unstarve explain FILE --task NAME"),
    ("record -a", "all CPUs are recorded"),
    ("record -e sched_switch", "record chooses the events"),
    ("record -f", "unstarve.dat.old"),
    ("record sleep 1", "unstarve record -- sleep"),
    ("record --for 10sec", "expected a time such as 250ms, 10s"),
    ("record --open", "unstarve report FILE"),
    // fix
    ("fix", "sudo unstarve record --for 10s && unstarve fix unstarve.dat"),
    ("fix rec.dat --dry-run", "without --apply the plan is only shown"),
    ("fix rec.dat --yes", "--apply makes the changes"),
    ("fix rec.dat --permanent", "--as systemd"),
    ("fix rec.dat --revert", "unstarve fix --undo"),
    ("fix rec.dat --list", "unstarve fix --status"),
    ("fix rec.dat 2", "--remedy 2"),
    ("fix rec.dat --verify 10s", "--apply --verify 10s"),
    ("fix rec.dat --remedy 99", "expected a number from 1 to 3"),
    ("fix rec.dat --remedy victim-abov", "there is victim-above-intruder"),
    ("fix rec.dat --as yaml", "expected one of systemd"),
    ("fix rec.dat --task 18", "--finding N and --remedy N choose"),
    // report and timeline
    ("report", "sudo unstarve record --for 10s"),
    ("report rec.dat p.html", "unstarve report rec.dat -o p.html"),
    ("report rec.dat --json", "unstarve explain FILE --json"),
    ("report rec.dat --open", "open the page that -o names"),
    ("report rec.dat -v", "the page has all details"),
    ("timeline", "unstarve timeline unstarve.dat"),
    ("timeline rec.dat ksoftirqd", "--task ksoftirqd"),
    ("timeline rec.dat --sort wait", "--summary"),
    ("timeline rec.dat --csv", "unstarve export FILE -o waits.csv"),
    // top and compare
    ("top rec.dat -n 1", "--once"),
    ("top rec.dat -d 1", "--interval TIME"),
    ("compare", "unstarve compare before.dat after.dat"),
    ("compare rec.dat", "unstarve compare before.dat after.dat"),
    ("compare rec.dat b.dat rec.dat", "unstarve report A B C"),
    ("compare rec.dat snap.json", "compare two inputs of the same kind"),
    ("compare rec.dat b.dat --full", "--all"),
    // check and snapshot
    ("check 6.12", "--upgrade-to 6.12"),
    ("check rec.dat", "unstarve explain rec.dat"),
    ("check --to 6.12", "--upgrade-to VERSION"),
    ("check --upgrade-to 6.99", "there is no Linux 6.99"),
    ("check --fix", "unstarve knobs set NAME VALUE"),
    ("check --verbose", "unstarve check --full"),
    ("snapshot out.json", "-o out.json"),
    // knobs
    ("knobs diff 5.10 6.12", "Linux 5.10 → Linux 6.12"),
    ("knobs compare 5.10 6.12", "Linux 5.10 → Linux 6.12"),
    ("knobs diff 5.10 6.12 --debian", "Linux 5.10 → Linux 6.12"),
    ("knobs diff", "unstarve knobs diff 5.10 6.12"),
    ("knobs compare", "unstarve knobs diff 5.10 6.12"),
    ("knobs diff 5.10", "unstarve knobs diff 5.10 6.12"),
    ("knobs base_slice_ns", "unstarve knobs explain base_slice_ns"),
    ("knobs base_slice_ns=3000000", "unstarve knobs set base_slice_ns 3000000"),
    ("knobs show base_slice_ns", "unstarve knobs explain NAME"),
    ("knobs set base_slice_ns", "sudo unstarve knobs set base_slice_ns 3000000"),
    ("knobs reset", "unstarve knobs undo"),
    ("knobs explain", "unstarve knobs list"),
    ("knobs explain sched_wakeup_granularity", "perhaps sched_wakeup_granularity_ns"),
    // guard and watch
    ("guard start", "unstarve guard run --policy FILE"),
    ("guard stop", "unstarve guard undo"),
    ("guard run", "--policy FILE"),
    ("guard run policy.toml", "--policy policy.toml"),
    ("guard check", "unstarve guard plan --policy FILE"),
    ("guard run -c policy.toml", "--policy FILE"),
    ("watch start", "systemctl enable --now unstarve-watch"),
    ("watch stop", "systemctl stop unstarve-watch"),
    ("watch list", "unstarve watch episodes"),
    ("watch watch.toml", "--config watch.toml"),
    ("watch --port 9090", "unstarve watch --print-config"),
    ("watch show", "unstarve watch episodes"),
    // export, lab, doctor, fleet
    ("export rec.dat out.csv", "-o out.csv"),
    ("export rec.dat -o x.xlsx", "end the name with"),
    ("export rec.dat --csv", "-o waits.csv"),
    ("lab start", "unstarve lab run"),
    ("lab run", "unstarve lab list"),
    ("lab scenarios", "unstarve lab list"),
    ("doctor --fix", "to get it:"),
    ("doctor rec.dat", "unstarve explain rec.dat"),
    ("fleet list", "unstarve fleet status"),
    ("list nosuch", "unstarve help topics"),
    ("help nosuchword", "unstarve help topics"),
];

#[test]
fn the_answer_to_a_mistake_says_what_to_type() {
    let directory = directory();
    for (line, expected) in MISTAKES {
        let answer = typed(directory.path(), line);
        let text = [answer.stdout, answer.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(text.contains(expected), "unstarve {line}\nexpected: {expected}\n{text}");
        assert!(!text.contains("to pass '"), "unstarve {line}: {text}");
        assert!(!text.contains("panicked"), "unstarve {line}: {text}");
    }
    let mut left: Vec<_> = std::fs::read_dir(directory.path()).expect("the directory").flatten().collect();
    left.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = left.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["b.dat", "rec.dat", "snap.json", "traces"], "a mistake leaves no file behind");
}

/// Words that people look up, and the page that they get.
#[test]
fn words_of_the_kernel_are_answered() {
    let directory = directory();
    for (word, expected) in [
        ("xrun", "sound buffer"),
        ("xruns", "sound buffer"),
        ("nice", "−20 (heavy) to 19 (light)"),
        ("renice", "−20 (heavy) to 19 (light)"),
        ("tgid", "number of a process"),
        ("pid", "number of a process"),
        ("upgrade", "check --upgrade-to"),
        ("EEVDF", "since Linux 6.6"),
        ("CFS", "up to Linux 6.5"),
        ("isolcpus", "load balancer leaves alone"),
        ("nohz_full", "periodic tick stops"),
        ("nohz full", "periodic tick stops"),
        ("busy poll", "never sleeps"),
        ("'busy poll'", "never sleeps"),
        ("busy-polling", "never sleeps"),
        ("spdk", "never sleeps"),
        ("dpdk", "never sleeps"),
        ("steal", "hypervisor"),
        ("cpu.max", "CPU limit"),
        ("quota", "CPU limit"),
        ("throttling", "CPU limit"),
        ("cpu.weight", "CPU request"),
        ("cpu.shares", "CPU request"),
        ("weight", "CPU request"),
        ("weight", "A rule, by which"),
        ("sched_ext", "BPF programs"),
        ("scx", "BPF programs"),
        ("PREEMPT_RT", "preempted nearly everywhere"),
        ("preempt-rt", "A remedy"),
        ("watchdog", "Soft lockup: 20 s"),
        ("softlockup", "Soft lockup: 20 s"),
        ("dmesg", "Soft lockup: 20 s"),
        ("cyclictest", "how late a thread ran"),
        ("softirq", "ksoftirqd"),
        ("irq", "irq-interference"),
        ("interrupts", "irq-interference"),
        ("numa", "remote access"),
        ("fifo", "SCHED_FIFO"),
        ("rt", "SCHED_FIFO"),
        ("chrt", "SCHED_FIFO"),
        ("real-time", "in any cgroup"),
        ("deadline", "deadline-overrun"),
        ("fair server", "50 ms of each second"),
        ("RT throttling", "950 ms"),
        ("rcu", "grace periods"),
        ("workqueue", "one starved worker"),
        ("mutex", "perf lock"),
        ("psi", "state D"),
        ("pod", "kubepods"),
        ("k8s", "kubepods"),
        ("overhead", "perf sched record"),
        ("tuned", "base_slice_ns"),
        ("autogroup", "login session"),
        ("runqlat", "sch delay"),
        ("affinity", "taskset"),
        ("dio", "a workqueue"),
        ("ksoftirqd", "softirqs"),
    ] {
        let answer = typed(directory.path(), &format!("help {word}"));
        let text = [answer.stdout, answer.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(text.contains(expected), "unstarve help {word}\nexpected: {expected}\n{text}");
    }
}
