//! Lists of threads and of processes: `ps` with any columns, `top -b`, `pidstat`. The columns are those of the header.

use unstarve_model::{CpuId, SchedPolicy};
use unstarve_sched::KernelThread;

use super::{Kind, Section, Took};
use crate::fact::{Facts, RowOf, Seen, Spot};

pub(super) const KIND: Kind = Kind { triggers: &["PID", "TID", "LWP", "SPID"], open };

/// `top -H` says only above its list that the rows are threads.
pub(super) const TOP_OF_THREADS: Kind = Kind { triggers: &["Threads:"], open: open_summary };

pattern!(THREADS_IN_ALL = r"^Threads\s*:\s*\d+ \w+,");

/// The thread whose children are the kernel's threads.
const KTHREADD: u32 = 2;

/// Lines of top's summary below the count of threads, with the header: a CPU has a line each if the user wants so.
const MAX_SUMMARY: u32 = 1030;

/// Lines that do not fit before the list counts as over.
const MAX_MISSES: u32 = 3;

/// What a column has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Process,
    Thread,
    /// How many threads the process has.
    Threads,
    Parent,
    Class,
    RealTimePriority,
    /// top's: `rt`, `-51`, `20`.
    TopPriority,
    Nice,
    Cpu,
    State,
    Percent,
    Name,
    Other,
}

fn column(word: &str) -> Column {
    match word {
        "PID" | "TGID" => Column::Process,
        "TID" | "LWP" | "SPID" => Column::Thread,
        "NLWP" | "THCNT" | "nTH" => Column::Threads,
        "PPID" => Column::Parent,
        "CLS" | "POL" | "SCHED" => Column::Class,
        "RTPRIO" => Column::RealTimePriority,
        "PR" => Column::TopPriority,
        "NI" => Column::Nice,
        "PSR" | "CPUID" | "P" => Column::Cpu,
        "S" | "STAT" => Column::State,
        "%CPU" | "PCPU" | "C" => Column::Percent,
        // procps in English, German, French, Spanish, Italian; pidstat.
        "COMMAND" | "CMD" | "COMM" | "ARGS" | "BEFEHL" | "COM." | "ORDEN" | "COMANDO" | "Command" => Column::Name,
        _ => Column::Other,
    }
}

/// The columns of a header. What pidstat calls `CPU` is something else to others.
fn columns(header: &str) -> Vec<Column> {
    let is_pidstat = header.split_whitespace().any(|word| word == "%usr");
    let words = header.split_whitespace().filter(|word| *word != "#");
    words.map(|word| if is_pidstat && word == "CPU" { Column::Cpu } else { column(word) }).collect()
}

/// A program that prints such lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lister {
    Ps,
    Top,
    Pidstat,
}

/// What says whether a row is a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Signs {
    /// The list has a column for the thread's id, and this row one, or it is top's list of threads.
    has_thread_id: bool,
    /// How many threads the process has.
    threads: Option<u32>,
    /// It is one of the kernel's: by its name, or by its parent.
    is_kernel: bool,
    /// `STAT` has more letters than `S`: with `l` a process has several threads.
    is_multi_threaded: Option<bool>,
}

/// The table. What no sign decides may have several threads.
fn row_of(signs: Signs) -> RowOf {
    match signs {
        Signs { has_thread_id: true, .. } => RowOf::Thread,
        Signs { threads: Some(2..), .. } => RowOf::Process,
        Signs { threads: Some(_), .. } => RowOf::Thread,
        // A thread of the kernel is a process of its own.
        Signs { is_kernel: true, .. } => RowOf::Thread,
        Signs { is_multi_threaded: Some(false), .. } => RowOf::Thread,
        Signs { is_multi_threaded: Some(true) | None, .. } => RowOf::Process,
    }
}

struct Threads {
    columns: Vec<Column>,
    misses: u32,
    /// The state is ps's of several letters.
    has_stat: bool,
    lister: Lister,
    /// Each row is a thread.
    of_threads: bool,
}

fn open(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    let columns = header(text)?;
    let lister = match columns.contains(&Column::TopPriority) {
        _ if text.contains("%usr") => Lister::Pidstat,
        true => Lister::Top,
        false => Lister::Ps,
    };
    let of_threads = columns.contains(&Column::Thread);
    let has_stat = text.split_whitespace().any(|word| word == "STAT");
    Some(Box::new(Threads { columns, misses: 0, has_stat, lister, of_threads }))
}

fn open_summary(text: &str, _file: u32) -> Option<Box<dyn Section>> {
    THREADS_IN_ALL.is_match(text).then(|| {
        let list = Threads { columns: Vec::new(), misses: 0, has_stat: false, lister: Lister::Top, of_threads: true };
        Box::new(list) as Box<dyn Section>
    })
}

