//! Checks the values in a rule's `set` table.

use unstarve_sched::setting::TASK_SETTINGS;

use super::error::{PolicyError, Source};
use super::file::SetTable;
use super::{Limits, Want};

pub(super) fn wants(source: &Source, at: usize, table: &SetTable, limits: &Limits) -> Result<Vec<Want>, PolicyError> {
    let mut wants = Vec::new();
    for setting in TASK_SETTINGS {
        let mut of_keys = Vec::new();
        for key in setting.rule_keys {
            let Some((_, place, given)) = table.given.iter().find(|(name, ..)| *name == key.name) else { continue };
            let want = key.want(given).map_err(|message| source.wrong(*place, message))?;
            if want.rt_priority() > limits.rt_priority {
                let message = format!(
                    "rt-priority = {} is above the limit {}; a higher one needs rt-priority in [limits] (at most {}) and a reason",
                    want.rt_priority(),
                    limits.rt_priority,
                    Limits::MOST_RT_PRIORITY
                );
                return Err(source.wrong(*place, message));
            }
            of_keys.push(want);
        }
        if !of_keys.is_empty() {
            wants.push(setting.combine(of_keys).map_err(|message| source.wrong(at, message))?);
        }
    }
    if wants.is_empty() {
        return Err(source.wrong(at, "`set` names nothing; expected policy, nice, affinity or another setting"));
    }
    Ok(wants)
}
