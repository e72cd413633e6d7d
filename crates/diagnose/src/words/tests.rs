//! Every claim and headline makes a text that is fit to print.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use unstarve_facts::{PreemptMode, Throttled};
use unstarve_model::{CpuId, Loss, LossKind, Nanos, Policy, Prio, Tid};
use unstarve_sched::Rule;

use super::{Verb, sentence};
use crate::claim::*;
use crate::report::Work;

const MS: Nanos = Nanos::from_millis(7);
const NONE: Nanos = Nanos::ZERO;
const CPU: CpuId = CpuId(3);

fn actors(names: &[&str]) -> Actors {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Actors { names, prio: Some(Prio(120)), tids: Vec::new() }
}

fn one() -> Actors {
    actors(&["cc1"])
}

fn kind() -> Kind {
    Kind { name: "nfsd".into(), tasks: 128, ..Kind::default() }
}

fn thread() -> Kind {
    Kind { name: "cc1".into(), tasks: 1, prio: Some(Prio(125)), tids: vec![Tid(7)], ..Kind::default() }
}

fn work() -> Work {
    Work { function: "dio_work".into(), workqueue: Some("dio/sda".into()) }
}

fn contender(of: WeightOf) -> Contender {
    Contender { who: one(), weight: 1024, of }
}

fn wait() -> (Vec<WaitHeadline>, Vec<WaitClaim>) {
    let alike = [Alike::StoppedLikely, Alike::StoppedWithIt, Alike::WaitedForCpu, Alike::Waited, Alike::WaitedAsLong];
    let unproved = |proved| UnprovedWait { who: kind(), proved, possible: MS, cpu: CPU, holder: one() };
    let of_unproved = |proved| WaitHeadline::Unproved(unproved(proved));
    let still = |proved| WaitClaim::StillWaiting { who: thread(), cpu: CPU, proved, possible: MS, holder: one() };
    let headlines =
        [WaitHeadline::Long { who: kind(), longest: MS, behind: one() }, of_unproved(NONE), of_unproved(MS)];
    let claims = [
        WaitClaim::ShareOfTrace(Share(0.37)),
        WaitClaim::ShareOfRecording(Share(0.004)),
        WaitClaim::AlsoBehind { who: one(), lost: MS },
        WaitClaim::NoEventAfter(CPU),
        WaitClaim::IsNice,
        WaitClaim::Polls { who: one(), what: "SPDK reactor" },
        WaitClaim::BpfScheduler(None),
        WaitClaim::BpfScheduler(Some("rusty".into())),
        still(NONE),
        still(MS),
        WaitClaim::SeenThroughout(vec!["a".into(), "b".into()]),
        WaitClaim::MaybeThroughout(vec!["a".into()]),
    ];
    let also = alike.map(|alike| WaitClaim::AlsoWaited(alike, actors(&["a", "b"])));
    (headlines.into(), claims.into_iter().chain(also).chain(Rule::ALL.map(WaitClaim::Under)).collect())
}

