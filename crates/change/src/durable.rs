//! A change in a form that lasts: a file that the host's own manager reads, or a word for the kernel's command line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

use unstarve_model::SchedPolicy;

use crate::change::{Change, Relative, Selector, Target, Thread, To};
use crate::{Commands, Value, quoted};

/// Who keeps a setting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// A drop-in for a unit of systemd.
    Systemd,
    /// `sysctl.d`.
    Sysctl,
    /// `tmpfiles.d`: writes to files of the kernel at boot.
    Tmpfiles,
    /// The kernel's command line.
    Cmdline,
    /// A policy of `unstarve guard`.
    Guard,
    /// A TuneD profile.
    Tuned,
}

impl Form {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Form; 6] = [Form::Systemd, Form::Sysctl, Form::Tmpfiles, Form::Cmdline, Form::Guard, Form::Tuned];

    /// Its word on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Form::Systemd => "systemd",
            Form::Sysctl => "sysctl",
            Form::Tmpfiles => "tmpfiles",
            Form::Cmdline => "cmdline",
            Form::Guard => "guard",
            Form::Tuned => "tuned",
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Form, String> {
        Form::ALL.into_iter().find(|form| form.word() == text).ok_or_else(|| {
            let words: Vec<&str> = Form::ALL.iter().map(|form| form.word()).collect();
            format!("expected one of {}", words.join(", "))
        })
    }
}

/// A file that keeps a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durable {
    /// Where it goes; the kernel's command line has no file of one name everywhere.
    pub file: Option<String>,
    /// What is in it.
    pub text: String,
    /// The command that puts it in force without a reboot.
    pub activate: String,
}

impl Durable {
    /// The same in a file with this at the end of its name, so that several stand side by side.
    #[must_use]
    pub fn named(mut self, name: &str) -> Durable {
        let with = |file: String| match file.rsplit_once('.') {
            Some((stem, kind)) => format!("{stem}-{name}.{kind}"),
            None => file,
        };
        self.file = self.file.map(with);
        self
    }

    /// Commands that write the file, unless there is one, and that remove it; `None` if it is no file, or if its text or its
    /// name cannot be quoted.
    pub fn commands(&self) -> Option<Commands> {
        let file = quoted(self.file.as_deref()?)?;
        let lines: Option<Vec<String>> = self.text.lines().map(quoted).collect();
        let apply = format!("( set -C; printf '%s\\n' {} > {file} )", lines?.join(" "));
        Some(Commands { apply, undo: format!("rm {file}") })
    }
}

/// Why a form cannot keep a change, and what can.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct NotDurable {
    /// One sentence.
    pub why: String,
    /// Forms that can keep all of it.
    pub instead: Vec<Form>,
}

/// What is known of a thread on the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whose {
    /// The service in which it runs.
    pub unit: Option<String>,
    /// A thread of the kernel, which no service has.
    pub kernel_thread: bool,
}

