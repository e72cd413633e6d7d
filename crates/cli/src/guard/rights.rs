//! Which rights this process lacks for a policy.

use std::fs;

use anyhow::{Result, bail};
use unstarve_guard::Policy;

/// Bits of capability sets (`include/uapi/linux/capability.h`).
const DAC_OVERRIDE: (u32, &str) = (1, "CAP_DAC_OVERRIDE");
const SYS_NICE: (u32, &str) = (23, "CAP_SYS_NICE");

/// The effective capabilities of this process; `None` if /proc does not show them.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    u64::from_str_radix(status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim(), 16).ok()
}

/// Names the missing rights that the policy's values need.
pub fn require(policy: &Policy) -> Result<()> {
    let Some(effective) = effective() else { return Ok(()) };
    let mut needed = Vec::new();
    if !policy.rules.is_empty() {
        needed.push((SYS_NICE, "to change other users' and kernel threads"));
    }
    if !policy.settings.is_empty() {
        needed.push((DAC_OVERRIDE, "to write files of /proc and /sys"));
    }
    let missing: Vec<String> = needed
        .into_iter()
        .filter(|((bit, _), _)| effective & (1 << bit) == 0)
        .map(|((_, name), purpose)| format!("{name} ({purpose})"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("missing: {}; run it as root. Nothing was changed", missing.join(", "))
}
