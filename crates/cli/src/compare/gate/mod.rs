//! `unstarve compare --fail-on worse`: one verdict about recordings, for CI.

mod junit;
mod markdown;
mod sarif;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use unstarve_diagnose::compare::gate::{DEFAULT_MARGIN, Gate, Judgement, Machines, Named, Terms, judge};
use unstarve_diagnose::compare::{Side, compare};
use unstarve_term::gate_page;
use unstarve_timeline::Selection;

use super::{Form, WithLatency, read};
use crate::compare::latency::LatencyLogs;
use crate::input::{Recording, is_same_file};
use crate::output::{self, Out};
use crate::target::Target;

/// Maximum recordings of one side: all of them are in memory at once.
const MAX_RECORDINGS: usize = 16;
/// The exit code of a verdict that the recordings cannot give.
const EXIT_CODE_UNDECIDED: u8 = 3;

#[derive(Args)]
#[command(next_help_heading = "A verdict, for CI")]
pub struct LowGate {
    /// Judge whether threads wait longer, and exit with 1 if they do, with 3 if the recordings cannot decide. Each of the options
    /// below asks for a verdict, too
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOnVerdict>,
    /// A recording of the base, or a directory of some; several show how much runs differ. All others are then new
    #[arg(long, value_name = "FILE")]
    base: Vec<PathBuf>,
    /// Waits so many times as long are worse; 2 if not given. Above 1
    #[arg(long, value_name = "FACTOR", value_parser = margin)]
    margin: Option<f64>,
    /// Base and new may have different kernels or numbers of CPUs
    #[arg(long)]
    other_machine: bool,
    /// Write the cases as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what is worse or undecided as SARIF 2.1.0
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write a comment for a merge request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// `--fail-on` of `compare`, as typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum FailOnVerdict {
    /// 1 if something is worse, 3 if undecided, else 0
    Worse,
    /// 0 whatever the verdict
    Never,
}

impl FailOnVerdict {
    /// The exit code; the table of decision 0624.
    fn exit_code(self, verdict: Judgement) -> u8 {
        match (self, verdict) {
            (FailOnVerdict::Never, _) | (FailOnVerdict::Worse, Judgement::Better | Judgement::Same) => 0,
            (FailOnVerdict::Worse, Judgement::Worse) => 1,
            (FailOnVerdict::Worse, Judgement::Undecided) => EXIT_CODE_UNDECIDED,
        }
    }
}

fn margin(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor <= 1000.0 => Ok(factor),
        _ => Err("expected a factor above 1, at most 1000, as in 1.5".to_owned()),
    }
}

/// What is judged, how, and where it is written.
pub struct GateArgs {
    base: Vec<Recording>,
    new: Vec<Recording>,
    terms: Terms,
    fail_on: FailOnVerdict,
    outputs: Vec<(Writing, Target)>,
    selection: Selection,
    form: Form,
}

/// How a gate is written to a file.
type Writing = fn(&Gate) -> Result<String>;

impl LowGate {
    /// Whether a verdict is asked for.
    pub fn is_asked(&self) -> bool {
        let LowGate { fail_on, base, margin, other_machine, junit, sarif, markdown } = self;
        let writes = [junit, sarif, markdown].into_iter().any(Option::is_some);
        fail_on.is_some() || !base.is_empty() || margin.is_some() || *other_machine || writes
    }

    /// Checks the arguments before any work starts.
    pub fn raise(self, [a, b]: [Option<PathBuf>; 2], selection: Selection, form: Form) -> Result<GateArgs> {
        let named: Vec<PathBuf> = [a, b].into_iter().flatten().collect();
        let (base, new) = match named.as_slice() {
            [a, b] if self.base.is_empty() => (vec![a.clone()], vec![b.clone()]),
            _ => (self.base, named),
        };
        let (base, new) = (files(&base)?, files(&new)?);
        each_is_one_run(&base, &new)?;
        let mut outputs: Vec<(Writing, Target)> = Vec::new();
        let writings: [(Option<PathBuf>, Writing); 3] =
            [(self.junit, junit::write), (self.sarif, sarif::write), (self.markdown, markdown::write)];
        for (file, writing) in writings {
            let Some(file) = file else { continue };
            if let Some(input) = base.iter().chain(&new).find(|input| is_same_file(input, &file)) {
                bail!("{}: is an input recording; give the result another name", output::shown(input));
            }
            outputs.push((writing, Target::open(&file)?));
        }
        let recordings =
            |files: Vec<PathBuf>| files.into_iter().map(Recording::new).collect::<Result<Vec<Recording>>>();
        let machines = if self.other_machine { Machines::MayDiffer } else { Machines::MustBeAlike };
        Ok(GateArgs {
            base: recordings(base)?,
            new: recordings(new)?,
            terms: Terms { margin: self.margin.unwrap_or(DEFAULT_MARGIN), machines },
            fail_on: self.fail_on.unwrap_or(FailOnVerdict::Worse),
            outputs,
            selection,
            form,
        })
    }
}

