//! The longest waits of a recording, with the occupants of the CPU meanwhile: `longest_waits FILE [COUNT]`.

use std::cmp::Reverse;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use unstarve_trace::{Nanos, Tid, open, waits};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: longest_waits FILE [COUNT]")?;
    let count = arguments.next().map_or(Ok(10), |text| text.parse())?;
    ends_well(print_longest(path.as_ref(), count, &mut io::stdout().lock()))
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

struct LongWait {
    length: Nanos,
    since_start: Nanos,
    task: String,
    tid: Tid,
    pieces: Vec<String>,
}

/// Writes the `count` longest waits, and what makes them uncertain.
pub fn print_longest(path: &Path, count: usize, out: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut longest: Vec<LongWait> = Vec::new();
    let analysis = waits(open(path)?, |world, wait| {
        let length = wait.length();
        let place = longest.partition_point(|kept| kept.length >= length);
        if place >= count {
            return;
        }
        let task = world.tasks.get(wait.task);
        let pieces = wait.pieces.iter();
        let pieces = pieces.map(|piece| format!("{} {} ({})", piece.length, world.name(piece.occupant), piece.rule));
        let since_start = wait.start.since(world.start);
        let kept =
            LongWait { length, since_start, task: task.comm.to_string(), tid: task.tid, pieces: pieces.collect() };
        longest.insert(place, kept);
        longest.truncate(count);
    })?;
    longest.sort_by_key(|wait| Reverse(wait.length));
    for wait in longest {
        let LongWait { length, since_start, task, tid, pieces } = wait;
        writeln!(out, "{length:>9}  {task}[{tid}] from {since_start}: {}", pieces.join(", "))?;
    }
    for loss in analysis.losses {
        writeln!(out, "not certain: {loss}")?;
    }
    Ok(())
}
