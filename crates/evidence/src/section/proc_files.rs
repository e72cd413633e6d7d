//! Files of `/proc` and of cgroups, and what prints them: `/proc/PID/sched`, `/proc/stat`, `/proc/cmdline`, `cpu.stat`, `chrt -p`,
//! `sysctl -a`.

use unstarve_model::{CpuId, SchedPolicy};

use super::worst::milliseconds;
use super::{Kind, Section, Took};
use crate::fact::{Facts, Lasted, Moment, Seen, Sign, Spot, Stuck, Thread, WaitSum, Waiting};
use crate::settings::{SettingFile, keep_file};

pub(super) const TASK: Kind = Kind { triggers: &["#threads:"], open: open_task };
pub(super) const STAT: Kind = Kind { triggers: &["cpu  "], open: open_stat };
pub(super) const COMMAND_LINE: Kind = Kind { triggers: &["BOOT_IMAGE="], open: open_command_line };
pub(super) const GROUP: Kind = Kind { triggers: &["nr_throttled", "/cpu.stat"], open: open_group };
pub(super) const CHRT: Kind = Kind { triggers: &["current scheduling policy"], open: open_chrt };
pub(super) const SYSCTL: Kind = Kind {
    triggers: &["kernel.sched_", "kernel.hung_task_", "kernel.watchdog", "kernel.nmi_watchdog"],
    open: open_sysctl,
};

// `kworker/3:1 (52, #threads: 1)`: proc_sched_show_task in kernel/sched/debug.c
pattern!(TASK_HEAD = r"^(?<comm>\S.*) \((?<pid>\d+), #threads: \d+\)$");
pattern!(GROUP_FILE = r"\S*sys/fs/cgroup\S*/cpu\.stat\b");
pattern!(CHRT_LINE = r"^pid (?<pid>\d+)'s current scheduling (?<what>policy|priority): (?:SCHED_)?(?<value>\w+)");
pattern!(SYSCTL_LINE = r"^(?<key>[a-z][\w-]*(?:\.[\w./:-]+)+) = ?(?<value>.*)$");

/// Lines that a kernel prints about a thread, and some more.
const MAX_TASK_LINES: u32 = 120;

/// `/proc/PID/sched`.
struct Task {
    file: u32,
    thread: Thread,
    spot: Option<Spot>,
    waited: WaitSum,
    policy: Option<u32>,
    prio: Option<u32>,
    lines: u32,
}

fn open_task(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let found = TASK_HEAD.captures(text.trim())?;
    let pid: u32 = found["pid"].parse().ok()?;
    let thread = Thread { comm: found["comm"].to_owned(), pid: Some(pid) };
    let waited = WaitSum { thread: thread.clone(), ..WaitSum::default() };
    Some(Box::new(Task { file, thread, spot: None, waited, policy: None, prio: None, lines: 0 }))
}

impl Section for Task {
    fn name(&self) -> &'static str {
        "/proc/PID/sched"
    }

    fn first(&mut self, _text: &str, spot: &Spot, _facts: &mut Facts) {
        self.spot = Some(spot.clone());
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        self.lines += 1;
        if text.starts_with("---") {
            return Took::Line;
        }
        if TASK_HEAD.is_match(text.trim()) {
            return Took::End;
        }
        if self.lines > MAX_TASK_LINES {
            return Took::End;
        }
        // Other lines have words there, messages of the kernel too.
        let row = text.split_once(':').map(|(key, value)| (key, value.trim()));
        let Some((key, value)) = row.filter(|(_, value)| value.parse::<f64>().is_ok()) else {
            return Took::Nothing;
        };
        // Before 5.16: se.statistics.wait_max
        match key.trim().rsplit('.').next().unwrap_or_default() {
            "wait_max" => {
                self.waited.longest = milliseconds(value);
                self.spot = Some(spot.clone());
            }
            "wait_sum" => self.waited.sum = milliseconds(value),
            "wait_count" => self.waited.count = value.parse().ok(),
            "policy" => self.policy = value.parse().ok(),
            "prio" => self.prio = value.parse().ok(),
            _ => {}
        }
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        let Some(spot) = self.spot.take() else { return };
        let Thread { comm, pid: Some(pid) } = self.thread.clone() else { return };
        let policy = self.policy.map(SchedPolicy::from_number);
        let is_rt = self.prio.is_some_and(|prio| prio < 100);
        facts.seen(Seen {
            pid,
            comm,
            policy,
            // The kernel's scale: 0 is the highest.
            rt_priority: self.prio.filter(|_| is_rt).map(|prio| 99 - prio),
            nice: self.prio.filter(|prio| (100..140).contains(prio)).map(|prio| prio.cast_signed() - 120),
            ..Seen::at(&spot)
        });
        let at = Moment::of_line(self.file, spot.line);
        facts.waited(std::mem::take(&mut self.waited), spot, at);
    }
}

