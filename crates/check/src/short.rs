//! Short commands for a fix, for people: `unstarve knobs set …` where that does it, else the tool of the field. The
//! full shell commands of a fix check each thread and save what was there before.

use std::collections::BTreeMap;

use unstarve_change::{Change, Target, Value, quoted};
use unstarve_facts::Knob;
use unstarve_model::SchedPolicy;

use crate::hit::Fix;

/// More commands are not short.
const MAX_COMMANDS: usize = 3;

impl Fix {
    /// Short commands that do it; empty if there are none.
    pub fn short_commands(&self) -> Vec<String> {
        // A value that is kept over a reboot is written to a file, not to the kernel.
        if self.changes.iter().any(|change| change.was.is_some() && change.was.as_ref() == change.value()) {
            return Vec::new();
        }
        commands(&self.changes).filter(|all| all.len() <= MAX_COMMANDS).unwrap_or_default()
    }
}

fn commands(changes: &[Change]) -> Option<Vec<String>> {
    // Threads with the same value share a command.
    let mut threads: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut all = Vec::new();
    for change in changes {
        let value = change.value()?;
        match &change.target {
            Target::Thread(thread) => threads.entry(of_thread(value)?).or_default().push(thread.tid.0),
            Target::Feature { name } => {
                let word = value.as_content()?.as_str();
                let state = if word.starts_with("NO_") { "off" } else { "on" };
                all.push(format!("unstarve knobs set {name} {state}"));
            }
            Target::File { path } => all.push(of_file(path, value)?),
            _ => return None,
        }
    }
    all.extend(threads.into_iter().map(|(command, tids)| match tids.as_slice() {
        [tid] => format!("{command} {tid}"),
        many => {
            let list: Vec<String> = many.iter().map(u32::to_string).collect();
            format!("for t in {}; do {command} $t; done", list.join(" "))
        }
    }));
    all.dedup();
    Some(all)
}

fn of_thread(value: &Value) -> Option<String> {
    Some(match value {
        Value::Class { policy: SchedPolicy::Fifo, rt_priority, .. } => format!("chrt --fifo --pid {rt_priority}"),
        Value::Class { policy: SchedPolicy::Rr, rt_priority, .. } => format!("chrt --rr --pid {rt_priority}"),
        Value::Class { policy: SchedPolicy::Other, .. } => "chrt --other --pid 0".to_owned(),
        Value::Affinity(cpus) => format!("taskset --pid --cpu-list {cpus}"),
        Value::Nice(nice) => format!("renice -n {nice} -p"),
        _ => return None,
    })
}

fn of_file(path: &str, value: &Value) -> Option<String> {
    let content = quoted(value.as_content()?.as_str())?;
    if !Knob::has_path(path) {
        return Some(format!("echo {content} > {}", quoted(path)?));
    }
    let knob = Knob::named(path)?;
    // A setting of each CPU is named with its CPU.
    let is_per_cpu = knob.rows().any(|form| form.path().contains("{N}"));
    let name = if is_per_cpu { path.rsplit("/sched/").next()? } else { knob.name() };
    Some(format!("unstarve knobs set {name} {content}"))
}
