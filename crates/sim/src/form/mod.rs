//! A program in forms of others: for rt-app, and as one C file.

mod c;
mod rt_app;

use unstarve_model::Nanos;

use crate::{ActorId, Op, Program};

pub use c::c_file;
pub use rt_app::rt_app;

/// Operations that repeat.
struct Phase<'a> {
    times: usize,
    ops: &'a [Op],
}

/// The longest part that is looked for as one that repeats.
const LONGEST_PART: usize = 8;

/// The operations as parts that repeat.
fn phases(ops: &[Op]) -> Vec<Phase<'_>> {
    let mut phases = Vec::new();
    let mut rest = ops;
    while !rest.is_empty() {
        let parts = (1..=LONGEST_PART.min(rest.len())).map(|part| {
            let times = rest.chunks_exact(part).take_while(|chunk| *chunk == &rest[..part]).count();
            (part, times)
        });
        // Of parts that cover as much the shortest; of those that do not repeat the first operation alone.
        let covers = |(part, times): &(usize, usize)| if *times > 1 { part * times } else { 1 };
        let (part, times) = parts.rev().max_by_key(covers).unwrap_or((1, 1));
        let (part, times) = if times > 1 { (part, times) } else { (1, 1) };
        phases.push(Phase { times, ops: &rest[..part] });
        rest = &rest[part * times..];
    }
    phases
}

/// A name for each actor that is one in JSON and in C, and no other actor's.
fn names(program: &Program) -> Vec<String> {
    let plain =
        |text: &str| -> String { text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect() };
    program.actors().map(|(ActorId(index), actor)| format!("t_{}_{index}", plain(&actor.comm))).collect()
}

fn micros(time: Nanos) -> u64 {
    time.0.div_ceil(1_000)
}
