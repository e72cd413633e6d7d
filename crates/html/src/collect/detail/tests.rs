//! Limits of the records around the longest waits.

use super::*;

const ACTOR: ActorId = ActorId::OTHERS;

fn run(at: u64) -> Record {
    let (start, end) = (Time(at), Time(at + 1000));
    Record { start, end, kind: Kind::Run, cpu: CpuId(0), tid: Tid(1), actor: ACTOR, detail: 0 }
}

fn spot(start: u64, end: u64) -> Spot {
    Spot {
        actor: ACTOR,
        tid: Tid(2),
        cpu: CpuId(0),
        start: Time(start),
        end: Time(end),
        margin: Nanos::ZERO,
        rule: Rule::Fair,
    }
}

#[test]
fn what_is_around_the_longest_waits_stays_and_the_rest_goes() {
    let mut detail = Detail::default();
    let runs = 3 * Detail::MAX_QUEUED_RECORDS as u64;
    for index in 0..runs {
        let now = index * 1000;
        detail.push(run(now));
        if index % 1000 == 999 {
            // Ever longer waits, so that each is the longest at its end.
            detail.offer(spot(now - index / 10, now), 0);
        }
    }
    let Kept { records: kept, spots, .. } = detail.finish();
    assert_eq!(spots.len(), Detail::PER_KIND);
    for spot in &spots {
        let (from, to) = spot.window();
        let around = kept.iter().filter(|run| run.end >= from && run.start <= to).count() as u64;
        let fits = to.min(Time(runs * 1000)).since(from).0 / 1000;
        assert!(around >= fits, "{around} of {fits}");
    }
    assert!(kept.len() < 20_000, "{}", kept.len());
}

#[test]
fn waits_that_last_as_long_as_the_trace_do_not_keep_all_of_it() {
    let mut detail = Detail::default();
    let runs = 8 * Detail::MAX_KEPT_RECORDS as u64;
    for index in 0..runs {
        let now = index * 1000;
        detail.push(run(now));
        if index % 50_000 == 49_999 {
            detail.offer(spot(now / 2, now), (index / 100_000) as usize);
        }
        assert!(detail.kept.len() <= Detail::MAX_KEPT_RECORDS + Detail::RELEASE_BATCH);
    }
    let last = spot(runs * 500, runs * 1000);
    detail.push(Record { start: last.start, end: last.end, kind: Kind::Wait, ..run(0) });
    detail.offer(last, 0);
    let kept = detail.finish();
    assert_eq!(kept.spots.first().map(Spot::length), Some(last.length()));
    assert!(kept.records.iter().any(|record| record.kind == Kind::Wait), "the wait itself stays");
    assert!(kept.records.len() <= Detail::MAX_KEPT_RECORDS + Detail::MAX_QUEUED_RECORDS);
    let blocks = kept.records.iter().filter(|record| record.kind == Kind::Block);
    let merged: u64 = blocks.map(|block| u64::from(block.tid.0)).sum();
    assert!(merged > Detail::MAX_KEPT_RECORDS as u64, "and what was too much is in blocks: {merged}");
}
