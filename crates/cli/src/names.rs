//! Keeps glibc in the static program from loading the host's NSS libraries.
//!
//! For services in /etc/nsswitch.conf other than files and DNS, glibc would load libraries of the host's glibc into a
//! program that contains another one. Users and groups are not looked up anywhere.

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    /// Overrides a database's line in /etc/nsswitch.conf (<nss.h>).
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Must be called before a second thread exists.
pub fn only_by_what_is_built_in() {
    // SAFETY: both are strings with a zero byte at their end, which glibc only reads. It fails only for databases and
    // services that it cannot parse.
    unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}
