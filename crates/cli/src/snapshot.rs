use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_kernel::{Root, Snapshot};

use crate::output::{Out, remark};

/// Write down everything about this host that decides who runs, for `unstarve check` here or elsewhere
///
/// Reads /proc, /sys and the files of sysctl, TuneD and systemd; changes nothing. Works without root and inside a container;
/// what could not be seen is in the file and on standard error.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo unstarve snapshot -o host.json
  sudo unstarve snapshot --redact | ssh me@desk unstarve check --snapshot -
  docker run -v /:/host:ro … unstarve snapshot --root /host")]
pub struct SnapshotArgs {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// For somebody else: no command lines; names of programs, units, cgroups and mounts become pseudonyms
    #[arg(long)]
    redact: bool,
    /// Where the host's /proc, /sys and /etc are
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
}

pub fn run(args: SnapshotArgs) -> Result<ExitCode> {
    let snapshot = take(&args.root)?;
    let snapshot = if args.redact { snapshot.redacted() } else { snapshot };
    for missing in &snapshot.missing {
        remark(&format!("not in the snapshot: {}: {}", missing.what, missing.why));
    }
    let text = snapshot.to_json() + "\n";
    if args.output == Path::new("-") {
        Out::new().text(&text)?;
    } else {
        write_beside(&args.output, &text).with_context(|| format!("cannot write {}", args.output.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of the host below `root`.
pub fn take(root: &Path) -> Result<Snapshot> {
    let place = Root::at(root);
    if !place.path("/proc").is_dir() {
        bail!("{}: there is no proc in it; expected the root directory of a host", root.display());
    }
    Ok(Snapshot::take_whole(&place))
}

/// A snapshot from a file, or from standard input for `-`.
pub fn read(file: &Path) -> Result<Snapshot> {
    let named = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("cannot read {named}"))?;
    Snapshot::from_json(&text)
        .with_context(|| named.clone())
        .with_context(|| format!("{named} is no snapshot; make one with unstarve snapshot -o host.json"))
}

/// Whole or not at all: beside it first, then under its name.
pub fn write_beside(file: &Path, text: &str) -> Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().context("it has no name")?;
    let beside = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = std::fs::File::create(&beside).and_then(|mut out| {
        out.write_all(text.as_bytes())?;
        out.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&beside, file));
    if done.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    Ok(done?)
}
