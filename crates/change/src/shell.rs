//! A change as commands for `sh`: what makes it, and what takes it back.
//!
//! Where the old value was recorded, both are plain commands. Where it was not, the first line writes what it finds into a
//! file of commands before each change, and the second runs that file. Nothing is guessed, and nothing that a task or a
//! container can choose (a name, a path with odd characters) becomes part of a command unquoted. A number of a thread is
//! given to others once it has ended: both lines look when it was created. The first also looks whether it is what the recording claims:
//! the kernel's, and, where it gives what only root may give, of the user that was recorded.

mod known;
mod saved;

use std::collections::BTreeSet;

use unstarve_model::{SchedPolicy, Tid};
use unstarve_sched::setting::{self, File, feature};

use crate::Value;
use crate::change::{Change, Target, Thread};
use known::{CREATED, KIND, Known, NAME, OWNER, Parts};

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
    // A recording says where its settings were, and who made it may have written what he liked: a shell writes anywhere.
    if changes.is_empty()
        || !changes.iter().all(|change| may_be_printed(&change.target))
        || raise_several_users(&changes)
    {
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
        None => saved::commands(&changes),
    }
}

/// Whether a file is one of the kernel's settings wherever this is read: of a cgroup below the usual place alone, since nothing shows in a
/// path that a hierarchy is mounted there. The executor sees that once the file is open.
fn may_be_printed(target: &Target) -> bool {
    match target {
        Target::File { path } => File::at(path)
            .is_some_and(|file| file.group().is_none_or(|directory| directory.starts_with("/sys/fs/cgroup/"))),
        _ => true,
    }
}

/// Whether programs of several users would be raised together. What they have in common is a name, and anybody can take a name.
fn raise_several_users(changes: &[&Change]) -> bool {
    let user = |change: &&Change| {
        let is_privileged = change.value().is_some_and(Value::is_privileged);
        change.target.thread().filter(|thread| is_privileged && thread.kernel_thread != Some(true))?.user
    };
    changes.iter().filter_map(user).collect::<BTreeSet<u32>>().len() > 1
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
    /// `$t`, if it is this one.
    Thread(Tid, Known),
    /// `"$f"`: its path, quoted.
    File(String),
    /// Nothing: it is the kernel's as a whole.
    Kernel,
}

/// What is said of a thread that is another one by now.
const ENDED: &str = "echo \"thread $t has ended\" >&2";

/// Neighbours that do the same become one loop.
fn joined(lines: &[Line]) -> Vec<String> {
    let alike = |a: &Line, b: &Line| {
        let kind = |line: &Line| std::mem::discriminant(&line.whose);
        a.command == b.command && kind(a) == kind(b) && a.whose != Whose::Kernel
    };
    lines.chunk_by(alike).map(joined_alike).collect()
}

fn joined_alike(lines: &[Line]) -> String {
    let command = &lines[0].command;
    let each = |of: &dyn Fn(&Whose) -> Option<String>, between: &str| {
        lines.iter().filter_map(|line| of(&line.whose)).collect::<Vec<_>>().join(between)
    };
    let path = |whose: &Whose| match whose {
        Whose::File(path) => Some(path.clone()),
        _ => None,
    };
    let number = |whose: &Whose| match whose {
        Whose::Thread(tid, _) => Some(tid.to_string()),
        _ => None,
    };
    let parts = lines.iter().fold(Parts::default(), |parts, line| match &line.whose {
        Whose::Thread(_, known) => parts.and(known.parts()),
        _ => parts,
    });
    let identity = |whose: &Whose| match whose {
        Whose::Thread(tid, known) => Some(known.patterns(*tid, parts)),
        _ => None,
    };
    match &lines[0].whose {
        Whose::Kernel => command.clone(),
        Whose::File(path) if lines.len() == 1 => command.replace("\"$f\"", path),
        Whose::File(_) => format!("for f in {}; do {command}; done", each(&path, " ")),
        Whose::Thread(..) => format!(
            "for t in {}; do case {}$t:$({CREATED}){} in {}) {command} ;; *) {ENDED} ;; esac; done",
            each(&number, " "),
            parts.before_number(KIND, OWNER),
            if parts.name { format!("@$({NAME})") } else { String::new() },
            each(&identity, "|"),
        ),
    }
}

/// Both commands of a change whose old value was recorded.
fn plain(change: &Change) -> Option<(Line, Line)> {
    let (to, was) = (change.value()?, change.was.as_ref()?);
    let (whose, to, was) = match &change.target {
        Target::Thread(thread) => {
            thread.start?;
            let to = format!("{}{}", unless_another_was(was), for_thread(to, thread)?);
            return of_thread(thread, change.value(), to, for_thread(was, thread)?);
        }
        Target::Session(thread) => {
            thread.start?;
            let nice = |value: &Value| match value {
                Value::Nice(nice) => Some(set_session(&nice.to_string())),
                _ => None,
            };
            let to = format!("{}{}", unless_another_session_was(was), nice(to)?);
            return of_thread(thread, change.value(), to, nice(was)?);
        }
        Target::File { path } => {
            let file = File::at(path)?;
            let line = |value| Some(write(&quoted(text(value)?)?, "\"$f\"", file, "$"));
            // A value that holds what stands for the path would get it, too.
            if [to, was].iter().any(|value| text(value).is_some_and(|text| text.contains("$f"))) {
                return None;
            }
            let (to, was) = (line(to)?, line(was)?);
            let handlers = handlers(path, &change.handlers)?;
            if !handlers.0.is_empty() {
                let file = quoted(path)?;
                let whole = |line: String| Line {
                    command: handlers.unless_another(line.replace("\"$f\"", &file)),
                    whose: Whose::Kernel,
                };
                return Some((whole(to), whole(was)));
            }
            (Whose::File(quoted(path)?), to, was)
        }
        Target::Feature { .. } => (Whose::Kernel, set_feature(text(to)?)?, set_feature(text(was)?)?),
        _ => return None,
    };
    Some((Line { command: to, whose: whose.clone() }, Line { command: was, whose }))
}

