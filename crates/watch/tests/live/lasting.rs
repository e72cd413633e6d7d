//! How long an episode lasted and what its victim waited, beside what the kernel's own sums say of the victim and of the culprit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unstarve_model::{Nanos, Time};
use unstarve_sched::Rule;
use unstarve_watch::config::Config;
use unstarve_watch::episode::{Begun, Detector, EndReason, Ended};
use unstarve_watch::{Engine, Reading, Role, RoleKind};

use crate::stage::{self, Ended as TrialEnded, Group, Load, Stop};

const STEP: Duration = Duration::from_millis(250);
const HOG: Duration = Duration::from_secs(6);
/// Until the episode counts as over.
const LASTS: Duration = Duration::from_secs(20);
const CLOSE: f64 = 0.05;

/// The kernel's sums of a task at one time: on a CPU, and waiting for one.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    ran: u64,
    waited: u64,
}

fn sample(pid: u32, at: Time) -> Option<Sample> {
    let (ran, waited) = stage::ran_and_waited(pid)?;
    Some(Sample { at, ran, waited })
}

/// What a sum grew by between the readings around two times: an episode counts from one reading to another.
fn grown(samples: &[Sample], (from, to): (Time, Time), sum: impl Fn(&Sample) -> u64) -> u64 {
    let before = samples.iter().rev().find(|sample| sample.at <= from).or(samples.first());
    let after = samples.iter().find(|sample| sample.at >= to).or(samples.last());
    before.zip(after).map_or(0, |(before, after)| sum(after).saturating_sub(sum(before)))
}

/// What was seen of one hog.
struct Seen {
    victim: Vec<Sample>,
    hog: Vec<Sample>,
    begun: Vec<Begun>,
    ended: Vec<Ended>,
    first: Reading,
    last: Reading,
}

fn watch(engine: &mut impl Engine, victim: &Load) -> Result<Seen, Stop> {
    let mut thresholds = Config::default().thresholds;
    // What else starves on this machine is not the victim of this episode.
    for kind in RoleKind::FIXED {
        thresholds.role.entry(kind.word().to_owned()).or_default().ignore = true;
    }
    let mut detector = Detector::new(thresholds);
    let mut last = stage::read(engine)?;
    let mut seen =
        Seen { victim: vec![], hog: vec![], begun: vec![], ended: vec![], first: last.clone(), last: last.clone() };
    let began = Instant::now();
    let mut hog = None;
    while began.elapsed() < LASTS {
        std::thread::sleep(STEP);
        if hog.is_none() && began.elapsed() > Duration::from_secs(2) {
            hog = Some(Load::hog(&["chrt", "-f", "20"], (200, 80), HOG)?);
        }
        last = stage::read(engine)?;
        seen.victim.extend(sample(victim.0.id(), last.at.trace));
        // Once it has ended its sums are gone: they stay as they were.
        if hog.is_none() {
            seen.hog = vec![Sample { at: last.at.trace, ran: 0, waited: 0 }];
        }
        let of_hog = hog.as_ref().and_then(|hog| sample(hog.0.id(), last.at.trace));
        let before = seen.hog.last().map(|before| Sample { at: last.at.trace, ..*before });
        seen.hog.extend(of_hog.filter(|now| before.is_none_or(|before| now.ran >= before.ran)).or(before));
        let step = detector.see(Arc::new(last.clone()));
        seen.begun.extend(step.begun);
        seen.ended.extend(step.ended);
    }
    seen.last = last;
    Ok(seen)
}

pub fn as_long_as_the_kernel_says() -> TrialEnded {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let group = Group::make("victim", 1024)?;
    let mut engine = stage::engine()?;
    let _ = rustix::process::setpriority_process(None, -20);
    let victim = Load::spin(&[], LASTS + Duration::from_secs(5))?;
    group.add(&victim)?;
    std::thread::sleep(Duration::from_millis(700));
    let seen = watch(&mut engine, &victim)?;
    drop(victim);
    judge(&seen, &group)
}

fn judge(seen: &Seen, group: &Group) -> TrialEnded {
    let role = seen.last.find(RoleKind::Group, Some(&group.name));
    let role = role.and_then(|role| seen.last.role(role)).ok_or_else(|| format!("{} is no role", group.name))?;
    let is_its = |begun: &&Begun| same(&begun.victim, role) && begun.rule == Some(Rule::Class);
    let numbers: Vec<u64> = seen.begun.iter().filter(is_its).map(|begun| begun.number).collect();
    let ended: Vec<&Ended> = seen.ended.iter().filter(|ended| numbers.contains(&ended.number)).collect();
    let [ended] = ended[..] else {
        return Err(Stop::Skip(format!("other real-time tasks were there, too: {ended:?} of {:?}", seen.begun)));
    };
    assert_eq!(ended.reason, EndReason::Calm);
    let (from, to) = (Time(ended.at.trace.0 - ended.duration.0), ended.at.trace);
    let waited = grown(&seen.victim, (from, to), |sample| sample.waited);
    let ran = grown(&seen.hog, (from, to), |sample| sample.ran);
    let (ours, by_cause) = (ended.totals.waited.unwrap_or_default(), ended.totals.by_cause.unwrap_or_default());
    println!("lasted {} of {HOG:?}", ended.duration);
    println!("waited {ours}, by the victim's schedstat {}", Nanos(waited));
    println!("for the hog {by_cause}, which ran {}", Nanos(ran));
    let cpu = |reading: &Reading| reading.real_time.get(1).map_or(0, |ns| ns.0);
    let had = cpu(&seen.last) - cpu(&seen.first);
    let own = seen.hog.last().map_or(0, |sample| sample.ran);
    if had > own + own / 25 {
        return Err(Stop::Skip(format!("other real-time tasks had {} of CPU 1", Nanos(had - own))));
    }
    let distance = |ours: u64, theirs: u64| ours.abs_diff(theirs) as f64 / theirs as f64;
    let hog = HOG.as_nanos() as u64;
    assert!(distance(ended.duration.0, hog) < CLOSE, "{} of {HOG:?}", ended.duration);
    assert!(distance(ours.0, waited) < CLOSE, "{ours} and {}", Nanos(waited));
    assert!(distance(by_cause.0, ran) < CLOSE, "{by_cause} and {}", Nanos(ran));
    Ok(())
}

fn same(one: &Role, other: &Role) -> bool {
    (one.kind, &one.cgroup) == (other.kind, &other.cgroup)
}
