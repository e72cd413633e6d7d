//! Exports folded stacks for flame graphs.

use std::collections::BTreeMap;

use unstarve_diagnose::report::Report;
use unstarve_timeline::{Selection, Sink, Wait, World};

use crate::blame::Blame;
use crate::table::is_chosen;
use crate::{Export, ExportError, Out};

/// Writes a line `victim;rule;culprit nanoseconds` for each combination.
pub struct Folded<W> {
    out: W,
    selection: Selection,
    blame: Blame,
}

impl<W: Out> Folded<W> {
    /// Writes the stacks of the waits in `selection` to `out`.
    pub fn new(out: W, selection: Selection) -> Folded<W> {
        Folded { out, selection, blame: Blame::default() }
    }
}

impl<W: Out> Sink for Folded<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if is_chosen(&self.selection, world, wait) {
            self.blame.add(world, wait);
        }
    }
}

impl<W: Out> Export for Folded<W> {
    fn finish(mut self, _: &Report) -> Result<(), ExportError> {
        // Actors with the same name share a frame. Readers expect lines with a common prefix to be adjacent.
        let mut stacks: BTreeMap<[String; 3], u64> = BTreeMap::new();
        for row in self.blame.rows() {
            let frames = [frame(&row.victim.label()), row.rule.to_string(), frame(&row.occupant.label())];
            *stacks.entry(frames).or_default() += row.sum.total.0;
        }
        for (frames, ns) in stacks.iter().filter(|(_, ns)| **ns > 0) {
            writeln!(self.out, "{} {ns}", frames.join(";"))?;
        }
        self.out.flush()?;
        Ok(())
    }
}

/// A name as a single frame: `;` separates frames, and a number after a space would be read as the count of a
/// differential flame graph.
fn frame(name: &str) -> String {
    let name = name.replace(';', "\\x3b");
    match name.rsplit_once(char::is_whitespace) {
        Some((rest, last)) if last.parse::<f64>().is_ok() => format!("{rest}_{last}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn no_frame_ends_in_a_number_after_a_blank() {
        assert_eq!(frame("wl RT 10"), "wl RT_10");
        assert_eq!(frame("a;b 1e3"), "a\\x3bb_1e3");
        assert_eq!(frame("irq 33 virtio0"), "irq 33 virtio0");
        assert_eq!(frame("kworker/0:2"), "kworker/0:2");
    }
}
