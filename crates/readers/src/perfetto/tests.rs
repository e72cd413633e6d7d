//! Tests of the Perfetto reader, on traces built field by field.

use std::io::{Cursor, Write};

use prost::encoding::{WireType, encode_key, encode_varint};
use unstarve_model::{Names, Time, Until};

use super::proto::*;
use super::*;
use crate::picture;

/// Everything a trace yields: events, then losses, tasks and facts about the machine.
fn read(bytes: &[u8]) -> String {
    let mut source = Perfetto::new(Box::new(Cursor::new(bytes.to_vec())));
    let (mut batch, mut names, mut events) = (Batch::default(), Names::default(), Vec::new());
    while source.read(&mut batch).unwrap() {
        names.extend(batch.names.drain(..));
        events.append(&mut batch.events);
    }
    let mut lines = vec![picture::events(&events, &names)];
    let losses = source.losses();
    let reported = losses.iter().filter(|loss| !matches!(loss.kind, LossKind::NotRecorded(_)));
    lines.extend(reported.map(|loss| format!("loss: {loss}")));
    let info = source.info();
    let tasks: Vec<String> = info.tasks.iter().map(|task| format!("{}:{}", task.comm, task.tid)).collect();
    lines.push(format!(
        "tasks {tasks:?}; cpus {:?}, kernel {:?}, clock {:?}",
        info.cpus, info.kernel_release, info.clock
    ));
    lines.join("\n")
}

/// A length-delimited field.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut out);
    encode_varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}

/// A varint field.
fn number(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(number, WireType::Varint, &mut out);
    encode_varint(value, &mut out);
    out
}

fn trace(packets: &[TracePacket]) -> Vec<u8> {
    packets.iter().flat_map(|packet| field(1, &packet.encode_to_vec())).collect()
}

fn events_packet(cpu: u64, events: &[(u64, u32, Kind)], more: &[Vec<u8>]) -> TracePacket {
    let mut bundle = number(bundle_field::CPU, cpu);
    for (time, pid, kind) in events {
        let event =
            FtraceEvent { timestamp: Some(*time), pid: Some(*pid), common_flags: None, event: Some(kind.clone()) };
        bundle.extend(field(bundle_field::EVENT, &event.encode_to_vec()));
    }
    bundle.extend(more.concat());
    TracePacket { ftrace_events: Some(bundle.into()), trusted_packet_sequence_id: Some(1), ..TracePacket::default() }
}

fn switch(prev: (&str, i32), state: i64, next: (&str, i32)) -> Kind {
    Kind::SchedSwitch(SchedSwitch {
        prev_comm: Some(prev.0.into()),
        prev_pid: Some(prev.1),
        prev_prio: Some(120),
        prev_state: Some(state),
        next_comm: Some(next.0.into()),
        next_pid: Some(next.1),
        next_prio: Some(120),
    })
}

fn woken(comm: &str, pid: i32, target_cpu: i32) -> SchedWakeup {
    SchedWakeup {
        comm: Some(comm.into()),
        pid: Some(pid),
        prio: Some(120),
        success: Some(1),
        target_cpu: Some(target_cpu),
    }
}

fn name(text: &str) -> Option<Vec<u8>> {
    Some(text.into())
}

