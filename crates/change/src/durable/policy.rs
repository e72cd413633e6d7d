//! A policy of `unstarve guard`.

use std::fmt::Write;

use unstarve_model::SchedPolicy;

use super::{Durable, Whose, no_word, text_of};
use crate::Value;
use crate::change::{Change, Selector, Target, Thread};

pub(super) fn file(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut text = "version = 1\n".to_owned();
    let mut rules: Vec<(Selected, Vec<String>)> = Vec::new();
    for change in changes {
        match &change.target {
            Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => {
                let set = change.value().and_then(in_rule).ok_or_else(|| no_word(change, "a guard's policy"))?;
                let selector = selected(thread, &whose(thread));
                match rules.iter_mut().find(|(other, _)| *other == selector) {
                    Some((_, sets)) => set.into_iter().for_each(|line| {
                        if !sets.contains(&line) {
                            sets.push(line);
                        }
                    }),
                    None => rules.push((selector, set)),
                }
            }
            Target::Threads(Selector::KernelThreads { prefix }) => {
                let set = change.value().and_then(in_rule).ok_or_else(|| no_word(change, "a guard's policy"))?;
                let selector = format!("kind = \"kthread\", comm = {}", toml_text(&format!("{}*", escaped(prefix))));
                let reach = format!("every kernel thread whose name begins with {}", in_comment(prefix));
                rules.push((Selected { selector, reach }, set));
            }
            Target::Feature { name } => {
                let on = text_of(change).is_some_and(|word| word == name);
                let _ = write!(text, "\n[[feature]]\nname = {}\non = {on}\n", toml_text(name));
            }
            Target::File { path } => {
                let value = text_of(change).ok_or_else(|| no_word(change, "a guard's policy"))?;
                text += &beside(path, value).ok_or_else(|| no_word(change, "a guard's policy"))?;
            }
            _ => return Err(no_word(change, "a guard's policy")),
        }
    }
    for (index, (Selected { selector, reach }, set)) in rules.iter().enumerate() {
        let _ = write!(
            text,
            "\n# Matches {reach}.\n[[rule]]\nname = \"fix {}\"\nmatch = {{ {selector} }}\nset = {{ {} }}\n",
            index + 1,
            set.join(", ")
        );
    }
    let file = "/etc/unstarve/policies/60-fix.toml".to_owned();
    let activate = format!("unstarve guard plan --policy {file}; unstarve guard run --policy {file}");
    Ok(vec![Durable { file: Some(file), text, activate }])
}

/// Who is meant, in a policy: by what it is rather than by number.
#[derive(PartialEq)]
struct Selected {
    selector: String,
    /// How many others that may be, in words.
    reach: String,
}

fn selected(thread: &Thread, whose: &Whose) -> Selected {
    let (comm, name) = (toml_text(&escaped(&thread.comm)), in_comment(&thread.comm));
    if let Some((_, work)) = thread.comm.split_once('-').filter(|_| thread.comm.starts_with("kworker/")) {
        let selector = format!("kind = \"kworker\", workqueue = {}", toml_text(&format!("{}*", escaped(work))));
        return Selected { selector, reach: format!("every worker of {}*, on all CPUs", in_comment(work)) };
    }
    let (selector, reach) = match (&whose.unit, whose.kernel_thread) {
        (_, true) => (format!("kind = \"kthread\", comm = {comm}"), format!("the kernel thread {name}")),
        (Some(unit), false) => (
            format!("kind = \"user\", comm = {comm}, unit = {}", toml_text(&escaped(unit))),
            format!("every thread called {name} of {}", in_comment(unit)),
        ),
        (None, false) => (
            format!("kind = \"user\", comm = {comm}"),
            format!("every thread called {name}, of any program and any user: add `unit` or `user` to narrow it"),
        ),
    };
    Selected { selector, reach }
}

/// A name within a comment: on its line, whatever is in it.
fn in_comment(name: &str) -> String {
    unstarve_model::clean(name).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn escaped(name: &str) -> String {
    name.chars().flat_map(|c| ['*', '?', '\\'].contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || unstarve_model::is_harmful(c) => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn in_rule(value: &Value) -> Option<Vec<String>> {
    Some(match value {
        Value::Class { policy, rt_priority, .. } => {
            if matches!(policy, SchedPolicy::Deadline | SchedPolicy::Ext | SchedPolicy::Unknown) {
                return None;
            }
            let mut set = vec![format!("policy = \"{}\"", policy.name())];
            if *rt_priority > 0 {
                set.push(format!("rt-priority = {rt_priority}"));
            }
            set
        }
        Value::Nice(nice) => vec![format!("nice = {nice}")],
        Value::Slice(ns) => vec![format!("slice = \"{ns}ns\"")],
        Value::Affinity(cpus) => vec![format!("affinity = \"{cpus}\"")],
        Value::Uclamp { min, max } => vec![format!("uclamp-min = {min}"), format!("uclamp-max = {max}")],
        Value::ResetOnFork(on) => vec![format!("reset-on-fork = {on}")],
        Value::Deadline { .. } | Value::Text(_) => return None,
    })
}

/// What a policy sets beside tasks.
fn beside(path: &str, value: &str) -> Option<String> {
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return Some(format!(
            "\n[[tunable]]\nname = {}\nvalue = {}\n",
            toml_text(&name.replace('/', ".")),
            toml_text(value)
        ));
    }
    if let Some(name) = path.strip_prefix("/sys/kernel/debug/sched/") {
        return Some(format!("\n[[tunable]]\nname = {}\nvalue = {}\n", toml_text(name), toml_text(value)));
    }
    let (group, file) = path.rsplit_once('/')?;
    let group = group.strip_prefix("/sys/fs/cgroup")?;
    let (group, weight) = match file {
        "cpu.weight" => (group, value.parse::<u32>().ok()?),
        "cpu.shares" => {
            let below = group.trim_start_matches('/').split_once('/')?.1;
            (&group[group.len() - below.len() - 1..], (value.parse::<u32>().ok()? * 100 + 512) / 1024)
        }
        _ => return None,
    };
    Some(format!("\n[[cgroup]]\npath = {}\nweight = {weight}\n", toml_text(&escaped(group))))
}
