//! Ticks that are missing on a busy CPU: the CPU itself did not run, and what waited meanwhile was behind nobody. Each row of the table in
//! `crates/timeline/src/cpus/ticks.rs` is a case here.

use std::fmt::Write as _;
use std::io::Cursor;

use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{Batch, EventSource, Loss, SourceError, TraceInfo};
use unstarve_readers::{Input, open_input};

/// What shows ticks.
const TICK_EVENTS: [&str; 4] = [
    "hrtimer_expire_entry: hrtimer=00000000cafe0001 function=tick_nohz_handler now=1",
    "hrtimer_expire_entry: hrtimer=00000000cafe0001 function=tick_sched_timer now=1",
    "local_timer_entry: vector=236",
    "irq_handler_entry: irq=27 name=arch_timer",
];
/// A task of the same weight, one that weighs more, and a real-time one, as `prio` has them.
const EQUAL_PRIO: u32 = 120;
const HEAVY_PRIO: u32 = 100;
const FIFO_PRIO: u32 = 49;

/// What happens on CPU 3: a program has it, a worker is woken onto it at 190 ms, ticks come each 4 ms, and none between 200 ms and the
/// end of the gap; the worker gets the CPU 5 ms later.
#[derive(Clone, Copy)]
struct Scene {
    tick: Option<&'static str>,
    prio: u32,
    gap_ms: u64,
    /// When the worker is woken, by CPU 0.
    woken_ms: u64,
    /// When ticks begin.
    ticks_from_ms: u64,
    /// Further events of CPU 3: when, and what.
    also: Option<(u64, &'static str)>,
    /// Whether other CPUs are heard in the gap.
    others_go_on: bool,
    /// Who is current behind the gap, if not the program.
    behind: &'static str,
    /// Whether a real-time task is woken onto it just before the worker.
    real_time_waits: bool,
}

const PLAIN: Scene = Scene {
    tick: Some(TICK_EVENTS[0]),
    prio: EQUAL_PRIO,
    gap_ms: 3_000,
    woken_ms: 190,
    ticks_from_ms: 0,
    also: None,
    others_go_on: true,
    behind: "cruncher-900",
    real_time_waits: false,
};
const GAP_FROM_MS: u64 = 200;

impl Scene {
    fn text(&self) -> String {
        let end = GAP_FROM_MS + self.gap_ms;
        let mut lines: Vec<(u64, String)> = Vec::new();
        let mut at = |us: u64, who: &str, cpu: u32, event: String| {
            let time = format!("{}.{:06}", 100 + us / 1_000_000, us % 1_000_000);
            lines.push((us, format!("{who:>24} [{cpu:03}] d.h2. {time}: {event}\n")));
        };
        let task = |side: &str, comm: &str, pid: u32, prio: u32| {
            format!("{side}_comm={comm} {side}_pid={pid} {side}_prio={prio}")
        };
        let switch =
            |prev: String, state: &str, next: String| format!("sched_switch: {prev} prev_state={state} ==> {next}");
        let idle = |cpu: u32, side: &str| task(side, &format!("swapper/{cpu}"), 0, 120);
        at(0, "<idle>-0", 3, switch(idle(3, "prev"), "R", task("next", "cruncher", 900, self.prio)));
        if self.real_time_waits {
            let motor = "comm=motor-ctl pid=77 prio=59 target_cpu=003";
            at(self.woken_ms * 1000 - 2, "<idle>-0", 0, format!("sched_waking: {motor}"));
            at(self.woken_ms * 1000 - 1, "<idle>-0", 0, format!("sched_wakeup: {motor}"));
        }
        let worker = "comm=kworker/3:1 pid=52 prio=120 target_cpu=003";
        at(self.woken_ms * 1000 + 1, "<idle>-0", 0, format!("sched_waking: {worker}"));
        at(self.woken_ms * 1000 + 2, "<idle>-0", 0, format!("sched_wakeup: {worker}"));
        for ms in (0..end + 5).step_by(4) {
            let is_due = ms >= self.ticks_from_ms && !(GAP_FROM_MS + 1..end).contains(&ms);
            if let Some(tick) = self.tick.filter(|_| is_due) {
                let who = if ms >= end { self.behind } else { "cruncher-900" };
                at(ms * 1000 + 7, who, 3, tick.to_owned());
                if tick.starts_with("irq_handler_entry: irq=27") {
                    at(ms * 1000 + 10, who, 3, "irq_handler_exit: irq=27 ret=handled".to_owned());
                }
            }
        }
        if let Some((ms, event)) = self.also {
            at(ms * 1000 + 9, "cruncher-900", 3, event.to_owned());
        }
        for ms in (0..end + 200).step_by(20) {
            if self.others_go_on || !(GAP_FROM_MS..end).contains(&ms) {
                at(ms * 1000 + 400, "<idle>-0", 0, switch(idle(0, "prev"), "R", task("next", "sshd", 60, 120)));
                at(ms * 1000 + 700, "sshd-60", 0, switch(task("prev", "sshd", 60, 120), "S", idle(0, "next")));
            }
        }
        let over = (end + 5) * 1000 + 500;
        at(
            over,
            "cruncher-900",
            3,
            switch(task("prev", "cruncher", 900, self.prio), "S", task("next", "kworker/3:1", 52, 120)),
        );
        at(over + 300, "kworker/3:1-52", 3, switch(task("prev", "kworker/3:1", 52, 120), "S", idle(3, "next")));
        lines.sort_by_key(|(us, _)| *us);
        lines.iter().fold("# tracer: nop\n#\n".to_owned(), |mut text, (_, line)| {
            write!(text, "{line}").expect("text");
            text
        })
    }

