//! `unstarve fleet`: maintains the tables of many hosts in one directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// Keep the tables of many hosts in one store: merge small files, drop old hours, prove that no row is lost
///
/// STORE/hosts/v1 has what hosts wrote below `v1` with `unstarve watch --tables` or `snapshot --tables`, copied together. Any engine reads
/// STORE/merged/v1 at any moment; `unstarve sql` reads what is not merged yet, too.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve fleet compact /srv/unstarve --keep 30d      from a timer, each hour
  unstarve fleet status /srv/unstarve
  unstarve fleet verify /srv/unstarve                  reads everything
  unstarve fleet migrate /srv/old /srv/unstarve        tables of a version before 0.1.0, once

Exit code: 0 all is well, 1 something is wrong and was left alone (it is named), 2 the directory could not be used.")]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compact(CompactArgs),
    /// Read everything, and compare it with what the commits say: that merged rows are those of the hosts' files, and that nothing is missing
    Verify(PlaceArgs),
    /// Count hours, files, rows and bytes by table; reads commits, not rows
    Status(PlaceArgs),
    /// Copy tables of the layout before `v1` (`table=…` in the directory itself) into a store, with the types of today
    ///
    /// May be killed and run again; OLD stays as it is. Stop what merges or removes there before. `compact` merges what was copied.
    Migrate(MigrateArgs),
    /// Reads files that hosts wrote, for `compact` and `verify`: what a damaged one ends is only this process
    #[command(hide = true, name = "examine-files")]
    ExamineFiles,
}

/// Merge the files of each hour into a few sorted ones, below merged/v1
///
/// May be killed at any moment and run again: each row stays there once. A second one beside it is refused. A file with a column of a wrong
/// type is named and left alone.
#[derive(Args)]
struct CompactArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Leave an hour alone until this long after its end: hosts still write. Later files are merged when the hour is twice as old, or a
    /// day later; 0s merges each hour when it has ended, and late files at once
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    settle: Duration,
    /// Keep hosts' files for this long after they were merged: a reader may still have them open
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1h")]
    grace: Duration,
    /// Drop hours that are older: 30d
    #[arg(long, value_name = "TIME", value_parser = parse_keep)]
    keep: Option<Duration>,
}

#[derive(Args)]
struct PlaceArgs {
    /// The directory that has `hosts/v1` in it
    #[arg(value_name = "STORE")]
    directory: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct MigrateArgs {
    /// The directory that has `table=…` in it: a store of that version, or a host's directory
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The new store: an empty directory, one that this command or hosts have begun, or none yet (it is made)
    #[arg(value_name = "STORE")]
    new: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    unstarve_watch::config::parse_time(text, Some("s"))
}

fn parse_keep(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        keep if keep < Duration::from_secs(3600) => {
            Err(format!("`{text}`: hours are dropped as a whole; expected 1h at least"))
        }
        keep => Ok(keep),
    }
}

/// Without the feature `columnar`.
#[cfg(not(feature = "columnar"))]
pub fn run(args: &FleetArgs) -> anyhow::Result<std::process::ExitCode> {
    if let Command::Compact(CompactArgs { place, .. }) | Command::Verify(place) | Command::Status(place) = &args.command
    {
        let _ = (&place.directory, place.json);
    }
    if let Command::Migrate(args) = &args.command {
        let _ = (&args.old, &args.new, args.json);
    }
    anyhow::bail!("this unstarve was built without Parquet: build it with `make build` (cargo's feature columnar)")
}

#[cfg(feature = "columnar")]
pub use built::{open, run};

#[cfg(feature = "columnar")]
mod built {
    use std::path::{Path, PathBuf};
    use std::process::ExitCode;
    use std::time::SystemTime;

    use anyhow::{Context, Result};
    use serde::Serialize;
    use unstarve_files::ThisProgram;
    use unstarve_fleet::{
        Done, Holds, Migrated, Options, Problem, SandboxedDecode, Status, Store, Verified, compact, migrate, serve,
        status, verify,
    };
    use unstarve_model::WallTime;
    use unstarve_term::clean;

    use super::{Command, CompactArgs, FleetArgs, PlaceArgs};

    /// Problems were found and left unchanged.
    const EXIT_PROBLEMS: u8 = 1;

