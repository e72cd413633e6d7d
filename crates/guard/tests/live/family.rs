//! A process that has children of every kind all the time, and what became of them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use unstarve_executor::{Attributes, sched};
use unstarve_model::Tid;

use crate::child::{Running, role};
use crate::stage::Stop;

/// One that forks.
pub struct Family {
    pub parent: Running,
    mark: String,
}

impl Family {
    /// `pause` is between two births; they go on for so long.
    pub fn start(pause: Duration, lasts: Duration) -> Result<Family, Stop> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // How long a child sleeps is a number that nobody else sleeps for.
        let mark = format!("57.{}{number:03}", std::process::id());
        let mut command = role("family");
        command.args([&mark, &pause.as_millis().to_string(), &lasts.as_millis().to_string()]);
        let parent = Running::start(&mut command)?;
        Ok(Family { parent, mark })
    }

    /// Selects the parent alone.
    pub fn selector(&self) -> String {
        format!("{{ cmdline = \"*live* {} *\" }}", self.mark)
    }

    /// What the kernel says of the parent's threads, its children and orphans.
    pub fn attributes(&self) -> BTreeMap<Tid, Attributes> {
        self.tids().into_iter().filter_map(|tid| Some((tid, sched::read(tid).ok()?))).collect()
    }

    fn tids(&self) -> Vec<Tid> {
        let mut tids = Vec::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let cmdline = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let mut words = cmdline.split(|&byte| byte == 0);
            if !words.any(|word| word == self.mark.as_bytes()) {
                continue;
            }
            let threads = std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
            tids.extend(threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok().map(Tid)));
        }
        tids
    }

    /// Those that are not as the test itself is, which started them.
    pub fn changed(&self) -> BTreeMap<Tid, Attributes> {
        let own = sched::read(Tid(0)).ok();
        let mut all = self.attributes();
        all.retain(|_, attributes| Some(&*attributes) != own.as_ref());
        all
    }

    /// Waits until so many of it are there.
    pub fn wait_for(&self, count: usize) -> Result<(), Stop> {
        match crate::stage::eventually(Duration::from_secs(8), || self.tids().len() >= count) {
            true => Ok(()),
            false => Err(Stop::Fail(format!("only {} births", self.tids().len()))),
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.parent.signal(rustix::process::Signal::KILL);
        for tid in self.tids() {
            if let Some(pid) = rustix::process::Pid::from_raw(tid.0 as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// The parent: children that run another program, threads, and children of children that have ended.
pub fn be(arguments: &[String]) -> Result<(), String> {
    let [mark, pause, lasts] = arguments else { return Err("family: mark, pause, time".to_owned()) };
    let millis = |text: &String| text.parse().map(Duration::from_millis).map_err(|_| text.clone());
    let (pause, lasts) = (millis(pause)?, millis(lasts)?);
    let began = Instant::now();
    let mut round = 0_u32;
    let mut children = Vec::new();
    while began.elapsed() < lasts {
        match round % 3 {
            0 => children.extend(Command::new("sleep").arg(mark).spawn()),
            1 => drop(std::thread::Builder::new().spawn(|| std::thread::sleep(Duration::from_secs(40)))),
            // It is waited for, so that its child is an orphan.
            _ => drop(role("orphan-maker").arg(mark).status()),
        }
        round += 1;
        std::thread::sleep(pause);
    }
    std::thread::sleep(Duration::from_secs(40));
    Ok(())
}

pub fn leave_an_orphan(arguments: &[String]) -> Result<(), String> {
    let spawned = Command::new("sleep").args(arguments).spawn();
    spawned.map(drop).map_err(|error| error.to_string())
}
