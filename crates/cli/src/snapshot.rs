//! `unstarve snapshot`: saves a host's scheduling settings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_facts::Snapshot;
use unstarve_files::whole::{Limit, read_text, text_of};
use unstarve_host::Root;

use crate::output::remark;
use crate::tables;
use crate::target::Target;

/// Save all settings of this host that affect scheduling, for `unstarve check` here or elsewhere
///
/// Reads /proc, /sys and the files of sysctl, TuneD and systemd; changes nothing. Works without root and inside a container. The
/// file and standard error list what could not be seen.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo unstarve snapshot -o host.json
  sudo unstarve snapshot --tables /var/lib/unstarve/tables
  sudo unstarve snapshot --redact | ssh me@desk unstarve check --snapshot -
  docker run -v /:/host:ro … unstarve snapshot --root /host")]
pub struct SnapshotArgs {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Leave out command lines, and replace names of programs, units, cgroups and mounts by pseudonyms, to pass it on
    #[arg(long)]
    redact: bool,
    /// Where the host's /proc, /sys and /etc are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
    /// Write it as rows of the tables hosts and settings (Parquet) below this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    tables: Option<PathBuf>,
}

pub fn run(args: SnapshotArgs) -> Result<ExitCode> {
    if let Some(directory) = &args.tables {
        // A pseudonym that is the same everywhere would be none.
        let machine_id = if args.redact { None } else { unstarve_host::machine_id(&Root::at(&args.root)) };
        tables::write_host(directory, &taken(&args)?, machine_id.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let target = Target::open(&args.output)?;
    let snapshot = taken(&args)?;
    target.text(&(snapshot.to_json() + "\n"))?;
    target.deliver()?;
    Ok(ExitCode::SUCCESS)
}

fn taken(args: &SnapshotArgs) -> Result<Snapshot> {
    let snapshot = take(&args.root)?;
    let snapshot = if args.redact { snapshot.redacted() } else { snapshot };
    for missing in &snapshot.missing {
        remark(&format!("not in the snapshot: {}: {}", missing.what, missing.why));
    }
    Ok(snapshot)
}

/// Takes a snapshot of the host below `root`.
pub fn take(root: &Path) -> Result<Snapshot> {
    let place = Root::at(root);
    if let Err(error) = place.check() {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                bail!("{}: there is no proc in it; expected the root directory of a host", root.display())
            }
            _ => return Err(error).with_context(|| format!("cannot read a host below {}", root.display())),
        }
    }
    Ok(unstarve_host::take_whole(&place))
}

/// Enough for half a million threads.
const SNAPSHOT_LIMIT: Limit =
    Limit { bytes: 256 << 20, expected: "a host snapshot; make one with unstarve snapshot -o host.json" };

/// Reads a snapshot from a file, or from standard input for `-`.
pub fn read(file: &Path) -> Result<Snapshot> {
    let named = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let text = if file == Path::new("-") {
        text_of(std::io::stdin().lock(), Path::new("standard input"), SNAPSHOT_LIMIT)?
    } else {
        read_text(file, SNAPSHOT_LIMIT)?
    };
    Snapshot::from_json(&text)
        .with_context(|| named.clone())
        .with_context(|| format!("{named} is no snapshot; make one with unstarve snapshot -o host.json"))
}
