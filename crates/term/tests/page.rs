//! The page as people see it, at the widths of real terminals.

use std::path::Path;

use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;
use unstarve_diagnose::proofs::{Answer, Proved};
use unstarve_diagnose::report::{
    Culprit, Finding, Instance, Outlook, Predicted, PredictedMetric, PricePaid, Remedy, Report, SCHEMA, Scope,
    Severity, TraceSummary, Verdict, Victim, VictimKind, Waits, Work, WorstWait,
};
use unstarve_diagnose::{FindingKind, Options, RemedyKind, explain};
use unstarve_model::{Loss, LossKind, Policy};
use unstarve_sched::Rule;
use unstarve_term::{Charset, Colours, Look, first_screen, page, page_of};

fn piece(comm: &str, tids: &[u32], policy: Option<(Policy, i32)>, rule: Rule, ns: u64) -> Culprit {
    Culprit {
        comm: comm.to_owned(),
        tids: tids.to_vec(),
        tasks: tids.len() as u32,
        policy: policy.map(|(policy, _)| policy),
        prio: policy.map(|(_, prio)| prio),
        rule,
        ns,
        ..Culprit::default()
    }
}

fn trace() -> TraceSummary {
    TraceSummary {
        format: "trace.dat v7".to_owned(),
        events: 213_514,
        lost: 0,
        cpus: 2,
        start_ns: 811_000_000_000,
        end_ns: 812_204_000_000,
        kernel: Some("5.10.0-32-cloud-amd64".to_owned()),
        snapshot: false,
        waits_total_ns: 1_330_000_000,
        waits_count: 30_100,
        ..TraceSummary::default()
    }
}

fn healthy() -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        trace: trace(),
        selected: None,
        findings: vec![],
        more_findings: 0,
        worst_waits: vec![WorstWait {
            comm: "wl".to_owned(),
            tid: 131,
            cpu: 1,
            start_ns: 811_204_000_000,
            end_ns: 811_204_980_000,
            blame: vec![piece("ksoftirqd/1", &[19], Some((Policy::Fair, 120)), Rule::Fair, 980_000)],
            ..WorstWait::default()
        }],
        losses: vec![],
        missing: vec![Loss::new(LossKind::NoSnapshot, 1).into()],
        verdict: Verdict::default(),
        evidence: None,
    }
}

fn rt_starvation() -> Finding {
    let wl = piece("wl", &[231], Some((Policy::Rt, 89)), Rule::Class, 312_000_000);
    Finding {
        id: "rt-starvation".into(),
        severity: Severity::Critical,
        confidence: 0.95,
        sentence: "The real-time task wl holds CPU 1 for up to 94.8 ms at a time; ksoftirqd/1, which is not real-time, cannot run there meanwhile, and received packets wait.".to_owned(),
        headline: String::new(),
        why: None,
        doubt: None,
        selected_as: None,
        victim: Victim {
            kind: VictimKind::Ksoftirqd,
            comm: "ksoftirqd/1".to_owned(),
            tids: vec![19],
            tasks: 1,
            policy: Some(Policy::Fair),
            prio: Some(120),
            work: None,
            ..Victim::default()
        },
        culprits: vec![wl.clone()],
        blame: vec![
            wl,
            piece("softirq NET_RX", &[], None, Rule::Softirq, 17_000_000),
            piece("irq 33 virtio0-input.0", &[], None, Rule::Irq, 900_000),
            piece("idle", &[], Some((Policy::Idle, 120)), Rule::Idle, 100_000),
        ],
        waits: Waits { count: 4, total_ns: 330_000_000, max_ns: 94_800_000, p99_ns: 94_800_000, owed_ns: 161_000_000 },
        cpus: vec![1],
        period_ns: Some(1_000_000_000),
        price: vec![PricePaid {
            comm: "ping".to_owned(),
            tids: vec![128],
            tasks: 1,
            ns: 290_000_000,
            ..PricePaid::default()
        }],
        evidence: vec!["4 of 4 waits of more than 10 ms were under wl".to_owned()],
        worst: vec![Instance { cpu: 1, start_ns: 812_000_000_000, end_ns: 812_094_800_000, ..Instance::default() }],
        lists_all: false,
        losses: vec![],
        missing: vec![],
        remedies: vec![Remedy {
            changes: Vec::new(),
            id: "victim-above-intruder".into(),
            text: "Give ksoftirqd/1 a real-time priority above that of wl, so that it goes first.".to_owned(),
            apply: "chrt --fifo -p 11 19".to_owned(),
            undo: "chrt --other -p 0 19".to_owned(),
            risk: "A flood of packets can then keep every lower task off CPU 1.".to_owned(),
            valid_on: "all kernels; lost when the CPU goes offline".to_owned(),
            proved: vec![Proved {
                kernel: "5.10".to_owned(),
                this_series: true,
                victim: Some(VictimKind::Kworker),
                scenario: "spike".to_owned(),
                answer: Answer::Helped,
                metric: "ping.max".to_owned(),
                effect: Some(-0.961),
                low: Some(-0.975),
                high: Some(-0.932),
                seeds: 3,
                note: String::new(),
            }],
            predicted: Some(Predicted {
                verdict: Outlook::HelpsAndStarves,
                metrics: vec![PredictedMetric {
                    metric: "longest".to_owned(),
                    name: "longest wait".to_owned(),
                    unit: "ns".to_owned(),
                    recorded: 94_800_000.0,
                    predicted: 0.0,
                    low: 0.0,
                    high: 1_000_000.0,
                    came: None,
                }],
                others: vec![],
                newly_starved: vec!["a\u{1b}[31m (rt-starvation, by ksoftirqd/1)".to_owned()],
                refused: vec![],
            }),
        }],
        actors: vec![],
    }
}

