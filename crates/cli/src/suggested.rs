//! What is chosen by number or id: findings, remedies, topics. Shells complete the ids.

use std::ffi::OsStr;

use anyhow::{Result, bail};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use unstarve_diagnose::{FINDINGS, REMEDIES};
use unstarve_term::{Topic, clean};

/// Takes any text; completion offers these.
#[derive(Clone)]
pub struct Suggested(fn() -> Vec<&'static str>);

/// Ids of findings.
pub const FINDING_IDS: Suggested = Suggested(|| FINDINGS.iter().map(|kind| kind.id).collect());
/// Ids of remedies.
pub const REMEDY_IDS: Suggested = Suggested(|| REMEDIES.iter().map(|kind| kind.id).collect());
/// What `unstarve help` knows beside commands.
pub const TOPICS: Suggested = Suggested(|| {
    let mut ids: Vec<&str> = Topic::all().map(Topic::id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
});

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// The index of what is chosen by its number, from 1, or by its id; `whose` has these ids.
///
/// # Errors
/// If there is no such number or id; says which there are.
pub fn find(asked: &str, ids: &[&str], what: &str, whose: &str) -> Result<usize> {
    let count = ids.len();
    let asked_for = match asked.parse::<usize>() {
        Ok(number) if (1..=count).contains(&number) => return Ok(number - 1),
        Ok(number) => format!("there is no {what} {number}"),
        Err(_) => match ids.iter().position(|id| *id == asked) {
            Some(at) => return Ok(at),
            None => format!("there is no {what} `{}`", clean(asked)),
        },
    };
    let mut known = ids.to_vec();
    known.dedup();
    match count {
        0 => bail!("{asked_for}: {whose} has none"),
        1 => bail!("{asked_for}: {whose} has one, {}", known.join(", ")),
        _ => bail!("{asked_for}; expected a number from 1 to {count}, or one that {whose} has: {}", known.join(", ")),
    }
}

/// The id that is most like what was typed, by clap's measure; `None` if none is.
pub fn similar<'a>(typed: &str, ids: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let best = ids.map(|id| (strsim::jaro(typed, id), id)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness > ALIKE).map(|(_, id)| id)
}
