//! Starvations that really happen: provoked on this machine, recorded, explained. Each beside a control in which the
//! same tasks leave each other enough, and nobody may be said to starve.
//!
//! They need root, tracefs and a machine that does little else, so `cargo test` leaves them out; `make test` runs them,
//! one after another. What is missing is said, not passed over. Every load ends by itself, and each trial within
//! [`stage::LIMIT`].
//!
//! The program runs itself as its own load, under the name of a symbolic link, so that the trace has telling names.

mod audit;
mod cgroup;
mod chaos;
mod fix;
mod perf_truth;
mod polling;
mod process;
mod recordings;
mod results;
mod schedstat;
mod service;
mod stage;
mod starvations;
mod sums;
mod top;
mod verify;
mod watch;
mod watch_days;
mod watch_groups;
mod watch_stopped;
mod watch_words;

use clap::Parser;
use libtest_mimic::{Arguments, Trial};

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args();
    match arguments.nth(1).as_deref() {
        Some("load") => {
            unstarve_load::run(unstarve_load::Args::parse_from(std::iter::once("load".to_owned()).chain(arguments)));
            return std::process::ExitCode::SUCCESS;
        }
        Some("busy-threads") => {
            schedstat::busy_threads();
            return std::process::ExitCode::SUCCESS;
        }
        Some("poll-in-stays") => {
            polling::poll(arguments.next().expect("a directory").as_ref());
            return std::process::ExitCode::SUCCESS;
        }
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |name: &str, run: fn(&stage::Stage) -> stage::Ended| {
        Trial::ignorable_test(name, move || stage::run(run)).with_ignored_flag(true)
    };
    let trials = vec![
        trial("a_real_time_hog_starves_direct_io", starvations::real_time_hog),
        trial("direct_io_alone_starves_nobody", starvations::direct_io_alone),
        trial("a_real_time_poller_starves_a_kernel_worker_that_nobody_waits_for", polling::starves_a_worker),
        trial("a_fair_poller_starves_no_kernel_worker", polling::fair_starves_no_worker),
        trial("a_heavy_cgroup_starves_a_light_one", starvations::heavy_cgroup),
        trial("equal_cgroups_starve_nobody", starvations::equal_cgroups),
        trial("a_pool_that_wakes_too_many_is_a_wake_storm", starvations::pool_storm),
        trial("a_small_pool_is_no_storm", starvations::small_pool),
        trial("waits_add_up_to_the_kernels_own_run_delay", schedstat::waits_match_run_delay),
        trial("waits_are_those_of_perf_sched", perf_truth::waits_are_those_of_perf_sched),
        trial("the_same_moment_in_every_format_gives_the_same_findings", starvations::same_moment_in_every_format),
        trial("a_recording_without_names_says_the_same", recordings::redacted_says_the_same),
        trial("what_a_killed_recorder_left_is_explained", recordings::salvaged_is_explained),
        trial("a_real_time_hog_is_found_by_check_while_it_runs", audit::real_time_hog_is_found),
        trial("a_hog_is_shown_while_it_runs", top::a_hog_is_shown_while_it_runs),
        trial("top_shows_roles_where_there_is_no_tracefs", top::without_tracefs),
        trial("a_fix_helps_and_is_taken_back", fix::helps_and_is_taken_back),
        trial("a_fix_that_is_killed_leaves_nothing_changed", fix::killed_leaves_nothing),
        trial("a_fix_refuses_thread_ids_of_another_boot", fix::refuses_another_boot),
        trial("a_setting_is_set_and_set_back", audit::a_setting_is_set_and_set_back),
        trial("verify_tells_the_rule_that_helps_from_the_one_that_does_not", verify::tells_what_helps),
        trial("a_verify_that_is_killed_stopped_or_interrupted_leaves_nothing_changed", verify::killed),
        trial("verify_takes_back_what_is_over_its_budget", verify::over_budget),
        trial("verify_refuses_to_run_where_it_cannot_be_above_its_rules", verify::not_above),
        trial("verify_keeps_what_helped_and_undo_takes_it_back", verify::keeps_what_helped),
        trial("the_oplog_policy_shortens_the_waits_of_completion_workers", verify::oplog_policy),
        trial("the_network_spike_policy_shortens_the_waits_of_ksoftirqd", verify::network_spike_policy),
        trial("random_kills_while_children_are_born_leave_nothing_changed", chaos::random_kills),
        trial("the_guard_runs_with_the_rights_of_its_unit", service::with_the_units_rights),
        trial("the_units_write_only_what_they_have_to", service::the_units_write_only_what_they_have_to),
        trial("a_hog_over_direct_io_is_an_episode_of_the_watch", watch::a_hog_is_an_episode),
        trial("direct_io_alone_is_no_episode_of_the_watch", watch::direct_io_alone_is_none),
        trial("a_stop_of_the_watch_hides_nothing", watch_stopped::hides_nothing),
        trial("a_group_that_its_limit_stops_is_an_episode_of_the_watch", watch_groups::a_tight_limit),
        trial("a_group_that_a_real_time_hog_keeps_off_is_an_episode_of_the_watch", watch_groups::a_hog_over_a_group),
        trial("the_watch_runs_with_the_rights_of_its_unit", watch::with_the_units_rights),
        trial("a_watch_that_is_killed_while_it_writes_loses_nothing_whole", watch::killed_while_it_writes),
        trial("a_watch_whose_disk_is_full_goes_on", watch::a_full_disk),
        trial("a_watch_takes_a_new_configuration_and_refuses_a_wrong_one", watch_days::a_reload),
        trial("a_watch_with_small_buffers_says_so_and_tries_again", watch_days::small_buffers),
        trial("a_watch_that_begins_outlives_a_reload", watch_days::a_reload_at_the_beginning),
        trial("a_reload_takes_no_trace_away", watch_days::reloads_and_dumps),
        trial("a_watch_whose_disk_becomes_read_only_goes_on", watch_days::a_read_only_disk),
        trial("the_watch_needs_each_right_of_its_unit", watch_days::each_right_is_needed),
        trial("groups_have_their_paths_on_the_host_in_a_cgroup_namespace", cgroup::in_a_namespace),
        trial("two_watches_know_of_each_other", watch_days::two_at_once),
        trial("a_real_journal_has_what_the_watch_says_at_once_and_in_full", watch_words::a_real_journal),
        trial("an_episode_says_whether_the_guards_policy_held", watch_words::beside_a_guard),
        trial("a_lockdown_is_named_where_the_programs_are_refused", watch_days::locked_down),
        trial("without_btf_the_watch_counts_by_tracefs_and_says_why", watch_days::without_btf),
        trial("a_full_disk_is_an_error_and_nothing_is_left_of_a_result", results::full_disk),
        trial("a_read_only_disk_is_an_error_before_any_work", results::read_only_disk),
        trial("an_ordinary_user_cannot_write_where_only_root_may", results::unwritable_directory),
        trial("a_group_with_a_hostile_name_is_shown_harmless", results::hostile_group),
        trial("an_ordinary_user_is_told_what_is_missing_and_changes_nothing", audit::an_ordinary_user_changes_nothing),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
