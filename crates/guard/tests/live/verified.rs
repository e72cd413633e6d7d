//! What `verify` measures: waits of a task beside three others on one CPU, in the kernel's histograms and in its own sums.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use unstarve_executor::sched;
use unstarve_guard::Policy;
use unstarve_guard::verify::{self, By, Fared, Measured, Span, Verdict};
use unstarve_model::Tid;

use crate::child::Running;
use crate::stage::{Ended, Stage, Stop, need};

const MEASURED: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(250);

pub fn in_the_kernel(stage: &Stage) -> Ended {
    need("taskset")?;
    // Lengths that nobody else asks for tell the victim and the others apart.
    let (victim, other) =
        (format!("22{:03}", std::process::id() % 1000), format!("21{:03}", std::process::id() % 1000));
    let mut tasks: Vec<Running> = Vec::new();
    for lasts in [&victim, &other, &other, &other] {
        tasks.push(busy(lasts)?);
    }
    let text = format!(
        "[[rule]]\nname = \"victim\"\nmatch = {{ cmdline = \"*spin --lasts {victim}\" }}\nset = {{ nice = -10 }}\n\
         [[rule]]\nname = \"others\"\nmatch = {{ cmdline = \"*spin --lasts {other}\" }}\nset = {{ policy = \"other\" }}\n"
    );
    let policy = Policy::load(&stage.policy("p.toml", &text)?).map_err(|error| error.to_string())?;
    let tid = Tid(tasks[0].0.id());
    let nice = |nice| sched::set_nice(tid, nice).map_err(|error| format!("nice of {tid}: {error}"));
    // What else runs on the CPU may outweigh them all for a while.
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        nice(0)?;
        let before = both(&policy)?;
        if let By::Schedstat { reason } = &before.by {
            return Err(Stop::Skip(reason.clone()));
        }
        nice(-10)?;
        let after = both(&policy)?;
        nice(0)?;
        let again = both(&policy)?;
        let side = |side: &Fared| Fared { slices: Vec::new(), ..side.clone() };
        let judged = |rule: usize| {
            let sides = [&before.rules[rule], &after.rules[rule], &again.rules[rule]];
            println!("{:?}", sides.map(side));
            verify::judge(sides[0], sides[1], sides[2])
        };
        verdicts = (0..2).map(|rule| judged(rule).verdict).collect();
        if verdicts == [Verdict::Helped, Verdict::DidNotHelp] {
            return Ok(());
        }
    }
    Err(Stop::Fail(format!("{verdicts:?}")))
}

/// Runs all the time on one CPU with the others.
fn busy(lasts: &str) -> Result<Running, Stop> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("taskset");
    command.args(["-c", "1"]).arg(myself).args(["load", "spin", "--lasts", lasts]);
    Running::start(&mut command)
}

/// Measures at once in both ways, which must agree.
fn both(policy: &Policy) -> Result<Measured, Stop> {
    let stop = AtomicBool::new(false);
    let span = Span { time: MEASURED, step: STEP, stop: &stop };
    let (measured, sums) = std::thread::scope(|scope| {
        let sums = scope.spawn(|| verify::by_schedstat(policy, span, String::new()));
        (verify::watch(policy, span), sums.join())
    });
    let measured = measured.map_err(|error| error.to_string())?;
    let sums = sums.map_err(|_| "the other thread".to_owned())?.map_err(|error| error.to_string())?;
    for (ours, kernels) in measured.rules.iter().zip(&sums.rules) {
        agree(ours, kernels);
    }
    Ok(measured)
}

fn agree(ours: &Fared, kernels: &Fared) {
    // Their first and last looks are not at the same moments, on a busy machine by hundreds of ms for each task. And the kernel
    // counts a wait when it ends, ours from when it was first looked at, and to the end of looking.
    let cut = ours.waits.map_or(0, |waits| waits.max_ns) * ours.tasks as u64;
    let close = |ours: u64, kernels: u64| ours.abs_diff(kernels) <= kernels / 4 + 300_000_000 + cut;
    assert!(close(ours.waited_ns, kernels.waited_ns), "waited: {ours:?}, the kernel's own sums: {kernels:?}");
    assert!(close(ours.ran_ns, kernels.ran_ns), "ran: {ours:?}, the kernel's own sums: {kernels:?}");
    assert_eq!(ours.tasks, kernels.tasks);
    for side in [ours, kernels] {
        assert_eq!(side.slices.len(), verify::SLICES);
        let sum: u64 = side.slices.iter().map(|slice| slice.waited_ns).sum();
        assert!(sum.abs_diff(side.waited_ns) < 1_000_000, "{side:?}");
        assert!(side.slices.iter().map(|slice| slice.waits).sum::<u64>() >= verify::ENOUGH, "{side:?}");
    }
    if let Some(waits) = ours.waits {
        assert!(waits.p50_ns <= waits.p99_ns && waits.p99_ns <= waits.max_ns, "{waits:?}");
        assert!(waits.max_ns <= ours.waited_ns);
    }
}
