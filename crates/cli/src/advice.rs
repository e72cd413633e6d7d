//! Advice for a command line that is not understood: what people type out of habit from other tools, and what to type here.

use std::ffi::OsString;
use std::path::Path;
use std::process;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use unstarve_model::{clean, is_harmful};

/// For options that a command does not have: the command (`*` for any, nothing for no command), the options, what to type.
/// The first row that fits is taken.
const FOR_OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "",
        &["-v", "--verbose"],
        "unstarve --version prints the version; unstarve explain FILE --full prints all details",
    ),
    (
        "record",
        &["-d", "-t", "--duration", "--time", "--seconds", "--timeout", "--interval"],
        "--for TIME, as in --for 10s",
    ),
    (
        "record",
        &["-p", "--pid", "--tid", "--task", "--cpu", "-C", "--cpus", "--comm", "-c", "--filter"],
        "every thread and CPU is recorded, because the culprit may be any; select later: unstarve explain FILE --task NAME",
    ),
    ("record", &["-a", "--all", "--all-cpus", "--system-wide"], "leave it out: all CPUs are recorded"),
    (
        "record",
        &["-e", "--event", "--events"],
        "leave it out: record chooses the events; --io adds those of the block layer",
    ),
    ("record", &["-f", "--force", "--overwrite"], "leave it out: an older unstarve.dat is kept as unstarve.dat.old"),
    ("record", &["-m", "--mmap-pages", "--buffer", "-b"], "--buffer-size SIZE, for each CPU"),
    ("record", &["--open", "--html", "--report"], "unstarve report FILE, after the recording, writes a page"),
    ("fix", &["--dry-run", "--plan", "-n", "--check-only", "--show"], "without --apply the plan is only shown"),
    (
        "fix",
        &["--yes", "-y", "--force", "--do", "--run", "--now", "--go"],
        "--apply makes the changes, without a question",
    ),
    ("fix", &["--revert", "--rollback", "--restore", "--reset"], "unstarve fix --undo"),
    (
        "fix",
        &["--list", "-l"],
        "unstarve fix --status lists what is in force; unstarve explain FILE --full lists remedies",
    ),
    (
        "fix",
        &["--permanent", "--persist", "--persistent", "--boot", "--save", "--keep"],
        "--as systemd, sysctl, tmpfiles, cmdline, guard or tuned prints what outlasts a reboot",
    ),
    (
        "fix",
        &["--task", "-p", "--pid", "--tid", "--cpu"],
        "--finding N and --remedy N choose; --target TID allows a thread",
    ),
    ("explain", &["-v", "--verbose", "--long", "--details", "--more"], "unstarve explain FILE --full"),
    ("check", &["-v", "--verbose", "--long", "--details", "--all", "-a"], "unstarve check --full"),
    ("explain", &["--top", "--limit", "-n", "--all", "-a", "--count"], "--full, which has all findings"),
    ("explain", &["--severity", "--level", "--only"], "--min-severity SEVERITY"),
    ("explain", &["--fix", "--apply"], "unstarve fix FILE shows the plan; with --apply: do it"),
    ("explain", &["--remedy", "--remedies"], "unstarve fix FILE --remedy N"),
    ("explain", &["--summary", "--brief", "--short", "-s", "-q", "--quiet"], "leave it out: explain prints one screen"),
    ("explain", &["--html", "--page", "--web", "--open"], "unstarve report FILE writes a page"),
    ("explain", &["--csv", "--parquet"], "unstarve export FILE -o waits.csv"),
    ("explain", &["--verdict"], "leave it out: the verdict is the first line"),
    ("check", &["--to", "--kernel", "--upgrade", "--target", "--version"], "--upgrade-to VERSION"),
    (
        "check",
        &["--fix", "--apply"],
        "check changes nothing; unstarve knobs set NAME VALUE changes a setting, with an undo",
    ),
    ("check", &["--list"], "--rules lists what is checked"),
    (
        "top",
        &["-n", "-b", "--batch", "--iterations"],
        "--once prints the table without a screen; `unstarve record --for TIME` and `unstarve explain` give a verdict",
    ),
    ("top", &["-d", "--delay"], "--interval TIME"),
    (
        "watch",
        &["--port", "--listen", "-p", "--address", "--bind"],
        "the address is in the configuration: unstarve watch --print-config",
    ),
    (
        "watch",
        &["-d", "--daemon", "--detach", "--background"],
        "systemctl enable --now unstarve-watch runs it in the background",
    ),
    (
        "guard",
        &["-d", "--daemon", "--detach", "--background"],
        "systemctl enable --now unstarve-guard runs it in the background",
    ),
    ("guard", &["-c", "--config", "-f", "--file"], "--policy FILE"),
    ("guard", &["--dry-run", "-n"], "unstarve guard plan --policy FILE"),
    ("knobs", &["--reset", "--restore", "--revert"], "unstarve knobs undo"),
    (
        "export",
        &["--csv", "--parquet", "--perfetto", "--html", "--to-format"],
        "the end of the file's name decides: -o waits.csv, -o waits.parquet, -o trace.pftrace",
    ),
    (
        "export",
        &["--json"],
        "`unstarve explain FILE --json` prints the report; export's format is the end of the name after -o",
    ),
    ("compare", &["--baseline", "--before", "--old", "-a", "-b"], "unstarve compare BEFORE AFTER"),
    ("compare", &["--full", "-v", "--verbose"], "--all, which has unclear differences, too"),
    ("compare", &["--html"], "-o PAGE.html"),
    ("timeline", &["--sort", "-S"], "--summary is a table of tasks, those that waited longest first"),
    ("timeline", &["--limit", "-n", "--top", "--head"], "--summary, or: unstarve timeline FILE | head"),
    ("timeline", &["--csv", "--html"], "unstarve export FILE -o waits.csv, or unstarve report FILE"),
    ("report", &["--open", "--browser"], "leave it out; open the page that -o names with your browser"),
    ("report", &["--json"], "unstarve explain FILE --json"),
    ("report", &["--full", "--all", "-v", "--verbose"], "leave it out: the page has all details"),
    ("doctor", &["--fix", "--install", "--repair"], "doctor changes nothing; its lines `to get it:` have the commands"),
    ("snapshot", &["--json"], "leave it out: a snapshot is JSON"),
    ("*", &["-i", "--input", "-f", "--file", "-r"], "name the recording without an option: unstarve COMMAND FILE"),
    (
        "*",
        &["-o", "--output", "--out", "-w"],
        "this command prints to the terminal: > FILE keeps it; `unstarve report FILE -o PAGE` writes a page",
    ),
    ("*", &["--format", "--output-format", "-j"], "--json"),
    ("*", &["--yaml", "--xml"], "--json is the form for programs"),
    (
        "*",
        &["-v", "--verbose", "--long", "--details", "-a", "--all", "--more"],
        "--full, of explain and check, prints all details",
    ),
    (
        "*",
        &["--pid", "--tid", "--comm", "--name", "--process", "--thread", "--tasks", "--filter", "-t", "-p"],
        "--task TID|NAME",
    ),
    ("*", &["-c", "-C", "--cpus", "--core"], "--cpu LIST, as in --cpu 0,2-3"),
    (
        "*",
        &["--since", "--start", "--begin", "--after", "--time"],
        "--from TIME and --to TIME, as in --from +1s --to +1500ms",
    ),
    ("*", &["--until", "--end", "--before"], "--to TIME, as in --to +1500ms"),
    ("*", &["--no-color", "--no-colour", "--colour", "--nocolor", "--plain"], "--color never"),
    ("*", &["--no-pager", "--pager"], "PAGER=cat, or a pipe: unstarve … | cat"),
    ("*", &["--width", "--columns"], "COLUMNS=120 unstarve …"),
    ("*", &["-q", "--quiet", "--silent"], "> /dev/null; the exit code says the same"),
    ("*", &["--help-all", "--usage", "-?"], "unstarve help COMMAND"),
    ("*", &["--version", "-V"], "unstarve --version"),
];

