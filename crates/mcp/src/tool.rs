//! The tools: a table. A tool is a command of this program with some of its options.

use rmcp::model::{Tool as Described, ToolAnnotations};
use serde_json::{Map, Value as Json, json};

use crate::places::{Opened, Places, Refusal};

/// The arguments of a call.
pub type Arguments = Map<String, Json>;

/// A command that agents may run.
pub struct Tool {
    pub name: &'static str,
    /// What it answers, and when to call it.
    pub about: &'static str,
    pub parameters: &'static [Parameter],
    /// The command and what is always given to it.
    pub command: &'static [&'static str],
    pub kind: Kind,
}

/// How a tool answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// With what the command prints.
    Text,
    /// With that, and what `--json` says of the findings.
    Explain,
    /// With a plan and its id.
    Plan,
    /// A plan is carried out.
    Apply,
    /// With commands that record what is missing.
    Record,
    /// With what help, or a page of the book, says.
    Help,
    /// With the rest of an answer.
    More,
}

pub struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub value: Value,
    pub place: Place,
    pub is_required: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A file below an allowed directory.
    File,
    /// A file or a directory there.
    Entry,
    /// A word or a number.
    Text,
    Flag,
    /// Words or numbers.
    List,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// After the options.
    Positional,
    Option(&'static str),
    /// For this server.
    Server,
}

const fn optional(name: &'static str, value: Value, place: Place, about: &'static str) -> Parameter {
    Parameter { name, about, value, place, is_required: false }
}

const fn required(name: &'static str, value: Value, place: Place, about: &'static str) -> Parameter {
    Parameter { name, about, value, place, is_required: true }
}

use Place::{Option as Opt, Positional, Server};
use Value::{Entry, File, Flag, List, Text};

const RECORDING: Parameter = required("recording", File, Positional, "Path of the recording");
const FINDING: Parameter =
    optional("finding", Text, Opt("--finding"), "Number or id of a finding of explain; the worst by default");
const TASK: Parameter =
    optional("task", Text, Opt("--task"), "Only tasks of this id or name; * stands for anything: kworker/*");
const CPU: Parameter = optional("cpu", Text, Opt("--cpu"), "Only these CPUs: 0,2-3");
const FROM: Parameter = optional("from", Text, Opt("--from"), "From here on: 812.5 or, from the start, +1.2s");
const TO: Parameter = optional("to", Text, Opt("--to"), "Until here");

/// All tools, in the order in which an agent wants them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "explain",
        about: "Call this first. Who waits for a CPU in a recording (or kernel log, ps output), who had it, by which rule, and \
                the remedy; ends with the exact next call. Without `recording`: lists the recordings.",
        parameters: &[
            optional("recording", Entry, Positional, "Path of the recording; a directory is listed"),
            optional(
                "finding",
                Text,
                Opt("--finding"),
                "All details of one finding: its number (1 is the worst) or id",
            ),
            optional("full", Flag, Opt("--full"), "All findings with evidence, remedies and risks"),
            TASK,
            CPU,
            FROM,
            TO,
        ],
        command: &["explain"],
        kind: Kind::Explain,
    },
    Tool {
        name: "fix_plan",
        about: "The plan of a remedy: what would change, from what to what, risk, prediction, and whether it can be done on this \
                host. Changes nothing. Call after explain.",
        parameters: &[
            RECORDING,
            FINDING,
            optional("remedy", Text, Opt("--remedy"), "Number or id of a remedy of that finding"),
            optional(
                "target",
                List,
                Opt("--target"),
                "Thread ids or cgroups that may change although others could have \
                                                       written the recording",
            ),
            optional(
                "this_boot",
                Flag,
                Opt("--this-boot"),
                "Only if a person says that this host was recorded since its boot",
            ),
        ],
        command: &["fix"],
        kind: Kind::Plan,
    },
    Tool {
        name: "predict",
        about: "What each remedy, or a change, would do to everybody in the recording, by a model of the scheduler.",
        parameters: &[
            RECORDING,
            FINDING,
            optional(
                "change",
                List,
                Opt("--change"),
                "nice:TASK=N, policy:TASK=other|batch|fifo:N, cpus:TASK=LIST, \
                                                       weight:/GROUP=N, sysctl.NAME=VALUE",
            ),
            optional("victim", Text, Opt("--victim"), "Only the threads of this id or name"),
            optional("kernel", Text, Opt("--kernel"), "Another kernel instead: 6.12"),
        ],
        command: &["predict"],
        kind: Kind::Text,
    },
    Tool {
        name: "timeline",
        about: "Every run with the wait before it and who had the CPU then. Long: give task, cpu or from/to; without, tasks are \
                summed up.",
        parameters: &[
            RECORDING,
            TASK,
            CPU,
            FROM,
            TO,
            optional("summary", Flag, Opt("--summary"), "A table of tasks instead, those that waited longest first"),
        ],
        command: &["timeline"],
        kind: Kind::Text,
    },
    Tool {
        name: "compare",
        about: "What changed between two recordings (or two snapshots): findings, waits, rates.",
        parameters: &[
            required("before", File, Positional, "Path of the first"),
            required("after", File, Positional, "Path of the second"),
            optional("all", Flag, Opt("--all"), "Unclear changes, too"),
            TASK,
            CPU,
            FROM,
            TO,
        ],
        command: &["compare"],
        kind: Kind::Text,
    },
    Tool {
        name: "check",
        about: "Which settings of a host will starve threads: of this host, or of a snapshot or bundle.",
        parameters: &[
            optional("snapshot", File, Opt("--snapshot"), "Path of a snapshot (unstarve snapshot -o FILE)"),
            optional("bundle", Entry, Positional, "Path of a support bundle"),
            optional("upgrade_to", Text, Opt("--upgrade-to"), "What this kernel would change: 6.12"),
            optional("full", Flag, Opt("--full"), "All items with evidence and sources"),
        ],
        command: &["check"],
        kind: Kind::Text,
    },
    Tool {
        name: "what_to_record_next",
        about: "Which recording would answer what this one cannot; the commands are for a person with root.",
        parameters: &[optional("recording", File, Positional, "Path of the recording at hand, if any")],
        command: &["explain"],
        kind: Kind::Record,
    },
    Tool {
        name: "help",
        about: "What a finding, rule, remedy, setting or command means; a page of the book (docs/fix.md); lists: findings, rules, \
                remedies, words, docs.",
        parameters: &[required("topic", Text, Positional, "The word, or one of the lists")],
        command: &["help"],
        kind: Kind::Help,
    },
    Tool {
        name: "more",
        about: "The rest of an answer that was cut.",
        parameters: &[required("cursor", Text, Server, "As that answer gave it")],
        command: &[],
        kind: Kind::More,
    },
    Tool {
        name: "fix_apply",
        about: "Carries out a plan, measures three times, and keeps it only if the waits are shorter with it. Ask a person first.",
        parameters: &[
            required("plan_id", Text, Server, "As fix_plan gave it"),
            optional("verify", Text, Server, "How long to measure each time: 10s (default), at most 60s"),
        ],
        command: &["fix"],
        kind: Kind::Apply,
    },
];

