//! Reads settings of the running system, and plans changes.

use unstarve_facts::{Harm, Knob, check_harm, chosen, is_feature};
use unstarve_model::CpuSet;

use crate::Root;

/// Settings of the running system. Their paths are looked up on the system, not derived from its version.
pub struct Live<'a> {
    root: &'a Root,
}

/// Why a setting cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// The table has no such setting, and there is no such file or feature.
    #[error("{0}: neither a known setting nor a feature of this kernel; unstarve knobs list shows what there is")]
    Unknown(String),
    /// This kernel does not have it, or it is not visible.
    #[error("{name}: not found on this system at {tried}{hint}")]
    NotHere {
        /// The requested name.
        name: String,
        /// The paths tried.
        tried: String,
        /// What may help.
        hint: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {}", crate::refusal(path, error))]
    Read {
        /// The file.
        path: String,
        /// The error.
        error: std::io::Error,
    },
    /// The value is invalid.
    #[error("`{0}` is not a valid value: expected a line of at most 200 characters without control characters")]
    Value(String),
    /// The value would harm the machine.
    #[error("{path} = {value}: {harm}. Nothing was written")]
    Harm {
        /// The file.
        path: String,
        /// The value.
        value: String,
        /// The harm.
        harm: Harm,
    },
}

/// What would be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Each file with its current and its new content.
    pub steps: Vec<Step>,
}

/// One file, or one feature of the features file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The absolute path.
    pub path: String,
    /// The feature, in the features file.
    pub feature: Option<String>,
    /// The current value; for a feature `NAME` or `NO_NAME`.
    pub old: String,
    /// The new value.
    pub new: String,
}

struct Place {
    path: String,
    feature: Option<String>,
}

impl Place {
    /// Whether the file may be given by its path.
    fn may_be_named(&self) -> bool {
        EXTRA_FILES.iter().any(|place| self.path.starts_with(place)) && is_plain(&self.path) && !self.is_features_file()
    }

    fn is_features_file(&self) -> bool {
        FEATURE_FILES.contains(&self.path.as_str())
    }
}

/// An absolute path in canonical form.
fn is_plain(path: &str) -> bool {
    let mut components = path.split('/');
    components.next() == Some("") && components.all(|name| !["", ".", ".."].contains(&name) && !name.contains('\0'))
}

/// Files that may be given by path although the table does not have them.
const EXTRA_FILES: [&str; 4] = [
    "/proc/sys/kernel/sched_",
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/debug/sched/",
    "/sys/module/workqueue/parameters/",
];

const FEATURE_FILES: [&str; 2] = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];

const NO_DEBUGFS: &str =
    "; /sys/kernel/debug cannot be read: mount debugfs, as root, on a kernel that is not locked down";

impl<'a> Live<'a> {
    /// The settings of the system at `root`.
    pub fn new(root: &'a Root) -> Live<'a> {
        Live { root }
    }

    /// Paths and values of a setting; several if it is per CPU.
    pub fn get(&self, name: &str) -> Result<Vec<(String, String)>, KnobError> {
        self.places(name)?.iter().map(|place| Ok((place.path.clone(), self.read(place)?))).collect()
    }

    /// What writing a value would change. Changes nothing.
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
            if let Some(refused) = self.refused(FEATURE_FILES.into_iter()) {
                return Err(refused);
            }
            let tried = FEATURE_FILES.join(" nor at ");
            let hint = if FEATURE_FILES.iter().any(|path| self.root.text(path).is_ok()) { "" } else { NO_DEBUGFS };
            return Err(KnobError::NotHere { name: bare.to_owned(), tried, hint });
        }
        let path = match name.strip_prefix("kernel.") {
            Some(key) => format!("/proc/sys/kernel/{key}"),
            None => name.to_owned(),
        };
        let place = Place { path, feature: None };
        if place.may_be_named() && self.root.is_file(&place.path) {
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
        let mut refused = None;
        for form in knob.rows() {
            let mut paths = form.paths(cpus.iter());
            // A single CPU's setting, by its own name.
            if form.path().contains("{N}") && name.contains("cpu") {
                paths.retain(|path| path.ends_with(&format!("/{}", name.trim_start_matches('/'))));
            }
            let there: Vec<String> = paths.iter().filter(|path| self.root.is_file(path)).cloned().collect();
            if !there.is_empty() {
                return Ok(there.into_iter().map(|path| Place { path, feature: None }).collect());
            }
            refused = refused.or_else(|| self.refused(paths.iter().map(String::as_str)));
            if !tried.contains(&form.path().to_owned()) {
                tried.push(form.path().to_owned());
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        let debugfs = tried.iter().any(|path| path.starts_with("/sys/kernel/debug"));
        let hint = if debugfs && !self.root.is_dir("/sys/kernel/debug/sched") { NO_DEBUGFS } else { "" };
        Err(KnobError::NotHere { name: knob.name().to_owned(), tried: tried.join(" nor at "), hint })
    }

    /// The first of these files whose existence is hidden from us.
    fn refused<'p>(&self, mut paths: impl Iterator<Item = &'p str>) -> Option<KnobError> {
        paths.find_map(|path| match std::fs::metadata(self.root.path(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Some(KnobError::Read { path: path.to_owned(), error })
            }
            _ => None,
        })
    }

    /// A feature bit of the running kernel.
    fn feature(&self, name: &str) -> Option<Place> {
        let name = name.strip_prefix("NO_").unwrap_or(name);
        FEATURE_FILES.iter().find_map(|path| {
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