/// For what is no command.
const FOR_COMMANDS: &[(&[&str], &str)] = &[
    (&["status", "state"], "unstarve watch status, unstarve guard status, unstarve fix --status"),
    (&["start", "run"], "unstarve record, unstarve watch, unstarve guard run"),
    (&["stop", "kill", "quit"], "Ctrl-C ends record, watch and guard; unstarve fix --undo undoes a change"),
    (
        &["upgrade", "regressions", "audit", "lint"],
        "unstarve check --upgrade-to VERSION; without it: what is wrong on this host",
    ),
    (
        &["completion", "completions", "man", "manpage"],
        "unstarve generate completion SHELL, unstarve generate man DIRECTORY",
    ),
    (&["version"], "unstarve --version"),
    (&["stat", "stats", "live", "htop", "ps", "tasks", "threads"], "sudo unstarve top"),
    (&["trace", "capture", "profile", "sample", "collect"], "sudo unstarve record --for 10s"),
    (
        &["monitor", "daemon", "serve", "agent", "alert", "alerts", "metrics", "prometheus", "exporter"],
        "sudo unstarve watch",
    ),
    (&["revert", "rollback", "restore", "reset"], "unstarve fix --undo, unstarve knobs undo, unstarve guard undo"),
    (&["apply", "do", "repair", "cure", "remedy"], "unstarve fix FILE shows the plan; with --apply: do it"),
    (&["verify"], "unstarve fix FILE --apply --verify 10s, unstarve guard verify --policy FILE"),
    (&["episodes", "incidents", "history", "events", "log", "logs"], "sudo unstarve watch episodes --since 2h"),
    (
        &["settings", "sysctl", "config", "configuration", "get", "set", "tunables", "tune", "optimize"],
        "unstarve knobs list, unstarve knobs get NAME, unstarve knobs set NAME VALUE",
    ),
    (&["policy", "policies", "tuned", "nice", "chrt"], "unstarve guard plan --policy FILE"),
    (&["setup", "init", "test", "selftest", "requirements", "capabilities"], "unstarve doctor"),
    (&["install", "uninstall", "update"], "docs/install.md; unstarve doctor says what is missing"),
    (&["query", "duckdb"], "unstarve sql"),
    (
        &["convert", "csv", "perfetto", "parquet", "dump", "script"],
        "unstarve export FILE -o NAME; the end of the name decides the format",
    ),
    (&["whatif", "what-if", "simulate"], "unstarve predict FILE --change CHANGE; unstarve check --upgrade-to VERSION"),
    (&["cluster", "hosts"], "unstarve fleet"),
    (&["rules", "findings", "remedies", "topics", "words"], "unstarve help WORD, as in unstarve help findings"),
    (&["summary", "latency", "lat", "sched"], "unstarve timeline FILE --summary"),
    (&["k8s", "kubernetes", "pods"], "unstarve help pod"),
];

