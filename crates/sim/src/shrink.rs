//! Makes a program smaller while it still does what matters: delta debugging over actors and their operations.
//!
//! Each step is kept if the oracle still says yes: actors are left out, in halves and then one by one; what an actor does becomes
//! one run, or a loop of what it usually does; the whole is cut in half; times are rounded.

use std::collections::BTreeMap;

use unstarve_model::Nanos;

use crate::{Actor, ActorId, Felt, Op, Program};

/// A program is not cut below this length.
const SHORTEST: Nanos = Nanos(50_000_000);

/// Makes the smallest program for which `survives` is true, as far as these steps find it. `recorded`: what the actors felt.
///
/// # Errors
/// The oracle's.
pub fn shrink<E>(
    program: &Program,
    recorded: &Felt,
    survives: &mut dyn FnMut(&Program) -> Result<bool, E>,
) -> Result<Program, E> {
    let mut smallest = Shrinking { program: program.clone(), felt: recorded.clone(), survives };
    smallest.leave_out_actors()?;
    smallest.simplify_actors()?;
    smallest.leave_out_actors()?;
    smallest.cut()?;
    smallest.round()?;
    smallest.program.drop_cgroups_of_nobody();
    Ok(smallest.program)
}

struct Shrinking<'a, E> {
    program: Program,
    felt: Felt,
    survives: &'a mut dyn FnMut(&Program) -> Result<bool, E>,
}

