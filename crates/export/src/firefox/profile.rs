//! Writes the profile: one thread at a time, then the shared tables.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};
use unstarve_diagnose::report::Report;
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::schema::{category, meta};
use super::{Marked, Notes, Thread};
use crate::table::begun;

/// How many threads are visible initially.
const INITIALLY_VISIBLE: usize = 12;

/// The marker phase `INTERVAL`.
const INTERVAL_PHASE: u8 = 1;

pub struct Profile<'a> {
    notes: &'a Notes,
    report: &'a Report,
    shared: RefCell<Shared>,
}

/// Tables that threads refer to.
#[derive(Default)]
struct Shared {
    strings: Vec<String>,
    by_string: FxHashMap<String, usize>,
    /// For each stack: its frame's text, the parent stack, and the rule.
    stacks: Vec<(usize, Option<usize>, Rule)>,
    by_stack: FxHashMap<(Rule, Option<String>), usize>,
}

impl Shared {
    fn string(&mut self, text: &str) -> usize {
        if let Some(&index) = self.by_string.get(text) {
            return index;
        }
        self.strings.push(text.to_owned());
        self.by_string.insert(text.to_owned(), self.strings.len() - 1);
        self.strings.len() - 1
    }

    /// The stack of a rule, or of an occupant below it.
    fn stack(&mut self, rule: Rule, occupant: Option<&str>) -> usize {
        let key = (rule, occupant.map(str::to_owned));
        if let Some(&index) = self.by_stack.get(&key) {
            return index;
        }
        let inside = occupant.map(|_| self.stack(rule, None));
        let text = self.string(occupant.unwrap_or(rule.word()));
        self.stacks.push((text, inside, rule));
        self.by_stack.insert(key, self.stacks.len() - 1);
        self.stacks.len() - 1
    }

    /// The tables, all of equal length: each stack has its own frame and function.
    fn tables(&self) -> Value {
        let length = self.stacks.len();
        let all = |value: Value| vec![value; length];
        let numbers: Vec<usize> = (0..length).collect();
        let names: Vec<usize> = self.stacks.iter().map(|stack| stack.0).collect();
        let prefixes: Vec<Option<usize>> = self.stacks.iter().map(|stack| stack.1).collect();
        let categories: Vec<usize> = self.stacks.iter().map(|stack| category(Some(stack.2))).collect();
        json!({
            "stringArray": self.strings,
            "stackTable": {"frame": numbers, "prefix": prefixes, "length": length},
            "frameTable": {
                "address": all(json!(-1)), "inlineDepth": all(json!(0)), "category": categories,
                "subcategory": all(json!(0)), "func": numbers, "nativeSymbol": all(Value::Null),
                "innerWindowID": all(Value::Null), "line": all(Value::Null), "column": all(Value::Null),
                "length": length,
            },
            "funcTable": {
                "name": names, "isJS": all(json!(false)), "relevantForJS": all(json!(false)),
                "resource": all(json!(-1)), "source": all(Value::Null), "lineNumber": all(Value::Null),
                "columnNumber": all(Value::Null), "length": length,
            },
            "resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0},
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "sources": {"uuid": [], "filename": [], "length": 0},
        })
    }
}

/// Nanoseconds in the format's milliseconds: the nearest float, which rounds back to the same nanosecond.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Columns of samples.
#[derive(Default)]
struct Samples {
    stack: Vec<usize>,
    time: Vec<f64>,
    weight: Vec<f64>,
}

/// Columns of markers.
#[derive(Default)]
struct Markers {
    data: Vec<Value>,
    name: Vec<usize>,
    start: Vec<f64>,
    end: Vec<f64>,
    category: Vec<usize>,
}

