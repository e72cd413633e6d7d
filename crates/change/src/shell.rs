//! A change as commands for `sh`: what makes it, and what takes it back.
//!
//! Where the old value was recorded, both are plain commands. Where it was not, the first line writes what it finds into a
//! file of commands before each change, and the second runs that file. Nothing is guessed, and nothing that a task or a
//! container can choose (a name, a path with odd characters) becomes part of a command unquoted.

use unstarve_model::{SchedPolicy, Tid};

use crate::Value;
use crate::change::{Change, Relative, Selector, Target, Thread, To};

/// Commands that run as printed under `sh -eu`, the second also in another shell than the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// Makes the change.
    pub apply: String,
    /// Takes it back.
    pub undo: String,
}

/// The commands of these changes, in their order; `None` if there are none to give.
pub fn commands(changes: &[Change]) -> Option<Commands> {
    let changes: Vec<&Change> = changes.iter().filter(|change| change.is_for_a_program()).collect();
    if changes.is_empty() {
        return None;
    }
    let plain: Option<Vec<(Line, Line)>> = changes.iter().map(|change| plain(change)).collect();
    match plain {
        Some(lines) => {
            let (apply, undo): (Vec<Line>, Vec<Line>) = lines.into_iter().unzip();
            let (apply, mut undo) = (joined(&apply), joined(&undo));
            undo.reverse();
            Some(Commands { apply: apply.join("; "), undo: undo.join("; ") })
        }
        None => recorded(&changes),
    }
}

/// A command for one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    command: String,
    whose: Whose,
}

/// What stands for it in the command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Whose {
    /// `$t`.
    Thread(Tid),
    /// Its path, quoted; the command writes to what follows it.
    File(String),
    /// Nothing: it is the kernel's as a whole.
    Kernel,
}

/// Neighbours that do the same become one loop.
fn joined(lines: &[Line]) -> Vec<String> {
    let alike = |a: &Line, b: &Line| {
        let kind = |line: &Line| std::mem::discriminant(&line.whose);
        a.command == b.command && kind(a) == kind(b) && a.whose != Whose::Kernel
    };
    let names = |group: &[Line]| {
        let name = |line: &Line| match &line.whose {
            Whose::Thread(tid) => tid.to_string(),
            Whose::File(path) => path.clone(),
            Whose::Kernel => String::new(),
        };
        group.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    let each = lines.chunk_by(alike).map(|group| match group {
        [Line { command, whose: Whose::Thread(tid) }] => command.replace("$t", &tid.to_string()),
        [Line { command, whose: Whose::File(path) }] => format!("{command} {path}"),
        [Line { command, whose: Whose::Kernel }] => command.clone(),
        many => {
            let (name, command) = match &many[0].whose {
                Whose::Thread(_) | Whose::Kernel => ("t", many[0].command.clone()),
                Whose::File(_) => ("f", format!("{} \"$f\"", many[0].command)),
            };
            format!("for {name} in {}; do {command}; done", names(many))
        }
    });
    each.collect()
}

/// Both commands of a change whose old value was recorded.
fn plain(change: &Change) -> Option<(Line, Line)> {
    let (to, was) = (change.value()?, change.was.as_ref()?);
    let (whose, to, was) = match &change.target {
        Target::Thread(thread) => (Whose::Thread(thread.tid), for_thread(to, thread)?, for_thread(was, thread)?),
        Target::File { path } => (Whose::File(quoted(path)?), write(text(to)?)?, write(text(was)?)?),
        Target::Feature { .. } => (Whose::Kernel, set_feature(text(to)?)?, set_feature(text(was)?)?),
        _ => return None,
    };
    Some((Line { command: to, whose: whose.clone() }, Line { command: was, whose }))
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// A command that gives `$t` a value. chrt(1) sets the flag of [`Thread::reset_on_fork`] or clears it, so it has to be known.
fn for_thread(value: &Value, thread: &Thread) -> Option<String> {
    Some(match value {
        Value::Class { policy, rt_priority, .. } => {
            let flag = if thread.reset_on_fork? { "--reset-on-fork " } else { "" };
            format!("chrt {flag}{} --pid {rt_priority} $t", chrt_word(*policy)?)
        }
        Value::Nice(nice) => format!("renice -n {nice} -p $t > /dev/null"),
        Value::Affinity(cpus) => format!("taskset -pc {cpus} $t > /dev/null"),
        Value::Deadline { runtime, deadline, period } => {
            format!(
                "chrt --deadline --sched-runtime {runtime} --sched-deadline {deadline} --sched-period {period} --pid 0 $t"
            )
        }
        // The flag comes with a policy, which is not in this value.
        Value::ResetOnFork(_) | Value::Slice(_) | Value::Uclamp { .. } | Value::Text(_) => return None,
    })
}

fn chrt_word(policy: SchedPolicy) -> Option<String> {
    (policy != SchedPolicy::Unknown).then(|| format!("--{}", policy.name()))
}

fn write(text: &str) -> Option<String> {
    Some(format!("echo {} >", quoted(text)?))
}

/// Where the features are: in a directory of their own from 5.13 on.
const FEATURES: &str = "f=/sys/kernel/debug/sched/features; [ -e $f ] || f=/sys/kernel/debug/sched_features";

fn set_feature(word: &str) -> Option<String> {
    Some(format!("{FEATURES}; echo {} > $f", quoted(word)?))
}

/// A word for a command line, quoted if it has to be; `None` if a shell or a terminal could take it otherwise.
pub fn quoted(word: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Some(word.to_owned());
    }
    let quotable = word.chars().all(|c| !unstarve_model::is_harmful(c) && c != '\'');
    quotable.then(|| format!("'{word}'"))
}

// ---------------------------------------------------------------------------------------------- writing the old value down

/// Prints what chrt(1) has to be given so that `$t` has its policy, priority and flag again.
const CHRT_BEFORE: &str = r#"LC_ALL=C chrt -p $t | awk -F': ' '/policy/ { n = split(tolower(substr($2, 7)), a, "|"); p = (n > 1 ? "--reset-on-fork " : "") "--" a[1] } /priority/ { q = $2 } /period/ { split($2, d, "/"); p = p " --sched-runtime " d[1] " --sched-deadline " d[2] " --sched-period " d[3] } END { print p, "--pid", q }'"#;
/// The nineteenth field of proc_pid_stat(5); the name before it may hold anything.
const NICE_BEFORE: &str = "sed 's/.*) //' /proc/$t/stat | cut -d ' ' -f 17";
const CPUS_BEFORE: &str = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$t/status";

fn recorded(changes: &[&Change]) -> Option<Commands> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let step = step(change)?;
        match steps.last_mut() {
            Some(last) if last.body == step.body && last.can_join(&step) => last.tids.extend(step.tids),
            _ => steps.push(step),
        }
    }
    let body: Vec<String> = steps.iter().map(Step::text).collect();
    let body = body.join("; ");
    let file = format!("/run/unstarve-undo-{:08x}", fingerprint(&body));
    Some(Commands {
        apply: format!("( set -Ceu; u={file}; : > $u; set +C; {body} )"),
        // What was done last is undone first.
        undo: format!("tac {file} | sh -eu && rm {file}"),
    })
}

