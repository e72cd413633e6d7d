//! Tools that measure how late a thread wakes: `cyclictest`, `rtla timerlat` with its analysis, `rtla osnoise`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use unstarve_model::{CpuId, Nanos, SchedPolicy};

use super::worst::{Wait, Worst, microseconds};
use super::{Kind, Section, Took};
use crate::fact::{Facts, Seen, Sign, Spot, Thread};

pub(super) const CYCLICTEST: Kind = Kind { triggers: &["T: 0 ("], open: open_cyclictest };
pub(super) const ANALYSIS: Kind = Kind { triggers: &["hit stop tracing, analyzing it"], open: open_analysis };
pub(super) const TIMERLAT: Kind = Kind { triggers: &["Timer Latency"], open: open_timerlat };
pub(super) const OSNOISE: Kind = Kind { triggers: &["Max Single"], open: open_osnoise };

// `T: 0 ( 1234) P:80 I:1000 C: 100000 Min:      2 Act:    3 Avg:    4 Max:     1234`
pattern!(MEASURED = r"^T:\s*\d+ \(\s*(?<pid>\d+)\) P:\s*(?<priority>\d+) I:\s*\d+ C:\s*\d+ Min:.*Max:\s*(?<max>\d+)?$");
pattern!(STOPPED = r"^## CPU (?<cpu>\d+) hit stop tracing, analyzing it ##");
// `  Blocking thread:     3.79 us (9.03 %)`, `  Thread latency:    41.96 us (100%)`
pattern!(PART = r"^\s*(?<what>[A-Z][A-Za-z ]*[a-z]):?\s+(?:\(.*\)\s+)?(?:up to\s+)?(?<us>\d+\.\d+) us(?: \(|$)");
// `                 poller:900                  3.79 us`
pattern!(THREAD = r"^\s+(?<comm>\S.*?):(?<pid>\d+)(?:\s+(?<us>\d+\.\d+) us)?\s*$");
pattern!(TIMERLAT_ROW = r"^\s*(?<cpu>\d+) #\d+\s+\|(?:\s+[\d-]+){3}\s+[\d-]+ \|(?:\s+[\d-]+){3}\s+(?<max>\d+)");
pattern!(OSNOISE_ROW = r"^\s*(?<cpu>\d+) #\d+(?:\s+\d+){2}\s+[\d.]+\s+\d+\s+(?<single>\d+)\s");

/// Threads of cyclictest that are counted: it has one a CPU.
const MAX_CYCLICTEST: usize = 1 << 14;

struct Cyclictest {
    file: u32,
    /// A thread whose maximum a mailer put on the next line.
    wrapped: Option<(Thread, Spot)>,
    /// The threads that it has.
    threads: BTreeSet<u32>,
    worst: Worst,
}

fn open_cyclictest(text: &str, file: u32) -> Option<Box<dyn Section>> {
    MEASURED.is_match(text.trim()).then(|| {
        Box::new(Cyclictest { file, wrapped: None, threads: BTreeSet::new(), worst: Worst::default() })
            as Box<dyn Section>
    })
}

impl Section for Cyclictest {
    fn name(&self) -> &'static str {
        "cyclictest"
    }

    fn first(&mut self, text: &str, spot: &Spot, facts: &mut Facts) {
        self.line(text, spot, facts);
    }

    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took {
        let Some(found) = MEASURED.captures(text.trim()) else {
            if let (Some((thread, spot)), Some(length)) = (self.wrapped.take(), microseconds(text)) {
                self.worst.add(Wait { thread, cpu: None, length, holder: None }, &spot);
                return Took::Line;
            }
            return if text.trim().is_empty() { Took::Nothing } else { Took::End };
        };
        let (Ok(pid), Ok(priority)) = (found["pid"].parse(), found["priority"].parse::<u32>()) else {
            return Took::Line;
        };
        let thread = Thread { comm: "cyclictest".to_owned(), pid: Some(pid) };
        if self.threads.len() < MAX_CYCLICTEST {
            self.threads.insert(pid);
        }
        match found.name("max").and_then(|max| microseconds(max.as_str())) {
            Some(length) => self.worst.add(Wait { thread, cpu: None, length, holder: None }, spot),
            None => self.wrapped = Some((thread, spot.clone())),
        }
        if priority > 0 && !facts.seen.iter().rev().take(1024).any(|seen| seen.pid == pid) {
            facts.seen(Seen {
                pid,
                comm: "cyclictest".to_owned(),
                policy: Some(SchedPolicy::Fifo),
                rt_priority: Some(priority),
                ..Seen::at(spot)
            });
        }
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.none_was_late("cyclictest", self.threads.len() as u64, facts);
        self.worst.finish(Sign::LateWakeup, self.file, facts);
    }
}