/// For what is no subcommand: the command, the words, what to type.
const FOR_SUBCOMMANDS: &[(&str, &[&str], &str)] = &[
    (
        "guard",
        &["start", "enable"],
        "unstarve guard run --policy FILE; for each boot: systemctl enable --now unstarve-guard",
    ),
    (
        "guard",
        &["stop", "disable"],
        "Ctrl-C, or systemctl stop unstarve-guard, ends it and restores everything; unstarve guard undo",
    ),
    ("guard", &["check", "show", "list", "test", "validate"], "unstarve guard plan --policy FILE"),
    ("guard", &["reload", "restart"], "systemctl restart unstarve-guard"),
    ("watch", &["start", "run", "enable"], "unstarve watch; for each boot: systemctl enable --now unstarve-watch"),
    ("watch", &["stop", "disable"], "Ctrl-C, or systemctl stop unstarve-watch"),
    ("watch", &["list", "ls", "history", "log", "logs", "events"], "unstarve watch episodes"),
    ("watch", &["config", "configuration"], "unstarve watch --print-config"),
    ("watch", &["explain"], "unstarve watch show ID"),
    ("knobs", &["show", "info", "describe"], "unstarve knobs explain NAME, unstarve knobs get NAME"),
    ("knobs", &["reset", "restore", "revert", "rollback"], "unstarve knobs undo"),
    (
        "lab",
        &["start", "boot", "test"],
        "unstarve lab run SCENARIO --kernel VERSION; unstarve lab list has the scenarios",
    ),
    ("lab", &["scenarios", "ls"], "unstarve lab list"),
    ("lab", &["kernels"], "unstarve lab kernel list"),
    ("fleet", &["list", "ls", "hosts"], "unstarve fleet status DIRECTORY"),
    ("fleet", &["query", "sql"], "unstarve sql"),
];

