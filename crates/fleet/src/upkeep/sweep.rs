//! Removes hosts' files that were merged longer ago than the grace period, and what killed runs left.

use std::time::Duration;

use unstarve_model::WallTime;

use crate::commit::{Input, Name};
use crate::error::{FleetError, chain};
use crate::merge::{Done, Options};
use crate::problem::Problem;
use crate::store::{Hour, MAX_INPUT_BYTES, Place, digest_of};

/// Removes files of an hour, after checking those that need it.
pub(super) fn sweep(hour: &Hour<'_>, options: &Options, done: &mut Done) -> Result<(), FleetError> {
    if let Some(state) = &hour.state.place {
        let older = hour.commits.iter().filter(|made| hour.is_dropped() && !made.commit.head.dropped);
        let older = older.map(|made| Name::commit(made.commit.head.number));
        let names: Vec<String> = hour.garbage().map(|entry| entry.name.clone()).chain(older).collect();
        remove(state, names.iter(), done);
    }
    let Some(hosts) = &hour.hosts.place else { return Ok(()) };
    let mut names: Vec<&String> = Vec::new();
    if let Some(dropped) = hour.commits.iter().find(|made| made.commit.head.dropped) {
        if is_over(dropped.commit.head.at_ns, options.now, options.grace) {
            names.extend(hour.hosts.files(Name::Part).map(|entry| &entry.name));
        }
    } else {
        let over = hour.merged_inputs().filter(|(since, _)| is_over(*since, options.now, options.grace));
        for (_, input) in over {
            match still_the_same(hosts, input) {
                Ok(true) => names.push(&input.name),
                Ok(false) => Problem::new(
                    hosts.shown(&input.name),
                    "it was merged, and is another file now: its rows do not count; a part of a host never changes, so give it another name",
                )
                .add(&mut done.problems),
                Err(error) => Problem::new(hosts.shown(&input.name), &chain(&error)).add(&mut done.problems),
            }
        }
    }
    remove(hosts, names.into_iter(), done);
    Ok(())
}

/// Removes files; one that cannot be removed is a problem, and the others go.
pub(super) fn remove<'n>(place: &Place<'_>, names: impl Iterator<Item = &'n String>, done: &mut Done) {
    for name in names {
        match place.remove(name) {
            Ok(()) => done.removed += 1,
            Err(error) => Problem::new(place.shown(name), &chain(&error)).add(&mut done.problems),
        }
    }
}

pub(super) fn is_over(since: u64, now: WallTime, grace: Duration) -> bool {
    u128::from(now.0.saturating_sub(since)) >= grace.as_nanos()
}

fn still_the_same(hosts: &Place<'_>, input: &Input) -> Result<bool, FleetError> {
    let content = hosts.read(&input.name, MAX_INPUT_BYTES)?;
    Ok(content
        .is_none_or(|content| content.bytes.len() as u64 == input.bytes && digest_of(&content.bytes) == input.digest))
}
