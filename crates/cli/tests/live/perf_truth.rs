use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

const TEST_TIMEOUT: Duration = Duration::from_secs(12);

/// A run: its task and its end, in µs.
type Key = (u32, u64);

/// The wait before a run in µs, as `unstarve timeline` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waited {
    Woken(u64),
    Preempted(u64),
    NotKnown,
}

/// Every wait of a perf.data is as long as `perf sched timehist` says; `docs/perf-sched-differences.md` tells what is not
/// compared here and why.
pub fn waits_are_those_of_perf_sched(stage: &Stage) -> Ended {
    need("perf")?;
    let file = stage.path("perf.data");
    let pool = "pool --lasts 4000 --threads 32 --burst 8 --every-us 8000";
    let _pool = Running::start(&mut stage.load("dispatch", &[], pool)?)?;
    let _spin = Running::start(&mut stage.load("spin", &[], "spin --lasts 4000 --threads 2")?)?;
    let recording = Command::new("perf")
        .args(["sched", "record", "-m", "16M", "-o"])
        .arg(&file)
        .args(["--", "sleep", "2"])
        .running()?;
    recording.succeed(TEST_TIMEOUT)?;
    let perf = Command::new("perf").args(["sched", "timehist", "-i"]).arg(&file).running()?.succeed(TEST_TIMEOUT)?;
    let ours = stage.unstarve().arg("timeline").arg(&file).running()?.succeed(TEST_TIMEOUT)?;
    let perf: HashMap<Key, (u64, u64)> = perf.out.lines().filter_map(perf_line).collect();
    let ours: HashMap<Key, Waited> = ours.out.lines().filter_map(our_line).collect();

    let (mut equal, mut different) = (0, Vec::new());
    for (key, (between, delay)) in &perf {
        let same = |ours: u64, theirs: u64| ours.abs_diff(theirs) <= 1;
        match ours.get(key) {
            Some(Waited::Woken(wait)) if same(*wait, *delay) => equal += 1,
            Some(Waited::Preempted(wait)) if same(*wait, *between) && *delay == 0 => equal += 1,
            None | Some(Waited::NotKnown) => {}
            Some(waited) => different.push((key, waited, between, delay)),
        }
    }
    let compared = equal + different.len();
    if compared * 10 < perf.len() * 9 || compared < 500 {
        return Err(Stop::Fail(format!("only {compared} of {} runs have a counterpart", perf.len())));
    }
    match different.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(Stop::Fail(format!("{} of {compared} waits differ, as {first:?}", different.len()))),
    }
}

/// `812.098000 [0001]  fio[128/120]   0.500  0.040  1.200`: the task, the end, "wait time" (how long it was off the CPU)
/// and "sch delay".
fn perf_line(line: &str) -> Option<(Key, (u64, u64))> {
    let (key, rest) = key_of(line)?;
    let mut numbers = rest.split_whitespace().map(micros);
    Some((key, (numbers.next()??, numbers.next()??)))
}

/// `812.098000 [0001]  fio[128]  wakeup  0.040  1.200  idle 40000`.
fn our_line(line: &str) -> Option<(Key, Waited)> {
    let (key, rest) = key_of(line)?;
    let mut fields = rest.split_whitespace();
    let kind = fields.next()?;
    let wait = micros(fields.next()?);
    // A wait without a run is cut by the end of the recording; perf does not list it.
    let run = micros(fields.next()?);
    let waited = match (kind, wait, run) {
        ("wakeup" | "new", Some(wait), Some(_)) => Waited::Woken(wait),
        ("preemption", Some(wait), Some(_)) => Waited::Preempted(wait),
        _ => Waited::NotKnown,
    };
    Some((key, waited))
}

/// The task and the end of a run, and what follows the name, which may have spaces in it.
fn key_of(line: &str) -> Option<(Key, &str)> {
    let (time, rest) = line.trim_start().split_once(" [")?;
    let (_, rest) = rest.split_once(']')?;
    let (name, rest) = rest.split_once("]  ").or_else(|| rest.split_once("] "))?;
    let (_, ids) = name.rsplit_once('[')?;
    let tid = ids.split('/').next()?.parse().ok()?;
    Some(((tid, seconds(time)?), rest))
}

fn micros(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 1_000 + fraction.parse::<u64>().ok()?)
}

fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?)
}

/// Starts a command in the middle of a chain.
trait Start {
    fn running(&mut self) -> Result<Running, String>;
}

impl Start for Command {
    fn running(&mut self) -> Result<Running, String> {
        Running::start(self)
    }
}
