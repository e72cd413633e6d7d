//! Functions of ours.

mod hist_quantile;
mod hist_sum;
mod role;
mod share;
mod wide_sum;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

/// A function for the prompt's help.
pub struct Help {
    /// How it is called.
    pub call: &'static str,
    /// What it gives.
    pub meaning: &'static str,
}

/// All of them.
pub const FUNCTIONS: [Help; 4] = [
    Help {
        call: "hist_quantile(buckets, q)",
        meaning: "ns below which the part q of the waits of a histogram is; empty without waits",
    },
    Help { call: "hist_sum(buckets)", meaning: "aggregate: histograms added up" },
    Help { call: "role(comm)", meaning: "what a task of this name is: kworker, ksoftirqd, rcu, …, else task" },
    Help { call: "share(ns, dt)", meaning: "ns as a part of dt; empty where dt is 0" },
];

/// Those of a row.
pub fn scalar() -> [ScalarUDF; 3] {
    [hist_quantile::function(), role::function(), share::function()]
}

/// Those of many rows.
pub fn aggregate() -> [AggregateUDF; 2] {
    [hist_sum::function(), wide_sum::function()]
}

/// Makes them known.
pub fn register(session: &SessionContext) {
    scalar().into_iter().for_each(|function| session.register_udf(function));
    aggregate().into_iter().for_each(|function| session.register_udaf(function));
}
