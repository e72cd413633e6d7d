//! What may be typed: other spellings of commands, the page that `unstarve` alone prints, and advice for what is not understood.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, Error};
use unstarve_model::{clean, is_harmful};

/// What `unstarve` alone and `unstarve --help` print.
pub const START_PAGE: &str = "\
unstarve finds the threads that the Linux scheduler starves, above all the
kernel's own. It says who starved them, by which rule, for how long, and what
to do. The change that helps is one command away, and so is its undo.

Start here
  sudo unstarve record --for 10s   record this machine into unstarve.dat
  unstarve explain unstarve.dat    who is starved, by whom, and the fix
  sudo unstarve fix unstarve.dat   show the plan of the fix; --apply does it
  unstarve report unstarve.dat     the same as a page for the browser
  sudo unstarve top                who starves whom now

Look     record explain report top timeline compare export
Act      fix guard knobs
Ahead    check snapshot lab
Always   watch fleet sql
Help     doctor help list schema

unstarve FILE            the same as unstarve explain FILE
unstarve COMMAND --help  options and examples; unstarve help COMMAND has more
unstarve help WORD       what a finding, a rule or a remedy means
";

/// Other spellings: what is typed after `unstarve`, and what it stands for.
const OTHER_SPELLINGS: &[(&[&str], &[&str])] = &[
    (&["fix", "plan"], &["fix"]),
    (&["fix", "apply"], &["fix", "--apply"]),
    (&["fix", "status"], &["fix", "--status"]),
    (&["fix", "undo"], &["fix", "--undo"]),
    (&["knobs", "apply"], &["knobs", "set"]),
    (&["knobs", "status"], &["knobs", "list", "--changed"]),
    (&["knobs", "compare"], &["knobs", "diff"]),
    (&["list", "findings"], &["help", "findings"]),
    (&["list", "rules"], &["help", "rules"]),
    (&["list", "remedies"], &["help", "remedies"]),
    (&["list", "words"], &["help", "words"]),
    (&["list", "roles"], &["help", "roles"]),
    (&["list", "scenarios"], &["lab", "list"]),
    (&["list", "knobs"], &["knobs", "list"]),
    (&["list"], &["help"]),
    (&["diff"], &["compare"]),
    (&["analyze"], &["explain"]),
    (&["analyse"], &["explain"]),
    (&["undo"], &["fix", "--undo"]),
];

/// Whether `fix` takes this word for what to do, and not for a file.
pub fn is_verb_of_fix(word: &str) -> bool {
    OTHER_SPELLINGS.iter().any(|(from, _)| *from == ["fix", word])
}

/// The arguments (without the program's name) in today's spelling. `commands` are the names of all commands.
pub fn spelled(typed: Vec<OsString>, commands: &[String]) -> Vec<OsString> {
    if matches!(typed.as_slice(), [only] if only == "list") {
        return ["help", "topics"].map(OsString::from).to_vec();
    }
    let starts =
        |words: &&[&str]| words.len() <= typed.len() && words.iter().zip(&typed).all(|(a, b)| *a == b.as_os_str());
    if let Some((from, to)) = OTHER_SPELLINGS.iter().find(|(from, _)| starts(from)) {
        return to.iter().map(OsString::from).chain(typed.into_iter().skip(from.len())).collect();
    }
    match typed.first() {
        Some(first) if is_recording(first, commands) => [OsString::from("explain")].into_iter().chain(typed).collect(),
        Some(first) if first == "record" => with_time(typed),
        _ => typed,
    }
}

/// Whether the first word is a file and no command.
fn is_recording(word: &OsStr, commands: &[String]) -> bool {
    let is_option = word.as_encoded_bytes().starts_with(b"-") && word != "-";
    !is_option
        && !commands.iter().any(|name| name.as_str() == word)
        && (word == "-" || is_readable_file(Path::new(word)))
}

/// A file, or a pipe such as `<(zcat trace.gz)`.
fn is_readable_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_fifo())
}

/// `record 10s` is `record --for 10s`.
fn with_time(mut typed: Vec<OsString>) -> Vec<OsString> {
    let is_time = |word: &OsString| word.to_str().is_some_and(|word| crate::record::parse_time(word).is_ok());
    if typed.get(1).is_some_and(is_time) {
        typed.insert(1, "--for".into());
    }
    typed
}

/// The command line: `-h` and `--help` print what fits a screen, `unstarve help COMMAND` prints everything.
pub fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| command.mut_subcommand(name, with_short_help));
    // What passes all its arguments on has no help of its own.
    if command.is_disable_help_flag_set() {
        return command;
    }
    command.disable_help_flag(true).arg(help.help("Print this help (`unstarve help COMMAND` has more)"))
}

/// Advice for options that a command does not have: the command (`*` for any), the options, what to type.
const ADVICE_FOR_OPTIONS: &[(&str, &[&str], &str)] = &[
    ("record", &["-d", "-t", "--duration", "--time", "--seconds"], "--for TIME, as in --for 10s"),
    (
        "*",
        &["-o", "--output"],
        "this command prints to the terminal: > FILE keeps it; `unstarve report FILE -o PAGE` writes a page",
    ),
    ("*", &["--format"], "--json"),
    ("explain", &["-v", "--verbose"], "--full"),
    ("explain", &["--top"], "--full, which has all findings"),
    ("explain", &["--html"], "unstarve report FILE writes a page"),
    ("explain", &["--pid", "-t", "-p"], "--task TID|NAME"),
    ("fix", &["--dry-run", "--plan"], "without --apply the plan is only shown"),
    (
        "fix",
        &["--permanent", "--persist"],
        "--as systemd, sysctl, tmpfiles, cmdline, guard or tuned prints what outlasts a reboot",
    ),
    ("check", &["-v", "--verbose"], "--full"),
    ("check", &["--to", "--kernel"], "--upgrade-to VERSION"),
    (
        "top",
        &["-n"],
        "press q to end it; `unstarve record --for TIME` and `unstarve explain` give a result without a screen",
    ),
    ("top", &["--task", "-p"], "--filter TEXT"),
];

