//! All tests of this crate that run side by side: one program, so that it is linked once.

mod authority;
mod by_name;
mod each_kind;
mod kill_points;
mod sessions;
mod settings;
