//! One side of a comparison: `kernel=6.1,fault=off,remedy=raise-worker,set:sched_feature.NEXT_BUDDY=on`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::run::Request;
use crate::scenario::{Scenario, check_knob_name};

/// The configuration of one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The kernel's name in the store.
    pub kernel: Option<String>,
    /// Whether the fault is present.
    pub fault: bool,
    /// The remedy to apply.
    pub remedy: Option<String>,
    /// Knobs to set.
    pub knobs: Vec<(String, String)>,
}

/// An invalid side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}`: {what}; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between")]
pub struct SideError {
    part: String,
    what: String,
}

impl Default for Side {
    fn default() -> Side {
        Side { kernel: None, fault: true, remedy: None, knobs: Vec::new() }
    }
}

impl FromStr for Side {
    type Err = SideError;

    fn from_str(text: &str) -> Result<Side, SideError> {
        let mut side = Side::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            side.add(part).map_err(|what| SideError { part: part.to_owned(), what })?;
        }
        Ok(side)
    }
}

impl Side {
    fn add(&mut self, part: &str) -> Result<(), String> {
        let (key, value) = part.split_once('=').ok_or("there is no `=`")?;
        if value.is_empty() {
            return Err("there is nothing after the `=`".to_owned());
        }
        match key {
            "kernel" => self.kernel = Some(value.to_owned()),
            "remedy" => self.remedy = Some(value.to_owned()),
            "fault" => {
                self.fault = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err("expected fault=on or fault=off".to_owned()),
                }
            }
            _ => {
                let name = key.strip_prefix("set:").ok_or("unknown key")?;
                check_knob_name(name)?;
                self.knobs.retain(|(known, _)| known != name);
                self.knobs.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }

    /// The request of this side; `kernel` is used if the side names none.
    pub fn request(&self, scenario: &Scenario, kernel: &str, seed: u64) -> Request {
        Request {
            scenario: scenario.clone(),
            kernel: self.kernel.clone().unwrap_or_else(|| kernel.to_owned()),
            fault: self.fault,
            remedy: self.remedy.clone(),
            trial: None,
            knobs: self.knobs.clone(),
            seed,
            io: false,
            predictable: false,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.kernel.iter().map(|kernel| format!("kernel={kernel}")).collect();
        if !self.fault {
            parts.push("fault=off".to_owned());
        }
        parts.extend(self.remedy.iter().map(|remedy| format!("remedy={remedy}")));
        parts.extend(self.knobs.iter().map(|(name, value)| format!("set:{name}={value}")));
        f.write_str(&if parts.is_empty() { "as it is".to_owned() } else { parts.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_read_and_shown_alike() {
        let text = "kernel=6.1,fault=off,remedy=cure,set:sched_feature.WA_IDLE=off";
        assert_eq!(text.parse::<Side>().expect("a side").to_string(), text);
        assert_eq!(Side::default().to_string(), "as it is");
    }

    #[test]
    fn mistakes_name_the_part() {
        let said = ["kernel", "kernel=", "fault=maybe", "color=red", "set:x.y=1"]
            .map(|text| text.parse::<Side>().expect_err("an error").to_string());
        insta::assert_snapshot!(said.join("\n"), @"
        `kernel`: there is no `=`; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
        `kernel=`: there is nothing after the `=`; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
        `fault=maybe`: expected fault=on or fault=off; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
        `color=red`: unknown key; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
        `set:x.y=1`: `x.y` is no knob: expected sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME; a side is kernel=NAME, fault=on|off, remedy=ID, set:KNOB=VALUE, with commas between
        ");
    }
}
