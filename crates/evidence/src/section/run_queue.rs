//! Waits for a CPU as tools print them: `runqslower`, `runqlat`, `perf sched latency`, `perf sched timehist`.

use std::collections::{HashMap, VecDeque};

use unstarve_model::{CpuId, Nanos};

use super::worst::{Wait, Worst, microseconds, milliseconds};
use super::{Kind, Section, Took};
use crate::fact::{Facts, Lasted, Moment, Sign, Spot, Stuck, Thread, Waiting};

pub(super) const SLOWER: Kind = Kind { triggers: &["LAT(us)"], open: open_slower };
pub(super) const HISTOGRAM: Kind =
    Kind { triggers: &["Tracing run queue latency", "Tracing CPU scheduler"], open: open_histogram };
pub(super) const LATENCY: Kind = Kind { triggers: &["Runtime ms", "| avg:"], open: open_latency };
pub(super) const TIMEHIST: Kind =
    Kind { triggers: &["sch delay", "  next: ", " awakened: ", " migrated: "], open: open_timehist };

/// `TIME     COMM             PID           LAT(us)`, with `-P` and `PREV COMM  PREV TID` behind it.
struct Slower {
    file: u32,
    has_previous: bool,
    worst: Worst,
}

fn open_slower(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let is_one = text.contains("COMM") && text.contains("LAT(us)");
    let has_previous = text.contains("PREV");
    is_one.then(|| Box::new(Slower { file, has_previous, worst: Worst::default() }) as Box<dyn Section>)
}

impl Section for Slower {
    fn name(&self) -> &'static str {
        "runqslower"
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        match slower(text, self.has_previous) {
            Some(wait) => {
                self.worst.add(wait, spot);
                Took::Line
            }
            None if text.trim().is_empty() || text.starts_with("Lost ") => Took::Nothing,
            None => Took::End,
        }
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.finish(Sign::SeenWaiting, self.file, facts);
    }
}

/// `14:28:05 kworker/3:1      52             45210 poller           900`: names may have spaces.
fn slower(text: &str, has_previous: bool) -> Option<Wait> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !words.first()?.contains(':') {
        return None;
    }
    let is_number = |place: usize| words.get(place).is_some_and(|word| word.parse::<u64>().is_ok());
    let last = if has_previous { words.len().checked_sub(4)? } else { words.len().checked_sub(2)? };
    let id = (2..=last).find(|place| is_number(*place) && is_number(place + 1) && (has_previous || *place == last))?;
    let thread = Thread { comm: words[1..id].join(" "), pid: words[id].parse().ok() };
    let previous = || {
        let (pid, comm) = words.get(id + 2..)?.split_last()?;
        Some(Thread { comm: comm.join(" "), pid: pid.parse().ok() })
    };
    let holder = has_previous.then(previous).flatten().filter(|thread| !thread.is_idle() && !thread.comm.is_empty());
    Some(Wait { thread, cpu: None, length: microseconds(words[id + 1])?, holder })
}

/// `     usecs               : count     distribution`, `@usecs:` of bpftrace's.
struct Histogram {
    file: u32,
    unit: u64,
    longest: Option<(Nanos, u64, Spot)>,
    misses: u32,
}

/// Lines of something else before a histogram counts as over.
const MAX_MISSES: u32 = 12;

fn open_histogram(_: &str, file: u32) -> Option<Box<dyn Section>> {
    Some(Box::new(Histogram { file, unit: 1_000, longest: None, misses: 0 }))
}

impl Section for Histogram {
    fn name(&self) -> &'static str {
        "histogram of run queue latency (runqlat)"
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        if text.trim_start().starts_with("msecs") {
            self.unit = 1_000_000;
        }
        if text.trim_start().starts_with("usecs") {
            self.unit = 1_000;
        }
        let Some((low, count)) = bucket(text) else {
            self.misses += 1;
            return if self.misses > MAX_MISSES { Took::End } else { Took::Nothing };
        };
        self.misses = 0;
        let low = Nanos(low.saturating_mul(self.unit));
        if count > 0 && self.longest.as_ref().is_none_or(|(known, ..)| low >= *known) {
            self.longest = Some((low, count, spot.clone()));
        }
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        let Some((low, count, spot)) = self.longest.take().filter(|(low, ..)| low.0 >= 1_000_000) else { return };
        let at = Moment::of_line(self.file, spot.line);
        let mut stuck = Stuck::new(Sign::SeenWaiting, Waiting::Nobody, Vec::new(), Lasted::AtLeast(low), spot, at);
        stuck.count = count;
        facts.stuck(stuck);
    }
}

