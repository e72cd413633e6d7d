//! Name patterns in scenarios.

use unstarve_model::Glob;

/// Whether a name matches an anchored pattern: plain characters, `*`, `?`, and alternatives separated by `|`.
pub fn fits(pattern: &str, name: &str) -> bool {
    // Patterns have no escapes: a `\` is literal.
    pattern.split('|').any(|one| Glob::new(&one.replace('\\', r"\\")).matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_anchored_and_have_alternatives() {
        assert!(fits("kworker/0:*", "kworker/0:1H"));
        assert!(fits("ksoftirqd/?", "ksoftirqd/1"));
        assert!(fits("*:1*", "kworker/u4:1-x"));
        assert!(!fits("kworker/0:*", "kworker/1:0"));
        assert!(!fits("nfsd", "nfsd4"));
        assert!(!fits("nfsd?", "nfsd"));
        assert!(fits("webwork|webapi", "webapi") && !fits("webwork|webapi", "web"));
        assert!(fits(r"victim\n*", r"victim\n1"));
    }
}
