//! The engine in this machine's kernel, beside loads that the tests start themselves, and what `explain`'s timeline makes of the
//! same seconds.
//!
//! They need root, so `cargo test` leaves them out; `make test` runs them, one after another. The program runs itself as the load.

mod agreement;
mod asked;
mod churn;
mod daemon;
mod fallback;
mod lasting;
mod limited;
mod overlapping;
mod pods;
#[cfg(feature = "bpf")]
mod quiet;
mod raised;
mod reused;
#[cfg(feature = "bpf")]
mod slots;
mod stage;
#[cfg(feature = "bpf")]
mod table;

use clap::Parser;
use libtest_mimic::{Arguments, Trial};

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args();
    let first = arguments.nth(1);
    if first.as_deref() == Some(raised::LOAD) {
        raised::run_load();
        return std::process::ExitCode::SUCCESS;
    }
    if first.as_deref() == Some("load") {
        unstarve_load::run(unstarve_load::Args::parse_from(std::iter::once("load".to_owned()).chain(arguments)));
        return std::process::ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |name: &str, run: fn() -> stage::Ended| {
        Trial::ignorable_test(name, move || stage::run(run)).with_ignored_flag(true)
    };
    #[cfg(feature = "bpf")]
    let tables = vec![
        trial("without_task_storage_sums_agree_with_explain", agreement::with_explain_by_a_table),
        trial("by_task_storage_alone_sums_agree_with_explain", agreement::with_explain_by_storage_alone),
        trial("places_of_ended_tasks_are_given_back", slots::are_given_back),
        trial("while_somebody_waits_it_is_not_quiet", quiet::is_nobody_who_waits),
        trial("a_table_of_tasks_has_room_for_births", table::has_room_for_births),
        trial("a_full_table_counts_who_finds_no_room", table::that_is_full_counts_who_finds_no_room),
    ];
    #[cfg(not(feature = "bpf"))]
    let tables = Vec::new();
    let mut trials = vec![
        trial("sums_are_those_of_the_waits_and_agree_with_explain", agreement::with_explain),
        trial("who_asks_to_come_last_loses_to_nobody", asked::last_is_fair),
        trial("an_episode_lasts_as_long_as_the_kernel_says", lasting::as_long_as_the_kernel_says),
        trial("births_and_groups_that_come_and_go_grow_nothing", churn::nothing_grows),
        trial("nobody_is_blamed_for_what_a_limit_stops", limited::nobody_is_blamed_for_a_limit),
        trial("a_daemon_is_not_named_for_turns_elsewhere", daemon::is_not_named_for_turns_elsewhere),
        trial("pods_that_starve_and_are_stopped_have_names", pods::that_starve_and_are_stopped_have_names),
        trial("pods_that_come_and_go_grow_nothing", pods::that_come_and_go_grow_nothing),
        trial("a_pod_that_a_task_left_has_its_own_name", pods::that_a_task_left_have_their_own_names),
        trial("an_episode_has_its_trace_while_another_is_explained", overlapping::both_have_their_trace),
        trial("an_id_that_is_used_again_is_another_task", reused::is_another_task),
        trial("a_task_that_raises_itself_while_it_runs_is_found", raised::is_found),
        trial("what_waits_behind_a_task_that_raised_itself_is_counted", raised::is_counted),
        trial("without_bpf_waits_are_counted_by_tracefs", fallback::names_the_hog),
    ];
    trials.extend(tables);
    libtest_mimic::run(&arguments, trials).exit_code()
}
