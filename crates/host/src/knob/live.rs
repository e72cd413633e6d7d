use std::io::Write;

use unstarve_facts::{Harm, Knob, check_harm, chosen, is_feature};
use unstarve_model::CpuSet;

use super::{Entry, Journal, JournalError};
use crate::Root;

/// Settings of the running system: where they are is asked of it, not of its version.
pub struct Live<'a> {
    root: &'a Root,
}

/// Why a setting could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// No kernel that the table knows has it, nor is there such a file or feature.
    #[error("{0}: neither a known setting nor a feature of this kernel; unstarve knobs list shows what there is")]
    Unknown(String),
    /// This kernel does not have it, or it is not visible.
    #[error("{name}: this system does not have it at {tried}{hint}")]
    NotHere {
        /// As asked.
        name: String,
        /// Paths that were looked at.
        tried: String,
        /// What could help.
        hint: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The kernel does not take it.
    #[error("the kernel refuses `{value}` for {path}: {error}{hint}")]
    Write {
        /// Which.
        path: String,
        /// What.
        value: String,
        /// Why.
        error: std::io::Error,
        /// What could help.
        hint: &'static str,
    },
    /// The value is none.
    #[error("`{0}` is no value for a setting: expected a line of at most 200 characters without control characters")]
    Value(String),
    /// It would harm the machine.
    #[error("{path} = {value}: {harm}. Nothing was written")]
    Harm {
        /// Which.
        path: String,
        /// What.
        value: String,
        /// Why.
        harm: Harm,
    },
    /// It was undone, or changed by somebody else since.
    #[error("{path} is `{now}`, but unstarve set it to `{set}`: somebody has changed it since, so it is left alone")]
    Changed {
        /// Which.
        path: String,
        /// What it is.
        now: String,
        /// What was set.
        set: String,
    },
    /// The journal says that something was written which this program cannot have written.
    #[error(
        "the journal's change {id}: {path} = `{value}` is nothing that unstarve knobs sets; left alone. \
             Look who wrote the journal, then move it away"
    )]
    NotOurs {
        /// The entry's number.
        id: u64,
        /// The file.
        path: String,
        /// What an undo would have to write.
        value: String,
    },
    /// It was set below another directory.
    #[error("{path} was set below {root}; undo it with --root {root}")]
    OtherRoot {
        /// The file.
        path: String,
        /// The directory.
        root: String,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What would be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Each file with what it holds and what it would hold.
    pub steps: Vec<Step>,
}

/// One file, or one feature of the features file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The absolute path.
    pub path: String,
    /// The feature, of the features file.
    pub feature: Option<String>,
    /// What it holds now; of a feature, `NAME` or `NO_NAME`.
    pub old: String,
    /// What it would hold.
    pub new: String,
}

/// What an undo did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undone {
    /// The path.
    pub path: String,
    /// What it was.
    pub from: String,
    /// What it is again.
    pub to: String,
}

struct Place {
    path: String,
    feature: Option<String>,
}

impl Place {
    /// Whether the file may be named by its path.
    fn may_be_named(&self) -> bool {
        PLACES.iter().any(|place| self.path.starts_with(place)) && is_plain(&self.path) && !self.is_features_file()
    }

    fn is_features_file(&self) -> bool {
        FEATURES.contains(&self.path.as_str())
    }

    /// Whether [`Live::places`] can give it, on whatever kernel.
    fn could_be_set(&self) -> bool {
        match &self.feature {
            Some(name) => {
                let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                self.is_features_file() && is_word
            }
            None => self.may_be_named() || Knob::has_path(&self.path) && !self.is_features_file(),
        }
    }

    /// Whether that can have been its text: one line, and of a feature one of its two words.
    fn could_hold(&self, text: &str) -> bool {
        match &self.feature {
            Some(name) => text.strip_prefix("NO_").unwrap_or(text) == name,
            None => text.len() <= 4096 && !text.chars().any(char::is_control),
        }
    }
}

/// An absolute path as the kernel would write it.
fn is_plain(path: &str) -> bool {
    let mut components = path.split('/');
    components.next() == Some("") && components.all(|name| !["", ".", ".."].contains(&name) && !name.contains('\0'))
}

/// Files that may be named by path although the table does not know them.
const PLACES: [&str; 4] = [
    "/proc/sys/kernel/sched_",
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/debug/sched/",
    "/sys/module/workqueue/parameters/",
];

const FEATURES: [&str; 2] = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];

