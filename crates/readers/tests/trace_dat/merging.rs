//! Every machine and compression, several buffers, several clocks.

use super::*;

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

/// Version 6 has an instance's tables after the pages of the top-level buffer, and names them in an option.
#[test]
fn instances_of_version_6_are_merged() {
    let (names, ids) = names();
    let events = story(ids);
    let (irqs, rest): (Vec<Event>, Vec<Event>) =
        events.iter().partition(|event| matches!(event.kind, EventKind::IrqEntry { .. }));
    for machine in MACHINES {
        let endian = machine.endian;
        let mut file = v6(machine, &rest, &names);
        // The option takes the place of the padding before the first page.
        let mut option = endian.bytes16(3).to_vec();
        option.extend(endian.bytes32(13));
        option.extend(endian.bytes64(file.len() as u64));
        option.extend(b"irqs\0");
        let padding = file.len() - pages(machine, &rest, &names).iter().map(|(_, p)| p.len()).sum::<usize>();
        assert!(file[padding - option.len()..padding].iter().all(|&byte| byte == 0));
        file.drain(padding - option.len()..padding);
        let at = file.windows(10).position(|window| window == b"options  \0").unwrap() + 10;
        file.splice(at..at, option);
        // Its table of four CPUs, then the pages of the only CPU that recorded.
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
    assert!(refused.contains("its clock is \"x86-tsc\", which counts ticks"), "{refused}");
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
    // The times were shifted by hand.
    assert_eq!(info(&[uname, date, (7, b"5\0".to_vec())]).clocks, []);
    assert_eq!(info(&[(5, b"Linux (none) 6.1.0 x86_64\0".to_vec())]).host, None);
}
