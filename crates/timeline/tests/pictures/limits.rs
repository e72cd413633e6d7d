//! Cgroups, their limits, interrupts and migrations.

use insta::assert_snapshot;
use unstarve_model::Tid;
use unstarve_sched::{GroupId, Groups};
use unstarve_timeline::Settings;

use crate::pictures::drawn;
use crate::scene::waits;

/// `a` is in a top-level cgroup of weight 10240, and its cgroup has a bandwidth limit.
struct Container(Groups, GroupId);

impl Container {
    fn new() -> Box<Container> {
        let mut groups = Groups::default();
        let heavy = groups.add(None, 10240);
        Box::new(Container(groups, heavy))
    }
}

impl Settings for Container {
    fn groups(&self) -> Groups {
        self.0.clone()
    }
    fn group(&self, tid: Tid) -> Option<GroupId> {
        (tid == Tid(1)).then_some(self.1)
    }
    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        Some(tid == Tid(1))
    }
}

#[test]
fn a_worker_in_the_root_cgroup_loses_to_a_heavy_container_by_weight() {
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > a
        10 0 wake kworker/0:1 @0
        30 0 switch a R > kworker/0:1
        40 0 switch kworker/0:1 S > a
    "), @r"
    kworker/0:1 wakeup 10..30 cpu 0: a 20 weight
    a preemption 30..40 cpu 0: kworker/0:1 10 wakeup-preemption
    ");
}

#[test]
fn a_limited_task_passed_over_by_an_idle_cpu_is_throttled() {
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > a
        50 0 switch a R > idle
        100 0 switch idle R > a
    "), @"a preemption 50..100 cpu 0: idle 50 throttled");
    assert_snapshot!(waits(Container::new(), "
        0 0 switch idle R > b
        50 0 switch b R > idle
        100 0 switch idle R > b
    "), @"b preemption 50..100 cpu 0: idle 50 idle");
}

#[test]
fn waking_an_idle_cpu_is_idle_exit_and_not_throttling() {
    assert_snapshot!(drawn("
        0 0 switch a S > idle
        5 1 switch idle R > b
        10 1 wake a @0
        11 0 queued a @0
        14 0 switch idle R > a
    "), @"a wakeup 10..14 cpu 0: idle 4 idle");
}

#[test]
fn a_remote_wakeup_that_meets_a_cpu_going_idle_is_not_throttling() {
    //  cpu 0: c ████ idle ▁▁ a      the wakeup is on its way (waking at 10, queued at 14)
    assert_snapshot!(drawn("
        0 0 switch a S > c
        5 1 switch idle R > b
        10 1 wake a @0
        12 0 switch c S > idle
        14 0 queued a @0
        16 0 switch idle R > a
    "), @"a wakeup 10..16 cpu 0: idle 4 idle, c 2 fair");
}

#[test]
fn interrupts_are_taken_out_of_the_task_below_them() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        10 0 wake b @0
        12 0 irq+ 5
        15 0 irq- 5
        15 0 soft+ 3
        18 0 irq+ 6
        19 0 irq- 6
        22 0 soft- 3
        30 0 switch a S > b
    "), @"b wakeup 10..30 cpu 0: a 10 fair, softirq3 6 softirq, irq5 3 irq, irq6 1 irq");
}

#[test]
fn softirqs_of_ksoftirqd_are_its_own_work() {
    assert_snapshot!(drawn("
        0 0 switch idle R > ksoftirqd/0
        10 0 soft+ 3
        12 0 wake b @0
        20 0 soft- 3
        30 0 switch ksoftirqd/0 S > b
    "), @"b wakeup 12..30 cpu 0: ksoftirqd/0 18 fair");
}

#[test]
fn a_migrated_wait_follows_the_task() {
    assert_snapshot!(drawn("
        0 0 switch idle R > a
        0 1 switch idle R > b
        10 0 wake c @0
        15 1 move c 0>1
        40 1 switch b S > c
        50 1 switch c S > idle
    "), @"c wakeup 10..40 cpu 1: b 25 fair, a 5 fair");
}
