//! Guards at work on this machine: on tasks that the tests themselves have started, beside which nothing is touched but,
//! briefly and by five steps of nice at the most, workers that serve a file system of the tests' own.
//!
//! They need root, so `cargo test` leaves them out; `make test` runs them, one after another. The program runs itself
//! as the guard, as its dead-man and as the load.

mod beside_tasks;
mod budget;
mod child;
mod deaths;
mod drift;
mod escapes;
mod family;
mod inheritance;
mod namespaces;
mod places;
mod sleepers;
mod stage;
mod task_events;
mod verified;
mod workers;

use clap::Parser;
use libtest_mimic::{Arguments, Trial};

fn main() -> std::process::ExitCode {
    if let Some(code) = child::act() {
        return code;
    }
    let mut arguments = std::env::args();
    if arguments.nth(1).as_deref() == Some("load") {
        unstarve_load::run(unstarve_load::Args::parse_from(std::iter::once("load".to_owned()).chain(arguments)));
        return std::process::ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |name: &str, run: fn(&stage::Stage) -> stage::Ended| {
        Trial::ignorable_test(name, move || stage::run(run)).with_ignored_flag(true)
    };
    let trials = vec![
        trial("a_guard_killed_anywhere_leaves_nothing_that_undo_does_not_restore", deaths::killed_anywhere),
        trial("a_killed_guard_is_cleaned_up_after_by_its_dead_man", deaths::killed_guard),
        trial("a_stopped_guard_is_cleaned_up_after_by_its_dead_man", deaths::stopped_guard),
        trial("there_is_one_guard", deaths::one_guard),
        trial("drift_is_kept_yielded_or_reported", drift::every_way),
        trial("no_birth_is_missed_in_a_storm", task_events::storm_by_best_source),
        trial("no_birth_is_missed_in_a_storm_by_netlink", task_events::storm_by_netlink),
        trial("the_programs_for_kernel_threads_alone_attach", task_events::kernel_threads_alone),
        trial("what_nobody_asked_for_costs_little", task_events::price),
        trial("what_children_inherit_is_taken_back_at_the_end", inheritance::taken_back_at_the_end),
        trial("what_children_inherit_is_taken_back_after_kills", inheritance::taken_back_after_kills),
        trial("what_children_inherit_is_taken_back_after_apply", inheritance::taken_back_after_apply),
        trial("no_child_is_real_time_where_reset_on_fork_is_set", inheritance::reset_on_fork),
        trial("nobody_keeps_what_was_given_by_running_another_program", escapes::by_exec),
        trial("nobody_keeps_what_was_given_by_stepping_down", escapes::by_a_step_down),
        trial("nobody_keeps_what_was_given_as_a_daemon", escapes::by_daemons),
        trial("nobody_waits_for_a_log_that_is_not_read", escapes::by_an_unread_log),
        trial("a_full_state_directory_keeps_nothing_changed", places::full),
        trial("a_removed_state_directory_keeps_nothing_changed", places::removed),
        trial("a_dead_man_that_is_gone_is_replaced", places::dead_man_gone),
        trial("a_planted_journal_is_not_believed", places::planted),
        trial("the_audit_has_no_holes", places::audited),
        trial("no_birth_is_missed_in_a_pid_namespace", namespaces::births),
        trial("a_foreign_proc_is_refused", namespaces::foreign_proc),
        trial("real_time_children_count_for_the_budget", budget::over_budget_by_children),
        trial("real_time_beyond_the_budget_is_taken_back", budget::over_budget),
        trial("waits_in_the_kernels_histograms_are_those_of_schedstat", verified::in_the_kernel),
        trial("weights_tunables_and_interrupts_are_set_and_put_back", beside_tasks::set_and_put_back),
        trial("that_births_are_noted_by_nobody_else_is_said", places::without_a_bpf_file_system),
        trial("a_renamed_group_gets_its_weight_back_and_no_other", beside_tasks::renamed_groups),
        trial("nobody_keeps_what_was_given_as_another_user", escapes::as_another_user),
        trial("a_raised_program_passes_nothing_on_but_to_its_own_threads", escapes::by_birth),
        trial("new_workers_of_direct_io_are_raised", workers::direct_io),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}
