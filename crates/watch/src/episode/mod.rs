//! Episodes: detects when one begins and ends ([`Detector`]) and describes it. Pure: takes readings and reports, does no I/O.

mod begun;
mod by_table;
mod causes;
mod cpu_monopoly;
#[cfg(test)]
mod crowd_tests;
mod culprit;
mod detect;
mod end;
#[cfg(test)]
mod end_tests;
mod finish;
mod heading;
mod headline;
mod ignore_filter;
mod line;
mod open_episode;
mod pair;
mod record;
mod remark;
pub mod settings;
mod task_names;
mod threshold;
mod throttled_group;
mod trigger;
mod truncate_path;
mod verdict;

pub use crate::engine::reading::Place;
pub use begun::Begun;
pub use detect::{Detector, Joined, Said, Step};
pub(crate) use end::End;
pub use end::{EndReason, Ended, Totals};
pub use headline::Explanation;
pub use line::{began, line, line_with_command, of_party, unfinished_line};
pub use open_episode::Cause;
pub use record::{Episode, FirstRemedy, GuardWord, OtherFinding, Party, SCHEMA, Seen, Stage, Suffered, id_of, is_id};
pub use trigger::Trigger;
pub use verdict::Suffering;