/// The lower bound and the count of `    16384 -> 32767      : 5        |***   |` or `[16K, 32K)    5 |@@@   |`.
fn bucket(text: &str) -> Option<(u64, u64)> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('[') {
        let (low, rest) = rest.split_once(',')?;
        let (_, rest) = rest.split_once(')')?;
        let (digits, unit) = match low.trim() {
            low if low.ends_with('K') => (low.trim_end_matches('K'), 1 << 10),
            low if low.ends_with('M') => (low.trim_end_matches('M'), 1 << 20),
            low => (low, 1),
        };
        return Some((digits.parse::<u64>().ok()?.checked_mul(unit)?, rest.split_whitespace().next()?.parse().ok()?));
    }
    let (low, rest) = text.split_once("->")?;
    let (_, rest) = rest.split_once(':')?;
    Some((low.trim().parse().ok()?, rest.split_whitespace().next()?.parse().ok()?))
}

/// `  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | …`
struct Latency {
    file: u32,
    worst: Worst,
}

fn open_latency(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let is_head = text.contains("Task") && text.contains('|') && text.contains("Switches");
    // Mails quote a row without its head.
    let is_one = is_head || latency(text).is_some();
    is_one.then(|| Box::new(Latency { file, worst: Worst::default() }) as Box<dyn Section>)
}

impl Section for Latency {
    fn name(&self) -> &'static str {
        "perf sched latency"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        self.line(text, spot, facts);
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        if text.trim_start().starts_with("---") || text.contains("TOTAL:") || text.contains("Runtime ms") {
            return Took::Line;
        }
        let Some(wait) = latency(text) else { return if text.trim().is_empty() { Took::Nothing } else { Took::End } };
        self.worst.add(wait, spot);
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.finish(Sign::SeenWaiting, self.file, facts);
    }
}

/// `  kworker/3:1:52 | 0.123 ms | 312 | avg: 1.950 ms | max:1950.000 ms | max start: … |`; `fio:(82)` is 82 threads.
fn latency(text: &str) -> Option<Wait> {
    let mut columns = text.split('|').map(str::trim);
    let (comm, id) = columns.next()?.rsplit_once(':')?;
    let max = columns.find_map(|column| column.strip_prefix("max:")?.strip_suffix("ms"))?;
    Some(Wait {
        thread: Thread { comm: comm.to_owned(), pid: id.parse().ok() },
        cpu: None,
        length: milliseconds(max)?,
        holder: None,
    })
}

/// `           time    cpu  task name                       wait time  sch delay   run time`
struct Timehist {
    file: u32,
    worst: Worst,
    /// Who ran on each CPU, from when to when.
    ran: HashMap<u32, VecDeque<Stay>>,
    misses: u32,
}

struct Stay {
    begin: f64,
    end: f64,
    thread: Thread,
}

/// Stays on a CPU that are remembered.
const MAX_STAYS: usize = 256;

fn open_timehist(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let is_head = text.contains("cpu") && text.contains("wait time") && text.contains("run time");
    let is_one = is_head || place(text).is_some();
    let section = || Timehist { file, worst: Worst::default(), ran: HashMap::new(), misses: 0 };
    is_one.then(|| Box::new(section()) as Box<dyn Section>)
}

impl Section for Timehist {
    fn name(&self) -> &'static str {
        "perf sched timehist"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        self.line(text, spot, facts);
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        let Some(row) = timehist(text) else {
            // A wakeup or a migration.
            if place(text).is_some() {
                return Took::Line;
            }
            self.misses += 1;
            return if self.misses > MAX_MISSES { Took::End } else { Took::Nothing };
        };
        self.misses = 0;
        let begin = row.end - row.ran / 1e3;
        let length = Nanos((row.delay * 1e6) as u64);
        let stays = self.ran.entry(row.cpu).or_default();
        let holder = holder(stays, begin - row.delay / 1e3, begin, &row.thread);
        self.worst.add(Wait { thread: row.thread.clone(), cpu: Some(row.cpu), length, holder }, spot);
        if stays.len() == MAX_STAYS {
            stays.pop_front();
        }
        stays.push_back(Stay { begin, end: row.end, thread: row.thread });
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.finish(Sign::SeenWaiting, self.file, facts);
    }
}