fn limit() -> (Vec<LimitHeadline>, Vec<LimitClaim>) {
    let of_group = |who| LimitHeadline::Group { who, lost: MS, path: "/a.slice".into() };
    let class = |used_up| LimitHeadline::RealTimeClass { who: kind(), lost: MS, longest: MS, used_up };
    let cap = || Some(QuotaCap { path: "/a.slice".into(), quota_us: 10, period_us: 100, due: MS });
    let headlines = [
        of_group(GroupMembers::OneProgram(kind())),
        of_group(GroupMembers::Programs(actors(&["a", "b"]))),
        of_group(GroupMembers::Unknown),
        LimitHeadline::GroupInferred { who: kind(), lost: MS },
        class(None),
        class(Some(one())),
        LimitHeadline::Deadline { who: kind(), lost: MS, longest: MS },
        LimitHeadline::Runtime { who: kind(), runtime: MS, times: 3, lost: MS, longest: MS },
    ];
    let claims = [
        LimitClaim::CpuWentIdle,
        LimitClaim::CpuWentIdleOften { times: 4, least: MS },
        LimitClaim::Counted(Throttled { periods: 10, count: 5, ns: MS }),
        LimitClaim::UsedMost { most: one(), used: MS, by_others: MS },
        LimitClaim::NoMemberKnown,
        LimitClaim::Quota { cap: cap(), hidden: None },
        LimitClaim::Quota { cap: None, hidden: Some(MS) },
        LimitClaim::Quota { cap: cap(), hidden: Some(MS) },
        LimitClaim::LowerClassRan(Policy::Rt),
        LimitClaim::LowerClassRan(Policy::Deadline),
        LimitClaim::FairServer { runtime: MS, period: MS },
        LimitClaim::RealTimeRuntime { runtime: MS, period: MS },
        LimitClaim::RealTimeRan { ran: MS, share: Share(0.95) },
        LimitClaim::PartOfThat { who: one(), ran: MS },
        LimitClaim::WorksInPieces,
        LimitClaim::RunsWithoutEnd,
        LimitClaim::MeanRun(MS),
        LimitClaim::AskedFor { runtime: MS, period: MS },
        LimitClaim::RunsSpent { spent: 3, runs: 4 },
        LimitClaim::RunsEndedEarlier(1),
        LimitClaim::NoRunEndedEarlier,
    ];
    (headlines.into(), claims.into())
}

fn cpu() -> (Vec<CpuHeadline>, Vec<CpuClaim>) {
    let interrupted = |cost| CpuHeadline::Interrupted { who: kind(), by: actors(&["irq 33", "softirq NET_RX"]), cost };
    let headlines = [
        CpuHeadline::OwnIdle { who: kind(), longest: MS, lost: MS },
        CpuHeadline::OtherIdle { who: kind(), lost: MS, waits: 3, longest: MS },
        interrupted(InterruptCost::Share { share: Share(0.4), of: MS }),
        interrupted(InterruptCost::InOneWait(MS)),
        CpuHeadline::Stopped { who: kind(), longest: MS, lost: MS },
    ];
    let claims = [
        CpuClaim::IdleExitIsShort,
        CpuClaim::IdleCauses,
        CpuClaim::ShareBesideIdle { share: Share(0.4), tick: MS },
        CpuClaim::AffinityKnown,
        CpuClaim::AffinityInferred(4),
        CpuClaim::InterruptsTook { in_runs: MS, in_waits: MS },
        CpuClaim::PacketsOfHost,
        CpuClaim::Interrupt { what: one(), count: 3, cpu: CPU, total: MS, share: Share(0.4), longest: MS },
        CpuClaim::TicksStopped,
        CpuClaim::StopCauses,
        CpuClaim::Stolen { cpu: CPU, time: MS },
    ];
    (headlines.into(), claims.into())
}

