//! Texts that are damaged again and again: spliced, with the numbers that nobody expects. It runs for minutes, beside the fuzzer.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use unstarve_evidence::{Limits, explain, gather_input};
use unstarve_readers::Input;

/// Words that begin or end something, and numbers at the edges.
const WORDS: [&str; 40] = [
    "BUG: ",
    "INFO: task ",
    "CPU: 3 PID: 0 Comm: swapper/3 Not tainted 6.1\n",
    "4294967295",
    "18446744073709551615",
    "-1",
    "0",
    "99999999999999999999",
    "1e308",
    "\u{feff}",
    "\u{1b}[2J",
    "\0",
    "\r",
    "\n\n",
    "[    0.000001] ",
    "[99999999999.999999] ",
    "Dec 31 23:59:59 h kernel: ",
    "Jan  1 00:00:00 h app[7]: ",
    "{\"__CURSOR\":\"x\",\"MESSAGE\":[66,85,71],\"_TRANSPORT\":\"kernel\"}\n",
    "11-30 10:11:12.123     0     0 W BUG     : ",
    "  Warning  TaskHung  5m  kernel-monitor  ",
    "  PID PSR NLWP STAT %CPU COMMAND\n",
    "Threads: 532 total,   2 running\n",
    "10:11:12  UID TGID TID %usr %CPU CPU Command\n",
    " lock: x, .magic: 1, .owner: a/1, .owner_cpu: 0\n",
    "INFO: rcu_tasks detected stalls on tasks:\n",
    "detected hard LOCKUP on other CPUs 0-4294967294\n",
    "           CPU0       CPU1\n",
    "T: 0 ( 1) P:80 I:1 C: 1 Min: 1 Act: 1 Avg: 1 Max: 1\n",
    "sched_ext: BPF scheduler \"x\" disabled (runnable task stall)\n",
    "-- Boot 0123456789abcdef0123456789abcdef --\n",
    "Linux version 6.1.0\n",
    "> > ",
    "&lt;",
    "\t",
    "%",
    ",",
    "é",
    " jiffies! ",
    "kthread starved for ",
];

/// An LCG's upper bits (Knuth, MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

fn damage(text: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let (at, other) = (random.below(text.len() + 1), &others[random.below(others.len())]);
    match random.below(6) {
        0 => {
            let end = (at + random.below(200)).min(text.len());
            text.drain(at..end);
        }
        1 => {
            let word = WORDS[random.below(WORDS.len())].bytes();
            text.splice(at..at, word);
        }
        2 => {
            // Lines of another text.
            let begin = random.below(other.len());
            let end = (begin + random.below(2000)).min(other.len());
            text.splice(at..at, other[begin..end].iter().copied());
        }
        3 => {
            let end = (at + random.below(300)).min(text.len());
            let again = text[at..end].to_vec();
            text.splice(at..at, again);
        }
        4 => {
            // A number becomes another one.
            let digit = text[at.min(text.len())..].iter().position(u8::is_ascii_digit).map(|place| at + place);
            if let Some(begin) = digit {
                let length = text[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = WORDS[3 + random.below(5)].bytes();
                text.splice(begin..begin + length, number);
            }
        }
        _ => {
            if let Some(byte) = text.get_mut(at) {
                *byte = random.below(256) as u8;
            }
        }
    }
}

fn beginnings() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directories = ["fuzz/corpus/evidence", "testdata/logs"].map(|name| root.join(name));
    let files = directories.iter().flat_map(|directory| fs::read_dir(directory).unwrap());
    let texts = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    texts
        .map(|path| fs::read(path).unwrap())
        .map(|mut text| {
            text.truncate(16 << 10);
            text
        })
        .collect()
}

#[test]
#[ignore = "runs for UNSTARVE_MINUTES, 10 by default"]
fn damaged_texts_do_no_harm() {
    let minutes = std::env::var("UNSTARVE_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let (texts, begun) = (beginnings(), Instant::now());
    let mut random = Random(std::env::var("UNSTARVE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1));
    let (mut runs, mut slowest) = (0u64, Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(minutes * 60) {
        let mut text = texts[random.below(texts.len())].clone();
        for _ in 0..1 + random.below(30) {
            damage(&mut text, &texts, &mut random);
        }
        let one = Instant::now();
        let kept = text.clone();
        let outcome = std::panic::catch_unwind(move || {
            let limits = Limits { files: 1000, archives: 3, bytes: 64 << 20, time: Duration::from_secs(20) };
            let input = Input::from_stream(Box::new(Cursor::new(text)), "x".to_owned()).unwrap();
            for host in gather_input(input, limits).hosts {
                let report = explain(&host.facts, &host.sources);
                let commands = report.evidence.into_iter().flat_map(|evidence| evidence.next);
                assert!(commands.into_iter().all(|step| !step.command.contains('\x1b')));
                let is_possible = |cpu: &u32| *cpu < 1 << 16;
                for finding in report.findings {
                    assert!((0.0..=1.0).contains(&finding.confidence));
                    assert!(finding.cpus.iter().all(is_possible), "{:?}", finding.cpus);
                }
            }
        });
        if outcome.is_err() {
            let path = std::env::temp_dir().join(format!("damaged-{runs}"));
            fs::write(&path, kept).unwrap();
            panic!("{} after {runs} runs", path.display());
        }
        slowest = slowest.max(one.elapsed());
        runs += 1;
    }
    println!("{runs} texts in {:?}, the slowest in {slowest:?}", begun.elapsed());
}