/// The analysis that rtla prints when a limit was exceeded.
struct Analysis {
    file: u32,
    cpu: u32,
    /// What the lines with threads belong to.
    of_threads: bool,
    threads: Vec<(Thread, Option<Nanos>)>,
    last: Option<Spot>,
    worst: Worst,
    misses: u32,
}

/// Lines of an analysis that are not read: stacks.
const MAX_STACK: u32 = 80;

fn stopped(text: &str) -> Option<u32> {
    STOPPED.captures(text.trim())?["cpu"].parse().ok().filter(|cpu| *cpu < CpuId::LIMIT)
}

fn open_analysis(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let cpu = stopped(text)?;
    let worst = Worst::default();
    Some(Box::new(Analysis { file, cpu, of_threads: false, threads: Vec::new(), last: None, worst, misses: 0 }))
}

impl Section for Analysis {
    fn name(&self) -> &'static str {
        "analysis of rtla timerlat"
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        self.last = Some(spot.clone());
        if let Some(cpu) = stopped(text) {
            (self.cpu, self.of_threads, self.misses) = (cpu, false, 0);
            self.threads.clear();
            return Took::Line;
        }
        if let Some(found) = PART.captures(text) {
            let what = &found["what"];
            self.of_threads = matches!(what, "Blocking thread" | "Thread interference");
            let is_total = matches!(what, "Thread latency" | "IRQ latency") && text.contains("100%");
            if let Some(total) = microseconds(&found["us"]).filter(|_| is_total) {
                self.close(total, spot);
            }
            return Took::Line;
        }
        if text.trim() == "Blocking thread:" {
            self.of_threads = true;
            return Took::Line;
        }
        if let Some(found) = THREAD.captures(text).filter(|_| self.of_threads) {
            let thread = Thread { comm: found["comm"].to_owned(), pid: found["pid"].parse().ok() };
            let length = found.name("us").and_then(|us| microseconds(us.as_str()));
            if self.threads.len() < MAX_STACK as usize {
                self.threads.push((thread, length));
            }
            return Took::Line;
        }
        self.misses += 1;
        if self.misses > MAX_STACK { Took::End } else { Took::Nothing }
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.finish(Sign::LateWakeup, self.file, facts);
    }
}

impl Analysis {
    /// The thread that had the CPU for more than half of the delay; without lengths, the only one.
    fn close(&mut self, total: Nanos, spot: &Spot) {
        let threads = std::mem::take(&mut self.threads);
        let is_most = |length: Option<Nanos>| length.map_or(threads.len() == 1, |length| length.0 > total.0 / 2);
        let holder = threads.iter().find(|(_, length)| is_most(*length)).map(|(thread, _)| thread.clone());
        let thread = Thread { comm: format!("timerlat/{}", self.cpu), pid: None };
        let holder = holder.filter(|holder| !holder.is_idle());
        // A limit set by the user also counts below a millisecond.
        self.worst.add_any(Wait { thread, cpu: Some(self.cpu), length: total, holder }, spot);
    }
}

/// A row a CPU, with the longest delay.
struct Table {
    file: u32,
    name: &'static str,
    thread: &'static str,
    row: &'static LazyLock<Regex>,
    worst: Worst,
    misses: u32,
}

