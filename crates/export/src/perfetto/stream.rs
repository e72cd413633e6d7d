//! Writes packets, and interns texts: a text is written once and then referred to by a number.

use std::io;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rustc_hash::FxHashMap;

use super::proto::{
    CounterDescriptor, DebugAnnotation, InternedData, InternedString, TracePacket, TrackDescriptor, TrackEvent,
    event_kind,
};
use unstarve_tables::Out;

/// The sequence id; all packets come from one writer.
const SEQUENCE_ID: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const FLAG_STATE_CLEARED: u32 = 1;
const FLAG_NEEDS_STATE: u32 = 2;
/// How many texts are interned before the state is cleared: some megabytes.
const MAX_TEXTS: usize = 1 << 16;

/// What a text is used for; each kind has its own ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextKind {
    Category,
    EventName,
    AnnotationName,
    Value,
}

/// A track, by its id in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TrackId(pub u64);

/// What a track contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrackKind {
    /// Slices or child tracks.
    Slices,
    /// A counter of nanoseconds.
    Nanos,
}

/// Writes packets.
pub struct Stream<W> {
    out: W,
    texts: FxHashMap<(TextKind, String), u64>,
    /// New texts, to be written with the next packet.
    fresh: InternedData,
    /// Whether the next packet clears the interned state.
    cleared: bool,
    tracks: u64,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Out> Stream<W> {
    pub fn new(out: W) -> Stream<W> {
        Stream {
            out,
            texts: FxHashMap::default(),
            fresh: InternedData::default(),
            cleared: true,
            tracks: 0,
            buffer: Vec::new(),
            failed: None,
        }
    }

    /// The id of a text; a new one is written with the next packet.
    pub fn text(&mut self, kind: TextKind, text: &str) -> u64 {
        if let Some(&iid) = self.texts.get(&(kind, text.to_owned())) {
            return iid;
        }
        let iid = self.texts.len() as u64 + 1;
        self.texts.insert((kind, text.to_owned()), iid);
        let new = InternedString { iid: Some(iid), text: Some(text.to_owned()) };
        match kind {
            TextKind::Category => self.fresh.event_categories.push(new),
            TextKind::EventName => self.fresh.event_names.push(new),
            TextKind::AnnotationName => self.fresh.debug_annotation_names.push(new),
            TextKind::Value => self.fresh.debug_annotation_string_values.push(new),
        }
        iid
    }

    /// A numeric annotation.
    pub fn number(&mut self, name: &str, value: u64) -> DebugAnnotation {
        let name_iid = Some(self.text(TextKind::AnnotationName, name));
        DebugAnnotation { name_iid, uint_value: Some(value), ..DebugAnnotation::default() }
    }

    /// An annotation with a text from a small set, interned.
    pub fn word(&mut self, name: &str, value: &str) -> DebugAnnotation {
        let name_iid = Some(self.text(TextKind::AnnotationName, name));
        let string_value_iid = Some(self.text(TextKind::Value, value));
        DebugAnnotation { name_iid, string_value_iid, ..DebugAnnotation::default() }
    }

    /// An annotation with a text that occurs once, not interned.
    pub fn sentence(&mut self, name: &str, value: &str) -> DebugAnnotation {
        let name_iid = Some(self.text(TextKind::AnnotationName, name));
        DebugAnnotation { name_iid, string_value: Some(value.to_owned()), ..DebugAnnotation::default() }
    }

    /// An annotation that is a list of groups.
    pub fn list(&mut self, name: &str, groups: Vec<Vec<DebugAnnotation>>) -> DebugAnnotation {
        let name_iid = Some(self.text(TextKind::AnnotationName, name));
        let group = |dict_entries| DebugAnnotation { dict_entries, ..DebugAnnotation::default() };
        let array_values = groups.into_iter().map(group).collect();
        DebugAnnotation { name_iid, array_values, ..DebugAnnotation::default() }
    }

    /// A new track below `parent`.
    pub fn track(&mut self, parent: Option<TrackId>, name: &str, kind: TrackKind) -> TrackId {
        self.tracks += 1;
        let id = TrackId(self.tracks);
        let descriptor = TrackDescriptor {
            uuid: Some(id.0),
            name: Some(name.to_owned()),
            parent_uuid: parent.map(|parent| parent.0),
            counter: (kind == TrackKind::Nanos).then_some(CounterDescriptor { unit: Some(1) }),
            child_ordering: None,
            sibling_order_rank: parent.is_none().then_some(self.tracks as i32),
        };
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        id
    }

    /// A slice of a track with both ends.
    pub fn slice(&mut self, track: TrackId, span: (u64, u64), event: TrackEvent) {
        let begin = TrackEvent { kind: Some(event_kind::SLICE_BEGIN), track_uuid: Some(track.0), ..event };
        let end = TrackEvent { kind: Some(event_kind::SLICE_END), track_uuid: Some(track.0), ..TrackEvent::default() };
        self.event(span.0, begin);
        self.event(span.1, end);
    }

    /// A value of a counter.
    pub fn counter(&mut self, track: TrackId, at: u64, value: u64) {
        let counter_value = Some(i64::try_from(value).unwrap_or(i64::MAX));
        let kind = Some(event_kind::COUNTER);
        self.event(at, TrackEvent { kind, track_uuid: Some(track.0), counter_value, ..TrackEvent::default() });
    }

    fn event(&mut self, at: u64, event: TrackEvent) {
        self.packet(TracePacket { timestamp: Some(at), track_event: Some(event), ..TracePacket::default() });
    }

    /// Writes a packet, with the new texts it refers to.
    pub fn packet(&mut self, mut packet: TracePacket) {
        packet.trusted_packet_sequence_id = Some(SEQUENCE_ID);
        packet.sequence_flags = Some(if std::mem::take(&mut self.cleared) {
            FLAG_STATE_CLEARED | FLAG_NEEDS_STATE
        } else {
            FLAG_NEEDS_STATE
        });
        let fresh = std::mem::take(&mut self.fresh);
        packet.interned_data = (fresh != InternedData::default()).then_some(fresh);
        self.write(&packet);
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
            self.cleared = true;
        }
    }

    fn write(&mut self, packet: &TracePacket) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.clear();
        encode_key(1, WireType::LengthDelimited, &mut self.buffer);
        encode_varint(packet.encoded_len() as u64, &mut self.buffer);
        if packet.encode(&mut self.buffer).is_ok() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
    }

    /// Fails if anything could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}