/// The columns, if a line is a list's header.
fn header(text: &str) -> Option<Vec<Column>> {
    let columns = columns(text);
    let has = |wanted: Column| columns.contains(&wanted);
    let tells =
        [Column::Class, Column::TopPriority, Column::Cpu, Column::State, Column::Percent, Column::RealTimePriority];
    let is_one = columns.last() == Some(&Column::Name)
        && (has(Column::Process) || has(Column::Thread))
        && tells.into_iter().any(has);
    is_one.then_some(columns)
}

impl Section for Threads {
    fn name(&self) -> &'static str {
        match (self.lister, self.of_threads) {
            (Lister::Ps, true) => "list of threads (ps)",
            (Lister::Ps, false) => "list of processes (ps)",
            (Lister::Top, true) => "list of threads (top)",
            (Lister::Top, false) => "list of processes (top)",
            (Lister::Pidstat, true) => "list of threads (pidstat)",
            (Lister::Pidstat, false) => "list of processes (pidstat)",
        }
    }

    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took {
        if self.columns.is_empty() {
            return self.summary(text);
        }
        match self.row(text, spot) {
            Some(seen) => {
                self.misses = 0;
                facts.seen(seen);
                Took::Line
            }
            None if text.trim().is_empty() || self.misses < MAX_MISSES => {
                self.misses += 1;
                Took::Nothing
            }
            None => Took::End,
        }
    }
}

impl Threads {
    /// A line between the count of threads and the header.
    fn summary(&mut self, text: &str) -> Took {
        self.misses += 1;
        match header(text) {
            Some(columns) => {
                (self.columns, self.misses) = (columns, 0);
                Took::Line
            }
            None if self.misses < MAX_SUMMARY => Took::Nothing,
            None => Took::End,
        }
    }

    fn row(&self, text: &str, spot: &Spot) -> Option<Seen> {
        let mut rest = text.trim_start();
        let mut seen = Seen::at(spot);
        let (mut has_thread_id, mut threads, mut parent, mut state) = (false, None, None, "");
        let mut is_bracketed = false;
        for (place, column) in self.columns.iter().enumerate() {
            let is_last = place + 1 == self.columns.len();
            let end = if is_last { rest.len() } else { rest.find(char::is_whitespace)? };
            let word = rest[..end].trim_end();
            rest = rest[end..].trim_start();
            match column {
                Column::Process if seen.pid == 0 && word != "-" => seen.pid = word.parse().ok()?,
                Column::Process => {}
                // pidstat prints the process of several threads, too.
                Column::Thread if word == "-" => {}
                Column::Thread => (seen.pid, has_thread_id) = (word.parse().ok()?, true),
                Column::Threads => threads = word.parse().ok(),
                Column::Parent => parent = word.parse::<u32>().ok(),
                Column::Class => seen.policy = policy(word),
                Column::RealTimePriority => seen.rt_priority = word.parse().ok(),
                Column::TopPriority => (seen.policy, seen.rt_priority) = of_top(word, seen.policy),
                Column::Nice => seen.nice = word.parse().ok(),
                Column::Cpu => seen.cpu = word.parse().ok().filter(|cpu| *cpu < CpuId::LIMIT),
                Column::State => {
                    seen.state = word.chars().next().filter(char::is_ascii_alphabetic);
                    state = word;
                }
                // With a comma in many languages.
                Column::Percent => seen.percent = word.replace(',', ".").parse().ok(),
                Column::Name => (seen.comm, is_bracketed) = (name(word)?, word.starts_with('[')),
                Column::Other => {}
            }
        }
        let is_kernel =
            is_bracketed || parent == Some(KTHREADD) || KernelThread::of(&seen.comm.as_str().into()).is_some();
        let is_multi_threaded = self.has_stat.then(|| state.contains('l'));
        seen.of = row_of(Signs {
            has_thread_id: has_thread_id || self.of_threads && self.lister == Lister::Top,
            threads,
            is_kernel,
            is_multi_threaded,
        });
        (seen.pid > 0 && !seen.comm.is_empty()).then_some(seen)
    }
}

/// ps's class: `TS`, `FF`, `RR`, `B`, `IDL`, `DLN`; a number is SCHED's.
fn policy(word: &str) -> Option<SchedPolicy> {
    Some(match word {
        "TS" | "0" => SchedPolicy::Other,
        "FF" | "1" => SchedPolicy::Fifo,
        "RR" | "2" => SchedPolicy::Rr,
        "B" | "3" => SchedPolicy::Batch,
        "IDL" | "ISO" | "5" => SchedPolicy::Idle,
        "DLN" | "6" => SchedPolicy::Deadline,
        "EXT" | "7" => SchedPolicy::Ext,
        _ => return None,
    })
}