fn ping_pong() -> Finding {
    let fio = piece("fio", &[128], Some((Policy::Fair, 120)), Rule::WakeupPreemption, 312_000_000);
    Finding {
        id: "completion-ping-pong".into(),
        severity: Severity::Warning,
        confidence: 0.9,
        sentence:
            "kworker/0:2 completes one direct I/O, wakes fio, is pushed off by it, and has to wait before the next."
                .to_owned(),
        headline: String::new(),
        why: None,
        doubt: None,
        selected_as: None,
        victim: Victim {
            kind: VictimKind::Kworker,
            comm: "kworker/0:2".to_owned(),
            tids: vec![47, 48, 49],
            tasks: 3,
            policy: Some(Policy::Fair),
            prio: Some(120),
            work: Some(Work {
                function: "iomap_dio_complete_work".to_owned(),
                workqueue: Some("dio/nullb0".to_owned()),
            }),
            ..Victim::default()
        },
        culprits: vec![fio.clone()],
        blame: std::iter::once(fio)
            .chain(
                (0..11)
                    .map(|n| piece(&format!("other{n}"), &[300 + n], Some((Policy::Fair, 125)), Rule::Fair, 1_000_000)),
            )
            .collect(),
        waits: Waits { count: 30_100, total_ns: 323_000_000, max_ns: 98_000, p99_ns: 21_000, owed_ns: 141_000_000 },
        cpus: vec![0],
        period_ns: None,
        price: (0..7)
            .map(|n| PricePaid {
                comm: "fio".to_owned(),
                tids: vec![128 + n, 1],
                tasks: 2,
                ns: 290_000_000,
                ..PricePaid::default()
            })
            .collect(),
        evidence: vec!["2.0 switches per completed item (1.0 is the floor)".to_owned()],
        worst: vec![],
        lists_all: false,
        losses: vec!["1,204 events were lost while recording (CPU 0)".to_owned()],
        missing: vec![],
        remedies: vec![],
        actors: vec![],
    }
}

fn sick() -> Report {
    let short = vec![
        piece("wl", &[231], Some((Policy::Rt, 89)), Rule::Class, 2_400_000),
        piece("softirq NET_RX", &[], None, Rule::Softirq, 600_000),
    ];
    let blame = vec![
        piece("wl", &[231], Some((Policy::Rt, 89)), Rule::Class, 94_000_000),
        piece("softirq NET_RX", &[], None, Rule::Softirq, 700_000),
        piece("unknown", &[], None, Rule::Unknown, 100_000),
    ];
    Report {
        findings: vec![rt_starvation(), ping_pong()],
        worst_waits: vec![
            WorstWait {
                comm: "ksoftirqd/1".to_owned(),
                tid: 19,
                cpu: 1,
                start_ns: 812_000_000_000,
                end_ns: 812_094_800_000,
                blame,
                ..WorstWait::default()
            },
            WorstWait {
                comm: "kworker/u16:3-ev".to_owned(),
                tid: 40_231,
                cpu: 11,
                start_ns: 811_500_000_000,
                end_ns: 811_503_000_000,
                blame: short,
                ..WorstWait::default()
            },
        ],
        ..healthy()
    }
}

/// The page of a recording, as `explain` shows it.
fn recorded_page(name: &str, columns: usize) -> String {
    page_of(&recorded(name), Scope::Whole, Some("trace.dat"), look(columns))
}