const NO_DEBUGFS: &str =
    "; /sys/kernel/debug cannot be read: mount debugfs, as root, on a kernel that is not locked down";

impl<'a> Live<'a> {
    /// Settings of the system at `root`.
    pub fn new(root: &'a Root) -> Live<'a> {
        Live { root }
    }

    /// Paths and values of a setting; several if every CPU has its own.
    pub fn get(&self, name: &str) -> Result<Vec<(String, String)>, KnobError> {
        self.places(name)?.iter().map(|place| Ok((place.path.clone(), self.read(place)?))).collect()
    }

    /// What setting it would do. Changes nothing.
    pub fn plan(&self, name: &str, value: &str) -> Result<Plan, KnobError> {
        let value = value.trim();
        let is_line = !value.is_empty() && value.len() <= 200 && !value.chars().any(char::is_control);
        if !is_line {
            return Err(KnobError::Value(unstarve_model::clean(value).chars().take(60).collect()));
        }
        let step = |place: Place| {
            let old = self.read(&place)?;
            let new = match &place.feature {
                Some(feature) => feature_word(feature, value).ok_or_else(|| KnobError::Value(value.to_owned()))?,
                None => {
                    let other = |name: &str| self.get(name).ok()?.into_iter().next().map(|(_, value)| value);
                    check_harm(&place.path, value, other).map_err(|harm| KnobError::Harm {
                        path: place.path.clone(),
                        value: value.to_owned(),
                        harm,
                    })?;
                    value.to_owned()
                }
            };
            Ok(Step { path: place.path, feature: place.feature, old, new })
        };
        Ok(Plan { steps: self.places(name)?.into_iter().map(step).collect::<Result<_, KnobError>>()? })
    }

    /// Writes it down, then does it. What fails in the middle is taken back.
    pub fn apply(&self, plan: &Plan, journal: &mut Journal) -> Result<(), KnobError> {
        let mut done: Vec<u64> = Vec::new();
        for step in plan.steps.iter().filter(|step| step.old != step.new) {
            let id = journal.set(step, self.root)?;
            let place = Place { path: step.path.clone(), feature: step.feature.clone() };
            match self.write(&place, &step.new) {
                // The kernel may round: what it says is what an undo will look for.
                Ok(()) => journal.done(id, &self.read(&place)?)?,
                Err(error) => {
                    journal.undone(id)?;
                    for id in done.into_iter().rev() {
                        // The first error is the one to tell.
                        let _ = self.undo_one(journal, id);
                    }
                    return Err(error);
                }
            }
            done.push(id);
        }
        Ok(())
    }

    /// Takes the last change back, or all of them, latest first. A value that somebody else has changed since is left alone,
    /// and its entry is kept.
    pub fn undo(&self, journal: &mut Journal, all: Extent) -> (Vec<Undone>, Vec<KnobError>) {
        let mut ids: Vec<u64> = journal.pending().iter().map(|entry| entry.id).collect();
        ids.reverse();
        if all == Extent::Last {
            ids.truncate(1);
        }
        let (mut undone, mut failed) = (Vec::new(), Vec::new());
        for id in ids {
            match self.undo_one(journal, id) {
                Ok(change) => undone.extend(change),
                Err(error) => failed.push(error),
            }
        }
        (undone, failed)
    }

    fn undo_one(&self, journal: &mut Journal, id: u64) -> Result<Option<Undone>, KnobError> {
        let Some(entry) = journal.pending().into_iter().find(|entry| entry.id == id) else { return Ok(None) };
        if entry.root != self.root.name() {
            let root = entry.root.unwrap_or_else(|| "/".to_owned());
            return Err(KnobError::OtherRoot { path: entry.path, root });
        }
        let place = Place { path: entry.path.clone(), feature: entry.feature.clone() };
        if !place.could_be_set() || !place.could_hold(&entry.old) {
            let value = unstarve_model::clean(&entry.old).chars().take(60).collect();
            return Err(KnobError::NotOurs { id, path: unstarve_model::clean(&entry.path).into_owned(), value });
        }
        let now = self.read(&place)?;
        if now == entry.old {
            journal.undone(id)?;
            return Ok(None);
        }
        if now != entry.seen.as_deref().unwrap_or(&entry.new) && now != entry.new {
            return Err(changed(entry, now));
        }
        self.write(&place, &entry.old)?;
        journal.undone(id)?;
        Ok(Some(Undone { path: entry.path, from: now, to: entry.old }))
    }

    fn places(&self, name: &str) -> Result<Vec<Place>, KnobError> {
        let name = name.trim();
        if let Some(knob) = Knob::named(name).filter(|knob| knob.name() != "sched_features") {
            return self.places_of(knob, name);
        }
        if let Some(place) = self.feature(name) {
            return Ok(vec![place]);
        }
        let bare = name.strip_prefix("NO_").unwrap_or(name);
        if is_feature(bare) {
            let tried = FEATURES.join(" nor at ");
            let hint = if FEATURES.iter().any(|path| self.root.text(path).is_ok()) { "" } else { NO_DEBUGFS };
            return Err(KnobError::NotHere { name: bare.to_owned(), tried, hint });
        }
        let path = match name.strip_prefix("kernel.") {
            Some(key) => format!("/proc/sys/kernel/{key}"),
            None => name.to_owned(),
        };
        let place = Place { path, feature: None };
        if place.may_be_named() && self.root.path(&place.path).is_file() {
            return Ok(vec![place]);
        }
        Err(KnobError::Unknown(unstarve_model::clean(name).into_owned()))
    }

    fn places_of(&self, knob: Knob, name: &str) -> Result<Vec<Place>, KnobError> {
        let cpus: CpuSet = self
            .root
            .text("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let mut tried: Vec<String> = Vec::new();
        for form in knob.rows() {
            let mut paths = form.paths(cpus.iter());
            // One CPU's by its own name.
            if form.path().contains("{N}") && name.contains("cpu") {
                paths.retain(|path| path.ends_with(&format!("/{}", name.trim_start_matches('/'))));
            }
            let there: Vec<String> = paths.iter().filter(|path| self.root.path(path).is_file()).cloned().collect();
            if !there.is_empty() {
                return Ok(there.into_iter().map(|path| Place { path, feature: None }).collect());
            }
            if !tried.contains(&form.path().to_owned()) {
                tried.push(form.path().to_owned());
            }
        }
        let debugfs = tried.iter().any(|path| path.starts_with("/sys/kernel/debug"));
        let hint = if debugfs && !self.root.path("/sys/kernel/debug/sched").is_dir() { NO_DEBUGFS } else { "" };
        Err(KnobError::NotHere { name: knob.name().to_owned(), tried: tried.join(" nor at "), hint })
    }

    /// A feature bit of the running kernel.
    fn feature(&self, name: &str) -> Option<Place> {
        let name = name.strip_prefix("NO_").unwrap_or(name);
        FEATURES.iter().find_map(|path| {
            let text = self.root.text(path).ok()?;
            let has = text.split_ascii_whitespace().any(|word| word.strip_prefix("NO_").unwrap_or(word) == name);
            has.then(|| Place { path: (*path).to_owned(), feature: Some(name.to_owned()) })
        })
    }

    fn read(&self, place: &Place) -> Result<String, KnobError> {
        let text = self.root.text(&place.path).map_err(|error| KnobError::Read { path: place.path.clone(), error })?;
        match &place.feature {
            None => Ok(chosen(&place.path, text.trim()).to_owned()),
            Some(name) => text
                .split_ascii_whitespace()
                .find(|word| word.strip_prefix("NO_").unwrap_or(word) == name)
                .map(str::to_owned)
                .ok_or_else(|| KnobError::Unknown(name.clone())),
        }
    }

    fn write(&self, place: &Place, value: &str) -> Result<(), KnobError> {
        // No truncation: a sysctl has none, and a file that is not there must not come to be.
        let written = self.root.open_to_write(&place.path).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "; it needs root",
                std::io::ErrorKind::ReadOnlyFilesystem => "; a container may not change the host",
                _ => "",
            };
            KnobError::Write { path: place.path.clone(), value: value.to_owned(), error, hint }
        })
    }
}

/// How much is taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The last change.
    Last,
    /// All changes.
    All,
}

fn changed(entry: Entry, now: String) -> KnobError {
    KnobError::Changed { path: entry.path, now, set: entry.seen.unwrap_or(entry.new) }
}

/// `on`, `1`, `NAME` → `NAME`; `off`, `0`, `NO_NAME` → `NO_NAME`.
fn feature_word(name: &str, value: &str) -> Option<String> {
    match value {
        "on" | "1" | "y" => Some(name.to_owned()),
        "off" | "0" | "n" => Some(format!("NO_{name}")),
        word if word == name || word.strip_prefix("NO_") == Some(name) => Some(word.to_owned()),
        _ => None,
    }
}
