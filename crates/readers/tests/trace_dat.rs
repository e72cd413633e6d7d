//! Files of our own making, in all variants of trace.dat, and all the ways in which they break.

mod synth;

use std::io::{Cursor, Write as _};
use std::path::Path;

use proptest::prelude::*;
use synth::{MACHINES, V7, pages, recording};
use unstarve_model::{
    Batch, ClockPair, Comm, Context, CpuId, Event, EventKind, EventSource, Loss, LossKind, NameId, Names, PrevState,
    Prio, TaskRef, Tid, Time, TraceInfo, WallTime,
};
use unstarve_readers::{Input, open_input, trace_dat_write};

/// What a source gives, with the names in place of their ids.
struct Read {
    info: TraceInfo,
    events: Vec<Event>,
    names: Names,
    losses: Vec<Loss>,
}

fn drain(mut source: Box<dyn EventSource>) -> Read {
    let (mut batch, mut events, mut names) = (Batch::default(), Vec::new(), Names::default());
    while source.read(&mut batch).unwrap() {
        assert!(batch.events.len() <= Batch::TARGET + 1);
        events.append(&mut batch.events);
        names.extend(batch.names.drain(..));
    }
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time), "times decrease");
    Read { info: source.info().clone(), events, names, losses: source.losses() }
}

fn read(bytes: &[u8]) -> Result<Read, String> {
    let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "test.dat".into()).unwrap();
    open_input(input).map(drain).map_err(|error| error.to_string())
}

fn loss_kinds(losses: &[Loss]) -> Vec<LossKind> {
    losses.iter().map(|loss| loss.kind).collect()
}

/// `flush_work_fn` and `events_wq`, `eth0`, in the order in which [`story`] uses them.
fn names() -> (Names, [NameId; 3]) {
    let mut names = Names::default();
    let ids = ["eth0", "flush_work_fn", "events_wq"].map(|name| names.push(name));
    (names, ids)
}

fn task(tid: u32, comm: &str, prio: i32) -> TaskRef {
    TaskRef { tid: Tid(tid), comm: Comm::from(comm), prio: Some(Prio(prio)) }
}

fn event(time: u64, cpu: u32, current: u32, context: Context, kind: EventKind) -> Event {
    Event { time: Time(time), cpu: CpuId(cpu), current: Some(Tid(current)), context, kind }
}

/// ```text
/// CPU 0   fio ──────┐irq: wakes kworker, queues work      ┌── … every 10 µs, 60 times, then a second of nothing
/// CPU 2             └ switch fio (preempted) → kworker ───┘
/// ```
fn story([eth0, function, workqueue]: [NameId; 3]) -> Vec<Event> {
    let (fio, kworker) = (task(7, "fio", 120), task(9, "kworker/0:1", -1));
    let mut events = Vec::new();
    for round in 0..60 {
        let start = 5_000_000_000 + round * 10_000 + if round > 30 { 1_000_000_000 } else { 0 };
        let irq = Context::Hardirq;
        events.extend([
            event(start, 0, 7, irq, EventKind::IrqEntry { irq: 24, name: Some(eth0) }),
            event(
                start + 10,
                0,
                7,
                irq,
                EventKind::WorkQueued { work: 0x8123_4000, function: Some(function), workqueue: Some(workqueue) },
            ),
            event(start + 20, 0, 7, irq, EventKind::Waking { task: kworker, target_cpu: CpuId(2) }),
            event(start + 20, 2, 7, Context::Softirq, EventKind::Wakeup { task: kworker, target_cpu: CpuId(2) }),
            event(
                start + 20,
                2,
                7,
                Context::Task,
                EventKind::Switch { prev: fio, prev_state: PrevState::Preempted, next: kworker },
            ),
            event(
                start + 900,
                2,
                9,
                Context::Task,
                EventKind::Switch { prev: kworker, prev_state: PrevState::Idle, next: fio },
            ),
        ]);
    }
    events
}

