//! Compares an application's own latency log with a trace.
//!
//! [`Log::read`] reads fio's JSON and latency logs, HdrHistogram logs and CSV, and detects the format by content.
//! [`Watch`] is a [`Sink`](unstarve_timeline::Sink) that finds which latency spikes coincide with which waits. No I/O.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod csv_log;
mod fio;
mod hdr;
mod log;
mod watch;

pub use log::{Log, LogError, Point, Stats};
pub use watch::{Align, AlignError, Coincidence, Latency, Spike, Watch};
