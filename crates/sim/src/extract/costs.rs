//! What operations of an actor cost only because they switch tasks: in a replay where they do not, its runs are shorter.
//!
//! The part between two sleeps of an actor is an *item*. Items that wake a sleeper and items that do not tell what the wakeup costs;
//! items that do one thing and items that do many tell what the sleep costs. Where a recording has too few of both, the quickest items
//! of the quickest actor say what a sleep costs at least: nobody is woken and sleeps again for less.

use unstarve_model::Nanos;

use super::report::Inference;
use crate::{Op, Program, SwitchCosts};

/// Fewer items of a kind say nothing.
const LEAST_ITEMS: usize = 3;
/// An item that gives so many tokens hardly shows its sleep.
const MANY: usize = 5;
/// Fewer items of an actor have no quickest ones.
const LEAST_FOR_QUICKEST: usize = 20;
/// One in so many items is among the quickest.
const QUICKEST: usize = 20;
/// Items are alike if three in four take no more than so many times what one in four takes.
const ALIKE: u64 = 2;

/// What an actor does from one sleep to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Item {
    ran: Nanos,
    wakes: usize,
    gives: usize,
    slept: bool,
}

/// Fills in [`SwitchCosts`] of all actors.
pub(super) fn infer(program: &mut Program) -> Vec<Inference> {
    let by_actor: Vec<Vec<Item>> = program.actors.iter().map(|actor| items(&actor.ops)).collect();
    let least = by_actor.iter().filter_map(|items| quickest(items)).min();
    let (mut known_wakes, mut known_sleeps, mut observed) = (0, 0, 0);
    for (actor, items) in program.actors.iter_mut().zip(&by_actor) {
        let blocks = actor.ops.iter().any(|op| matches!(op, Op::Block));
        let wake = cost_of_wake(items);
        let sleep = if blocks { cost_of_sleep(items) } else { None };
        known_wakes += usize::from(wake.is_some());
        known_sleeps += usize::from(sleep.is_some());
        observed += if wake.is_some() || sleep.is_some() { items.len() } else { 0 };
        let sleep = if blocks { sleep.or(least).unwrap_or_default() } else { Nanos::ZERO };
        // A wakeup takes about as long as a sleep, and no more than half of what is done with it.
        let most =
            items.iter().filter(|item| item.wakes > 0).map(|item| Nanos(item.ran.0 / 2 / item.wakes as u64)).min();
        let wake = wake.or(least.zip(most).map(|(least, most)| least.min(most)));
        actor.costs = SwitchCosts { sleep, wake: wake.unwrap_or_default() };
    }
    let mut inferences = vec![Inference::guessed(
        format!("what a wakeup costs is known of {known_wakes} threads, what a sleep costs of {known_sleeps}"),
        observed as u64,
    )];
    if let Some(least) = least {
        let what = format!("a sleep or a wakeup of any other thread costs {} ns, as the quickest show", least.0);
        inferences.push(Inference::guessed(what, LEAST_FOR_QUICKEST as u64));
    }
    inferences
}

/// Whether an actor's items are alike.
pub(super) fn are_alike(ops: &[Op]) -> bool {
    let mut ran: Vec<Nanos> = items(ops).iter().map(|item| item.ran).collect();
    ran.sort_unstable();
    let quarter = ran.len() / 4;
    ran.is_empty() || ran[ran.len() - 1 - quarter].0 <= 3 * ran[quarter].0
}

fn items(ops: &[Op]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut item: Option<Item> = None;
    for op in ops {
        match op {
            Op::Block | Op::Take | Op::SleepUntil(_) | Op::SleepFor(_) => {
                let slept = !matches!(op, Op::Take);
                items.extend(item.replace(Item { slept, ..Item::default() }));
            }
            Op::Run(time) => item.iter_mut().for_each(|item| item.ran += *time),
            // An item by the clock says nothing of costs.
            Op::RunByClock(_) => item = None,
            Op::Wake(_) => item.iter_mut().for_each(|item| (item.wakes, item.gives) = (item.wakes + 1, item.gives + 1)),
            Op::WakeAfter(..) => item.iter_mut().for_each(|item| item.gives += 1),
        }
    }
    items.retain(|item| item.ran > Nanos::ZERO);
    items
}

fn cost_of_wake(items: &[Item]) -> Option<Nanos> {
    // What a sleep costs is in both kinds, or in neither.
    let slept = items.iter().filter(|item| item.slept).count() * 2 > items.len();
    let of = |wakes: usize| {
        let alike = items.iter().filter(|item| item.wakes == wakes && item.slept == slept);
        usual(alike.map(|item| item.ran).collect())
    };
    of(1)?.0.checked_sub(of(0)?.0).map(Nanos)
}

fn cost_of_sleep(items: &[Item]) -> Option<Nanos> {
    let slept = || items.iter().filter(|item| item.slept);
    let one = slept().filter(|item| item.gives == 1).map(|item| item.ran).collect();
    let many = slept().filter(|item| item.gives >= MANY).map(|item| Nanos(item.ran.0 / item.gives as u64)).collect();
    usual(one)?.0.checked_sub(usual(many)?.0).map(Nanos)
}

fn quickest(items: &[Item]) -> Option<Nanos> {
    let mut ran: Vec<Nanos> = items.iter().filter(|item| item.slept).map(|item| item.ran).collect();
    let rank = ran.len() / QUICKEST;
    (ran.len() >= LEAST_FOR_QUICKEST).then(|| *ran.select_nth_unstable(rank).1)
}

/// The median, if there are enough and they are alike.
fn usual(mut of: Vec<Nanos>) -> Option<Nanos> {
    if of.len() < LEAST_ITEMS {
        return None;
    }
    of.sort_unstable();
    let quarter = of.len() / 4;
    let are_alike = of[of.len() - 1 - quarter].0 <= ALIKE * of[quarter].0;
    are_alike.then(|| of[of.len() / 2])
}
