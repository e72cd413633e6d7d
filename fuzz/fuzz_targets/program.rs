//! A recording becomes a program, or a text is one; what comes of it is played, written, and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unstarve_diagnose::drive;
use unstarve_model::Nanos;
use unstarve_readers::Input;
use unstarve_sim::engine::{Replica, SchedulerModel, play};
use unstarve_sim::{Extractor, Program};

/// Longer programs take too long for a fuzzer.
const LONGEST: Nanos = Nanos(2_000_000_000);
const MOST_OPERATIONS: usize = 20_000;

fuzz_target!(|bytes: &[u8]| {
    let program = match std::str::from_utf8(bytes).ok().and_then(|text| Program::read(text).ok()) {
        Some(program) => program,
        None => match extracted(bytes) {
            Some(program) => program,
            None => return,
        },
    };
    if program.length > LONGEST || program.operations() > MOST_OPERATIONS || program.cpus.len() > 16 {
        return;
    }
    let _ = Program::read(&program.written());
    if let Ok(model) = SchedulerModel::of_kernel(program.kernel.as_deref().unwrap_or("6.12"), program.cpus.len(), &program.knobs)
        && let Ok(played) = play(&program, &model, Replica::AS_RECORDED)
    {
        for cpu in played.cpus {
            assert_eq!(cpu.ran + cpu.idle + cpu.switching, program.length);
        }
    }
});

fn extracted(bytes: &[u8]) -> Option<Program> {
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let input = Input::from_stream(stream, "fuzz".into()).ok()?;
    let source = unstarve_readers::open::open_input(input).ok()?;
    let mut extractor = Extractor::default();
    let driven = drive(source, &mut extractor, |_| {}).ok()?;
    Some(extractor.finish(driven.timeline.world(), driven.snapshot.as_deref()).ok()?.program)
}
