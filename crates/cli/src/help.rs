//! `unstarve help`: of commands, and of the words in reports.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Command};
use unstarve_term::{Topic, topic_page, topics_page};

use crate::output::{self, Color, Out};

/// Show help of a command, or what a finding, rule or remedy of a report means
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve help fix
  unstarve help weight-starvation
  unstarve help topics              all findings, rules, remedies and other words, a line each
  unstarve help remedies            one of these lists

Exit code: 0, or 2 if nothing has this name.")]
pub struct HelpArgs {
    /// A command such as `guard plan`; the id of a finding, rule or remedy; another word (`role`, `episode`, `lab-line`); or a list of them: `findings`, `rules`, `remedies`, `words`, `topics`
    #[arg(value_name = "COMMAND|TOPIC")]
    names: Vec<String>,
}

/// `program` is the whole command line's definition.
pub fn run(args: &HelpArgs, program: Command, color: Color) -> Result<ExitCode> {
    let look = output::look(color);
    let text = if let Some(mut command) = command(program, &args.names) {
        command.render_long_help().to_string()
    } else {
        match args.names.as_slice() {
            [name] if !Topic::listed(&name.to_lowercase()).is_empty() => {
                topics_page(&Topic::listed(&name.to_lowercase()), look)
            }
            [name] if !Topic::named(&name.to_lowercase()).is_empty() => {
                topic_page(&Topic::named(&name.to_lowercase()), look)
            }
            names => bail!("{}", unknown(&names.join(" "))),
        }
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The command with these names, one below the other.
fn command(program: Command, names: &[String]) -> Option<Command> {
    let mut command = program;
    // Each then knows its whole name and the options of all.
    command.build();
    for name in names {
        command = command.find_subcommand(name)?.clone();
    }
    Some(command)
}

fn unknown(name: &str) -> String {
    let similar = similar(&name.to_lowercase());
    let like = if similar.is_empty() { String::new() } else { format!(" (like it: {})", similar.join(", ")) };
    format!(
        "no command, finding, rule, remedy or other word is called {name:?}{like}; `unstarve help topics` lists them"
    )
}

/// Topics whose name has this in it, or else the few that are as much like it as clap wants of a mistyped option.
fn similar(name: &str) -> Vec<&'static str> {
    // `throttled` is a finding and a rule.
    let mut known = std::collections::BTreeSet::new();
    let all: Vec<&str> = Topic::all().map(Topic::id).filter(|id| known.insert(*id)).collect();
    let holds = |id: &&&str| !name.is_empty() && id.contains(name);
    let holding: Vec<&str> = all.iter().filter(holds).copied().collect();
    if !holding.is_empty() {
        return holding;
    }
    let mut alike: Vec<(f64, &str)> = all.iter().map(|id| (strsim::jaro(name, id), *id)).collect();
    alike.retain(|(likeness, _)| *likeness > 0.8);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().take(3).map(|(_, id)| id).collect()
}
