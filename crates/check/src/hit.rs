use serde::{Deserialize, Serialize};
use unstarve_change::{Change, Commands, Form, Value, Whose, durable};
use unstarve_facts::Configured;
pub use unstarve_model::Severity;
use unstarve_model::clean;

/// What a rule found on a host. Every text is harmless to a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hit {
    /// The rule's id.
    pub rule: String,
    /// How bad.
    pub severity: Severity,
    /// What it is about, the same from run to run: `monitor RR 10 on 0-7`, `/kubepods.slice`.
    pub subject: String,
    /// One sentence.
    pub sentence: String,
    /// What of this host speaks for it.
    pub evidence: Vec<String>,
    /// What would happen.
    pub consequence: String,
    /// What it cost elsewhere, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// What to do, least invasive first.
    pub fixes: Vec<Fix>,
    /// Where it is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// In a preview of an upgrade: whether it holds now, then, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<When>,
}

/// On which of two kernels something holds.
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

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fix {
    /// What and why, one or two sentences.
    pub text: String,
    /// The exact command, empty if there is none. It runs as printed under `sh -eu`.
    pub apply: String,
    /// The command that takes it back, also in another shell.
    pub undo: String,
    /// What can go wrong.
    pub risk: String,
    /// The kernels and conditions it is valid on.
    pub valid_on: String,
    /// What is changed, from which both commands are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub changes: Vec<Change>,
}

/// What stands beside the commands of a fix.
pub(crate) struct About<'a> {
    pub(crate) text: &'a str,
    pub(crate) risk: &'a str,
    pub(crate) valid_on: &'a str,
}

impl Fix {
    /// Changes that a program can make; `None` if no command can be given for them.
    pub(crate) fn of(about: About<'_>, changes: Vec<Change>) -> Option<Fix> {
        let commands = unstarve_change::commands(&changes)?;
        Some(Fix::with(about, commands, changes))
    }

    /// What only a person can do.
    pub(crate) fn advice(about: About<'_>) -> Fix {
        Fix::with(about, Commands::default(), vec![Change::advice()])
    }

    /// A word for the kernel's command line.
    pub(crate) fn boot(about: About<'_>, parameter: &str) -> Fix {
        let parameter = parameter.to_owned();
        Fix::with(about, Commands::default(), vec![Change::at_boot(parameter)])
    }

    /// A setting of /proc/sys as it is now, kept over a reboot. The file is named after the setting, so that fixes of one
    /// page do not write the same one.
    pub(crate) fn kept(about: About<'_>, path: &str, value: &str) -> Option<Fix> {
        let change = Change::file(path, value).from(Value::Text(value.to_owned()));
        let files = durable(std::slice::from_ref(&change), Form::Sysctl, &|_| Whose::default()).ok()?;
        let file = files.into_iter().next()?.named(path.rsplit('/').next()?);
        Some(Fix::with(about, file.commands()?, vec![change]))
    }

    fn with(about: About<'_>, commands: Commands, changes: Vec<Change>) -> Fix {
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

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The TuneD profile or the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What stands there.
    pub text: String,
}

impl From<&Configured> for Place {
    fn from(setting: &Configured) -> Place {
        let text =
            if setting.value.is_empty() { setting.key.clone() } else { format!("{}={}", setting.key, setting.value) };
        Place {
            file: clean(&setting.file).into_owned(),
            line: setting.line,
            owner: setting.owner.as_ref().map(|owner| clean(owner).into_owned()),
            text: clean(&text).into_owned(),
        }
    }
}

/// A hit while a rule writes it.
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
        self.hit.places.extend(places.into_iter().map(Place::from));
        self
    }

    pub(crate) fn done(self) -> Hit {
        self.hit
    }
}
