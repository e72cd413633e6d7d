//! Persistent forms of a change: a file that the host's own manager reads, or a kernel command line parameter.

mod policy;
mod systemd;
mod tuned;

use std::fmt::Write;
use std::str::FromStr;

use crate::change::{Change, Relative, Selector, Target, Thread, To};
use crate::{Commands, quoted};
use unstarve_sched::setting::{self, Content, File, feature};

pub use systemd::service_of;

/// What applies a setting at boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// A drop-in for a unit of systemd.
    Systemd,
    /// `sysctl.d`.
    Sysctl,
    /// `tmpfiles.d`: writes to kernel files at boot.
    Tmpfiles,
    /// The kernel command line.
    Cmdline,
    /// A policy of `unstarve guard`.
    Guard,
    /// A TuneD profile.
    Tuned,
}

impl Form {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Form; 6] = [Form::Systemd, Form::Sysctl, Form::Tmpfiles, Form::Cmdline, Form::Guard, Form::Tuned];

    /// Its word on our command line.
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

/// A file that makes a change persistent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Durable {
    /// Its path; `None` for the kernel command line, whose file differs between distributions.
    pub file: Option<String>,
    /// Its content.
    pub text: String,
    /// The command that activates it without a reboot.
    pub activate: String,
}

impl Durable {
    /// The same with this suffix in the file name, so that several files can coexist.
    #[must_use]
    pub fn named(mut self, name: &str) -> Durable {
        let with = |file: String| match file.rsplit_once('.') {
            Some((stem, kind)) => format!("{stem}-{name}.{kind}"),
            None => file,
        };
        self.file = self.file.map(with);
        self
    }

    /// Commands that create the file if it does not exist, and that remove it; `None` if there is no file, or if its content or
    /// name cannot be quoted.
    pub fn commands(&self) -> Option<Commands> {
        let file = quoted(self.file.as_deref()?)?;
        let lines: Option<Vec<String>> = self.text.lines().map(quoted).collect();
        let apply = format!("( set -C; printf '%s\\n' {} > {file} )", lines?.join(" "));
        Some(Commands { apply, undo: format!("rm {file}") })
    }
}

/// Why a form cannot persist a change, and which forms can.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct NotDurable {
    /// One sentence.
    pub why: String,
    /// Forms that can persist all of it.
    pub instead: Vec<Form>,
}

/// What the host knows of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whose {
    /// The service in which it runs.
    pub unit: Option<String>,
    /// Whether it is a kernel thread, which belongs to no service; `None` if unknown.
    pub kernel_thread: Option<bool>,
    /// The workqueue that it served, if it is a kernel worker and nothing else identifies it.
    pub workqueue: Option<String>,
}

/// All changes in one form.
///
/// # Errors
/// If the form cannot persist one of them.
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
    for change in changes {
        let Target::File { path } = &change.target else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+,".contains(c);
        if File::at(path).is_none() || !path.chars().all(plain) {
            return Err(format!("{} is no setting that a file could name", unstarve_model::clean(path)));
        }
        let value = content_of(change).map_or("", Content::as_str);
        if value.chars().any(|c| c.is_control() || unstarve_model::is_harmful(c)) {
            return Err("the value is no line of text".to_owned());
        }
    }
    match form {
        Form::Systemd => systemd::files(changes, whose),
        Form::Sysctl => sysctl(changes),
        Form::Tmpfiles => tmpfiles(changes),
        Form::Cmdline => cmdline(changes),
        Form::Guard => policy::file(changes, whose),
        Form::Tuned => tuned::profile(changes, whose),
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

fn as_sysctl(change: &Change) -> Option<(String, &Content)> {
    Some((file_of(change)?.sysctl()?, content_of(change)?))
}

/// The file of a setting, if the change is one of a file.
fn file_of(change: &Change) -> Option<File<'_>> {
    match &change.target {
        Target::File { path } => File::at(path),
        _ => None,
    }
}

fn tmpfiles(changes: &[Change]) -> Result<Vec<Durable>, String> {
    let mut text = String::new();
    // If two lines have the same path, tmpfiles.d uses only the first.
    if changes.iter().filter(|change| matches!(change.target, Target::Feature { .. })).count() > 1 {
        return Err("tmpfiles.d writes to the features file only once".to_owned());
    }
    for change in changes {
        let value = content_of(change).ok_or_else(|| no_word(change, "tmpfiles.d"))?.as_str();
        let path = match &change.target {
            Target::File { path } if setting::group_of(path).is_some() => return Err(made_later(path, "tmpfiles.d")),
            Target::File { path } if setting::interrupt_of(path).is_some() => return Err(numbered_anew(path)),
            Target::File { path } => path.clone(),
            Target::Feature { .. } => {
                // The path up to 5.12; tmpfiles.d ignores a line for a file that does not exist.
                let [now, before] = feature::FILES;
                let _ = writeln!(text, "w {before} - - - - {value}");
                now.to_owned()
            }
            _ => return Err(no_word(change, "tmpfiles.d")),
        };
        // In tmpfiles.d, a per cent sign begins a specifier, and blanks separate fields.
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
            _ => match file_of(change).and_then(File::boot_parameter).zip(content_of(change)) {
                Some((name, value)) => words.push(format!("{name}={value}")),
                None => return Err(no_word(change, "the kernel's command line")),
            },
        }
    }
    let activate = "add it to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub (or grubby --update-kernel=ALL \
                    --args=…), reboot"
        .to_owned();
    Ok(vec![Durable { file: None, text: words.join(" ") + "\n", activate }])
}

fn content_of(change: &Change) -> Option<&Content> {
    change.value()?.as_content()
}

/// A group is created only when its service or pod starts.
fn made_later(path: &str, form: &str) -> String {
    let advice = "set it where the group is made: CPUWeight= or CPUQuota= of its unit (--as systemd), or in the pod's or \
                  container's own configuration";
    format!("{path}: the group does not exist yet when {form} is applied at boot; {advice}")
}

/// After a reboot the number may belong to another device.
fn numbered_anew(path: &str) -> String {
    format!(
        "{path}: the number of the interrupt is of this boot, and a file is for each boot; name it by its handler, in a guard's \
         policy ([[irq]])"
    )
}

fn no_word(change: &Change, form: &str) -> String {
    let what = match (&change.target, &change.to) {
        (Target::Thread(thread), Some(To::Value(value))) => {
            let what = value.of_task().map_or_else(|| "a text".to_owned(), |row| (row.describe)(value));
            format!("{what} of thread {} ({})", thread.tid, unstarve_model::clean(&thread.comm))
        }
        (Target::Thread(thread), _) => format!("the change of thread {}", thread.tid),
        (Target::Session(thread), _) => {
            format!("the nice value of the session of thread {}: each session is a new one", thread.tid)
        }
        (Target::Threads(Selector::Process(process)), _) => format!("the change of process {}", process.tid),
        (Target::Threads(Selector::KernelThreads { prefix }), _) => format!("the change of {prefix}*"),
        (Target::Threads(Selector::Workers { .. }), _) => "all workers that are bound to a CPU".to_owned(),
        (Target::File { path }, _) => path.clone(),
        (Target::GroupWeightOf(thread), Some(To::Relative(Relative::WeightAtMost(_)))) => {
            format!("the weight of a group that was not recorded (of thread {})", thread.tid)
        }
        (Target::Feature { name }, _) => format!("the feature {name}"),
        (Target::Boot { parameter }, _) => format!("the boot parameter {parameter}"),
        _ => "this change".to_owned(),
    };
    format!("{form} cannot set {what}")
}
