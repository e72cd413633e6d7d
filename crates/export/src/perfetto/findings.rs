//! Exports findings as tracks.

use unstarve_diagnose::report::{Finding, Instance, Report};

use super::proto::TrackEvent;
use super::stream::{Stream, TextKind, TrackId, TrackKind};
use unstarve_tables::Out;

/// The id of the arrow from a finding's worst instance to its wait.
pub fn flow_id(cpu: u32, start: u64, end: u64) -> u64 {
    // FNV-1a over the three: equal for the same wait, and hardly ever for two waits.
    let bytes = [u64::from(cpu), start, end].into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A track per finding: its text over the whole trace, and below it the worst instances with arrows to their waits.
pub fn write<W: Out>(stream: &mut Stream<W>, group: TrackId, report: &Report) {
    for finding in &report.findings {
        let victim = &finding.victim.comm;
        let track = stream.track(Some(group), &format!("{}: {victim}", finding.id), TrackKind::Slices);
        let event = said(stream, finding, report.trace.host.as_deref());
        stream.slice(track, (report.trace.start_ns, report.trace.end_ns), event);
        for lane in lanes(&finding.worst) {
            let below = stream.track(Some(track), "worst waits", TrackKind::Slices);
            for instance in lane {
                let event = TrackEvent {
                    name_iid: Some(stream.text(TextKind::EventName, &format!("{victim} waits"))),
                    category_iids: vec![stream.text(TextKind::Category, finding.id.as_str())],
                    debug_annotations: vec![stream.number("cpu", u64::from(instance.cpu))],
                    flow_ids: vec![flow_id(instance.cpu, instance.start_ns, instance.end_ns)],
                    ..TrackEvent::default()
                };
                stream.slice(below, (instance.start_ns, instance.end_ns), event);
            }
        }
    }
}

fn said<W: Out>(stream: &mut Stream<W>, finding: &Finding, host: Option<&str>) -> TrackEvent {
    let mut list = vec![
        stream.word("severity", finding.severity.word()),
        stream.sentence("says", &finding.sentence),
        stream.number("waits", finding.waits.count),
        stream.number("total_ns", finding.waits.total_ns),
        stream.number("max_ns", finding.waits.max_ns),
        stream.number("p99_ns", finding.waits.p99_ns),
    ];
    list.extend(host.map(|host| stream.word("host", host)));
    let mut groups = Vec::new();
    for culprit in &finding.blame {
        groups.push(vec![
            stream.word("occupant", &culprit.comm),
            stream.word("rule", culprit.rule.word()),
            stream.number("ns", culprit.ns),
        ]);
        let ids = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let places =
            [("tids", ids(&culprit.tids)), ("tgids", ids(&culprit.tgids)), ("cgroups", culprit.cgroups.join(","))];
        for (key, text) in places.iter().filter(|(_, text)| !text.is_empty()) {
            let word = stream.sentence(key, text);
            groups.last_mut().into_iter().for_each(|group| group.push(word.clone()));
        }
    }
    list.push(stream.list("blame", groups));
    let mut groups = Vec::new();
    for remedy in &finding.remedies {
        groups.push(vec![
            stream.sentence("do", &remedy.text),
            stream.sentence("apply", &remedy.apply),
            stream.sentence("undo", &remedy.undo),
            stream.sentence("risk", &remedy.risk),
        ]);
    }
    list.push(stream.list("remedies", groups));
    TrackEvent {
        name: Some(finding.sentence.clone()),
        category_iids: vec![stream.text(TextKind::Category, finding.id.as_str())],
        debug_annotations: list,
        ..TrackEvent::default()
    }
}

/// Distributes overlapping instances over several tracks: slices of one track must nest.
fn lanes(worst: &[Instance]) -> Vec<Vec<&Instance>> {
    let mut sorted: Vec<&Instance> = worst.iter().collect();
    sorted.sort_by_key(|instance| (instance.start_ns, instance.end_ns));
    let mut lanes: Vec<Vec<&Instance>> = Vec::new();
    for instance in sorted {
        let free = |lane: &&mut Vec<&Instance>| lane.last().is_none_or(|last| last.end_ns <= instance.start_ns);
        match lanes.iter_mut().find(free) {
            Some(lane) => lane.push(instance),
            None => lanes.push(vec![instance]),
        }
    }
    lanes
}
