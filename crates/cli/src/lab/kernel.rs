//! `unstarve lab kernel` and `unstarve lab qemu`: manages the kernels and the QEMU of guests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use unstarve_lab::store::{self, Cache, KernelInfo, Wanted};

/// Add kernels to the lab, list them, remove them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab kernel add 6.12                              Debian's newest 6.12, through apt
  unstarve lab kernel add 5.10 6.1 6.12 7                   all four
  unstarve lab kernel add 6.12.43 7.2.12-rt                 point releases that the archive still serves
  unstarve lab kernel add ./bzImage --modules /lib/modules/6.9.0-mine --name mine
  unstarve lab kernel list")]
pub(crate) struct KernelArgs {
    #[command(subcommand)]
    command: KernelCommand,
}

#[derive(Subcommand, Debug)]
enum KernelCommand {
    /// Fetch a Debian kernel (5.10, 6.1, 6.12 or 7), or several, or copy one of your own; the host's packages stay as they are
    Add {
        /// 5.10, 6.1, 6.12, 7, a point release such as 6.12.43, each with -rt for PREEMPT_RT, or a bzImage; several of Debian's may be
        /// named
        #[arg(value_name = "VERSION|FILE", required = true)]
        kernels: Vec<String>,
        /// The modules of a kernel of your own: a directory such as /lib/modules/VERSION
        #[arg(long, value_name = "DIR")]
        modules: Option<PathBuf>,
        /// What to call a kernel of your own (its release, if not given)
        #[arg(long)]
        name: Option<String>,
    },
    /// List the point releases that Debian's archive serves, by series
    Available,
    /// List the kernels in the lab
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a kernel
    Remove {
        /// Its name in the list
        name: String,
    },
}

/// Fetch a QEMU for the lab alone
#[derive(Args, Debug)]
pub(crate) struct QemuArgs {
    #[command(subcommand)]
    command: QemuCommand,
}

#[derive(Subcommand, Debug)]
enum QemuCommand {
    /// Fetch QEMU 10 or later through apt; the host's packages stay as they are
    Add,
}

pub(crate) fn run(args: KernelArgs) -> anyhow::Result<ExitCode> {
    let cache = Cache::of_user()?;
    match args.command {
        KernelCommand::Add { kernels, modules, name } => {
            if kernels.len() > 1 && (modules.is_some() || name.is_some()) {
                anyhow::bail!("--modules and --name are for one kernel of your own; {} are named", kernels.len());
            }
            if let Some(unknown) = kernels.iter().find(|kernel| !can_be_added(kernel)) {
                anyhow::bail!("{unknown}: {}", what_can_be_added());
            }
            if let Some(release) = kernels.iter().find(|kernel| store::is_point_release(kernel))
                && (modules.is_some() || name.is_some())
            {
                anyhow::bail!("{release} is one of Debian's: --modules and --name are for a file, ./{release}");
            }
            for kernel in kernels {
                let info =
                    store::add(&cache, &Wanted::named(&kernel, name.clone(), modules.clone()), &mut print_progress)?;
                say!("{}", row(&info));
            }
        }
        KernelCommand::Available => {
            for series in by_series(&store::available(&cache, &mut print_progress)?) {
                say!("{series}");
            }
        }
        KernelCommand::List { json: true } => {
            say!("{}", serde_json::to_string_pretty(&store::list(&cache)?)?);
        }
        KernelCommand::List { json: false } => {
            for info in store::list(&cache)? {
                say!("{}", row(&info));
            }
        }
        KernelCommand::Remove { name } => store::remove(&cache, &name)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each series: `6.12  6.12.43 6.12.57`, and for those with PREEMPT_RT.
fn by_series(names: &[String]) -> Vec<String> {
    let mut lines: BTreeMap<(Vec<u32>, bool), Vec<&str>> = BTreeMap::new();
    for name in names {
        let (version, is_rt) = name.strip_suffix("-rt").map_or((name.as_str(), false), |version| (version, true));
        let series = version.split('.').take(2).filter_map(|part| part.parse().ok()).collect();
        lines.entry((series, is_rt)).or_default().push(name);
    }
    let line = |((series, is_rt), names): ((Vec<u32>, bool), Vec<&str>)| {
        let series: Vec<String> = series.iter().map(u32::to_string).collect();
        let series = format!("{}{}", series.join("."), if is_rt { "-rt" } else { "" });
        format!("{series:<8} {}", names.join(" "))
    };
    lines.into_iter().map(line).collect()
}

/// Whether it names one of Debian's kernels, or an existing file.
fn can_be_added(kernel: &str) -> bool {
    let is_debians = Wanted::suites().iter().any(|(name, _)| *name == kernel) || store::is_point_release(kernel);
    is_debians || Path::new(kernel).exists()
}

fn what_can_be_added() -> String {
    let suites: Vec<String> = Wanted::suites().iter().map(|(name, suite)| format!("{name} (Debian {suite})")).collect();
    format!(
        "no such kernel to add and no such file. What can be added: {}; a point release that `unstarve lab kernel available` lists; or a bzImage of any other version: unstarve lab kernel \
         add ./bzImage --modules /lib/modules/VERSION --name NAME",
        suites.join(", ")
    )
}

pub(crate) fn run_qemu(args: QemuArgs) -> anyhow::Result<ExitCode> {
    let QemuCommand::Add = args.command;
    let version = store::add_qemu(&Cache::of_user()?, &mut print_progress)?;
    say!("QEMU {version}");
    Ok(ExitCode::SUCCESS)
}

fn print_progress(what: &str) {
    note!("unstarve: {what}");
}

fn row(info: &KernelInfo) -> String {
    format!("{:<8} {:<34} {}", info.name, info.release, info.package())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_no_suite_has_is_told_what_there_is() {
        assert!(can_be_added("6.12") && can_be_added("7") && can_be_added("6.12.43-rt"));
        let names = ["6.1.170", "6.1.170-rt", "6.12.43", "6.12.57", "7.0.4"].map(str::to_owned);
        let lines = ["6.1      6.1.170", "6.1-rt   6.1.170-rt", "6.12     6.12.43 6.12.57", "7.0      7.0.4"];
        assert_eq!(by_series(&names), lines);
        assert!(!can_be_added("6.6") && !can_be_added("7.2"));
        let text = what_can_be_added();
        assert!(
            Wanted::suites().iter().all(|(name, suite)| text.contains(&format!("{name} (Debian {suite})"))),
            "{text}"
        );
    }
}
