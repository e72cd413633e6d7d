use std::process::Stdio;
use std::time::Duration;

use crate::child::Guard;
use crate::stage::{Ended, Stage, Stop};

/// Reset-on-fork, so that no thread has its nice from the one that makes it.
const RULE: &str =
    "[[rule]]\nname = \"storm\"\nmatch = { comm = \"storm\" }\nset = { nice = -3, reset-on-fork = true }\n";
const RATE: u32 = 2000;
const SECONDS: u32 = 5;

pub fn storm_by_best_source(stage: &Stage) -> Ended {
    storm(stage, "")
}

pub fn storm_by_netlink(stage: &Stage) -> Ended {
    storm(stage, "netlink")
}

/// Rules about the kernel's threads alone take fewer programs, and those attach, too.
pub fn kernel_threads_alone(_: &Stage) -> Ended {
    use unstarve_guard::task_events::{Interest, Programs, SourceName, WorkDetail, attempt, open};
    if let Err(reason) = attempt() {
        return Err(Stop::Skip(reason));
    }
    for work in [WorkDetail::None, WorkDetail::Workqueue, WorkDetail::Function] {
        let (source, reasons) =
            open(Interest { programs: Programs::None, work, owners: false, groups: false }, Some(SourceName::Ebpf));
        assert!(source.is_some_and(|source| source.name() == SourceName::Ebpf), "{reasons:?}");
    }
    Ok(())
}

/// Threads are born, and each says at its end whether it was seen to. What they say is the truth; the guard's own figures are
/// held against it.
fn storm(stage: &Stage, source: &str) -> Ended {
    let policy = stage.policy("p.toml", RULE)?;
    let guard = Guard::start(stage, &policy, source)?;
    let mut load = crate::child::load();
    load.args(["births", "--nice", "-3", "--lives", "150"]);
    load.args(["--rate", &RATE.to_string(), "--lasts", &(SECONDS * 1000).to_string()]);
    let output = load.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let storm: serde_json::Value = serde_json::from_str(text.trim()).map_err(|error| format!("{text}: {error}"))?;
    let number = |name: &str| storm[name].as_u64().unwrap_or(u64::MAX);
    let status = guard.settled_status()?;
    guard.end()?;
    println!(
        "{} births by {}: p50 {} µs, p99 {} µs, longest {} µs; {} without their nice, {} events lost",
        number("made"),
        status.source,
        status.birth_p50_ns / 1000,
        status.birth_p99_ns / 1000,
        status.birth_max_ns / 1000,
        number("wrong"),
        status.counts.events_lost,
    );
    // A machine that is busy with other things makes fewer.
    if number("made") < u64::from(RATE * SECONDS / 2) {
        return Err(Stop::Skip(format!("this machine makes only {} threads in {SECONDS} s", number("made"))));
    }
    assert_eq!(number("wrong"), 0, "{text} {status:?}");
    assert!(status.births >= number("made"), "{text} {status:?}");
    // Far more than is usual, for a machine that does other things too: the bench says what is usual.
    assert!(Duration::from_nanos(status.birth_p50_ns) < Duration::from_millis(20), "{status:?}");
    Ok(())
}

/// What other users start costs next to nothing where no rule can be about it, and so much at most where one can.
pub fn price(stage: &Stage) -> Ended {
    const OTHERS: &str = "[[rule]]\nname = \"named\"\nmatch = { comm = \"nobody-is-so\" }\nset = { nice = -3 }\n";
    const ANYBODY: &str = "[[rule]]\nname = \"any\"\nmatch = { cgroup = \"/no/such/*\" }\nset = { nice = -3 }\n";
    for (rules, at_once, a_second) in [(OTHERS, 500, 0), (ANYBODY, 4000, 3000)] {
        let guard = Guard::start(stage, &stage.policy("p.toml", rules)?, "")?;
        let began = std::time::Instant::now();
        let pid = unstarve_model::Tid(guard.process.0.id());
        let before = unstarve_executor::proc::ran_on(pid).map_or(0, |(ran, _)| ran);
        let mut load = crate::child::load();
        load.args(["births", "--nice", "0", "--lives", "1", "--rate", "20000", "--lasts", "4000"]);
        let output = load.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let storm: serde_json::Value =
            serde_json::from_slice(output.stdout.trim_ascii()).map_err(|error| error.to_string())?;
        let ran = unstarve_executor::proc::ran_on(pid).map_or(0, |(ran, _)| ran) - before;
        let status = guard.settled_status()?;
        guard.end()?;
        if status.source != unstarve_guard::task_events::SourceName::Ebpf {
            return Err(Stop::Skip("no eBPF here".to_owned()));
        }
        let percent = ran as f64 / 4e9 * 100.0;
        println!("{} births in 4 s: {} events, {percent:.1} % of a CPU", storm["made"], status.counts.events);
        // What was throttled is an event itself, for each look into the ring.
        let most = at_once + a_second * (began.elapsed().as_secs() + 1);
        let events = status.counts.events - status.counts.throttled.min(status.counts.events / 10);
        assert!(events <= most, "{storm} {status:?}");
    }
    Ok(())
}
