//! Who is starving whom now.
//!
//! [`Window`] is a [`Sink`](unstarve_timeline::Sink) that keeps sums by task over the last seconds; [`View`] is what of it is
//! shown, as plain data; [`draw`] puts a view on a terminal of at least 80 by 24. No I/O: the program brings events, keys and
//! the terminal.

mod app;
mod screen;
mod view;
mod window;

pub use app::{Action, App, Key};
pub use screen::{LEGEND, draw};
pub use view::{Detail, Order, Piece, Row, View, WaitLine, Waker, WorkLine};
pub use window::Window;