/// No recording counts as two runs, and none is compared with itself: two runs always differ, a run never does from itself.
fn each_is_one_run(base: &[PathBuf], new: &[PathBuf]) -> Result<()> {
    let opened = |name: &PathBuf| if name.as_os_str() == "-" { PathBuf::from("/dev/stdin") } else { name.clone() };
    let all: Vec<&PathBuf> = base.iter().chain(new).collect();
    for (index, one) in all.iter().enumerate() {
        let file = opened(one);
        let is_it = |other: &&&PathBuf| *other == one || is_same_file(&opened(other), &file);
        match all[..index].iter().find(is_it) {
            Some(same) if same == one => {
                bail!("{} is named twice, or is base and new: a recording counts as one run", output::shown(one))
            }
            Some(same) => bail!(
                "{} and {} are the same file: a recording counts as one run",
                output::shown(same),
                output::shown(one)
            ),
            None => {}
        }
    }
    Ok(())
}

/// The recordings that the names stand for: a directory stands for the files in it.
fn files(names: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in names {
        if !name.is_dir() {
            files.push(name.clone());
            continue;
        }
        if name.join("outcome.json").exists() {
            bail!("{}: is a lab result; a verdict is about recordings: name its trace.dat", output::shown(name));
        }
        let within = recordings_in(name).with_context(|| output::shown(name))?;
        if within.is_empty() {
            bail!("{}: there is no recording in it; the first run of a job makes one", output::shown(name));
        }
        files.extend(within);
    }
    if files.len() > MAX_RECORDINGS {
        bail!("{} recordings on one side: at most {MAX_RECORDINGS}, the latest are enough", files.len());
    }
    Ok(files)
}

/// Files of a directory in the order of their names, without hidden ones and what `record` has kept as `.old`.
fn recordings_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_kept = !name.as_encoded_bytes().starts_with(b".") && !name.as_encoded_bytes().ends_with(b".old");
        if is_kept && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
        if files.len() > MAX_RECORDINGS {
            break;
        }
    }
    files.sort();
    Ok(files)
}

pub fn run(args: GateArgs) -> Result<ExitCode> {
    let GateArgs { base, new, terms, fail_on, outputs, selection, form } = args;
    let (base, new) = (Sides::read(&base, &selection)?, Sides::read(&new, &selection)?);
    let (named_base, named_new) = (base.named(), new.named());
    let gate = judge(&named_base, &named_new, &terms);
    let code = fail_on.exit_code(gate.verdict);
    let text = match form {
        Form::Json => {
            let comparison = compare(named_base[0].side, named_new[0].side);
            let json = WithLatency { comparison: &comparison, latency_a: vec![], latency_b: vec![], gate: Some(&gate) };
            serde_json::to_string_pretty(&json)? + "\n"
        }
        Form::Page { look, extent } => without_workflow_commands(&gate_page(&gate, extent, look)),
    };
    // All are written before the first gets its name.
    for (writing, target) in &outputs {
        target.text(&writing(&gate)?)?;
    }
    for (_, target) in outputs {
        target.deliver()?;
    }
    output::will_end_with(code);
    Out::new().text(&text)?;
    Ok(ExitCode::from(code))
}

/// The recordings of one side with their names.
struct Sides {
    names: Vec<String>,
    sides: Vec<Side>,
}

impl Sides {
    fn read(recordings: &[Recording], selection: &Selection) -> Result<Sides> {
        let sides = recordings.iter().map(|one| read(one, selection, &mut LatencyLogs::default()));
        Ok(Sides {
            names: recordings.iter().map(Recording::name).collect(),
            sides: sides.collect::<Result<Vec<Side>>>()?,
        })
    }

    fn named(&self) -> Vec<Named<'_>> {
        self.names.iter().zip(&self.sides).map(|(name, side)| Named { name, side }).collect()
    }
}

/// A CI runner takes a line that begins with `::`, or has `##[` in it, for a command. Names of tasks can be such.
fn without_workflow_commands(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let rest = line.trim_start();
        if rest.starts_with("::") {
            harmless.push_str(&line[..line.len() - rest.len()]);
            harmless.push('\\');
            harmless.push_str(&rest.replace("##[", "#\\#["));
        } else {
            harmless.push_str(&line.replace("##[", "#\\#["));
        }
    }
    harmless
}

/// At most so many bytes of a text, cut between characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests;