/// `/proc/stat`: time that the hypervisor took.
struct Stat {
    file: u32,
}

fn open_stat(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let is_one = text.starts_with("cpu  ") && stolen(text).is_some();
    is_one.then(|| Box::new(Stat { file }) as Box<dyn Section>)
}

/// Percent of its time that a CPU was stolen.
fn stolen(text: &str) -> Option<(Option<u32>, f64)> {
    let mut words = text.split_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?;
    let cpu = if cpu.is_empty() { None } else { Some(cpu.parse().ok().filter(|cpu| *cpu < CpuId::LIMIT)?) };
    // user nice system idle iowait irq softirq steal; guests' time is part of user's.
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let steal = *ticks.get(7)?;
    let total: u128 = ticks.iter().map(|ticks| u128::from(*ticks)).sum();
    (total > 0).then(|| (cpu, steal as f64 * 100.0 / total as f64))
}

/// A busy host's guests lose a few percent without anybody's notice.
const MIN_STEAL: f64 = 5.0;

impl Section for Stat {
    fn name(&self) -> &'static str {
        "/proc/stat"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        self.line(text, spot, facts);
    }

    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took {
        let Some((cpu, percent)) = stolen(text) else { return Took::End };
        if cpu.is_none() && percent >= MIN_STEAL {
            let at = Moment::of_line(self.file, spot.line);
            let mut stuck = Stuck::new(Sign::Steal, Waiting::Nobody, Vec::new(), Lasted::Unknown, spot.clone(), at);
            stuck.detail = Some(format!("{percent:.0} %"));
            facts.stuck(stuck);
        }
        Took::Line
    }
}

/// `/proc/cmdline`.
struct CommandLine;

fn open_command_line(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    text.starts_with("BOOT_IMAGE=").then(|| Box::new(CommandLine) as Box<dyn Section>)
}

impl Section for CommandLine {
    fn name(&self) -> &'static str {
        "/proc/cmdline"
    }

    fn first(&mut self, text: &str, _spot: &Spot, facts: &mut Facts) {
        facts.command_line = Some(text.trim().to_owned());
    }

    fn line(&mut self, _text: &str, _spot: &Spot, _facts: &mut Facts) -> Took {
        Took::End
    }
}

/// A group's `cpu.stat`, of either version; also below the command that printed it.
struct Group {
    file: u32,
    /// The file's name, where a command before it has it.
    path: Option<String>,
    throttled: u64,
    spot: Option<Spot>,
    nanoseconds: Option<u64>,
}

fn open_group(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let path = GROUP_FILE.find(text).map(|path| path.as_str().to_owned());
    let is_one = path.is_some() || throttled(text).is_some();
    is_one.then(|| Box::new(Group { file, path, throttled: 0, spot: None, nanoseconds: None }) as Box<dyn Section>)
}

fn throttled(text: &str) -> Option<u64> {
    text.trim().strip_prefix("nr_throttled ")?.trim().parse().ok()
}

