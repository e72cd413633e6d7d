//! Functions of ours.

mod hist_quantile;
mod hist_sum;
mod role;
mod share;
mod wide_sum;

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

/// Makes them known.
pub fn register(session: &SessionContext) {
    for function in [hist_quantile::function(), role::function(), share::function()] {
        session.register_udf(function);
    }
    for function in [hist_sum::function(), wide_sum::function()] {
        session.register_udaf(function);
    }
}