fn real_time() -> (Vec<RealTimeHeadline>, Vec<RealTimeClaim>) {
    let kept_off = |class, longest, period| {
        let by = Actors { tids: (1..9).map(Tid).collect(), ..one() };
        RealTimeHeadline::KeptOff { who: thread(), lost: MS, by, class, longest, period }
    };
    let (who, behind) = (thread(), one());
    let headlines = [
        kept_off(Policy::Rt, NONE, None),
        kept_off(Policy::Deadline, MS, Some(MS)),
        RealTimeHeadline::NotPreempted { who, longest: MS, behind, lost: MS, period: Some(MS) },
    ];
    let precedence = |high, low| RealTimeClaim::Precedence { high: Prio(high), low: Prio(low) };
    let not_preempted = |low| RealTimeClaim::NotPreempted { high: Some(Prio(98)), low, occupant: one() };
    let modes =
        [PreemptMode::None, PreemptMode::Voluntary, PreemptMode::Lazy, PreemptMode::Full, PreemptMode::Realtime];
    let claims = [
        precedence(98, 120),
        precedence(98, 98),
        precedence(-1, -1),
        RealTimeClaim::KeptOffBy { share: Share(0.4), rule: Rule::Order },
        RealTimeClaim::KeptOffBy { share: Share(0.4), rule: Rule::Class },
        RealTimeClaim::Recurs { every: MS, seen: 2 },
        RealTimeClaim::Recurs { every: MS, seen: 3 },
        RealTimeClaim::WorstWindow(Share(0.4)),
        RealTimeClaim::TakeTurns { who: one(), waited: MS },
        RealTimeClaim::InGroup("/a.slice".into()),
        RealTimeClaim::DescendFrom("cron".into(), Tid(7)),
        RealTimeClaim::CreatedBy("cron".into(), Tid(7)),
        RealTimeClaim::Inherits { holder: one(), booster: actors(&["b"]) },
        not_preempted(None),
        not_preempted(Some(Prio(120))),
        RealTimeClaim::ShareInWaits { share: Share(0.4), waits: 3 },
        RealTimeClaim::RunsEvery(MS),
        RealTimeClaim::WorkedAt(one(), work()),
        RealTimeClaim::WorkedAt(one(), Work { workqueue: None, ..work() }),
    ];
    (headlines.into(), claims.into_iter().chain(modes.map(RealTimeClaim::Preempts)).collect())
}

fn sharing() -> (Vec<SharingHeadline>, Vec<SharingClaim>) {
    let outweighed = |heavier, longest, share| {
        let who = Kind { work: Some(work()), ..kind() };
        SharingHeadline::Outweighed { who, lost: MS, by: actors(&["a", "b"]), heavier, longest, share }
    };
    let inferred =
        |by_group| SharingHeadline::OutweighedInferred { who: thread(), share: Share(0.1), by: one(), by_group };
    let stuck = |behind| SharingHeadline::StuckEqual { who: thread(), waited: MS, behind, held: MS };
    let headlines = [
        outweighed(1, None, None),
        outweighed(2, Some(MS), Some(Share(0.02))),
        inferred(true),
        inferred(false),
        stuck(None),
        stuck(Some(one())),
        SharingHeadline::Crowded { who: kind(), longest: MS },
    ];
    let weights = |occupant, victim| SharingClaim::Weights { occupant: contender(occupant), victim: contender(victim) };
    let claims = [
        weights(WeightOf::Group("/a.slice".into()), WeightOf::Task),
        weights(WeightOf::Session(-5), WeightOf::ItsGroup),
        SharingClaim::Owed { owed: MS, share: Share(0.4), due: MS, got: MS },
        SharingClaim::Stalled { stalled: MS, share: Share(0.4), behind: MS, least: MS },
        SharingClaim::WeightNotRecorded { command: "cat /proc/7/cgroup".into() },
        SharingClaim::SessionsUnknown(None),
        SharingClaim::SessionsUnknown(Some(one())),
        SharingClaim::LongerThanTurns { share: Share(0.4), held: MS },
        SharingClaim::NoSettingExplains,
        SharingClaim::SettingMayExplain,
        SharingClaim::KnownBug { id: "reweight-lag", says: "It lags." },
        SharingClaim::WasIn { who: one(), function: "dio_work".into() },
        SharingClaim::WaitTogether(200),
    ];
    (headlines.into(), claims.into())
}

