//! Shell commands that apply a change and undo it.
//!
//! If the old value was recorded, both are plain commands. Otherwise the apply command first writes the current value into a file
//! of undo commands, and the undo command runs that file. Nothing is guessed, and nothing that a task or container can choose (a
//! name, a path with odd characters) gets into a command unquoted. Thread ids are reused, so both commands check the creation
//! time. The apply command also checks the recording's claims: that a thread is a kernel thread, and, if only root may set the
//! value, that the thread belongs to the recorded user.

mod known;
mod saved;

use std::collections::BTreeSet;

use unstarve_model::Tid;
use unstarve_sched::setting::{self, File, feature};

use crate::Value;
use crate::change::{Change, Target, Thread};
use known::{CREATED, KIND, Known, NAME, OWNER, Parts};

/// Commands that run as printed under `sh -eu`; the undo may run in another shell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Commands {
    /// Applies the change.
    pub apply: String,
    /// Undoes the change.
    pub undo: String,
}

/// The commands of these changes, in order; `None` if there are no commands.
pub fn commands(changes: &[Change]) -> Option<Commands> {
    let changes: Vec<&Change> = changes.iter().filter(|change| change.is_for_a_program()).collect();
    // The recording contains the paths of its settings, and its author may have put any path there: without this check a shell
    // would write to it.
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

/// Whether the file is a kernel setting on any host. For cgroups only below the usual mount point, because a path does not show
/// that a hierarchy is mounted there. The executor checks that after opening the file.
fn may_be_printed(target: &Target) -> bool {
    match target {
        Target::File { path } => File::at(path)
            .is_some_and(|file| file.group().is_none_or(|directory| directory.starts_with("/sys/fs/cgroup/"))),
        _ => true,
    }
}

/// Whether programs of several users would be raised together. Their common name proves nothing, because any program can take a
/// name.
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

/// What the variable in the command stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Whose {
    /// `$t`: this thread, after it was recognised.
    Thread(Tid, Known),
    /// `$f`: this path, quoted.
    File(String),
    /// No variable: a setting of the whole kernel.
    Kernel,
}

/// The message if the id belongs to another thread by now.
const ENDED: &str = "echo \"thread $t has ended\" >&2";

/// Adjacent lines with the same command become one loop.
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
            let set = |value: &Value| (value.of_task()?.shell)(value, thread.reset_on_fork);
            let to = format!("{}{}", unless_another_was(was), set(to)?);
            return of_thread(thread, change.value(), to, set(was)?);
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
            // In a value that contains the text of the variable, the shell would replace it with the path.
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

/// Both commands of a thread, each with the checks that recognise it.
fn of_thread(thread: &Thread, value: Option<&Value>, to: String, was: String) -> Option<(Line, Line)> {
    let apply = Line { command: to, whose: Whose::Thread(thread.tid, Known::of(thread, value)?) };
    let undo = Line { command: was, whose: Whose::Thread(thread.tid, Known::before(thread)?) };
    Some((apply, undo))
}

/// The undo sets the value that the recording claims. If only root may set that value, the apply command first checks that the
/// thread has it; otherwise a forged recording could make the undo raise any task.
fn unless_another_was(was: &Value) -> String {
    let in_stat = was.of_task().filter(|_| was.is_privileged()).and_then(|row| (row.in_stat)(was));
    let Some((fields, values)) = in_stat else { return String::new() };
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

/// The message if a thread has another value than the recording claims.
const CHANGED: &str = "echo \"thread $t is not as it was recorded\" >&2";

/// Sets the nice of the session of `$t`.
fn set_session(nice: &str) -> String {
    format!("echo {nice} > /proc/$t/autogroup")
}

fn text(value: &Value) -> Option<&str> {
    Some(value.as_content()?.as_str())
}

/// Writes a quoted text to a quoted path; up to five times if the kernel may be busy. `sign` starts a variable: with a backslash
/// if the whole command is between double quotes.
fn write(text: &str, to: &str, file: File<'_>, sign: &str) -> String {
    match file.setting.may_be_busy {
        false => format!("echo {text} > {to}"),
        true => {
            format!("( i=0; until echo {text} > {to}; do i={sign}((i+1)); [ {sign}i -lt 5 ] || exit 1; sleep 1; done )")
        }
    }
}

/// The directories in `/proc` of an interrupt's recorded handlers, quoted: its number may belong to another interrupt by now.
/// Empty for other files.
struct Handlers(Vec<String>);

/// `None` if one of the names cannot be quoted.
fn handlers(path: &str, names: &[String]) -> Option<Handlers> {
    let Some(irq) = setting::interrupt_of(path) else { return Some(Handlers(Vec::new())) };
    names.iter().map(|name| quoted(&format!("/proc/irq/{irq}/{name}"))).collect::<Option<_>>().map(Handlers)
}

impl Handlers {
    /// The command, run only if the interrupt still has these handlers.
    fn unless_another(&self, command: String) -> String {
        if self.0.is_empty() {
            return command;
        }
        let tests: Vec<String> = self.0.iter().map(|handler| format!("[ -d {handler} ]")).collect();
        let tests = tests.join(" && ");
        format!("if {tests}; then {command}; else echo 'this number is another interrupt by now' >&2; fi")
    }
}

/// Finds the file of the scheduler features.
fn find_features() -> String {
    let [now, before] = feature::FILES;
    format!("f={now}; [ -e $f ] || f={before}")
}

fn set_feature(word: &str) -> Option<String> {
    Some(format!("{}; echo {} > $f", find_features(), quoted(word)?))
}

/// A file name as an argument, quoted if necessary, and never parsed as an option; `None` like [`quoted`].
pub fn quoted_file(name: &str) -> Option<String> {
    if name.starts_with('-') { quoted(&format!("./{name}")) } else { quoted(name) }
}

/// A word for a command line, quoted if necessary; `None` if a shell or a terminal could interpret it differently.
pub fn quoted(word: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Some(word.to_owned());
    }
    let quotable = word.chars().all(|c| !unstarve_model::is_harmful(c) && c != '\'');
    quotable.then(|| format!("'{word}'"))
}
