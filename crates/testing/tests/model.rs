//! The model does what this machine's programs do, and sees what commands leave behind.

use unstarve_model::SchedPolicy;
use unstarve_testing::model::{Model, ModelThread, Running};

fn host() -> Option<Running> {
    let mut model = Model::new();
    model
        .thread(
            100,
            ModelThread {
                policy: SchedPolicy::Rr,
                rt_priority: 5,
                reset_on_fork: true,
                ..ModelThread::new(100, "a (b) c")
            },
        )
        .thread(101, ModelThread { tgid: 100, ..ModelThread::new(101, "second") })
        .thread(12, ModelThread { parent: 2, affinity_fixed: true, ..ModelThread::new(12, "ksoftirqd/0") })
        .thread(102, ModelThread::new(102, "ksoftirqd/0"))
        .file("/sys/class/net/eth0/threaded", "0")
        .file("/sys/kernel/debug/sched/features", "A NO_B ")
        .file("/proc/sys/kernel/sched_rt_runtime_us", "950000");
    match model.start() {
        Ok(host) => Some(host),
        Err(why) => {
            unstarve_testing::not_possible_here(why);
            None
        }
    }
}

#[test]
fn what_is_restored_passes() {
    let Some(mut host) = host() else { return };
    let before = host.state();
    for (apply, undo) in [
        ("chrt --reset-on-fork --fifo --pid 7 100", "chrt -R -r -p 5 100"),
        ("for t in $(ls /proc/100/task); do renice -n -5 -p $t; done", "renice -n 0 -p 100 101"),
        ("taskset -pc 0,2 100", "taskset -pc 0-7 100"),
        ("for t in $(pgrep -P 2 '^ksoftirqd/'); do chrt -f -p 3 $t; done", "chrt -o -p 0 12"),
        (
            "echo 1 > /sys/class/net/eth0/threaded; for t in $(pgrep -P 2 '^napi/eth0-'); do chrt -f -p 3 $t; done",
            "echo 0 > /sys/class/net/eth0/threaded",
        ),
        ("echo B > /sys/kernel/debug/sched/features", "echo NO_B > /sys/kernel/debug/sched/features"),
        ("sysctl -w kernel.sched_rt_runtime_us=1", "sysctl -w kernel.sched_rt_runtime_us=950000"),
        ("echo x > /etc/sysctl.d/60-x.conf", "rm /etc/sysctl.d/60-x.conf"),
    ] {
        assert_eq!(host.there_and_back(apply, undo), Ok(()), "{apply}");
    }
    assert_eq!(before.differences(&host.state()), Vec::<String>::new());
}

#[test]
fn what_is_wrong_does_not() {
    let Some(mut host) = host() else { return };
    let before = host.state();
    for (apply, undo, why) in [
        ("true", "true", "apply changes nothing"),
        ("chrt -f -p 7 100", "chrt -r -p 5 100", "undo leaves"),
        ("chrt -o -p 3 100", "true", "unsupported priority"),
        ("chrt -f -p 3 555", "true", "No such process"),
        ("taskset -pc 1 12", "true", "Invalid argument"),
        (
            "OLD=$(cat /proc/sys/kernel/sched_rt_runtime_us); echo 1 > /proc/sys/kernel/sched_rt_runtime_us",
            "echo $OLD > /proc/sys/kernel/sched_rt_runtime_us",
            "OLD",
        ),
        ("echo nothing > /proc/sys/kernel/sched_rt_runtime_us", "true", "is no number"),
        ("echo NO_C > /sys/kernel/debug/sched/features", "true", "is no feature"),
        ("sysctl -w kernel.no_such=1", "true", "cannot stat"),
        ("systemctl restart nothing", "true", "not found"),
    ] {
        let error = host.there_and_back(apply, undo).expect_err(apply);
        assert!(error.contains(why), "{apply}: {error}");
        assert_eq!(before.differences(&host.state()), Vec::<String>::new(), "{apply}");
    }
}

#[test]
fn a_stand_in_that_sets_what_is_so_already_changes_nothing() {
    let Some(mut host) = host() else { return };
    let before = host.state();
    for same in ["chrt -R -r -p 5 100", "renice -n 0 -p 100 101 12 2", "chrt -o -p 0 101"] {
        assert_eq!(host.sh(same), Ok(()));
        assert_eq!(before.differences(&host.state()), Vec::<String>::new(), "{same}");
    }
}

/// What chrt(1) of this machine prints of a task is what the stand-in prints of one that is the same.
#[test]
fn chrt_prints_what_the_machines_own_prints() {
    let (Some(mut host), Some(chrt)) = (host(), unstarve_testing::tool("chrt")) else { return };
    let own = std::process::id();
    let output = std::process::Command::new(chrt).args(["-p", &own.to_string()]).output().expect("chrt");
    let real = String::from_utf8(output.stdout).expect("UTF-8").replace(&own.to_string(), "101");
    let real: Vec<&str> = real.lines().take(2).collect();
    let script = format!("[ \"$(chrt -p 101)\" = \"{}\" ]", real.join("\n"));
    assert_eq!(host.sh(&script), Ok(()));
}
