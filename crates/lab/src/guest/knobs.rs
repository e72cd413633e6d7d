//! Sets the knobs of a request in the guest.

use std::fs;
use std::path::{Path, PathBuf};

use unstarve_change::may_be_set;

use super::changes::Changes;
use super::{GuestError, write};

/// The scheduler's features: before 5.13, and since.
const SCHED_FEATURES_FILES: [&str; 2] = ["/sys/kernel/debug/sched_features", "/sys/kernel/debug/sched/features"];

/// Sets a knob; see [`crate::run::Request::knobs`] for the names.
pub(super) fn set(name: &str, value: &str) -> Result<(), GuestError> {
    let (family, rest) = name.split_once('.').ok_or_else(|| GuestError(format!("`{name}` is no knob")))?;
    match family {
        "sched_feature" => set_feature(rest, value),
        "sysctl" => set_file(name, &PathBuf::from("/proc/sys").join(rest.replace('.', "/")), value),
        "debugfs" => set_file(name, &PathBuf::from("/sys/kernel/debug").join(rest), value),
        // Takes effect through the kernel command line at boot.
        "cmdline" => Ok(()),
        _ => Err(GuestError(format!("`{name}` is no knob"))),
    }
}

fn set_file(name: &str, path: &Path, value: &str) -> Result<(), GuestError> {
    if !path.exists() {
        return Err(GuestError(format!("this kernel has no {name} ({} does not exist)", path.display())));
    }
    match path.to_str().filter(|path| may_be_set(path)) {
        Some(path) => Changes::with_journal("knobs")?.write(path, value),
        // Not a scheduler setting but part of the scenario's machine.
        None => write(path, value),
    }
}

fn set_feature(feature: &str, value: &str) -> Result<(), GuestError> {
    let Some(path) = SCHED_FEATURES_FILES.into_iter().find(|path| Path::new(path).exists()) else {
        return Err(GuestError("this kernel shows no scheduler features in debugfs".into()));
    };
    let known = fs::read_to_string(path).map_err(GuestError::doing(path))?;
    let text = feature_word(feature, value, &known).map_err(GuestError)?;
    Changes::with_journal("knobs")?.set_feature(path, feature, &text)
}

/// The text that turns the feature on or off.
fn feature_word(feature: &str, value: &str, known: &str) -> Result<String, String> {
    if !known.split_whitespace().any(|word| word.strip_prefix("NO_").unwrap_or(word) == feature) {
        return Err(format!("this kernel has no scheduler feature {feature}"));
    }
    match value {
        "on" | "1" | "true" => Ok(feature.to_owned()),
        "off" | "0" | "false" => Ok(format!("NO_{feature}")),
        _ => Err(format!("sched_feature.{feature}={value}: expected on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_written_as_the_kernel_reads_them() {
        let known = "PLACE_LAG NO_NEXT_BUDDY WAKEUP_PREEMPTION\n";
        assert_eq!(feature_word("NEXT_BUDDY", "on", known).as_deref(), Ok("NEXT_BUDDY"));
        assert_eq!(feature_word("PLACE_LAG", "off", known).as_deref(), Ok("NO_PLACE_LAG"));
        let message = feature_word("GENTLE", "off", known).expect_err("unknown");
        assert_eq!(message, "this kernel has no scheduler feature GENTLE");
        assert!(feature_word("PLACE_LAG", "maybe", known).is_err());
    }
}
