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
  unstarve help isolcpus            a word of the kernel: nice, cpu.max, EEVDF, xrun, …
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
    let asked = args.names.join(" ");
    let list = Topic::listed(&asked.to_lowercase());
    let text = if let Some(mut command) = command(program, &words) {
        command.render_long_help().to_string()
    } else if !list.is_empty() {
        topics_page(&list, look)
    } else if let Some(page) = page(&asked, look) {
        page
    } else {
        bail!("{}", unknown(&asked))
    };
    pager::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A word of the reports, a role, or something that `check` and `knobs` name: a regression, a bug, a setting.
fn page(name: &str, look: Look) -> Option<String> {
    let lower = name.to_lowercase();
    let topics = Topic::named(&lower);
    // A rule has the same short word as what it is about: `weight`, `priority`.
    let is_wide = topics.iter().all(|topic| matches!(topic, Topic::Rule(_)));
    let mut also = Topic::also_named(&lower);
    also.retain(|topic| topics.iter().all(|other| other.id() != topic.id()));
    let facts = || explain(name).map(|explanation| explanation_page(&explanation, look));
    let pages = [
        (!topics.is_empty()).then(|| topic_page(&topics, look)),
        role(&lower).map(about_role),
        (lower == "roles").then(|| topic_page(&Topic::named("role"), look)),
    ];
    let mut pages: Vec<String> = pages.into_iter().flatten().collect();
    // What a table of the kernel's has says more about this one thing than the page of a wider word.
    if topics.is_empty() {
        pages.extend(facts());
    }
    if is_wide && (pages.is_empty() || !topics.is_empty()) && !also.is_empty() {
        pages.push(topic_page(&also, look));
    }
    (!pages.is_empty()).then(|| pages.join("\n"))
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
    let other = Topic::all().flat_map(|topic| topic.other_names().iter().map(move |name| (*name, topic.id())));
    let names = all.iter().map(|id| (*id, *id)).chain(other);
    let mut alike: Vec<(f64, &str)> = names.map(|(known, id)| (strsim::jaro(name, known), id)).collect();
    alike.retain(|(likeness, _)| *likeness > 0.8);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut ids: Vec<&str> = alike.into_iter().map(|(_, id)| id).collect();
    ids.dedup();
    ids.truncate(3);
    ids
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use unstarve_term::{Charset, Colours};

    use super::*;

    /// The words of a command as a shell passes them.
    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
    }

    #[test]
    fn each_command_that_a_page_says_to_type_can_be_typed() {
        let look = Look::new(80, Charset::Utf8, Colours::Plain);
        let mut program = crate::LowArgs::command();
        let commands: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for (topic, line) in Topic::all().flat_map(|topic| topic.commands().iter().map(move |line| (topic.id(), *line)))
        {
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let typed = words(line).into_iter().skip(1).map(Into::into).collect();
            let typed = crate::grammar::spelled(typed, &commands);
            let called = std::iter::once("unstarve".into()).chain(typed.iter().cloned());
            if let Err(error) = program.try_get_matches_from_mut(called) {
                panic!("{topic}: {line}: {error}");
            }
            if typed[0] == "help" {
                let name = typed[1].to_string_lossy();
                let is_command = command(crate::LowArgs::command(), &[&name]).is_some();
                let is_list = !Topic::listed(&name).is_empty();
                assert!(is_command || is_list || page(&name, look).is_some(), "{line}");
            }
            if typed.iter().take(2).eq(["knobs", "explain"].iter()) {
                assert!(explain(&typed[2].to_string_lossy()).is_some(), "{line}");
            }
        }
    }
}
