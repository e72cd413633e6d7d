//! `unstarve check`: which settings of a host will starve threads.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use unstarve_check::{RULES, Severity, audit, audit_upgrade, sarif};
use unstarve_facts::Version;
use unstarve_term::{Look, audit_full_page, audit_page, audit_shell, rules_page};

use crate::evidence;
use crate::fail_on::FailOn;
use crate::output::{self, Color, Out};
use crate::pager;
use crate::snapshot;

/// Show which settings of a host will starve threads, what that would cost, and the fix
///
/// Checks this host, or a snapshot of another (`unstarve snapshot`). Changes nothing and records nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo unstarve check
  unstarve check --snapshot host.json --json --fail-on warning
  unstarve check sosreport-db7.tar.xz
  unstarve check --upgrade-to 6.12
  unstarve check --full

Exit code: 0 nothing at or above --fail-on, 1 something, 2 the check failed.")]
pub struct LowArgs {
    /// A bundle with texts of another host: a directory, an archive, or a file of uname, sysctl, ps and cgroups. What it lacks is
    /// named, and no rule is judged by it
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["snapshot", "root", "rules"])]
    bundle: Option<PathBuf>,
    /// A snapshot instead of this host; - is standard input
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Where this host's /proc, /sys and /etc are
    #[arg(long, value_name = "DIRECTORY", default_value = "/", conflicts_with = "snapshot")]
    root: PathBuf,
    /// Show what another kernel would change for this host: settings lost or moved, new defaults, problems new or gone.
    /// 6.12.107, 6.12, or 7 for the newest known series of 7
    #[arg(long, value_name = "VERSION")]
    upgrade_to: Option<String>,
    /// Show all items with their evidence, fixes and sources
    #[arg(long, conflicts_with_all = ["json", "sarif", "form"])]
    full: bool,
    /// Print the fixes as commands for a shell, each with its undo
    #[arg(long = "as", value_enum, value_name = "FORM", id = "form", conflicts_with_all = ["json", "sarif"])]
    form: Option<CommandForm>,
    /// Print JSON (schema unstarve.check/1)
    #[arg(long)]
    json: bool,
    /// Print SARIF 2.1.0, which code hosts and CI systems show
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
    /// List the rules, with reasons and sources
    #[arg(long, conflicts_with_all = ["snapshot", "json", "sarif", "full", "form"])]
    rules: bool,
    /// Exit with 1 if something is of at least this severity
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "critical")]
    fail_on: FailOn,
}

/// The checked arguments.
pub struct HiArgs {
    what: What,
    upgrade_to: Option<Version>,
    form: Form,
    fail_on: Option<Severity>,
}

enum What {
    Rules,
    Host(PathBuf),
    Snapshot(PathBuf),
    Bundle(PathBuf),
}

/// `--as`, as typed.
#[derive(Clone, Copy, ValueEnum)]
enum CommandForm {
    Shell,
}

enum Form {
    Page(Look),
    Full(Look),
    Shell,
    Json,
    Sarif,
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self, color: Color) -> Result<HiArgs> {
        let what = match self.snapshot {
            _ if self.rules => What::Rules,
            Some(file) => What::Snapshot(file),
            None => match self.bundle {
                Some(bundle) if is_version(&bundle) && !bundle.exists() => {
                    bail!(
                        "there is no {0}; what an upgrade to it changes: unstarve check --upgrade-to {0}",
                        bundle.display()
                    )
                }
                Some(bundle) => What::Bundle(bundle),
                None => What::Host(self.root),
            },
        };
        let upgrade_to = self.upgrade_to.map(|text| Version::named(&text)).transpose().context("--upgrade-to")?;
        Ok(HiArgs {
            what,
            upgrade_to,
            form: match self.form {
                Some(CommandForm::Shell) => Form::Shell,
                None if self.json => Form::Json,
                None if self.sarif => Form::Sarif,
                None if self.full => Form::Full(output::look(color)),
                None => Form::Page(output::look(color)),
            },
            fail_on: self.fail_on.severity(),
        })
    }
}

fn is_version(path: &Path) -> bool {
    path.to_str().is_some_and(|text| Version::named(text).is_ok())
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let snapshot = match &args.what {
        What::Rules => {
            Out::new().text(&rules_page(&RULES, output::look(Color::Never)))?;
            return Ok(ExitCode::SUCCESS);
        }
        What::Host(root) => snapshot::take(root)?,
        What::Snapshot(file) => snapshot::read(file)?,
        What::Bundle(path) => evidence::settings_of(path)?,
    };
    let audit = match args.upgrade_to {
        Some(version) => audit_upgrade(&snapshot, version),
        None => audit(&snapshot),
    };
    let text = match args.form {
        Form::Json => serde_json::to_string_pretty(&audit)? + "\n",
        Form::Sarif => serde_json::to_string_pretty(&sarif(&audit, env!("CARGO_PKG_VERSION")))? + "\n",
        Form::Page(look) => audit_page(&audit, look),
        Form::Full(look) => audit_full_page(&audit, look),
        Form::Shell => audit_shell(&audit),
    };
    let failed = args.fail_on.is_some_and(|limit| audit.reaches(limit));
    output::will_end_with(u8::from(failed));
    pager::print(&text)?;
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
