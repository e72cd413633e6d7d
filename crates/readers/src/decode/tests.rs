//! Tests of the decoder, on records built by hand.

use proptest::prelude::*;
use unstarve_model::{BlockRequest, Comm, EventKind, Names, PrevState, Prio, TaskRef, Tid, Vector};

use super::*;
use crate::symbols::Symbols;

const COMMON_FIELDS: &str = "format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

/// `sched_switch` as kernels 5.10 to 7.2 describe it.
const SWITCH_FIELDS: [(&str, usize, usize); 7] = [
    ("char prev_comm[16]", 8, 16),
    ("pid_t prev_pid", 24, 4),
    ("int prev_prio", 28, 4),
    ("long prev_state", 32, 8),
    ("char next_comm[16]", 40, 16),
    ("pid_t next_pid", 56, 4),
    ("int next_prio", 60, 4),
];
const SWITCH_PRINT: &str =
    r#"__print_flags(REC->prev_state & 0xff, "|", { 0x1, "S" }) : "R", REC->prev_state & 256 ? "+" : """#;

/// A format text with `fields`, each given as `TYPE NAME offset size`.
fn format(name: &str, id: u16, fields: &[(&str, usize, usize)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\n{COMMON_FIELDS}\n");
    for (declaration, offset, size) in fields {
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
    }
    text + "\nprint fmt: " + print + "\n"
}

/// A record made of the common fields and `body`.
fn record(endian: Endian, id: u16, flags: u8, pid: u32, body: &[&[u8]]) -> Vec<u8> {
    let mut record = endian.bytes16(id).to_vec();
    record.extend([flags, 0]);
    record.extend(endian.bytes32(pid));
    body.iter().for_each(|part| record.extend_from_slice(part));
    record
}

fn decode(decoder: &Decoder, names: &mut Interner, record: &[u8]) -> Result<Option<Event>, BadRecord> {
    let mut event = None;
    let known = decoder.decode(Time(5), CpuId(1), record, names, |found| event = Some(found))?;
    assert_eq!(known, event.is_some());
    Ok(event)
}

fn decoded(decoder: &Decoder, names: &mut Interner, record: &[u8]) -> Option<Event> {
    decode(decoder, names, record).unwrap()
}

#[test]
fn switch_in_both_byte_orders() {
    let text = format("sched_switch", 314, &SWITCH_FIELDS, SWITCH_PRINT);
    for endian in [Endian::Little, Endian::Big] {
        let mut decoder = Decoder::new(endian);
        assert_eq!(decoder.add_format("sched", &text), Ok(Some(EventType::Switch)));
        let record = record(
            endian,
            314,
            0,
            7,
            &[
                b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
                &endian.bytes32(7),
                &endian.bytes32(120),
                &endian.bytes64(0x100),
                b"migration/1\0\0\0\0\0",
                &endian.bytes32(20),
                &endian.bytes32((-1i32) as u32),
            ],
        );
        let mut names = Interner::new();
        let event = decoded(&decoder, &mut names, &record).unwrap();
        let task = |tid, comm, prio| TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio(prio)));
        assert_eq!(event.issuer.current(), Some(Tid(7)));
        assert_eq!(event.issuer.context(), Context::Task);
        assert_eq!(
            event.kind,
            EventKind::Switch {
                prev: task(7, "fio", 120),
                prev_state: PrevState::Preempted,
                next: task(20, "migration/1", -1),
            }
        );
        for length in 2..record.len() {
            assert!(decode(&decoder, &mut names, &record[..length]).is_err(), "{length}");
        }
    }
}

