//! Folded stacks add up to the report, and make a flame graph.

use inferno::flamegraph;
use unstarve_export::Folded;
use unstarve_timeline::Selection;

use crate::formats::stage::{Sheet, export, open, traces};

/// Each line's frames and its number.
pub fn stacks(text: &str) -> Vec<(Vec<&str>, u64)> {
    text.lines()
        .map(|line| {
            let (frames, ns) = line.rsplit_once(' ').expect("a number at the end");
            (frames.split(';').collect(), ns.parse().expect("a number at the end"))
        })
        .collect()
}

#[test]
fn stacks_add_up_to_the_report_and_make_a_flame_graph() {
    for trace in traces() {
        let sheet = Sheet::default();
        let report = export(open(&trace), Folded::new(sheet.clone(), Selection::default()));
        let text = sheet.text();
        let stacks = stacks(&text);
        let total: u64 = stacks.iter().map(|(_, ns)| ns).sum();
        assert_eq!(total, report.trace.waits_total_ns, "{}", trace.display());
        assert!(stacks.iter().all(|(frames, _)| frames.len() == 3), "{}", trace.display());
        if total > 0 {
            assert!(graph(&text).contains(&format!("all ({} ns, 100%)", grouped(total))), "{}", trace.display());
        }
    }
}

fn graph(text: &str) -> String {
    let mut options = flamegraph::Options::default();
    options.count_name = "ns".to_owned();
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, text.lines(), &mut svg).expect("these are stacks");
    String::from_utf8(svg).expect("UTF-8")
}

/// Numbers as inferno prints them.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}
