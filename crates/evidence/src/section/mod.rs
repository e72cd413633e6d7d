//! Tables and dumps in a text: lists of threads, dumps of the scheduler, output of tools. Each begins with a line of its own and
//! takes the lines after it while they fit.

mod sched_debug;
mod threads;

use crate::fact::{Facts, Spot};

/// What became of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It belongs to the section.
    Line,
    /// It does not, but the section may go on: a blank line, a message of the kernel in between.
    Nothing,
    /// The section is over, and the line is not part of it.
    End,
}

/// A section that is being read.
pub trait Section {
    /// What it is, for people: `list of threads (ps)`.
    fn name(&self) -> &'static str;
    /// Takes a line.
    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took;
    /// Adds what is only known at the end.
    fn finish(&mut self, _facts: &mut Facts) {}
}

/// A kind of section.
struct Kind {
    /// Parts of its first line.
    triggers: &'static [&'static str],
    /// Begins one, if this is its first line. The number is the file's place among all.
    open: fn(&str, u32) -> Option<Box<dyn Section>>,
}

const KINDS: &[Kind] = &[threads::KIND, sched_debug::KIND];

/// Words by which first lines are found.
pub fn triggers() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|kind| kind.triggers).copied()
}

/// The section that begins with this line.
pub fn opened(text: &str, file: u32) -> Option<Box<dyn Section>> {
    KINDS.iter().find_map(|kind| (kind.open)(text, file))
}
