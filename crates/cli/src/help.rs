//! `unstarve help`: explains commands and the words in reports.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Command};
use unstarve_facts::explain;
use unstarve_term::{Look, Topic, explanation_page, topic_page, topics_page};
use unstarve_watch::RoleKind;

use crate::output::{self, Color};
use crate::pager;
use crate::suggested::TOPICS;

/// Show help of a command, or what a finding, rule or remedy of a report means
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve help fix
  unstarve help weight-starvation
  unstarve help direct-io           a role of watch and top
  unstarve help R04                 a report that check names
  unstarve help topics              all findings, rules, remedies and other words, a line each
  unstarve help remedies            one of these lists

Exit code: 0, or 2 if nothing has this name.")]
pub struct HelpArgs {
    /// A command such as `guard plan`, in one argument or two; the id of a finding, rule or remedy; a role (`direct-io`); what `check` names (`R04`, a setting); another word (`episode`, `lab-line`); or a list of them: `findings`, `rules`, `remedies`, `words`, `topics`
    #[arg(value_name = "COMMAND|TOPIC", value_parser = TOPICS, hide_possible_values = true)]
    names: Vec<String>,
}

/// `program` is the definition of the whole command line.
pub fn run(args: &HelpArgs, program: Command, color: Color) -> Result<ExitCode> {
    let look = output::look(color);
    // Messages print a command of two words as one argument; accept that form.
    let words: Vec<&str> = args.names.iter().flat_map(|name| name.split_whitespace()).collect();
    let text = if let Some(mut command) = command(program, &words) {
        command.render_long_help().to_string()
    } else {
        match args.names.as_slice() {
            [name] if !Topic::listed(&name.to_lowercase()).is_empty() => {
                topics_page(&Topic::listed(&name.to_lowercase()), look)
            }
            [name] => match page(name, look) {
                Some(page) => page,
                None => bail!("{}", unknown(name)),
            },
            names => bail!("{}", unknown(&names.join(" "))),
        }
    };
    pager::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A word of the reports, a role, or something that `check` and `knobs` name: a regression, a bug, a setting.
fn page(name: &str, look: Look) -> Option<String> {
    let lower = name.to_lowercase();
    let topics = Topic::named(&lower);
    let pages = [
        (!topics.is_empty()).then(|| topic_page(&topics, look)),
        role(&lower).map(about_role),
        (lower == "roles").then(|| topic_page(&Topic::named("role"), look)),
    ];
    let pages: Vec<String> = pages.into_iter().flatten().collect();
    match pages.as_slice() {
        [] => explain(name).map(|explanation| explanation_page(&explanation, look)),
        pages => Some(pages.join("\n")),
    }
}

fn about_role(kind: RoleKind) -> String {
    let (word, meaning) = (kind.word(), kind.meaning());
    format!("{word}\n  A role, as `watch` and `top` sum tasks up: {meaning}.\n  All roles: `unstarve help role`.\n")
}

/// The role with this name; a cgroup's role has the cgroup's name.
fn role(name: &str) -> Option<RoleKind> {
    RoleKind::FIXED.into_iter().find(|kind| kind.word() == name)
}

/// The command with these names, one level after the other.
fn command(program: Command, names: &[&str]) -> Option<Command> {
    let mut command = program;
    // Gives each its full name and the global options.
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

/// Topics whose name contains this text, else the most similar ones by clap's measure.
fn similar(name: &str) -> Vec<&'static str> {
    // `throttled` is both a finding and a rule.
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
