//! An application's own latency next to a trace.
//!
//! [`Log::read`] tells fio's JSON and latency logs, HdrHistogram logs and CSV apart by content; [`Watch`] is a
//! [`Sink`](unstarve_timeline::Sink) that says which spikes coincide with which waits, and which do not. No I/O.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod csv_log;
mod fio;
mod hdr;
mod log;
mod watch;

pub use log::{Log, LogError, Point, Stats};
pub use watch::{Align, AlignError, Coincidence, Latency, Spike, Watch};
