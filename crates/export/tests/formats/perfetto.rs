//! Decodes a written trace and checks what `trace_processor` counts as an error: undefined ids, slices that do not
//! nest, counters and clocks that go backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::process::Command;

use proptest::prelude::*;
use prost::Message;
use unstarve_diagnose::drive;
use unstarve_diagnose::report::Report;
use unstarve_export::Perfetto;
use unstarve_export::perfetto_proto::{DebugAnnotation, InternedString, Kind, TracePacket, TrackEvent, event_kind};
use unstarve_model::{EventSource, Nanos, Tid};
use unstarve_timeline::{Run, RunEnd, Selection, Sink, World};

use crate::formats::hostile::{events, source};
use crate::formats::stage::{Sheet, export, open, traces};

/// All packets of a trace.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<TracePacket>,
}

#[derive(Clone, Debug)]
struct Slice {
    start: u64,
    end: u64,
    flows: Vec<u64>,
    /// The sum of the annotation `blame`.
    blamed: u64,
}

#[derive(Default)]
struct Track {
    name: String,
    parent: u64,
    slices: Vec<Slice>,
    open: Vec<(u64, TrackEvent)>,
    counter: Option<u64>,
    last: u64,
}

/// The content of a trace.
#[derive(Default)]
struct Contents {
    tracks: BTreeMap<u64, Track>,
    defined: [BTreeSet<u64>; 4],
    texts: BTreeMap<u64, String>,
    /// For each CPU the times and tasks of switches.
    switches: BTreeMap<u32, Vec<(u64, i32, i32)>>,
}

fn read(bytes: &[u8]) -> Contents {
    let trace = Trace::decode(bytes).expect("packets");
    assert_eq!(trace.packets[0].sequence_flags, Some(3), "the first packet says that nothing came before it");
    let mut contents = Contents::default();
    for packet in &trace.packets {
        contents.packet(packet);
    }
    for track in contents.tracks.values() {
        assert!(track.open.is_empty(), "{} has a slice without an end", track.name);
    }
    contents
}

impl Contents {
    fn packet(&mut self, packet: &TracePacket) {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if packet.sequence_flags.expect("always there") & 1 != 0 {
            self.defined = Default::default();
        }
        if let Some(data) = &packet.interned_data {
            let lists = [
                &data.event_categories,
                &data.event_names,
                &data.debug_annotation_names,
                &data.debug_annotation_string_values,
            ];
            for (defined, list) in self.defined.iter_mut().zip(lists) {
                for InternedString { iid, text } in list {
                    assert!(defined.insert(iid.expect("a number")), "defined twice");
                    self.texts.insert(iid.expect("a number"), text.clone().expect("a text"));
                }
            }
        }
        if let Some(track) = &packet.track_descriptor {
            let parent = track.parent_uuid.unwrap_or(0);
            assert!(parent == 0 || self.tracks.contains_key(&parent), "a parent that nobody has defined");
            let name = track.name.clone().expect("all have one");
            let counter = track.counter.is_some().then_some(0);
            let new = Track { name, parent, counter, ..Track::default() };
            assert!(self.tracks.insert(track.uuid.expect("a number"), new).is_none(), "defined twice");
        }
        if let Some(event) = &packet.track_event {
            self.event(packet.timestamp.expect("events have a time"), event);
        }
        if let Some(bundle) = &packet.ftrace_events {
            let switches = self.switches.entry(bundle.cpu.expect("a CPU")).or_default();
            for event in &bundle.event {
                if let Some(Kind::SchedSwitch(switch)) = &event.event {
                    let time = event.timestamp.expect("events have a time");
                    switches.push((time, switch.prev_pid.expect("known"), switch.next_pid.expect("known")));
                }
            }
        }
    }