/// The bytes of a version 6 file of `events` from the writer that recorders use.
fn v6(machine: trace_dat_write::Machine, events: &[Event], names: &Names) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    write(&recording(machine, &pages(machine, events, names)), &path);
    std::fs::read(path).unwrap()
}

fn write(recording: &trace_dat_write::Recording, path: &Path) {
    trace_dat_write::write(recording, path, &mut |done, total| assert!(done <= total)).unwrap();
}

#[test]
fn what_is_written_is_read_on_every_machine() {
    let (names, ids) = names();
    let events = story(ids);
    for machine in MACHINES {
        let read = read(&v6(machine, &events, &names)).unwrap();
        assert_eq!(read.events, events, "{machine:?}");
        assert_eq!(read.names.since(0), names.since(0));
        assert_eq!(read.losses, []);
        assert_eq!(read.info.format, "trace.dat v6");
        assert_eq!(read.info.clock.as_deref(), Some("mono"));
        assert_eq!(read.info.cpus, Some(4));
        assert_eq!(read.info.kernel_release.as_deref(), Some("6.6.6-test"));
        assert_eq!(read.info.snapshot.as_deref(), Some(r#"{"schema":"test"}"#));
        assert_eq!(
            read.info.tasks.iter().map(|t| (t.tid.0, t.comm)).collect::<Vec<_>>(),
            [(7, Comm::from("fio")), (9, Comm::from("kworker/0:1"))]
        );
        let recorded = read.info.recorded.unwrap();
        assert!(recorded.contains(unstarve_model::EventType::Switch));
        assert!(!recorded.contains(unstarve_model::EventType::Fork));
    }
}

#[test]
fn version_7_in_every_packing_on_every_machine() {
    let (names, ids) = names();
    let events = story(ids);
    for machine in MACHINES {
        for compression in ["none", "zlib", "zstd"] {
            let buffers = [("", "local", pages(machine, &events, &names))];
            let options = [(4, b"[local] mono\0".to_vec()), (8, machine.endian.bytes32(4).to_vec())];
            let bytes = V7 { machine, compression, buffers: &buffers, options: &options }.bytes();
            let read = read(&bytes).unwrap();
            assert_eq!(read.events, events, "{machine:?} {compression}");
            assert_eq!(read.names.since(0), names.since(0));
            assert_eq!(read.losses, []);
            assert_eq!((read.info.format.as_str(), read.info.cpus), ("trace.dat v7", Some(4)));
        }
    }
}

#[test]
fn instances_are_merged_unless_their_clock_differs() {
    let (names, ids) = names();
    let events = story(ids);
    let (irqs, rest): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|event| matches!(event.kind, EventKind::IrqEntry { .. }));
    let machine = MACHINES[0];
    let file = |clock| {
        let buffers = [("", "local", pages(machine, &rest, &names)), ("irqs", clock, pages(machine, &irqs, &names))];
        read(&V7 { machine, compression: "zstd", buffers: &buffers, options: &[] }.bytes()).unwrap()
    };
    let merged = file("local");
    assert_eq!(merged.events.len(), events.len());
    assert_eq!(merged.losses, []);
    let other = file("mono");
    assert_eq!(other.events.len(), rest.len());
    assert_eq!(
        other.losses[0].to_string(),
        "1 parts of the file could not be decoded (instance \"irqs\" has another clock than `local`: its events are \
         left out)"
    );
}

/// Version 6 puts an instance's tables behind the top buffer's pages, and names them in an option.
#[test]
fn instances_of_version_6_are_merged() {
    let (names, ids) = names();
    let events = story(ids);
    let (irqs, rest): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|event| matches!(event.kind, EventKind::IrqEntry { .. }));
    for machine in MACHINES {
        let endian = machine.endian;
        let mut file = v6(machine, &rest, &names);
        // The option, for which the padding before the first page gives way.
        let mut option = endian.bytes16(3).to_vec();
        option.extend(endian.bytes32(13));
        option.extend(endian.bytes64(file.len() as u64));
        option.extend(b"irqs\0");
        let padding = file.len() - pages(machine, &rest, &names).iter().map(|(_, p)| p.len()).sum::<usize>();
        assert!(file[padding - option.len()..padding].iter().all(|&byte| byte == 0));
        file.drain(padding - option.len()..padding);
        let at = file.windows(10).position(|window| window == b"options  \0").unwrap() + 10;
        file.splice(at..at, option);
        // Its table of four CPUs, then the pages of the only one that recorded.
        let irq_pages = pages(machine, &irqs, &names).remove(0).1;
        let offset = (file.len() + 10 + 4 * 16).next_multiple_of(4096);
        file.extend(b"flyrecord\0");
        file.extend(endian.bytes64(offset as u64));
        file.extend(endian.bytes64(irq_pages.len() as u64));
        file.resize(offset, 0);
        file.extend(irq_pages);
        let read = read(&file).unwrap();
        assert_eq!(read.losses, []);
        assert_eq!(read.events, events, "{machine:?}");
    }
}

