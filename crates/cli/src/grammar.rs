//! What may be typed: other spellings of commands, and the page that `unstarve` alone prints.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use unstarve_facts::Version;

/// What `unstarve` alone and `unstarve --help` print.
pub const START_PAGE: &str = "\
unstarve finds the threads that the Linux scheduler starves, above all the
kernel's own. It says who starved them, by which rule, and for how long.
It shows the change that helps, makes it, and undoes it.

Start here
  sudo unstarve record --for 10s   record this machine into unstarve.dat
  unstarve explain unstarve.dat    who is starved, by whom, and the fix
  sudo unstarve fix unstarve.dat   show the plan of the fix; --apply does it
  unstarve report unstarve.dat     the same as a page for the browser
  sudo unstarve top                who starves whom now

Look     record explain report top timeline compare export
Act      fix guard knobs
Ahead    predict reproduce check snapshot lab
Always   watch fleet sql
Agents   mcp
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
    (&["diagnose"], &["explain"]),
    (&["show"], &["explain"]),
    (&["view"], &["explain"]),
    (&["why"], &["explain"]),
    (&["example"], &["explain", "--example"]),
    (&["demo"], &["explain", "--example"]),
    (&["rec"], &["record"]),
    (&["html"], &["report"]),
    (&["timehist"], &["timeline"]),
    (&["replay"], &["top"]),
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
        let spelled = to.iter().map(OsString::from).chain(typed.into_iter().skip(from.len())).collect();
        return with_kernels(spelled);
    }
    match typed.first() {
        Some(first) if is_recording(first, commands) => explaining(typed),
        Some(first) if first == "record" => with_time(typed),
        Some(first) if first == "knobs" => with_kernels(typed),
        Some(first) if is_option(first) && names_a_recording(&typed, commands) => explaining(typed),
        _ => typed,
    }
}

fn explaining(typed: Vec<OsString>) -> Vec<OsString> {
    [OsString::from("explain")].into_iter().chain(typed).collect()
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word != "-"
}

/// Whether options come first, and then a file and no command: `--json FILE`.
fn names_a_recording(typed: &[OsString], commands: &[String]) -> bool {
    let is_command = |word: &OsString| commands.iter().any(|name| name.as_str() == word);
    !typed.iter().any(is_command) && typed.iter().any(|word| is_recording(word, commands))
}

/// `knobs diff 5.10 6.12` is `knobs diff --kernel 5.10 --kernel 6.12`.
fn with_kernels(typed: Vec<OsString>) -> Vec<OsString> {
    if !typed.iter().take(2).eq(["knobs", "diff"].iter()) {
        return typed;
    }
    let is_version = |word: &OsString| {
        word.to_str().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()) && Version::named(word).is_ok())
    };
    let mut spelled: Vec<OsString> = Vec::with_capacity(typed.len() + 2);
    for word in typed {
        let is_value = spelled.last().is_some_and(|last| last == "--kernel" || last == "--cpus");
        if !is_value && is_version(&word) && !Path::new(&word).exists() {
            spelled.push("--kernel".into());
        }
        spelled.push(word);
    }
    spelled
}

/// Whether the first word is a file and no command.
fn is_recording(word: &OsStr, commands: &[String]) -> bool {
    !is_option(word) && !commands.iter().any(|name| name.as_str() == word) && (word == "-" || is_file(Path::new(word)))
}

/// A file, or a pipe such as `<(zcat trace.gz)`.
fn is_file(path: &Path) -> bool {
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
            ("--json Cargo.toml", "explain --json Cargo.toml"),
            ("-v Cargo.toml", "explain -v Cargo.toml"),
            ("--color never fix Cargo.toml", "--color never fix Cargo.toml"),
            ("-v nosuchfile", "-v nosuchfile"),
            ("knobs diff 5.10 6.12 --debian", "knobs diff --kernel 5.10 --kernel 6.12 --debian"),
            ("knobs compare 5.10 6.12", "knobs diff --kernel 5.10 --kernel 6.12"),
            ("knobs diff --kernel 5.10 --kernel 7", "knobs diff --kernel 5.10 --kernel 7"),
            ("knobs diff 5.10 6.12 --cpus 4", "knobs diff --kernel 5.10 --kernel 6.12 --cpus 4"),
            ("knobs diff a.json b.json", "knobs diff a.json b.json"),
            ("knobs set base_slice_ns 3000000", "knobs set base_slice_ns 3000000"),
            ("timehist t.dat", "timeline t.dat"),
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
