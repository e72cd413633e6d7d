//! What texts of tickets prove: scenes of our own, logs of guests with a known truth, bundles, texts as they arrive.

mod bundles;
mod damaged;
mod guests;
mod lists;
mod loggers;
mod rewrapped;
mod scenes;
