//! What a rule reports: sentence, evidence, fixes.

use serde::{Deserialize, Serialize};
use unstarve_change::{Change, Commands, Form, Value, Whose, durable};
use unstarve_facts::Configured;
pub use unstarve_model::Severity;
use unstarve_model::clean;

use crate::part::{Kind, OnHost};

/// A problem that a rule found on a host. All texts are escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hit {
    /// The rule's id.
    pub rule: String,
    /// The severity.
    pub severity: Severity,
    /// Its subject, stable between runs: `monitor RR 10 on 0-7`, `/kubepods.slice`.
    pub subject: String,
    /// One sentence.
    pub sentence: String,
    /// What of the subject, in a few words: `cpu.weight 2500 outweighs kernel workers 25 to 1`.
    #[serde(default)]
    pub brief: String,
    /// The kind of thing that it is about.
    #[serde(default)]
    pub kind: Kind,
    /// What this host has of it.
    #[serde(default)]
    pub on_host: OnHost,
    /// The setting that it is about, with this host's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<SettingValue>,
    /// The public report about it: its id in `unstarve knobs explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// If it depends on the kernel's stable level, which is not known: the levels that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<String>,
    /// The evidence on this host.
    pub evidence: Vec<String>,
    /// The consequence.
    pub consequence: String,
    /// What it cost on other hosts, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Fixes, least invasive first.
    pub fixes: Vec<Fix>,
    /// The configuration lines that set it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<FilePosition>,
    /// For an upgrade preview: whether it applies now, after the upgrade, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<When>,
}

/// A setting of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SettingValue {
    /// Its name.
    pub name: String,
    /// Its value here.
    pub value: String,
    /// Its value on the other kernel, if that has it at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<String>,
}

/// Which of two kernels something applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Only after the upgrade.
    After,
    /// Before and after.
    Both,
    /// Only now: the upgrade ends it.
    Now,
}

/// A fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fix {
    /// What it does and why, one or two sentences.
    pub text: String,
    /// The exact command, empty if there is none. It runs unchanged under `sh -eu`.
    pub apply: String,
    /// The command that undoes it, also in another shell.
    pub undo: String,
    /// What can go wrong.
    pub risk: String,
    /// The kernels and conditions it is valid on.
    pub valid_on: String,
    /// The changes that both commands are made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub changes: Vec<Change>,
}

/// The texts of a fix beside its commands.
pub(crate) struct FixNotes<'a> {
    pub(crate) text: &'a str,
    pub(crate) risk: &'a str,
    pub(crate) valid_on: &'a str,
}

impl Fix {
    /// A fix by changes that a program can make; `None` if no command is possible.
    pub(crate) fn of(about: FixNotes<'_>, changes: Vec<Change>) -> Option<Fix> {
        let commands = unstarve_change::commands(&changes)?;
        Some(Fix::with(about, commands, changes))
    }

    /// Advice for a person, without commands.
    pub(crate) fn advice(about: FixNotes<'_>) -> Fix {
        Fix::with(about, Commands::default(), vec![Change::advice()])
    }

    /// A parameter of the kernel command line.
    pub(crate) fn boot(about: FixNotes<'_>, parameter: &str) -> Fix {
        let parameter = parameter.to_owned();
        Fix::with(about, Commands::default(), vec![Change::at_boot(parameter)])
    }

    /// Keeps a /proc/sys setting's present value over a reboot. The file is named after the setting, so that fixes of
    /// one page do not write the same file.
    pub(crate) fn kept(about: FixNotes<'_>, path: &str, value: &str) -> Option<Fix> {
        let change = Change::file(path, value).from(Value::content(value));
        let files = durable(std::slice::from_ref(&change), Form::Sysctl, &|_| Whose::default()).ok()?;
        let file = files.into_iter().next()?.named(path.rsplit('/').next()?);
        Some(Fix::with(about, file.commands()?, vec![change]))
    }

