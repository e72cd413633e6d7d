//! The report as one self-contained HTML file.
//!
//! A [`Collector`] listens while `unstarve_diagnose::explain_beside` analyses a trace; [`Trace::new`] puts what it
//! collected and the report together, and [`html`] writes the file: the page's program and style (built from `web/`,
//! committed in `assets/`), and the data as one compressed blob. A content security policy allows exactly this program
//! and this style, by hash: nothing else in the file can run, whatever tasks call themselves.
//!
//! | module | what it is |
//! |---|---|
//! | `collect` | sums and details, filled on the way, bounded |
//! | `data` | from those to what the page shows |
//! | `blob` | JSON and columns of numbers in one piece |
//! | `html` | the file |
//! | `fleet` | the page of many hosts, of what `unstarve sql` found |
//! | `live` | the page of a running `unstarve watch` |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod blob;
mod collect;
mod data;
pub mod fleet;
mod html;
pub mod live;
#[cfg(test)]
mod typescript;

pub use collect::Collector;
pub use data::Trace;
pub use fleet::fleet_html;
pub use html::{PageError, comparison_html, html};