/// ```text
/// top    A─────────B────A──         the instance's clock is read 300 ns later
/// more    a─────────b    a─
/// ```
#[test]
fn an_event_that_two_buffers_recorded_is_given_once() {
    let (names, ids) = names();
    let events = story(ids);
    let late = |event: &Event| Event { time: Time(event.time.0 + 300), ..*event };
    let twins: Vec<Event> =
        events.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. })).map(late).collect();
    let machine = MACHINES[0];
    let buffers = [("", "local", pages(machine, &events, &names)), ("more", "local", pages(machine, &twins, &names))];
    let read = read(&V7 { machine, compression: "zstd", buffers: &buffers, options: &[] }.bytes()).unwrap();
    assert_eq!(read.events, events);
}

#[test]
fn equal_times_are_ordered_by_cpu_and_then_by_buffer() {
    let (names, _) = names();
    let softirq = |cpu, vec| event(100, cpu, 0, Context::Softirq, EventKind::SoftirqEntry { vec });
    let machine = MACHINES[0];
    let top = [softirq(1, 1), softirq(0, 2), softirq(0, 3)];
    let instance = [softirq(0, 4), softirq(1, 5)];
    let buffers = [("a", "local", pages(machine, &instance, &names)), ("", "local", pages(machine, &top, &names))];
    let read = read(&V7 { machine, compression: "none", buffers: &buffers, options: &[] }.bytes()).unwrap();
    let order: Vec<u8> = read
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::SoftirqEntry { vec } => vec,
            _ => unreachable!(),
        })
        .collect();
    assert_eq!(order, [4, 2, 3, 5, 1], "CPU 0 of the first buffer, then of the second; then CPU 1");
}

#[test]
fn cycles_become_nanoseconds_by_the_files_own_factor() {
    let (names, _) = names();
    let softirq = |time| event(time, 0, 0, Context::Softirq, EventKind::SoftirqEntry { vec: 1 });
    let machine = MACHINES[0];
    let buffers = [("", "x86-tsc", pages(machine, &[softirq(4_000), softirq(8_000)], &names))];
    let times = |options: &[(u16, Vec<u8>)]| {
        let read = read(&V7 { machine, compression: "none", buffers: &buffers, options }.bytes()).unwrap();
        (read.events.iter().map(|event| event.time.0).collect::<Vec<_>>(), loss_kinds(&read.losses))
    };
    // A multiplier of 3 and a shift of 2: 0.75 ns a cycle; then an offset of 5 ns.
    let mut factor = machine.endian.bytes32(3).to_vec();
    factor.extend(machine.endian.bytes32(2));
    factor.extend(machine.endian.bytes64(99));
    assert_eq!(times(&[(14, factor), (7, b"5\0".to_vec())]), (vec![3_005, 6_005], vec![]));
    let refused =
        read(&V7 { machine, compression: "none", buffers: &buffers, options: &[] }.bytes()).err().expect("no unit");
    assert!(refused.to_string().contains("its clock is \"x86-tsc\", which counts ticks"), "{refused}");
}

