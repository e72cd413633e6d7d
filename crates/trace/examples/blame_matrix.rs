//! Who waits for whom, and how long in all: `blame_matrix FILE`.
//!
//! A row for each kind of waiting task, a column for each occupant that took the CPU from one of them, the largest first.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use unstarve_trace::{ActorId, Nanos, Policy, World, open, waits};

/// The rows and columns that are printed.
const ROWS: usize = 8;
const COLUMNS: usize = 5;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let path = std::env::args().nth(1).ok_or("usage: blame_matrix FILE")?;
    ends_well(print_matrix(path.as_ref(), &mut io::stdout().lock()))
}

/// A closed pipe (`| head`) is no error.
pub fn ends_well(result: Result<(), Box<dyn Error + Send + Sync>>) -> Result<(), Box<dyn Error + Send + Sync>> {
    match result {
        Err(error)
            if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Writes the matrix, and what makes it uncertain.
pub fn print_matrix(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut blame: BTreeMap<(ActorId, ActorId), Nanos> = BTreeMap::new();
    let analysis = waits(open(path)?, |_, wait| {
        for piece in wait.pieces {
            *blame.entry((wait.actor, piece.occupant)).or_default() += piece.length;
        }
    })?;
    let world = analysis.world().ok_or("no scheduler events in this recording")?;
    let victims = largest(blame.iter().map(|((victim, _), length)| (*victim, *length)), ROWS);
    let occupants = largest(blame.iter().map(|((_, occupant), length)| (*occupant, *length)), COLUMNS);
    write!(out, "{:16}", "waited for:")?;
    for occupant in &occupants {
        write!(out, " {:>16}", label(world, *occupant))?;
    }
    writeln!(out)?;
    for victim in victims {
        write!(out, "{:16}", label(world, victim))?;
        for occupant in &occupants {
            let length = blame.get(&(victim, *occupant)).map_or("-".to_owned(), Nanos::to_string);
            write!(out, " {length:>16}")?;
        }
        writeln!(out)?;
    }
    for loss in &analysis.losses {
        writeln!(out, "not certain: {loss}")?;
    }
    Ok(())
}

/// Tasks of one name are several actors if their priorities differ.
fn label(world: &World, actor: ActorId) -> String {
    match world.actors.get(actor).policy() {
        Some(policy @ (Policy::Rt | Policy::Deadline)) => format!("{} ({policy})", world.name(actor)),
        _ => world.name(actor),
    }
}

/// The actors with the largest sums.
fn largest(parts: impl Iterator<Item = (ActorId, Nanos)>, count: usize) -> Vec<ActorId> {
    let mut sums: BTreeMap<ActorId, Nanos> = BTreeMap::new();
    for (actor, length) in parts {
        *sums.entry(actor).or_default() += length;
    }
    let mut actors: Vec<ActorId> = sums.keys().copied().collect();
    actors.sort_by_key(|actor| std::cmp::Reverse(sums[actor]));
    actors.truncate(count);
    actors
}
