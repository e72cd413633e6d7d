//! The systemd form: drop-ins for units.

use std::collections::BTreeMap;

use super::{Durable, Whose, content_of, no_word};
use crate::change::{Change, Selector, Target, Thread};
use crate::quoted;
use unstarve_sched::setting::File;

pub(super) fn files(changes: &[Change], whose: &dyn Fn(&Thread) -> Whose) -> Result<Vec<Durable>, String> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for change in changes {
        let (unit, lines) = match &change.target {
            Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => {
                let whose = whose(thread);
                if whose.kernel_thread == Some(true) {
                    return Err(format!("thread {} is the kernel's own: no unit of systemd has it", thread.tid));
                }
                let unit = whose.unit.ok_or_else(|| {
                    format!("the recording does not say in which unit of systemd thread {} runs", thread.tid)
                })?;
                if !unit.ends_with(".service") || !is_unit(&unit) {
                    return Err(format!("{unit} is no service, and others' processes have no settings in systemd"));
                }
                let lines = change
                    .value()
                    .and_then(|value| (value.of_task()?.systemd)(value))
                    .ok_or_else(|| no_word(change, "systemd"))?;
                (unit, lines)
            }
            Target::File { path } => {
                let group = path.rsplit_once('/').map_or("", |(group, _)| group);
                let unit = group.rsplit('/').next().filter(|name| is_unit(name) && is_systems(group));
                let unit = unit.ok_or_else(|| format!("{path} belongs to no unit of systemd"))?;
                let line = File::at(path).zip(content_of(change)).and_then(|(file, content)| file.systemd(content));
                let line = line.ok_or_else(|| no_word(change, "systemd"))?;
                (unit.to_owned(), vec![line])
            }
            _ => return Err(no_word(change, "systemd")),
        };
        let section = units.entry(unit).or_default();
        for line in lines.into_iter().filter(|line| !section.contains(line)).collect::<Vec<_>>() {
            let key = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.is_empty()));
            let same = |other: &String| key(other) == key(&line) && key(&line).is_some_and(|(_, empty)| !empty);
            if let Some(other) = section.iter().find(|other| same(other)) {
                return Err(format!("one unit cannot have both {other} and {line} for different threads"));
            }
            section.push(line);
        }
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
    // The characters that systemd.unit(5) allows, except the backslash: a group's creator chooses its name.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.@".contains(&byte);
    [".service", ".slice", ".scope"].iter().any(|kind| name.len() > kind.len() && name.ends_with(kind))
        && name.bytes().all(is_plain)
        && !name.starts_with(['-', '.'])
}

/// Whether the group belongs to the system manager: user managers and containers have their own units, which may have the same
/// names as the host's. Groups of the system manager are only below slices and, on a host, below the mount point of the
/// hierarchy.
fn is_systems(group: &str) -> bool {
    let below = group.strip_prefix("/sys/fs/cgroup/").unwrap_or(group);
    let controller = |part: &&str| !part.contains('.') && group.len() != below.len();
    let mut above: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    if above.first().is_some_and(controller) {
        above.remove(0);
    }
    above.pop();
    above.iter().all(|part| part.ends_with(".slice") && *part != "machine.slice" && is_unit(part))
}

/// The service of the system manager that contains this cgroup.
pub fn service_of(group: &str) -> Option<&str> {
    let at = group.split('/').position(|part| part.ends_with(".service"))?;
    let parts: Vec<&str> = group.split('/').take(at + 1).collect();
    let name = *parts.last()?;
    (is_unit(name) && is_systems(&parts.join("/")) && !name.starts_with("user@")).then_some(name)
}