/// A body for one or several threads, or for none.
struct Step {
    tids: Vec<Tid>,
    /// Prints the threads, where they are not known by number.
    list: Option<String>,
    body: String,
}

impl Step {
    fn can_join(&self, other: &Step) -> bool {
        self.list.is_none() && other.list.is_none() && !self.tids.is_empty() && !other.tids.is_empty()
    }

    fn text(&self) -> String {
        let list = match &self.list {
            Some(list) => list.clone(),
            None if self.tids.is_empty() => return self.body.clone(),
            None => self.tids.iter().map(Tid::to_string).collect::<Vec<_>>().join(" "),
        };
        // One that has ended meanwhile needs nothing.
        format!("for t in {list}; do [ -d /proc/$t ] || continue; {}; done", self.body)
    }
}

fn step(change: &Change) -> Option<Step> {
    let of_threads = |tids: Vec<Tid>, list: Option<String>| {
        let body = save_and_set(change.to.as_ref()?)?;
        Some(Step { tids, list, body })
    };
    match &change.target {
        Target::Thread(thread) => of_threads(vec![thread.tid], None),
        Target::Threads(Selector::Process(process)) => {
            of_threads(Vec::new(), Some(format!("$(ls /proc/{}/task)", process.tid)))
        }
        // Children of kthreadd: a program may take any name.
        Target::Threads(Selector::KernelThreads { prefix }) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:".contains(c);
            prefix.chars().all(plain).then_some(())?;
            of_threads(Vec::new(), Some(format!("$(pgrep -P 2 '^{}')", prefix.replace('.', "[.]"))))
        }
        Target::Threads(Selector::Workers { cpus }) => {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            let cpus = if cpus.is_empty() { "[0-9]+".to_owned() } else { format!("({})", cpus.join("|")) };
            of_threads(Vec::new(), Some(format!("$(pgrep -P 2 '^kworker/{cpus}:[0-9]+([-+]|$)')")))
        }
        Target::File { path } => {
            let (to, path) = (quoted(text(change.value()?)?)?, quoted(path)?);
            Some(Step { tids: Vec::new(), list: None, body: replace_text(&path, &to) })
        }
        Target::Feature { name } => {
            let word = quoted(text(change.value()?)?)?;
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(())?;
            let body =
                format!("{FEATURES}; w=$(grep -owE '(NO_)?{name}' $f); echo \"echo $w > $f\" >> $u; echo {word} > $f");
            Some(Step { tids: Vec::new(), list: None, body })
        }
        Target::GroupWeightOf(thread) => match change.to.as_ref()? {
            To::Relative(Relative::Weight(weight)) => {
                Some(Step { tids: Vec::new(), list: None, body: group_weight(thread.tid, *weight) })
            }
            _ => None,
        },
        Target::Boot { .. } | Target::Advice => None,
    }
}