fn switching() -> (Vec<SwitchingHeadline>, Vec<SwitchingClaim>) {
    let storm = |bystander| {
        let (members, who) = (200, actors(&["job1", "job2", "job3", "job4"]));
        SwitchingHeadline::Storm { members, who, cpus: 1, waiting: 9.0, bystander }
    };
    let headlines = [
        SwitchingHeadline::PingPong { who: kind(), consumer: one(), lost: MS },
        SwitchingHeadline::Migrates { who: kind(), moves: 500, ran_for_each: MS },
        SwitchingHeadline::Preempted { who: kind(), rate: 2500.0, by: actors(&["a", "b", "c", "d", "e"]) },
        storm(None),
        storm(Some(Bystander { who: one(), lost: MS, longest: MS })),
    ];
    let claims = [
        SwitchingClaim::SwitchesPerItem { switches: 2.0, items: 10, runs: 10 },
        SwitchingClaim::EndedByConsumer { share: Share(0.9), consumer: one() },
        SwitchingClaim::ConsumerRuns { consumer: one(), mean: MS },
        SwitchingClaim::ItemTakes(MS),
        SwitchingClaim::GroupOutweighs { consumer: one(), weight: 10_240, worker: 1024 },
        SwitchingClaim::NoGroupOutweighs(one()),
        SwitchingClaim::GroupMayOutweigh { consumer: one(), command: "cat /proc/7/cgroup".into() },
        SwitchingClaim::ColdCaches { each: MS, all: MS },
        SwitchingClaim::MovedInWaits(Share(0.6)),
        SwitchingClaim::Involuntary { switches: 600, rate: 2500.0 },
        SwitchingClaim::RunsFor { mean: MS, shortest_slice: MS },
        SwitchingClaim::PreemptorRuns { by: one(), mean: MS },
        SwitchingClaim::WaitedToRun { who: one(), waited: MS, ran: MS },
        SwitchingClaim::EachWakeup { runs: MS, longest: MS },
        SwitchingClaim::FollowWakeups(Share(0.9)),
    ];
    (headlines.into(), claims.into())
}

fn doubts() -> Vec<Doubt> {
    let loss = || Loss::new(LossKind::EndsEarly, 1);
    let wait = Some(UnprovedWait { who: thread(), proved: MS, possible: MS, cpu: CPU, holder: one() });
    let unexplained =
        |has_snapshot| Doubt::Unexplained { who: thread(), waited: MS, held: MS, occupant: one(), has_snapshot };
    let incomplete = [
        Incomplete::SwitchesUnreadable(1),
        Incomplete::NoSwitches,
        Incomplete::FewSwitches(1),
        Incomplete::Short { span: MS, stall: MS },
        Incomplete::NoPriorities(MS),
        Incomplete::Unranked { who: one(), waited: MS, behind: one() },
        Incomplete::CpusNotRecorded(Loss::new(LossKind::UnrecordedCpus, 2)),
        Incomplete::SwitchesMissing { missing: 1, read: 1 },
        Incomplete::SwitchesMissing { missing: 2000, read: 2000 },
        Incomplete::PartsUndecoded(2),
        Incomplete::EventsLost { lost: 2, read: 2 },
        Incomplete::EventsOutOfOrder(2),
        Incomplete::OccupantUnknown { unknown: MS, waited: MS },
        Incomplete::EndsEarly { loss: loss(), wait: None },
        Incomplete::EndsEarly { loss: loss(), wait },
    ];
    [true, false].map(unexplained).into_iter().chain(incomplete.map(Doubt::Incomplete)).collect()
}

/// Checks the samples of a family: that they have all variants in its source, and what they make.
fn check<H: Into<Headline> + Debug, C: Into<Claim> + Debug>(source: &str, (headlines, claims): (Vec<H>, Vec<C>)) {
    let mut sampled: Vec<String> = headlines.iter().map(|one| format!("{one:?}")).collect();
    sampled.extend(claims.iter().map(|one| format!("{one:?}")));
    let sampled: BTreeSet<&str> = sampled.iter().map(|debug| ident(debug)).collect();
    assert_eq!(sampled, variants(source), "the samples have every variant");
    for headline in headlines {
        let headline: Headline = headline.into();
        let text = sentence(None, &headline.in_words(Verb::Starved), None);
        assert!(is_printable(&text) && text.ends_with('.') && !text.ends_with(".."), "{text:?}");
    }
    claims.into_iter().for_each(|claim| check_part(&claim.into()));
}

