//! The page of `unstarve compare` for two hosts: findings of `check` on only one of them.

use std::fmt::Write;

use unstarve_check::Hit;
use unstarve_model::{clean, counted};

/// Formats the findings that only B has, those that only A has, and the number that both have.
pub fn hosts_page(appeared: &[Hit], vanished: &[Hit], stays: usize) -> String {
    let mut text = String::new();
    for (title, hits) in [("New in B", appeared), ("Gone in B", vanished)] {
        if !hits.is_empty() {
            let _ = writeln!(text, "{title}");
        }
        for hit in hits {
            let _ = writeln!(text, "  {:<8} {:<26} {}", hit.severity.word(), hit.rule, clean(&hit.sentence));
        }
    }
    if stays > 0 {
        let _ = writeln!(text, "On both: {} (unstarve check)", counted(stays as u64, "finding"));
    }
    if text.is_empty() { "unstarve check finds nothing on either.\n".to_owned() } else { text }
}
