//! The four trees of a store, each of the same layout below it: `table=NAME/date=YYYY-MM-DD/hour=HH/`.

use unstarve_tables::LAYOUT_NAME;

/// A tree of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tree {
    /// Files of hosts, as they were copied. Anybody may write here.
    Hosts,
    /// Merged rows: each row once, and nothing else. Only a compactor writes here, and in the other two.
    Merged,
    /// Rows by the hour, beside merged ones: a file of the same name for some of them.
    Hourly,
    /// Commits, and files that have not got their place yet.
    State,
}

impl Tree {
    /// The names of its directories, from the store's.
    pub fn steps(self) -> [&'static str; 2] {
        let name = match self {
            Tree::Hosts => "hosts",
            Tree::Merged => "merged",
            Tree::Hourly => "hourly",
            Tree::State => "state",
        };
        [name, LAYOUT_NAME]
    }

    /// Whether only a compactor may write here.
    pub fn is_ours(self) -> bool {
        self != Tree::Hosts
    }
}
