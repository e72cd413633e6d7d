//! Writes the verdict table as Markdown for `docs/verdict.md`.

use super::table::TABLE;
use super::{Threshold, Waiter};

/// The table as Markdown, one section per waiter.
pub fn markdown() -> String {
    let mut text = String::new();
    for waiter in Waiter::ALL {
        let words = waiter.words();
        text.push_str(&format!("### {}{}\n\n", words[..1].to_uppercase(), &words[1..]));
        text.push_str("| because of | remark from | warning from | critical from |\n|---|---|---|---|\n");
        for row in TABLE.iter().filter(|row| row.waiter == waiter) {
            let [warning, critical] = [
                cell(row.warning, row.warning_periods.map(periods)),
                cell(row.critical, row.critical_periods.map(periods)),
            ];
            text.push_str(&format!("| {} | {} | {warning} | {critical} |\n", row.cause.words(), cell(row.info, None)));
        }
        text.push('\n');
    }
    text
}

fn cell(thresholds: &[Threshold], also: Option<String>) -> String {
    let all: Vec<String> = thresholds.iter().map(Threshold::words).chain(also).collect();
    if all.is_empty() { "–".into() } else { all.join("; or ") }
}

fn periods(count: u64) -> String {
    if count == 1 { "one period of its own".into() } else { format!("{count} periods of its own") }
}

impl Threshold {
    /// `5 % and 24 ms in all, 4 ms at a time`.
    fn words(&self) -> String {
        let share = (self.share > 0.0).then(|| format!("{:.0} %", self.share * 100.0));
        let lost = (self.lost.0 > 0).then(|| format!("{} in all", plain(self.lost)));
        let in_all = [share, lost].into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let longest = (self.longest.0 > 0).then(|| format!("{} at a time", plain(self.longest)));
        let words = [Some(in_all).filter(|words| !words.is_empty()), longest].into_iter().flatten().collect::<Vec<_>>();
        if words.is_empty() { "always, where it is found".into() } else { words.join(", ") }
    }
}

/// Thresholds are round: `4 ms`, `1 s`.
fn plain(length: unstarve_model::Nanos) -> String {
    let ms = length.0 / 1_000_000;
    if ms >= 1000 && ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::VerdictRow;

    #[test]
    fn each_row_is_printed_once() {
        let text = markdown();
        let lines = text.lines().filter(|line| line.starts_with("| ") && !line.contains("because of")).count();
        assert_eq!(lines, TABLE.len(), "{text}");
        let all = |row: &VerdictRow| text.contains(row.cause.words());
        assert!(TABLE.iter().all(all));
    }
}
