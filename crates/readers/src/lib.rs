//! Readers of recorded scheduler events, and the writer of `trace.dat`.
//!
//! Every reader is a [`unstarve_model::EventSource`]: it yields batches of events in time order, in bounded memory, and
//! reports at the end what could not be read. [`open`] detects the format by content.
//!
//! | module | what it is |
//! |---|---|
//! | [`open`](mod@open), [`input`] | format detection and unpacking; bytes from files and pipes |
//! | [`trace_dat`] | reader of `trace.dat` v6 and v7 |
//! | [`trace_dat_write`] | writer of `trace.dat` v6, for recorders |
//! | [`kbuffer`] | pages (sub-buffers) of the kernel's ring buffer |
//! | [`format`](mod@format) | parser of the kernel's event formats |
//! | [`decode`] | raw records to events, for every format that contains raw records |
//! | [`ftrace_text`] | `trace`, `trace_pipe`, output of `trace-cmd report`, and dumps in the kernel log |
//! | [`systrace_page`] | ftrace text in HTML pages of Android's systrace |
//! | [`lttng_text`] | output of `babeltrace2` for LTTng kernel traces |
//! | [`foreign`] | recognises files that cannot be read, and says what to do with them |
//! | [`perf_data`] | files and pipes of `perf record` and `perf sched record` |
//! | [`perf_script`] | output of `perf script`, also pasted into mails |
//! | [`perfetto`] | Perfetto's protobuf traces |
//! | [`visit`] | every file in a bundle, archives in archives too |
//! | [`interner`](Interner), [`symbols`] | ids of long names; function names from kallsyms |

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
mod sign;
mod switch_records;
pub mod symbols;
pub mod systrace_page;
mod task_names;
mod text;
pub mod trace_dat;
pub mod trace_dat_write;
mod unpack;
mod work_stack;

pub use decode::Decoder;
pub use endian::Endian;
pub use input::{Input, Positioned, open_file};
pub use interner::Interner;
pub use open::{OpenError, has_no_events, open, open_input, open_stdin, recording_format};
pub use prev_state::StateBits;
pub use sign::TICK_FUNCTIONS;
pub use text::lines::Lines;
pub use unpack::Allowance;
pub use unpack::visit::{self, Depth, LeftOut, Visitor};
