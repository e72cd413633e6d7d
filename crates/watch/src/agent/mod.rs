//! The agent: reads an engine continuously, has episodes recorded and explained, and publishes them.

pub mod alert_sender;
pub mod board;
pub mod config;
pub mod control;
pub mod episode_publisher;
pub mod explainer;
pub mod guard_status;
pub mod history;
pub mod instance_lock;
pub(crate) mod last_words;
pub mod machine;
pub mod machine_pause;
pub mod memory;
pub mod outputs;
pub mod pod_names;
pub mod priority_boost;
pub mod ranking;
pub mod rights;
pub mod rollup;
pub mod run;
pub mod series;
pub mod store;
pub mod trace_writer;
pub mod workload_series;