    fn explained(&self) -> Report {
        let input = Input::from_stream(Box::new(Cursor::new(self.text().into_bytes())), "x".into()).unwrap();
        explain(open_input(input).unwrap(), &Options::default(), |_| {}).unwrap()
    }

    /// How long the worker waited for a CPU that did not run, in ms.
    fn stopped_ms(&self) -> u64 {
        let report = self.explained();
        let waits = report.worst_waits.iter().filter(|wait| wait.tid == 52);
        let rows = waits.flat_map(|wait| &wait.blame).filter(|row| row.comm == "stopped CPU");
        rows.map(|row| row.ns).sum::<u64>() / 1_000_000
    }
}

#[test]
fn a_cpu_whose_ticks_stay_away_did_not_run() {
    for tick in TICK_EVENTS {
        for prio in [EQUAL_PRIO, HEAVY_PRIO] {
            let report = Scene { tick: Some(tick), prio, ..PLAIN }.explained();
            let [finding] = &report.findings[..] else { panic!("{tick}, {prio}: {:#?}", report.findings) };
            assert_eq!(finding.id.as_str(), "cpu-stopped", "{tick}, {prio}");
            assert_eq!(finding.severity, Severity::Warning, "no wait of a second is healthy");
            assert!(
                finding.sentence.starts_with("kworker/3:1 waited for a CPU that did not run itself: up to 3.00 s"),
                "{}",
                finding.sentence
            );
            assert!(report.trace.too_little.is_none(), "{:?}", report.trace.too_little);
        }
    }
}

#[test]
fn a_real_time_task_may_have_no_tick_and_keeps_the_blame() {
    let report = Scene { prio: FIFO_PRIO, ..PLAIN }.explained();
    let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((finding.id.as_str(), finding.severity), ("rt-starvation", Severity::Critical), "{}", finding.sentence);
}

#[test]
fn a_short_stop_is_a_remark() {
    let report = Scene { gap_ms: 80, ..PLAIN }.explained();
    let stop = report.findings.iter().find(|finding| finding.id.as_str() == "cpu-stopped").expect("a remark");
    assert_eq!(stop.severity, Severity::Info);
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Info), "{:#?}", report.findings);
}

