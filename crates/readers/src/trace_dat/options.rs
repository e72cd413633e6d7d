//! Option ids of trace.dat. Versions 6 and 7 share them; 15 and up exist in version 7 only.
//!
//! Source: trace-cmd's `Documentation/trace-cmd/trace-cmd.dat.v7.5.txt`.

pub(crate) const DONE: u16 = 0;
pub(crate) const DATE: u16 = 1;
pub(crate) const CPUSTAT: u16 = 2;
pub(crate) const BUFFER: u16 = 3;
pub(crate) const TRACECLOCK: u16 = 4;
pub(crate) const UNAME: u16 = 5;
pub(crate) const OFFSET: u16 = 7;
pub(crate) const CPUCOUNT: u16 = 8;
pub(crate) const VERSION: u16 = 9;
pub(crate) const TSC2NSEC: u16 = 14;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const KALLSYMS: u16 = 19;
pub(crate) const CMDLINES: u16 = 21;
pub(crate) const BUFFER_TEXT: u16 = 22;

/// unstarve's own: the host snapshot, JSON in UTF-8. trace-cmd and KernelShark skip options that they do not know. They
/// number theirs upwards from 1 (25 in 2026), so this one (`US` in ASCII) stays free.
pub const SNAPSHOT: u16 = 0x5553;