fn open_timerlat(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let table = Table {
        file,
        name: "rtla timerlat",
        thread: "timerlat",
        row: &TIMERLAT_ROW,
        worst: Worst::default(),
        misses: 0,
    };
    (text.trim() == "Timer Latency" || text.contains("Thread Timer Latency"))
        .then(|| Box::new(table) as Box<dyn Section>)
}

fn open_osnoise(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let table =
        Table { file, name: "rtla osnoise", thread: "osnoise", row: &OSNOISE_ROW, worst: Worst::default(), misses: 0 };
    text.trim_start().starts_with("CPU Period").then(|| Box::new(table) as Box<dyn Section>)
}

impl Section for Table {
    fn name(&self) -> &'static str {
        self.name
    }

    fn line(&mut self, text: &str, spot: &Spot, _facts: &mut Facts) -> Took {
        let Some(found) = self.row.captures(text) else {
            self.misses += 1;
            return if self.misses > 8 { Took::End } else { Took::Nothing };
        };
        self.misses = 0;
        let longest = found.name("max").or(found.name("single"));
        let (Ok(cpu), Some(length)) = (found["cpu"].parse::<u32>(), longest.and_then(|us| microseconds(us.as_str())))
        else {
            return Took::Line;
        };
        let thread = Thread { comm: format!("{}/{cpu}", self.thread), pid: None };
        self.worst.add(Wait { thread, cpu: Some(cpu).filter(|cpu| *cpu < CpuId::LIMIT), length, holder: None }, spot);
        Took::Line
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.worst.finish(Sign::LateWakeup, self.file, facts);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::facts_of;

    #[test]
    fn cyclictest_has_priorities() {
        let text = "# /dev/cpu_dma_latency set to 0us
policy: fifo: loadavg: 0.00 0.01 0.05 1/151 1234

T: 0 ( 1234) P:80 I:1000 C: 100000 Min:      2 Act:    3 Avg:    4 Max:      21
T: 1 ( 1235) P:80 I:1500 C:  66666 Min:      2 Act:    3 Avg:    4 Max:   23456
";
        insta::assert_snapshot!(facts_of(text), @"
        LateWakeup cyclictest[1235] cpus [] AtLeast(Nanos(23456000)) line 5
        listed cyclictest[1234] FIFO Some(80)
        listed cyclictest[1235] FIFO Some(80)
        ");
        let wrapped = "T: 0 (  251) P:98 I:1000 C:  53113 Min:    116 Act:  327 Avg:  209 Max: \n  60353\n";
        insta::assert_snapshot!(facts_of(wrapped), @"
        LateWakeup cyclictest[251] cpus [] AtLeast(Nanos(60353000)) line 1
        listed cyclictest[251] FIFO Some(98)
        ");
    }

    #[test]
    fn rtla_names_the_blocking_thread() {
        let text = "                                     Timer Latency
  0 00:00:10   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)
CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max
  0 #9995      |        1         0         1        16 |       12         4        10      3100
## CPU 12 hit stop tracing, analyzing it ##
  IRQ handler delay:                             27.49 us (0.52 %)
  IRQ latency:                                   28.13 us
  Timerlat IRQ duration:                          9.59 us (0.20 %)
  Blocking thread:                              400.79 us (90.03 %)
                   my objtool:49256              400.79 us
    Blocking thread stack trace
                -> timerlat_irq
                -> queued_spin_lock
------------------------------------------------------------------------
  Thread latency:                               441.96 us (100%)
";
        insta::assert_snapshot!(facts_of(text), @"
        LateWakeup timerlat/0 cpus [0] AtLeast(Nanos(3100000)) line 4
        LateWakeup timerlat/12 cpus [12] AtLeast(Nanos(441960)) held by my objtool[49256] line 15
        ");
    }

    #[test]
    fn osnoise_says_how_long_a_cpu_was_taken() {
        let text = "                                          Operating System Noise
duration:   0 00:00:59 | time is in us
CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread
  1 #58         58000000        65000   99.88793        32102        22100         267            0        57998        36           15
";
        insta::assert_snapshot!(facts_of(text), @"LateWakeup osnoise/1 cpus [1] AtLeast(Nanos(22100000)) line 4");
    }
}
