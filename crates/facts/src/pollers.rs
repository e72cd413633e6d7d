//! Programs whose threads poll in a loop instead of sleeping.

use crate::{Row, Table};

/// Programs known to poll: their threads' names, what sets their CPUs, and what to do about it. Where one has several
/// rows, the first that fits counts.
pub const POLLERS: Table = Table::new(include_str!("../data/pollers.tsv"), "poller", "confidence");

/// A row of [`POLLERS`].
#[derive(Clone, Copy, Debug)]
pub struct Poller(Row);

impl Poller {
    /// The poller whose threads have such a name. `runs` returns whether a task of this name is on the host: it
    /// decides which product the thread belongs to.
    pub fn of_thread(name: &str, runs: impl Fn(&str) -> bool) -> Option<Poller> {
        let fits = |row: &Row| listed(*row, "threads").any(|pattern| is_named(name, pattern));
        let is_there = |row: &Row| row.get("beside").is_none() || listed(*row, "beside").any(&runs);
        POLLERS.rows().filter(|row| row.is_stated() && fits(row)).find(is_there).map(Poller)
    }

    /// Its id.
    pub fn id(self) -> &'static str {
        self.0.name()
    }

    /// What such a thread is: `SPDK reactor`.
    pub fn what(self) -> &'static str {
        self.text("what")
    }

    /// Whether it polls even if there is nothing to do, unless it was set up otherwise.
    pub fn always_polls(self) -> bool {
        self.0.get("polls") == Some("always")
    }

    /// What decides on which CPUs it runs.
    pub fn set_by(self) -> &'static str {
        self.text("set_by")
    }

    /// How it is kept off a CPU, or made to sleep.
    pub fn advice(self) -> &'static str {
        self.text("advice")
    }

    /// The source of this knowledge.
    pub fn source(self) -> &'static str {
        self.text("source")
    }

    fn text(self, column: &str) -> &'static str {
        self.0.get(column).unwrap_or_default()
    }
}

fn listed(row: Row, column: &str) -> impl Iterator<Item = &'static str> {
    row.get(column).unwrap_or_default().split(", ")
}

/// Whether a name fits a pattern, in which `#` stands for a number. Names end after 15 bytes.
fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.split_once('#') {
        None => name == pattern,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            let number = rest.bytes().take_while(u8::is_ascii_digit).count();
            number > 0 && is_named(&rest[number..], tail)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_name_and_the_product_beside_it() {
        let alone = |name: &str| Poller::of_thread(name, |_| false).map_or("-", Poller::id);
        let table = [
            ("reactor_0", "spdk"),
            ("reactor_12", "spdk"),
            ("reactor_", "-"),
            ("reactor_x", "-"),
            ("reactor-3", "seastar"),
            ("lcore-worker-12", "dpdk"),
            ("dpdk-worker7", "dpdk"),
            ("dpdk-worker", "-"),
            ("dpdk-testpmd", "dpdk"),
            ("pmd-c01/id:8", "ovs"),
            ("pmd-c01", "-"),
            ("pmd73", "ovs"),
            ("vpp_wk_0", "vpp"),
            ("vpp_main", "-"),
            ("vhost-4711", "vhost"),
            ("vhost-4711-1", "-"),
            ("IO iothread1", "qemu-iothread"),
            ("kworker/0:1", "-"),
            ("fio", "-"),
        ];
        for (name, expected) in table {
            assert_eq!(alone(name), expected, "{name}");
        }
        let longhorn = |name: &str| name == "longhorn-instan";
        assert_eq!(Poller::of_thread("reactor_0", longhorn).map(Poller::id), Some("longhorn"));
        assert_eq!(Poller::of_thread("pmd7", longhorn).map(Poller::id), Some("ovs"));
    }

    #[test]
    fn every_row_is_whole() {
        for row in POLLERS.rows() {
            let poller = Poller(row);
            assert!(["always", "may"].contains(&poller.text("polls")), "{}", poller.id());
            for text in [poller.what(), poller.set_by(), poller.advice(), poller.source()] {
                assert!(!text.is_empty(), "{}", poller.id());
            }
            assert!(poller.advice().ends_with('.'), "{}", poller.id());
            for pattern in listed(row, "threads") {
                assert!(pattern.len() <= 15, "{}: no name is as long as {pattern}", poller.id());
            }
        }
    }
}
