//! Gaps, truncation, damage and hostile tables.

use super::*;

#[test]
fn gaps_are_events_and_losses() {
    let (names, _) = names();
    let softirq = |time, cpu| event(time, cpu, 0, Context::Softirq, EventKind::SoftirqEntry { vec: 1 });
    let lost = |time, cpu| Event {
        time: Time(time),
        cpu: CpuId(cpu),
        issuer: Issuer::new(None, Context::Unknown),
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
    // Enough for several chunks per CPU; CPUs 0 and 2 recorded, CPU 1 did not.
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
            "a gap of unknown length in the recording".to_owned(),
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

    // A section of options that points to itself.
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
                // The last section only names the others for people: nothing is lost with it.
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
    // Most of the file is kallsyms, so damage the tables before it and the data after it.
    let aims = (0..4000).chain(whole.len() - 8000..whole.len());
    for (round, at) in aims.step_by(61).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (round % 8);
        let _ = read(&bytes);
    }
}

#[test]
fn the_counters_of_a_buffer_prove_that_a_silent_cpu_was_recorded() {
    let (names, ids) = names();
    let events = story(ids);
    let machine = MACHINES[0];
    let counters =
        |cpu: u32, more: &str| format!("CPU: {cpu}\nentries: 3\noverrun: 5\n{more}read events: 3\n\0").into_bytes();
    let options = [
        (2, counters(0, "dropped events: 0\n")),
        (2, counters(1, "dropped events: 4\n")),
        // Old kernels do not have these counters.
        (2, counters(2, "")),
    ];
    let buffers = [("", "local", pages(machine, &events, &names))];
    let whole = V7 { machine, compression: "none", buffers: &buffers, options: &options }.bytes();
    let proved = |bytes: &[u8]| -> Vec<(bool, bool)> {
        let coverage = read(bytes).unwrap().info.coverage;
        let known = (0..3).map(|cpu| coverage.of(CpuId(cpu)));
        known.map(|known| (known.proof.is_some(), known.dropped)).collect()
    };
    assert_eq!(proved(&whole), [(true, false), (false, true), (false, false)]);
    // The end of a buffer may be in the missing part.
    let whole = v6(machine, &events, &names);
    assert_eq!(proved(&whole)[0], (true, false));
    assert_eq!(proved(&whole[..whole.len() - 100])[0], (false, false));
}
