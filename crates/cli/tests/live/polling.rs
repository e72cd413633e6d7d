//! A real-time program that polls in long stays, and a kernel worker behind it: nobody sleeps until that worker is done.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use unstarve_diagnose::report::{Finding, Report, Severity};

use crate::cgroup::Cgroup;
use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};

const RECORDED: Duration = Duration::from_millis(3400);
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What polls: 85 % of three seconds, as much as a real-time load of these tests may run.
const STAYS: u32 = 3;
const PERIOD: Duration = Duration::from_secs(1);
const STAY: Duration = Duration::from_millis(850);

/// A worker that waits for half a stay was kept off by it.
const LATE_NS: u64 = STAY.as_nanos() as u64 / 2;

const POLLER: &str = "poller";

/// Removes a cgroup before each stay and then polls. What is left of the group is taken apart by a worker of this CPU, after a
/// grace period and therefore during the stay (`css_killed_work_fn`, kernel/cgroup/cgroup.c), and rmdir(2) does not wait for it.
pub fn poll(parent: &Path) {
    let began = Instant::now();
    for turn in 0..STAYS {
        let group = parent.join(format!("turn-{turn}"));
        std::fs::create_dir(&group).and_then(|()| std::fs::remove_dir(&group)).expect("a cgroup comes and goes");
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let next = began + PERIOD * (turn + 1);
        // Held up itself, it leaves as much to the others all the same.
        thread::sleep(next.saturating_duration_since(Instant::now()).max(PERIOD - STAY));
    }
}

/// Records the poller, started by `before` on the stage's CPU.
fn polled(stage: &Stage, before: &[&str]) -> Result<Report, Stop> {
    let parent = Cgroup::new(POLLER, 10)?;
    let file = stage.path("trace.dat");
    let recording = stage.record(&file, RECORDED)?;
    let mut command = Command::new("taskset");
    command.args(["-c", &stage.cpu.to_string()]).args(before).arg(stage.myself_as(POLLER)?);
    command.arg("poll-in-stays").arg(parent.path());
    Running::start(&mut command)?.succeed(TEST_TIMEOUT)?;
    recording.succeed(RECORDED + TEST_TIMEOUT)?;
    stage.explain(&file)
}

fn is_by_poller(finding: &Finding, rule: impl Fn(&str) -> bool) -> bool {
    finding.severity >= Severity::Warning
        && finding.culprits.first().is_some_and(|culprit| culprit.comm == POLLER && rule(culprit.rule.word()))
}

/// Where other programs run beside them, one of these may be named first, and the worker among those that waited, too.
fn names(finding: &Finding, worker: &str) -> bool {
    finding.victim.comm.starts_with(worker)
        || finding.price.iter().any(|late| late.comm.starts_with(worker) && late.waited_ns >= LATE_NS)
}

pub fn starves_a_worker(stage: &Stage) -> Ended {
    let report = polled(stage, &["chrt", "--fifo", "50"])?;
    let worker = format!("kworker/{}:", stage.cpu);
    let by_class = |finding: &&Finding| is_by_poller(finding, |rule| rule == "class");
    let named = report.findings.iter().filter(by_class).any(|finding| names(finding, &worker));
    if named { Ok(()) } else { Err(unexpected(&format!("{worker}… starved by {POLLER}, by class"), &report)) }
}

pub fn fair_starves_no_worker(stage: &Stage) -> Ended {
    let report = polled(stage, &[])?;
    let worker = format!("kworker/{}:", stage.cpu);
    let starved = report.findings.iter().any(|finding| is_by_poller(finding, |_| true) && names(finding, &worker));
    if starved { Err(unexpected(&format!("no {worker}… behind {POLLER}, which is fair"), &report)) } else { Ok(()) }
}

fn unexpected(what: &str, report: &Report) -> Stop {
    let found: Vec<String> =
        report.findings.iter().map(|finding| format!("{} {}", finding.severity.word(), finding.sentence)).collect();
    Stop::Fail(format!("expected {what}; found {found:#?}; losses {:?}", report.losses))
}