/// The thread that had the CPU for more than half of the time from `from` to `to`.
fn holder(stays: &VecDeque<Stay>, from: f64, to: f64, victim: &Thread) -> Option<Thread> {
    let mut shares: Vec<(&Thread, f64)> = Vec::new();
    for stay in stays.iter().rev().take_while(|stay| stay.end > from) {
        let share = stay.end.min(to) - stay.begin.max(from);
        match shares.iter_mut().find(|(thread, _)| thread.may_be(&stay.thread)) {
            Some((_, sum)) => *sum += share.max(0.0),
            None => shares.push((&stay.thread, share.max(0.0))),
        }
    }
    let (thread, share) = shares.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (share > (to - from) / 2.0 && !thread.is_idle() && !thread.may_be(victim)).then(|| thread.clone())
}

struct Row {
    end: f64,
    cpu: u32,
    thread: Thread,
    delay: f64,
    ran: f64,
}

/// The time, the CPU and the rest of a row.
fn place(text: &str) -> Option<(f64, u32, &str)> {
    let (time, rest) = text.trim_start().split_once(char::is_whitespace)?;
    let end: f64 = time.parse().ok().filter(|_| time.contains('.'))?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((end, cpu.parse::<u32>().ok().filter(|cpu| *cpu < CpuId::LIMIT)?, rest))
}

/// `   79371.874569 [0011]  gcc[31949/31940]   R   0.014      0.000      1.148`: time when it left the CPU, and milliseconds.
fn timehist(text: &str) -> Option<Row> {
    let (end, cpu, rest) = place(text)?;
    let is_number = |word: &&str| word.contains('.') && word.parse::<f64>().is_ok();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let first = words.windows(3).position(|three| three.iter().all(is_number))?;
    // `-V` puts a column for each CPU before the name.
    let name = rest.split(words[first]).next()?.trim();
    let name = name.split_once(']').map_or(name, |(name, _)| name).rsplit("  ").next()?.trim();
    let thread = match name.rsplit_once('[') {
        Some((comm, ids)) => Thread { comm: without_item(comm.trim()), pid: ids.split('/').next()?.parse().ok() },
        None if name.starts_with("<idle>") => Thread { comm: "swapper".to_owned(), pid: Some(0) },
        None => return None,
    };
    let number = |place: usize| words[first + place].parse::<f64>().ok().filter(|ms| (0.0..1e12).contains(ms));
    Some(Row { end, cpu, thread, delay: number(1)?, ran: number(2)? })
}

