//! Joins the facts of several texts of one host. Texts that have a line in common, with its time to the microsecond, are of one boot.

use std::collections::HashMap;

use unstarve_model::Nanos;

use crate::fact::{Facts, Moment, Ran, Stuck, Waiting, longer};
use crate::kernel_log::YEAR;
use crate::settings::keep_file;

/// A boot within a text: the file and the boot's number in it, which no two texts share after joining.
type Boot = (u32, u32);

/// How far two texts of one log may differ about when the machine was started: the kernel's clock and the logger's drift apart.
const SAME_START: u64 = 60_000_000_000;

/// What tells a boot: a message and when it was printed, since the boot.
type Mark = (Nanos, String);

/// When a boot began, by what a log has of it.
#[derive(Clone, Debug)]
struct Start {
    log: String,
    /// Nanoseconds by the logger's clock. A logger that starts late stamps the first messages late: the least is nearest.
    at: i64,
    boot: Boot,
    /// Whether the log has its first message.
    has_begin: bool,
    /// The dates have no year.
    is_yearless: bool,
}

impl Start {
    /// How far apart both are, if they may be one boot's: one has its beginning, and the other goes on with it.
    fn distance(&self, other: &Start) -> Option<u64> {
        let is_possible = self.log == other.log && !(self.has_begin && other.has_begin);
        let apart = self.at.abs_diff(other.at);
        let over_new_year = |days: u64| apart.abs_diff(days * DAY);
        let least = match self.is_yearless && other.is_yearless {
            true => apart.min(over_new_year(365)).min(over_new_year(366)),
            false => apart,
        };
        Some(least).filter(|least| is_possible && *least <= SAME_START)
    }
}

/// Tools' results kept of one text.
const MAX_MEASURED: usize = 16;

const DAY: u64 = 86_400_000_000_000;

/// The facts of several texts.
#[derive(Default, Debug)]
pub struct Joined {
    pub facts: Facts,
    /// The boot in which a message was printed.
    marks: HashMap<Mark, Boot>,
    /// When a boot began by the logger's clock, and in which log: `kern.log` and `kern.log.1` are one.
    starts: Vec<Start>,
    /// Boots so far.
    boots: u32,
}

impl Joined {
    /// Adds the facts of a text.
    pub fn add(&mut self, mut text: Facts) {
        let boots = self.boots_of(&text);
        // Of a boot that goes on in another file the reports are new.
        let copied: Vec<Boot> =
            moments(&text).filter_map(|(at, line)| self.marks.get(&mark(at, line)?).copied()).collect();
        for start in starts(&text) {
            let Some(boot) = boots.get(&start.boot) else { continue };
            match self.starts.iter_mut().find(|known| known.boot == *boot) {
                Some(known) => known.has_begin |= start.has_begin,
                None => self.starts.push(Start { boot: *boot, ..start }),
            }
        }
        let place = |at: &mut Moment| {
            if let Some((file, boot)) = boots.get(&(at.file, at.boot)) {
                (at.file, at.boot) = (*file, *boot);
            }
        };
        for stuck in &mut text.stuck {
            place(&mut stuck.at);
            place(&mut stuck.until);
        }
        for ran in &mut text.ran {
            place(&mut ran.at);
        }
        let marks: Vec<(Mark, Boot)> =
            moments(&text).filter_map(|(at, line)| Some((mark(at, line)?, (at.file, at.boot)))).collect();
        self.take(text, &copied);
        self.marks.extend(marks);
    }

    /// Where each boot of a text belongs: to the boot that has one of its lines, or to one of its own.
    fn boots_of(&mut self, text: &Facts) -> HashMap<Boot, Boot> {
        let mut boots: HashMap<Boot, Boot> = HashMap::new();
        for (at, line) in moments(text) {
            if let Some(known) = mark(at, line).and_then(|mark| self.marks.get(&mark)) {
                boots.entry((at.file, at.boot)).or_insert(*known);
            }
        }
        // The nearest first: a machine that crashes again and again has many starts in a minute, and each goes on in one file at most.
        let new = starts(text);
        let pairs = new.iter().filter(|start| !boots.contains_key(&start.boot));
        let mut pairs: Vec<(u64, Boot, Boot)> = pairs
            .flat_map(|new| self.starts.iter().filter_map(|known| Some((new.distance(known)?, new.boot, known.boot))))
            .collect();
        pairs.sort_unstable();
        let mut taken: Vec<Boot> = Vec::new();
        for (_, mine, known) in pairs {
            if !boots.contains_key(&mine) && !taken.contains(&known) {
                boots.insert(mine, known);
                taken.push(known);
            }
        }
        let begun = text.begun.iter().map(|(at, _)| at);
        for at in moments(text).map(|(at, _)| at).chain(begun) {
            let next = self.boots;
            boots.entry((at.file, at.boot)).or_insert_with(|| {
                self.boots += 1;
                (at.file, next)
            });
        }
        boots
    }

