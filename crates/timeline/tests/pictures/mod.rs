//! What the timeline makes of small scenes: each rule, each way a wait begins, moves and ends.

mod beginnings;
mod gaps;
mod limits;
mod rules;
mod stays;
mod throughout;

use crate::scene;
use unstarve_timeline::NoSettings;

fn drawn(text: &str) -> String {
    scene::waits(Box::new(NoSettings), text)
}
