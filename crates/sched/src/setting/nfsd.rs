//! Settings of the kernel's NFS server.

use super::Setting;

pub(super) const THREADS: Setting = Setting { paths: &["/proc/fs/nfsd/threads"], ..Setting::PLAIN };
