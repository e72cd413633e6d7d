//! Loads to record. Each ends by itself.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_setaffinity};

const LOADS: [&str; 6] = ["ping-pong", "long-ping-pong", "short", "stubborn", "write", "hog"];

/// How long `ping-pong` runs.
const PING_PONG: Duration = Duration::from_millis(1500);

pub fn is_load(name: &str) -> bool {
    LOADS.contains(&name)
}

pub fn run(load: &str) -> ExitCode {
    match load {
        // Two threads on every CPU that wake each other: each half of a round trip is a switch.
        "ping-pong" => {
            let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
            let pairs: Vec<_> = (0..cpus).map(|cpu| std::thread::spawn(move || ping_pong_on(cpu, PING_PONG))).collect();
            pairs.into_iter().for_each(|pair| pair.join().expect("a pair"));
        }
        "long-ping-pong" => ping_pong_on(0, Duration::from_secs(12)),
        "hog" => hog(),
        "short" => ping_pong_on(0, Duration::from_millis(30)),
        "stubborn" => std::thread::sleep(Duration::from_secs(15)),
        "write" => write_through(),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::from(7)
}

fn ping_pong_on(cpu: usize, time: Duration) {
    let (ping_end, ping) = pipe().expect("a pipe");
    let (pong_end, pong) = pipe().expect("a pipe");
    let partner = std::thread::spawn(move || {
        stay_on(cpu);
        while turn(&ping_end, &pong) {}
    });
    stay_on(cpu);
    let end = Instant::now() + time;
    rustix::io::write(&ping, &[0]).expect("room in the pipe");
    while Instant::now() < end && turn(&pong_end, &ping) {}
    drop(ping);
    partner.join().expect("the partner");
}

/// Waits for the other thread and wakes it; `false` if it has ended.
fn turn(from: &OwnedFd, to: &OwnedFd) -> bool {
    rustix::io::read(from, &mut [0_u8; 1]).is_ok_and(|count| count == 1) && rustix::io::write(to, &[0]).is_ok()
}

/// How long the hog monopolises its CPU, unless it is killed before: far longer than a recording takes on a busy
/// machine, and too short for kernel warnings.
pub const HOG: Duration = Duration::from_secs(15);

/// The CPU that it monopolises.
pub const HOGGED: usize = 1;

/// Monopolises a CPU as a real-time task for a limited time.
fn hog() {
    stay_on(HOGGED);
    let status = std::process::Command::new("chrt").args(["-f", "-p", "98", &std::process::id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "chrt");
    let end = Instant::now() + HOG;
    while Instant::now() < end {}
}

fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // If that is not allowed, the pair runs on any CPU.
    let _ = sched_setaffinity(None, &set);
}

/// Writes to a file and syncs it.
fn write_through() {
    let mut file: File = tempfile::tempfile_in("/var/tmp").expect("a file");
    for _ in 0..8 {
        file.write_all(&[1; 64 << 10]).expect("a write");
        file.sync_all().expect("a sync");
    }
    let _ = file.read(&mut [0]);
}
