//! Tests of the `perf script` reader.

use unstarve_model::Names;

use super::*;
use crate::picture;

/// Everything a text yields: events, then losses.
fn read(text: &str) -> String {
    let mut source = PerfScript::new(Box::new(std::io::Cursor::new(text.to_owned().into_bytes())));
    let (mut batch, mut names, mut events) = (Batch::default(), Names::default(), Vec::new());
    while source.read(&mut batch).unwrap() {
        names.extend(batch.names.drain(..));
        events.append(&mut batch.events);
    }
    let losses = source.losses();
    let reported = losses.iter().filter(|loss| !matches!(loss.kind, LossKind::NotRecorded(_)));
    let mut lines = vec![picture::events(&events, &names)];
    lines.extend(reported.map(|loss| format!("loss: {loss}")));
    lines.join("\n")
}

const FSDEVEL_MAIL: &str = include_str!("../../../../testdata/traces/fsdevel-perf-script.txt");

#[test]
fn the_mail_on_linux_fsdevel() {
    insta::assert_snapshot!(read(FSDEVEL_MAIL), @r"
        2038.648954000 [011] 28143 h waking kworker/11:68:27489(120) cpu 11
        2038.648974000 [011] 28143 . switch fio:28143(120) R -> kworker/11:68:27489(120)
        2038.648984000 [011] 27489 . switch kworker/11:68:27489(120) I -> fio:28143(120)
        2702.018634000 [011] 28517 . switch fio:28517(120) S -> kworker/11:68:27489(120)
        2702.018639000 [011] 27489 . work-on-stack 27489 aio_complete_rw
        2702.018639000 [011] 27489 . waking fio:28517(120) cpu 11
        2702.018642000 [011] 27489 . switch kworker/11:68:27489(120) R+ -> fio:28517(120)
        ");
}

/// Quotes and wraps text as a mail program does, at 72 columns.
fn mailed(text: &str) -> String {
    let mut out = String::from("On Tuesday somebody wrote:\n> It [the worker] is preempted, see below.\n>\n");
    for line in text.lines() {
        let mut column = 0;
        out.push_str("> ");
        for word in line.split_inclusive(' ') {
            if column + word.len() > 72 && column > 0 {
                out.push_str("\n> ");
                column = 0;
            }
            out.push_str(word);
            column += word.len();
        }
        out.push('\n');
    }
    out.push_str("\nRegards\n");
    out
}

#[test]
fn a_quoted_and_wrapped_mail_gives_the_same_events() {
    assert_eq!(read(&mailed(FSDEVEL_MAIL)), read(FSDEVEL_MAIL));
    assert_eq!(read(&mailed(&mailed(FSDEVEL_MAIL))), read(FSDEVEL_MAIL));
}

#[test]
fn perf_s_own_columns_without_stacks() {
    insta::assert_snapshot!(read(
        "\
            perf  7898 [000]   857.593700: sched:sched_stat_runtime: comm=perf pid=7898 runtime=83234 [ns]
            perf  7898 [000]   857.593709:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000
         swapper     0 [001]   857.593929:          1 sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=perf-exec next_pid=7900 next_prio=130
     my prog (x)  7900/7901 [001]   857.594000123: sched_switch: prev_comm=my prog (x) prev_pid=7901 prev_prio=120 prev_state=R+ ==> next_comm=swapper/1 next_pid=0 next_prio=120
         swapper     0 [001]   857.595000: PERF_RECORD_LOST lost 208
"
    ), @r"
        857.593709000 [000] 7898 ? waking migration/0:18(0) cpu 0
        857.593929000 [001] 0 ? switch swapper/0:0(120) R -> perf-exec:7900(130)
        857.594000123 [001] 7901 ? switch my prog (x):7901(120) R+ -> swapper/1:0(120)
        857.595000000 [001] 0 ? lost 208
        loss: 208 events were lost while recording (CPU 1)
        ");
}

#[test]
fn perf_s_own_records_are_no_damage_and_their_switches_are_read() {
    insta::assert_snapshot!(read(
        "\
         swapper     0 [000]     0.000000: PERF_RECORD_FORK(2:2):(0:0)
        kthreadd     2 [000]     0.000000: PERF_RECORD_COMM: kthreadd:2/2
         swapper     0 [000]     0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x120bb08) @ 0xffffffff81000000]: x [kernel.kallsyms]_text
       opt cgu.0 24187 [001] 24070.919888: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    15/15
     rcu_preempt    15 [001] 24070.919890: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid: 24173/24187
     rcu_preempt    15 [001] 24070.919896: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid: 24173/24187
          :24187 24187 [001] 24070.919898: PERF_RECORD_EXIT(24173:24187):(1:1)
             :-1    -1 [001] 24070.919899: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid:     0/0
"
    ), @r#"
        24070.919888000 [001] 24187 ? switch opt cgu.0:24187(?) R -> <...>:15(?)
        24070.919896000 [001] 15 ? switch rcu_preempt:15(?) S -> opt cgu.0:24187(?)
        24070.919899000 [001] 24187 ? switch opt cgu.0:24187(?) X -> <...>:0(?)
        loss: 3 switches were recorded without priorities (PERF_RECORD_SWITCH: who is real-time is known only of tasks that a wakeup names; record with `perf sched record`, or add -e sched:sched_switch)
        "#);
    // `sched_switch` says more than the record after it.
    insta::assert_snapshot!(read(
        "\
     a     1 [001] 1.000000: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
     a     1 [001] 1.000001: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid:    2/2
"
    ), @r#"
        1.000000000 [001] 1 ? switch a:1(120) S -> b:2(120)
        "#);
}

#[test]
fn frames_left_out_and_broken_lines() {
    insta::assert_snapshot!(read(
        "\
kworker/0:1 9 [000] 1.000001: sched:sched_waking: comm=fio pid=8 prio=120 target_cpu=000
        ffffffff9f0d7ba3 try_to_wake_up+0x2b3 ([kernel.kallsyms])
        [...]
        ffffffff9f0b9c35 process_one_work+0x1e5 ([kernel.kallsyms])

kworker/0:1 9 [000] 1.000002: sched:sched_waking: comm=fio pid=eight prio=120 target_cpu=000

and then nothing happens until
kworker/0:1 9 [000] 1.000003: sched:sched_wakeup: comm=fio pid=8 prio=120 target_cpu=000
kworker/0:1 9 [000] 1.000004: sched:sched_switch: prev_comm=kworker/0:1 prev_pid=9 prev_pr"
    ), @r"
        1.000001000 [000] 9 ? waking fio:8(120) cpu 0
        1.000003000 [000] 9 ? wakeup fio:8(120) cpu 0
        loss: the file ends early (line 10 stops in its middle)
        loss: 1 sched_waking events are malformed (the first is line 6: `kworker/0:1 9 [000] 1.000002: sched:sched_waking: comm=fio pid=eight prio=120 target_cpu=000`)
        ");
}

#[test]
fn text_that_holds_no_event_is_an_error_with_an_example() {
    let mut source = PerfScript::new(Box::new(&b"hello\nworld\n"[..]));
    insta::assert_snapshot!(source.read(&mut Batch::default()).unwrap_err().to_string(), @"no event in 2 lines: expected lines such as `fio 28143 [011] 2038.648954: sched:sched_waking: …`; the messages of a log without events are read by `unstarve explain`");
}

#[test]
fn text_is_distinguished_from_other_files() {
    assert!(recognises(FSDEVEL_MAIL.as_bytes()));
    assert!(recognises(mailed(FSDEVEL_MAIL).as_bytes()));
    assert!(!recognises(b"             fio-126   [000]    10.166060: sched_switch: sh:126 [120] D ==> x:1 [120]\n"));
    assert!(!recognises(b"see 1 [2].\n"));
    assert!(!recognises(b"\xff\xd8\xff\xe0\0\x10JFIF"));
}

#[test]
fn no_truncation_and_no_flipped_bit_does_harm() {
    let text = FSDEVEL_MAIL.as_bytes();
    let survives = |text: &[u8]| {
        let mut source = PerfScript::new(Box::new(std::io::Cursor::new(text.to_vec())));
        let mut batch = Batch::default();
        for _ in 0..100 {
            if !source.read(&mut batch).unwrap_or(false) {
                return;
            }
            assert!(batch.events.is_sorted_by_key(|event| event.time));
        }
        panic!("no end");
    };
    for length in (0..text.len()).step_by(7) {
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
fn differences_instead_of_times_are_refused() {
    let line =
        |delta: u64| format!("fio 1 [000] 0.{delta:06}: sched:sched_waking: comm=x pid=2 prio=120 target_cpu=000\n");
    let read = |text: String| {
        let mut script = PerfScript::new(Box::new(std::io::Cursor::new(text.into_bytes())));
        let mut batch = Batch::default();
        loop {
            match script.read(&mut batch) {
                Ok(true) => {}
                Ok(false) => return "read".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    };
    let deltas: String = (0..400).map(|at| line(at * 17 % 31)).collect();
    assert!(read(deltas).contains("without --deltatime"));
    // Two texts in one file, and events at equal times.
    let times: String = (0..200).chain(0..200).map(|at| line(at / 2)).collect();
    assert_eq!(read(times), "read");
}

/// Recorded in a PID namespace: the ids in front are those of the namespace, and 0 for all tasks outside it.
const PID_NAMESPACE_TEXT: &str = "\
   prog     5 [000]     1.000000: sched:sched_waking: comm=w pid=40 prio=120 target_cpu=000
   prog     5 [000]     1.000100: sched:sched_switch: prev_comm=prog prev_pid=905 prev_prio=120 prev_state=S ==> next_comm=w next_pid=40 next_prio=120
      w     0 [000]     1.000200: sched:sched_switch: prev_comm=w prev_pid=40 prev_prio=120 prev_state=S ==> next_comm=prog next_pid=905 next_prio=120
   prog     5 [000]     1.000300: sched:sched_switch: prev_comm=prog prev_pid=905 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
swapper     0 [000]     1.000400: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=prog next_pid=905 next_prio=120
";

#[test]
fn ids_of_a_pid_namespace_are_ignored() {
    let outside = PID_NAMESPACE_TEXT.replace("prog     5", "prog   905").replace("w     0", "w    40");
    let (inside, outside) = (read(PID_NAMESPACE_TEXT), read(&outside));
    assert!(outside.starts_with("1.000000000 [000] 905 ? waking w:40(120) cpu 0\n"), "{outside}");
    assert!(!outside.contains("loss"), "{outside}");
    // A switch contains both tasks' ids; the current task at the wakeup is unknown.
    assert!(inside.starts_with("1.000000000 [000] - ? waking w:40(120) cpu 0\n"), "{inside}");
    assert_eq!(inside.lines().skip(1).take(4).collect::<Vec<_>>(), outside.lines().skip(1).collect::<Vec<_>>());
    let loss = inside.lines().last().unwrap();
    assert!(loss.starts_with("loss: the ids in front of 5 events are not those of the events"), "{inside}");
}
