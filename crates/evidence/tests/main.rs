//! Evidence from outside: bundles, several texts, long logs.

mod bundles;
mod rewrapped;
