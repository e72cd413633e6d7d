//! The parts of Perfetto's protos that are written. Source of the field numbers: `protos/perfetto/trace/` of the
//! Perfetto repository (`trace_packet.proto`, `track_event/*.proto`, `interned_data/interned_data.proto`,
//! `ftrace/ftrace_event_bundle.proto`), which never reuses one. Kernel events are shared with the reader.

#![allow(missing_docs, reason = "they are Perfetto's, which documents them; public for tests alone")]

use unstarve_model::ClockPair;
pub use unstarve_readers::perfetto::ftrace_proto::*;

unstarve_readers::proto_messages! {
    /// A trace consists of these.
    message TracePacket {
        optional message FtraceEventBundle ftrace_events = 1;
        optional message ClockSnapshot clock_snapshot = 6;
        optional uint64 timestamp = 8;
        optional uint32 trusted_packet_sequence_id = 10;
        optional message TrackEvent track_event = 11;
        optional message InternedData interned_data = 12;
        optional uint32 sequence_flags = 13;
        optional message SystemInfo system_info = 45;
        optional message TrackDescriptor track_descriptor = 60;
    }

    /// The times of several clocks at the same moment.
    message ClockSnapshot {
        repeated message Clock clocks = 1;
    }

    message Clock {
        optional uint32 clock_id = 1;
        optional uint64 timestamp = 2;
    }

    message TrackDescriptor {
        optional uint64 uuid = 1;
        optional string name = 2;
        optional uint64 parent_uuid = 5;
        optional message CounterDescriptor counter = 8;
        /// Order of child tracks: 2 is by rank.
        optional int32 child_ordering = 11;
        optional int32 sibling_order_rank = 12;
    }

    message CounterDescriptor {
        /// Unit: 1 is nanoseconds.
        optional int32 unit = 3;
    }

    message TrackEvent {
        unpacked uint64 category_iids = 3;
        repeated message DebugAnnotation debug_annotations = 4;
        optional int32 kind = 9;
        optional uint64 name_iid = 10;
        optional uint64 track_uuid = 11;
        optional string name = 23;
        optional int64 counter_value = 30;
        unpacked fixed64 flow_ids = 47;
    }

    message DebugAnnotation {
        optional uint64 name_iid = 1;
        optional uint64 uint_value = 3;
        optional string string_value = 6;
        repeated message DebugAnnotation dict_entries = 11;
        repeated message DebugAnnotation array_values = 12;
        optional uint64 string_value_iid = 17;
    }

    message InternedData {
        repeated message InternedString event_categories = 1;
        repeated message InternedString event_names = 2;
        repeated message InternedString debug_annotation_names = 3;
        repeated message InternedString debug_annotation_string_values = 29;
    }

    message InternedString {
        optional uint64 iid = 1;
        optional string text = 2;
    }

    message FtraceEventBundle {
        optional uint32 cpu = 1;
        repeated message FtraceEvent event = 2;
    }
}

impl ClockSnapshot {
    /// The trace clock, on which timestamps without a clock id are, and the wall clock: `BOOTTIME` and `REALTIME` of
    /// `common/builtin_clock.proto`.
    pub fn of(pair: &ClockPair) -> ClockSnapshot {
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        ClockSnapshot { clocks: vec![clock(6, pair.trace.0), clock(1, pair.wall.0)] }
    }
}

/// Values of [`TrackEvent::kind`].
pub mod event_kind {
    pub const SLICE_BEGIN: i32 = 1;
    pub const SLICE_END: i32 = 2;
    pub const COUNTER: i32 = 4;
}
