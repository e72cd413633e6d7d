//! The parts of Perfetto's protos that are read. Source of the field numbers: `protos/perfetto/` of the Perfetto
//! repository (`trace/trace_packet.proto`, `trace/ftrace/*.proto`, `trace/ps/process_tree.proto`,
//! `trace/clock_snapshot.proto`, `trace/system_info.proto`, `config/trace_config.proto`), which never reuses one.
//!
//! Task names are `string` there and bytes here. The encoding is the same, and the kernel does not promise UTF-8.

pub use super::ftrace_proto::*;

crate::proto_messages! {
    /// A trace consists of these.
    message TracePacket {
        /// An `FtraceEventBundle`, left encoded: its events are decoded one by one.
        optional encoded ftrace_events = 1;
        optional message ProcessTree process_tree = 2;
        optional message ClockSnapshot clock_snapshot = 6;
        optional uint32 trusted_packet_sequence_id = 10;
        optional message InternedData interned_data = 12;
        optional uint32 sequence_flags = 13;
        optional message TraceConfig trace_config = 33;
        optional message FtraceStats ftrace_stats = 34;
        optional bool incremental_state_cleared = 41;
        optional uint32 previous_packet_dropped = 42;
        optional message SystemInfo system_info = 45;
        optional encoded compressed_packets = 50;
        optional uint32 machine_id = 98;
        optional encoded zstd_compressed_packets = 133;
    }

    message ProcessTree {
        repeated message Process processes = 1;
        repeated message Thread threads = 2;
    }

    message Process {
        optional int32 pid = 1;
        repeated bytes cmdline = 3;
    }

    message Thread {
        optional int32 tid = 1;
        optional bytes name = 2;
    }

    message ClockSnapshot {
        repeated message Clock clocks = 1;
    }

    message Clock {
        optional uint32 clock_id = 1;
        optional uint64 timestamp = 2;
    }

    message InternedData {
        repeated message InternedString kernel_symbols = 26;
    }

    message InternedString {
        optional uint64 iid = 1;
        optional bytes str = 2;
    }

    message TraceConfig {
        repeated message DataSource data_sources = 2;
    }

    message DataSource {
        optional message DataSourceConfig config = 1;
    }

    message DataSourceConfig {
        optional message FtraceConfig ftrace_config = 100;
    }

    message FtraceConfig {
        repeated string ftrace_events = 1;
    }

    message FtraceStats {
        /// 1 at the start of the trace, 2 at its end.
        optional int32 phase = 1;
        repeated message FtraceCpuStats cpu_stats = 2;
    }

    message FtraceCpuStats {
        optional uint64 cpu = 1;
        optional uint64 overrun = 3;
        optional uint64 dropped_events = 8;
    }
}

/// Field numbers of `FtraceEventBundle`.
pub mod bundle_field {
    pub const CPU: u32 = 1;
    pub const EVENT: u32 = 2;
    pub const LOST_EVENTS: u32 = 3;
    pub const COMPACT_SCHED: u32 = 4;
    pub const FTRACE_CLOCK: u32 = 5;
    pub const FTRACE_TIMESTAMP: u32 = 6;
    pub const BOOT_TIMESTAMP: u32 = 7;
}

crate::proto_messages! {
    /// `FtraceEventBundle.CompactSched`: switches and wakings of one CPU as columns; times are deltas.
    message CompactSched {
        repeated uint64 switch_timestamp = 1;
        repeated int64 switch_prev_state = 2;
        repeated int32 switch_next_pid = 3;
        repeated int32 switch_next_prio = 4;
        repeated bytes intern_table = 5;
        repeated uint32 switch_next_comm_index = 6;
        repeated uint64 waking_timestamp = 7;
        repeated int32 waking_pid = 8;
        repeated int32 waking_target_cpu = 9;
        repeated int32 waking_prio = 10;
        repeated uint32 waking_comm_index = 11;
        repeated uint32 waking_common_flags = 12;
    }
}