    fn event(&mut self, time: u64, event: &TrackEvent) {
        let [categories, names, ..] = &self.defined;
        assert!(event.category_iids.iter().all(|iid| categories.contains(iid)));
        assert!(event.name_iid.iter().all(|iid| names.contains(iid)));
        event.debug_annotations.iter().for_each(|annotation| self.annotation(annotation));
        let blamed = |event: &TrackEvent| self.blamed(event);
        let known = event.track_uuid.and_then(|uuid| self.tracks.get(&uuid)).expect("a track that was described");
        assert!(known.last <= time, "{}: time runs backwards", known.name);
        let ended = match event.kind {
            Some(event_kind::SLICE_END) => {
                let (start, begin) =
                    known.open.last().unwrap_or_else(|| panic!("{}: an end without a beginning", known.name));
                Some(Slice { start: *start, end: time, flows: begin.flow_ids.clone(), blamed: blamed(begin) })
            }
            _ => None,
        };
        let track = event.track_uuid.and_then(|uuid| self.tracks.get_mut(&uuid)).expect("just seen");
        track.last = time;
        match (event.kind, track.counter) {
            (Some(event_kind::SLICE_BEGIN), None) => track.open.push((time, event.clone())),
            (Some(event_kind::SLICE_END), None) => {
                track.open.pop();
                track.slices.extend(ended);
            }
            (Some(event_kind::COUNTER), Some(before)) => {
                let value = u64::try_from(event.counter_value.expect("a value")).expect("a sum");
                assert!(before <= value, "{}: a sum shrinks", track.name);
                track.counter = Some(value);
            }
            (kind, _) => panic!("{}: event of kind {kind:?}", track.name),
        }
    }

    fn annotation(&self, annotation: &DebugAnnotation) {
        let [.., names, values] = &self.defined;
        assert!(annotation.name_iid.iter().all(|iid| names.contains(iid)));
        assert!(annotation.string_value_iid.iter().all(|iid| values.contains(iid)));
        annotation.dict_entries.iter().chain(&annotation.array_values).for_each(|inner| self.annotation(inner));
    }

    fn blamed(&self, event: &TrackEvent) -> u64 {
        let named = |annotation: &&DebugAnnotation, name: &str| {
            annotation.name_iid.is_some_and(|iid| self.texts.get(&iid).is_some_and(|text| text == name))
        };
        let blame = event.debug_annotations.iter().filter(|annotation| named(annotation, "blame"));
        let groups = blame.flat_map(|list| &list.array_values).flat_map(|group| &group.dict_entries);
        groups.filter(|entry| named(entry, "ns")).filter_map(|entry| entry.uint_value).sum()
    }

    /// The tracks below the track with this name.
    fn below<'a>(&'a self, root: &'a str) -> impl Iterator<Item = &'a Track> {
        let of_root = move |uuid: &u64| {
            self.tracks.get(uuid).is_some_and(|track| track.parent == 0 && track.name.starts_with(root))
        };
        self.tracks.values().filter(move |track| of_root(&track.parent))
    }
}

fn written(source: Box<dyn EventSource>) -> (Vec<u8>, Report) {
    let sheet = Sheet::default();
    let report = export(source, Perfetto::new(sheet.clone(), Selection::default()));
    (sheet.bytes(), report)
}

fn holds_the_report(contents: &Contents, report: &Report) {
    let waits: Vec<&Slice> = contents.below("Waits").flat_map(|track| &track.slices).collect();
    assert_eq!(waits.len() as u64, report.trace.waits_count);
    assert_eq!(waits.iter().map(|wait| wait.end - wait.start).sum::<u64>(), report.trace.waits_total_ns);
    assert!(waits.iter().all(|wait| wait.blamed == wait.end - wait.start));
    let blame: u64 = contents.below("Blame").filter_map(|track| track.counter).sum();
    assert_eq!(blame, report.trace.waits_total_ns);

    let findings: Vec<&Track> = contents.below("Findings").collect();
    assert_eq!(findings.len(), report.findings.len());
    for (track, finding) in findings.iter().zip(&report.findings) {
        assert_eq!(track.slices.len(), 1);
        assert_eq!(track.slices[0].blamed, finding.waits.total_ns);
    }
    let worst = contents.tracks.values().filter(|track| track.name == "worst waits").flat_map(|track| &track.slices);
    let mut pointed = 0;
    for instance in worst {
        let same = |wait: &&&Slice| wait.flows == instance.flows;
        let wait = waits.iter().find(same).expect("an arrow leads to a wait");
        assert_eq!((wait.start, wait.end), (instance.start, instance.end));
        pointed += 1;
    }
    assert_eq!(pointed, report.findings.iter().map(|finding| finding.worst.len()).sum::<usize>());
}

