//! Performs the setup steps of a scenario.

use std::ffi::CString;
use std::fs;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount};

use super::{GuestError, cgroup, device, keeper, write};
use crate::scenario::Action;

/// Does one step.
pub(super) fn perform(action: &Action) -> Result<(), GuestError> {
    match action {
        Action::NullBlk { devices, size_mib, completion_ns } => {
            device::make_null_blocks(*devices, *size_mib, *completion_ns)
        }
        Action::Filesystem { device, kind, at } => make_filesystem(device, kind, at),
        Action::Mount { source, kind, at, options } => mount_plain(source, kind, at, options),
        Action::Cgroup { path, weight, max, cpus, set } => {
            let weight = weight.map(|weight| weight.to_string());
            let named =
                [("cpu.weight", weight.as_deref()), ("cpu.max", max.as_deref()), ("cpuset.cpus", cpus.as_deref())];
            let named = named.into_iter().filter_map(|(file, text)| Some((file, text?)));
            cgroup::make(path, named.chain(set.iter().map(|(file, text)| (file.as_str(), text.as_str()))))
        }
        Action::Write { path, text } => write(path, text),
        Action::Run { argv } => run_to_end(argv),
        Action::Threads { .. } => keeper::apply_once(action),
        // Started once everything else is ready: see `guard`.
        Action::Guard { .. } => Ok(()),
    }
}

fn make_filesystem(device: &str, kind: &str, at: &str) -> Result<(), GuestError> {
    let options: &[&str] = match kind {
        "xfs" => &["-q", "-f", "-K"],
        // Otherwise a kernel thread would do this work later, during the measurement.
        "ext4" => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        _ => return Err(GuestError(format!("filesystem: `{kind}` is not known"))),
    };
    let mut argv = vec![format!("mkfs.{kind}")];
    argv.extend(options.iter().map(|option| (*option).to_owned()));
    argv.push(device.to_owned());
    run_to_end(&argv)?;
    fs::create_dir_all(at).map_err(GuestError::doing(at))?;
    mount(device, at, kind, MountFlags::empty(), c"")
        .map_err(|errno| GuestError(format!("cannot mount {device} ({kind}) on {at}: {errno}")))
}

fn mount_plain(source: &str, kind: &str, at: &str, options: &str) -> Result<(), GuestError> {
    fs::create_dir_all(at).map_err(GuestError::doing(at))?;
    let text = CString::new(options).map_err(|_| GuestError(format!("mount {at}: options with a zero byte")))?;
    mount(source, at, kind, MountFlags::empty(), text.as_c_str())
        .map_err(|errno| GuestError(format!("cannot mount {source} ({kind}) on {at}: {errno}")))
}

fn run_to_end(argv: &[String]) -> Result<(), GuestError> {
    let (program, arguments) = argv.split_first().ok_or_else(|| GuestError("run: no program".into()))?;
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/bin")
        .stdin(Stdio::null())
        .output()
        .map_err(GuestError::doing(format_args!("cannot run `{program}` (is it among the scenario's tools?)")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(GuestError(format!("`{}`: {}: {}", argv.join(" "), output.status, output_excerpt(&said))))
}

/// The first and last lines of a program's output, on one line.
pub(super) fn output_excerpt(said: &str) -> String {
    const LINES_AT_EACH_END: usize = 3;
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => "it said nothing".to_owned(),
        all if all <= 2 * LINES_AT_EACH_END => lines.join("; "),
        all => format!("{}; …; {}", lines[..LINES_AT_EACH_END].join("; "), lines[all - LINES_AT_EACH_END..].join("; ")),
    }
}
