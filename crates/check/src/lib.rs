//! Audits a host's settings for starvation before it happens: rules about its snapshot and the facts of its kernel,
//! each a pure function.
//!
//! A hit has the evidence from this host, the consequence, what it cost elsewhere, and the fix with its undo.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod audit;
mod case;
mod cpu_mask;
mod direction;
mod fix;
mod hit;
mod interrupts;
mod load;
mod part;
mod real_time;
mod rule;
mod sarif;
mod short;

pub use audit::{Audit, Host, audit, audit_upgrade};
pub use hit::{FilePosition, Fix, Hit, SettingValue, Severity, When};
pub use part::{Kind, OnHost, Part};
pub use rule::{RULES, Rule};
pub use sarif::{file_uri, sarif};
