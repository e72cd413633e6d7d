//! Reads the kernel's lockdown level, which may explain a refusal to root.

/// Text to append to a message about a refusal if the kernel is locked down. Empty if it is not, or if the level cannot be read.
pub(crate) fn words() -> String {
    let text = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    words_of(&text)
}

/// `none [integrity] confidentiality` (kernel_lockdown(7)).
#[must_use]
fn words_of(text: &str) -> String {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        // LOCKDOWN_BPF_READ_KERNEL, LOCKDOWN_TRACEFS and LOCKDOWN_PERF are of this level (include/linux/security.h).
        Some("confidentiality") => {
            ". The kernel is locked down (confidentiality): this forbids eBPF and tracing, even to root, and is \
                                    set at boot (lockdown=, Secure Boot)"
                .to_owned()
        }
        Some("integrity") => ". The kernel is locked down (integrity)".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_that_holds_is_named() {
        assert_eq!(words_of("[none] integrity confidentiality\n"), "");
        assert_eq!(words_of(""), "");
        assert!(words_of("none [integrity] confidentiality\n").ends_with("locked down (integrity)"));
        let worst = words_of("none integrity [confidentiality]\n");
        assert!(worst.contains("(confidentiality)") && worst.contains("forbids eBPF and tracing"), "{worst}");
    }
}