impl<'a> Profile<'a> {
    pub fn new(notes: &'a Notes, report: &'a Report) -> Profile<'a> {
        Profile { notes, report, shared: RefCell::default() }
    }

    fn label(&self, actor: ActorId) -> String {
        self.notes.cast.known(actor).map_or_else(|| "unknown".to_owned(), |who| who.label())
    }

    /// Indices of the threads that waited longest, those of findings first.
    fn shown(&self) -> Vec<u32> {
        let mut sums = vec![0; self.notes.threads.len()];
        self.notes.waits.iter().for_each(|wait| sums[wait.thread as usize] += wait.length().0);
        let mut threads: Vec<u32> = (0..sums.len() as u32).collect();
        threads.sort_by_key(|&thread| std::cmp::Reverse(sums[thread as usize]));
        std::iter::once(0).chain(threads.into_iter().take(INITIALLY_VISIBLE).map(|thread| thread + 1)).collect()
    }

    fn thread(&self, thread: Thread, waits: &[Marked], rest: &[(ActorId, Rule, Nanos)]) -> Value {
        let (tid, comm) = self.notes.threads[thread as usize];
        let (mut samples, mut markers) = (Samples::default(), Markers::default());
        let mut shared = self.shared.borrow_mut();
        for wait in waits {
            self.add_marker(wait, &mut markers, &mut shared);
            let at = ms(wait.start.since(self.notes.start).0);
            for &(occupant, rule, length) in &wait.pieces {
                self.add_sample(at, (occupant, rule, length), &mut samples, &mut shared);
            }
        }
        let at_end = ms(self.notes.end.since(self.notes.start).0);
        rest.iter().for_each(|&piece| self.add_sample(at_end, piece, &mut samples, &mut shared));
        object(&format!("{comm}"), &tid.to_string(), samples, markers)
    }

    fn add_sample(&self, at: f64, piece: (ActorId, Rule, Nanos), samples: &mut Samples, shared: &mut Shared) {
        let (occupant, rule, length) = piece;
        samples.stack.push(shared.stack(rule, Some(&self.label(occupant))));
        samples.time.push(at);
        samples.weight.push(ms(length.0));
    }

    fn add_marker(&self, wait: &Marked, markers: &mut Markers, shared: &mut Shared) {
        let rule = wait.pieces.first().map(|piece| piece.1);
        let word = rule.map_or("none", Rule::word);
        let piece =
            |&(occupant, rule, length): &(ActorId, Rule, Nanos)| format!("{} ({rule}) {length}", self.label(occupant));
        let blame: Vec<String> = wait.pieces.iter().map(piece).collect();
        markers.data.push(json!({
            "type": "wait", "culprit": wait.pieces.first().map_or("nobody".to_owned(), |piece| self.label(piece.0)),
            "rule": word, "blame": blame.join(", "), "ns": wait.length().0, "cpu": wait.cpu.0,
            "begun": begun(wait.kind),
        }));
        markers.name.push(shared.string(&format!("waits: {word}")));
        markers.start.push(ms(wait.start.since(self.notes.start).0));
        markers.end.push(ms(wait.end.since(self.notes.start).0));
        markers.category.push(category(rule));
    }

    fn findings(&self) -> Value {
        let mut markers = Markers::default();
        let mut shared = self.shared.borrow_mut();
        for finding in &self.report.findings {
            let remedy = finding.remedies.first().map_or("", |remedy| remedy.text.as_str());
            markers.data.push(json!({
                "type": "finding", "says": finding.sentence, "severity": finding.severity.word(),
                "ns": finding.waits.total_ns, "remedy": remedy,
            }));
            markers.name.push(shared.string(&format!("{}: {}", finding.id, finding.victim.comm)));
            markers.start.push(0.0);
            markers.end.push(ms(self.report.trace.end_ns.saturating_sub(self.report.trace.start_ns)));
            markers.category.push(category(None));
        }
        object("Findings", "0", Samples::default(), markers)
    }
}

/// A thread object.
fn object(name: &str, tid: &str, samples: Samples, markers: Markers) -> Value {
    let phases = vec![INTERVAL_PHASE; markers.name.len()];
    json!({
        "processType": "default", "processName": "waits", "processStartupTime": 0, "processShutdownTime": null,
        "registerTime": 0, "unregisterTime": null, "pausedRanges": [], "showMarkersInTimeline": true,
        "name": name, "isMainThread": name == "Findings" && tid == "0", "pid": "0", "tid": tid,
        "samples": {
            "stack": samples.stack, "time": samples.time, "weight": samples.weight, "weightType": "tracing-ms",
            "length": samples.stack.len(),
        },
        "markers": {
            "data": markers.data, "name": markers.name, "startTime": markers.start, "endTime": markers.end,
            "phase": phases, "category": markers.category, "length": markers.name.len(),
        },
    })
}

impl Serialize for Profile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = ms(self.report.trace.end_ns.saturating_sub(self.report.trace.start_ns));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("meta", &meta(&self.shown(), length, &self.report.trace, self.notes.untold))?;
        map.serialize_entry("libs", &[(); 0])?;
        map.serialize_entry("threads", &Threads(self))?;
        // Written last, when everything that threads refer to is known.
        map.serialize_entry("shared", &self.shared.borrow().tables())?;
        map.end()
    }
}

struct Threads<'a>(&'a Profile<'a>);

impl Serialize for Threads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let profile = self.0;
        let mut rest: FxHashMap<Thread, Vec<(ActorId, Rule, Nanos)>> = FxHashMap::default();
        for (&(thread, occupant, rule), &length) in &profile.notes.rest {
            rest.entry(thread).or_default().push((occupant, rule, length));
        }
        rest.values_mut().for_each(|list| list.sort_unstable());
        let mut threads = serializer.serialize_seq(Some(profile.notes.threads.len() + 1))?;
        threads.serialize_element(&profile.findings())?;
        let mut waits = profile.notes.waits.as_slice();
        for thread in 0..profile.notes.threads.len() as Thread {
            let (mine, others) = waits.split_at(waits.partition_point(|wait| wait.thread == thread));
            waits = others;
            let rest = rest.remove(&thread).unwrap_or_default();
            threads.serialize_element(&profile.thread(thread, mine, &rest))?;
        }
        threads.end()
    }
}
