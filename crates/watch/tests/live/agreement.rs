//! The same seconds by the engine and by `explain`'s timeline.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use unstarve_model::{Batch, Nanos, Tid, Time};
use unstarve_record::{BufferSize, Live};
use unstarve_sched::Rule;
use unstarve_timeline::{Sink, Timeline, Wait, World};
use unstarve_watch::{Engine, Reading, RoleId, RoleKind};

use crate::stage::{self, Ended, Group, Load, Stop};

const LASTS: Duration = Duration::from_secs(4);
const HOG: Duration = Duration::from_millis(400);
/// Both count to the nanosecond, but not the same moments: a wait begins with `sched_waking` there and with `sched_wakeup` here.
const CLOSE: f64 = 0.01;
/// Less than this says nothing within 1 %.
const ENOUGH: Nanos = Nanos::from_millis(200);

/// Waits of the loads, as the timeline has them.
#[derive(Default)]
struct Waits {
    groups: FxHashMap<Tid, usize>,
    /// From, to, whose.
    seen: Vec<(Time, Time, usize)>,
}

impl Sink for Waits {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let Some(&group) = self.groups.get(&world.tasks.get(wait.task).tid) else { return };
        self.seen.push((wait.queued.unwrap_or(wait.start), wait.end, group));
    }
}

impl Waits {
    /// How long a group waited between two moments.
    fn between(&self, group: usize, from: Time, to: Time) -> Nanos {
        let of_group = self.seen.iter().filter(|seen| seen.2 == group);
        of_group.map(|(start, end, _)| (*end).min(to).since((*start).max(from))).sum()
    }
}

pub fn with_explain() -> Ended {
    agrees(stage::engine)
}

/// As on kernels that have no task storage.
#[cfg(feature = "bpf")]
pub fn with_explain_by_a_table() -> Ended {
    let tasks = unstarve_watch::TaskMemory::Table { entries: 1 << 16 };
    agrees(|| Ok(unstarve_watch::Ebpf::open(unstarve_watch::Options { tasks, ..Default::default() })?))
}

/// As for tasks that have no place in the array.
#[cfg(feature = "bpf")]
pub fn with_explain_by_storage_alone() -> Ended {
    let tasks = unstarve_watch::TaskMemory::Storage;
    agrees(|| Ok(unstarve_watch::Ebpf::open(unstarve_watch::Options { tasks, ..Default::default() })?))
}