#[test]
fn silence_that_has_another_reason_is_no_stop() {
    let cases: [(&str, Scene, u64); 15] = [
        ("a stop", PLAIN, 3_000),
        ("no tick is recorded", Scene { tick: None, ..PLAIN }, 0),
        (
            "timers that are no tick",
            Scene { tick: Some("hrtimer_expire_entry: hrtimer=1 function=hrtimer_wakeup now=1"), ..PLAIN },
            0,
        ),
        ("too few ticks to be steady", Scene { ticks_from_ms: 180, ..PLAIN }, 0),
        (
            "a device's interrupts are no tick",
            Scene { tick: Some("irq_handler_entry: irq=33 name=virtio0"), ..PLAIN },
            0,
        ),
        ("the tick was stopped", Scene { also: Some((201, "tick_stop: success=1 dependency=NONE")), ..PLAIN }, 0),
        (
            "the tick was not stopped",
            Scene { also: Some((201, "tick_stop: success=0 dependency=SCHED")), ..PLAIN },
            2_998,
        ),
        // NO_HZ_FULL stops the tick of a single task; from when on another one waited, the CPU owed one.
        ("nobody waits beside a fair task", Scene { woken_ms: 3_190, ..PLAIN }, 0),
        ("somebody waits from the middle on", Scene { woken_ms: 1_200, ..PLAIN }, 2_000),
        (
            "an event that is not read halves the silence",
            Scene { also: Some((1_700, "sys_enter: NR 1")), ..PLAIN },
            1_499,
        ),
        (
            "an event that is read halves it, too",
            Scene { also: Some((1_700, "softirq_raise: vec=1 [action=TIMER]")), ..PLAIN },
            1_499,
        ),
        (
            "a real-time task waits, too, and no CPU is known to be of NO_HZ_FULL",
            Scene { real_time_waits: true, ..PLAIN },
            3_000,
        ),
        ("fewer than 16 periods", Scene { gap_ms: 60, ..PLAIN }, 0),
        ("all CPUs are silent", Scene { others_go_on: false, ..PLAIN }, 0),
        ("another task is current behind it", Scene { behind: "other-77", ..PLAIN }, 0),
    ];
    for (what, scene, expected) in cases {
        assert_eq!(scene.stopped_ms(), expected, "{what}");
    }
}

#[test]
fn a_silence_of_all_cpus_is_said() {
    let said = |scene: Scene| {
        let losses = scene.explained().losses;
        losses.into_iter().filter(|loss| loss.contains("no CPU issued an event")).collect::<Vec<_>>()
    };
    let [silence] = &said(Scene { others_go_on: false, ..PLAIN })[..] else { panic!("one silence") };
    assert_eq!(
        silence,
        "no CPU issued an event though a tick was due (up to 3.00 s: the whole machine stood still, or nothing was recorded)"
    );
    assert!(said(PLAIN).is_empty(), "another CPU was heard");
    assert!(said(Scene { tick: None, others_go_on: false, ..PLAIN }).is_empty(), "no tick was due");
}

#[test]
fn what_another_cpu_lost_makes_no_wait_healthy() {
    let text = PLAIN.text().replacen("# tracer: nop\n", "# tracer: nop\nCPU:0 [LOST 7 EVENTS]\n", 1);
    let input = Input::from_stream(Box::new(Cursor::new(text.into_bytes())), "x".into()).unwrap();
    let report = explain(open_input(input).unwrap(), &Options::default(), |_| {}).unwrap();
    let [finding] = &report.findings[..] else { panic!("{:#?}", report.findings) };
    assert_eq!((finding.id.as_str(), finding.severity), ("cpu-stopped", Severity::Warning));
    assert!(
        finding.confidence < PLAIN.explained().findings[0].confidence,
        "a tick may be missing: {}",
        finding.confidence
    );
}

/// A recording with another host snapshot.
struct WithSnapshot {
    recording: Box<dyn EventSource>,
    info: TraceInfo,
}

impl EventSource for WithSnapshot {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.recording.read(batch)
    }

    fn losses(&self) -> Vec<Loss> {
        self.recording.losses()
    }
}

#[test]
fn steal_that_grew_meanwhile_names_the_hypervisor() {
    let explained = |steal: u64| {
        let input = Input::from_stream(Box::new(Cursor::new(PLAIN.text().into_bytes())), "x".into()).unwrap();
        let json = serde_json::json!({
            "schema": "unstarve.snapshot/1", "kernel": {}, "tasks": [],
            "cpu_times_meanwhile": {"0": {"busy": 5, "idle": 300, "steal": 0}, "3": {"busy": 20, "idle": 0, "steal": steal}},
        });
        let recording = open_input(input).unwrap();
        let info = TraceInfo { snapshot: Some(json.to_string()), ..recording.info().clone() };
        explain(Box::new(WithSnapshot { recording, info }), &Options::default(), |_| {}).unwrap().findings.remove(0)
    };
    let finding = explained(290);
    let evidence = finding.evidence.join("\n");
    assert!(evidence.contains("the hypervisor did: it took 2.90 s of CPU 3"), "{evidence}");
    assert_eq!(finding.remedies.iter().map(|remedy| remedy.id.as_str()).collect::<Vec<_>>(), ["ask-hypervisor"]);
    // Little steal does not explain it.
    let other = explained(10);
    assert!(other.evidence.join("\n").contains("possible causes: a hypervisor"), "{:?}", other.evidence);
    assert_eq!(other.remedies.iter().map(|remedy| remedy.id.as_str()).collect::<Vec<_>>(), ["find-stopper"]);
}
