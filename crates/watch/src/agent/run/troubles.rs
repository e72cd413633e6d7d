//! Reports once that a queued output fails, and once that it works again.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::outputs::OutputKind;

/// Outputs that failed at the last check.
#[derive(Default)]
pub(super) struct Troubles(BTreeSet<&'static str>);

impl Troubles {
    /// Changes since the last check, for people.
    pub fn look(&mut self, problems: &BTreeMap<&'static str, String>) -> Vec<String> {
        let mut news = Vec::new();
        for output in OutputKind::queued().map(|kind| kind.name) {
            match problems.get(output) {
                Some(problem) if self.0.insert(output) => news.push(format!("not delivered: {problem}")),
                None if self.0.remove(output) => news.push(format!("{output}: delivered again")),
                _ => {}
            }
        }
        news
    }

    /// The output is disabled now.
    pub fn forget(&mut self, output: &str) {
        self.0.remove(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_output_is_said_once_and_so_is_its_end() {
        let mut troubles = Troubles::default();
        let fails = |why: &str| BTreeMap::from([("otlp", format!("otlp: {why}")), ("store", "store: full".to_owned())]);
        assert_eq!(troubles.look(&fails("refused")), ["not delivered: otlp: refused"]);
        assert!(troubles.look(&fails("timed out")).is_empty(), "it fails still");
        assert_eq!(troubles.look(&BTreeMap::new()), ["otlp: delivered again"]);
        assert!(troubles.look(&BTreeMap::new()).is_empty());
        assert_eq!(troubles.look(&fails("refused")).len(), 1, "anew");
        troubles.forget("otlp");
        assert!(troubles.look(&BTreeMap::new()).is_empty(), "it is not well, it is gone");
    }
}
