//! Tests of the perf.data reader, on files built by `fixture`.

use std::io::Cursor;

use unstarve_model::{ClockPair, CpuId, LossKind, Names, Time, Until, WallTime};
use zstd::stream::raw::{Encoder, Operation};

use super::fixture::{Maker, RUNTIME_ID, WAKING_ID};
use super::*;
use crate::picture;

fn open(bytes: &[u8]) -> Result<PerfData, PerfDataError> {
    PerfData::open(Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "x".into()).unwrap())
}

/// Everything a file yields: events, then losses, tasks and facts about the machine.
fn read(bytes: &[u8]) -> String {
    let mut source = open(bytes).unwrap();
    let (mut batch, mut names, mut events) = (Batch::default(), Names::default(), Vec::new());
    while source.read(&mut batch).unwrap() {
        names.extend(batch.names.drain(..));
        events.append(&mut batch.events);
    }
    let mut lines = vec![picture::events(&events, &names)];
    // Every fixture records only two event types, so the others are always reported as not recorded.
    let losses = source.losses();
    lines.extend(losses.iter().filter(|loss| !is_not_recorded(loss)).map(|loss| format!("loss: {loss}")));
    let info = source.info();
    let tasks: Vec<String> = info.tasks.iter().map(|task| format!("{}:{}", task.comm, task.tid)).collect();
    lines.push(format!("tasks {tasks:?}; cpus {:?}, kernel {:?}", info.cpus, info.kernel_release));
    lines.join("\n")
}

fn is_not_recorded(loss: &Loss) -> bool {
    matches!(loss.kind, LossKind::NotRecorded(_))
}

/// Reads as far as possible; returns whether there was no damage. Bounded, so that a reader that never ends fails the
/// test.
fn survives(bytes: &[u8]) -> bool {
    let Ok(mut source) = open(bytes) else { return false };
    let (mut batch, mut last) = (Batch::default(), 0);
    for _ in 0..1000 {
        match source.read(&mut batch) {
            Ok(true) => {
                for event in &batch.events {
                    assert!(event.time.0 >= last, "times decrease");
                    last = event.time.0;
                }
            }
            Ok(false) => return source.losses().iter().all(is_not_recorded),
            Err(_) => return false,
        }
    }
    panic!("no end");
}

/// Two rounds of two CPUs with overlapping events and all other record types between them.
fn two_rounds(make: Maker) -> Vec<u8> {
    let comm = |tid: u32, name: &[u8; 8]| [&make.word(tid), &make.word(tid), &name[..]].concat();
    let fork = [42u32, 42, 43, 42].map(|tid| make.word(tid)).concat();
    [
        make.record_at(3, &comm(42, b"fio\0\0\0\0\0"), 0, 0),
        make.waking(10, 0, "a"),
        make.sample(RUNTIME_ID, 11, 0, &[0; 8]),
        make.waking(30, 0, "b"),
        make.waking(20, 1, "c"),
        make.round(),
        make.record_at(7, &[fork, make.long(33).to_vec()].concat(), 33, 0),
        make.waking(35, 0, "d"),
        // An event of the round before, written by this CPU while the others were being read.
        make.softirq(25, 1, 3),
        make.record_at(2, &make.longs(&[u64::from(WAKING_ID), 5]), 40, 1),
        make.waking(41, 1, "e"),
        make.round(),
        make.record_at(5, &make.longs(&[50, 1, 1]), 50, 0),
        make.softirq(51, 0, 300),
        make.round(),
    ]
    .concat()
}

