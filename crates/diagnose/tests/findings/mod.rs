//! Every finding on a small scene that shows it, and on its healthy twin.

mod class;
mod deadline;
mod families;
mod interrupts;
mod marks;
mod options;
mod placement;
mod pollers;
mod reasons;
mod remedies;
pub mod scene;
mod selections;
mod sessions;
mod sharing;
mod weight;