fn replace_text(path: &str, to: &str) -> String {
    // A file that lists its words has the one in force in parentheses.
    let now = if path.ends_with("/preempt") { "sed 's/.*(\\(.*\\)).*/\\1/'" } else { "cat" };
    format!("echo \"echo '$({now} {path})' > {path}\" >> $u; echo {to} > {path}")
}

fn save_and_set(to: &To) -> Option<String> {
    Some(match to {
        To::Value(Value::Class { policy, rt_priority, .. }) => format!(
            "c=$({CHRT_BEFORE}); echo \"[ ! -d /proc/$t ] || chrt $c $t\" >> $u; chrt $(echo \"$c\" | grep -o -e \
             --reset-on-fork || :) {} --pid {rt_priority} $t",
            chrt_word(*policy)?
        ),
        To::Value(Value::ResetOnFork(on)) => {
            let flag = if *on { "--reset-on-fork " } else { "" };
            format!(
                "c=$({CHRT_BEFORE}); echo \"[ ! -d /proc/$t ] || chrt $c $t\" >> $u; chrt {flag}${{c#--reset-on-fork }} $t"
            )
        }
        To::Value(Value::Nice(nice)) => format!(
            "echo \"[ ! -d /proc/$t ] || renice -n $({NICE_BEFORE}) -p $t > /dev/null\" >> $u; renice -n {nice} -p $t > /dev/null"
        ),
        To::Value(Value::Affinity(cpus)) => format!(
            "echo \"[ ! -d /proc/$t ] || taskset -pc $({CPUS_BEFORE}) $t > /dev/null\" >> $u; taskset -pc {cpus} $t > /dev/null"
        ),
        To::Relative(Relative::RuntimePercent(percent)) => format!(
            "c=$({CHRT_BEFORE}); echo \"[ ! -d /proc/$t ] || chrt $c $t\" >> $u; chrt $(echo \"$c\" | awk '{{ for (i = 1; i < NF; \
             i++) if ($i == \"--sched-runtime\") $(i + 1) = int($(i + 1) * {percent} / 100); print }}') $t"
        ),
        To::Value(Value::Deadline { .. } | Value::Slice(_) | Value::Uclamp { .. } | Value::Text(_)) => return None,
        To::Relative(Relative::Weight(_)) => return None,
    })
}

/// The weight of a thread's top-level group, on whichever hierarchy has the CPU controller.
fn group_weight(tid: Tid, weight: u32) -> String {
    let shares = (u64::from(weight) * 1024 + 50) / 100;
    format!(
        "for f in \"/sys/fs/cgroup$(sed -n 's|^0::\\(/[^/]\\{{1,\\}}\\).*|\\1|p' /proc/{tid}/cgroup)/cpu.weight\" \
         \"/sys/fs/cgroup/cpu$(sed -n 's|^[0-9]*:\\(.*,\\)*cpu\\(,.*\\)*:\\(/[^/]\\{{1,\\}}\\).*|\\3|p' /proc/{tid}/cgroup)/cpu.shares\"; \
         do case $f in /sys/fs/cgroup/cpu.*|/sys/fs/cgroup/cpu/cpu.*|*\\'*) continue;; esac; [ -e \"$f\" ] || continue; \
         w={weight}; [ \"${{f%.shares}}\" = \"$f\" ] || w={shares}; echo \"echo $(cat \"$f\") > '$f'\" >> $u; echo $w > \"$f\"; done"
    )
}

/// A number that differs where the commands do: FNV-1a.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
