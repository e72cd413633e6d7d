//! `unstarve top`: which threads starve now.
//!
//! [`Window`] is a [`Sink`](unstarve_timeline::Sink) that keeps sums by task over the last seconds, [`Counted`] keeps
//! what the kernel has summed up by role. [`View`] is what is shown of them, as plain data. [`draw`] draws a view on a
//! terminal; 80 by 24 shows all columns, 40 shows victims and culprits, 120 and more a pane about the row with the cursor. No I/O: the program supplies events, keys and the
//! terminal.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod app;
mod counted;
mod cpus;
mod detail;
mod group;
mod headline;
mod history;
mod panes;
mod policies;
mod remedies;
mod screen;
mod side;
mod view;
mod window;

pub use app::{Action, App, Key};
pub use counted::{Accounted, Counted, CountedLook};
pub use cpus::CpuView;
pub use detail::{Detail, WaitLine, Waker, WorkLine};
pub use screen::{LEGEND, draw};
pub use view::{FixableRecording, Order, Piece, Row, RowsBy, View, ViewContext};
pub use window::Window;