#[test]
fn a_dated_file_is_on_the_wall_s_clock() {
    let (names, _) = names();
    let softirq = |time| event(time, 0, 0, Context::Softirq, EventKind::SoftirqEntry { vec: 1 });
    let machine = MACHINES[0];
    let buffers = [("", "mono", pages(machine, &[softirq(4_000)], &names))];
    let info = |options: &[(u16, Vec<u8>)]| {
        read(&V7 { machine, compression: "none", buffers: &buffers, options }.bytes()).unwrap().info
    };
    let uname = (5, b"Linux web1 6.1.0 x86_64\0".to_vec());
    let date = (1, b"0x5af0d8b6e5000\0".to_vec());
    let dated = info(&[uname.clone(), date.clone()]);
    assert_eq!((dated.host.as_deref(), dated.kernel_release.as_deref()), (Some("web1"), Some("6.1.0")));
    assert_eq!(dated.clocks, [ClockPair { trace: Time(0), wall: WallTime(0) }]);
    assert_eq!(info(std::slice::from_ref(&uname)).clocks, []);
    // Somebody moved the times by hand.
    assert_eq!(info(&[uname, date, (7, b"5\0".to_vec())]).clocks, []);
    assert_eq!(info(&[(5, b"Linux (none) 6.1.0 x86_64\0".to_vec())]).host, None);
}

#[test]
fn gaps_are_events_and_losses() {
    let (names, _) = names();
    let softirq = |time, cpu| event(time, cpu, 0, Context::Softirq, EventKind::SoftirqEntry { vec: 1 });
    let lost = |time, cpu| Event {
        time: Time(time),
        cpu: CpuId(cpu),
        current: None,
        context: Context::Unknown,
        kind: EventKind::Lost { count: Some(12) },
    };
    let events = [softirq(1, 0), softirq(2, 1), lost(5, 1), softirq(5, 1), softirq(6, 0), lost(7, 1), softirq(7, 1)];
    for machine in MACHINES {
        let read = read(&v6(machine, &events, &names)).unwrap();
        assert_eq!(read.events, events, "{machine:?}");
        assert_eq!(read.losses, [Loss::lost_events(CpuId(1), 24)]);
    }
}

#[test]
fn compressed_outside_and_from_a_pipe() {
    let (names, ids) = names();
    let events = story(ids);
    let whole = v6(MACHINES[0], &events, &names);
    let zstd = zstd::encode_all(&whole[..], 1).unwrap();
    assert_eq!(read(&zstd).unwrap().events, events);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(&whole).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read(&gzip).unwrap().events, events);
    let torn = read(&gzip[..gzip.len() - 5000]).unwrap();
    assert!(loss_kinds(&torn.losses).contains(&LossKind::Truncated), "{:?}", torn.losses);
    assert!(!torn.events.is_empty() && torn.events.len() < events.len());
}

#[test]
fn a_cut_file_gives_what_came_before_or_says_where_it_ends() {
    let (names, ids) = names();
    let events = story(ids);
    let machine = MACHINES[0];
    let buffers = [("", "local", pages(machine, &events, &names))];
    let whole = v6(machine, &events, &names);
    let zstd = V7 { machine, compression: "zstd", buffers: &buffers, options: &[] }.bytes();
    for file in [&whole, &zstd] {
        let mut partly = 0;
        for length in (0..file.len()).step_by(37) {
            match read(&file[..length]) {
                Ok(read) => {
                    assert!(read.events.len() < events.len() || file.len() - length < 4096, "{length}");
                    assert!(loss_kinds(&read.losses).contains(&LossKind::Truncated), "{length}: {:?}", read.losses);
                    assert!(read.events.iter().all(|event| events.contains(event)), "{length}: an invented event");
                    partly += 1;
                }
                Err(error) if length < 10 => assert!(error.contains("test.dat"), "{error}"),
                Err(error) => assert!(error.contains("at byte"), "{length}: {error}"),
            }
        }
        assert!(partly > 10 || file == &zstd, "{partly}");
    }
}