#[test]
fn dynamic_text_functions_and_workqueues_get_names() {
    let mut decoder = Decoder::new(Endian::Little);
    let queue = [("void * work", 8, 8), ("void * function", 16, 8), ("__data_loc char[] workqueue", 24, 4)];
    decoder.add_format("workqueue", &format("workqueue_queue_work", 9, &queue, "")).unwrap();
    let mut names = Interner::new();
    names.set_symbols(Symbols::from_text("ffffffff81000000 t iomap_dio_complete_work\n".into()));
    let with_locator = |locator: u32| {
        record(
            Endian::Little,
            9,
            0x08,
            1,
            &[&0x1122u64.to_le_bytes(), &0xffffffff81000000u64.to_le_bytes(), &locator.to_le_bytes(), b"dio/sda\0"],
        )
    };
    let event = decoded(&decoder, &mut names, &with_locator(8 << 16 | 28)).unwrap();
    let mut table = Names::default();
    let mut new = Vec::new();
    names.take_new(&mut new);
    table.extend(new);
    assert_eq!(event.issuer.context(), Context::Hardirq);
    assert_eq!(
        event.kind,
        EventKind::WorkQueued {
            work: 0x1122,
            function: table.find("iomap_dio_complete_work"),
            workqueue: table.find("dio/sda"),
        }
    );
    assert!(table.find("dio/sda").is_some());
    let outside = decode(&decoder, &mut names, &with_locator(9 << 16 | 28));
    assert_eq!(outside, Err(BadRecord { length: 36, event: Some(EventType::WorkQueued) }));
}

/// `block_rq_issue` of 5.10 (no `ioprio`) and of 6.11 and later, and `block_rq_complete` of both.
#[test]
fn requests_of_the_block_layer_old_and_new() {
    let place = [("dev_t dev", 8, 4), ("sector_t sector", 16, 8), ("unsigned int nr_sector", 24, 4)];
    let old = [("unsigned int bytes", 28, 4), ("char rwbs[8]", 32, 8), ("char comm[16]", 40, 16)];
    let new = [
        ("unsigned int bytes", 28, 4),
        ("unsigned short ioprio", 32, 2),
        ("char rwbs[10]", 34, 10),
        ("char comm[16]", 44, 16),
    ];
    let complete = [("int error", 28, 4), ("unsigned short ioprio", 32, 2), ("char rwbs[10]", 34, 10)];
    let request = BlockRequest { device: 254 << 20 | 3, sector: u64::MAX - 1, sectors: u32::MAX };
    for endian in [Endian::Little, Endian::Big] {
        let mut decoder = Decoder::new(endian);
        let mut add = |name: &str, id: u16, rest: &[(&str, usize, usize)]| {
            let fields: Vec<_> = place.iter().chain(rest).copied().collect();
            decoder.add_format("block", &format(name, id, &fields, "")).unwrap();
        };
        add("block_rq_insert", 1, &old);
        add("block_rq_issue", 2, &new);
        add("block_rq_complete", 3, &complete);
        let mut names = Interner::new();
        let body = |id: u16| {
            let sector = endian.bytes64(request.sector);
            let (device, sectors) = (endian.bytes32(request.device as u32), endian.bytes32(request.sectors));
            record(endian, id, 0x10, 12, &[&device, &[0; 4], &sector, &sectors, &[0; 36]])
        };
        let event = decoded(&decoder, &mut names, &body(1)).unwrap();
        assert_eq!((event.issuer.current(), event.issuer.context()), (Some(Tid(12)), Context::Softirq));
        assert_eq!(event.kind, EventKind::BlockInsert(request));
        assert_eq!(decoded(&decoder, &mut names, &body(2)).unwrap().kind, EventKind::BlockIssue(request));
        assert_eq!(decoded(&decoder, &mut names, &body(3)).unwrap().kind, EventKind::BlockComplete(request));
        assert!(decode(&decoder, &mut names, &body(3)[..27]).is_err(), "cut");
    }
}

#[test]
fn a_comm_may_be_dynamic_and_relative() {
    // sched_process_fork since 6.16.
    let fields = [
        ("__data_loc char[] parent_comm", 8, 4),
        ("pid_t parent_pid", 12, 4),
        ("__rel_data_loc char[] child_comm", 16, 4),
        ("pid_t child_pid", 20, 4),
    ];
    let mut decoder = Decoder::new(Endian::Little);
    decoder.add_format("sched", &format("sched_process_fork", 3, &fields, "")).unwrap();
    let word = |value: u32| value.to_le_bytes();
    let record = record(
        Endian::Little,
        3,
        0x50,
        4,
        &[&word(3 << 16 | 24), &word(4), &word(3 << 16 | 7), &word(5), b"sh\0", b"ls\0"],
    );
    let event = decoded(&decoder, &mut Interner::new(), &record).unwrap();
    assert_eq!(event.kind, EventKind::Fork { parent: Tid(4), child: Tid(5), child_comm: Comm::from("ls") });
    assert_eq!(event.issuer.context(), Context::Nmi);
}

