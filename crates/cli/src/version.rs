//! The output of `--version`.

use std::sync::LazyLock;

/// The package's version, and the commit if the build set UNSTARVE_COMMIT, as the Makefile and tools/dist.sh do. A
/// build from an archive has none.
static TEXT: LazyLock<String> = LazyLock::new(|| join(env!("CARGO_PKG_VERSION"), option_env!("UNSTARVE_COMMIT")));

pub fn text() -> &'static str {
    &TEXT
}

fn join(version: &str, commit: Option<&str>) -> String {
    match commit {
        Some(commit) if !commit.is_empty() => format!("{version} ({commit})"),
        _ => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_commit_has_only_a_version() {
        assert_eq!(join("1.2.3", Some("0a1b2c3d4e5f")), "1.2.3 (0a1b2c3d4e5f)");
        assert_eq!(join("1.2.3", Some("")), "1.2.3");
        assert_eq!(join("1.2.3", None), "1.2.3");
    }
}