#[test]
fn a_packed_file_that_was_cut_before_its_index_keeps_its_cpus() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    // Enough for several chunks a CPU; CPUs 0 and 2 recorded, CPU 1 did not.
    let once = story(ids);
    let again = |event: &Event, round: u64| Event { time: Time(event.time.0 + round * 10_000_000_000), ..*event };
    let events: Vec<Event> = (0..20).flat_map(|round| once.iter().map(move |event| again(event, round))).collect();
    let cpus = pages(machine, &events, &names);
    let empty = "CPU: 1\nentries: 0\noverrun: 0\nbytes: 0\nread events: 0\n\0".as_bytes().to_vec();
    let options = [(8, machine.endian.bytes32(3).to_vec()), (2, empty)];
    let buffers = [("", "local", cpus)];
    let whole = V7 { machine, compression: "zstd", buffers: &buffers, options: &options }.bytes();
    let read = read(&whole[..whole.len() - 3000]).unwrap();
    assert!(read.events.len() > events.len() / 2 && read.events.len() < events.len(), "{}", read.events.len());
    assert!(read.events.iter().all(|event| events.contains(event)));
    assert!(
        read.losses[0]
            .to_string()
            .ends_with("before the index of its data: 2 of 3 CPUs were found and numbered in their order)"),
        "{:?}",
        read.losses
    );
}

#[test]
fn damage_to_one_part_leaves_the_others() {
    let (names, ids) = names();
    let events = story(ids);
    let machine = MACHINES[0];
    let mut file = v6(machine, &events, &names);
    // The first page of the first CPU begins at the last page boundary before both CPUs' pages.
    let data = file.len() - pages(machine, &events, &names).iter().map(|(_, pages)| pages.len()).sum::<usize>();
    file[data + 8] = 0xff;
    file[data + 9] = 0xff;
    let read = read(&file).unwrap();
    assert!(read.events.len() > events.len() / 3 && read.events.len() < events.len());
    let lost = read.events.iter().filter(|event| matches!(event.kind, EventKind::Lost { count: None })).count();
    assert_eq!(lost, 1, "what comes after the damage must know that something is missing");
    let told: Vec<String> = read.losses.iter().map(Loss::to_string).collect();
    assert_eq!(
        told,
        [
            "1 gaps of unknown length in the recording".to_owned(),
            format!(
                "1 parts of the file could not be decoded (the page at byte {data} of CPU 0: more bytes of events than \
                 the page has at byte 8 of the page)"
            )
        ]
    );
}

#[test]
fn a_damaged_chunk_is_a_gap() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    let once = story(ids);
    let again = |event: &Event, round: u64| Event { time: Time(event.time.0 + round * 10_000_000_000), ..*event };
    let events: Vec<Event> = (0..20).flat_map(|round| once.iter().map(move |event| again(event, round))).collect();
    let buffers = [("", "local", pages(machine, &events, &names))];
    let mut file = V7 { machine, compression: "zstd", buffers: &buffers, options: &[] }.bytes();
    // The magic of the second chunk of the last CPU, from the end of the file: it has several.
    let magic = 0xfd2f_b528u32.to_le_bytes();
    let chunks: Vec<usize> = (0..file.len() - 4).filter(|&at| file[at..at + 4] == magic).collect();
    let second_last = chunks[chunks.len() - 2];
    file[second_last] ^= 1;
    let read = read(&file).unwrap();
    assert!(read.events.len() > events.len() / 2 && read.events.len() < events.len());
    assert_eq!(read.events.last(), events.last(), "the chunk behind the damaged one is read");
    assert_eq!(loss_kinds(&read.losses), [LossKind::UncountedGap, LossKind::Undecodable]);
}

#[test]
fn events_with_impossible_values_are_malformed_and_located() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    let mut events = story(ids);
    let waking = events.iter_mut().find_map(|event| match &mut event.kind {
        EventKind::Waking { target_cpu, .. } => Some(target_cpu),
        _ => None,
    });
    *waking.unwrap() = CpuId(CpuId::LIMIT);
    let buffers = [("", "local", pages(machine, &events, &names))];
    let read = read(&V7 { machine, compression: "zstd", buffers: &buffers, options: &[] }.bytes()).unwrap();
    assert_eq!(read.events.len(), events.len() - 1);
    let told = read.losses.iter().map(ToString::to_string).find(|loss| loss.contains("malformed")).unwrap();
    assert!(told.starts_with("1 sched_waking events are malformed (the first is in the page at byte "), "{told}");
}

