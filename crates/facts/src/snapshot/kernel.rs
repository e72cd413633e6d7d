//! The running kernel in a snapshot.

use serde::{Deserialize, Serialize};

/// The running kernel and how it was booted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelInfo {
    /// `uname -r`: `6.1.0-32-cloud-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// `uname -v`: `#1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1 (2025-03-06)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `uname -m`: `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// `/proc/version_signature`, which only Ubuntu has; its last word is the upstream version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The scheduling parameters of the kernel command line. The rest may contain addresses and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// Lockdown: `none`, `integrity` or `confidentiality`. `None` if securityfs does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<String>,
}