/// What is really said of a recording in testdata/traces/.
fn recorded(name: &str) -> Report {
    let path = format!("{}/../../testdata/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let source = unstarve_readers::open(Path::new(&path)).expect("a recording");
    explain(source, &Options::default(), |_| {}).expect("an explanation")
}

/// A real-time task keeps ksoftirqd off its CPU for 90 ms of every second.
const STARVED: &str = "linux-5.10-net-rt.dat";

/// The pages of invented reports below say nothing that could not be: blame adds up, and remedies exist.
#[test]
fn invented_reports_are_possible() {
    for report in [healthy(), sick()] {
        for wait in &report.worst_waits {
            assert_eq!(
                wait.blame.iter().map(|piece| piece.ns).sum::<u64>(),
                wait.end_ns - wait.start_ns,
                "{}",
                wait.comm
            );
        }
        for finding in &report.findings {
            assert!(FindingKind::of_id(finding.id.as_str()).is_some(), "{}", finding.id);
            assert_eq!(
                finding.blame.iter().map(|piece| piece.ns).sum::<u64>(),
                finding.waits.total_ns,
                "{}",
                finding.id
            );
            assert!(
                finding.remedies.iter().all(|remedy| RemedyKind::of_id(remedy.id.as_str()).is_some()),
                "{}",
                finding.id
            );
        }
    }
}

fn look(columns: usize) -> Look {
    Look::new(columns, Charset::Utf8, Colours::Plain)
}

#[test]
fn a_healthy_trace_takes_one_sentence() {
    assert_snapshot!("healthy_80", recorded_page("linux-6.1-dio-good.dat", 80));
}

#[test]
fn a_sick_trace_at_80_columns() {
    assert_snapshot!("sick_80", recorded_page(STARVED, 80));
}

#[test]
fn a_sick_trace_at_120_columns() {
    assert_snapshot!("sick_120", recorded_page(STARVED, 120));
}

#[test]
fn a_sick_trace_at_60_columns_without_unicode() {
    let text = page(&recorded(STARVED), Scope::Whole, Look::new(10, Charset::Ascii, Colours::Plain));
    assert!(text.is_ascii());
    assert_snapshot!("sick_60_ascii", text);
}

#[test]
fn an_empty_trace_is_neither_healthy_nor_sick() {
    let report =
        Report { trace: TraceSummary { events: 0, ..trace() }, worst_waits: vec![], missing: vec![], ..healthy() };
    assert!(page(&report, Scope::Whole, look(80)).starts_with("No verdict"));
}

#[test]
fn too_little_is_no_all_clear() {
    let verdict = |trace: TraceSummary| {
        page(&Report { trace, ..healthy() }, Scope::Whole, look(160)).lines().next().unwrap_or_default().to_owned()
    };
    let three = TraceSummary { too_little: Some("it has only 3 sched_switch events".into()), ..trace() };
    assert_eq!(verdict(three), "Too little was recorded for a verdict: it has only 3 sched_switch events.");
    let blind = verdict(TraceSummary { invisible: Some("waits after a wakeup".into()), ..trace() });
    assert!(blind.starts_with("No wakeup was recorded, so waits after a wakeup are invisible here. Nobody"), "{blind}");
    let unknown = trace().waits_total_ns / 2;
    let text = page(
        &Report { trace: TraceSummary { waits_unknown_ns: unknown, ..trace() }, ..healthy() },
        Scope::Whole,
        look(160),
    );
    assert!(text.contains("it is unknown who had the CPU"), "{text}");
}

#[test]
fn what_is_said_of_a_part_is_not_said_of_all() {
    let verdict = |report: &Report| page(report, Scope::Part, look(80)).lines().next().unwrap_or_default().to_owned();
    assert_eq!(verdict(&healthy()), "Nobody is starved in the selected part; the longest wait there took 980 µs.");
    assert_eq!(verdict(&Report { worst_waits: vec![], ..healthy() }), "Nothing in the selected part has waited.");
}

#[test]
fn only_commands_may_be_wider_than_the_terminal() {
    for columns in [60, 61, 72, 80, 100, 120, 160] {
        let full = page(&sick(), Scope::Whole, look(columns));
        let first = first_screen(&sick(), Scope::Whole, Some("trace.dat"), look(columns));
        let is_command = |line: &&str| line.contains("do:  ") || line.contains("unstarve fix trace.dat");
        for line in full.lines().chain(first.lines()).filter(|line| !is_command(line)) {
            assert!(line.width() <= columns, "{columns} columns: {line:?} takes {}", line.width());
        }
    }
}

#[test]
fn colours_come_only_when_asked_and_change_no_letter() {
    let plain = page(&sick(), Scope::Whole, look(80));
    assert!(!plain.contains('\u{1b}'));
    let coloured = page(&sick(), Scope::Whole, Look::new(80, Charset::Utf8, Colours::Ansi));
    assert!(coloured.contains("\u{1b}[1m\u{1b}[31mCRITICAL\u{1b}[0m"), "{coloured:?}");
    let mut stripped = String::new();
    for (index, part) in coloured.split('\u{1b}').enumerate() {
        stripped.push_str(if index == 0 { part } else { part.split_once('m').expect("an SGR sequence ends in m").1 });
    }
    assert_eq!(stripped, plain);
}

#[test]
fn hostile_names_reach_no_terminal() {
    let evil = "\u{1b}]0;pwned\u{7}\r\n\u{202e}";
    let mut report = sick();
    let finding = &mut report.findings[0];
    finding.id = format!("{}{evil}", finding.id).as_str().into();
    finding.sentence.push_str(evil);
    finding.victim.comm = evil.to_owned();
    finding.evidence.push(evil.to_owned());
    finding.price[0].comm = evil.to_owned();
    finding.blame[0].comm = evil.to_owned();
    finding.losses.push(evil.to_owned());
    finding.remedies[0].apply.push_str(evil);
    finding.remedies[0].text.push_str(evil);
    report.worst_waits[0].comm = evil.to_owned();
    report.trace.kernel = Some(evil.to_owned());
    report.missing.push(Loss::new(LossKind::Truncated, 1).with_detail(evil).into());
    for charset in [Charset::Utf8, Charset::Ascii] {
        let look = Look::new(80, charset, Colours::Plain);
        for text in [page(&report, Scope::Whole, look), first_screen(&report, Scope::Whole, Some("FILE"), look)] {
            let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(bad, None, "{text}");
            assert!(text.contains("pwned"));
        }
    }
}

#[test]
fn a_report_of_nonsense_is_still_a_page() {
    let mut report = sick();
    let finding = &mut report.findings[0];
    finding.confidence = f64::NAN;
    finding.blame = vec![
        piece("", &[], Some((Policy::Rt, i32::MIN)), Rule::Unknown, u64::MAX),
        piece("x", &[], Some((Policy::Fair, i32::MAX)), Rule::Fair, u64::MAX),
    ];
    finding.waits = Waits { count: u64::MAX, total_ns: 0, max_ns: u64::MAX, p99_ns: 0, owed_ns: 0 };
    finding.worst = vec![Instance { cpu: u32::MAX, start_ns: u64::MAX, end_ns: 0, ..Instance::default() }];
    finding.cpus = vec![u32::MAX, 0, 1];
    report.worst_waits[0].end_ns = 0;
    report.trace.end_ns = 0;
    assert!(page(&report, Scope::Whole, look(80)).contains("rt-starvation"));
    assert!(first_screen(&report, Scope::Whole, None, look(80)).starts_with("CRITICAL"));
}

/// Where the recording tells, the time of day and the host stand beside the trace's own clock, and culprits have an address.
#[test]
fn the_time_of_day_the_host_and_where_culprits_are_stand_beside() {
    let mut report = Report { findings: vec![rt_starvation()], ..healthy() };
    report.trace.host = Some("web1".to_owned());
    report.trace.start_utc = Some("2026-11-22T14:03:06.000000123Z".to_owned());
    report.trace.end_utc = Some("2026-11-22T14:03:07.204000123Z".to_owned());
    report.worst_waits[0].start_utc = Some("2026-11-22T14:03:06.204000123Z".to_owned());
    let finding = &mut report.findings[0];
    finding.worst[0].start_utc = Some("2026-11-22T14:03:07.000000123Z".to_owned());
    for piece in finding.culprits.iter_mut().chain(finding.blame.iter_mut().take(1)) {
        piece.tgids = vec![230];
        piece.cgroups = vec!["/system.slice/wl.service".to_owned()];
    }
    let shown = |width| page(&report, Scope::Whole, look(width));
    let wide = shown(120);
    let about = wide.replace('\n', " ");
    assert!(about.contains("host web1 · 2026-11-22 14:03:06.000 to 14:03:07.204 UTC"), "{wide}");
    assert!(wide.contains("Worst at 812.000000 s (+1.000 s, 14:03:07.000 UTC) on CPU 1 for 94.8 ms."), "{wide}");
    assert!(wide.contains("\n      tgid 230 · /system.slice/wl.service\n"), "{wide}");
    assert!(wide.contains("811.204000  14:03:06.204    1  wl[131]"), "{wide}");
    let narrow = shown(60);
    assert!(narrow.contains("14:03:06.204 UTC  ksoftirqd/1[19] fair"), "{narrow}");
    assert!(narrow.lines().all(|line| line.width() <= 60), "{narrow}");
}

#[test]
fn a_hundred_findings_are_summed_up() {
    let mut report = sick();
    report.findings = (0..64).map(|_| ping_pong()).collect();
    report.more_findings = 44;
    let text = page(&report, Scope::Whole, look(100));
    assert_eq!(text.matches("Who had the CPU while").count(), 8);
    assert!(text.contains("88 more findings, none of them worse."), "{text}");
    assert!(text.contains("--json") && text.lines().count() < 400, "{} lines", text.lines().count());
    let first = first_screen(&report, Scope::Whole, Some("trace.dat"), look(80));
    assert!(first.lines().count() <= 40, "{first}");
}

#[test]
fn a_cap_of_the_list_is_not_shown_as_a_count() {
    let mut report = sick();
    let many: Vec<u32> = (1000..1128).collect();
    report.findings[0].blame[0] =
        Culprit { tasks: 700, ..piece("job", &many, Some((Policy::Rt, 79)), Rule::Class, 5_000_000) };
    report.findings[0].price[0] = PricePaid {
        comm: "fio".to_owned(),
        tids: vec![128],
        tasks: 1,
        ns: 2_430_000_000,
        waited_ns: 2_350_000_000,
        ..PricePaid::default()
    };
    let text = page(&report, Scope::Whole, look(120));
    assert!(text.contains("job ×700") && !text.contains("×128"), "{text}");
    assert!(text.contains("fio[128] lost 2.43 s: 2.35 s queued for the same CPU, 80.0 ms asleep"), "{text}");
}

#[test]
fn what_was_paid_through_a_device_says_so() {
    let mut report = sick();
    let shown = |ns: u64, waited_ns: u64, through_device_ns: u64, report: &mut Report| {
        report.findings[0].price[0] = PricePaid {
            comm: "reader".to_owned(),
            tids: vec![128],
            tasks: 1,
            ns,
            waited_ns,
            through_device_ns,
            ..PricePaid::default()
        };
        page(report, Scope::Whole, look(120))
    };
    let text = shown(40_000_000, 0, 0, &mut report);
    assert!(text.contains("reader[128] waited 40.0 ms for it\n"), "{text}");
    let text = shown(40_000_000, 0, 40_000_000, &mut report);
    assert!(text.contains("reader[128] waited 40.0 ms for it, through a block device\n"), "{text}");
    let text = shown(40_000_000, 0, 30_000_000, &mut report);
    assert!(text.contains("reader[128] waited 40.0 ms for it, of which 30.0 ms through a block device\n"), "{text}");
    let text = shown(50_000_000, 10_000_000, 40_000_000, &mut report);
    assert!(text.contains("40.0 ms asleep until it was done, through a block device\n"), "{text}");
}

/// Nobody reads 600 characters before running them as root.
#[test]
fn a_long_command_is_shown_as_fix() {
    let mut report = sick();
    report.findings.truncate(1);
    report.findings[0].remedies.truncate(1);
    let second = report.findings[0].clone();
    report.findings.push(second);
    let id = report.findings[0].remedies[0].id.clone();
    let shown = |report: &Report, scope| page_of(report, scope, Some("trace.dat"), look(80));
    let short = shown(&report, Scope::Whole);
    assert!(!short.contains("unstarve fix"), "{short}");
    for finding in &mut report.findings {
        finding.remedies[0].apply = format!("( set -Ceu; {} )", "x".repeat(200));
    }
    let long = shown(&report, Scope::Whole);
    for line in [
        format!("do:    sudo unstarve fix trace.dat --remedy {id} --this-boot --apply\n"),
        format!("do:    sudo unstarve fix trace.dat --finding 2 --remedy {id} --this-boot --apply\n"),
        "undo:  sudo unstarve fix --undo\n".to_owned(),
        format!("unstarve fix trace.dat --remedy {id} --as shell\n"),
    ] {
        assert!(long.contains(&line), "{line}{long}");
    }
    assert!(!long.contains("set -Ceu"), "{long}");
    assert!(shown(&report, Scope::Part).contains("set -Ceu"), "fix would look at the whole");
}