/// top's priority: `20` is normal, `rt` the highest real-time priority, `-51` the real-time priority 50.
fn of_top(word: &str, known: Option<SchedPolicy>) -> (Option<SchedPolicy>, Option<u32>) {
    match word.parse::<i32>() {
        Ok(priority) if priority < -1 => (known.or(Some(SchedPolicy::Fifo)), Some((-1 - priority).unsigned_abs())),
        Ok(priority) if priority >= 0 => (known.or(Some(SchedPolicy::Other)), None),
        _ if word == "rt" => (known.or(Some(SchedPolicy::Fifo)), Some(99)),
        _ => (known, None),
    }
}

/// A thread's name of a command: `[kworker/3:1-events]` → `kworker/3:1-events`, `/usr/bin/fio --name=x` → `fio`.
fn name(command: &str) -> Option<String> {
    let command = command.trim_start_matches(['\\', '_', '|', ' ', '`', '-']);
    if let Some(inner) = command.strip_prefix('[') {
        return Some(without_item(inner.split(']').next().unwrap_or(inner)).to_owned());
    }
    if command.starts_with("kworker/") {
        return Some(without_item(command.split_whitespace().next()?).to_owned());
    }
    let word = command.split_whitespace().next()?;
    let is_path = word.starts_with('/');
    Some(if is_path { word.rsplit('/').next()? } else { word }.to_owned())
}

/// A kworker's name without the workqueue of its last item, which ps and top append: `kworker/3:1-events`.
fn without_item(name: &str) -> &str {
    let is_worker = name.starts_with("kworker/") && !name.starts_with("kworker/R-");
    if is_worker { name.split(['-', '+']).next().unwrap_or(name) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let mut facts = Facts::default();
        let mut lines = text.lines();
        let mut section = open(lines.next().expect("a header"), 0).expect("a list");
        for (number, line) in lines.enumerate() {
            let spot = Spot { file: "ps".into(), line: number as u64 + 2, text: line.to_owned() };
            section.line(line, &spot, &mut facts);
        }
        let shown = |seen: &Seen| {
            let Seen { pid, comm, policy, rt_priority, nice, cpu, state, percent, .. } = seen;
            let policy = policy.map_or("?", SchedPolicy::word);
            format!("{comm}[{pid}] {policy} {rt_priority:?} nice {nice:?} cpu {cpu:?} {state:?} {percent:?}")
        };
        facts.seen.iter().map(shown).collect()
    }

    #[test]
    fn columns_are_those_of_the_header() {
        insta::assert_snapshot!(rows(
            "    PID     TID CLS RTPRIO  NI PSR STAT %CPU WCHAN                COMMAND
       1       1  TS      -   0   0 Ss    0.0 do_epoll_wait        systemd
    2211    2219  FF     50   -   3 RLl  99.9 -                    reactor_0
      40      40  TS      -   0   3 S     0.0 smpboot_thread_fn    [ksoftirqd/3]
      52      52  TS      -   0   3 R     0.0 -                    kworker/3:1-events
"
        ).join("\n"), @r"
        systemd[1] normal None nice Some(0) cpu Some(0) Some('S') Some(0.0)
        reactor_0[2219] FIFO Some(50) nice None cpu Some(3) Some('R') Some(99.9)
        ksoftirqd/3[40] normal None nice Some(0) cpu Some(3) Some('S') Some(0.0)
        kworker/3:1[52] normal None nice Some(0) cpu Some(3) Some('R') Some(0.0)
        ");
        insta::assert_snapshot!(rows(
            "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
31527 admin     20   0   11708   3412   3000 R   2.6   0.1   0:00.23 top
  900 root     -51   0       0      0      0 R  99.7   0.0   7:00.00 poller
   18 root      rt   0       0      0      0 S   0.0   0.0   0:00.00 migration/0
"
        ).join("\n"), @r"
        top[31527] normal None nice Some(0) cpu None Some('R') Some(2.6)
        poller[900] FIFO Some(50) nice Some(0) cpu None Some('R') Some(99.7)
        migration/0[18] FIFO Some(99) nice Some(0) cpu None Some('S') Some(0.0)
        ");
    }

    #[test]
    fn prose_is_no_list() {
        for text in ["the PID of the process is", "PID COMMAND", "CPU: 1 PID: 900 Comm: x"] {
            assert!(open(text, 0).is_none(), "{text}");
        }
    }
}
