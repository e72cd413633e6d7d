//! Removes files that have not counted for the grace period: only those that the newest commit names, after reading the hour again.

use std::time::Duration;

use unstarve_model::WallTime;

use crate::commit::{Input, Name};
use crate::error::{FleetError, chain};
use crate::merge::{Done, Options};
use crate::problem::Problem;
use crate::store::{Depth, Entry, Hour, MAX_INPUT_BYTES, State, digest_of};

/// Removes files from an hour, after checking those that need it.
pub(crate) fn sweep(hour: &Hour<'_>, options: &Options, done: &mut Done) -> Result<(), FleetError> {
    // Problems were reported when the hour was compacted.
    let state = State::of(hour, Depth::Needed, &mut Vec::new())?;
    let mut names: Vec<&str> = state.garbage().into_iter().map(|entry| entry.name.as_str()).collect();
    names.extend(unfinished(&state, options));
    names.extend(superseded(&state, options));
    for input in merged(&state, options) {
        match still_the_same(hour, input) {
            Ok(true) => names.push(&input.name),
            Ok(false) => Problem::new(
                hour.shown(&input.name),
                "it was merged, and is another file now: its rows do not count; a part of a host never changes, so give it another name",
            )
            .add(&mut done.problems),
            Err(error) => Problem::new(hour.shown(&input.name), &chain(&error)).add(&mut done.problems),
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    // The commit that replaces them must be on disk first.
    hour.sync()?;
    for name in names {
        match hour.remove(name) {
            Ok(()) => done.removed += 1,
            // Continue with the others.
            Err(error) => Problem::new(hour.shown(name), &chain(&error)).add(&mut done.problems),
        }
    }
    Ok(())
}

fn is_over(since: u64, now: WallTime, grace: Duration) -> bool {
    u128::from(now.0.saturating_sub(since)) >= grace.as_nanos()
}

fn is_there<'a>(state: &'a State, name: &str) -> Option<&'a Entry> {
    let at = state.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
    Some(&state.entries[at]).filter(|entry| entry.is_regular)
}

/// Files that killed compactors were writing.
fn unfinished<'a>(state: &'a State, options: &Options) -> impl Iterator<Item = &'a str> {
    let (now, grace) = (options.now, options.grace.max(MIN_UNFINISHED_AGE));
    let is_old = move |entry: &&Entry| {
        let written = entry.written.saturating_mul(1_000_000_000);
        entry.is_regular && Hour::is_hidden(&entry.name) && is_over(written, now, grace)
    };
    state.entries.iter().filter(is_old).map(|entry| entry.name.as_str())
}

/// A file that is still being written is younger.
const MIN_UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// Older commits and their outputs; for a dropped hour also everything that hosts wrote.
fn superseded<'a>(state: &'a State, options: &Options) -> Vec<&'a str> {
    let Some(commit) = &state.commit else { return Vec::new() };
    let (head, over) = (&commit.head, |since: u64| is_over(since, options.now, options.grace));
    let retired = head.retired.iter().chain(&head.retired_hourly).filter(|old| over(old.at_ns));
    let retired = retired.map(|old| old.name.as_str());
    let mut names: Vec<&str> = retired.filter(|name| is_there(state, name).is_some()).collect();
    if over(head.at_ns) {
        let is_old = |entry: &&Entry| match entry.kind {
            Name::Commit(number) => number < head.number,
            Name::Part => head.dropped,
            Name::Merged(_) | Name::Hourly(_) | Name::Other => false,
        };
        names.extend(
            state.entries.iter().filter(|entry| entry.is_regular).filter(is_old).map(|entry| entry.name.as_str()),
        );
    }
    names
}

/// Hosts' files that were merged long enough ago and still exist.
fn merged<'a>(state: &'a State, options: &Options) -> impl Iterator<Item = &'a Input> {
    // Hosts' files stay while any output of the commit is missing or has another size.
    let listed = state.commit.iter().flat_map(|commit| &commit.head.outputs);
    let is_whole =
        listed.into_iter().all(|output| is_there(state, &output.name).is_some_and(|entry| entry.bytes == output.bytes));
    let inputs = state.commit.iter().filter(move |_| is_whole).flat_map(|commit| &commit.inputs);
    let (now, grace) = (options.now, options.grace);
    inputs.filter(move |input| is_over(input.at_ns, now, grace)).filter(|input| is_there(state, &input.name).is_some())
}

fn still_the_same(hour: &Hour<'_>, input: &Input) -> Result<bool, FleetError> {
    let content = hour.read(&input.name, MAX_INPUT_BYTES)?;
    Ok(content
        .is_none_or(|content| content.bytes.len() as u64 == input.bytes && digest_of(&content.bytes) == input.digest))
}
