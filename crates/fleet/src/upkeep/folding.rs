//! Takes the commits of hours away that were dropped long ago: their numbers get into one file first ([`DroppedHours`]).
//!
//! A run that is killed in between leaves hours that are in both; the next one takes their directories away.

use unstarve_tables::Partition;

use super::sweep::{is_over, remove};
use crate::commit::Name;
use crate::error::{FleetError, chain};
use crate::merge::{Done, Options};
use crate::problem::{Kind, Problem};
use crate::store::{DroppedHours, Hour, Store, Tree};

/// Hours that are folded at the end of a run.
#[derive(Default)]
pub(super) struct Folding(Vec<Partition>);

impl Folding {
    /// Takes an hour that was dropped, if its grace time is over and nothing but its commit is left.
    pub fn look_at(&mut self, hour: &Hour<'_>, options: &Options) {
        let Some(dropped) = hour.commits.iter().find(|made| made.commit.head.dropped) else { return };
        let is_empty =
            hour.hosts.files(Name::Part).next().is_none() && hour.merged.place.is_none() && hour.hourly.place.is_none();
        if is_empty && is_over(dropped.commit.head.at_ns, options.now, options.grace) {
            self.0.push(hour.partition.clone());
        }
    }

    /// Writes them to the file of all, then takes the directories of all that are in it away.
    ///
    /// # Errors
    /// If the file cannot be written, or the store cannot be read.
    pub fn fold(self, store: &Store, dropped: &mut DroppedHours, done: &mut Done) -> Result<(), FleetError> {
        if !self.0.is_empty() {
            let mut more = dropped.clone();
            self.0.iter().for_each(|hour| more.add(hour));
            if more.write(store)? {
                *dropped = more;
            } else {
                let why = "there are too many gaps between the hours that were dropped: commits of some stay";
                Problem::of(Kind::Store, "state", why).add(&mut done.problems);
            }
        }
        // What is wrong with names was said before.
        for hour in store.all_hours(&mut Vec::new())?.iter().filter(|hour| dropped.has(hour)) {
            if let Err(error) = take_away(store, hour, done) {
                Problem::of(Kind::Place, hour.path(), &chain(&error)).add(&mut done.problems);
            }
        }
        Ok(())
    }
}

/// Removes commits of an hour, hosts' files that came late, and the directories that are empty then. Merged files are none of ours.
fn take_away(store: &Store, hour: &Partition, done: &mut Done) -> Result<(), FleetError> {
    for tree in [Tree::State, Tree::Hosts, Tree::Merged, Tree::Hourly] {
        let is_ours = |kind: Name| match tree {
            Tree::State => matches!(kind, Name::Commit(_)),
            Tree::Hosts => kind == Name::Part,
            Tree::Merged | Tree::Hourly => false,
        };
        if let Some(place) = store.place(tree, hour)? {
            let entries = place.list()?.0;
            let names: Vec<&String> = entries
                .iter()
                .filter(|entry| entry.is_regular && is_ours(entry.kind))
                .map(|entry| &entry.name)
                .collect();
            remove(&place, names.into_iter(), done);
        }
        // Where anything is left, they stay.
        if let Some(date) = store.date(tree, hour)? {
            date.remove_empty(&format!("hour={}", hour.hour))?;
        }
        if let Some(table) = store.table(tree, hour)? {
            table.remove_empty(&format!("date={}", hour.date))?;
        }
    }
    Ok(())
}
