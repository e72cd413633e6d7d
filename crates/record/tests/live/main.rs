//! Records on the machine that runs the tests. Needs root and tracefs; without them each test says what is missing.
//!
//! The recorder under test is this program again (see [`child`]), so that it can be killed. Everything mounted here is
//! in a mount namespace of our own and ends with it.

mod attack;
mod child;
mod ends;
mod flight;
mod host;
mod loads;
mod names;
mod salvage;
mod starved;
mod whole;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// The outcome of a test: it measured, or says why it could not.
type Outcome = Result<Completion, Failed>;

/// A test: its name and function.
type Test = (&'static str, fn() -> Outcome);

const TESTS: [Test; 28] = [
    ("trace_cmd_and_our_reader_see_every_event", whole::trace_cmd_and_our_reader_see_every_event),
    ("nothing_is_lost_at_200k_switches_a_second", whole::nothing_is_lost_at_200k_switches_a_second),
    ("lost_events_are_counted_and_in_the_file", whole::lost_events_are_counted_and_in_the_file),
    ("block_events_are_recorded_on_demand", whole::block_events_are_recorded_on_demand),
    ("what_predictions_need_is_recorded_on_demand", whole::what_predictions_need_is_recorded_on_demand),
    ("a_command_s_own_tasks_are_in_the_snapshot", whole::a_command_s_own_tasks_are_in_the_snapshot),
    ("new_names_and_lent_priorities_are_recorded", whole::new_names_and_lent_priorities_are_recorded),
    ("works_where_tracefs_is_mounted", whole::works_where_tracefs_is_mounted),
    ("ends_after_the_time_given", ends::ends_after_the_time_given),
    ("sigint_ends_it_cleanly_even_if_ignored_at_start", ends::sigint_ends_it_cleanly_even_if_ignored_at_start),
    ("sigterm_is_handed_on_to_the_command", ends::sigterm_is_handed_on_to_the_command),
    ("the_command_s_exit_code_comes_back", ends::the_command_s_exit_code_comes_back),
    ("a_command_that_does_not_exist_leaves_nothing", ends::a_command_that_does_not_exist_leaves_nothing),
    ("a_full_disk_leaves_nothing", ends::a_full_disk_leaves_nothing),
    ("nothing_is_left_of_the_time_before", flight::nothing_is_left_of_the_time_before),
    ("two_recorders_at_once", ends::two_recorders_at_once),
    ("what_a_killed_recorder_left_goes_with_the_next", ends::what_a_killed_recorder_left_goes_with_the_next),
    ("no_instance_is_left_of_fifty_killed_recorders", ends::no_instance_is_left_of_fifty_killed_recorders),
    ("what_cannot_be_salvaged_is_removed", salvage::what_cannot_be_salvaged_is_removed),
    ("a_disk_is_not_filled", ends::a_disk_is_not_filled),
    ("a_size_that_was_asked_for_is_kept", ends::a_size_that_was_asked_for_is_kept),
    ("what_a_killed_recorder_recorded_is_salvaged", salvage::what_a_killed_recorder_recorded_is_salvaged),
    ("events_come_at_once_behind_a_hog", starved::events_come_at_once_behind_a_hog),
    ("whoever_owns_the_directory_gains_nothing", attack::whoever_owns_the_directory_gains_nothing),
    ("nodes_and_links_are_never_replaced", attack::nodes_and_links_are_never_replaced),
    ("no_name_of_a_process_is_in_a_redacted_file", names::no_name_of_a_process_is_in_a_redacted_file),
    ("a_killed_recorder_leaves_no_name_either", names::a_killed_recorder_leaves_no_name_either),
    ("without_privileges_it_says_what_to_do", ends::without_privileges_it_says_what_to_do),
];

fn main() -> ExitCode {
    if let Some(code) = child::act() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // One recording at a time: they would see each other's load.
    arguments.test_threads = Some(1);
    let obstacle = host::prepare().err();
    let trials = TESTS
        .into_iter()
        .map(|(name, test)| {
            let obstacle = obstacle.clone();
            let run = move || match obstacle {
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => test(),
            };
            Trial::ignorable_test(name, run).with_ignored_flag(true)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
