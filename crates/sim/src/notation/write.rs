//! Writes a list of operations, what repeats as `N * (…)`.

use super::short;
use crate::Op;

/// The longest part that is looked for as one that repeats.
const LONGEST_PART: usize = 8;

/// The operations as text; `names`: a label for each actor.
pub(super) fn operations(ops: &[Op], names: &[String]) -> String {
    let mut words = Vec::new();
    let mut rest = ops;
    while !rest.is_empty() {
        let (part, times) = longest_repetition(rest);
        rest = &rest[part * times..];
        let part_ops = &ops[ops.len() - rest.len() - part * times..][..part];
        let inside = || part_ops.iter().map(|op| word(*op, names)).collect::<Vec<_>>().join(", ");
        if times == 1 {
            words.push(inside());
        } else if part > 1 {
            // A part may repeat within itself.
            words.push(format!("{times} * ({})", operations(part_ops, names)));
        } else {
            words.push(format!("{times} * ({})", inside()));
        }
    }
    words.join(", ")
}

/// The length of the part at the beginning that repeats over the most operations, and how often; 1 and 1 if nothing does.
fn longest_repetition(ops: &[Op]) -> (usize, usize) {
    let mut best = (1, 1);
    for part in 1..=LONGEST_PART.min(ops.len() / 2) {
        let times = ops.chunks_exact(part).take_while(|chunk| *chunk == &ops[..part]).count();
        if times > 1 && part * times > best.0 * best.1 {
            best = (part, times);
        }
    }
    best
}

fn word(op: Op, names: &[String]) -> String {
    let name = |index: usize| names.get(index).map_or("?", String::as_str);
    match op {
        Op::Run(time) => format!("run {}", short(time)),
        Op::RunByClock(time) => format!("run {} by the clock", short(time)),
        Op::Block => "block".to_owned(),
        Op::Take => "take".to_owned(),
        Op::SleepFor(time) => format!("sleep {}", short(time)),
        Op::SleepUntil(time) => format!("sleep until {}", short(time)),
        Op::Wake(actor) => format!("wake {}", name(actor.index())),
        Op::WakeAfter(actor, delay) => format!("wake {} after {}", name(actor.index()), short(delay)),
    }
}
