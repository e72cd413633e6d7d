//! How near replays without a change come, and what remedies are predicted to do.

use std::fmt::Write;

use unstarve_diagnose::report::{Outlook, Severity};
use unstarve_sim::predict::{Baseline, Limit, Metric, Model, Prediction, RemedyPredictor, Subject};

use crate::{Recorded, recorded};

/// The worst finding's victim, and what each of its remedies that a program can make would do.
fn line(name: &str) -> String {
    let Recorded { report, driven, extracted } = recorded(name);
    let finding = report.findings.iter().find(|finding| finding.severity >= Severity::Warning).expect("a finding");
    let release = extracted.program.kernel.clone().expect("a kernel");
    let mut model = Model { release, snapshot: driven.snapshot.as_deref().cloned() };
    let baseline = Baseline::play(&mut model, &extracted, &report).expect("it can be played");
    let subject = Subject::of(finding, &extracted.program);
    let mut text = format!("{name}: {}\n", finding.headline);
    for row in baseline.reproduced(&subject) {
        let Some(metric) = Metric::of_id(&row.metric).filter(|metric| metric.is_wait()) else { continue };
        let (recorded, replayed) = (metric.shown(row.recorded), metric.shown(row.replayed));
        let _ = writeln!(
            text,
            "  {} {recorded}, replayed {replayed}{}",
            row.metric,
            if row.near { "" } else { ": not near" }
        );
    }
    for remedy in &finding.remedies {
        let prediction = baseline.predict(&mut model, &subject, &remedy.changes).expect("it can be played");
        if let Prediction::Refused(why) = &prediction
            && why.iter().any(|why| why.to_string() == "only a person can do it")
        {
            continue;
        }
        let of = prediction.report();
        let _ = write!(text, "  {}: {}", remedy.id, of.verdict.word());
        if let Some((main, metric)) = of.metrics.first().and_then(|main| Some((main, Metric::of_id(&main.metric)?))) {
            let _ = write!(text, ", {} {}", main.metric, metric.shown(main.predicted));
        }
        for why in of.refused.iter().take(1).chain(&of.newly_starved) {
            let _ = write!(text, ": {why}");
        }
        text.push('\n');
    }
    text
}