/// Whether it is known at all times which task ran.
fn is_whole(report: &Report) -> bool {
    use unstarve_model::LossKind::{LostEvents, MissingSwitch, UncountedGap};
    !report.missing.iter().any(|missing| matches!(missing.loss.kind, MissingSwitch | LostEvents | UncountedGap))
}

#[test]
fn a_trace_holds_the_report_and_makes_sense() {
    for trace in traces() {
        let (bytes, report) = written(open(&trace));
        let mut contents = read(&bytes);
        holds_the_report(&contents, &report);
        if !is_whole(&report) {
            continue;
        }
        for (cpu, switches) in &mut contents.switches {
            switches.sort_by_key(|(time, ..)| *time);
            for pair in switches.windows(2) {
                let [(_, _, on), (time, off, _)] = pair else { unreachable!("windows of two") };
                assert_eq!(on, off, "{}: CPU {cpu} at {time}", trace.display());
            }
        }
    }
}

/// Time on CPU by thread, without runs whose ends are unknown.
#[derive(Default, PartialEq, Debug)]
struct Ran(BTreeMap<Tid, Nanos>);

impl Sink for Ran {
    fn run(&mut self, world: &World, run: &Run) {
        if run.start_seen && run.ended != RunEnd::Cut {
            *self.0.entry(world.tasks.get(run.task).tid).or_default() += run.length();
        }
    }
}

#[test]
fn our_own_reader_finds_the_same_runs_in_it() {
    let mut compared = 0;
    for trace in traces() {
        let (bytes, report) = written(open(&trace));
        if !is_whole(&report) {
            continue;
        }
        let input =
            unstarve_readers::Input::from_stream(Box::new(Cursor::new(bytes)), "export".into()).expect("memory");
        let again = unstarve_readers::open_input(input).expect("a Perfetto trace");
        let (mut before, mut after) = (Ran::default(), Ran::default());
        drive(open(&trace), &mut before, |_| {}).expect("there are events");
        let driven = drive(again, &mut after, |_| {}).expect("there are events");
        assert_eq!(before, after, "{}", trace.display());
        assert_eq!(driven.info.kernel_release, report.trace.kernel);
        compared += 1;
    }
    assert!(compared >= 6, "only {compared} recordings are whole");
}

/// Perfetto's own schema, if its Python package is installed: it knows every field, and finds the same sums.
#[test]
fn perfettos_own_schema_knows_every_field() {
    let program = "import sys, perfetto.protos.perfetto.trace.perfetto_trace_pb2 as pb\n\
                   trace = pb.Trace(); trace.ParseFromString(open(sys.argv[1], 'rb').read())\n\
                   from google.protobuf.unknown_fields import UnknownFieldSet\n\
                   def unknown(message):\n\
                   \x20   n = len(UnknownFieldSet(message))\n\
                   \x20   for field, value in message.ListFields():\n\
                   \x20       if field.type == field.TYPE_MESSAGE:\n\
                   \x20           n += sum(map(unknown, value if isinstance(value, (list,)) or hasattr(value, 'append') else [value]))\n\
                   \x20   return n\n\
                   ends = [p for p in trace.packet if p.HasField('track_event') and p.track_event.type == pb.TrackEvent.TYPE_SLICE_END]\n\
                   print(unknown(trace), len(trace.packet), len(ends))";
    if !unstarve_testing::python_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2") {
        return;
    }
    let python = |arguments: &[&str]| Command::new("python3").args(arguments).output().ok();
    let trace = traces().into_iter().find(|trace| trace.ends_with("linux-5.10-net-rt.dat")).expect("testdata");
    let (bytes, _) = written(open(&trace));
    let file = tempfile::NamedTempFile::new().expect("a place for files");
    std::fs::write(file.path(), &bytes).expect("it can be written");
    let output = python(&["-c", program, &file.path().display().to_string()]).expect("python3 is there");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let ours = Trace::decode(&bytes[..]).expect("packets").packets;
    let end =
        |packet: &&TracePacket| packet.track_event.as_ref().is_some_and(|e| e.kind == Some(event_kind::SLICE_END));
    assert_eq!(said, format!("0 {} {}", ours.len(), ours.iter().filter(end).count()), "{output:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_trace_makes_sense_whatever_happens(events in events()) {
        let (bytes, report) = written(source(&events));
        holds_the_report(&read(&bytes), &report);
    }
}
