//! What texts of tickets prove: scenes of our own, and logs of guests with a known truth.

mod guests;
mod scenes;
