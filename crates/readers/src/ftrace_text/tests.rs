//! Tests of the ftrace text reader.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unstarve_model::{Names, Time};

use super::*;
use crate::picture;

/// Everything a text yields: events, then losses.
fn read(text: &str) -> String {
    let mut source = FtraceText::new(Box::new(Cursor::new(text.to_owned().into_bytes())));
    let (mut batch, mut names, mut events) = (Batch::default(), Names::default(), Vec::new());
    while source.read(&mut batch).unwrap() {
        names.extend(batch.names.drain(..));
        events.append(&mut batch.events);
    }
    let mut lines = vec![format!("cpus {:?}", source.info().cpus), picture::events(&events, &names)];
    // Events never seen in these short texts are tested once, below.
    lines.extend(
        source
            .losses()
            .iter()
            .filter(|loss| !matches!(loss.kind, LossKind::NotRecorded(_)))
            .map(|loss| format!("loss: {loss}")),
    );
    lines.join("\n")
}

const TRACEFS_TEXT: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 205/1205   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
             fio-128     [000] d..2.    10.000001: sched_switch: prev_comm=fio prev_pid=128 prev_prio=120 prev_state=R+ ==> next_comm=kworker/0:2 next_pid=47 next_prio=120
     kworker/0:2-47      [000] .....    10.000004: workqueue_execute_start: work struct 00000000ba7307c0: function iomap_dio_complete_work
##### CPU 1 buffer started ####
          <idle>-0       [001] dNh4.    10.000005: sched_waking: comm=fio pid=128 prio=120 target_cpu=000
 => try_to_wake_up
 => __queue_work
CPU:0 [LOST 123 EVENTS]
     kworker/0:2-47      [000] ..s1.    10.000006: softirq_raise: vec=1 [action=TIMER]
";