#[test]
fn hostile_tables_end_in_a_located_error_or_a_loss() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    let buffers = [("", "local", pages(machine, &story(ids), &names))];
    let good = V7 { machine, compression: "none", buffers: &buffers, options: &[] }.bytes();
    let edited = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        read(&bytes).map(|read| read.losses.iter().map(Loss::to_string).collect::<Vec<_>>().join("; "))
    };
    let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();

    // A section of options whose successor is itself.
    let first = u64::from_le_bytes(good[27..35].try_into().unwrap());
    let circle = edited(&|bytes| {
        let next =
            bytes[first as usize..].windows(6).position(|w| w == [0, 0, 8, 0, 0, 0]).unwrap() + first as usize + 6;
        bytes[next..next + 8].copy_from_slice(&first.to_le_bytes());
    });
    assert!(circle.unwrap().contains("run in a circle"));

    // A format of four gigabytes.
    let long = edited(&|bytes| {
        let at = find(bytes, b"name: sched_switch") - 8;
        bytes[at..at + 8].copy_from_slice(&(4u64 << 30).to_le_bytes());
    });
    assert!(long.unwrap_err().contains("expected an event's format"));

    // Pages of no bytes, and of four gigabytes.
    for size in [0u32, u32::MAX] {
        let error = edited(&|bytes| bytes[14..18].copy_from_slice(&size.to_le_bytes())).unwrap_err();
        assert!(error.contains("at byte 14: expected a page size"), "{error}");
    }
    let version = edited(&|bytes| bytes[10] = b'9').unwrap_err();
    assert!(version.contains("version \"9\" of trace.dat is not known"), "{version}");
    let packing = edited(&|bytes| bytes[18..22].copy_from_slice(b"lzma")).unwrap_err();
    assert!(packing.contains("compression \"lzma\" is not known"), "{packing}");
}

#[test]
fn latency_text_is_refused_with_a_way_out() {
    let (names, _) = names();
    let mut bytes = v6(MACHINES[0], &[], &names);
    let at = bytes.windows(10).position(|window| window == b"flyrecord\0").unwrap();
    bytes[at..at + 10].copy_from_slice(b"latency  \0");
    let error = read(&bytes).err().unwrap();
    assert!(error.contains("latency tracer") && error.contains("record with `-e sched`"), "{error}");
}

#[test]
fn flipped_bits_never_panic() {
    let (names, ids) = names();
    let events = story(ids);
    let machine = MACHINES[0];
    let buffers = [("", "local", pages(machine, &events, &names))];
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for compression in ["none", "zstd"] {
        let whole = V7 { machine, compression, buffers: &buffers, options: &[] }.bytes();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random() % 4 {
                let at = random() as usize % bytes.len();
                bytes[at] ^= 1 << (random() % 8);
            }
            let _ = read(&bytes);
        }
    }
}

fn real(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name)).unwrap()
}

#[test]
fn a_real_file_cut_anywhere_gives_its_beginning_or_a_located_error() {
    let whole = real("linux-6.1-preempt.dat");
    let events = read(&whole).unwrap().events;
    // Boundaries of sections, out of `trace-cmd dump --sections`, and places between.
    let boundaries = [0, 10, 12, 35, 37, 316, 2090, 3426];
    let steps = (1..40).map(|step| whole.len() * step / 40);
    let mut partly = 0;
    for length in boundaries.into_iter().chain(steps).chain([whole.len() - 1, whole.len() - 200]) {
        match read(&whole[..length]) {
            Ok(read) => {
                // The last section names the others, for people: nothing is lost with it.
                let is_told = loss_kinds(&read.losses).contains(&LossKind::Truncated);
                assert!(is_told || read.events == events, "{length}: {:?}", read.losses);
                assert!(read.events.len() <= events.len());
                partly += usize::from(!read.events.is_empty());
            }
            Err(error) => assert!(length < 10 || error.contains("at byte"), "{length}: {error}"),
        }
    }
    assert!(partly > 3, "{partly}");
}