impl Section for Group {
    fn name(&self) -> &'static str {
        "cpu.stat of a cgroup"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        if self.path.is_none() {
            self.line(text, spot, facts);
        }
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        if let Some(throttled) = throttled(text) {
            (self.throttled, self.spot) = (throttled, Some(spot.clone()));
            return Took::Line;
        }
        let Some((key, Ok(number))) =
            text.trim().split_once(' ').map(|(key, value)| (key, value.trim().parse::<u64>()))
        else {
            return Took::End;
        };
        match key {
            "throttled_usec" => self.nanoseconds = Some(number.saturating_mul(1_000)),
            "throttled_time" => self.nanoseconds = Some(number),
            _ if !key.ends_with("usec") && !key.starts_with("nr_") && !key.ends_with("_time") && key != "wait_sum" => {
                return Took::End;
            }
            _ => {}
        }
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        let Some(spot) = self.spot.take().filter(|_| self.throttled > 0) else { return };
        let at = Moment::of_line(self.file, spot.line);
        let group = group(self.path.as_deref().unwrap_or(&spot.file));
        let mut stuck = Stuck::new(Sign::GroupThrottled, Waiting::Nobody, Vec::new(), Lasted::Unknown, spot, at);
        let total = self.nanoseconds.map(|ns| format!(", {} in all", unstarve_model::Nanos(ns))).unwrap_or_default();
        stuck.detail = Some(format!("{group} ({}{total})", unstarve_model::counted(self.throttled, "time")));
        facts.stuck(stuck);
    }
}

/// The group of a file `…/sys/fs/cgroup/GROUP/cpu.stat`.
fn group(file: &str) -> String {
    let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
    let below = directory.split_once("sys/fs/cgroup").map_or("", |(_, below)| below);
    let below =
        ["/unified", "/cpu,cpuacct", "/cpu"].into_iter().find_map(|root| below.strip_prefix(root)).unwrap_or(below);
    if below.is_empty() { "a cgroup".to_owned() } else { format!("the cgroup {below}") }
}

/// `pid 900's current scheduling policy: SCHED_FIFO`, and the priority in the next line.
struct Chrt {
    pid: u32,
    policy: Option<SchedPolicy>,
    priority: Option<u32>,
    spot: Option<Spot>,
}

fn open_chrt(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    let found = CHRT_LINE.captures(text.trim())?;
    let policy = match &found["value"] {
        "OTHER" => Some(SchedPolicy::Other),
        "FIFO" => Some(SchedPolicy::Fifo),
        "RR" => Some(SchedPolicy::Rr),
        "BATCH" => Some(SchedPolicy::Batch),
        "IDLE" => Some(SchedPolicy::Idle),
        "DEADLINE" => Some(SchedPolicy::Deadline),
        "EXT" => Some(SchedPolicy::Ext),
        _ => None,
    };
    Some(Box::new(Chrt { pid: found["pid"].parse().ok()?, policy, priority: None, spot: None }))
}

impl Section for Chrt {
    fn name(&self) -> &'static str {
        "chrt -p"
    }

    fn first(&mut self, _text: &str, spot: &Spot, _facts: &mut Facts) {
        self.spot = Some(spot.clone());
    }

    fn line(&mut self, text: &str, _spot: &Spot, _facts: &mut Facts) -> Took {
        match CHRT_LINE.captures(text.trim()) {
            Some(found) if &found["what"] == "priority" => {
                self.priority = found["value"].parse().ok().filter(|priority| *priority > 0);
                Took::Line
            }
            _ => Took::End,
        }
    }

    fn finish(&mut self, facts: &mut Facts) {
        let Some(spot) = self.spot.take() else { return };
        // It prints no name, and an empty one fits any.
        facts.seen(Seen { pid: self.pid, policy: self.policy, rt_priority: self.priority, ..Seen::at(&spot) });
    }
}

/// `kernel.sched_rt_runtime_us = 950000`.
struct Sysctl {
    misses: u32,
}

/// Settings that are kept.
const MAX_SETTINGS: usize = 4096;

fn open_sysctl(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    SYSCTL_LINE.is_match(text.trim()).then(|| Box::new(Sysctl { misses: 0 }) as Box<dyn Section>)
}

impl Section for Sysctl {
    fn name(&self) -> &'static str {
        "settings (sysctl)"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        self.line(text, spot, facts);
    }

    fn line(&mut self, text: &str, _spot: &Spot, facts: &mut Facts) -> Took {
        let Some(found) = SYSCTL_LINE.captures(text.trim()) else {
            self.misses += 1;
            return if self.misses > 4 { Took::End } else { Took::Nothing };
        };
        if found["key"].starts_with("kernel.") && facts.settings.len() < MAX_SETTINGS {
            facts.settings.insert(found["key"].to_owned(), found["value"].trim().to_owned());
        }
        Took::Line
    }
}

