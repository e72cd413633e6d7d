//! `unstarve generate`: completions and man pages for packages, made from the command definitions.

mod man;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::output::Out;

/// Print completions for a shell, or a man page
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve generate bash > ~/.local/share/bash-completion/completions/unstarve
  unstarve generate man watch episodes | man -l -
  unstarve generate pages       a line for each man page: its file, a tab, the words of the command")]
pub struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Completions for bash
    Bash,
    /// Completions for fish
    Fish,
    /// Completions for zsh
    Zsh,
    /// The man page of a command, or of the program
    Man {
        /// The words of the command, for example: watch episodes
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Which man pages there are
    Pages,
}

pub fn run<Definition: CommandFactory>(args: GenerateArgs) -> Result<ExitCode> {
    let mut program = Definition::command();
    let text = match args.what {
        What::Bash => completions(Shell::Bash, &mut program)?,
        What::Fish => completions(Shell::Fish, &mut program)?,
        What::Zsh => completions(Shell::Zsh, &mut program)?,
        What::Man { words } => {
            program.build();
            man::page(man::find(&program, &words)?)?
        }
        What::Pages => {
            program.build();
            man::names(&program)
        }
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn completions(shell: Shell, program: &mut Command) -> Result<String> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, program, "unstarve", &mut bytes);
    String::from_utf8(bytes).context("the completions are not text")
}