/// For arguments that are missing: the commands, what to type.
const FOR_MISSING: &[(&[&str], &str)] = &[
    (
        &["knobs", "diff"],
        "two kernels: unstarve knobs diff 5.10 6.12; two snapshots: unstarve knobs diff a.json b.json",
    ),
    (&["knobs", "explain"], "unstarve knobs explain base_slice_ns; unstarve knobs list has the names"),
    (&["knobs", "get"], "unstarve knobs get base_slice_ns; unstarve knobs list has the names"),
    (&["knobs", "set"], "sudo unstarve knobs set base_slice_ns 3000000; unstarve knobs list has the names"),
    (&["guard"], "a policy: --policy FILE; unstarve help guard shows one"),
    (&["fix"], "--verify tries the change: --apply --verify 10s"),
    (&["compare"], "two recordings: unstarve compare before.dat after.dat"),
    (&["export"], "a recording: unstarve export unstarve.dat -o waits.csv, waits.parquet or trace.pftrace"),
    (&["timeline"], "a recording: unstarve timeline unstarve.dat; to make one: sudo unstarve record --for 10s"),
    (&["report"], "a recording: unstarve report unstarve.dat; to make one: sudo unstarve record --for 10s"),
    (&["watch", "show"], "an episode's id: unstarve watch episodes lists them"),
    (&["lab", "run"], "a scenario: unstarve lab list has them"),
];

/// The error as people can use it: without clap's advice to pass an option as a value, with ours where there is one.
/// `commands` are the names of all commands.
pub fn advised(mut error: Error, typed: &[OsString], commands: &[String]) -> Error {
    // `-o` as the value of a positional argument is never what was meant.
    error.remove(ContextKind::Suggested);
    let words: Vec<&str> = typed.iter().filter_map(|word| word.to_str()).collect();
    let at = words.iter().position(|word| commands.iter().any(|name| name == word));
    let (command, rest) = at.map_or(("", words.as_slice()), |at| (words[at], &words[at + 1..]));
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(wrong)) => Some(wrong.clone()),
        _ => None,
    };
    let advice = match error.kind() {
        ErrorKind::MissingRequiredArgument => for_the_missing(command, rest),
        ErrorKind::UnknownArgument => context(ContextKind::InvalidArg).and_then(|wrong| {
            let name = wrong.split([' ', '=']).next().unwrap_or_default();
            match name.starts_with('-') {
                true => for_an_option(command, name),
                false => for_a_subcommand(command, name).or_else(|| for_a_word(command, name, rest)),
            }
        }),
        ErrorKind::InvalidSubcommand => context(ContextKind::InvalidSubcommand).and_then(|wrong| match command {
            "" => for_a_command(&wrong),
            command => for_a_subcommand(command, &wrong).or_else(|| for_a_word(command, &wrong, rest)),
        }),
        _ => None,
    };
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

fn for_an_option(command: &str, name: &str) -> Option<String> {
    let is_of = |of: &str| of == command || (of == "*" && !command.is_empty());
    let row = FOR_OPTIONS.iter().find(|(of, options, _)| is_of(of) && options.contains(&name));
    row.map(|(_, _, advice)| {
        advice.replace("COMMAND FILE", &format!("{command} FILE")).replace("help COMMAND", &format!("help {command}"))
    })
}