/// Checks a text that is no whole sentence.
fn check_part(part: &impl Display) {
    let text = part.to_string();
    assert!(is_printable(&text) && !text.ends_with(['.', ',', ':', ';', '-']), "{text:?}");
}

fn ident(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// The variants of the enums of claims, headlines and doubts in this source.
fn variants(source: &str) -> BTreeSet<&str> {
    let mut variants = BTreeSet::new();
    let mut is_inside = false;
    for line in source.lines() {
        match line.strip_prefix("pub(crate) enum ") {
            Some(name) => is_inside = ["Claim", "Headline", "Incomplete"].iter().any(|end| ident(name).ends_with(end)),
            None if line.starts_with('}') => is_inside = false,
            None => {
                let name = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase));
                variants.extend(name.filter(|_| is_inside).map(ident));
            }
        }
    }
    variants
}

/// Whether blanks, punctuation and parentheses are where they belong.
fn is_printable(text: &str) -> bool {
    let strays = ["  ", " ,", " .", " ;", " :", ",,", ";;", ", .", ",.", "( ", " )", "()", "[]", "{", "}"];
    let count = |c: char| text.matches(c).count();
    !text.is_empty()
        && text.trim() == text
        && count('(') == count(')')
        && count('[') == count(']')
        && !strays.iter().any(|stray| text.contains(stray))
}

#[test]
fn every_claim_and_headline_is_fit_to_print() {
    check(include_str!("../claim/wait.rs"), wait());
    check(include_str!("../claim/limit.rs"), limit());
    check(include_str!("../claim/cpu.rs"), cpu());
    check(include_str!("../claim/real_time.rs"), real_time());
    check(include_str!("../claim/sharing.rs"), sharing());
    check(include_str!("../claim/switching.rs"), switching());
}

#[test]
fn every_doubt_is_fit_to_print() {
    let debugged: Vec<String> = doubts().iter().map(|doubt| format!("{doubt:?}")).collect();
    let sampled = debugged.iter().filter_map(|debug| debug.strip_prefix("Incomplete(")).map(ident).collect();
    assert_eq!(variants(include_str!("../claim/data_quality.rs")), sampled, "the samples have every variant");
    doubts().iter().for_each(check_part);
}

#[test]
fn a_sentence_has_what_matters_more_before_and_what_is_not_proved_after() {
    let headline: Headline = WaitHeadline::Long { who: kind(), longest: MS, behind: one() }.into();
    let halves = headline.in_words(Verb::Delayed);
    let names = |count: usize| ["a", "b", "c"].map(String::from)[..count].to_vec();
    for count in 1..=3 {
        for never_ran in [NeverRan::Seen(names(count)), NeverRan::Inferred(names(count))] {
            for proved in [NONE, MS] {
                let unproved = Unproved { proved, possible: MS, cpu: CPU };
                let text = sentence(Some(&never_ran), &halves, Some(&unproved));
                assert!(is_printable(&text), "{text:?}");
                assert_eq!(text.matches(". ").count(), 2, "three sentences: {text:?}");
            }
        }
    }
}

#[test]
fn actors_are_named_briefly() {
    let with_tids = |tids: std::ops::Range<u32>| Actors { tids: tids.map(Tid).collect(), ..one() }.to_string();
    assert_eq!(actors(&["a", "b", "c"]).to_string(), "a, b and c");
    assert_eq!(actors(&["a", "b", "c", "d", "e"]).to_string(), "a, b, c and 2 more");
    assert_eq!(actors(&["job1", "cc1", "job2", "job3", "job4"]).to_string(), "job… (4 names) and cc1");
    assert_eq!([with_tids(1..3), with_tids(1..9)], ["cc1[1, 2]", "cc1[1, 2, 3, 4, …]"]);
    assert_eq!([kind().to_string(), thread().to_string()], ["nfsd (128 threads)", "cc1[7]"]);
    assert_eq!(Kind { work: Some(work()), ..kind() }.to_string(), "nfsd (dio_work on dio/sda)");
}