/// Both commands of a thread, each with what it is recognised by.
fn of_thread(thread: &Thread, value: Option<&Value>, to: String, was: String) -> Option<(Line, Line)> {
    let apply = Line { command: to, whose: Whose::Thread(thread.tid, Known::of(thread, value)?) };
    let undo = Line { command: was, whose: Whose::Thread(thread.tid, Known::before(thread)?) };
    Some((apply, undo))
}

/// The undo gives back what the recording says. Where only root may give that, the first command makes sure that it is so: a recording
/// that lies would have the undo raise whom it likes.
fn unless_another_was(was: &Value) -> String {
    let (fields, values) = match was {
        Value::Class { policy, rt_priority, .. } if was.is_privileged() => match policy.number() {
            Some(number) => ("38,39", format!("{rt_priority} {number}")),
            None => return String::new(),
        },
        Value::Nice(nice) if was.is_privileged() => ("17", nice.to_string()),
        _ => return String::new(),
    };
    let now = CREATED.replace("-f 20", &format!("-f {fields}"));
    format!("[ \"$({now})\" = '{values}' ] || {{ {CHANGED}; continue; }}; ")
}

fn unless_another_session_was(was: &Value) -> String {
    match was {
        Value::Nice(nice) if was.is_privileged() => {
            format!("[ \"$({})\" = {nice} ] || {{ {CHANGED}; continue; }}; ", saved::SESSION_BEFORE)
        }
        _ => String::new(),
    }
}

/// What is said of a thread that has another value than the recording says.
const CHANGED: &str = "echo \"thread $t is not as it was recorded\" >&2";

/// Gives the session of `$t` a nice value.
fn set_session(nice: &str) -> String {
    format!("echo {nice} > /proc/$t/autogroup")
}

fn text(value: &Value) -> Option<&str> {
    Some(value.as_content()?.as_str())
}

/// A command that gives `$t` a value. chrt(1) sets the flag of [`Thread::reset_on_fork`] or clears it, so it has to be known.
fn for_thread(value: &Value, thread: &Thread) -> Option<String> {
    Some(match value {
        Value::Class { policy, rt_priority, .. } => {
            let flag = if thread.reset_on_fork? { "--reset-on-fork " } else { "" };
            format!("chrt {flag}{} --pid {rt_priority} $t", chrt_word(*policy)?)
        }
        Value::Nice(nice) => format!("renice -n {nice} -p $t > /dev/null"),
        Value::Deadline { runtime, deadline, period } => {
            format!(
                "chrt --deadline --sched-runtime {runtime} --sched-deadline {deadline} --sched-period {period} --pid 0 $t"
            )
        }
        // The flag comes with a policy, which is not in this value. CPUs change without anybody's doing, with a cpuset or the
        // machine's own, so those at the time count.
        Value::ResetOnFork(_) | Value::Affinity(_) | Value::Slice(_) | Value::Uclamp { .. } | Value::Content(_) => {
            return None;
        }
    })
}

fn chrt_word(policy: SchedPolicy) -> Option<String> {
    (policy != SchedPolicy::Unknown).then(|| format!("--{}", policy.name()))
}

/// Writes a quoted text to a quoted path; where the kernel may be busy, up to five times. `sign` begins a variable: with a backslash
/// where all of it is between double quotes.
fn write(text: &str, to: &str, file: File<'_>, sign: &str) -> String {
    match file.setting.may_be_busy {
        false => format!("echo {text} > {to}"),
        true => {
            format!("( i=0; until echo {text} > {to}; do i={sign}((i+1)); [ {sign}i -lt 5 ] || exit 1; sleep 1; done )")
        }
    }
}

/// Directories in `/proc` of the handlers that an interrupt had, quoted: its number may be another's since. None of other files.
struct Handlers(Vec<String>);

/// `None` if the name of one cannot be quoted.
fn handlers(path: &str, names: &[String]) -> Option<Handlers> {
    let Some(irq) = setting::interrupt_of(path) else { return Some(Handlers(Vec::new())) };
    names.iter().map(|name| quoted(&format!("/proc/irq/{irq}/{name}"))).collect::<Option<_>>().map(Handlers)
}

impl Handlers {
    /// The command, if the interrupt has these handlers still.
    fn unless_another(&self, command: String) -> String {
        if self.0.is_empty() {
            return command;
        }
        let tests: Vec<String> = self.0.iter().map(|handler| format!("[ -d {handler} ]")).collect();
        let tests = tests.join(" && ");
        format!("if {tests}; then {command}; else echo 'this number is another interrupt by now' >&2; fi")
    }
}

/// Where the features are.
fn find_features() -> String {
    let [now, before] = feature::FILES;
    format!("f={now}; [ -e $f ] || f={before}")
}

fn set_feature(word: &str) -> Option<String> {
    Some(format!("{}; echo {} > $f", find_features(), quoted(word)?))
}

/// A file as an argument of a command, quoted if it has to be, and never taken for an option; `None` as of [`quoted`].
pub fn quoted_file(name: &str) -> Option<String> {
    if name.starts_with('-') { quoted(&format!("./{name}")) } else { quoted(name) }
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