/// What is no command: words of other tools, and names of files that are not there.
fn for_a_command(word: &str) -> Option<String> {
    if let Some((_, advice)) = FOR_COMMANDS.iter().find(|(words, _)| words.contains(&word)) {
        return Some((*advice).to_owned());
    }
    if Path::new(word).is_dir() {
        return Some(format!("{word} is a directory: name a recording in it, unstarve explain {word}/FILE"));
    }
    word.contains(['.', '/']).then(|| format!("there is no file {word} here"))
}

fn for_a_subcommand(command: &str, word: &str) -> Option<String> {
    if let Some((_, _, advice)) = FOR_SUBCOMMANDS.iter().find(|(of, words, _)| *of == command && words.contains(&word))
    {
        return Some((*advice).to_owned());
    }
    match command {
        "knobs" if word.contains('=') => {
            let (name, value) = word.split_once('=')?;
            Some(format!("unstarve knobs set {name} {value}"))
        }
        "knobs" if unstarve_facts::explain(word).is_some() => {
            Some(format!("unstarve knobs explain {word}, unstarve knobs get {word}"))
        }
        _ => None,
    }
}

fn for_the_missing(command: &str, rest: &[&str]) -> Option<String> {
    let is_typed = |commands: &[&str]| {
        let (first, further) = (commands.first(), &commands[1..]);
        first == Some(&command)
            && further.iter().all(|word| rest.first() == Some(word) || rest.first() == Some(&"compare"))
    };
    let advice = FOR_MISSING.iter().find(|(commands, _)| is_typed(commands)).map(|(_, advice)| (*advice).to_owned());
    // Where an option needs another one, clap's own words name that one.
    advice.filter(|_| !rest.iter().any(|word| ["--all", "--debian", "--target"].contains(word)))
}

/// A word too many.
fn for_a_word(command: &str, typed: &str, rest: &[&str]) -> Option<String> {
    // What is typed again is quoted for a shell.
    let word = unstarve_change::quoted_file(typed).unwrap_or_else(|| "NAME".to_owned());
    let first = || rest.first().copied().filter(|first| !first.starts_with('-'));
    match command {
        "export" => Some(format!("name the result with -o {word}")),
        "timeline" => for_a_second_file(first()?, typed),
        "compare" => Some(
            "two recordings at a time: unstarve compare A B; unstarve report A B C is a page of several".to_owned(),
        ),
        "fix" => Some(format!("one remedy: --remedy {word}")),
        "check" => Some(format!("check looks at settings; a recording: unstarve explain {word}")),
        "knobs" => {
            Some("two kernels: unstarve knobs diff 5.10 6.12; a value: unstarve knobs set NAME VALUE".to_owned())
        }
        "guard" if typed.ends_with(".toml") => Some(format!("name the policy with --policy {word}")),
        "watch" if typed.ends_with(".toml") => Some(format!("name the configuration with --config {word}")),
        "watch" => Some("unstarve watch episodes, show, status, dump or replay".to_owned()),
        "doctor" => Some(format!("doctor looks at this machine; a recording: unstarve explain {word}")),
        "snapshot" => Some(format!("name the file with -o {word}")),
        "top" => Some("one recording at a time; one task: --filter TEXT".to_owned()),
        "record" => Some(format!("a command to record comes after --: unstarve record -- {word} …")),
        _ => None,
    }
}

/// A second word where one recording is read.
pub fn for_a_second_file(first: &str, word: &str) -> Option<String> {
    let [first, second] = [first, word].map(unstarve_change::quoted_file);
    let (first, second) = (first?, second?);
    if word.ends_with(".html") {
        return Some(format!("a page: unstarve report {first} -o {second}"));
    }
    if Path::new(word).is_file() {
        return Some(format!("one recording at a time; two side by side: unstarve compare {first} {second}"));
    }
    Some(format!("one task: --task {second}"))
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