#[test]
fn a_file_and_a_pipe_of_either_byte_order() {
    let little = Maker::new(Endian::Little);
    let big = Maker::new(Endian::Big);
    let picture = read(&little.file(&two_rounds(little)));
    insta::assert_snapshot!(picture, @r#"
        0.000000010 [000] 7 . waking a:42(120) cpu 0
        0.000000020 [001] 7 . waking c:42(120) cpu 1
        0.000000025 [001] 7 . softirq-entry 3
        0.000000030 [000] 7 . waking b:42(120) cpu 0
        0.000000035 [000] 7 . waking d:42(120) cpu 0
        0.000000040 [001] - ? lost 5
        0.000000041 [001] 7 . waking e:42(120) cpu 1
        0.000000050 [000] - ? lost ?
        loss: 5 events were lost while recording (CPU 1)
        loss: a gap of unknown length in the recording (the kernel throttled perf; record tracepoints with a period of 1 only)
        loss: 1 softirq_entry events are malformed (the first is the sample at byte 1448)
        tasks ["fio:42", "fio:43"]; cpus Some(4), kernel Some("6.1.0-test")
        "#);
    // Only the position of the damage differs.
    let everywhere = |text: String| text.split(" at byte").next().unwrap().to_owned();
    for other in [little.pipe(&two_rounds(little)), big.file(&two_rounds(big)), big.pipe(&two_rounds(big))] {
        assert_eq!(everywhere(read(&other)), everywhere(picture.clone()));
    }
}

#[test]
fn switch_records_are_the_switches_where_no_other_was_recorded() {
    let make = |endian| {
        let make = Maker::new(endian).with_switches();
        let name = [&make.word(42), &make.word(42), &b"fio\0\0\0\0\0"[..]].concat();
        let data = [
            make.record_at(3, &name, 0, 0),
            make.waking(10, 0, "fio"),
            make.leaves((20, 0), 7, true, 42),
            make.leaves((30, 0), 42, false, 0),
            make.leaves((40, 0), 0, true, 42),
            // The task has been reaped and has no id any more.
            make.leaves((50, 0), u32::MAX, false, 7),
            make.record_at(4, &[7u32, 1, 7, 1].map(|id| make.word(id)).concat(), 60, 0),
        ]
        .concat();
        make.file(&data)
    };
    let picture = read(&make(Endian::Little));
    insta::assert_snapshot!(picture, @r#"
        0.000000010 [000] 7 . waking fio:42(120) cpu 0
        0.000000020 [000] 7 . switch <...>:7(?) R -> fio:42(?)
        0.000000030 [000] 42 . switch fio:42(?) S -> <...>:0(?)
        0.000000040 [000] 0 . switch <...>:0(?) R -> fio:42(?)
        0.000000050 [000] 42 . switch fio:42(?) X -> <...>:7(?)
        0.000000060 [000] - . exit <...>:7
        loss: 4 switches were recorded without priorities (PERF_RECORD_SWITCH: who is real-time is known only of tasks that a wakeup names; record with `perf sched record`, or add -e sched:sched_switch)
        tasks ["fio:42"]; cpus Some(4), kernel Some("6.1.0-test")
        "#);
    assert_eq!(read(&make(Endian::Big)), picture);
    // Without `sample_id_all` the end of the record must not be read as a trailer.
    let plain = Maker::new(Endian::Little);
    let file = plain.file(&[plain.waking(10, 0, "a"), plain.leaves((20, 0), 7, true, 42)].concat());
    assert!(!read(&file).contains("switch"));
}

#[test]
fn before_4_17_no_record_says_who_is_still_runnable() {
    let make = Maker::new(Endian::Little).with_switches();
    let data = [make.leaves((20, 0), 7, false, 42), make.leaves((30, 0), 42, true, 7)].concat();
    let mut file = make.file(&data);
    let at = file.windows(10).position(|bytes| bytes == b"6.1.0-test").unwrap();
    file[at..at + 10].copy_from_slice(b"4.16.0-tes");
    insta::assert_snapshot!(read(&file), @r#"
        0.000000020 [000] 7 . switch <...>:7(?) ? -> <...>:42(?)
        0.000000030 [000] 42 . switch <...>:42(?) R -> <...>:7(?)
        loss: 2 switches were recorded without priorities (PERF_RECORD_SWITCH: who is real-time is known only of tasks that a wakeup names; record with `perf sched record`, or add -e sched:sched_switch)
        tasks []; cpus Some(4), kernel Some("4.16.0-tes")
        "#);
}

#[test]
fn records_inside_compressed_ones_may_be_cut_anywhere() {
    let make = Maker::new(Endian::Little);
    let inside: Vec<u8> = (0..100).flat_map(|i| make.waking(1000 + i, (i % 2) as u32, "fio")).collect();
    let expected = read(&make.file(&inside));
    for step in [1, 7, 100, 1000] {
        for kind in [kind::COMPRESSED, kind::COMPRESSED2] {
            let mut encoder = Encoder::new(1).unwrap();
            let mut data = Vec::new();
            for part in inside.chunks(step * 8 - 3) {
                let mut packed = vec![0; 1 << 16];
                let mut output = zstd::stream::raw::OutBuffer::around(&mut packed);
                let mut input = zstd::stream::raw::InBuffer::around(part);
                encoder.run(&mut input, &mut output).unwrap();
                encoder.flush(&mut output).unwrap();
                let length = output.pos();
                packed.truncate(length);
                data.extend(match kind {
                    kind::COMPRESSED => make.record(kind, &packed),
                    _ => {
                        let padding = vec![0; packed.len().next_multiple_of(8) - packed.len()];
                        make.record(kind, &[make.long(packed.len() as u64).to_vec(), packed, padding].concat())
                    }
                });
            }
            assert_eq!(read(&make.file(&data)), expected);
            assert_eq!(read(&make.pipe(&data)), expected);
        }
    }
}

#[test]
fn without_rounds_a_window_puts_events_in_order() {
    let make = Maker::new(Endian::Little);
    let data = [make.waking(30, 0, "a"), make.waking(40, 0, "b"), make.waking(20, 1, "c")].concat();
    insta::assert_snapshot!(read(&make.file(&data)), @r#"
        0.000000020 [001] 7 . waking c:42(120) cpu 1
        0.000000030 [000] 7 . waking a:42(120) cpu 0
        0.000000040 [000] 7 . waking b:42(120) cpu 0
        tasks []; cpus Some(4), kernel Some("6.1.0-test")
        "#);
}

#[test]
fn a_file_that_ends_early_gives_what_came_before() {
    let make = Maker::new(Endian::Little);
    let pipe = make.pipe(&[make.waking(10, 0, "a"), make.waking(20, 0, "b")].concat());
    insta::assert_snapshot!(read(&pipe[..pipe.len() - 5]), @r#"
        0.000000010 [000] 7 . waking a:42(120) cpu 0
        loss: the file ends early (within a record at byte 2005)
        tasks []; cpus Some(4), kernel Some("6.1.0-test")
        "#);
    let truncated = make.file(&[make.waking(10, 0, "a"), vec![0; 16], make.waking(20, 0, "b")].concat());
    insta::assert_snapshot!(read(&truncated), @r#"
        0.000000010 [000] 7 . waking a:42(120) cpu 0
        loss: the file ends early (what follows byte 656 is not a record)
        tasks []; cpus Some(4), kernel Some("6.1.0-test")
        "#);
}

#[test]
fn unreadable_files_are_reported_with_what_to_do() {
    let make = Maker::new(Endian::Little);
    let error = |bytes: &[u8]| match open(bytes) {
        Err(error) => error.to_string(),
        Ok(mut source) => source.read(&mut Batch::default()).unwrap_err().to_string(),
    };
    let whole = make.file(&make.waking(10, 0, "a"));
    let mut unfinished = whole.clone();
    unfinished[48..56].fill(0);
    let without = |bit: u32| {
        let make = Maker { sample_type: make.sample_type & !(1 << bit), ..make };
        make.file(&make.waking(10, 0, "a"))
    };
    let uninteresting = {
        let mut pipe = make.pipe(&[]);
        pipe.truncate(16);
        pipe.extend(make.record(64, &[make.attr(RUNTIME_ID), make.long(1).to_vec()].concat()));
        pipe
    };
    let huge = [&make.pipe(&[])[..16], &make.record(66, &make.word(u32::MAX))].concat();
    let errors = [
        error(&whole[..50]),
        error(&whole[..whole.len() - 100]),
        error(&unfinished),
        error(&without(7)),
        error(&without(10)),
        error(&uninteresting),
        error(&huge),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r"
        byte 0: expected a header of 104 bytes; the file is damaged or was cut: copy or record it again
        byte 704: expected a feature section within the file, of at most 64 MiB; the file is damaged or was cut: copy or record it again
        no event formats in it (HEADER_TRACING_DATA): perf was killed before it finished the file, or recorded no tracepoints; record with `perf sched record`
        its samples lack CPUs; record with `perf sched record`, or with `perf record -a -R -T --sample-cpu`
        its samples lack the events' fields; record with `perf sched record`, or with `perf record -a -R -T --sample-cpu`
        it records no scheduler events; record with `perf sched record`
        byte 16: expected event formats of at most 64 MiB; the file is damaged or was cut: copy or record it again
        ");
}

#[test]
fn no_truncation_and_no_flipped_bit_does_harm() {
    for endian in [Endian::Little, Endian::Big] {
        let make = Maker::new(endian);
        // Undamaged, so that any difference is due to the damage.
        let data = [make.waking(10, 0, "a"), make.round(), make.waking(20, 1, "b"), make.round()].concat();
        for bytes in [make.file(&data), make.pipe(&data)] {
            assert!(survives(&bytes));
            for length in 0..bytes.len() {
                survives(&bytes[..length]);
            }
            let mut state = 1u64;
            for _ in 0..4000 {
                // A linear congruential generator: the same bit flips in each run.
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let bit = (state >> 33) as usize % (bytes.len() * 8);
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                survives(&flipped);
            }
        }
    }
}

const HOSTILE_VALUES: [u64; 5] = [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 32, u32::MAX as u64];

/// The file with another value at `at`.
fn with_value(whole: &[u8], at: usize, value: u64) -> Vec<u8> {
    let mut changed = whole.to_vec();
    changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
    changed
}

#[test]
fn hostile_lengths_are_refused() {
    let make = Maker::new(Endian::Little);
    let data = make.waking(10, 0, "a");
    let whole = make.file(&data);
    let (ids, features) = ("the ids of an event", "a feature section within the file, of at most 64 MiB");
    let (attrs, table) = ("the table of event attributes", "the table of feature sections, which follows the data");
    let (attr, many) = ("at least one event attribute", "an event attribute with a plausible number of ids");
    let no_data = "a data section that fits into a file";
    // Every offset and length in the tables: where it is, and which error it may cause.
    let mut fields = vec![
        ("the header's size", 8, vec!["a header of 104 bytes"]),
        ("an attribute's size", 16, vec![attr]),
        ("the attributes' offset", 24, vec![attrs]),
        ("the attributes' size", 32, vec![attr]),
        ("the data's offset", 40, vec![no_data, table]),
        ("the data's size", 48, vec![no_data, table]),
    ];
    for event in 0..3 {
        let at = 104 + 144 * event + 128;
        fields.push(("ids' offset", at, vec![ids]));
        fields.push(("ids' size", at + 8, vec![many]));
    }
    for feature in 0..3 {
        let at = 104 + 3 * 144 + 3 * 8 + data.len() + 16 * feature;
        fields.push(("a feature's offset", at, vec![features]));
        fields.push(("a feature's size", at + 8, vec![features]));
    }
    for (name, at, expected) in fields {
        for value in HOSTILE_VALUES {
            let hostile = with_value(&whole, at, value);
            let Err(error) = open(&hostile) else {
                panic!("{name} at byte {at}: {value:#x} was taken");
            };
            let text = error.to_string();
            let PerfDataError::Header { offset, expected: said } = error else {
                panic!("{name} at byte {at}, {value:#x}: {text}");
            };
            assert!(expected.contains(&said), "{name} at byte {at}, {value:#x}: {text}");
            let input = Input::from_stream(Box::new(Cursor::new(hostile)), "hostile.data".into()).unwrap();
            let whole_text = crate::open_input(input).map(|_| ()).unwrap_err().to_string();
            let named = format!("cannot read hostile.data as perf.data: byte {offset}: expected {said}; ");
            assert!(whole_text.starts_with(&named), "{whole_text}");
        }
    }
}

#[test]
fn hostile_values_anywhere_do_no_harm() {
    let make = Maker::new(Endian::Little);
    let whole = make.file(&make.waking(10, 0, "a"));
    for at in (8..104).step_by(8).chain((104..whole.len() - 8).step_by(4)) {
        for value in HOSTILE_VALUES {
            survives(&with_value(&whole, at, value));
        }
    }
}

#[test]
fn a_compressed_record_that_unpacks_to_very_much_is_read_in_pieces() {
    let make = Maker::new(Endian::Little);
    // 24 MB of identical samples in a few kilobytes.
    let inside = make.softirq(10, 0, 3).repeat(300_000);
    let packed = zstd::encode_all(&inside[..], 1).unwrap();
    assert!(packed.len() < 60_000);
    let mut source = open(&make.file(&make.record(kind::COMPRESSED, &packed))).unwrap();
    let (mut batch, mut count) = (Batch::default(), 0);
    while source.read(&mut batch).unwrap() {
        assert!(batch.events.len() <= Batch::TARGET);
        count += batch.events.len();
    }
    assert_eq!(count, 300_000, "{:?}", source.losses());
}

#[test]
fn the_host_and_the_time_of_day_come_with_features() {
    let maker = Maker::new(Endian::Little);
    let mut attr = maker.attr(WAKING_ID);
    let flags = u64::from_le_bytes(attr[40..48].try_into().unwrap()) | 1 << 25;
    attr[40..48].copy_from_slice(&flags.to_le_bytes());
    attr[92..96].copy_from_slice(&1u32.to_le_bytes());
    let host = [maker.long(3).to_vec(), maker.word(5).to_vec(), b"web1\0".to_vec(), vec![0; 7]].concat();
    let clock = |id: u32| {
        let times = maker.longs(&[1_600_000_000_000_000_000, 500]);
        let data = [maker.word(1).to_vec(), maker.word(id).to_vec(), times].concat();
        maker.record(80, &[maker.long(29).to_vec(), data].concat())
    };
    let pipe = |clock: Vec<u8>| {
        let attr = maker.record(64, &[attr.clone(), maker.long(u64::from(WAKING_ID)).to_vec()].concat());
        let formats = maker.tracing_data();
        let mut pipe = [b"PERFILE2".to_vec(), maker.long(16).to_vec(), attr, maker.record(80, &host), clock].concat();
        pipe.extend(maker.record(66, &maker.word(formats.len() as u32)));
        pipe.extend(formats);
        pipe.extend(maker.waking(1000, 0, "a"));
        let mut source = open(&pipe).unwrap();
        assert!(source.read(&mut Batch::default()).unwrap());
        source.info().clone()
    };
    let info = pipe(clock(1));
    assert_eq!(info.host.as_deref(), Some("web1"));
    let pair = ClockPair { trace: Time(500), wall: WallTime(1_600_000_000_000_000_000) };
    assert_eq!((info.clock.as_deref(), info.clocks), (Some("mono"), vec![pair]));
    assert_eq!(pipe(clock(7)).clocks, [], "the pair is of another clock than the events");
}

/// The time up to which all CPUs are proved to be recorded, and the last time at which CPU 3 was seen.
fn coverage(data: &[Vec<u8>]) -> (Option<u64>, Option<u64>) {
    let mut source = open(&Maker::new(Endian::Little).file(&data.concat())).unwrap();
    while source.read(&mut Batch::default()).unwrap() {}
    let known = source.info().coverage.of(CpuId(3));
    let until = known.proof.map(|proof| match proof.until {
        Until::At(time) => time.0,
        Until::End => u64::MAX,
    });
    (until, known.presence.map(|presence| presence.time.0))
}

#[test]
fn a_cpu_without_events_in_later_rounds_was_silent_until_the_last_but_one() {
    let make = Maker::new(Endian::Little);
    let rounds = |ends: &[u64]| -> Vec<Vec<u8>> {
        let round = |&end: &u64| [make.waking(end - 5, 0, "a"), make.waking(end, 1, "b"), make.round()];
        ends.iter().flat_map(round).collect()
    };
    assert_eq!(coverage(&rounds(&[10])).0, None);
    assert_eq!(coverage(&rounds(&[10, 20])).0, Some(10));
    // Rounds without events prove nothing.
    assert_eq!(coverage(&[rounds(&[10, 20]), vec![make.round(), make.round()]].concat()).0, Some(10));
    // The records after the last end of a round are a round too, unless the file is cut in it.
    let unfinished = [rounds(&[10, 20]), vec![make.waking(25, 0, "a")]].concat();
    assert_eq!(coverage(&unfinished).0, Some(20));
    assert_eq!(coverage(&[unfinished, vec![make.waking(30, 0, "a")[..20].to_vec()]].concat()).0, Some(10));
    // Lost records: a buffer was full.
    let lost = make.record_at(2, &make.longs(&[0, 7]), 15, 1);
    assert_eq!(coverage(&[rounds(&[10, 20, 30]), vec![lost]].concat()).0, None);
}

#[test]
fn a_sample_that_is_not_read_shows_that_its_cpu_was_recorded() {
    let make = Maker::new(Endian::Little);
    let runtime = make.sample(RUNTIME_ID, 15, 3, &make.long(1));
    assert_eq!(coverage(&[make.waking(10, 0, "a"), runtime]).1, Some(15));
}