    /// Runs the subcommand.
    pub fn run(args: &FleetArgs) -> Result<ExitCode> {
        match &args.command {
            Command::Compact(args) => {
                let done = compact(&store(&args.place)?, &options(args)?)?;
                print_answer(&done, args.place.json, compact_text(&done), (&done.beside, &done.problems))
            }
            Command::Verify(place) => {
                let verified = verify(&store(place)?)?;
                print_answer(&verified, place.json, verified_text(&verified), (&verified.beside, &verified.problems))
            }
            Command::Status(place) => {
                let status = status(&store(place)?)?;
                print_answer(&status, place.json, table(&status), (&status.beside, &status.problems))
            }
            Command::Migrate(args) => {
                let migrated = migrate_into(&args.old, &args.new)?;
                print_answer(&migrated, args.json, migrated_text(&migrated), (&[], &migrated.problems))
            }
            Command::ExamineFiles => {
                serve(std::io::stdin().lock(), std::io::stdout().lock()).context("cannot answer")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// Makes the new store if there is none, and takes it away again if nothing can be copied.
    fn migrate_into(old: &Path, new: &Path) -> Result<Migrated> {
        use std::os::unix::fs::DirBuilderExt;

        let old = open(old)?;
        // Whatever the umask: a store that others may write is not believed.
        let is_made = match std::fs::DirBuilder::new().mode(0o755).create(new) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", new.display())),
        };
        let migrated = open(new).and_then(|store| Ok(migrate(&old, &store)?));
        if migrated.is_err() && is_made {
            // One in which something was copied is not empty, and stays.
            let _ = std::fs::remove_dir(new);
        }
        migrated
    }

    /// A directory; a child process reads its files.
    ///
    /// # Errors
    /// If it cannot be opened, or this program's own file cannot be found.
    pub fn open(directory: &Path) -> Result<Store> {
        let program = ThisProgram::find().context("this program's own file")?;
        let apart = SandboxedDecode::new(move || {
            let mut command = program.command();
            command.args(["fleet", "examine-files"]);
            command
        });
        Ok(Store::open(directory)?.examined_by(Box::new(apart)))
    }

    /// The store.
    fn store(place: &PlaceArgs) -> Result<Store> {
        let store = open(&place.directory)?;
        if store.holds()? == Holds::Nothing {
            note!(
                "{}: there are no tables yet; hosts write them with `unstarve watch --tables`, and their `v1` is copied to `hosts/v1` here",
                clean(&place.directory.display().to_string())
            );
        }
        Ok(store)
    }

    fn options(args: &CompactArgs) -> Result<Options> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
        let now = WallTime(u64::try_from(now.as_nanos()).context("the clock is after 2500")?);
        Ok(Options { now, settle: args.settle, grace: args.grace, keep: args.keep })
    }

    fn print_answer(
        answer: &impl Serialize,
        is_json: bool,
        text: String,
        (beside, problems): (&[PathBuf], &[Problem]),
    ) -> Result<ExitCode> {
        if is_json {
            say!("{}", serde_json::to_string_pretty(answer)?);
        } else {
            say!("{}", text.trim_end());
            if let Some(text) = beside_text(beside) {
                note!("{text}");
            }
            for problem in problems {
                let more = match problem.more {
                    0 => String::new(),
                    more => format!("; and {more} more like this"),
                };
                note!("{}: {}{more}", clean(&problem.path.display().to_string()), clean(&problem.why));
            }
        }
        Ok(ExitCode::from(if problems.is_empty() { 0 } else { EXIT_PROBLEMS }))
    }

    /// Not reported as a problem: `unstarve sql` reads it too.
    fn beside_text(beside: &[PathBuf]) -> Option<String> {
        let first = clean(&beside.first()?.display().to_string()).into_owned();
        let others = match beside.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        Some(format!(
            "{first}{others}: beside the tables, left alone; if hosts wrote it, put it into hosts/v1/table=…/date=…/hour=…"
        ))
    }

    fn compact_text(done: &Done) -> String {
        let mut text = match done.inputs {
            0 if done.hours == 0 => "nothing to merge\n".to_owned(),
            _ => merged(done),
        };
        if done.waiting > 0 {
            let until = done.waiting_until.map_or_else(String::new, |at| {
                format!(", the first from {} {} UTC on", at.date(), at.to_string().get(11..16).unwrap_or_default())
            });
            text += &format!(
                "{} of hours that go on or have just ended left for a later run{until} (--settle)\n",
                count(done.waiting, "file")
            );
        }
        if done.dropped > 0 {
            text += &format!("{} dropped\n", count(done.dropped, "hour"));
        }
        if done.removed > 0 {
            text += &format!("{} removed that did not count any more\n", count(done.removed, "file"));
        }
        if done.finished > 0 {
            text += &format!("{} of a run that was stopped finished\n", count(done.finished, "commit"));
        }
        text
    }

    fn merged(done: &Done) -> String {
        format!(
            "{} merged: {} files of hosts, {} rows, {} → {} files, {}\n",
            count(done.hours, "hour"),
            done.inputs,
            done.rows,
            size(done.input_bytes),
            done.outputs,
            size(done.output_bytes)
        )
    }

    fn migrated_text(migrated: &Migrated) -> String {
        let mut text = format!("{} copied, {} rows\n", count(migrated.files, "file"), migrated.rows);
        if migrated.done_before > 0 {
            text += &format!("{} copied by an earlier run\n", count(migrated.done_before, "file"));
        }
        text
    }

    fn verified_text(verified: &Verified) -> String {
        let mut text = format!(
            "read: {} in {} of {}\n",
            count(verified.rows, "merged row"),
            count(verified.outputs, "file"),
            count(verified.hours, "hour")
        );
        let files = |number: u64, what: &str| match number {
            0 => String::new(),
            number => format!("{} {what}\n", count(number, "file")),
        };
        text += &files(verified.inputs, "of hosts from which these rows came: still there, read and compared");
        text += &files(
            verified.inputs_gone,
            "of hosts from which these rows came: removed since; compared with their rows and sums in the commits",
        );
        text += &files(verified.loose, "of hosts not merged yet: read");
        text + if verified.problems.is_empty() { "no row is lost, none is there twice" } else { "something is wrong:" }
    }

    fn table(status: &Status) -> String {
        if status.tables.is_empty() {
            return "no tables".to_owned();
        }
        let mut text = format!(
            "{:<14} {:>6} {:>7} {:>12} {:>10}  {:>18}  {:>18}  {:>18}  {:>7}\n",
            "table", "hours", "files", "rows", "size", "not merged yet", "kept for readers", "garbage", "dropped"
        );
        for (name, table) in &status.tables {
            let files = |count: u64, bytes: u64| {
                if count == 0 { "–".to_owned() } else { format!("{count} ({})", size(bytes)) }
            };
            text += &format!(
                "{:<14} {:>6} {:>7} {:>12} {:>10}  {:>18}  {:>18}  {:>18}  {:>7}\n",
                clean(name),
                table.hours,
                table.files,
                table.rows,
                size(table.bytes),
                files(table.loose, table.loose_bytes),
                files(table.superseded, table.superseded_bytes),
                files(table.garbage, table.garbage_bytes),
                table.dropped
            );
        }
        text
    }

    fn count(count: u64, word: &str) -> String {
        format!("{count} {word}{}", if count == 1 { "" } else { "s" })
    }

    fn size(bytes: u64) -> String {
        match bytes {
            0..1_000 => format!("{bytes} B"),
            1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
            _ => format!("{:.2} GB", bytes as f64 / 1e9),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A new store is made where its parent is, and nothing is left of one into which nothing can be copied.
        #[test]
        fn a_migration_makes_its_store() {
            let place = tempfile::tempdir().expect("a place for files");
            let [old, new] = ["old", "new"].map(|name| place.path().join(name));
            std::fs::create_dir(&old).expect("it can be made");
            assert!(migrate_into(&old, &new).is_err() && !new.exists(), "there are no tables");
            std::fs::create_dir(old.join("table=hosts")).expect("it can be made");
            let why = migrate_into(&old, &new.join("deeper")).expect_err("its parent is not there").to_string();
            assert!(why.contains("cannot make"), "{why}");
            assert_eq!(migrate_into(&old, &new).expect("it is made").problems, []);
            assert!(new.join("state/migration.json").exists());
        }
    }
}