impl<E> Shrinking<'_, E> {
    /// Keeps a smaller program if it survives.
    fn keep(&mut self, smaller: Program) -> Result<bool, E> {
        let survives = smaller != self.program && (self.survives)(&smaller)?;
        if survives {
            self.program = smaller;
        }
        Ok(survives)
    }

    fn leave_out_actors(&mut self) -> Result<(), E> {
        let mut at_once = self.program.actors.len().div_ceil(2);
        while at_once > 0 {
            let mut from = 0;
            while from < self.program.actors.len() && self.program.actors.len() > 1 {
                let to = (from + at_once).min(self.program.actors.len());
                let smaller = self.program.without(from..to, &self.felt);
                if !smaller.actors.is_empty() && self.keep(smaller)? {
                    self.felt.actors.drain(from..to);
                } else {
                    from = to;
                }
            }
            at_once = if at_once == 1 { 0 } else { at_once.div_ceil(2) };
        }
        Ok(())
    }

    fn simplify_actors(&mut self) -> Result<(), E> {
        for index in 0..self.program.actors.len() {
            for simpler in [one_run, loop_of_the_usual, busy_loop] {
                let mut smaller = self.program.clone();
                smaller.actors[index].ops = simpler(&self.program.actors[index], self.program.length);
                if smaller.actors[index].ops.len() < 2 * self.program.actors[index].ops.len() && self.keep(smaller)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<(), E> {
        while self.program.length > SHORTEST {
            let mut smaller = self.program.clone();
            smaller.length = Nanos(smaller.length.0 / 2);
            let length = smaller.length;
            smaller.actors.iter_mut().for_each(|actor| cut(&mut actor.ops, length));
            if !self.keep(smaller)? {
                break;
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), E> {
        for digits in [1, 2, 3] {
            let mut smaller = self.program.clone();
            smaller.length = rounded(smaller.length, digits);
            for op in smaller.actors.iter_mut().flat_map(|actor| &mut actor.ops) {
                match op {
                    Op::Run(time)
                    | Op::RunByClock(time)
                    | Op::SleepFor(time)
                    | Op::SleepUntil(time)
                    | Op::WakeAfter(_, time) => *time = rounded(*time, digits),
                    Op::Block | Op::Take | Op::Wake(_) => {}
                }
            }
            if self.keep(smaller)? {
                break;
            }
        }
        Ok(())
    }
}

/// Operations that begin after the end are nobody's.
fn cut(ops: &mut Vec<Op>, length: Nanos) {
    let mut at = Nanos::ZERO;
    let mut keep = 0;
    for op in ops.iter() {
        at = match op {
            Op::Run(time) | Op::RunByClock(time) | Op::SleepFor(time) => at + *time,
            Op::SleepUntil(until) => at.max(*until),
            Op::Block | Op::Take | Op::Wake(_) | Op::WakeAfter(..) => at,
        };
        keep += 1;
        if at > length {
            break;
        }
    }
    ops.truncate(keep);
}

/// A number with so many digits that are not zero.
fn rounded(time: Nanos, digits: u32) -> Nanos {
    let all = time.0.checked_ilog10().map_or(0, |log| log + 1);
    let scale = 10_u64.pow(all.saturating_sub(digits));
    Nanos(time.0.saturating_add(scale / 2) / scale * scale)
}

/// All its work in one piece.
fn one_run(actor: &Actor, _: Nanos) -> Vec<Op> {
    vec![Op::Run(actor.work())]
}

/// What it usually does from one sleep to the next, as often as it did so.
fn loop_of_the_usual(actor: &Actor, length: Nanos) -> Vec<Op> {
    let mut items: Vec<&[Op]> = Vec::new();
    let mut begin = None;
    for (index, op) in actor.ops.iter().enumerate() {
        if op.begins_item() {
            items.extend(begin.replace(index).map(|begin| &actor.ops[begin..index]));
        }
    }
    items.extend(begin.map(|begin| &actor.ops[begin..]));
    let mut by_shape: BTreeMap<Vec<Shape>, Vec<&[Op]>> = BTreeMap::new();
    for item in &items {
        by_shape.entry(item.iter().map(|op| Shape::of(*op)).collect()).or_default().push(item);
    }
    let Some(usual) = by_shape.into_values().max_by_key(Vec::len) else { return one_run(actor, length) };
    let mut part = mean_of(&usual);
    // A time at which it woke up is a time only once: a loop sleeps for what is left of its share of the length.
    if let Some(first @ Op::SleepUntil(_)) = part.first_mut() {
        let each = length.0 / items.len() as u64;
        let ran = usual[0].iter().map(|op| if let Op::Run(time) = op { time.0 } else { 0 }).sum::<u64>();
        *first = Op::SleepFor(Nanos(each.saturating_sub(ran).max(1_000)));
    }
    std::iter::repeat_n(part, items.len()).flatten().collect()
}

/// The same without a sleep: of a worker that always has work.
fn busy_loop(actor: &Actor, length: Nanos) -> Vec<Op> {
    let mut ops = loop_of_the_usual(actor, length);
    ops.retain(|op| !op.begins_item());
    ops
}

/// An operation without its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Run,
    RunByClock,
    Block,
    Take,
    SleepFor,
    SleepUntil,
    Wake(ActorId),
    WakeAfter(ActorId),
}

impl Shape {
    fn of(op: Op) -> Shape {
        match op {
            Op::Run(_) => Shape::Run,
            Op::RunByClock(_) => Shape::RunByClock,
            Op::Block => Shape::Block,
            Op::Take => Shape::Take,
            Op::SleepFor(_) => Shape::SleepFor,
            Op::SleepUntil(_) => Shape::SleepUntil,
            Op::Wake(actor) => Shape::Wake(actor),
            Op::WakeAfter(actor, _) => Shape::WakeAfter(actor),
        }
    }
}

/// The operations of items of one shape, with the mean of their times.
fn mean_of(items: &[&[Op]]) -> Vec<Op> {
    let mean = |index: usize, of: fn(&Op) -> Option<Nanos>| {
        let sum: Nanos = items.iter().filter_map(|item| of(&item[index])).sum();
        Nanos(sum.0 / items.len() as u64)
    };
    let time = |op: &Op| match op {
        Op::Run(time) | Op::RunByClock(time) | Op::SleepFor(time) | Op::SleepUntil(time) | Op::WakeAfter(_, time) => {
            Some(*time)
        }
        Op::Block | Op::Take | Op::Wake(_) => None,
    };
    let with_mean = |(index, op): (usize, &Op)| match op {
        Op::Run(_) => Op::Run(mean(index, time)),
        Op::RunByClock(_) => Op::RunByClock(mean(index, time)),
        Op::SleepFor(_) => Op::SleepFor(mean(index, time)),
        Op::SleepUntil(_) => Op::SleepUntil(mean(index, time)),
        Op::WakeAfter(actor, _) => Op::WakeAfter(*actor, mean(index, time)),
        Op::Block | Op::Take | Op::Wake(_) => *op,
    };
    items.first().map(|item| item.iter().enumerate().map(with_mean).collect()).unwrap_or_default()
}

impl Program {
    /// The program without some actors. Who was woken by nobody else sleeps as long as it did on average.
    fn without(&self, left_out: std::ops::Range<usize>, recorded: &Felt) -> Program {
        let moved = |id: ActorId| match id.index() {
            index if left_out.contains(&index) => None,
            index if index >= left_out.end => Some(ActorId((index - left_out.len()) as u32)),
            _ => Some(id),
        };
        let stays = |index: usize| !left_out.contains(&index);
        let mut has_waker = vec![false; self.actors.len()];
        for (_, actor) in self.actors.iter().enumerate().filter(|(index, _)| stays(*index)) {
            for op in &actor.ops {
                if let Op::Wake(id) | Op::WakeAfter(id, _) = op {
                    has_waker[id.index()] = true;
                }
            }
        }
        let mut program = Program { actors: Vec::new(), ..self.clone() };
        for (index, actor) in self.actors.iter().enumerate().filter(|(index, _)| stays(*index)) {
            let felt = recorded.actors.get(index).copied().unwrap_or_default();
            let slept = self.length.saturating_sub(felt.ran).saturating_sub(felt.waited);
            let usual = Nanos(slept.0 / felt.items.max(1));
            let op = |op: &Op| match op {
                Op::Wake(id) => moved(*id).map(Op::Wake),
                Op::WakeAfter(id, delay) => moved(*id).map(|id| Op::WakeAfter(id, *delay)),
                Op::Block if !has_waker[index] => Some(Op::SleepFor(usual)),
                Op::Take if !has_waker[index] => None,
                op => Some(*op),
            };
            program.actors.push(Actor { ops: actor.ops.iter().filter_map(op).collect(), ..actor.clone() });
        }
        program
    }

    /// Groups in which no actor is, nor below which, are of no use.
    fn drop_cgroups_of_nobody(&mut self) {
        let mut used = vec![false; self.cgroups.len()];
        for actor in &self.actors {
            let mut of = actor.placement.cgroup;
            while let Some(index) = of {
                used[index] = true;
                of = self.cgroups[index].parent;
            }
        }
        let place = |index: usize| used[..index].iter().filter(|used| **used).count();
        let placed = |of: Option<usize>| of.map(place);
        self.actors.iter_mut().for_each(|actor| actor.placement.cgroup = placed(actor.placement.cgroup));
        let mut index = 0;
        self.cgroups.retain_mut(|group| {
            group.parent = placed(group.parent);
            index += 1;
            used[index - 1]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
cpus = "0-1"
length = "1s"
[[cgroup]]
path = "/idle"
[[cgroup]]
path = "/pods"
[[actor]]
name = "waker"
does = "10 * (sleep 10ms, run 100us, wake victim)"
[[actor]]
name = "victim"
cgroup = "/pods"
does = "10 * (block, run 1234567ns)"
[[actor]]
name = "hog"
policy = "fifo:50"
does = "run 300ms, sleep 1ms, run 350ms, sleep 7ms, run 100ms"
[[actor]]
name = "bystander"
cgroup = "/idle"
does = "sleep until 7ms, run 3ms, sleep until 90ms, run 1ms"
"#;

    #[test]
    fn what_does_not_matter_is_left_out_and_the_rest_is_simple() {
        let program = Program::read(TEXT).expect("a program");
        let recorded =
            Felt { length: program.length, actors: vec![crate::ActorFelt { items: 10, ..Default::default() }; 4] };
        // What matters: a victim that sleeps, and a hog with half a second of work.
        let mut asked = 0;
        let mut survives = |program: &Program| -> Result<bool, std::convert::Infallible> {
            asked += 1;
            let named = |name: &str| program.actors.iter().find(|actor| actor.comm == name);
            let sleeps = named("victim").is_some_and(|actor| actor.ops.iter().any(|op| op.begins_item()));
            Ok(sleeps && named("hog").is_some_and(|actor| actor.work() >= Nanos(500_000_000)))
        };
        let Ok(small) = shrink(&program, &recorded, &mut survives);
        insta::assert_snapshot!(small.written(), @r#"
        cpus = "0-1"
        length = "30ms"

        [[cgroup]]
        path = "/pods"
        weight = 100

        [[actor]]
        name = "victim"
        cgroup = "/pods"
        does = "sleep 100ms"

        [[actor]]
        name = "hog"
        policy = "fifo:50"
        does = "run 800ms"
        "#);
        assert!(asked < 40, "{asked}");
    }

    #[test]
    fn a_number_keeps_its_first_digits() {
        let of = |time, digits| rounded(Nanos(time), digits).0;
        assert_eq!(
            [of(1_234_567, 1), of(1_250_000, 2), of(7, 2), of(0, 1), of(96, 1)],
            [1_000_000, 1_300_000, 7, 0, 100]
        );
    }
}