/// All of the changes in one form.
///
/// # Errors
/// If that form cannot keep one of them.
pub fn durable(changes: &[Change], form: Form, whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, NotDurable> {
    of_form(changes, form, whose).map_err(|why| {
        let can = |other: &Form| *other != form && of_form(changes, *other, whose).is_ok();
        NotDurable { why, instead: Form::ALL.into_iter().filter(can).collect() }
    })
}

fn of_form(changes: &[Change], form: Form, whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    if changes.iter().any(|change| matches!(change.target, Target::Advice)) {
        return Err("this is a change of a program or a machine, which no file of settings can keep".to_owned());
    }
    match form {
        Form::Systemd => systemd(changes, whose),
        Form::Sysctl => sysctl(changes),
        Form::Tmpfiles => tmpfiles(changes),
        Form::Cmdline => cmdline(changes),
        Form::Guard => guard(changes, whose),
        Form::Tuned => tuned(changes),
    }
}

fn systemd(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for change in changes {
        let (unit, lines) = match &change.target {
            Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => {
                let whose = whose(thread);
                if whose.kernel_thread {
                    return Err(format!("thread {} is the kernel's own: no unit of systemd has it", thread.tid));
                }
                let unit = whose.unit.ok_or_else(|| {
                    format!("the recording does not say in which unit of systemd thread {} runs", thread.tid)
                })?;
                let lines = change.value().and_then(in_service).ok_or_else(|| no_word(change, "systemd"))?;
                (unit, lines)
            }
            Target::File { path } => {
                let (group, file) = path.rsplit_once('/').unwrap_or(("", path));
                let unit = group.rsplit('/').next().filter(|name| is_unit(name));
                let unit = unit.ok_or_else(|| format!("{path} belongs to no unit of systemd"))?;
                let text = text_of(change).ok_or_else(|| no_word(change, "systemd"))?;
                let line = in_group(file, text).ok_or_else(|| no_word(change, "systemd"))?;
                (unit.to_owned(), vec![line])
            }
            _ => return Err(no_word(change, "systemd")),
        };
        let section = units.entry(unit).or_default();
        lines.into_iter().filter(|line| !section.contains(line)).collect::<Vec<_>>().into_iter().for_each(|line| {
            section.push(line);
        });
    }
    let durable = units.into_iter().map(|(unit, lines)| {
        let kind = unit.rsplit('.').next().unwrap_or("service");
        let section = format!("{}{}", kind[..1].to_uppercase(), &kind[1..]);
        let name = quoted(&unit).unwrap_or_default();
        let restarts = lines.iter().any(|line| !line.starts_with("CPUWeight=") && !line.starts_with("CPUQuota"));
        let restart = if restarts { format!(" && systemctl restart {name}") } else { String::new() };
        Durable {
            file: Some(format!("/etc/systemd/system/{unit}.d/60-unstarve.conf")),
            text: format!("[{section}]\n{}\n", lines.join("\n")),
            activate: format!("systemctl daemon-reload{restart}"),
        }
    });
    Ok(durable.collect())
}

fn is_unit(name: &str) -> bool {
    [".service", ".slice", ".scope"].iter().any(|kind| name.len() > kind.len() && name.ends_with(kind))
        && quoted(name).is_some()
        && !name.contains(['\\', '\''])
}

/// systemd.exec(5).
fn in_service(value: &Value) -> Option<Vec<String>> {
    Some(match value {
        Value::Class { policy, rt_priority, .. } => {
            let word = match policy {
                SchedPolicy::Other | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Fifo | SchedPolicy::Rr => {
                    policy.name()
                }
                SchedPolicy::Deadline | SchedPolicy::Ext | SchedPolicy::Unknown => return None,
            };
            let mut lines = vec![format!("CPUSchedulingPolicy={word}")];
            if *rt_priority > 0 {
                lines.push(format!("CPUSchedulingPriority={rt_priority}"));
            }
            lines
        }
        Value::Nice(nice) => vec![format!("Nice={nice}")],
        Value::Affinity(cpus) => vec![format!("CPUAffinity={cpus}")],
        Value::ResetOnFork(on) => {
            vec![format!("CPUSchedulingResetOnFork={}", if *on { "yes" } else { "no" })]
        }
        Value::Deadline { .. } | Value::Slice(_) | Value::Uclamp { .. } | Value::Text(_) => return None,
    })
}

/// systemd.resource-control(5).
fn in_group(file: &str, text: &str) -> Option<String> {
    match file {
        "cpu.weight" => Some(format!("CPUWeight={}", text.parse::<u32>().ok()?)),
        "cpu.shares" => Some(format!("CPUWeight={}", (text.parse::<u64>().ok()? * 100 / 1024).clamp(1, 10_000))),
        "cpu.max" => {
            let (quota, period) = text.split_once(' ')?;
            let Ok(quota) = quota.parse::<u64>() else { return Some("CPUQuota=infinity".to_owned()) };
            Some(format!("CPUQuota={}%", quota * 100 / period.parse::<u64>().ok()?.max(1)))
        }
        _ => None,
    }
}

fn sysctl(changes: &[Change]) -> Result<Vec<Durable>, String> {
    let mut text = String::new();
    for change in changes {
        let (name, value) = as_sysctl(change).ok_or_else(|| no_word(change, "sysctl.d"))?;
        let _ = writeln!(text, "{name} = {value}");
    }
    let file = "/etc/sysctl.d/60-unstarve.conf".to_owned();
    let activate = format!("sysctl -p {file}");
    Ok(vec![Durable { file: Some(file), text, activate }])
}

fn as_sysctl(change: &Change) -> Option<(String, &str)> {
    let Target::File { path } = &change.target else { return None };
    Some((path.strip_prefix("/proc/sys/")?.replace('/', "."), text_of(change)?))
}

fn tmpfiles(changes: &[Change]) -> Result<Vec<Durable>, String> {
    let mut text = String::new();
    for change in changes {
        let value = text_of(change).ok_or_else(|| no_word(change, "tmpfiles.d"))?;
        let path = match &change.target {
            Target::File { path } if path.starts_with("/sys/fs/cgroup/") => {
                return Err(format!(
                    "{path}: the group is made after tmpfiles.d has been read; its manager has to keep it"
                ));
            }
            Target::File { path } if path.starts_with("/sys/") || path.starts_with("/proc/") => path.clone(),
            Target::Feature { .. } => "/sys/kernel/debug/sched/features".to_owned(),
            _ => return Err(no_word(change, "tmpfiles.d")),
        };
        // A specifier of tmpfiles.d begins with a per cent sign, and blanks end a field.
        if path.contains([' ', '%', '"', '\\']) || value.contains(['%', '"', '\\']) {
            return Err(format!("{path} has characters that tmpfiles.d takes otherwise"));
        }
        let _ = writeln!(text, "w {path} - - - - {value}");
    }
    let file = "/etc/tmpfiles.d/60-unstarve.conf".to_owned();
    let activate = format!("systemd-tmpfiles --create {file}");
    Ok(vec![Durable { file: Some(file), text, activate }])
}

fn cmdline(changes: &[Change]) -> Result<Vec<Durable>, String> {
    let mut words = Vec::new();
    for change in changes {
        match &change.target {
            Target::Boot { parameter } => words.push(parameter.clone()),
            Target::File { path } if path.starts_with("/sys/module/") => {
                let mut parts = path["/sys/module/".len()..].split('/');
                let (module, name) = (parts.next(), parts.nth(1));
                let value = text_of(change);
                match (module, name, value) {
                    (Some(module), Some(name), Some(value)) => words.push(format!("{module}.{name}={value}")),
                    _ => return Err(no_word(change, "the kernel's command line")),
                }
            }
            _ => match as_sysctl(change) {
                // From 5.8 on; see the kernel's documentation of its parameters.
                Some((name, value)) => words.push(format!("sysctl.{name}={value}")),
                None => return Err(no_word(change, "the kernel's command line")),
            },
        }
    }
    let activate = "add it to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub (or grubby --update-kernel=ALL \
                    --args=…), reboot"
        .to_owned();
    Ok(vec![Durable { file: None, text: words.join(" ") + "\n", activate }])
}

fn guard(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut text = "version = 1\n".to_owned();
    let mut rules: Vec<(String, Vec<String>)> = Vec::new();
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
                rules
                    .push((format!("kind = \"kthread\", comm = {}", toml_text(&format!("{}*", escaped(prefix)))), set));
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
    for (index, (selector, set)) in rules.iter().enumerate() {
        let _ = write!(
            text,
            "\n[[rule]]\nname = \"fix {}\"\nmatch = {{ {selector} }}\nset = {{ {} }}\n",
            index + 1,
            set.join(", ")
        );
    }
    let file = "/etc/unstarve/policies/60-fix.toml".to_owned();
    let activate = format!("unstarve guard plan {file}; unstarve guard run {file}");
    Ok(vec![Durable { file: Some(file), text, activate }])
}

/// Who is meant, in a policy: by what it is rather than by number.
fn selected(thread: &Thread, whose: &Whose) -> String {
    let comm = toml_text(&escaped(&thread.comm));
    if let Some((_, work)) = thread.comm.split_once('-').filter(|_| thread.comm.starts_with("kworker/")) {
        return format!("kind = \"kworker\", workqueue = {}", toml_text(&format!("{}*", escaped(work))));
    }
    match (&whose.unit, whose.kernel_thread) {
        (_, true) => format!("kind = \"kthread\", comm = {comm}"),
        (Some(unit), false) => format!("kind = \"user\", comm = {comm}, unit = {}", toml_text(&escaped(unit))),
        (None, false) => format!("kind = \"user\", comm = {comm}"),
    }
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

fn tuned(changes: &[Change]) -> Result<Vec<Durable>, String> {
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let (section, line) = match (&change.target, as_sysctl(change)) {
            (_, Some((name, value))) => ("sysctl", format!("{name}={value}")),
            (Target::Boot { parameter }, _) => ("bootloader", format!("cmdline_unstarve_{index}=+{parameter}")),
            (Target::File { path }, _) if path.starts_with("/sys/") => {
                ("sysfs", format!("{path}={}", text_of(change).ok_or_else(|| no_word(change, "TuneD"))?))
            }
            (Target::Thread(thread), _) => {
                let line = in_tuned(thread, change.value()).ok_or_else(|| no_word(change, "TuneD"))?;
                ("scheduler", format!("group.unstarve_{index}={line}"))
            }
            _ => return Err(no_word(change, "TuneD")),
        };
        sections.entry(section).or_default().push(line);
    }
    let mut text = "[main]\nsummary=Changes that unstarve proposed\n".to_owned();
    for (section, lines) in sections {
        let _ = write!(text, "\n[{section}]\n{}\n", lines.join("\n"));
    }
    Ok(vec![Durable {
        file: Some("/etc/tuned/unstarve/tuned.conf".to_owned()),
        text,
        activate: "tuned-adm profile $(tuned-adm active | sed 's/.*: //') unstarve".to_owned(),
    }])
}

/// `rule priority:policy:nice/priority:affinity:regex` of TuneD's scheduler plug-in.
fn in_tuned(thread: &Thread, value: Option<&Value>) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_ ".contains(c);
    thread.comm.chars().all(plain).then_some(())?;
    let regex = format!("^\\[?{}\\]?$", thread.comm);
    Some(match value? {
        Value::Class { policy: SchedPolicy::Fifo, rt_priority, .. } => format!("0:f:{rt_priority}:*:{regex}"),
        Value::Class { policy: SchedPolicy::Rr, rt_priority, .. } => format!("0:r:{rt_priority}:*:{regex}"),
        Value::Class { policy: SchedPolicy::Other, .. } => format!("0:o:0:*:{regex}"),
        Value::Class { policy: SchedPolicy::Batch, .. } => format!("0:b:0:*:{regex}"),
        Value::Nice(nice) => format!("0:o:{nice}:*:{regex}"),
        Value::Affinity(cpus) => format!("0:*:*:{cpus}:{regex}"),
        _ => return None,
    })
}

fn text_of(change: &Change) -> Option<&str> {
    match change.value()? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn no_word(change: &Change, form: &str) -> String {
    let what = match (&change.target, &change.to) {
        (Target::Thread(thread), Some(To::Value(value))) => format!("{value} for thread {}", thread.tid),
        (Target::Thread(thread), _) => format!("the change of thread {}", thread.tid),
        (Target::Threads(Selector::Process(process)), _) => format!("the change of process {}", process.tid),
        (Target::Threads(Selector::KernelThreads { prefix }), _) => format!("the change of {prefix}*"),
        (Target::Threads(Selector::Workers { .. }), _) => "workers bound to a CPU".to_owned(),
        (Target::File { path }, _) => path.clone(),
        (Target::GroupWeightOf(thread), Some(To::Relative(Relative::Weight(_)))) => {
            format!("the weight of a group that was not recorded (of thread {})", thread.tid)
        }
        (Target::Feature { name }, _) => format!("the feature {name}"),
        (Target::Boot { parameter }, _) => format!("the boot parameter {parameter}"),
        _ => "this change".to_owned(),
    };
    format!("{form} has no word for {what}")
}