#[test]
fn other_events_are_passed_over_and_impossible_values_refused() {
    let mut decoder = Decoder::new(Endian::Little);
    let mut names = Interner::new();
    let vec = [("unsigned int vec", 8, 4)];
    assert_eq!(decoder.add_format("kvm", "name: kvm_exit\nnonsense"), Ok(None));
    assert_eq!(decoder.add_format("kprobes", &format("softirq_entry", 8, &vec, "")), Ok(None));
    assert_eq!(decoded(&decoder, &mut names, &[]), None, "nothing is known, so nothing is wrong");
    decoder.add_format("irq", &format("softirq_entry", 8, &vec, "")).unwrap();
    assert!(decoder.known().contains(EventType::SoftirqEntry));
    assert_eq!(decoded(&decoder, &mut names, &record(Endian::Little, 77, 0, 0, &[])), None);
    let softirq = |vec: u32| record(Endian::Little, 8, 0x10, 0, &[&vec.to_le_bytes()]);
    assert_eq!(
        decoded(&decoder, &mut names, &softirq(3)).map(|e| (e.kind, e.issuer.context())),
        Some((EventKind::SoftirqEntry { vec: 3 }, Context::Softirq))
    );
    assert!(decode(&decoder, &mut names, &softirq(300)).is_err());
}

/// `hrtimer_start`, `hrtimer_expire_entry`, `timer_expire_entry` and `cgroup_attach_task` as kernels 5.10 to 6.18 describe them.
#[test]
fn signs_are_read_from_records_and_cut_ones_are_none() {
    let start = [
        ("void * hrtimer", 8, 8),
        ("void * function", 16, 8),
        ("s64 expires", 24, 8),
        ("s64 softexpires", 32, 8),
        ("enum hrtimer_mode mode", 40, 4),
    ];
    let expire = [("void * hrtimer", 8, 8), ("s64 now", 16, 8), ("void * function", 24, 8)];
    let timeout = [("void * timer", 8, 8), ("unsigned long now", 16, 8), ("void * function", 24, 8)];
    let attach = [
        ("int dst_root", 8, 4),
        ("int dst_level", 12, 4),
        ("u64 dst_id", 16, 8),
        ("int pid", 24, 4),
        ("__data_loc char[] dst_path", 28, 4),
        ("__data_loc char[] comm", 32, 4),
    ];
    const WAKEUP: u64 = 0xffff_ffff_8100_0000;
    const TICK: u64 = WAKEUP + 0x100;
    const TIMEOUT: u64 = WAKEUP + 0x200;
    let symbols =
        "ffffffff81000000 t hrtimer_wakeup\nffffffff81000100 t tick_nohz_handler\nffffffff81000200 t process_timeout\n";
    for endian in [Endian::Little, Endian::Big] {
        let mut decoder = Decoder::new(endian);
        // Common fields are known by an event that is read.
        decoder.add_format("irq", &format("softirq_entry", 1, &[("unsigned int vec", 8, 4)], "")).unwrap();
        for (system, name, id, fields) in [
            ("timer", "hrtimer_start", 2, &start[..]),
            ("timer", "hrtimer_expire_entry", 3, &expire),
            ("timer", "timer_expire_entry", 4, &timeout),
            ("cgroup", "cgroup_attach_task", 5, &attach),
            ("irq_vectors", "reschedule_exit", 6, &[("int vector", 8, 4)]),
            ("thermal", "local_timer_entry", 7, &[("int vector", 8, 4)]),
        ] {
            assert_eq!(decoder.add_format(system, &format(name, id, fields, "")), Ok(None), "{name}");
        }
        let mut names = Interner::new();
        names.set_symbols(Symbols::from_text(symbols.into()));
        let word = |number: u64| endian.bytes64(number);
        let half = |number: u32| endian.bytes32(number);
        let started = |function: u64, mode: u32| {
            record(endian, 2, 0, 7, &[&word(0xa1), &word(function), &word(60), &word(10), &half(mode)])
        };
        let expired = |function: u64| record(endian, 3, 8, 7, &[&word(0xa1), &word(12), &word(function)]);
        let timed_out = |function: u64| record(endian, 4, 16, 7, &[&word(0xa1), &word(12), &word(function)]);
        let path = 3 << 16 | 36;
        let moved = record(
            endian,
            5,
            0,
            7,
            &[&half(0), &half(1), &word(12), &half(9), &half(path), &half(1 << 16 | 39), b"/a\0\0"],
        );
        let other = |kind| Some(Sign::Other(kind));
        let start = |is_relative| other(EventKind::TimerStart { timer: 0xa1, due: 10, is_relative });
        let group = Some(names.intern(b"/a"));
        let table = [
            (started(WAKEUP, 1), start(true)),
            (started(WAKEUP, 8), start(false)),
            (started(TICK, 2), None),
            (expired(WAKEUP), other(EventKind::TimerExpire { timer: 0xa1, now: 12 })),
            (expired(TICK), Some(Sign::Tick)),
            (timed_out(TIMEOUT), other(EventKind::TimeoutExpire)),
            (timed_out(WAKEUP), None),
            (moved, other(EventKind::Attach { tid: Tid(9), hierarchy: 0, group })),
            (record(endian, 6, 8, 7, &[&half(253)]), other(EventKind::VectorExit { vector: Vector::Reschedule })),
            (record(endian, 7, 8, 7, &[&half(236)]), None),
        ];
        for (record, sign) in table {
            assert_eq!(decoder.sign(&record, &mut names), sign);
            assert_eq!(decoder.common(&record).0, Some(Tid(7)));
            for length in 0..record.len() {
                decoder.sign(&record[..length], &mut names);
                decoder.common(&record[..length]);
            }
            if record.len() > 24 {
                assert_eq!(decoder.sign(&record[..24], &mut names), None, "cut");
            }
        }
    }
}