/// `uname -a`, a line of lscpu, a line of a kernel's build options, the scheduler's features: a line that says all.
struct One {
    name: &'static str,
    take: fn(&str, &mut Facts),
}

impl Section for One {
    fn name(&self) -> &'static str {
        self.name
    }

    fn first(&mut self, text: &str, _spot: &Spot, facts: &mut Facts) {
        (self.take)(text.trim(), facts);
    }

    fn line(&mut self, _text: &str, _spot: &Spot, _facts: &mut Facts) -> Took {
        Took::End
    }
}

fn one(is_one: bool, name: &'static str, take: fn(&str, &mut Facts)) -> Option<Box<dyn Section>> {
    is_one.then(|| Box::new(One { name, take }) as Box<dyn Section>)
}

pub(super) const UNAME: Kind = Kind { triggers: &["GNU/Linux"], open: open_uname };
pub(super) const FEATURES: Kind = Kind { triggers: &["NEXT_BUDDY"], open: open_features };
pub(super) const LSCPU: Kind = Kind { triggers: &["On-line CPU(s) list:"], open: open_lscpu };
pub(super) const CONFIG: Kind = Kind { triggers: &["CONFIG_HZ="], open: open_config };

pattern!(
    UNAME_LINE = r"^Linux \S+ (?<release>\d+\.\d+\S*) (?<version>#\d.*?) (?:x86_64|i[3-6]86|aarch64|armv\S+|ppc64(?:le)?|s390x?|riscv64|loongarch64)\b.*GNU/Linux$"
);

fn open_uname(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    one(UNAME_LINE.is_match(text.trim()), "uname -a", |text, facts| {
        if let Some(found) = UNAME_LINE.captures(text) {
            facts.kernel.get_or_insert_with(|| found["release"].to_owned());
            facts.kernel_version.get_or_insert_with(|| found["version"].to_owned());
        }
    })
}

/// A line of names in capitals, among them one that each kernel since 2.6.32 has.
fn open_features(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    let is_name =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit());
    let is_one = text.split_whitespace().count() >= 8 && text.split_whitespace().all(is_name);
    one(is_one, "features of the scheduler", |text, facts| {
        keep(facts, "/sys/kernel/debug/sched/features", text);
    })
}

fn open_lscpu(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    one(text.trim().starts_with("On-line CPU(s) list:"), "lscpu", |text, facts| {
        let list = text.split_once(':').map_or("", |(_, list)| list.trim());
        keep(facts, "/sys/devices/system/cpu/online", list);
    })
}

fn open_config(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    one(text.trim().starts_with("CONFIG_HZ="), "build options of the kernel", |text, facts| {
        let hertz = text.strip_prefix("CONFIG_HZ=").and_then(|hertz| hertz.parse().ok());
        facts.hertz = facts.hertz.or(hertz.filter(|hertz| (1..=10_000).contains(hertz)).map(crate::jiffies::Hertz));
    })
}