fn agrees<E: Engine>(engine: impl FnOnce() -> Result<E, Stop>) -> Ended {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let (heavy, light) = (Group::make("heavy", 8192)?, Group::make("light", 1024)?);
    let mut engine = engine()?;
    let mut live = Live::start(BufferSize::KiB(16 << 10), &mut |_| {})
        .map_err(|error| Stop::Skip(format!("no recording: {error}")))?;
    if live.info().clock.as_deref() != Some("mono") {
        return Err(Stop::Skip("no clock for both".to_owned()));
    }
    let mut timeline = unstarve_diagnose::timeline(live.info());
    let mut waits = Waits::default();
    let mut loads = Vec::new();
    for (index, group) in [&heavy, &heavy, &light, &light].into_iter().enumerate() {
        let load = Load::spin(&[], LASTS + Duration::from_secs(3))?;
        group.add(&load)?;
        waits.groups.insert(Tid(load.0.id()), index / 2);
        loads.push(load);
    }
    let mut batch = Batch::default();
    let mut listen = |timeline: &mut Timeline, waits: &mut Waits| {
        live.poll(&mut batch).map_err(|error| error.to_string())?;
        timeline.names(batch.names.drain(..));
        batch.events.iter().for_each(|event| timeline.push(event, waits));
        Ok::<u64, Stop>(live.lost())
    };
    // They have to arrive on the CPU and in their groups first.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(700) {
        std::thread::sleep(Duration::from_millis(20));
        listen(&mut timeline, &mut waits)?;
    }
    let first = stage::read(&mut engine)?;
    let mut starved = false;
    let mut hog = None;
    while began.elapsed() < LASTS {
        if hog.is_none() && began.elapsed() > LASTS / 2 {
            hog = Some(Load::spin(&["chrt", "-f", "10"], HOG)?);
        }
        std::thread::sleep(Duration::from_millis(50));
        listen(&mut timeline, &mut waits)?;
        starved |= names_the_hog(&stage::read(&mut engine)?);
    }
    let last = stage::read(&mut engine)?;
    std::thread::sleep(Duration::from_millis(50));
    let lost = listen(&mut timeline, &mut waits)?;
    timeline.finish(&mut waits);
    if lost > 0 {
        return Err(Stop::Skip(format!("{lost} events of the recording were lost")));
    }
    if first.lost.untracked_tasks + last.lost.untracked_tasks > 0 {
        return Err(Stop::Fail(format!("{:?}", last.lost)));
    }
    // This kernel may leave switches out, and the timeline leaves out the waits that they touch.
    let is_whole = timeline.losses().is_empty();
    for (index, group) in [&heavy, &light].into_iter().enumerate() {
        compare(&waits, index, group, (&first, &last), is_whole)?;
    }
    let (heavy, light) = (role(&last, &heavy)?, role(&last, &light)?);
    let by = |occupant, rule| by(&first, &last, light, occupant, rule);
    let whole = by(None, None);
    // As many others may be on the CPU as the machine is busy.
    assert!(by(Some(heavy), Some(Rule::Weight)) > Nanos(whole.0 / 8), "{:?}", last.blame);
    if !starved {
        return Err(Stop::Skip("the hog had no turn beside other real-time tasks".to_owned()));
    }
    assert!(by(last.find(RoleKind::RealTime, None), Some(Rule::Class)) > Nanos(whole.0 / 50), "{:?}", last.blame);
    Ok(())
}

/// Whether somebody is seen to wait for the hog at this moment.
fn names_the_hog(reading: &Reading) -> bool {
    let real_time = RoleKind::RealTime.fixed_id();
    reading.oldest.iter().any(|wait| Some(wait.occupant_role) == real_time && wait.cpu.0 == 1)
}

fn role(reading: &Reading, group: &Group) -> Result<RoleId, Stop> {
    let found = reading.find(RoleKind::Group, Some(&group.name));
    found.ok_or_else(|| Stop::Fail(format!("{} is no role: {:?}", group.name, reading.roles)))
}

fn by(first: &Reading, last: &Reading, victim: RoleId, occupant: Option<RoleId>, rule: Option<Rule>) -> Nanos {
    let sum = |reading: &Reading| -> Nanos {
        let blame = reading.blame.iter().filter(|blame| blame.victim == victim);
        let meant = blame.filter(|blame| {
            occupant.is_none_or(|occupant| blame.occupant == occupant) && rule.is_none_or(|rule| blame.rule == rule)
        });
        meant.map(|blame| blame.ns).sum()
    };
    sum(last).saturating_sub(sum(first))
}

fn compare(waits: &Waits, index: usize, group: &Group, (first, last): (&Reading, &Reading), is_whole: bool) -> Ended {
    let role = role(last, group)?;
    let ours = by(first, last, role, None, None);
    let theirs = waits.between(index, first.at.trace, last.at.trace);
    println!("{}: {ours} counted, {theirs} by the timeline", group.name);
    if theirs < ENOUGH {
        return Err(Stop::Skip(format!("{} waited for {theirs} only", group.name)));
    }
    let distance = ours.0.abs_diff(theirs.0) as f64 / theirs.0 as f64;
    if distance >= CLOSE && ours > theirs && !is_whole {
        return Err(Stop::Skip(format!("the kernel left out switches: {ours} counted, {theirs} by the timeline")));
    }
    assert!(distance < CLOSE, "{}: {ours} counted, {theirs} by the timeline", group.name);
    Ok(())
}
