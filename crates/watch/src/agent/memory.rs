//! Memory that was freed and goes back to the system: an episode takes some dozens of MiB for a second (a snapshot of all tasks, the
//! kernel's symbols), and a watch runs for months.
//!
//! glibc keeps what was freed, for each arena of its own, and one arena for each thread up to eight times the number of CPUs; and once
//! a large block was freed, blocks up to its size are no longer mapped each by itself (mallopt(3): `M_MMAP_THRESHOLD` is dynamic unless it
//! is set). musl, which the static program has, gives large blocks back at once.

/// Has large blocks mapped by themselves whatever was freed, and threads share arenas.
pub(crate) fn hold_little() {
    #[cfg(target_env = "gnu")]
    for (what, value) in
        [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10)]
    {
        // SAFETY: It takes two numbers and changes how memory is got from the system from now on.
        unsafe { libc::mallopt(what, value) };
    }
}

/// Gives back what is free now.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: It takes a number and gives back pages that no allocation is in.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Bytes of this process that are in no file.
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
            // Small ones between which some stay, as maps and names leave them.
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
    /// What a packaged file says behind this word.
    fn says<'a>(text: &'a str, word: &str) -> Option<&'a str> {
        text.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim)
    }

    /// However much others can make it hold: it takes no more, and an explanation that does takes nothing with it.
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