    fn take(&mut self, text: Facts, known: &[Boot]) {
        let Facts {
            stuck,
            ran,
            begun: _,
            measured,
            seen,
            kernel,
            kernel_version,
            command_line,
            host,
            hypervisor,
            wait_sums,
            interrupts,
            settings,
            files,
            hertz,
            max_cpu,
            left_out,
        } = text;
        let facts = &mut self.facts;
        for new in stuck {
            let is_copy = known.contains(&(new.at.file, new.at.boot)) && copied(&mut facts.stuck, &new);
            if !is_copy {
                facts.stuck(new);
            }
        }
        for new in ran {
            let is_same = |known: &&Ran| {
                known.cpu == new.cpu
                    && known.at.boot == new.at.boot
                    && known.at.uptime == new.at.uptime
                    && new.at.uptime.is_some()
            };
            if !facts.ran.iter().any(|known| is_same(&known) && known.thread == new.thread) {
                facts.ran(new);
            }
        }
        seen.into_iter().for_each(|new| facts.seen(new));
        facts.kernel = facts.kernel.take().or(kernel);
        facts.kernel_version = facts.kernel_version.take().or(kernel_version);
        facts.command_line = facts.command_line.take().or(command_line);
        facts.host = facts.host.take().or(host);
        facts.hypervisor = facts.hypervisor.take().or(hypervisor);
        for (key, value) in settings {
            facts.settings.entry(key).or_insert(value);
        }
        // Two looks within one text have said what came in between.
        let mut looks = interrupts.into_iter();
        if let Some(first) = looks.next() {
            facts.looked_at_interrupts(first);
        }
        facts.interrupts.extend(looks);
        for (path, file) in files {
            keep_file(&mut facts.files, path, file);
        }
        for new in wait_sums {
            // Two looks at a thread in two files. Its own file has added the longest wait.
            let known = facts.wait_sums.iter().any(|known| known.thread == new.thread && *known != new);
            let spot = facts.stuck.iter().rev().find(|stuck| stuck.who == Waiting::Thread(new.thread.clone()));
            match spot.filter(|_| known).map(|stuck| (stuck.last.clone(), stuck.at)) {
                Some((spot, at)) => facts.waited(new, spot, at),
                None => facts.wait_sums.push(new),
            }
        }
        facts.measured.extend(measured.into_iter().take(MAX_MEASURED));
        facts.hertz = facts.hertz.or(hertz);
        facts.max_cpu = facts.max_cpu.max(max_cpu);
        facts.left_out += left_out;
    }
}

/// Whether a report of the same boot is known from another text. The longer text of both counts.
fn copied(known: &mut [Stuck], new: &Stuck) -> bool {
    let is_same = |known: &&mut Stuck| {
        known.sign == new.sign && known.who == new.who && known.cpus == new.cpus && known.at.boot == new.at.boot
    };
    let Some(known) = known.iter_mut().find(is_same) else { return false };
    known.count = known.count.max(new.count);
    known.lasted = longer(known.lasted, new.lasted);
    if new.until.uptime > known.until.uptime {
        (known.until, known.last) = (new.until, new.last.clone());
    }
    if known.holder.is_none() {
        known.holder.clone_from(&new.holder);
    }
    if known.runnable.is_none() {
        known.runnable.clone_from(&new.runnable);
    }
    if known.interrupts.is_none() {
        known.interrupts.clone_from(&new.interrupts);
    }
    if known.works.len() < new.works.len() {
        known.works.clone_from(&new.works);
    }
    if known.in_flight.len() < new.in_flight.len() {
        known.in_flight.clone_from(&new.in_flight);
    }
    true
}

/// A kernel that starts says the same at the same time in each boot.
const STARTED: Nanos = Nanos(5_000_000_000);

fn mark(at: &Moment, line: &str) -> Option<Mark> {
    Some((at.uptime.filter(|uptime| *uptime > STARTED)?, line.to_owned()))
}

/// When the machine was started, by the logger's clock, in nanoseconds.
fn start(at: &Moment) -> Option<i64> {
    i64::try_from(at.wall?.0).ok()?.checked_sub_unsigned(at.uptime?.0)
}

/// The start of each boot of a text.
fn starts(text: &Facts) -> Vec<Start> {
    let mut starts: Vec<Start> = Vec::new();
    let begun = text.begun.iter().map(|(at, spot)| (at, &*spot.file, true));
    for (at, file, has_begin) in moments_in_files(text).map(|(at, file)| (at, file, false)).chain(begun) {
        let (Some(log), Some(start)) = (log_of(file), start(at)) else { continue };
        let boot = (at.file, at.boot);
        match starts.iter_mut().find(|known| known.boot == boot) {
            Some(known) => {
                known.at = known.at.min(start);
                known.has_begin |= has_begin;
            }
            None => {
                let is_yearless = at.wall.is_some_and(|wall| wall.0 < 2 * YEAR);
                starts.push(Start { log, at: start, boot, has_begin, is_yearless });
            }
        }
    }
    starts
}

/// The log of which a file is a part, without the number and the compression that logrotate appends.
fn log_of(file: &str) -> Option<String> {
    let bare = ROTATED.replace(file, "");
    (!bare.is_empty()).then(|| bare.into_owned())
}

// `kern.log.1`, `kern.log.2.gz`, `messages-20260917`, `messages-20260917.xz`
pattern!(ROTATED = r"(?:\.\d{1,3}|-\d{8}(?:\d{2})?)?(?:\.(?:gz|xz|bz2|zst))?$");

/// Each moment of a text, with the file of it.
fn moments_in_files(facts: &Facts) -> impl Iterator<Item = (&Moment, &str)> {
    let stuck =
        facts.stuck.iter().flat_map(|stuck| [(&stuck.at, &*stuck.first.file), (&stuck.until, &*stuck.last.file)]);
    stuck.chain(facts.ran.iter().map(|ran| (&ran.at, &*ran.spot.file)))
}

/// Each moment of a text, with the line of it.
fn moments(facts: &Facts) -> impl Iterator<Item = (&Moment, &str)> {
    let stuck = facts
        .stuck
        .iter()
        .flat_map(|stuck| [(&stuck.at, stuck.first.text.as_str()), (&stuck.until, stuck.last.text.as_str())]);
    stuck.chain(facts.ran.iter().map(|ran| (&ran.at, ran.spot.text.as_str())))
}