#[test]
fn replays_come_near_and_remedies_are_predicted_or_refused() {
    let names = [
        "drain-rt.6.12.fault",
        "hog-never-leaves.6.1.fault",
        "hog-over-softirq.6.12.fault",
        "idle-group.6.12.fault",
        "iouring-rt.6.1.fault",
        "polling-fair-thread.6.12.fault",
        "redis-quota.6.1.fault",
        "rr-equals.6.12.fault",
        "rt-behind-section.6.12.fault",
        "deadline-hog.6.12.fault",
    ];
    let lines: String = names.into_iter().map(line).collect();
    insta::assert_snapshot!(lines, @"
    drain-rt.6.12.fault: kworker/1:1 (wq_barrier_func) is starved by rtpoll (real-time)
      longest 90.6 ms, replayed 91.5 ms
      intruder-to-fair: helps, longest 3.03 ms
      victim-above-intruder: helps, longest 3.95 µs
      fair-server: makes no clear difference, longest 90.6 ms
    hog-never-leaves.6.1.fault: kworker/1:0 (vmstat_update on mm_percpu_wq) is starved by rtpoll (real-time)
      longest 2.04 s, replayed 2.04 s
      intruder-to-fair: helps, longest 3.50 µs
      victim-above-intruder: helps, longest 3.50 µs
      rt-throttling: helps, longest 129 ms
    hog-over-softirq.6.12.fault: ksoftirqd/1 is starved by rtpoll (real-time)
      longest 2.51 s, replayed 2.51 s
      intruder-to-fair: not predicted: its work is what interrupts leave to it: what comes while it waits is added, and dropped beyond a limit
      victim-above-intruder: helps, longest 3.88 µs
      fair-server: not predicted: its work is what interrupts leave to it: what comes while it waits is added, and dropped beyond a limit
    idle-group.6.12.fault: dbserver is starved by cruncher, which has more CPU weight
      wait-per-cpu 260, replayed 269
      longest 195 ms, replayed 197 ms
      raise-group-weight: helps, wait-per-cpu 1.44
    iouring-rt.6.1.fault: iou-wrk-94 is starved by rtpoll (real-time)
      wait-per-item 3.13 ms, replayed 2.92 ms
      longest 62.5 ms, replayed 62.1 ms
      p99 59.4 ms, replayed 59.8 ms
      intruder-to-fair: helps, wait-per-item 136 µs
    polling-fair-thread.6.12.fault: ksoftirqd/1 is starved by poller, which has more CPU weight
      wait-per-cpu 59, replayed 59
      longest 516 ms, replayed 348 ms: not near
      occupant-to-nice-0: not predicted: its work is what interrupts leave to it: what comes while it waits is added, and dropped beyond a limit
      raise-worker: not predicted: its work is what interrupts leave to it: what comes while it waits is added, and dropped beyond a limit
      worker-to-rt: helps, wait-per-cpu 0.00
    redis-quota.6.1.fault: redis-server is stopped by the CPU limit of /db
      wait-per-cpu 3.78, replayed 3.80
      longest 82.0 ms, replayed 82.5 ms
      raise-limit: not predicted: redis-server may use several CPUs, and on which it would run is not known
    rr-equals.6.12.fault: brokerio is delayed by compact (real-time)
      wait-per-item 2.13 ms, replayed 2.03 ms
      longest 75.7 ms, replayed 76.0 ms
      p99 59.1 ms, replayed 55.6 ms
      lower-intruder: helps, wait-per-item 5.39 µs
      intruder-to-fair: helps, wait-per-item 5.39 µs
      raise-real-time-victim: helps, wait-per-item 5.39 µs
    rt-behind-section.6.12.fault: control is starved by sweeper, which has a lower priority and was not preempted
      wait-per-item 9.35 ms, replayed 4.01 µs: not near
      longest 53.2 ms, replayed 4.01 µs: not near
      p99 39.8 ms, replayed 4.01 µs: not near
      move-occupant: not predicted: the replay without a change does not give what was recorded: wait for each wakeup or work item 4.01 µs instead of 9.35 ms
      move-victim: not predicted: the replay without a change does not give what was recorded: wait for each wakeup or work item 4.01 µs instead of 9.35 ms
      preempt-full: not predicted: the model has no cmdline.preempt: with any value nothing would differ
    deadline-hog.6.12.fault: apisrv is starved by dlvision (deadline)
      wait-per-item 8.25 ms, replayed 9.82 ms: not near
      longest 28.8 ms, replayed 729 ms: not near
      less-deadline-runtime: not predicted: the runtime of a thread that has no deadline is not played
    ");
}

/// Weights, classes and CPUs ignored, nothing is near: the gate sees it.
#[test]
fn a_program_without_its_settings_is_not_near() {
    let Recorded { report, driven, mut extracted } = recorded("idle-group.6.12.fault");
    let finding = report.findings.first().expect("a finding");
    let release = extracted.program.kernel.clone().expect("a kernel");
    let mut model = Model { release, snapshot: driven.snapshot.as_deref().cloned() };
    let subject = Subject::of(finding, &extracted.program);
    let is_near = |extracted: &unstarve_sim::Extracted, model: &mut Model| {
        let baseline = Baseline::play(model, extracted, &report).expect("it can be played");
        baseline.reproduced(&subject).iter().any(|row| row.near && row.metric == "longest")
    };
    assert!(is_near(&extracted, &mut model));
    for actor in &mut extracted.program.actors {
        actor.placement.class = unstarve_sim::Class::Fair { policy: unstarve_model::SchedPolicy::Other, nice: 0 };
        actor.placement.cgroup = None;
    }
    assert!(!is_near(&extracted, &mut model));
}

/// Steps are counted so that a recording has the same answer on every machine; what is refused without a replay costs none.
#[test]
fn a_limit_decides_how_many_remedies_are_played() {
    let Recorded { report, driven, extracted } = recorded("drain-rt.6.12.fault");
    let predicted = |steps: &[u64]| {
        let mut report = report.clone();
        let mut predictor = RemedyPredictor::new(&extracted, driven.snapshot.as_deref()).expect("a kernel");
        steps.iter().for_each(|steps| predictor.predict(&mut report, Limit { steps: *steps }));
        let remedies = report.findings.iter().flat_map(|finding| &finding.remedies);
        remedies.map(|remedy| remedy.predicted.as_ref().map(|of| of.verdict)).collect::<Vec<_>>()
    };
    let all = predicted(&[u64::MAX]);
    assert!(all.iter().flatten().filter(|verdict| **verdict != Outlook::Refused).count() > 1, "{all:?}");
    let none = predicted(&[0]);
    assert!(none.iter().flatten().all(|verdict| *verdict == Outlook::Refused), "{none:?}");
    // The rest is predicted on request, with the same result.
    assert_eq!(predicted(&[0, 100_000, u64::MAX]), all);
    let some = predicted(&[100_000]);
    assert!(some.iter().flatten().count() < all.iter().flatten().count(), "{some:?}");
    assert!(some.iter().zip(&all).all(|(some, all)| some.is_none() || some == all), "{some:?}");
}
