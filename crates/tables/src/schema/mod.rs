//! Every table, with its meaning and columns.

mod hosts;
mod rollups;
mod traces;

use crate::Column;

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Its name, also used in paths and file names.
    pub name: &'static str,
    /// The meaning of a row, for people.
    pub meaning: &'static str,
    /// What writes it, for people.
    pub writer: &'static str,
    /// Its columns, in the order of the file. New columns are appended; none is ever removed.
    pub columns: &'static [Column],
    /// How its rows are merged by hour, if they are.
    pub hourly: Option<Hourly>,
}

/// How to merge the rows of an hour that differ only in time and numbers. The result has the same columns; those not
/// listed here are equal in all merged rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hourly {
    /// The table of merged rows, for queries that do not need finer times.
    pub name: &'static str,
    /// How columns that may differ are merged.
    pub folds: &'static [(&'static str, Fold)],
}

/// How several cells are merged; empty ones are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The first moment.
    First,
    /// The sum of integers.
    Added,
    /// The largest number.
    Greatest,
    /// Histograms, added bucket by bucket.
    Histogram,
}

const WRITTEN_BY_EXPORT: &str = "`unstarve export`";
const WRITTEN_BY_WATCH: &str = "`unstarve watch` with `[tables]`";

/// A row for each wait.
pub const WAITS: Schema = Schema {
    name: "waits",
    meaning: "a row for each wait of a recording",
    writer: WRITTEN_BY_EXPORT,
    columns: traces::WAIT_COLUMNS,
    hourly: None,
};
/// A row for each wait, occupant and rule.
pub const PIECES: Schema = Schema {
    name: "pieces",
    meaning: "a row for each wait, occupant and rule of a recording; the pieces of a wait add up to it",
    writer: WRITTEN_BY_EXPORT,
    columns: traces::PIECE_COLUMNS,
    hourly: None,
};
/// A row for each victim, occupant and rule: sums.
pub const BLAME: Schema = Schema {
    name: "blame",
    meaning: "sums of a recording: a row for each victim, occupant and rule",
    writer: WRITTEN_BY_EXPORT,
    columns: traces::BLAME_COLUMNS,
    hourly: None,
};
/// A row for each finding.
pub const FINDINGS: Schema = Schema {
    name: "findings",
    meaning: "a row for each finding of `unstarve explain` in a recording",
    writer: WRITTEN_BY_EXPORT,
    columns: traces::FINDING_COLUMNS,
    hourly: None,
};
/// A row for each host and time at which it was read.
pub const HOSTS: Schema = Schema {
    name: "hosts",
    meaning: "a row each time that a host was looked at",
    writer: "`unstarve watch` with `[tables]`, each hour; `unstarve snapshot --tables`",
    columns: hosts::HOST_COLUMNS,
    hourly: None,
};
/// A row for each setting of a host.
pub const SETTINGS: Schema = Schema {
    name: "settings",
    meaning: "a row for each setting of a host that bears on scheduling",
    writer: "`unstarve snapshot --tables`",
    columns: hosts::SETTING_COLUMNS,
    hourly: None,
};
/// A row for each role and interval.
pub const WAIT_ROLLUP: Schema = Schema {
    name: "wait_rollup",
    meaning: "sums of a host: a row for each role whose tasks waited in an interval",
    writer: WRITTEN_BY_WATCH,
    columns: rollups::WAIT_ROLLUP,
    hourly: Some(Hourly { name: "wait_hourly", folds: rollups::WAIT_FOLDS }),
};
/// A row for each victim, occupant, rule and interval.
pub const BLAME_ROLLUP: Schema = Schema {
    name: "blame_rollup",
    meaning: "sums of a host: a row for each victim, occupant and rule in an interval; over a victim they are `sum_ns` of \
              `wait_rollup`",
    writer: WRITTEN_BY_WATCH,
    columns: rollups::BLAME_ROLLUP,
    hourly: Some(Hourly { name: "blame_hourly", folds: rollups::BLAME_FOLDS }),
};
/// A row for each episode.
pub const EPISODES: Schema = Schema {
    name: "episodes",
    meaning: "a row for each episode of `unstarve watch`",
    writer: WRITTEN_BY_WATCH,
    columns: rollups::EPISODE_COLUMNS,
    hourly: None,
};
/// A row for each proof of a remedy.
pub const PROOFS: Schema = Schema {
    name: "proofs",
    meaning: "what a remedy was proved to do on a real kernel",
    writer: "`unstarve lab proofs --parquet`, also what ships with the program",
    columns: hosts::PROOF_COLUMNS,
    hourly: None,
};

/// A row for each scenario on each kernel.
pub const KERNEL_CELLS: Schema = Schema {
    name: "kernel_cells",
    meaning: "which threads a real kernel starves in a scenario of the lab",
    writer: "`unstarve lab table --parquet`",
    columns: hosts::KERNEL_CELL_COLUMNS,
    hourly: None,
};

/// All tables.
pub const ALL: [&Schema; 11] = [
    &HOSTS,
    &WAIT_ROLLUP,
    &BLAME_ROLLUP,
    &EPISODES,
    &FINDINGS,
    &SETTINGS,
    &PROOFS,
    &KERNEL_CELLS,
    &WAITS,
    &PIECES,
    &BLAME,
];

/// The table of this name.
pub fn named(name: &str) -> Option<&'static Schema> {
    ALL.into_iter().find(|schema| schema.name == name)
}