/// Other names of parameters, which agents guess.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("recording", &["file", "path", "trace", "input", "filename", "dat", "directory", "dir"]),
    ("before", &["a", "base", "old", "baseline", "first", "recording_a"]),
    ("after", &["b", "new", "candidate", "second", "recording_b"]),
    ("task", &["thread", "comm", "pid", "tid", "process", "name"]),
    ("cpu", &["cpus", "core"]),
    ("from", &["start", "begin", "since"]),
    ("to", &["end", "until"]),
    ("topic", &["word", "query", "command", "page", "name"]),
    ("plan_id", &["plan", "id"]),
    ("cursor", &["next", "page", "next_cursor", "offset"]),
    ("upgrade_to", &["kernel", "version", "upgrade"]),
];

/// A call that can be carried out.
pub struct Call {
    /// For the program, with files as descriptors.
    pub arguments: Vec<String>,
    /// The files, in the order of the parameters.
    pub files: Vec<Opened>,
}

/// The tools that a server has.
pub fn tools(may_fix: bool) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(move |tool| may_fix || tool.kind != Kind::Apply)
}

impl Tool {
    /// As `tools/list` shows it.
    pub fn described(&self) -> Described {
        let properties: Map<String, Json> = self.parameters.iter().map(|p| (p.name.to_owned(), p.schema())).collect();
        let required: Vec<&str> = self.parameters.iter().filter(|p| p.is_required).map(|p| p.name).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Json::Object(properties));
        schema.insert("additionalProperties".to_owned(), json!(false));
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        let changes = self.kind == Kind::Apply;
        let hints = ToolAnnotations::new().read_only(!changes).destructive(changes).open_world(false);
        Described::new(self.name, self.about, schema).with_annotations(hints)
    }

    fn names(&self) -> String {
        let named = |p: &Parameter| if p.is_required { format!("{} (required)", p.name) } else { p.name.to_owned() };
        self.parameters.iter().map(named).collect::<Vec<_>>().join(", ")
    }

    fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The parameter that was meant.
    fn meant(&self, name: &str) -> Option<&'static str> {
        let known = OTHER_NAMES.iter().filter(|(ours, _)| self.parameter(ours).is_some());
        let by_table = known.clone().find(|(_, theirs)| theirs.contains(&name)).map(|(ours, _)| *ours);
        let near = || {
            let near = |p: &&Parameter| strsim::damerau_levenshtein(p.name, name) <= 2;
            self.parameters.iter().find(near).map(|p| p.name)
        };
        by_table.or_else(near)
    }

    /// What the program is called with.
    ///
    /// # Errors
    /// What is wrong with the arguments, and how they are called.
    pub fn call(&self, given: &Arguments, places: &Places) -> Result<Call, Refusal> {
        self.check_names(given)?;
        let mut call = Call { arguments: words(self.command), files: Vec::new() };
        let mut positional = Vec::new();
        for parameter in self.parameters {
            let Some(value) = given.get(parameter.name).filter(|value| !value.is_null()) else { continue };
            for word in parameter.words(value)? {
                let word = match parameter.value {
                    File | Entry => {
                        let open = if parameter.value == File { Places::file } else { Places::entry };
                        let opened = open(places, &word)?;
                        let path = opened.file.path().to_string_lossy().into_owned();
                        call.files.push(opened);
                        path
                    }
                    Text | Flag | List => word,
                };
                match (parameter.place, parameter.value) {
                    (Opt(option), Flag) => call.arguments.push(option.to_owned()),
                    (Opt(option), _) => call.arguments.push(format!("{option}={word}")),
                    (Positional, _) => positional.push(word),
                    (Server, _) => {}
                }
            }
        }
        call.arguments.push("--".to_owned());
        call.arguments.extend(positional);
        Ok(call)
    }

    fn check_names(&self, given: &Arguments) -> Result<(), Refusal> {
        if let Some(name) = given.keys().find(|name| self.parameter(name).is_none()) {
            let meant = self.meant(name).map(|meant| format!(" Did you mean `{meant}`?")).unwrap_or_default();
            let name = unstarve_model::clean(name);
            return Err(Refusal::new(format!(
                "{} has no parameter `{name}`.{meant} Its parameters: {}",
                self.name,
                self.names()
            )));
        }
        let is_given = |p: &Parameter| given.get(p.name).is_some_and(|value| !value.is_null());
        match self.parameters.iter().find(|p| p.is_required && !is_given(p)) {
            Some(absent) => Err(Refusal::new(format!("{} needs `{}` ({}).", self.name, absent.name, absent.about))),
            None => Ok(()),
        }
    }
}