/// A trace with everything that is read.
fn everything() -> Vec<TracePacket> {
    let info = SystemInfo { utsname: Some(Utsname { release: Some("6.1.99".into()) }), num_cpus: Some(2) };
    let tree = ProcessTree {
        processes: vec![Process { pid: Some(8), cmdline: vec![b"/usr/bin/fio".to_vec(), b"job".to_vec()] }],
        threads: vec![Thread { tid: Some(9), name: name("kworker/0:1") }],
    };
    let symbols =
        InternedData { kernel_symbols: vec![InternedString { iid: Some(3), str: name("iomap_dio_complete_work") }] };
    let work = |function| WorkqueueExecute { work: Some(0xabc), function: Some(function) };
    let cpu0 = [
        (10, 8, switch(("fio", 8), 0x100, ("kworker/0:1", 9))),
        (30, 9, Kind::WorkqueueExecuteStart(work(3))),
        (31, 9, Kind::WorkqueueExecuteEnd(work(4))),
        (32, 9, Kind::SchedWaking(woken("fio", 8, 0))),
        (33, 9, Kind::SchedWakeup(woken("fio", 8, 0))),
        (34, 9, switch(("kworker/0:1", 9), 0x80, ("swapper/0", 0))),
        (
            35,
            0,
            Kind::SchedMigrateTask(SchedMigrateTask {
                comm: name("fio"),
                pid: Some(8),
                prio: Some(120),
                orig_cpu: Some(0),
                dest_cpu: Some(1),
            }),
        ),
    ];
    let queue = WorkqueueQueueWork { work: Some(0xabc), function: Some(3), workqueue: name("dio/nullb0") };
    let rq = |sector| BlockRq { dev: Some(7 << 20), sector, nr_sector: Some(8) };
    let cpu1 = [
        (11, 0, Kind::IrqHandlerEntry(IrqHandlerEntry { irq: Some(24), name: name("nvme0q1") })),
        (12, 0, Kind::WorkqueueQueueWork(queue)),
        (13, 0, Kind::IrqHandlerExit(IrqHandlerExit { irq: Some(24), ret: Some(1) })),
        (14, 0, Kind::SoftirqRaise(Softirq { vec: Some(4) })),
        (15, 0, Kind::SoftirqEntry(Softirq { vec: Some(4) })),
        (16, 0, Kind::SoftirqExit(Softirq { vec: Some(4) })),
        (17, 7, Kind::BlockRqInsert(rq(Some(25_526_415)))),
        (17, 7, Kind::BlockRqIssue(rq(Some(25_526_415)))),
        (18, 0, Kind::BlockRqComplete(rq(None))),
        (
            19,
            7,
            Kind::SchedProcessFork(SchedProcessFork {
                parent_pid: Some(7),
                child_comm: name("sh"),
                child_pid: Some(70),
            }),
        ),
        (20, 7, Kind::SchedWakeupNew(woken("sh", 70, 1))),
        (21, 70, Kind::SchedProcessExec(SchedProcessExec { filename: Some(b"/bin/sleep".to_vec()), pid: Some(70) })),
        (22, 70, Kind::TaskRename(TaskRename { pid: Some(70), newcomm: name("ls") })),
        (23, 70, Kind::TaskNewtask(TaskNewtask { pid: Some(71), comm: name("ls-io") })),
        (24, 70, Kind::SchedProcessExit(SchedProcessExit { comm: name("ls"), pid: Some(70) })),
    ];
    vec![
        TracePacket { system_info: Some(info), process_tree: Some(tree), ..TracePacket::default() },
        TracePacket { interned_data: Some(symbols), ..events_packet(0, &cpu0, &[]) },
        events_packet(1, &cpu1, &[]),
    ]
}

