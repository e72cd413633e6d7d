//! The parts of the format that are the same in every profile.

use serde_json::{Value, json};
use unstarve_diagnose::report::TraceSummary;
use unstarve_model::{Time, WallClock};
use unstarve_sched::Rule;

/// The format's version: the first in which threads share their tables. The profiler upgrades older versions.
pub const FORMAT_VERSION: u32 = 60;

/// The first category; rules follow in their order.
const OTHER_CATEGORY: usize = 0;

/// The category of a rule, or the first one for none.
pub fn category(rule: Option<Rule>) -> usize {
    rule.map_or(OTHER_CATEGORY, |rule| rule as usize + 1)
}

fn colour(rule: Rule) -> &'static str {
    match rule {
        Rule::Unknown => "grey",
        Rule::Irq => "yellow",
        Rule::Softirq => "orange",
        Rule::Throttled => "purple",
        Rule::Idle => "lightblue",
        Rule::Class | Rule::Priority => "red",
        Rule::NotPreempted => "magenta",
        Rule::WakeupPreemption => "magenta",
        Rule::Weight => "blue",
        Rule::Count => "brown",
        Rule::Order => "blue",
        Rule::Unranked => "grey",
        Rule::Fair => "green",
    }
}

fn categories() -> Value {
    let named = |name: &str, colour: &str| json!({"name": name, "color": colour, "subcategories": ["Other"]});
    let rules = Rule::ALL.iter().map(|rule| named(rule.word(), colour(*rule)));
    std::iter::once(named("Other", "grey")).chain(rules).collect()
}

/// `meta`, with the initially visible threads.
pub fn meta(shown: &[u32], length_ms: f64, trace: &TraceSummary, untold: u64) -> Value {
    let note = match untold {
        0 => "every wait has a marker".to_owned(),
        _ => {
            format!("{untold} of the shorter waits have no markers; their sums are samples at the end of their threads")
        }
    };
    let host = trace.host.as_deref().unwrap_or("not known");
    let wall = WallClock::of(&trace.clock_pairs).map(|wall| wall.at(Time(trace.start_ns)));
    let start = wall.map_or_else(|| "not known".to_owned(), |wall| wall.to_string());
    // Milliseconds since 1970; 0 if unknown.
    let start_ms = wall.map_or(0.0, |wall| wall.0 as f64 / 1e6);
    json!({
        "interval": 1, "startTime": start_ms, "endTime": start_ms + length_ms, "processType": 0, "product": "unstarve", "stackwalk": 1,
        "version": 31, "preprocessedProfileVersion": FORMAT_VERSION, "categories": categories(),
        "markerSchema": [wait_schema(), finding_schema()],
        "importedFrom": "unstarve", "symbolicated": true, "symbolicationNotSupported": true,
        "usesOnlyOneStackType": true, "sourceCodeIsNotOnSearchfox": true, "logicalCPUs": trace.cpus,
        "keepProfileThreadOrder": true, "initialVisibleThreads": shown,
        "initialSelectedThreads": [shown.get(1).or(shown.first())],
        "extra": [{"label": "unstarve", "entries": [
            {"label": "Waits", "format": "string", "value": note},
            {"label": "Host", "format": "string", "value": host},
            {"label": "Begins (UTC)", "format": "string", "value": start},
        ]}],
    })
}

fn field(key: &str, label: &str, format: &str) -> Value {
    json!({"key": key, "label": label, "format": format})
}

fn wait_schema() -> Value {
    json!({
        "name": "wait", "display": ["marker-chart", "marker-table", "timeline-overview"],
        "chartLabel": "{marker.data.culprit}", "tooltipLabel": "waits for {marker.data.culprit} ({marker.data.rule})",
        "tableLabel": "{marker.data.blame}",
        "fields": [
            field("culprit", "Who had the CPU longest", "string"), field("rule", "By which rule", "string"),
            field("blame", "Who had the CPU", "string"), field("ns", "Nanoseconds", "integer"),
            field("cpu", "CPU", "integer"), field("begun", "Began with", "string"),
        ],
    })
}

fn finding_schema() -> Value {
    json!({
        "name": "finding", "display": ["marker-chart", "marker-table", "timeline-overview"],
        "chartLabel": "{marker.data.says}", "tooltipLabel": "{marker.name}", "tableLabel": "{marker.data.says}",
        "fields": [
            field("says", "Finding", "string"), field("severity", "Severity", "string"),
            field("ns", "Waited, nanoseconds", "integer"), field("remedy", "What to do first", "string"),
        ],
    })
}