#[test]
fn a_real_file_with_flipped_bits_never_panics() {
    let whole = real("linux-6.1-idle.dat");
    // Most of the file is kallsyms: aim at the tables before it and the data behind.
    let aims = (0..4000).chain(whole.len() - 8000..whole.len());
    for (round, at) in aims.step_by(61).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (round % 8);
        let _ = read(&bytes);
    }
}

#[test]
fn the_writer_replaces_files_alone_and_leaves_nothing_behind() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    std::fs::write(&path, "old").unwrap();
    let mut short = recording(machine, &pages(machine, &story(ids), &names));
    short.pages[0].length += 4096;
    let error = trace_dat_write::write(&short, &path, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "the pages of CPU 0 end 4096 bytes early");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let mut twice = recording(machine, &pages(machine, &story(ids), &names));
    twice.pages[1].cpu = CpuId(0);
    assert!(trace_dat_write::write(&twice, &path, &mut |_, _| {}).is_err());
    let device = trace_dat_write::write(&twice, Path::new("/dev/null"), &mut |_, _| {});
    assert_eq!(device.unwrap_err().to_string(), "/dev/null is not a regular file, so it is not replaced");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn a_head_that_was_kept_makes_the_same_file_of_the_pages() {
    let (names, ids) = names();
    for machine in MACHINES {
        let recording = recording(machine, &pages(machine, &story(ids), &names));
        let head = trace_dat_write::Head::of(&recording).unwrap();
        let kept = head.to_bytes();
        assert_eq!(trace_dat_write::Head::from_bytes(kept.clone()).as_ref(), Some(&head));
        assert_eq!(trace_dat_write::Head::from_bytes(kept[..kept.len() - 1].to_vec()), None, "one that is not whole");
        let directory = tempfile::tempdir().unwrap();
        let (path, salvaged) = (directory.path().join("a"), directory.path().join("b"));
        write(&recording, &path);
        let mut file = std::fs::File::create_new(&salvaged).unwrap();
        let kept = trace_dat_write::Head::from_bytes(kept).unwrap();
        let length = kept.write_into(&recording.pages, &mut file, &salvaged, &mut |_, _| {}).unwrap();
        let (whole, salvaged) = (std::fs::read(&path).unwrap(), std::fs::read(&salvaged).unwrap());
        assert!(whole == salvaged && whole.len() as u64 == length);
    }
}

/// Random scheduling on four CPUs, with pauses long enough to need extended times.
fn random_events() -> impl Strategy<Value = Vec<Event>> {
    let pause = prop_oneof![4 => 0u64..1000, 1 => Just(1u64 << 27), 1 => 0u64..1 << 40];
    let kind = (0u32..50, 0u32..4, 0i32..140, 0u8..10).prop_map(|(tid, cpu, prio, vec)| match vec {
        0..3 => EventKind::SoftirqEntry { vec },
        3..6 => EventKind::Waking { task: task(tid, "wakee", prio), target_cpu: CpuId(cpu) },
        _ => EventKind::Switch {
            prev: task(tid, "a rather long n", prio),
            prev_state: if prio % 2 == 0 { PrevState::Preempted } else { PrevState::Uninterruptible },
            next: task(tid + 1, "", -1),
        },
    });
    proptest::collection::vec((pause, 0u32..4, kind), 0..300).prop_map(|steps| {
        let mut time = 0;
        let mut events: Vec<Event> = steps
            .into_iter()
            .map(|(pause, cpu, kind)| {
                time += pause;
                event(time, cpu, 3, Context::Task, kind)
            })
            .collect();
        events.sort_by_key(|event| (event.time, event.cpu));
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_come_back_as_they_were(events in random_events(), machine in 0usize..4) {
        let read = read(&v6(MACHINES[machine], &events, &Names::default())).unwrap();
        prop_assert_eq!(read.events, events);
        prop_assert_eq!(read.losses, []);
    }
}