/// The error as people can use it: without clap's advice to pass an option as a value, with ours where there is one.
pub fn advised(mut error: Error, typed: &[OsString]) -> Error {
    // `-o` as the value of a positional argument is never what was meant.
    error.remove(ContextKind::Suggested);
    let command = typed.first().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let Some(ContextValue::String(wrong)) = error.get(match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => ContextKind::InvalidArg,
    }) else {
        return error;
    };
    let wrong = wrong.clone();
    let name = wrong.split([' ', '=']).next().unwrap_or_default();
    let advice = match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with('-') => ADVICE_FOR_OPTIONS
            .iter()
            .find(|(of, options, _)| (*of == "*" || *of == command) && options.contains(&name))
            .map(|(_, _, advice)| (*advice).to_owned()),
        ErrorKind::UnknownArgument => for_a_word(&command, name, typed),
        ErrorKind::InvalidSubcommand if typed.len() == 1 || command == wrong => for_a_command(&wrong),
        _ => None,
    };
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

/// What is no command: words of other tools, and names of files that are not there.
fn for_a_command(word: &str) -> Option<String> {
    let advice = match word {
        "status" => "unstarve watch status, unstarve guard status, unstarve fix --status",
        "start" => "unstarve record, unstarve watch, unstarve guard run",
        "stop" => "Ctrl-C ends record, watch and guard; unstarve fix --undo undoes a change",
        "upgrade" => "unstarve check --upgrade-to VERSION",
        "completion" | "completions" | "man" => "unstarve generate",
        "version" => "unstarve --version",
        "stat" | "stats" => "unstarve top",
        "trace" => "unstarve record",
        file if file.contains(['.', '/']) => return Some(format!("there is no file {file} here")),
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Ends the program with clap's message. clap prints arguments as they are: control characters in a file's name would reach the terminal.
pub fn exit_with(error: Error, typed: &[OsString]) -> ! {
    let harmful = |word: &&OsString| word.to_string_lossy().chars().any(is_harmful);
    if !typed.iter().any(|word| harmful(&word)) {
        error.exit()
    }
    let mut text = error.to_string();
    for word in typed.iter().filter(harmful) {
        let word = word.to_string_lossy();
        text = text.replace(word.as_ref(), &clean(&word));
    }
    let lines: Vec<_> = text.lines().map(clean).collect();
    crate::output::print_error(format_args!("{}\n", lines.join("\n")));
    process::exit(error.exit_code())
}

/// A word too many.
fn for_a_word(command: &str, word: &str, typed: &[OsString]) -> Option<String> {
    let first = || typed.get(1).and_then(|first| first.to_str()).filter(|first| !first.starts_with('-'));
    match command {
        "report" if word.ends_with(".html") => Some(format!("name the page with -o {word}")),
        "export" => Some(format!("name the result with -o {word}")),
        "explain" | "report" | "timeline" if Path::new(word).is_file() => {
            let [first, second] = [first()?, word].map(unstarve_change::quoted_file);
            Some(format!("one recording at a time; two side by side: unstarve compare {} {}", first?, second?))
        }
        "timeline" | "explain" | "report" => Some(format!("one task: --task {word}")),
        "fix" => Some(format!("one remedy: --remedy {word}")),
        "check" if word.ends_with(".json") => Some(format!("a snapshot: --snapshot {word}")),
        "check" => Some(format!("an upgrade: --upgrade-to {word}")),
        "knobs" => Some("two kernels: unstarve knobs diff --kernel A --kernel B".to_owned()),
        "guard" if word.ends_with(".toml") => Some(format!("name the policy with --policy {word}")),
        "watch" if word.ends_with(".toml") => Some(format!("name the configuration with --config {word}")),
        "record" => Some(format!("a command to record comes after --: unstarve record -- {word} …")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled_as(typed: &str) -> String {
        let commands: Vec<String> = ["explain", "record", "fix", "list"].map(str::to_owned).to_vec();
        let words = typed.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        let spelled: Vec<String> =
            spelled(words, &commands).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        spelled.join(" ")
    }

    #[test]
    fn each_spelling_stands_for_one_command() {
        for (typed, command) in [
            ("fix undo", "fix --undo"),
            ("fix undo --all", "fix --undo --all"),
            ("fix apply t.dat --remedy 2", "fix --apply t.dat --remedy 2"),
            ("fix t.dat", "fix t.dat"),
            ("fix ./undo", "fix ./undo"),
            ("list findings", "help findings"),
            ("list", "help topics"),
            ("list nosuch", "help nosuch"),
            ("record 10s", "record --for 10s"),
            ("record --io 10s", "record --io 10s"),
            ("record -- sleep 1", "record -- sleep 1"),
            ("Cargo.toml --json", "explain Cargo.toml --json"),
            ("- --json", "explain - --json"),
            ("nosuchfile", "nosuchfile"),
            ("--version", "--version"),
            ("", ""),
        ] {
            assert_eq!(spelled_as(typed), command, "{typed}");
        }
    }

    #[test]
    fn the_start_page_fits_a_terminal() {
        assert!(START_PAGE.lines().count() <= 24);
        assert!(START_PAGE.lines().all(|line| line.len() <= 80));
    }
}
