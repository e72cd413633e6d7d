//! The `unstarve fix` commands that messages print: quoted for a shell, with this call's journal and options.

use unstarve_change::Form;
use unstarve_executor::state::DEFAULT_DIRECTORY;
use unstarve_files::trust::for_a_shell;
use unstarve_term::fix::Commands;

use super::LowArgs;
use super::choose::Choice;

pub fn of(args: &LowArgs, chosen: &Choice<'_>) -> Commands {
    Commands {
        apply: format!("{}{}", apply(args, chosen), if args.verify.is_some() { "" } else { " --verify 10s" }),
        undo: format!("sudo unstarve fix --undo{}", state(args)),
    }
}

/// The command that prints this remedy in a form that lasts.
pub fn keep(args: &LowArgs, finding: usize, remedy: usize, targets: &str, form: Form) -> String {
    let this_boot = if args.this_boot { " --this-boot" } else { "" };
    let (finding, remedy) = (finding + 1, remedy + 1);
    let finding = if finding == 1 { String::new() } else { format!(" --finding {finding}") };
    format!("unstarve fix {}{finding} --remedy {remedy}{targets}{this_boot} --as {}", file(args), form.word())
}

/// Standard input cannot be read a second time.
fn file(args: &LowArgs) -> String {
    args.file.as_deref().filter(|file| file.as_os_str() != "-").map_or("FILE".to_owned(), for_a_shell)
}

/// The command that applies this remedy; keeps `--verify` if this call has it.
pub fn apply(args: &LowArgs, chosen: &Choice<'_>) -> String {
    let file = file(args);
    let this_boot = if args.this_boot { " --this-boot" } else { "" };
    let verify = args.verify.map(|time| format!(" --verify {}s", time.as_secs())).unwrap_or_default();
    let (finding, remedy) = (chosen.finding + 1, chosen.remedy + 1);
    let targets: String =
        args.target.iter().map(|thing| format!(" --target {}", for_a_shell(thing.to_string().as_ref()))).collect();
    format!(
        "sudo unstarve fix {file} --finding {finding} --remedy {remedy}{targets}{this_boot}{} --apply{verify}",
        state(args)
    )
}

/// The `--journal` option, unless the journal is in its default directory.
fn state(args: &LowArgs) -> String {
    match args.state.as_os_str() == DEFAULT_DIRECTORY {
        true => String::new(),
        false => format!(" --state {}", for_a_shell(&args.state)),
    }
}
