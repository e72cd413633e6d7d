//! Returns freed memory to the system: an episode takes dozens of MiB for a second (a snapshot of all tasks, the kernel's symbols), and a watch
//! runs for months.
//!
//! glibc keeps freed memory in its arenas, of which there are up to eight per CPU; and once a large block was freed, blocks up to its size no
//! longer get mappings of their own (mallopt(3): `M_MMAP_THRESHOLD` is dynamic unless it is set). musl, used by the static program, returns large
//! blocks at once.

/// Makes glibc always map large blocks separately, and lets threads share arenas.
pub(crate) fn hold_little() {
    #[cfg(target_env = "gnu")]
    for (what, value) in
        [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10)]
    {
        // SAFETY: takes two numbers, and changes only how memory is requested from the system from now on.
        unsafe { libc::mallopt(what, value) };
    }
}

/// Returns the memory that is free now.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and releases only pages without allocations.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Anonymous memory of this process in bytes.
    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its size");
        line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
    }

    #[test]
    fn what_a_thread_has_freed_goes_back() {
        const SIZE: usize = 64 << 20;
        let before = resident();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Small blocks of which some stay, as with maps and names.
            let mut many: Vec<Vec<u8>> = (0..SIZE / 1024).map(|_| vec![1; 1024]).collect();
            let last = many.pop();
            drop(many);
            sender.send(last).expect("somebody listens");
        });
        let stays = receiver.recv().expect("a block");
        thread.join().expect("it ends");
        give_back();
        let grown = resident().saturating_sub(before);
        assert!(grown < SIZE as u64 / 4, "{grown} bytes stay");
        drop(stays);
    }
}

#[cfg(test)]
mod packaged {
    /// The value after this word in a packaged file.
    fn says<'a>(text: &'a str, word: &str) -> Option<&'a str> {
        text.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim)
    }

    /// Memory limits: whatever other users make it hold, the watch takes no more, and an explanation that exceeds the limit is killed alone.
    #[test]
    fn unit_and_pod_have_the_same_limit() {
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let read = |name: &str| std::fs::read_to_string(packaging.join(name)).expect(name);
        let unit = read("unstarve-watch.service");
        assert_eq!(says(&unit, "MemoryMax="), Some("512M"));
        assert_eq!(says(&unit, "OOMPolicy="), Some("continue"));
        for name in ["kubernetes/watch.yaml", "helm/unstarve/values.yaml"] {
            let text = read(name);
            let limits = text.split("limits:").nth(1).unwrap_or_default();
            assert_eq!(says(limits, "memory:"), Some("512Mi"), "{name}");
        }
    }
}
