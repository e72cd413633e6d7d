//! `unstarve record`: records scheduler events into a trace.dat.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::output::{hint_at_root, shown};
use clap::Args;
use unstarve_files::trust::for_a_shell;
use unstarve_model::Nanos;
use unstarve_record::{
    BufferSize, CommandEnd, Events, Full, Names, Notice, Options, Progress, Recording, Salvage, Salvaged, Until,
    record, salvage,
};

/// Record what the scheduler does, for `unstarve explain`
///
/// Needs root. Ends after the given time, with the command, or on Ctrl-C. The file is an ordinary trace.dat, which
/// trace-cmd and KernelShark open, with the host's settings inside.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  sudo unstarve record --for 10s
  sudo unstarve record --io -o fio.dat -- fio job.fio
  sudo unstarve record --salvage /var/tmp

Exit code: that of CMD, else 0; 2 if nothing could be recorded.")]
pub struct RecordArgs {
    /// The file to write [default: unstarve.dat]
    #[arg(short, long, value_name = "FILE", value_parser = parse_output)]
    output: Option<PathBuf>,

    /// How long: 500ms, 10s, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "command")]
    time: Option<Duration>,

    /// Record block I/O too (queueing, issue and completion of each request): who waits for a starved thread through a device
    #[arg(long)]
    io: bool,

    /// Record also what `unstarve predict` would have to guess: block I/O, timers, the CPUs' own interrupts, moves to other cgroups
    #[arg(long)]
    predictable: bool,

    /// Kernel memory for each CPU's events: 4M, 64M [default: 16M, less on small machines]
    #[arg(long, value_name = "SIZE", value_parser = parse_kib)]
    buffer_size: Option<u32>,

    /// Stop when the file reaches this size: 500M, 2G [default: before the disk is full]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,

    /// Replace names of processes, cgroups, mounts and the host by pseudonyms; kernel threads keep theirs
    #[arg(long)]
    redact: bool,

    /// Record nothing; recover recordings that killed recorders left in a directory [default: the current one]
    #[arg(
        long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".",
        conflicts_with_all = ["time", "io", "predictable", "buffer_size", "max_size", "redact", "command"]
    )]
    salvage: Option<PathBuf>,

    /// Run this and record until it ends
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Records and prints a summary.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    if let Some(from) = &args.salvage {
        return run_salvage(from, args.output.as_deref()).map_err(hint_at_root);
    }
    let options = args.options();
    let shows_progress = io::stderr().is_terminal();
    let whole = match options.until {
        Until::Elapsed(time) => Some(time),
        _ => None,
    };
    let mut listener = |progress: Progress| show_progress(progress, whole);
    let mut notices = |notice: Notice| note!("unstarve: {notice}");
    let listener = shows_progress.then_some(&mut listener as &mut dyn FnMut(Progress));
    let recording = record(&options, &mut notices, listener)?;
    if shows_progress {
        crate::output::print_error(format_args!("\r\x1b[K"));
    }
    crate::output::print_error(format_args!("{}", summary(&recording)));
    if let Some(verdict) = verdict(&recording) {
        note!("{verdict}");
    }
    note!("next: unstarve explain {}", for_a_shell(&recording.path));
    Ok(exit_code(recording.command))
}

fn run_salvage(from: &Path, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Salvage { files, unusable } = salvage(from, output)?;
    for from in unusable {
        note!("{}: removed; its recorder was killed before what it had fetched could be read", shown(&from));
    }
    for Salvaged { from, path, size } in files {
        note!("{}: {}, salvaged from {}", shown(&path), bytes(size), shown(&from));
        note!("next: unstarve explain {}", for_a_shell(&path));
    }
    Ok(ExitCode::SUCCESS)
}

impl RecordArgs {
    fn options(self) -> Options {
        let until = match self.time {
            Some(time) => Until::Elapsed(time),
            None if self.command.is_empty() => Until::Signal,
            None => Until::CommandEnds(self.command),
        };
        Options {
            output: self.output.unwrap_or_else(|| "unstarve.dat".into()),
            until,
            events: match (self.predictable, self.io) {
                (true, _) => Events::Predictable,
                (false, true) => Events::WithBlock,
                (false, false) => Events::Usual,
            },
            buffer: self.buffer_size.map_or(BufferSize::Auto, BufferSize::KiB),
            max_size: self.max_size,
            names: if self.redact { Names::Redacted } else { Names::Real },
        }
    }
}

/// `whole` is how long the recording will last, if that is known.
fn show_progress(progress: Progress, whole: Option<Duration>) {
    let line = match progress {
        Progress::Recording { elapsed, bytes: fetched } => {
            let of = whole.map(|whole| format!(" of {:.1}", whole.as_secs_f64())).unwrap_or_default();
            format!("recording: {:.1}{of} s, {} (Ctrl-C ends it)", elapsed.as_secs_f64(), bytes(fetched))
        }
        Progress::Writing { done, total } => format!("writing: {} of {}", bytes(done), bytes(total)),
    };
    crate::output::print_error(format_args!("\r{line}\x1b[K"));
    let _ = io::stderr().flush();
}