#[test]
fn a_missing_field_of_a_format_is_named() {
    let mut decoder = Decoder::new(Endian::Little);
    let error = decoder.add_format("irq", &format("softirq_entry", 8, &[], "")).unwrap_err();
    assert_eq!(error.to_string(), "format of event softirq_entry has no usable field `vec`");
}

/// `sched_switch`, `sched_waking` and `sched_wakeup` as kernels 6.1 to 7.2 describe them, ids 1 to 3.
fn usual_formats() -> [String; 3] {
    let wakee = [("char comm[16]", 8, 16), ("pid_t pid", 24, 4), ("int prio", 28, 4), ("int target_cpu", 32, 4)];
    [
        format("sched_switch", 1, &SWITCH_FIELDS, SWITCH_PRINT),
        format("sched_waking", 2, &wakee, ""),
        format("sched_wakeup", 3, &wakee, ""),
    ]
}

fn usual_decoder() -> Decoder {
    let mut decoder = Decoder::new(Endian::Little);
    for text in usual_formats() {
        decoder.add_format("sched", &text).unwrap();
    }
    decoder
}

#[test]
fn only_the_usual_layouts_go_the_short_way() {
    assert!(usual_decoder().layouts.iter().all(|layout| layout.usual.is_some()));
    // Other formats (big-endian, or with one more field in front) take the general path.
    let mut big = Decoder::new(Endian::Big);
    big.add_format("sched", &usual_formats()[0]).unwrap();
    assert!(big.layouts[0].usual.is_none());
    let mut moved = Decoder::new(Endian::Little);
    moved.add_format("sched", &usual_formats()[1].replace("offset:24", "offset:36")).unwrap();
    assert!(moved.layouts[0].usual.is_none());
}

proptest! {
    #[test]
    fn usual_layouts_decode_to_what_the_general_way_does(
        id in 1u16..4,
        state in prop_oneof![Just(0u64), Just(1), Just(0x100), 0u64..1024, any::<u64>()],
        body in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0)], 0..72),
    ) {
        let usual = usual_decoder();
        let mut general = usual.clone();
        general.layouts.iter_mut().for_each(|layout| layout.usual = None);
        let mut record = record(Endian::Little, id, body.len() as u8, 7, &[&body]);
        if let Some(field) = record.get_mut(32..40).filter(|_| id == 1) {
            field.copy_from_slice(&state.to_le_bytes());
        }
        let (one, other) = (&mut Interner::new(), &mut Interner::new());
        prop_assert_eq!(decode(&usual, one, &record), decode(&general, other, &record));
    }
}
