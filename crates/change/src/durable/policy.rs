//! The policy form: rules for `unstarve guard`.

use std::fmt::Write;

use super::{Durable, Whose, content_of, no_word};
use crate::Value;
use crate::change::{Change, Selector, Target, Thread};
use unstarve_sched::setting::{self, Content, File};

pub(super) fn file(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut text = beginning(changes)?;
    let mut rules: Vec<(Selected, Vec<String>)> = Vec::new();
    for change in changes {
        match &change.target {
            Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => {
                let set = change.value().and_then(in_rule).ok_or_else(|| no_word(change, "a guard's policy"))?;
                add(&mut rules, selected(thread, &whose(thread))?, set)?;
            }
            Target::Threads(Selector::KernelThreads { prefix }) => {
                let set = change.value().and_then(in_rule).ok_or_else(|| no_word(change, "a guard's policy"))?;
                let selector = format!("kind = \"kthread\", comm = {}", toml_text(&format!("{}*", escaped(prefix))));
                let reach = format!("every kernel thread whose name begins with {}", in_comment(prefix));
                add(&mut rules, Selected { selector, reach }, set)?;
            }
            Target::Feature { name } => {
                let on = content_of(change).is_some_and(|word| word.as_str() == name);
                let _ = write!(text, "\n[[feature]]\nname = {}\non = {on}\n", toml_text(name));
            }
            Target::File { path } if setting::interrupt_of(path).is_some() => {
                let cpus = content_of(change).ok_or_else(|| no_word(change, "a guard's policy"))?;
                text += &interrupt(path, &change.handlers, cpus.as_str())?;
            }
            Target::File { path } => {
                let set = File::at(path).zip(content_of(change)).and_then(|(file, value)| beside(file, value));
                text += &set.ok_or_else(|| no_word(change, "a guard's policy"))?;
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
    // The unit reads one file, which may already contain other rules.
    let activate = format!(
        "unstarve guard plan --policy {file}; unstarve guard run --policy {file} (until Ctrl-C). For each boot: \
         cp -n {file} /etc/unstarve/guard.toml, the file of the unit (if it is there, add these rules to it), and \
         systemctl enable --now unstarve-guard"
    );
    Ok(vec![Durable { file: Some(file), text, activate }])
}

/// Selects the interrupt by its handler, because numbers change between boots.
fn interrupt(path: &str, handlers: &[String], cpus: &str) -> Result<String, String> {
    let Some(handler) = handlers.first() else {
        return Err(format!(
            "{path}: the recording does not name the interrupt's handler, and its number is of this boot alone"
        ));
    };
    Ok(format!(
        "\n# Every interrupt with a handler called {}.\n[[irq]]\naction = {}\naffinity = {}\n",
        in_comment(handler),
        toml_text(&escaped(handler)),
        toml_text(cpus)
    ))
}

/// The header: the version, and a limit if a rule needs a higher one. Above this value the guard requires it.
fn beginning(changes: &[Change]) -> Result<String, String> {
    const WITHOUT_ASKING: u32 = 49;
    const HIGHEST: u32 = 90;
    match changes.iter().filter_map(Change::value).map(Value::rt_priority).max() {
        Some(priority) if priority > HIGHEST => {
            Err(format!("a guard's policy cannot give the real-time priority {priority}; the highest is {HIGHEST}"))
        }
        Some(priority) if priority > WITHOUT_ASKING => {
            Ok(format!("version = 1\n\n[limits]\nrt-priority = {priority}\n"))
        }
        _ => Ok("version = 1\n".to_owned()),
    }
}

/// Adds what a rule sets; each key may occur once.
fn add(rules: &mut Vec<(Selected, Vec<String>)>, whose: Selected, set: Vec<String>) -> Result<(), String> {
    let Some((_, known)) = rules.iter_mut().find(|(other, _)| *other == whose) else {
        rules.push((whose, set));
        return Ok(());
    };
    let key = |line: &str| line.split(" = ").next().map(str::to_owned);
    for line in set {
        match known.iter().find(|other| key(other) == key(&line)) {
            None => known.push(line),
            Some(other) if *other == line => {}
            Some(other) => {
                return Err(format!(
                    "a guard's policy takes threads by name, and {} would get both {other} and {line}",
                    whose.reach
                ));
            }
        }
    }
    Ok(())
}

/// Which tasks a rule selects, by properties other than the id.
#[derive(PartialEq)]
struct Selected {
    selector: String,
    /// How many other tasks that may select, in words.
    reach: String,
}

fn selected(thread: &Thread, whose: &Whose) -> Result<Selected, String> {
    let Some(exact) = thread.exact_name() else {
        return Err(format!(
            "the name of thread {} ({}) is not known as text, so no rule of a guard's policy can mean this name alone",
            thread.tid,
            in_comment(&thread.comm)
        ));
    };
    let (comm, name) = (toml_text(&escaped(exact)), in_comment(exact));
    // A worker's number, and the work that `/proc` appends to its name, soon belong to another worker: only the workqueue
    // identifies it.
    if exact.starts_with("kworker/") && whose.kernel_thread != Some(false) {
        let Some(queue) = &whose.workqueue else {
            return Err(format!(
                "{name} serves one workqueue now and another next, and the recording does not say which was meant: write a rule with \
                 match = {{ kind = \"kworker\", workqueue = … }} (docs/guard.md)"
            ));
        };
        let selector = format!("kind = \"kworker\", workqueue = {}", toml_text(&escaped(queue)));
        return Ok(Selected { selector, reach: format!("every worker of {}, on all CPUs", in_comment(queue)) });
    }
    // A name that every program of a host had before it was started by it.
    if ["init", "systemd"].contains(&exact) && whose.unit.is_none() {
        return Err(format!(
            "thread {} is called {name}, as what starts all programs is: a rule by this name would match far more than was meant",
            thread.tid
        ));
    }
    let anybody =
        || format!("every thread called {name}, of any program and any user: add `unit` or `user` to narrow it");
    let (selector, reach) = match (&whose.unit, whose.kernel_thread) {
        (_, Some(true)) => (format!("kind = \"kthread\", comm = {comm}"), format!("the kernel thread {name}")),
        (Some(unit), _) => (
            format!("kind = \"user\", comm = {comm}, unit = {}", toml_text(&escaped(unit))),
            format!("every thread called {name} of {}", in_comment(unit)),
        ),
        (None, Some(false)) => (format!("kind = \"user\", comm = {comm}"), anybody()),
        // If only the kernel uses a name, the guard applies it to kernel threads only.
        (None, None) => (format!("comm = {comm}"), anybody()),
    };
    Ok(Selected { selector, reach })
}

/// A name in a comment, without characters that could end the line.
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
    (value.of_task()?.in_rule)(value)
}

/// The rule for a setting that is not a task's.
fn beside(file: File<'_>, value: &Content) -> Option<String> {
    if let Some(name) = file.tunable() {
        return Some(format!("\n[[tunable]]\nname = {}\nvalue = {}\n", toml_text(&name), toml_text(value.as_str())));
    }
    let (group, key, value) = file.in_policy(value)?;
    Some(format!("\n[[cgroup]]\npath = {}\n{key} = {value}\n", toml_text(&escaped(group))))
}