fn summary(recording: &Recording) -> String {
    let path = shown(&recording.path);
    let lost: u64 = recording.lost.iter().map(|lost| lost.count).sum();
    let mut text = format!(
        "{path}: {} events in {} on {} CPU{}, {}, {} lost\n",
        recording.events,
        Nanos(u64::try_from(recording.duration.as_nanos()).unwrap_or(u64::MAX)),
        recording.cpus,
        if recording.cpus == 1 { "" } else { "s" },
        bytes(recording.size),
        if lost == 0 { "none".to_owned() } else { lost.to_string() },
    );
    if lost > 0 {
        let cpus: Vec<_> = recording.lost.iter().map(|lost| lost.cpu.to_string()).collect();
        text += &format!("warning: buffers were full on CPU {}; a larger --buffer-size loses less\n", cpus.join(", "));
    }
    match recording.stopped {
        Some(Full::MaxSize) => text += "ended early: the file has the size that --max-size allows\n",
        Some(Full::Disk) => text += "ended early: the disk is almost full (use -o onto another filesystem)\n",
        None => {}
    }
    if !recording.absent.is_empty() {
        text += &format!("not recorded, this kernel does not have: {}\n", recording.absent.join(", "));
    }
    for guess in &recording.guesses {
        text += &format!("predictions will guess {}\n", guess.words());
    }
    match recording.command {
        Some(CommandEnd::Exited(code)) if code != 0 => text += &format!("the command exited with {code}\n"),
        Some(CommandEnd::Killed(signal)) => text += &format!("the command was killed by signal {signal}\n"),
        Some(CommandEnd::StillRunning) => text += "the command got the signal to end and still runs\n",
        _ => {}
    }
    text
}

/// Larger recordings take seconds to explain: that is left to the user.
const MAX_EXPLAINED_BYTES: u64 = 64 << 20;

/// What `explain` says of the recording, in a sentence or two; nothing if it is large or cannot be explained.
fn verdict(recording: &Recording) -> Option<String> {
    if recording.size > MAX_EXPLAINED_BYTES {
        return None;
    }
    let source = unstarve_readers::open(&recording.path).ok()?;
    let report = unstarve_diagnose::explain(source, &unstarve_diagnose::Options::default(), |_| {}).ok()?;
    Some(unstarve_term::clean(&report.verdict.text).into_owned())
}

/// The command's exit code, as a shell reports it.
fn exit_code(command: Option<CommandEnd>) -> ExitCode {
    match command {
        Some(CommandEnd::Exited(code)) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Some(CommandEnd::Killed(signal)) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        Some(CommandEnd::StillRunning) | None => ExitCode::SUCCESS,
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{:.0} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

/// A trace.dat has offsets of its data in its head, so it cannot be written to a pipe.
fn parse_output(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("a recording cannot go to stdout; name a file".to_owned()),
        _ => Ok(text.into()),
    }
}

/// `500ms`, `10s`, `2m`, `1h`, `14d`; a bare number is seconds, as with sleep(1).
pub fn parse_time(text: &str) -> Result<Duration, String> {
    match unstarve_watch::config::parse_time(text, Some("s"))? {
        Duration::ZERO => Err("it must be more than nothing".to_owned()),
        time => Ok(time),
    }
}

/// A size in KiB from `512K`, `16M`, `1G`.
pub fn parse_kib(text: &str) -> Result<u32, String> {
    let (number, unit) = split_unit(text);
    let kib: u64 = match unit.to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 1 << 10,
        "G" | "GB" | "GIB" => 1 << 20,
        _ => return Err("write it as 512K, 16M or 1G".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write it as 512K, 16M or 1G")?;
    let kib = number.checked_mul(kib).and_then(|kib| u32::try_from(kib).ok());
    kib.filter(|&kib| kib >= 64).ok_or_else(|| "it must be between 64K and 4095G".to_owned())
}

/// A size in bytes, with the same suffixes. Symbols alone take up to 10 MB.
fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = u64::from(parse_kib(text)?) << 10;
    if bytes < 20 << 20 { Err("it must be 20M at least: symbols alone take up to 10M".to_owned()) } else { Ok(bytes) }
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use unstarve_model::{CpuId, EventType};
    use unstarve_record::Lost;

    use super::*;

    #[test]
    fn times_and_sizes_read_as_people_write_them() {
        for (text, millis) in
            [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("1.5s", 1_500), ("3", 3_000), ("2d", 172_800_000)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "0s", "-1s", "10 s", "ten", "1e300h", "100000d", "10w"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_kib("512K"), Ok(512));
        assert_eq!(parse_kib("16M"), Ok(16 << 10));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert!(parse_size("1M").is_err());
        for bad in ["16", "M", "1K", "99999999G", "-4M"] {
            assert!(parse_kib(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_summary_says_what_was_lost() {
        let mut recording = Recording {
            path: "t.dat".into(),
            size: 12_345_678,
            events: 213_514,
            lost: Vec::new(),
            duration: Duration::from_secs(10),
            cpus: 2,
            clock: "mono".into(),
            absent: Vec::new(),
            guesses: Vec::new(),
            stopped: None,
            command: Some(CommandEnd::Exited(0)),
        };
        insta::assert_snapshot!(summary(&recording), @"
        t.dat: 213514 events in 10.0 s on 2 CPUs, 12.3 MB, none lost
        ");
        recording.stopped = Some(Full::MaxSize);
        recording.lost = vec![Lost { cpu: CpuId(1), count: 7 }];
        recording.absent = vec![EventType::WorkQueued.name()];
        recording.command = Some(CommandEnd::Killed(9));
        insta::assert_snapshot!(summary(&recording), @"
        t.dat: 213514 events in 10.0 s on 2 CPUs, 12.3 MB, 7 lost
        warning: buffers were full on CPU 1; a larger --buffer-size loses less
        ended early: the file has the size that --max-size allows
        not recorded, this kernel does not have: workqueue_queue_work
        the command was killed by signal 9
        ");
    }
}
