//! Tables and dumps in a text: lists of threads, dumps of the scheduler, output of tools. Each begins with a line of its own and
//! takes the lines after it while they fit.

mod interrupts;
mod latency_tools;
mod proc_files;
mod run_queue;
mod sched_debug;
mod threads;
mod worst;

use crate::fact::{Facts, Spot};

/// What became of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It belongs to the section.
    Line,
    /// It does not, but the section may go on: a blank line, a message of the kernel in between.
    Nothing,
    /// The section is over, and the line is not part of it.
    End,
}

/// A section that is being read.
pub trait Section {
    /// What it is, for people: `list of threads (ps)`.
    fn name(&self) -> &'static str;
    /// Takes its first line, by which it was recognised.
    fn first(&mut self, _text: &str, _spot: &Spot, _facts: &mut Facts) {}
    /// Takes a line.
    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took;
    /// Adds what is only known at the end.
    fn finish(&mut self, _facts: &mut Facts) {}
}

/// A kind of section.
struct Kind {
    /// Parts of its first line.
    triggers: &'static [&'static str],
    /// Begins one, if this is its first line. The number is the file's place among all.
    open: fn(&str, u32) -> Option<Box<dyn Section>>,
}

const KINDS: &[Kind] = &[
    threads::KIND,
    threads::TOP_OF_THREADS,
    sched_debug::KIND,
    run_queue::SLOWER,
    run_queue::HISTOGRAM,
    run_queue::LATENCY,
    run_queue::TIMEHIST,
    latency_tools::CYCLICTEST,
    latency_tools::ANALYSIS,
    latency_tools::TIMERLAT,
    latency_tools::OSNOISE,
    proc_files::TASK,
    proc_files::STAT,
    proc_files::COMMAND_LINE,
    proc_files::GROUP,
    proc_files::CHRT,
    proc_files::SYSCTL,
    proc_files::UNAME,
    interrupts::KIND,
    proc_files::FEATURES,
    proc_files::LSCPU,
    proc_files::CONFIG,
];

/// Words by which first lines are found.
pub fn triggers() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|kind| kind.triggers).copied()
}

/// The section that begins with this line.
pub fn opened(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let has_trigger = |kind: &&Kind| kind.triggers.iter().any(|word| text.contains(word));
    KINDS.iter().filter(has_trigger).find_map(|kind| (kind.open)(text, file))
}

#[cfg(test)]
mod tests {
    use unstarve_model::SchedPolicy;

    use crate::fact::{Facts, Seen, Stuck, Waiting};
    use crate::scan::scan;
    use crate::words;

    /// The facts of a text, a line each.
    pub fn facts_of(text: &str) -> String {
        let mut facts = Facts::default();
        scan(text.as_bytes(), "x", 0, &mut facts).expect("a text");
        let stuck = |stuck: &Stuck| {
            let who = match &stuck.who {
                Waiting::Thread(thread) => words::thread(thread),
                Waiting::Nobody => "nobody".to_owned(),
                other => format!("{other:?}"),
            };
            let held = stuck.holder.as_ref().map(|holder| format!(" held by {}", words::thread(&holder.thread)));
            let detail = stuck.detail.as_ref().map(|detail| format!(" {detail}"));
            let count = (stuck.count > 1).then(|| format!(" ×{}", stuck.count));
            let extra = [detail, held, count].into_iter().flatten().collect::<String>();
            format!("{:?} {who} cpus {:?} {:?}{extra} line {}", stuck.sign, stuck.cpus, stuck.lasted, stuck.first.line)
        };
        let listed = |seen: &Seen| {
            let policy = seen.policy.map_or("?", SchedPolicy::word);
            format!("listed {}[{}] {policy} {:?}", seen.comm, seen.pid, seen.rt_priority)
        };
        let setting = |(key, value): (&String, &String)| format!("setting {key} = {value}");
        let lines: Vec<String> = facts
            .stuck
            .iter()
            .map(stuck)
            .chain(facts.seen.iter().map(listed))
            .chain(facts.settings.iter().map(setting))
            .chain(facts.command_line.iter().map(|line| format!("boot {line}")))
            .collect();
        lines.join("\n")
    }
}
