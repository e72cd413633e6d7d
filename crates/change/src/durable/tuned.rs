//! The TuneD form: a profile.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Durable, Whose, as_sysctl, content_of, made_later, no_word};
use crate::Value;
use crate::change::{Change, Target, Thread};
use unstarve_sched::setting;

pub(super) fn profile(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let (section, line) = match (&change.target, as_sysctl(change)) {
            (_, Some((name, value))) => ("sysctl", format!("{name}={value}")),
            (Target::Boot { parameter }, _) => ("bootloader", format!("cmdline_unstarve_{index}=+{parameter}")),
            (Target::File { path }, _) if setting::group_of(path).is_some() => {
                return Err(made_later(path, "a TuneD profile"));
            }
            (Target::File { path }, _) if path.starts_with("/sys/") => {
                ("sysfs", format!("{path}={}", content_of(change).ok_or_else(|| no_word(change, "TuneD"))?))
            }
            (Target::Thread(thread), _) if whose(thread).kernel_thread == Some(true) => {
                let line = in_tuned(thread, change.value()).ok_or_else(|| no_word(change, "TuneD"))?;
                ("scheduler", format!("group.unstarve_{index}={line}"))
            }
            _ => return Err(no_word(change, "TuneD")),
        };
        sections.entry(section).or_default().push(line);
    }
    let mut text = "[main]\nsummary=Changes that unstarve proposed\n".to_owned();
    for (section, lines) in sections {
        let warning = if section == "scheduler" { ANYBODYS } else { "" };
        let _ = write!(text, "\n{warning}[{section}]\n{}\n", lines.join("\n"));
    }
    Ok(vec![Durable {
        file: Some("/etc/tuned/unstarve/tuned.conf".to_owned()),
        text,
        activate: "tuned-adm profile $(tuned-adm active | sed 's/.*: //') unstarve".to_owned(),
    }])
}

/// A program can choose its command line.
const ANYBODYS: &str = "# TuneD takes a program whose command line is one of these names for the kernel thread, whoever starts it. A policy of\n\
                        # unstarve guard (--as guard) takes kernel threads alone.\n";

/// `rule priority:policy:priority:affinity:regex` of TuneD's scheduler plug-in. It matches the whole command line of a program,
/// so only kernel threads can be named; the last matching rule wins.
fn in_tuned(thread: &Thread, value: Option<&Value>) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_".contains(c);
    thread.comm.chars().all(plain).then_some(())?;
    let (word, priority) = (value?.of_task()?.tuned)(value?)?;
    Some(format!("0:{word}:{priority}:*:^\\[{}\\]$", thread.comm))
}
