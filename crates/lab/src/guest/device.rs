//! Null block devices for the guest's file systems.

use std::fs;
use std::path::Path;

use super::{GuestError, mounts, write};

const NULL_BLOCK: &str = "/sys/kernel/config/nullb";

/// Makes `/dev/nullb0` and so on; see the kernel's Documentation/block/null_blk.rst.
///
/// They store data (no file system mounts otherwise), and each request has its own timer, so completions come one by
/// one. All kernels use configfs: on 5.10 only it has `memory_backed`.
pub(super) fn make_null_blocks(devices: u32, size_mib: u32, completion_ns: u64) -> Result<(), GuestError> {
    mounts::mount_configfs()?;
    if !Path::new(NULL_BLOCK).exists() {
        return Err(GuestError("null-blk: the scenario does not load the module null_blk".into()));
    }
    for number in 0..devices {
        let item = Path::new(NULL_BLOCK).join(format!("nullb{number}"));
        fs::create_dir(&item).map_err(GuestError::doing(item.display()))?;
        let timer = if completion_ns == 0 { "0" } else { "2" };
        let size = size_mib.to_string();
        let completion = completion_ns.to_string();
        let settings = [
            ("size", size.as_str()),
            ("memory_backed", "1"),
            ("queue_mode", "2"),
            ("submit_queues", "1"),
            ("hw_queue_depth", "512"),
            ("irqmode", timer),
            ("completion_nsec", completion.as_str()),
            ("power", "1"),
        ];
        for (name, value) in settings {
            write(item.join(name), value)?;
        }
        let device = format!("/dev/nullb{number}");
        if !Path::new(&device).exists() {
            return Err(GuestError(format!("null-blk: {device} did not appear")));
        }
    }
    Ok(())
}
