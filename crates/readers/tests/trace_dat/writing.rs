//! The files that the writer leaves, and that any events can be read back.

use super::*;

#[test]
fn the_writer_replaces_files_alone_and_leaves_nothing_behind() {
    let (names, ids) = names();
    let machine = MACHINES[0];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    std::fs::write(&path, "old").unwrap();
    let mut short = recording(machine, &pages(machine, &story(ids), &names));
    short.pages[0].length += 4096;
    let error = trace_dat_write::write(short, &path, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "the pages of CPU 0 end 4096 bytes early");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    let twice = || {
        let mut twice = recording(machine, &pages(machine, &story(ids), &names));
        twice.pages[1].cpu = CpuId(0);
        twice
    };
    assert!(trace_dat_write::write(twice(), &path, &mut |_, _| {}).is_err());
    let device = trace_dat_write::write(twice(), Path::new("/dev/null"), &mut |_, _| {});
    assert_eq!(device.unwrap_err().to_string(), "/dev/null is not a regular file, so it is not replaced");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn a_head_that_was_kept_makes_the_same_file_of_the_pages() {
    let (names, ids) = names();
    for machine in MACHINES {
        let recorded = || recording(machine, &pages(machine, &story(ids), &names));
        let (head, cpu_pages) = trace_dat_write::Head::of(recorded()).unwrap();
        let mut kept = Vec::new();
        head.keep(&mut kept).unwrap();
        assert!(trace_dat_write::Head::from_bytes(kept[..kept.len() - 1].to_vec()).is_none(), "one that is not whole");
        let directory = tempfile::tempdir().unwrap();
        let (path, salvaged) = (directory.path().join("a"), directory.path().join("b"));
        write(recorded(), &path);
        let mut file = std::fs::File::create_new(&salvaged).unwrap();
        let kept = trace_dat_write::Head::from_bytes(kept).unwrap();
        let length = kept.write_into(&cpu_pages, &mut file, &salvaged, &mut |_, _| {}).unwrap();
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
