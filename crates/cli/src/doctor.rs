//! `unstarve doctor`: what this host and the user's rights allow.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use unstarve_executor::registry::Registry;
use unstarve_facts::{Allowed, Availability};
use unstarve_host::{Root, allows};
use unstarve_term::doctor_page;
use unstarve_watch::EngineName;

use crate::output::{self, Color, Out};

/// Show what this host and your rights on it allow, what is missing, and how to get it
///
/// Tries a tracing instance, the counting programs and the guard's, and removes all at once, and
/// instances that killed recorders left. Changes nothing else.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo unstarve doctor
  unstarve doctor --json        schema unstarve.doctor/1

Exit code: 0 nothing is missing that `record`, `watch` or `fix` need, 1 something is, 2 it could not be found out.")]
pub struct DoctorArgs {
    /// As JSON (schema unstarve.doctor/1)
    #[arg(long)]
    json: bool,
}

/// Without one of these the exit code is 1; the others only make answers more complete.
const REQUIRED_CAPABILITIES: [&str; 4] = ["kernel", "record", "count", "change"];

pub fn run(args: &DoctorArgs, color: Color) -> Result<ExitCode> {
    let mut found = vec![record(), count(), guard()];
    let seen = allows(&Root::host());
    found.splice(0..0, seen.iter().filter(|allowed| allowed.id == "kernel").cloned());
    found.extend(seen.into_iter().filter(|allowed| allowed.id != "kernel"));
    let text = match args.json {
        true => {
            serde_json::to_string_pretty(&serde_json::json!({ "schema": "unstarve.doctor/1", "allowed": found }))?
                + "\n"
        }
        false => doctor_page(&found, output::look(color)),
    };
    Out::new().text(&text)?;
    let lacks =
        found.iter().any(|allowed| REQUIRED_CAPABILITIES.contains(&allowed.id) && allowed.state != Availability::Full);
    Ok(ExitCode::from(u8::from(lacks)))
}

fn record() -> Allowed {
    const MISSING_EFFECT: &str =
        "record, top and watch's recorder; recordings of perf and trace-cmd can be explained all the same";
    match unstarve_record::attempt() {
        Ok(0) => Allowed::yes("record", "tracefs has given an instance with sched_switch"),
        Ok(left) => Allowed::yes(
            "record",
            format!(
                "tracefs has given an instance with sched_switch; {} of killed recorders removed",
                output::counted(left as u64, "instance")
            ),
        ),
        Err(error) => Allowed::no("record", format!("{:#}", anyhow::Error::from(error)), MISSING_EFFECT, sudo_advice()),
    }
}

fn count() -> Allowed {
    const MISSING_EFFECT: &str =
        "watch and top count by tracefs, at some percent of a CPU; the guard learns of births later";
    let options = unstarve_watch::Options { engine: Some(EngineName::Ebpf), ..unstarve_watch::Options::default() };
    match unstarve_watch::open(options) {
        Ok(_) => Allowed::yes("count", "the kernel has taken the eBPF programs"),
        Err(error) => Allowed::no("count", format!("{:#}", anyhow::Error::from(error)), MISSING_EFFECT, sudo_advice()),
    }
}

fn guard() -> Allowed {
    const MISSING_EFFECT: &str =
        "guard learns of births by netlink or by looking again, and of what workers work on later";
    match unstarve_guard::task_events::attempt() {
        Ok(gaps) if gaps.is_empty() => match Registry::has_a_place() {
            Ok(()) => Allowed::yes("guard", "the kernel has taken the guard's eBPF programs"),
            Err(error) => Allowed::part(
                "guard",
                format!("the kernel has taken the guard's eBPF programs; {error}"),
                "if guard and dead-man are killed together, children whose parents have ended keep what they inherited",
                Some("mount -t bpf -o mode=700 bpf /sys/fs/bpf".to_owned()),
            ),
        },
        Ok(gaps) => Allowed::part("guard", gaps.join("; "), MISSING_EFFECT, sudo_advice()),
        Err(reason) => Allowed::no("guard", reason, MISSING_EFFECT, sudo_advice()),
    }
}

/// Root gets no advice: the kernel's error says it all.
fn sudo_advice() -> Option<String> {
    (!rustix::process::geteuid().is_root())
        .then(|| "run it with sudo; in a container add the capabilities of the unit file".to_owned())
}