/// Characters of an argument, and values of a list.
const MAX_WORD_BYTES: usize = 4096;
const MAX_VALUES: usize = 32;

impl Parameter {
    fn schema(&self) -> Json {
        match self.value {
            Flag => json!({ "type": "boolean", "description": self.about }),
            List => json!({ "type": "array", "items": { "type": "string" }, "description": self.about }),
            File | Entry | Text => json!({ "type": "string", "description": self.about }),
        }
    }

    /// The values as words; a flag that is not set has none.
    fn words(&self, value: &Json) -> Result<Vec<String>, Refusal> {
        let wrong = |expected: &str| Refusal::new(format!("`{}` must be {expected}.", self.name));
        let word = |value: &Json| {
            let word = match value {
                Json::String(word) => word.clone(),
                Json::Number(number) if self.value != File => number.to_string(),
                _ => return Err(wrong("a string")),
            };
            let is_usable = word.len() <= MAX_WORD_BYTES && !word.contains('\0');
            if is_usable { Ok(word) } else { Err(wrong("at most 4096 bytes long, without NUL")) }
        };
        match (self.value, value) {
            (Flag, Json::Bool(true)) => Ok(vec![String::new()]),
            (Flag, Json::Bool(false)) => Ok(Vec::new()),
            (Flag, _) => Err(wrong("true or false")),
            (List, Json::Array(values)) if values.len() <= MAX_VALUES => values.iter().map(word).collect(),
            (List, Json::Array(_)) => Err(wrong("a list of at most 32")),
            _ => word(value).map(|word| vec![word]),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(tool: &str, arguments: Json) -> String {
        let tool = TOOLS.iter().find(|known| known.name == tool).expect("there is one");
        let places = Places::open(&[]).expect("nothing to open");
        tool.call(arguments.as_object().expect("an object"), &places).err().expect("refused").to_string()
    }

    #[test]
    fn a_wrong_name_is_answered_by_the_right_one() {
        for (tool, wrong, right) in [
            ("explain", "file", "recording"),
            ("explain", "recordng", "recording"),
            ("compare", "baseline", "before"),
            ("timeline", "thread", "task"),
            ("more", "next_cursor", "cursor"),
        ] {
            let why = refused(tool, json!({ wrong: "x" }));
            assert!(why.contains(&format!("Did you mean `{right}`?")) && why.contains("Its parameters: "), "{why}");
        }
        assert!(refused("fix_plan", json!({})).starts_with("fix_plan needs `recording`"));
        assert!(refused("explain", json!({ "full": "yes" })).contains("true or false"));
    }

    #[test]
    fn no_value_becomes_an_option() {
        let places = Places::open(&[]).expect("nothing to open");
        let help = TOOLS.iter().find(|tool| tool.kind == Kind::Help).expect("there is one");
        let arguments = json!({ "topic": "--version" });
        let call = help.call(arguments.as_object().expect("an object"), &places).expect("it can be called");
        assert_eq!(call.arguments, ["help", "--", "--version"]);
    }
}
