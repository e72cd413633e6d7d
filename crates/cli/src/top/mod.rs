//! `unstarve top`: which threads starve now, or in a replayed recording.

mod counted;
mod feed;
mod live;
mod machine;
mod once;
mod replay;
mod terminal;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use unstarve_model::Nanos;
use unstarve_timeline::Selection;
use unstarve_top::{App, Order, RowsBy};

use self::feed::Feed;
use self::machine::{Machine, StartMode};
use self::replay::Replay;
use crate::input::Recording;
use crate::record::parse_time;
use crate::selection::LowSelection;

/// Show who is starving whom now: waits of the last seconds by task, with rule and culprit
///
/// Reads the scheduler's events as they happen (as root; nothing is written to disk), or replays a recording at its own speed.
/// Keys: h shows them. Without a terminal, or with --once or --json, it only prints.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo unstarve top
  sudo unstarve top --by task
  sudo unstarve top --task 'kworker/*' --cpu 0
  sudo unstarve top --once --window 5s --filter kworker
  sudo unstarve top --json --for 60s | jq -c '.rows[0]'
  unstarve top trace.dat --speed 0.1
  unstarve top trace.dat --once --from +1s --to +2s
  trace-cmd stream -e sched -e irq | unstarve top -

Exit code: 0 when it ended as asked, 2 if there are no events to show.")]
pub struct LowArgs {
    /// A recording to replay, or - for standard input; this machine if left out
    file: Option<PathBuf>,
    /// The time that sums cover
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    window: Duration,
    /// How often to refresh
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    interval: Duration,
    /// Sort by
    #[arg(long, value_enum, default_value = "wait")]
    sort: LowOrder,
    /// Groups of tasks (roles), counted in the kernel, or single tasks, by their events [default: role on a terminal where the
    /// kernel takes BPF programs, else task]
    #[arg(long, value_enum, conflicts_with = "file")]
    by: Option<LowBy>,
    /// Only rows with this text in the name, kind, rule or culprit, as the key / selects them
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    #[command(flatten)]
    selection: LowSelection,
    /// Show tasks whose names differ only in numbers as one row
    #[arg(long)]
    group: bool,
    /// Replay speed; 0.1 is ten times slower than real time
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "file")]
    speed: f64,
    /// Print at most this many rows, the worst; without a screen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print once, after one window or at the end of the recording
    #[arg(long)]
    once: bool,
    /// Print JSON, a line for each interval (schema unstarve.top/1)
    #[arg(long)]
    json: bool,
    /// End after this long
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LowOrder {
    /// Time waited in the window
    Wait,
    /// The longest wait
    Longest,
    /// The number of waits
    Count,
    /// The victim's name
    Name,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LowBy {
    /// All tasks of a role or a top-level cgroup together
    Role,
    /// Each task
    Task,
}

/// The checked arguments.
pub struct HiArgs {
    source: Source,
    selection: Selection,
    window: Nanos,
    begin: StartMode,
    app: App,
    pace: Pace,
    form: Form,
    /// Maximum rows printed.
    limit: Option<usize>,
}

enum Source {
    ThisMachine,
    Recording(Recording),
}

/// When to show a view, and when to end.
#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    speed: f64,
    end: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Screen,
    Text,
    Json,
}

impl LowArgs {
    /// Checks the arguments before any work starts.
    pub fn raise(self) -> Result<HiArgs> {
        if !(self.speed > 0.0 && self.speed.is_finite()) {
            bail!("--speed {}: expected a number above 0", self.speed);
        }
        let order = match self.sort {
            LowOrder::Wait => Order::Wait,
            LowOrder::Longest => Order::Longest,
            LowOrder::Count => Order::Count,
            LowOrder::Name => Order::Name,
        };
        let prints = self.once || self.json || !io::stdout().is_terminal();
        let end = match (self.once, self.time) {
            (true, None) => Some(self.window),
            (_, time) => time,
        };
        if self.limit.is_some() && !prints {
            bail!(
                "--limit is for what is printed: with --once, --json or into a pipe; a terminal shows as many rows as fit"
            );
        }
        let selection = self.selection.raise();
        let is_selected = selection != Selection::default();
        if self.file.is_none() && (selection.from.is_some() || selection.to.is_some()) {
            bail!("--from and --to need a recording: of this machine top shows the present; --for ends it");
        }
        if is_selected && self.by == Some(LowBy::Role) {
            bail!(
                "--task and --cpu need --by task: the kernel counts a role's waits for all its tasks and CPUs together"
            );
        }
        Ok(HiArgs {
            limit: self.limit.and_then(|limit| usize::try_from(limit).ok()),
            source: match self.file {
                Some(file) => Source::Recording(Recording::new(file)?),
                None => Source::ThisMachine,
            },
            window: Nanos(u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX)),
            begin: match (self.by, prints) {
                (Some(LowBy::Task), _) => StartMode::With(RowsBy::Task),
                // Only events say which task waited on which CPU.
                (None, _) if is_selected => StartMode::With(RowsBy::Task),
                (None, true) => StartMode::Tasks,
                (Some(LowBy::Role), _) => StartMode::With(RowsBy::Role),
                (None, false) => StartMode::Best,
            },
            app: if self.group { App::new(order, self.filter).with_groups() } else { App::new(order, self.filter) },
            selection,
            pace: Pace { interval: if self.once { Duration::MAX } else { self.interval }, speed: self.speed, end },
            form: match (self.json, prints) {
                (true, _) => Form::Json,
                (false, true) => Form::Text,
                (false, false) => Form::Screen,
            },
        })
    }
}

pub fn run(args: HiArgs) -> Result<ExitCode> {
    let HiArgs { source, selection, window, begin, app, pace, form, limit } = args;
    let (feed, app): (Box<dyn Feed>, App) = match source {
        Source::ThisMachine => {
            let whole = selection == Selection::default();
            let (machine, by) = Machine::start(window, begin, selection)?;
            let app = app.showing(by);
            (Box::new(machine), if whole { app } else { app.recorded() })
        }
        Source::Recording(recording) => (Box::new(Replay::new(&recording, window, selection)?), app.recorded()),
    };
    match form {
        Form::Screen => terminal::run(feed, app, pace)?,
        Form::Text | Form::Json => once::run(feed, &app, pace, once::Printed { form, limit })?,
    }
    Ok(ExitCode::SUCCESS)
}