/// A worker's name without its workqueue: `kworker/1:1-eve`.
fn without_item(comm: &str) -> String {
    let is_worker = comm.starts_with("kworker/") && !comm.starts_with("kworker/R-");
    if is_worker { comm.split(['-', '+']).next().unwrap_or(comm).to_owned() } else { comm.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts_of;

    #[test]
    fn runqslower_with_and_without_the_previous_thread() {
        let plain = "Tracing run queue latency higher than 10000 us
TIME     COMM             PID           LAT(us)
14:28:05 kworker/3:1      52             45210
14:28:06 my app           77             12000
14:28:06 kworker/3:1      52             30000
";
        insta::assert_snapshot!(facts_of(plain), @"
        SeenWaiting kworker/3:1[52] cpus [] AtLeast(Nanos(45210000)) ×2 line 3
        SeenWaiting my app[77] cpus [] AtLeast(Nanos(12000000)) line 4
        ");
        let previous = "TIME     COMM             TID           LAT(us) PREV COMM        PREV TID
14:28:05 kworker/3:1      52             45210 my poller        900
14:28:06 ksoftirqd/1      17             12000 swapper/1        0
";
        insta::assert_snapshot!(facts_of(previous), @"
        SeenWaiting kworker/3:1[52] cpus [] AtLeast(Nanos(45210000)) held by my poller[900] line 2
        SeenWaiting ksoftirqd/1[17] cpus [] AtLeast(Nanos(12000000)) line 3
        ");
    }

    #[test]
    fn histograms_say_how_long_and_not_who() {
        let bcc = "Tracing run queue latency... Hit Ctrl-C to end.
     usecs               : count     distribution
         0 -> 1          : 233      |***********                             |
     16384 -> 32767      : 5        |                                        |
     32768 -> 65535      : 0        |                                        |
";
        insta::assert_snapshot!(facts_of(bcc), @"SeenWaiting nobody cpus [] AtLeast(Nanos(16384000)) ×5 line 4");
        let bpftrace = "Tracing CPU scheduler... Hit Ctrl-C to end.

@usecs:
[0]                    5 |@                   |
[32K, 64K)             2 |@                   |
";
        insta::assert_snapshot!(facts_of(bpftrace), @"SeenWaiting nobody cpus [] AtLeast(Nanos(32768000)) ×2 line 5");
        let other = "Tracing block device I/O... Hit Ctrl-C to end.
     usecs               : count     distribution
     16384 -> 32767      : 5        |                                        |
";
        assert_eq!(facts_of(other), "");
    }

    #[test]
    fn perf_sched_latency() {
        let text = "
 -----------------------------------------------------------------------------------------------------------------
  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | Max delay start           |
 -----------------------------------------------------------------------------------------------------------------
  kworker/3:1:52        |      0.123 ms |      312 | avg:   1.950 ms | max:1950.000 ms | max start: 12345.678 s |
  fio:(82)              |   4000.123 ms |     9312 | avg:   0.950 ms | max:  63.123 ms | max at: 12345.678 s
  sshd:999              |      0.123 ms |      312 | avg:   0.010 ms | max:   0.020 ms | max start: 12345.678 s |
 -----------------------------------------------------------------------------------------------------------------
  TOTAL:                |   4000.369 ms |     9936 |
";
        insta::assert_snapshot!(facts_of(text), @"
        SeenWaiting kworker/3:1[52] cpus [] AtLeast(Nanos(1950000000)) line 5
        SeenWaiting fio cpus [] AtLeast(Nanos(63123000)) line 6
        ");
        let row = text.lines().nth(5).expect("a row");
        insta::assert_snapshot!(facts_of(&format!("With the patch:\n{row}\n\n")), @"SeenWaiting fio cpus [] AtLeast(Nanos(63123000)) line 2");
    }

    #[test]
    fn timehist_shows_who_had_the_cpu() {
        let text = "           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
     100.000000 [0003]  <idle>                              0.000      0.000      5.000
     100.500000 [0002]  other[901]                          0.000      0.000    500.000
     100.500000 [0003]  poller[900/890]                     0.000      0.000    500.000
     100.501000 [0003]  kworker/3:1[52]                   700.000    490.000      1.000
     101.001000 [0003]  <idle>                              0.000      0.000    500.000
     101.002000 [0003]  late[53]                            0.000    400.000      1.000
";
        insta::assert_snapshot!(facts_of(text), @"
        SeenWaiting kworker/3:1[52] cpus [3] AtLeast(Nanos(490000000)) held by poller[900] line 7
        SeenWaiting late[53] cpus [3] AtLeast(Nanos(400000000)) line 9
        ");
        let quoted = "   828.000000 [0001]         poller[900]                                            awakened: kworker/1:1-eve[52]
   828.069000 [0001]   s     poller[900]               0.005      0.000     83.992      R  next: kworker/1:1[52]
   828.073076 [0001]   s     kworker/1:1-eve[52]             83.992      4.069      0.007      K  next: poller[900]
";
        insta::assert_snapshot!(facts_of(quoted), @"SeenWaiting kworker/1:1[52] cpus [1] AtLeast(Nanos(4069000)) line 3");
        let near = quoted.replace("828.073076", "828.069076");
        insta::assert_snapshot!(facts_of(&near), @"SeenWaiting kworker/1:1[52] cpus [1] AtLeast(Nanos(4069000)) held by poller[900] line 3");
    }
}