#[test]
fn a_trace_file_of_tracefs() {
    insta::assert_snapshot!(read(
        TRACEFS_TEXT
    ), @r"
        cpus Some(2)
        10.000001000 [000] 128 . switch fio:128(120) R+ -> kworker/0:2:47(120)
        10.000004000 [000] 47 . work-start ba7307c0 iomap_dio_complete_work
        10.000005000 [001] - h lost ?
        10.000005000 [001] 0 h waking fio:128(120) cpu 0
        10.000006000 [000] - s lost 123
        10.000006000 [000] 47 s softirq-raise 1
        loss: 123 events were lost while recording (CPU 0)
        loss: a gap of unknown length in the recording
        ");
}

#[test]
fn what_trace_cmd_report_prints() {
    insta::assert_snapshot!(read(
        "\
cpus=2
             fio-126   [000]    10.166060: sched_switch:         sh:126 [120] D ==> trace-cmd:125 [120]
CPU:1 [EVENTS DROPPED]
          <idle>-0     [001]    10.166059: sched_wakeup:         rcu_preempt:15 [120] CPU:000
             fio-126   [000]    10.166061: sched_stat_runtime:   comm=fio pid=126 runtime=83234 [ns]
             fio-126   [000]    10.166062: sched_switch:         fio:126 [120]
nonsense
             fio-126   [000]    10.166063: sched_sw"
    ), @r"
        cpus Some(2)
        10.166059000 [001] - ? lost ?
        10.166059000 [001] 0 ? wakeup rcu_preempt:15(120) cpu 0
        10.166060000 [000] 126 ? switch sh:126(120) D -> trace-cmd:125(120)
        loss: a gap of unknown length in the recording
        loss: the file ends early (line 8 stops in its middle)
        loss: 1 sched_switch events are malformed (the first is line 6: `fio-126   [000]    10.166062: sched_switch:         fio:126 [120]`)
        loss: 1 parts of the file could not be decoded (the first is line 7: `nonsense`)
        ");
}

#[test]
fn a_clock_of_ticks_is_refused() {
    let text = "            bash-9       [000] .....  987654321: sched_process_exec: filename=/bin/x pid=9 old_pid=9\n";
    let mut source = FtraceText::new(Box::new(text.as_bytes()));
    let error = source.read(&mut Batch::default()).unwrap_err().to_string();
    assert!(error.starts_with("line 1: the time `987654321` has no fraction"), "{error}");
}

#[test]
fn text_that_holds_no_event_is_an_error_with_an_example() {
    let mut source = FtraceText::new(Box::new(&b"hello\nworld\n"[..]));
    let error = source.read(&mut Batch::default()).unwrap_err();
    insta::assert_snapshot!(error.to_string(), @"no event in 2 lines: expected lines such as `fio-126 [000] 10.166060: sched_switch: …`; the messages of a log without events are read by `unstarve explain`");
}

#[test]
fn events_that_never_appear_were_not_recorded() {
    let mut source = FtraceText::new(Box::new(&b"   x-1  [000]  1.000000: softirq_entry: vec=1 [action=TIMER]\n"[..]));
    while source.read(&mut Batch::default()).unwrap() {}
    let losses: Vec<String> = source.losses().iter().map(|loss| loss.to_string()).collect();
    insta::assert_snapshot!(losses.join("\n"), @r"
        sched_switch events were not recorded (no such line in the text)
        sched_waking events were not recorded (no such line in the text)
        sched_wakeup events were not recorded (no such line in the text)
        irq_handler_entry events were not recorded (no such line in the text)
        workqueue_queue_work events were not recorded (no such line in the text)
        workqueue_execute_start events were not recorded (no such line in the text)
        ");
}

#[test]
fn fields_without_their_print_format() {
    insta::assert_snapshot!(read(
        "\
version = 6
cpus=2
           <...>-1701  [001]    76.211513: sched_switch:          prev_comm=trace-cmd prev_pid=1701 prev_prio=120 \
         prev_state=64 next_comm=swapper/1 next_pid=0 next_prio=120
              sh-1642  [000]    76.211696: sched_wakeup:          comm=kworker/u12:1 pid=46 prio=120 success=1 target_cpu=0
              sh-1642  [000]    76.211701: sched_switch:          prev_comm=sh prev_pid=1642 prev_prio=120 \
         prev_state=4096 next_comm=kworker/u12:1 next_pid=46 next_prio=120
"
    ), @r"
        cpus Some(2)
        76.211513000 [001] 1701 ? switch trace-cmd:1701(120) X -> swapper/1:0(120)
        76.211696000 [000] 1642 ? wakeup kworker/u12:1:46(120) cpu 0
        76.211701000 [000] 1642 ? switch sh:1642(120) R+ -> kworker/u12:1:46(120)
        ");
}

#[test]
fn a_dump_in_the_log_of_a_dying_kernel() {
    insta::assert_snapshot!(read(
        "\
[    0.000000] Linux version 5.10.0
[    2.000000] Kernel panic - not syncing: sysrq triggered crash
[    2.000001] Dumping ftrace buffer:
[    2.000002] ---------------------------------
[    2.000003]   <idle>-0       0d.h2. 1500us : sched_waking: comm=fio pid=12 prio=120 target_cpu=000
[    2.000004][    T1]   <idle>-0       0d..2. 1503us+: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
         prev_state=R ==> next_comm=fio next_pid=12 next_prio=120
[    2.000005] CPU:0 [LOST 3 EVENTS]
[    2.000006]      fio-12      0d..2. 1510us!: sched_switch: prev_comm=fio prev_pid=12 prev_prio=120 prev_state=S ==> \
         next_comm=swapper/0 next_pid=0 next_prio=120
[    2.000007] ---------------------------------
"
    ), @r"
        cpus None
        0.001500000 [000] 0 h waking fio:12(120) cpu 0
        0.001503000 [000] 0 . switch swapper/0:0(120) R -> fio:12(120)
        0.001510000 [000] - . lost 3
        0.001510000 [000] 12 . switch fio:12(120) S -> swapper/0:0(120)
        loss: 3 events were lost while recording (CPU 0)
        ");
}

#[test]
fn malformed_switches_are_malformed_and_not_unrecorded() {
    let text = "   x-1  [000]  1.000000: sched_switch: garbage\n   x-1  [000]  1.000001: sched_switch: more\n";
    let mut source = FtraceText::new(Box::new(text.as_bytes()));
    while source.read(&mut Batch::default()).unwrap() {}
    let losses: Vec<String> = source.losses().iter().map(|loss| loss.to_string()).collect();
    assert_eq!(
        losses[0],
        "2 sched_switch events are malformed (the first is line 1: `x-1  [000]  1.000000: sched_switch: garbage`)"
    );
    assert!(!losses.iter().any(|loss| loss.starts_with("sched_switch events were not recorded")), "{losses:?}");
}

#[test]
fn a_torn_stream_keeps_what_came() {
    struct Truncated(&'static [u8]);
    impl Read for Truncated {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() { Err(std::io::Error::other("torn")) } else { self.0.read(buffer) }
        }
    }
    let line = b"   x-1  [000]  1.000000: softirq_entry: vec=1 [action=TIMER]\n   x-1 ";
    let mut source = FtraceText::new(Box::new(Truncated(line)));
    let mut batch = Batch::default();
    assert!(source.read(&mut batch).unwrap() && batch.events.len() == 1);
    assert!(!source.read(&mut batch).unwrap());
    assert_eq!(source.losses()[0].to_string(), "the file ends early (after line 1: torn)");
}

#[test]
fn text_is_distinguished_from_other_files() {
    assert!(recognises(b"# tracer: nop\n#\n"));
    assert!(recognises(b"cpus=4\n"));
    assert!(recognises(
        b"             fio-126   [000]    10.166060: sched_switch:         sh:126 [120] D ==> x:1 [120]\n"
    ));
    assert!(!recognises(b"fio 28143 [011] 2038.648954: sched:sched_waking: comm=x pid=1 prio=120 target_cpu=011\n"));
    assert!(!recognises(b"\xff\xd8\xff\xe0\0\x10JFIF"));
    assert!(!recognises(b""));
}

#[test]
fn no_truncation_and_no_flipped_bit_does_harm() {
    let text = TRACEFS_TEXT.as_bytes();
    let survives = |text: &[u8]| {
        let mut source = FtraceText::new(Box::new(Cursor::new(text.to_vec())));
        let mut batch = Batch::default();
        for _ in 0..100 {
            if !source.read(&mut batch).unwrap_or(false) {
                return;
            }
            assert!(batch.events.is_sorted_by_key(|event| event.time));
        }
        panic!("no end");
    };
    for length in 0..text.len() {
        survives(&text[..length]);
    }
    let mut state = 1u64;
    for _ in 0..1000 {
        // A linear congruential generator: the same bit flips in each run.
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bit = (state >> 33) as usize % (text.len() * 8);
        let mut flipped = text.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        survives(&flipped);
    }
}

#[test]
fn marks_of_the_wall_s_clock_are_kept() {
    let text = "\
# tracer: nop
  atrace-1 [001] ...1  3214.500000: tracing_mark_write: trace_event_clock_sync: parent_ts=3214.5
  atrace-1 [001] ...1  3214.600000: tracing_mark_write: trace_event_clock_sync: realtime_ts=1491850748338
  fio-128  [000] d..2  3215.000001: sched_switch: prev_comm=fio prev_pid=128 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  x-1      [001] ...1  3216.000000: tracing_mark_write: trace_event_clock_sync: realtime_ts=soon
";
    let mut source = FtraceText::new(Box::new(Cursor::new(text.as_bytes())));
    let mut batch = Batch::default();
    while source.read(&mut batch).unwrap() {}
    let pair = ClockPair { trace: Time(3_214_600_000_000), wall: WallTime(1_491_850_748_338_000_000) };
    assert_eq!(source.info().clocks, [pair]);
}

#[test]
fn differences_beside_the_times_are_passed_over() {
    // `trace-cmd report --ts-diff`, and with -l.
    let text = "\
cpus=2
          <idle>-0     [000]     5.554154:          sched_switch:         swapper/0:0 [120] R ==> trace-cmd:118 [120]
       trace-cmd-118   [000]     5.554764: (+610)   sched_migrate_task:   comm=trace-cmd pid=119 prio=120 orig_cpu=1 dest_cpu=0
      wl-120     1d..2.     5.556135: (+3)     sched_wakeup_new:     wl:121 [120] CPU:001
";
    let mut source = FtraceText::new(Box::new(Cursor::new(text.as_bytes())));
    let (mut batch, mut seen) = (Batch::default(), Vec::new());
    while source.read(&mut batch).unwrap() {
        seen.extend(batch.events.iter().map(|event| (event.time.0 / 1000, event.kind.event_type().unwrap().name())));
    }
    let expected = [(5_554_154, "sched_switch"), (5_554_764, "sched_migrate_task"), (5_556_135, "sched_wakeup_new")];
    assert_eq!(seen, expected);
}

#[test]
fn long_texts_of_cpus_one_after_the_other_come_in_the_order_of_time() {
    const EACH: u64 = 3 * REORDER_WINDOW as u64;
    // All CPUs of the host, and only some.
    for (cpus, all) in [(3, 3), (3, 4), (1, 4)] {
        let mut text = String::new();
        for cpu in 0..cpus {
            text.push_str(&format!("# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/9   #P:{all}\n#\n"));
            for step in 0..EACH {
                let (seconds, micros) = (10 + step / 10_000, step % 10_000 * 100 + cpu);
                let head = format!("  a-{cpu} [00{cpu}] d..1 {seconds}.{micros:06}");
                text.push_str(&format!("{head}: softirq_raise: vec=1 [action=TIMER]\n"));
            }
        }
        let mut source = FtraceText::new(Box::new(Cursor::new(text.into_bytes())));
        let (mut batch, mut seen) = (Batch::default(), Vec::new());
        while source.read(&mut batch).unwrap() {
            seen.extend(batch.events.iter().map(|event| (event.time, event.cpu)));
        }
        assert_eq!(seen.len() as u64, cpus * EACH);
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "{cpus} of {all}: each has a time of its own");
        assert!(source.losses().iter().all(|loss| loss.kind != LossKind::OutOfOrder));
    }
}

/// How many events, over all CPUs, are read before the first one is given out.
fn waits_for(head: &str, cpus: u64) -> u64 {
    let head = head.to_owned();
    let lines = (0..4 * REORDER_WINDOW as u64).map(|step| {
        format!(
            "  a-1 [00{}] d..1 {}.{:06}: softirq_raise: vec=1 [action=TIMER]\n",
            step % cpus,
            1 + step / 10_000,
            step % 10_000
        )
    });
    let read = Arc::new(AtomicUsize::new(0));
    struct Counting(Cursor<Vec<u8>>, Arc<AtomicUsize>);
    impl Read for Counting {
        fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
            let length = self.0.read(space)?;
            self.1.fetch_add(length, Ordering::Relaxed);
            Ok(length)
        }
    }
    let text: String = std::iter::once(head).chain(lines).collect();
    let each = text.len() as u64 / (4 * REORDER_WINDOW as u64);
    let mut source = FtraceText::new(Box::new(Counting(Cursor::new(text.into_bytes()), read.clone())));
    assert!(source.read(&mut Batch::default()).unwrap());
    read.load(Ordering::Relaxed) as u64 / each
}

#[test]
fn only_where_cpus_may_follow_does_everything_wait() {
    let (tracefs, report) = ("# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/9   #P:2\n#\n", "cpus=2\n");
    assert!(waits_for(tracefs, 2) < 2 * REORDER_WINDOW as u64, "both CPUs are there");
    assert!(waits_for(tracefs, 1) > 3 * REORDER_WINDOW as u64, "the other may follow");
    assert!(waits_for(report, 1) < 2 * REORDER_WINDOW as u64, "trace-cmd report has all CPUs in one order");
}

#[test]
fn text_in_a_mail_is_read_as_it_was_written() {
    let written = "\
   net-31-310   [005] d....   200.100000: sched_waking: comm=kworker/5:1 pid=77 prio=120 target_cpu=005
   net-31-310   [005] d....   200.240000: sched_switch: prev_comm=net-31 prev_pid=310 prev_prio=120 prev_state=R+ ==> next_comm=kworker/5:1 next_pid=77 next_prio=120
   kworker/5:1-77 [005] d....   200.240010: softirq_entry: vec=7 [action=SCHED]
";
    let plain = read(written);
    // Quoted twice, with prose before, between and after.
    let quoted: String = written.lines().map(|line| format!("> > {line}\n--> see above [1]\n")).collect();
    assert_eq!(read(&format!("Hi, this is what I see:\n\n{quoted}\nRegards\n")), plain);
    // Wrapped at 72 columns, at 50 and at 40, where only the part before the event fits.
    for width in [72, 50, 40] {
        let wrap = |line: &str| {
            let mut lines = vec![String::new()];
            for word in line.split_whitespace() {
                if lines.last().is_some_and(|last| last.len() + word.len() > width) {
                    lines.push(String::new());
                }
                let last = lines.last_mut().unwrap();
                last.push_str(if last.is_empty() { "> " } else { " " });
                last.push_str(word);
            }
            lines.join("\n") + "\n"
        };
        assert_eq!(read(&written.lines().map(wrap).collect::<String>()), plain, "{width} columns");
    }
    // Copied from an HTML page.
    assert_eq!(read(&written.replace('>', "&gt;").replace("net-31", "&lt;net&gt;")), plain.replace("net-31", "<net>"));
}

#[test]
fn lines_that_are_no_event_are_reported_one_by_one() {
    insta::assert_snapshot!(read(
        "\
    fio-1 [000] ..... 1.000000: sched_waking: comm=a pid=1
    a line of prose
    b-2 [001] .....
    fio-1 [000] ..... 2.000000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
    fio-1 [000] ..... 3.000000: sched_waking: comm=a pid=1 prio="
    ), @r"
    cpus None
    2.000000000 [000] 1 . waking a:1(120) cpu 0
    loss: the file ends early (line 5 stops in its middle)
    loss: 1 sched_waking events are malformed (the first is line 1: `fio-1 [000] ..... 1.000000: sched_waking: comm=a pid=1`)
    loss: 2 parts of the file could not be decoded (the first is line 2: `a line of prose`)
    ");
}

/// The coverage that a text proves for the first four CPUs.
fn coverage(text: &str) -> Vec<String> {
    let mut source = FtraceText::new(Box::new(Cursor::new(text.to_owned().into_bytes())));
    while source.read(&mut Batch::default()).unwrap() {}
    let coverage = &source.info().coverage;
    let shown = |cpu| {
        let known = coverage.of(CpuId(cpu));
        let proof = known.proof.map(|proof| format!("{:?} by {:?}", proof.until, proof.by));
        let presence = known.presence.map(|seen| format!("{} at {}", seen.current.unwrap(), seen.time.0));
        [proof, presence].into_iter().flatten().collect::<Vec<_>>().join("; ")
    };
    (0..4).map(shown).collect()
}

#[test]
fn a_text_proves_how_far_its_cpus_were_recorded() {
    let lines = "\
    a-1 [000] ..... 1.000000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
    hog-9 [003] d.h.. 1.500000: hrtimer_expire_entry: hrtimer=1 function=tick_sched_timer now=1
    a-1 [000] ..... 2.000000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
    hog-9 [003] d.h.. 2.500000: local_timer_entry: vector=236
";
    let head = |numbers: &str| format!("# tracer: nop\n# entries-in-buffer/entries-written: {numbers}   #P:4\n{lines}");
    let seen = "9 at 2500000000";
    assert_eq!(coverage(lines), ["", "", "", seen]);
    let proved = "End by EntryCount";
    assert_eq!(coverage(&head("4/4")), [proved, "", "", &format!("{proved}; {seen}")]);
    assert_eq!(coverage(&head("5/5")), ["", "", "", seen]);
    // CPU 0 twice: the second section is another recording, of which nothing is proved.
    assert_eq!(coverage(&format!("{}{}", head("4/4"), head("4/4"))), ["", "", "", seen]);
}