/// What a command printed of a file of settings: any file of that name says it better.
fn keep(facts: &mut Facts, path: &str, text: &str) {
    keep_file(&mut facts.files, path.to_owned(), SettingFile { text: text.to_owned(), depth: usize::MAX });
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts_of;

    #[test]
    fn a_message_of_the_kernel_is_no_row_and_a_program_s_words_are_no_table() {
        let found = facts_of("x (1, #threads: 1)\nwatchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:811]\n");
        assert!(found.contains("SoftLockup"), "{found}");
        let logged = ["x (1, #threads: 1)", "se.statistics.wait_max : 9000.0", "policy : 0"];
        let logged: String = logged.iter().map(|line| format!("Nov 22 18:39:41 h m[77]: {line}\n")).collect();
        assert_eq!(facts_of(&logged), "");
    }

    #[test]
    fn two_looks_at_a_thread_say_how_long_it_waited_in_between() {
        let look = |sum: &str, count: &str| {
            format!(
                "kworker/3:1 (52, #threads: 1)
-------------------------------------------------------------------
se.exec_start                                :     123456.500000
wait_max                                     :       1950.500000
wait_sum                                     :       {sum}
wait_count                                   :       {count}
policy                                       :                    0
prio                                         :                  120

"
            )
        };
        let text = look("2000.000000", "10") + &look("5000.000000", "11");
        insta::assert_snapshot!(facts_of(&text), @"
        SeenWaiting kworker/3:1[52] cpus [] AtLeast(Nanos(3000000000)) ×2 line 4
        listed kworker/3:1[52] normal None
        listed kworker/3:1[52] normal None
        ");
        let old = look("1.0", "1").replace("wait_", "se.statistics.wait_");
        insta::assert_snapshot!(facts_of(&old), @"
        SeenWaiting kworker/3:1[52] cpus [] AtLeast(Nanos(1950500000)) line 4
        listed kworker/3:1[52] normal None
        ");
    }

    #[test]
    fn lines_that_say_all() {
        let text = "$ uname -a
Linux db7 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) x86_64 GNU/Linux
Debian GNU/Linux 12 (bookworm)
On-line CPU(s) list:                  0-31
CONFIG_HZ=250
GENTLE_FAIR_SLEEPERS START_DEBIT NO_NEXT_BUDDY LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION NO_HRTICK DOUBLE_TICK
";
        let mut facts = crate::fact::Facts::default();
        crate::scan::scan(text.as_bytes(), "x", 0, &mut facts).expect("a text");
        assert_eq!(facts.kernel.as_deref(), Some("6.1.0-18-amd64"));
        assert_eq!(facts.kernel_version.as_deref(), Some("#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)"));
        assert_eq!(facts.hertz, Some(crate::jiffies::Hertz(250)));
        let files: Vec<_> = facts.files.keys().map(String::as_str).collect();
        assert_eq!(files, ["/sys/devices/system/cpu/online", "/sys/kernel/debug/sched/features"]);
    }

    #[test]
    fn small_files() {
        let stat = "cpu  1000 0 1000 5000 0 0 0 3000 0 0\ncpu0 1000 0 1000 5000 0 0 0 3000 0 0\nintr 5\n";
        insta::assert_snapshot!(facts_of(stat), @"Steal nobody cpus [] Unknown 30 % line 1");
        let quiet = stat.replace("3000", "3");
        assert_eq!(facts_of(&quiet), "");
        let group = "usage_usec 5\nnr_periods 100\nnr_throttled 50\nthrottled_usec 2500000\n";
        insta::assert_snapshot!(facts_of(group), @"GroupThrottled nobody cpus [] Unknown a cgroup (50 times, 2.50 s in all) line 3");
        assert_eq!(super::group("b/sys/fs/cgroup/kubepods.slice/pod1/cpu.stat"), "the cgroup /kubepods.slice/pod1");
        assert_eq!(super::group("/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat"), "the cgroup /a");
        let shown = format!("$ cat /sys/fs/cgroup/a.slice/b/cpu.stat\n{group}$ ls\n");
        insta::assert_snapshot!(facts_of(&shown), @"GroupThrottled nobody cpus [] Unknown the cgroup /a.slice/b (50 times, 2.50 s in all) line 4");
        let chrt = "pid 900's current scheduling policy: SCHED_FIFO|SCHED_RESET_ON_FORK\npid 900's current scheduling priority: 50\n";
        insta::assert_snapshot!(facts_of(chrt), @"listed [900] FIFO Some(50)");
        let sysctl =
            "kernel.sched_rt_period_us = 1000000\nkernel.sched_rt_runtime_us = 950000\nnet.core.somaxconn = 5\n";
        insta::assert_snapshot!(facts_of(sysctl), @"
        setting kernel.sched_rt_period_us = 1000000
        setting kernel.sched_rt_runtime_us = 950000
        ");
        insta::assert_snapshot!(facts_of("BOOT_IMAGE=/vmlinuz quiet isolcpus=3\n"), @"boot BOOT_IMAGE=/vmlinuz quiet isolcpus=3");
    }
}
