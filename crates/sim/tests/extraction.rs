//! What a program has is what was recorded.

use unstarve_sim::{Extractor, NoProgram, Op, Program};

use crate::{recorded, recorded_by};

const RECORDINGS: [&str; 6] = [
    "hog-over-softirq.6.12.fault",
    "iouring-rt.6.1.fault",
    "nginx-weight.6.1.fault",
    "load-30.6.1.fault",
    "redis-quota.6.1.fault",
    "drain-rt.6.12.none",
];

#[test]
fn work_is_the_cpu_time_that_was_recorded_to_the_nanosecond() {
    for name in RECORDINGS {
        let extracted = recorded(name).extracted;
        assert!(extracted.program.actors.len() > 3, "{name}");
        for (actor, felt) in extracted.program.actors.iter().zip(&extracted.recorded.actors) {
            let by_clock = actor.ops.iter().any(|op| matches!(op, Op::RunByClock(_)));
            if !by_clock {
                assert_eq!(actor.work(), felt.ran, "{name}: {} ({})", actor.comm, actor.tid);
            }
        }
    }
}

/// A token that nobody gives would stop an actor for ever.
#[test]
fn who_blocks_is_woken_as_often_by_somebody() {
    for name in RECORDINGS {
        let program = recorded(name).extracted.program;
        let mut given = vec![0_usize; program.actors.len()];
        for op in program.actors.iter().flat_map(|actor| &actor.ops) {
            if let Op::Wake(actor) | Op::WakeAfter(actor, _) = op {
                given[actor.index()] += 1;
            }
        }
        for ((_, actor), given) in program.actors().zip(given) {
            let taken = actor.ops.iter().filter(|op| matches!(op, Op::Block | Op::Take)).count();
            assert!(taken <= given, "{name}: {} takes {taken} of {given} tokens", actor.comm);
        }
    }
}

#[test]
fn a_program_is_the_same_as_text_and_as_json() {
    let program = recorded("hog-over-softirq.6.12.fault").extracted.program;
    let json = serde_json::to_string(&program).expect("JSON");
    assert_eq!(Program::read(&json).expect("read back"), program);
    let again = Program::read(&program.written()).expect("read back");
    assert_eq!(again.actors.len(), program.actors.len());
    for (was, is) in program.actors.iter().zip(&again.actors) {
        assert_eq!((&was.comm, &was.placement, &was.ops), (&is.comm, &is.placement, &is.ops));
    }
}

#[test]
fn an_extractor_with_fewer_operations_gives_up_or_has_the_same_program() {
    let name = "drain-rt.6.12.fault";
    let whole = recorded(name).extracted.program;
    for most in [0, 1, 100] {
        let given_up = recorded_by(Extractor::up_to(most), name);
        assert_eq!(given_up.err(), Some(NoProgram::TooLong), "{most}");
    }
    let enough = recorded_by(Extractor::up_to(1_000_000), name).expect("a program");
    assert_eq!(enough.extracted.program, whole);
}
