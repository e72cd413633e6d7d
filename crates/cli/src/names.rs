//! Host names in a static program.
//!
//! For names that /etc/nsswitch.conf has other services for than files and DNS, glibc would load their libraries: those of the
//! host's glibc, into a program that has another one inside. Users and groups are not looked up anywhere.

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    /// Replaces what /etc/nsswitch.conf says for a database (<nss.h>).
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// To be called before there is a second thread.
pub fn only_by_what_is_built_in() {
    // SAFETY: both are strings with a zero byte at their end, which glibc only reads. It fails only for databases and
    // services that it cannot parse.
    unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
}
