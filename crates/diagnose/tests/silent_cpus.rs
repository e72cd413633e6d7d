//! A task holds a CPU, which then issues no event: how long others waited for it depends on what the recording proves, and not on
//! what it is written as.

use std::io::Cursor;

use unstarve_diagnose::report::{Open, Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{Batch, Coverage, CpuId, EventSource, Loss, ProvedBy, SourceError, Time, TraceInfo, Until};
use unstarve_readers::{Input, open_input};

fn explained(text: &str) -> Report {
    let input = Input::from_stream(Box::new(Cursor::new(text.to_owned().into_bytes())), "x".into()).unwrap();
    explain(open_input(input).unwrap(), &Options::default(), |_| {}).unwrap()
}

/// The task has CPU 3 from 100.00001 s on, and a worker, whose priority is 120, is woken there at 100.0005 s. The CPU's last event is at
/// 100.004 s. On CPU 0 a program works for 0.3 ms each second until 119.5003 s.
fn scene(holder: &str) -> Vec<String> {
    let mut lines = vec![
        format!(
            "          <idle>-0       [003] d..2.   100.000010: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 \
             prev_state=R ==> next_comm=poller next_pid=900 next_prio={holder}"
        ),
        "          poller-900     [003] d.h3.   100.000500: sched_waking: comm=kworker/3:1 pid=52 prio=120 target_cpu=003".into(),
        "          poller-900     [003] dNh4.   100.000502: sched_wakeup: comm=kworker/3:1 pid=52 prio=120 target_cpu=003".into(),
        // Its last event that is read.
        "          poller-900     [003] d.h3.   100.004000: softirq_raise: vec=1 [action=TIMER]".into(),
    ];
    for second in 100..120 {
        let at = |micros: u32| format!("   {second}.{:06}: ", 500_000 + micros);
        let idle = "          <idle>-0       [000] d.h3.";
        let task = |name: &str, pid: u32, side: &str| format!("{side}_comm={name} {side}_pid={pid} {side}_prio=120");
        let (swapper, sshd) = (("swapper/0", 0), ("sshd", 60));
        let switch = |prev: (&str, u32), state: &str, next: (&str, u32)| {
            format!(
                "sched_switch: {} prev_state={state} ==> {}",
                task(prev.0, prev.1, "prev"),
                task(next.0, next.1, "next")
            )
        };
        let woken = "comm=sshd pid=60 prio=120 target_cpu=000";
        lines.push(format!("{idle}{}sched_waking: {woken}", at(0)));
        lines.push(format!("{idle}{}sched_wakeup: {woken}", at(2)));
        lines.push(format!("{idle}{}{}", at(10), switch(swapper, "R", sshd)));
        lines.push(format!("            sshd-60      [000] d..2.{}{}", at(300), switch(sshd, "S", swapper)));
    }
    lines
}

fn text(lines: &[String], entries: Option<usize>) -> String {
    let head = entries.map(|count| format!("# entries-in-buffer/entries-written: {count}/{count}   #P:4\n"));
    format!("# tracer: nop\n#\n{}{}\n", head.unwrap_or_default(), lines.join("\n"))
}

/// The worker's wait, if it is reported: its length, and what is known of its end.
fn wait(report: &Report) -> Option<(u64, Open)> {
    let wait = report.worst_waits.iter().find(|wait| wait.tid == 52)?;
    assert_eq!(wait.blame.iter().map(|row| row.ns).sum::<u64>(), wait.end_ns - wait.start_ns);
    Some((wait.end_ns - wait.start_ns, wait.open.clone()?))
}

const ALL: u64 = 19_499_800_000;
const SEEN: u64 = 3_500_000;
/// A real-time task, and one like the worker.
const FIFO: &str = "49";
const FAIR: &str = "120";

#[test]
fn a_text_with_all_entries_counts_the_wait_in_full() {
    for holder in [FIFO, FAIR] {
        let lines = scene(holder);
        let report = explained(&text(&lines, Some(lines.len())));
        let (length, open) = wait(&report).expect("it waits");
        assert_eq!((length, open.proved_ns, open.possible_ns), (ALL, ALL, ALL), "{holder}");
        assert_eq!((open.end.as_str(), open.holder.as_str()), ("proved", "poller"));
        assert!(report.losses.iter().all(|loss| !loss.contains("end early")), "{:?}", report.losses);
    }
}

#[test]
fn without_proof_there_is_a_range() {
    // What throttling or the fair server would have ended is counted as far as it was seen…
    let lines = scene(FIFO);
    for entries in [None, Some(lines.len() + 1)] {
        let report = explained(&text(&lines, entries));
        let (length, open) = wait(&report).expect("it waits");
        assert_eq!((length, open.proved_ns, open.possible_ns, open.end.as_str()), (SEEN, SEEN, ALL, "doubted"));
        let doubt = report.trace.too_little.expect("no verdict");
        let range = "kworker/3:1[52] waited at least 3.50 ms, and 19.5 s if CPU 3 stayed with poller";
        assert!(doubt.ends_with(range), "{doubt}");
    }
    // …and what nothing contradicts is counted in full.
    let report = explained(&text(&scene(FAIR), None));
    let (length, open) = wait(&report).expect("it waits");
    assert_eq!((length, open.proved_ns, open.end.as_str()), (ALL, SEEN, "believed"));
}

/// CPU 3 is not heard before 103 s, and leaves idle then for a worker that was put on its queue at 100.0005 s by CPU 0.
#[test]
fn a_cpu_that_leaves_idle_late_was_idle_if_its_first_events_are_there() {
    let mut lines: Vec<String> = scene(FIFO).into_iter().filter(|line| !line.contains("[003]")).collect();
    let worker = "comm=kworker/3:1 pid=52 prio=120 target_cpu=003";
    lines.insert(0, format!("          <idle>-0       [000] dNh4.   100.000502: sched_wakeup: {worker}"));
    lines.insert(0, format!("          <idle>-0       [000] d.h3.   100.000500: sched_waking: {worker}"));
    let at = lines.iter().position(|line| line.contains(" 103.5")).expect("it goes on");
    let idle = "comm=swapper/3 prev_pid=0 prev_prio=120";
    let next = "next_comm=kworker/3:1 next_pid=52 next_prio=120";
    lines.insert(
        at,
        format!("          <idle>-0       [003] d..2.   103.400500: sched_switch: prev_{idle} prev_state=R ==> {next}"),
    );
    let report = explained(&text(&lines, Some(lines.len())));
    let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((finding.id.as_str(), finding.severity), ("idle-while-runnable", Severity::Critical));
    assert!(finding.sentence.contains("was kept off its idle CPU: up to 3.40 s at a time"), "{}", finding.sentence);
    assert_eq!(report.trace.too_little, None);
    // Where events were overwritten, or nobody says so, the CPU may have done anything.
    for entries in [None, Some(lines.len() + 1000)] {
        let (all, kept) = (lines.len() + 1000, lines.len());
        let report = explained(&text(&lines, entries).replace(&format!("{all}/{all}"), &format!("{kept}/{all}")));
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        assert!(report.trace.too_little.is_some(), "too little was recorded");
    }
}

/// CPU 3 is idle and silent from 100.5 s on. Only `sched_waking` was recorded, which does not say on which queue the task is put.
#[test]
fn a_task_that_may_use_no_other_cpu_waits_beside_its_own() {
    let with = |worker: &str, all: bool| {
        let mut lines: Vec<String> =
            scene(FIFO).into_iter().filter(|line| !line.contains("[003]") && !line.contains("sched_wakeup")).collect();
        let idle =
            "prev_comm=cat prev_pid=901 prev_prio=120 prev_state=S ==> next_comm=swapper/3 next_pid=0 next_prio=120";
        lines.insert(0, format!("             cat-901     [003] d..2.   100.000010: sched_switch: {idle}"));
        let woken = format!("sched_waking: comm={worker} pid=52 prio=120 target_cpu=003");
        lines.insert(1, format!("          <idle>-0       [003] d.h3.   100.000500: {woken}"));
        let report = explained(&text(&lines, all.then_some(lines.len())));
        let found =
            report.findings.first().map(|finding| (finding.id.to_string(), finding.severity, finding.waits.max_ns));
        (found, report.trace.too_little.is_some())
    };
    let whole = ("idle-while-runnable".to_owned(), Severity::Critical, ALL);
    assert_eq!(with("kworker/3:1", true), (Some(whole), false));
    assert_eq!(with("kworker/u8:1", true), (None, true), "it may be on another CPU's queue");
    assert_eq!(with("kworker/3:1", false), (None, true), "nobody says that it is all there");
}

#[test]
fn events_that_are_not_read_prove_it_too() {
    let mut lines = scene(FIFO);
    lines.push("          poller-900     [003] d.h2.   119.499999: hrtimer_expire_entry: hrtimer=1 now=1".into());
    let report = explained(&text(&lines, None));
    assert_eq!(wait(&report).map(|(length, open)| (length, open.end)), Some((ALL, "proved".to_owned())));
    // Of another task: the holder has left, and nobody knows when.
    let other = lines.pop().unwrap().replace("poller-900", "kworker/3:1-52");
    lines.push(other);
    let report = explained(&text(&lines, None));
    assert_eq!(wait(&report).map(|(length, open)| (length, open.end)), Some((SEEN, "refuted".to_owned())));
}

#[test]
fn a_mail_and_a_page_say_the_same() {
    let lines = scene(FAIR);
    let plain = explained(&text(&lines, Some(lines.len()))).worst_waits;
    let page = text(&lines, Some(lines.len())).replace('<', "&lt;").replace('>', "&gt;");
    assert_eq!(explained(&page).worst_waits, plain);
    let mail: String = text(&lines, Some(lines.len())).lines().map(|line| format!("> {line}\n")).collect();
    assert_eq!(explained(&format!("Hi,\n\n{mail}\nRegards\n")).worst_waits, plain);
}

/// A source of which this is proved.
struct Proved(Box<dyn EventSource>, TraceInfo, Coverage);

impl EventSource for Proved {
    fn info(&self) -> &TraceInfo {
        &self.1
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.read(batch);
        self.1 = TraceInfo { coverage: self.2.clone(), ..self.0.info().clone() };
        more
    }

    fn losses(&self) -> Vec<Loss> {
        self.0.losses()
    }
}

#[test]
fn whatever_proves_it_the_wait_is_as_long() {
    let with = |coverage: Coverage| {
        let text = text(&scene(FIFO), None);
        let input = Input::from_stream(Box::new(Cursor::new(text.into_bytes())), "x".into()).unwrap();
        let source = open_input(input).unwrap();
        let info = source.info().clone();
        let report = explain(Box::new(Proved(source, info, coverage)), &Options::default(), |_| {}).unwrap();
        let (length, open) = wait(&report).expect("it waits");
        let finding = report.findings.iter().find(|finding| finding.victim.comm == "kworker/3:1").expect("a finding");
        (length, finding.waits.max_ns, open.possible_ns, open.proved_ns, open.end)
    };
    let whole = |by| {
        let mut coverage = Coverage::default();
        coverage.prove(CpuId(3), Until::End, by);
        with(coverage)
    };
    // trace.dat, and text with a head.
    for by in [ProvedBy::BufferCounters, ProvedBy::EntryCount] {
        assert_eq!(whole(by), (ALL, ALL, ALL, ALL, "proved".to_owned()));
    }
    // perf.data and Perfetto prove it up to their last rounds; in the rest nothing contradicts.
    let mut rounds = Coverage::default();
    rounds.prove_all(Until::At(Time(118_500_500_000)), ProvedBy::EmptiedBuffer);
    assert_eq!(with(rounds), (ALL, ALL, ALL, 18_500_000_000, "believed".to_owned()));
}

#[test]
fn a_full_buffer_accuses_nobody() {
    let lines = scene(FIFO);
    let mut dropped = Coverage::default();
    dropped.prove_all(Until::End, ProvedBy::BufferCounters);
    dropped.note_dropped(CpuId(3));
    let input = Input::from_stream(Box::new(Cursor::new(text(&lines, None).into_bytes())), "x".into()).unwrap();
    let source = open_input(input).unwrap();
    let info = source.info().clone();
    let report = explain(Box::new(Proved(source, info, dropped)), &Options::default(), |_| {}).unwrap();
    assert!(report.findings.iter().all(|finding| finding.severity <= Severity::Info), "{:?}", report.findings);
    assert!(report.trace.too_little.is_some_and(|why| why.contains("end early")));
}
