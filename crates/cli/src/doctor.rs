//! `unstarve doctor`: what this host and the user's rights allow.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_executor::registry::Registry;
use unstarve_facts::{Allowed, Availability, Capability};
use unstarve_host::{Root, allows};
use unstarve_term::doctor_page;
use unstarve_watch::EngineName;

use crate::output::{self, Color, Out};

/// Show what this host and your rights on it allow, what is missing, and how to get it
///
/// Tries a tracing instance and the eBPF programs of watch and guard, and removes them at once. Also removes instances that
/// killed recorders left. Changes nothing else.
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

/// `unstarve.doctor/1`; additions only.
#[derive(Serialize, JsonSchema)]
pub struct Doctor {
    schema: &'static str,
    /// In the order of the page.
    allowed: Vec<Allowed>,
}

pub fn run(args: &DoctorArgs, color: Color) -> Result<ExitCode> {
    let (mut found, rest): (Vec<Allowed>, Vec<Allowed>) =
        allows(&Root::host()).into_iter().partition(|allowed| allowed.id == Capability::Kernel);
    found.extend([record(), count(), guard()]);
    found.extend(rest);
    let lacks = found.iter().any(|allowed| allowed.id.is_required() && allowed.state != Availability::Full);
    let text = match args.json {
        true => output::sorted_json(&Doctor { schema: "unstarve.doctor/1", allowed: found })?,
        false => doctor_page(&found, output::look(color)),
    };
    Out::new().text(&text)?;
    Ok(ExitCode::from(u8::from(lacks)))
}

fn record() -> Allowed {
    const MISSING_EFFECT: &str =
        "record, top and watch's recorder; recordings of perf and trace-cmd can be explained all the same";
    match unstarve_record::attempt() {
        Ok(0) => Allowed::yes(Capability::Record, "tracefs has given an instance with sched_switch"),
        Ok(left) => Allowed::yes(
            Capability::Record,
            format!(
                "tracefs has given an instance with sched_switch; {} of killed recorders removed",
                output::counted(left as u64, "instance")
            ),
        ),
        Err(error) => {
            Allowed::no(Capability::Record, format!("{:#}", anyhow::Error::from(error)), MISSING_EFFECT, sudo_advice())
        }
    }
}

fn count() -> Allowed {
    const MISSING_EFFECT: &str =
        "watch and top count by tracefs, at some percent of a CPU; the guard learns of births later";
    let options = unstarve_watch::Options { engine: Some(EngineName::Ebpf), ..unstarve_watch::Options::default() };
    match unstarve_watch::open(options) {
        Ok(_) => Allowed::yes(Capability::Count, "the kernel has taken the eBPF programs"),
        Err(error) => {
            Allowed::no(Capability::Count, format!("{:#}", anyhow::Error::from(error)), MISSING_EFFECT, sudo_advice())
        }
    }
}

fn guard() -> Allowed {
    const MISSING_EFFECT: &str =
        "guard learns of births by netlink or by looking again, and of what workers work on later";
    match unstarve_guard::task_events::attempt() {
        Ok(gaps) if gaps.is_empty() => match Registry::has_a_place() {
            Ok(()) => Allowed::yes(Capability::Guard, "the kernel has taken the guard's eBPF programs"),
            Err(error) => Allowed::part(
                Capability::Guard,
                format!("the kernel has taken the guard's eBPF programs; {error}"),
                "if guard and dead-man are killed together, children whose parents have ended keep what they inherited",
                Some("mount -t bpf -o mode=700 bpf /sys/fs/bpf".to_owned()),
            ),
        },
        Ok(gaps) => Allowed::part(Capability::Guard, gaps.join("; "), MISSING_EFFECT, sudo_advice()),
        Err(reason) => Allowed::no(Capability::Guard, reason, MISSING_EFFECT, sudo_advice()),
    }
}

/// Root gets no advice: the kernel's error says it all.
fn sudo_advice() -> Option<String> {
    (!rustix::process::geteuid().is_root())
        .then(|| "run it with sudo; in a container add the capabilities of the unit file".to_owned())
}