#[test]
fn every_kind_of_event_comes_out_in_the_order_of_time() {
    insta::assert_snapshot!(read(&trace(&everything())), @r#"
        0.000000010 [000] 8 ? switch fio:8(120) R+ -> kworker/0:1:9(120)
        0.000000011 [001] 0 ? irq-entry 24 nvme0q1
        0.000000012 [001] 0 ? work-queued abc iomap_dio_complete_work on dio/nullb0
        0.000000013 [001] 0 ? irq-exit 24
        0.000000014 [001] 0 ? softirq-raise 4
        0.000000015 [001] 0 ? softirq-entry 4
        0.000000016 [001] 0 ? softirq-exit 4
        0.000000017 [001] 7 ? block-insert 700000 25526415 + 8
        0.000000017 [001] 7 ? block-issue 700000 25526415 + 8
        0.000000018 [001] 0 ? block-complete 700000 0 + 8
        0.000000019 [001] 7 ? fork 7 -> sh:70
        0.000000020 [001] 7 ? wakeup-new sh:70(120) cpu 1
        0.000000021 [001] 70 ? exec sleep:70
        0.000000022 [001] 70 ? rename 70 to ls
        0.000000024 [001] 70 ? exit ls:70
        0.000000030 [000] 9 ? work-start abc iomap_dio_complete_work
        0.000000031 [000] 9 ? work-end abc ?
        0.000000032 [000] 9 ? waking fio:8(120) cpu 0
        0.000000033 [000] 9 ? wakeup fio:8(120) cpu 0
        0.000000034 [000] 9 ? switch kworker/0:1:9(120) I -> swapper/0:0(120)
        0.000000035 [000] 0 ? migrate fio:8(120) cpu 0 -> 1
        tasks ["fio:8", "kworker/0:1:9", "ls:70", "ls-io:71"]; cpus Some(2), kernel Some("6.1.99"), clock Some("boot")
        "#);
}

#[test]
fn packets_inside_compressed_ones_are_the_same() {
    let plain = trace(&everything());
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    let zlib = TracePacket { compressed_packets: Some(encoder.finish().unwrap().into()), ..TracePacket::default() };
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    let zstd = TracePacket { zstd_compressed_packets: Some(zstd.into()), ..TracePacket::default() };
    assert_eq!(read(&trace(&[zlib])), read(&plain));
    assert_eq!(read(&trace(&[zstd])), read(&plain));
}

/// The same packets plain and compressed with each method; zstd uses a dozen blocks.
fn compressed() -> (Vec<u8>, [Vec<u8>; 2]) {
    let wakeup = |step: u64| {
        let task = format!("task {}", step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        let waking = woken(&task, step as i32, 0);
        events_packet(0, &[(1000 + step, 7, Kind::SchedWaking(waking))], &[])
    };
    let packets: Vec<TracePacket> = (1..=40_000).map(wakeup).collect();
    let plain = trace(&packets);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    let zlib = encoder.finish().unwrap();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    (plain, [field(ZLIB_FIELD, &zlib), field(ZSTD_FIELD, &zstd)].map(|packet| field(1, &packet)))
}

/// The number of events, and the losses other than events that were not recorded.
fn count(bytes: Box<dyn Read + Send>) -> (usize, Vec<String>) {
    let (mut source, mut batch, mut events) = (Perfetto::new(bytes), Batch::default(), 0);
    while source.read(&mut batch).unwrap() {
        events += batch.events.len();
    }
    let losses = source.losses();
    let losses = losses.iter().filter(|loss| !matches!(loss.kind, LossKind::NotRecorded(_)));
    (events, losses.map(Loss::to_string).collect())
}

#[test]
fn of_compressed_packets_what_lies_before_the_damage_is_read() {
    for whole in compressed().1 {
        let half = whole.len() / 2;
        let (events, losses) = count(Box::new(Cursor::new(whole[..half].to_vec())));
        assert!((10_000..30_000).contains(&events), "{events} before it is cut off");
        assert_eq!(losses, ["the file ends early (within the packet at byte 0)"]);
        let mut damaged = whole.clone();
        damaged[half..half + 500].fill(0xff);
        damaged.extend(whole);
        let (events, losses) = count(Box::new(Cursor::new(damaged)));
        assert!((50_000..80_000).contains(&events), "{events} with those of a whole one after it");
        // The bytes unpacked after the damage are no packet either.
        assert!(losses[0].ends_with("parts of the file could not be decoded (events and packets)"), "{losses:?}");
    }
}

#[test]
fn a_compressed_file_that_is_torn_keeps_what_came() {
    let (plain, [zlib, zstd]) = compressed();
    let gzipped = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    // A packet with only a timestamp, before a compressed one.
    let later = [&[0x0a, 2, 8 << 3, 5][..], &zlib].concat();
    for content in [plain, zlib, zstd, later] {
        let packed = gzipped(&content);
        let truncated = flate2::read::GzDecoder::new(Cursor::new(packed[..packed.len() / 2].to_vec()));
        let (events, losses) = count(Box::new(truncated));
        assert!((10_000..30_000).contains(&events), "{events}");
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(losses[0].ends_with("unexpected end of file)") || losses[0].contains("incomplete"), "{losses:?}");
    }
}

#[test]
fn damage_costs_little_of_what_lies_before_it() {
    let [zlib, _] = compressed().1;
    // The first 256 KiB unpacked from it are about 6,000 events.
    let at = zlib.len() / 10;
    let mut damaged = zlib;
    // End the block, and append a block of an invalid type.
    damaged.truncate(at);
    damaged.extend([0xff; 64]);
    let (events, _) = count(Box::new(Cursor::new(damaged)));
    assert!((3000..5000).contains(&events), "{events}");
}

/// A compressed packet with a packet too long to be read, then one with an event and a task's name.
fn long_packet(length: u64) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let mut head = vec![0x0a];
    encode_varint(length, &mut head);
    encoder.write_all(&head).unwrap();
    io::copy(&mut io::repeat(0).take(length), &mut encoder).unwrap();
    encoder.write_all(&trace(&[events_packet(0, &[(1, 7, Kind::SchedWaking(woken("a", 8, 0)))], &[])])).unwrap();
    field(1, &field(ZSTD_FIELD, &encoder.finish().unwrap()))
}

#[test]
fn what_would_unpack_to_gigabytes_is_read_up_to_a_bound_for_the_whole_file() {
    let [whole, _] = compressed().1;
    let half = long_packet(UNPACKED_FREE / 2);
    let one_too_long = long_packet(UNPACKED_FREE + 10 * UNPACKED_RATIO * half.len() as u64);
    for (packets, events, undecodable) in [
        // The skipped packet is counted too.
        ([&half[..], &whole].concat(), 40_001, "1 parts"),
        ([&one_too_long[..], &whole].concat(), 40_000, "1 parts"),
        ([half.repeat(4), whole.clone()].concat(), 40_002, "2 parts"),
    ] {
        let (seen, losses) = count(Box::new(Cursor::new(packets)));
        assert_eq!(seen, events, "{losses:?}");
        assert!(losses[0].starts_with(undecodable), "{losses:?}");
    }
}

#[test]
fn data_beyond_the_limit_is_reported_even_if_a_packet_ends_there() {
    // Empty packets of two bytes each.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    (0..72 << 10).for_each(|_| encoder.write_all(&[0x0a, 0].repeat(512)).unwrap());
    let packed = encoder.finish().unwrap();
    assert!((72 << 20) - UNPACKED_FREE > UNPACKED_RATIO * packed.len() as u64);
    let (events, losses) = count(Box::new(Cursor::new(field(1, &field(ZSTD_FIELD, &packed)))));
    assert_eq!((events, losses), (0, vec!["1 parts of the file could not be decoded (events and packets)".to_owned()]));
}

#[test]
fn a_trace_that_is_cut_before_any_event_is_not_said_to_have_none() {
    let cut = [0x0a, 9, 1, 2];
    let (events, losses) = count(Box::new(Cursor::new(cut.to_vec())));
    assert_eq!((events, losses), (0, vec!["the file ends early (within the packet at byte 0)".to_owned()]));
    let mut passed = vec![0x0a];
    encode_varint(packets::MAX_PACKET + 1, &mut passed);
    passed.resize(passed.len() + packets::MAX_PACKET as usize + 1, 0);
    let (events, losses) = count(Box::new(Cursor::new(passed)));
    let reported =
        "1 parts of the file could not be decoded (packets of more than 2 MiB, most often of other data sources)";
    assert_eq!((events, losses), (0, vec![reported.to_owned()]));
}

#[test]
fn compact_switches_get_the_previous_task_from_the_one_before() {
    let compact = CompactSched {
        intern_table: vec![b"fio".to_vec(), b"swapper/0".to_vec()],
        switch_timestamp: vec![100, 10, 10],
        switch_prev_state: vec![1, 0x100, 1],
        switch_next_pid: vec![8, 9, 0],
        switch_next_prio: vec![120, 100, 120],
        switch_next_comm_index: vec![0, 0, 1],
        waking_timestamp: vec![90, 15],
        waking_pid: vec![9, 9],
        waking_target_cpu: vec![0, 1],
        waking_prio: vec![100, 100],
        waking_comm_index: vec![0, 0],
        waking_common_flags: vec![0x08, 0],
    };
    let columns = field(bundle_field::COMPACT_SCHED, &compact.encode_to_vec());
    let after_loss = [columns.clone(), number(bundle_field::LOST_EVENTS, 1)];
    let broken = CompactSched { switch_next_comm_index: vec![0, 7], ..compact };
    let broken = field(bundle_field::COMPACT_SCHED, &broken.encode_to_vec());
    let packets =
        [events_packet(0, &[], &[columns]), events_packet(1, &[], &after_loss), events_packet(0, &[], &[broken])];
    insta::assert_snapshot!(read(&trace(&packets)), @r#"
        0.000000090 [000] - h waking fio:9(100) cpu 0
        0.000000090 [001] - ? lost ?
        0.000000090 [001] - h waking fio:9(100) cpu 0
        0.000000090 [000] 0 h waking fio:9(100) cpu 0
        0.000000100 [000] 0 . switch swapper/0:0(120) S -> fio:8(120)
        0.000000105 [000] 8 . waking fio:9(100) cpu 1
        0.000000105 [001] 8 . waking fio:9(100) cpu 1
        0.000000110 [000] 8 . switch fio:8(120) R+ -> fio:9(100)
        0.000000110 [001] 8 . switch fio:8(120) R+ -> fio:9(100)
        0.000000120 [000] 9 . switch fio:9(100) S -> swapper/0:0(120)
        0.000000120 [001] 9 . switch fio:9(100) S -> swapper/0:0(120)
        loss: a gap of unknown length in the recording
        loss: 1 parts of the file could not be decoded (events and packets)
        tasks []; cpus None, kernel None, clock Some("boot")
        "#);
}

#[test]
fn other_clocks_are_moved_to_boot_time() {
    let softirq = [(1_000, 0, Kind::SoftirqEntry(Softirq { vec: Some(1) }))];
    let local = [
        number(bundle_field::FTRACE_CLOCK, 3),
        number(bundle_field::FTRACE_TIMESTAMP, 2_000),
        number(bundle_field::BOOT_TIMESTAMP, 5_002_000),
    ];
    insta::assert_snapshot!(read(&trace(&[events_packet(0, &softirq, &local)])), @r#"
        0.005001000 [000] 0 ? softirq-entry 1
        tasks []; cpus None, kernel None, clock Some("boot")
        "#);
}

#[test]
fn losses_are_counted_where_perfetto_counts_them() {
    let stats = |phase, overrun| FtraceStats {
        phase: Some(phase),
        cpu_stats: vec![FtraceCpuStats { cpu: Some(1), overrun: Some(overrun), dropped_events: Some(0) }],
    };
    let softirq = |time| [(time, 0, Kind::SoftirqEntry(Softirq { vec: Some(1) }))];
    let packets = [
        TracePacket { ftrace_stats: Some(stats(1, 100)), ..TracePacket::default() },
        TracePacket { previous_packet_dropped: Some(1), ..events_packet(0, &softirq(10), &[]) },
        TracePacket { previous_packet_dropped: Some(1), ..events_packet(0, &softirq(20), &[]) },
        TracePacket { ftrace_stats: Some(stats(2, 107)), ..TracePacket::default() },
    ];
    insta::assert_snapshot!(read(&trace(&packets)), @r#"
        0.000000010 [000] 0 ? softirq-entry 1
        0.000000020 [000] - ? lost ?
        0.000000020 [000] 0 ? softirq-entry 1
        loss: 7 events were lost while recording (CPU 1)
        loss: a gap of unknown length in the recording
        tasks []; cpus None, kernel None, clock Some("boot")
        "#);
}

#[test]
fn the_configuration_says_what_was_recorded() {
    let config = FtraceConfig { ftrace_events: vec!["sched/sched_switch".into(), "irq/*".into(), "print".into()] };
    let source = DataSource { config: Some(DataSourceConfig { ftrace_config: Some(config) }) };
    let config =
        TracePacket { trace_config: Some(TraceConfig { data_sources: vec![source] }), ..TracePacket::default() };
    let bytes = trace(&[config, events_packet(0, &[(5, 9, Kind::SchedWaking(woken("fio", 8, 0)))], &[])]);
    let mut source = Perfetto::new(Box::new(Cursor::new(bytes)));
    while source.read(&mut Batch::default()).unwrap() {}
    let recorded = source.info().recorded.unwrap();
    let names: Vec<&str> =
        EventType::ALL.iter().filter(|&&event| recorded.contains(event)).map(|event| event.name()).collect();
    assert_eq!(
        names,
        [
            "sched_switch",
            "sched_waking",
            "irq_handler_entry",
            "irq_handler_exit",
            "softirq_entry",
            "softirq_exit",
            "softirq_raise"
        ]
    );
}

#[test]
fn the_bits_of_old_kernels_mean_other_states() {
    let mut packets = vec![TracePacket::default(), events_packet(0, &[(1, 8, switch(("a", 8), 0x10, ("b", 9)))], &[])];
    for (release, expected) in [("4.9.1-android", "a:8(120) X ->"), ("6.1.99", "a:8(120) X ->")] {
        let utsname = Some(Utsname { release: Some(release.into()) });
        packets[0].system_info = Some(SystemInfo { utsname, num_cpus: None });
        assert!(read(&trace(&packets)).contains(expected), "{}", read(&trace(&packets)));
    }
    // Bit 0x400 is "no load" of an idle kernel thread in one version and undefined in the other.
    packets[1] = events_packet(0, &[(1, 8, switch(("a", 8), 0x402, ("b", 9)))], &[]);
    assert!(read(&trace(&packets)).contains("a:8(120) D ->"));
    packets[0].system_info =
        Some(SystemInfo { utsname: Some(Utsname { release: Some("4.9".into()) }), num_cpus: None });
    assert!(read(&trace(&packets)).contains("a:8(120) I ->"));
}

#[test]
fn a_trace_without_kernel_events_says_how_to_record_some() {
    let bytes = trace(&[TracePacket { sequence_flags: Some(1), ..TracePacket::default() }]);
    let error = Perfetto::new(Box::new(Cursor::new(bytes))).read(&mut Batch::default()).unwrap_err();
    insta::assert_snapshot!(error.to_string(), @r#"no ftrace events in 1 packets; record with the data source linux.ftrace and ftrace_events: "sched/sched_switch", "sched/sched_waking""#);
}

#[test]
fn no_truncation_and_no_flipped_bit_does_harm() {
    let bytes = trace(&everything());
    let survives = |bytes: &[u8]| {
        let mut source = Perfetto::new(Box::new(Cursor::new(bytes.to_vec())));
        let mut batch = Batch::default();
        for _ in 0..100 {
            if !source.read(&mut batch).unwrap_or(false) {
                return;
            }
            assert!(batch.events.is_sorted_by_key(|event| event.time));
        }
        panic!("no end");
    };
    for length in 0..bytes.len() {
        survives(&bytes[..length]);
    }
    let mut state = 1u64;
    for _ in 0..2000 {
        // A linear congruential generator: the same bit flips in each run.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bit = (state >> 33) as usize % (bytes.len() * 8);
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        survives(&flipped);
    }
}

#[test]
fn clock_snapshots_set_the_trace_beside_the_wall_s_clock() {
    let snapshot = |boot, wall| {
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let clock_snapshot = Some(ClockSnapshot { clocks: vec![clock(6, boot), clock(1, wall), clock(3, 7)] });
        TracePacket { clock_snapshot, ..TracePacket::default() }
    };
    let events = |more: &[Vec<u8>]| {
        events_packet(0, &[(1000, 1, switch(("a", 1), 1, ("b", 2))), (2000, 2, switch(("b", 2), 1, ("a", 1)))], more)
    };
    let clocks = |packets: &[TracePacket]| {
        let mut source = Perfetto::new(Box::new(Cursor::new(trace(packets))));
        let mut batch = Batch::default();
        while source.read(&mut batch).unwrap() {}
        source.info().clocks.iter().map(|pair| (pair.trace.0, pair.wall.0)).collect::<Vec<_>>()
    };
    let packets = [snapshot(900, 5_000_900), snapshot(1500, 5_001_501), events(&[]), snapshot(2000, 5_002_002)];
    assert_eq!(clocks(&packets), [(900, 5_000_900), (2000, 5_002_002)], "the first and the last");
    // Clock 2 is ftrace's `global`, whose distance from boot time is unknown.
    let other = [snapshot(900, 5_000_900), events(&[number(bundle_field::FTRACE_CLOCK, 2)])];
    assert_eq!(clocks(&other), [], "events on another clock");
}

#[test]
fn a_cpu_without_events_in_later_turns_was_silent_until_the_last_but_one() {
    let softirq = |time: u64| [(time, 0, Kind::SoftirqEntry(Softirq { vec: Some(1) }))];
    let turn = |time: u64| [events_packet(0, &softirq(time), &[]), events_packet(3, &softirq(time + 2), &[])];
    let first = || events_packet(1, &softirq(5), &[]);
    let turns = |count: u64| (1..=count).flat_map(|at| turn(at * 10));
    let known = |packets: Vec<TracePacket>, cpu| {
        let mut source = Perfetto::new(Box::new(Cursor::new(trace(&packets))));
        while source.read(&mut Batch::default()).unwrap() {}
        source.info().coverage.of(CpuId(cpu))
    };
    let until = |packets: Vec<TracePacket>| known(packets, 1).proof.map(|proof| proof.until);
    assert_eq!(until([first()].into_iter().chain(turns(2)).collect()), None);
    assert_eq!(until([first()].into_iter().chain(turns(4)).collect()), Some(Until::At(Time(22))));
    // A buffer that was full, and missing packets.
    let stats = |phase, dropped| FtraceStats {
        phase: Some(phase),
        cpu_stats: vec![FtraceCpuStats { cpu: Some(1), overrun: Some(0), dropped_events: Some(dropped) }],
    };
    let stats = |phase, dropped| TracePacket { ftrace_stats: Some(stats(phase, dropped)), ..TracePacket::default() };
    let with_stats = |end| [stats(1, 3)].into_iter().chain(turns(4)).chain([stats(2, end)]).collect();
    assert_eq!(until(with_stats(3)), Some(Until::At(Time(22))));
    assert_eq!(until(with_stats(4)), None);
    assert!(known(with_stats(4), 1).dropped && known(with_stats(4), 3).proof.is_some());
    let truncated = TracePacket { previous_packet_dropped: Some(1), ..first() };
    assert_eq!(until(turns(4).chain([truncated]).collect()), None);
    // An event type that unstarve does not read.
    let other = FtraceEvent { timestamp: Some(44), pid: Some(9), common_flags: None, event: None }.encode_to_vec();
    let presence = known(vec![first(), events_packet(2, &[], &[field(bundle_field::EVENT, &other)])], 2).presence;
    assert_eq!(presence.map(|seen| (seen.time, seen.current)), Some((Time(44), Some(Tid(9)))));
}
