//! Reads a list of operations.

use std::collections::BTreeMap;

use unstarve_model::Nanos;

use crate::{ActorId, MAX_OPERATIONS, Op};

/// Lists within lists beyond this depth are not read.
const DEEPEST: usize = 8;

/// The operations of a text; `by_label`: the actors that can be woken.
pub(super) fn operations(text: &str, by_label: &BTreeMap<&str, u32>) -> Result<Vec<Op>, String> {
    let mut rest = text.trim();
    let ops = list(&mut rest, by_label, 0)?;
    if rest.is_empty() { Ok(ops) } else { Err(format!("`{rest}`: expected a comma or the end")) }
}

fn list(rest: &mut &str, by_label: &BTreeMap<&str, u32>, depth: usize) -> Result<Vec<Op>, String> {
    let mut ops = Vec::new();
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(')') {
            return Ok(ops);
        }
        item(rest, by_label, depth, &mut ops)?;
        *rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => *rest = after,
            None => return Ok(ops),
        }
    }
}

fn item(rest: &mut &str, by_label: &BTreeMap<&str, u32>, depth: usize, ops: &mut Vec<Op>) -> Result<(), String> {
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = rest[digits..].trim_start();
    let Some(inside) = after.strip_prefix('*').map(str::trim_start).and_then(|after| after.strip_prefix('(')) else {
        let end = rest.find([',', ')']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        ops.push(operation(word.trim(), by_label)?);
        *rest = after;
        return Ok(());
    };
    let times: usize = rest[..digits].parse().map_err(|_| format!("`{rest}`: expected how many times before *"))?;
    if times == 0 || depth >= DEEPEST {
        return Err("a list is repeated at least once, and at most 8 deep".to_owned());
    }
    *rest = inside;
    let repeated = list(rest, by_label, depth + 1)?;
    *rest = rest.strip_prefix(')').ok_or_else(|| "a list that is repeated ends with `)`".to_owned())?;
    if repeated.is_empty() {
        return Err("a list that is repeated has an operation".to_owned());
    }
    if repeated.len().saturating_mul(times).saturating_add(ops.len()) > MAX_OPERATIONS {
        return Err(format!("more than {MAX_OPERATIONS} operations"));
    }
    (0..times).for_each(|_| ops.extend_from_slice(&repeated));
    Ok(())
}

fn operation(text: &str, by_label: &BTreeMap<&str, u32>) -> Result<Op, String> {
    let actor = |label: &str| {
        by_label.get(label.trim()).copied().map(ActorId).ok_or_else(|| format!("there is no actor `{label}` to wake"))
    };
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match (word, rest.trim()) {
        ("block", "") => Ok(Op::Block),
        ("take", "") => Ok(Op::Take),
        ("run", rest) => match rest.strip_suffix("by the clock") {
            Some(length) => time(length).map(Op::RunByClock),
            None => time(rest).map(Op::Run),
        },
        ("sleep", rest) => match rest.strip_prefix("until ") {
            Some(at) => time(at).map(Op::SleepUntil),
            None => time(rest).map(Op::SleepFor),
        },
        ("wake", rest) => match rest.rsplit_once(" after ") {
            Some((label, delay)) => Ok(Op::WakeAfter(actor(label)?, time(delay)?)),
            None => Ok(Op::Wake(actor(rest)?)),
        },
        _ => Err(format!(
            "`{text}`: expected run TIME, run TIME by the clock, block, take, sleep TIME, sleep until TIME, wake NAME, \
             wake NAME after TIME, or N * (…)"
        )),
    }
}

/// A time such as `35us`.
pub(super) fn time(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    let wrong = || format!("`{text}`: expected a time such as 35us, 5ms or 1s");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).map(Nanos).ok_or_else(wrong)
}
