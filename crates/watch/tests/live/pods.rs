//! Pods by name: one with a heavy weight beside one with a light one, and one that its limit stops.

use std::time::{Duration, Instant};

use unstarve_model::Nanos;
use unstarve_watch::{Engine, Reading, WorkloadSums};

use crate::stage::{self, Ended, Group, Load, Stop};

const LASTS: Duration = Duration::from_secs(3);
const NOISY: &str = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
const QUIET: &str = "1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
const LIMITED: &str = "2a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";

/// The groups of a pod with one container, as the kubelet's cgroupfs driver names them.
struct Pod(Vec<Group>);

impl Pod {
    fn make(uid: &str, weight: u32) -> Result<Pod, Stop> {
        let pod = format!("kubepods/burstable/pod{uid}");
        let whole = Group::below(&pod, weight)?;
        let container = Group::below(&format!("{pod}/{}", "4f".repeat(32)), 1024)?;
        // From the innermost to the outermost: they are removed in this order.
        Ok(Pod(vec![container, whole]))
    }
}

pub fn that_starve_and_are_stopped_have_names() -> Ended {
    let mut engine = stage::engine()?;
    stage::read(&mut engine)?;
    let above = Group::above(&["kubepods", "kubepods/burstable"])?;
    let (noisy, quiet, limited) = (Pod::make(NOISY, 25_600)?, Pod::make(QUIET, 1024)?, Pod::make(LIMITED, 25_600)?);
    limited.0[0].limit(10_000, 100_000)?;
    let lasts = LASTS + Duration::from_secs(12);
    let loads = [Load::spin(&[], lasts)?, Load::spin(&[], lasts)?, Load::spin(&[], lasts)?];
    for (pod, load) in [&noisy, &quiet, &limited].into_iter().zip(&loads) {
        pod.0[0].add(load)?;
    }
    // New pods are looked for each second.
    let first = await_pods(&mut engine)?;
    let begun = Instant::now();
    let mut last = first.clone();
    while begun.elapsed() < LASTS {
        std::thread::sleep(Duration::from_millis(250));
        last = stage::read(&mut engine)?;
    }
    let grown = |uid: &str| -> WorkloadSums {
        let (after, before) = (sums(&last, uid).unwrap_or_default(), sums(&first, uid).unwrap_or_default());
        WorkloadSums {
            waited: after.waited.saturating_sub(before.waited),
            behind: after.behind.saturating_sub(before.behind),
            idle: after.idle.saturating_sub(before.idle),
            kept: after.kept.saturating_sub(before.kept),
        }
    };
    let (noisy_sums, quiet_sums, limited_sums) = (grown(NOISY), grown(QUIET), grown(LIMITED));
    let text = format!("noisy {noisy_sums:?}, quiet {quiet_sums:?}, limited {limited_sums:?}");
    if noisy_sums.kept < Nanos::from_millis(1_000) {
        return Err(Stop::Skip(format!("CPU 1 had little time for the pods: {text}")));
    }
    assert!(noisy_sums.kept.0 > 4 * quiet_sums.kept.0, "25 to 1: {text}");
    assert!(quiet_sums.behind.0 * 10 > quiet_sums.waited.0 * 9, "{text}");
    assert!(limited_sums.waited > Nanos::from_millis(1_000), "{text}");
    // The same waits by who waited and by who had the CPU.
    let total = last.workloads.total;
    assert_eq!(total.behind, total.kept);
    let throttled = last.limits.iter().find(|group| group.path.contains(LIMITED));
    assert!(throttled.is_some_and(|group| group.counted.ns > Nanos::from_millis(500)), "{:?}", last.limits);
    drop((loads, noisy, quiet, limited, above));
    Ok(())
}

/// A task moves to another pod before its path is read, as a container runtime's child does: the first pod's number is not the second one's.
pub fn that_a_task_left_have_their_own_names() -> Ended {
    let mut engine = stage::engine()?;
    let above = Group::above(&["kubepods", "kubepods/burstable"])?;
    let (left, joined) = (Pod::make(NOISY, 1024)?, Pod::make(QUIET, 1024)?);
    // Numbers are given at a reading, once a second at most.
    std::thread::sleep(Duration::from_secs(1));
    stage::read(&mut engine)?;
    let lasts = Duration::from_secs(12);
    let movers = [Load::wake(&[], lasts)?, Load::wake(&[], lasts)?];
    for mover in &movers {
        left.0[0].add(mover)?;
    }
    std::thread::sleep(Duration::from_millis(100));
    for mover in &movers {
        joined.0[0].add(mover)?;
    }
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(250));
        stage::read(&mut engine)?;
    }
    let stays = [Load::spin(&[], lasts)?, Load::spin(&[], lasts)?];
    for load in &stays {
        left.0[0].add(load)?;
    }
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let reading = stage::read(&mut engine)?;
        if [NOISY, QUIET].into_iter().all(|uid| sums(&reading, uid).is_some()) {
            break;
        }
        if begun.elapsed() > Duration::from_secs(6) {
            return Err(Stop::Fail(format!("both have waited: {:?}", reading.workloads)));
        }
    }
    drop((movers, stays, left, joined, above));
    Ok(())
}

fn await_pods(engine: &mut impl Engine) -> Result<Reading, Stop> {
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let reading = stage::read(engine)?;
        let is_limited = reading.limits.iter().any(|group| group.path.contains(LIMITED));
        if is_limited && [NOISY, QUIET, LIMITED].into_iter().all(|uid| sums(&reading, uid).is_some()) {
            return Ok(reading);
        }
        if begun.elapsed() > Duration::from_secs(8) {
            return Err(Stop::Fail(format!("not all pods are seen: {:?} {:?}", reading.workloads, reading.limits)));
        }
    }
}

fn sums(reading: &Reading, uid: &str) -> Option<WorkloadSums> {
    let is_it = |place: &unstarve_watch::episode::Place| place.pod.as_deref() == Some(uid);
    reading.workloads.each.iter().find(|workload| is_it(&workload.place)).map(|workload| workload.sums)
}

/// More pods than can be told apart at a time.
pub fn that_come_and_go_grow_nothing() -> Ended {
    let mut engine = stage::engine()?;
    stage::read(&mut engine)?;
    let above = Group::above(&["kubepods", "kubepods/besteffort"])?;
    let begun = Instant::now();
    let mut made = 0;
    while made < 1000 && begun.elapsed() < Duration::from_secs(40) {
        let pods: Vec<Group> = (0..50)
            .map(|number| {
                Group::below(&format!("kubepods/besteffort/pod{:08x}-0a1b-0a1b-0a1b-0a1b2c3d4e5f", made + number), 1024)
            })
            .collect::<Result<_, _>>()?;
        let loads: Vec<Load> =
            pods.iter().map(|_| Load::spin(&[], Duration::from_millis(300))).collect::<Result<_, _>>()?;
        for (pod, load) in pods.iter().zip(&loads) {
            pod.add(load)?;
        }
        std::thread::sleep(Duration::from_millis(400));
        let reading = stage::read(&mut engine)?;
        assert!(reading.workloads.each.len() <= unstarve_watch::Workloads::LIMIT);
        assert_eq!(reading.workloads.total.behind, reading.workloads.total.kept);
        drop((loads, pods));
        made += 50;
    }
    let last = stage::read(&mut engine)?;
    assert_eq!(last.lost.untracked_tasks, 0);
    drop(above);
    Ok(())
}