    fn with(about: FixNotes<'_>, commands: Commands, changes: Vec<Change>) -> Fix {
        Fix {
            text: about.text.to_owned(),
            apply: commands.apply,
            undo: commands.undo,
            risk: about.risk.to_owned(),
            valid_on: about.valid_on.to_owned(),
            changes,
        }
    }
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FilePosition {
    /// The file.
    pub file: String,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The TuneD profile or unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The text there.
    pub text: String,
}

impl From<&Configured> for FilePosition {
    fn from(setting: &Configured) -> FilePosition {
        let text =
            if setting.value.is_empty() { setting.key.clone() } else { format!("{}={}", setting.key, setting.value) };
        FilePosition {
            file: clean(&setting.file).into_owned(),
            line: setting.line,
            owner: setting.owner.as_ref().map(|owner| clean(owner).into_owned()),
            text: clean(&text).into_owned(),
        }
    }
}

/// A hit under construction.
pub(crate) struct Draft {
    hit: Hit,
}

impl Draft {
    pub(crate) fn new(rule: &'static str, severity: Severity, subject: impl AsRef<str>) -> Draft {
        Draft {
            hit: Hit {
                rule: rule.to_owned(),
                severity,
                subject: clean(subject.as_ref()).into_owned(),
                sentence: String::new(),
                brief: String::new(),
                kind: Kind::Problem,
                on_host: OnHost::Has,
                setting: None,
                report: None,
                levels: None,
                evidence: Vec::new(),
                consequence: String::new(),
                price: None,
                fixes: Vec::new(),
                places: Vec::new(),
                holds: None,
            },
        }
    }

    pub(crate) fn says(mut self, sentence: impl AsRef<str>) -> Draft {
        self.hit.sentence = clean(sentence.as_ref()).into_owned();
        self
    }

    pub(crate) fn brief(mut self, brief: impl AsRef<str>) -> Draft {
        self.hit.brief = clean(brief.as_ref()).into_owned();
        self
    }

    pub(crate) fn kind(mut self, kind: Kind, on_host: OnHost) -> Draft {
        (self.hit.kind, self.hit.on_host) = (kind, on_host);
        self
    }

    pub(crate) fn setting(mut self, name: &str, value: &str, later: Option<&str>) -> Draft {
        let text = |text: &str| clean(text).into_owned();
        self.hit.setting = Some(SettingValue { name: text(name), value: text(value), later: later.map(text) });
        self
    }

    pub(crate) fn reported_as(mut self, id: &str) -> Draft {
        self.hit.report = Some(id.to_owned());
        self
    }

    pub(crate) fn on_levels(mut self, levels: Option<String>) -> Draft {
        self.hit.levels = levels;
        self
    }

    pub(crate) fn because(mut self, evidence: impl AsRef<str>) -> Draft {
        self.hit.evidence.push(clean(evidence.as_ref()).into_owned());
        self
    }

    pub(crate) fn because_of(self, evidence: impl IntoIterator<Item = String>) -> Draft {
        evidence.into_iter().fold(self, Draft::because)
    }

    pub(crate) fn would(mut self, consequence: impl AsRef<str>) -> Draft {
        self.hit.consequence = clean(consequence.as_ref()).into_owned();
        self
    }

    pub(crate) fn priced(mut self, price: impl AsRef<str>) -> Draft {
        self.hit.price = Some(clean(price.as_ref()).into_owned());
        self
    }

    pub(crate) fn priced_if(self, price: Option<&str>) -> Draft {
        match price {
            Some(price) => self.priced(price),
            None => self,
        }
    }

    pub(crate) fn fix(mut self, fix: impl Into<Option<Fix>>) -> Draft {
        self.hit.fixes.extend(fix.into());
        self
    }

    pub(crate) fn set_at<'a>(mut self, places: impl IntoIterator<Item = &'a Configured>) -> Draft {
        self.hit.places.extend(places.into_iter().map(FilePosition::from));
        self
    }

    pub(crate) fn done(self) -> Hit {
        self.hit
    }
}
