//! Readers of recorded scheduler events, and the writer of `trace.dat`.
//!
//! Every reader is a [`unstarve_model::EventSource`]: it gives batches of events in time order, in bounded memory, and
//! says at the end what the file could not. [`open`] tells formats apart by content.
//!
//! | module | what it is |
//! |---|---|
//! | [`open`](mod@open), [`input`] | tells formats apart, unpacks; bytes from files and pipes |
//! | [`trace_dat`] | reader of `trace.dat` v6 and v7 |
//! | [`trace_dat_write`] | writer of `trace.dat` v6, for recorders |
//! | [`kbuffer`] | pages of the kernel's ring buffer |
//! | [`format`](mod@format) | the kernel's text that describes an event's fields |
//! | [`decode`] | raw records to events, compiled from those texts; for every format with raw records |
//! | [`ftrace_text`] | `trace`, `trace_pipe`, what `trace-cmd report` prints, and dumps in the kernel's log |
//! | [`systrace_page`] | ftrace's text in HTML pages of Android's systrace |
//! | [`lttng_text`] | what `babeltrace2` prints of LTTng's kernel traces |
//! | [`foreign`] | what files are that nothing here reads, and what to do with them |
//! | [`perf_data`] | files and pipes of `perf record` and `perf sched record` |
//! | [`perf_script`] | what `perf script` prints, pasted into mails too |
//! | [`perfetto`] | Perfetto's protobuf traces |
//! | [`interner`](Interner), [`symbols`] | ids of long names; names of function addresses out of kallsyms |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod decode;
mod endian;
pub mod foreign;
pub mod format;
pub mod ftrace_text;
mod heap;
pub mod input;
mod interner;
pub mod kbuffer;
pub mod lttng_text;
mod malformed;
pub mod open;
pub mod perf_data;
pub mod perf_script;
pub mod perfetto;
#[cfg(test)]
mod picture;
mod prev_state;
mod reorder;
mod shifted_states;
mod switch_records;
pub mod symbols;
pub mod systrace_page;
mod task_names;
mod text;
mod tick;
pub mod trace_dat;
pub mod trace_dat_write;
mod unpack;
mod work_stack;

pub use decode::Decoder;
pub use endian::Endian;
pub use input::{Input, Positioned};
pub use interner::Interner;
pub use open::{OpenError, open, open_input, open_stdin};
pub use prev_state::StateBits;
