//! Rule `busy-poller-beside-bound-work`.

use unstarve_check::Severity;
use unstarve_facts::{CpuTimes, RunSums, Seen, TaskFacts};
use unstarve_model::{SchedPolicy, Tid};

use super::host::{Host, UPTIME, healthy};

const RULE: &str = "busy-poller-beside-bound-work";

/// A node of Longhorn with SPDK reactors on these CPUs, each of which used this part of its CPU.
fn node(places: &[&str], part: f64) -> Host {
    let mut host = healthy();
    host.group("/kubepods.slice", 100);
    host.task(3990, "longhorn-instan", "0-7", "/kubepods.slice/pod1");
    for (index, cpu) in places.iter().enumerate() {
        let tid = 4000 + index as u32;
        let task = host.task(tid, &format!("reactor_{cpu}"), cpu, "/kubepods.slice/pod1");
        task.tgid = (index > 0).then_some(Tid(4000));
        task.cpu_ticks = Some(((UPTIME - task.start_ticks) as f64 * part) as u64);
    }
    host
}

fn reactors(host: &mut Host) -> impl Iterator<Item = &mut TaskFacts> {
    host.0.tasks.iter_mut().filter(|task| task.comm.starts_with("reactor"))
}

#[test]
fn reactors_where_the_kernel_has_work() {
    let mut host = node(&["0", "1"], 0.999);
    host.setting("/sys/devices/virtual/workqueue/cpumask", "ff");
    host.0.cpu_times = Some([(0, CpuTimes { busy: 358_000, idle: 2_000, steal: 0 })].into());
    let hits = host.hits(RULE);
    insta::assert_snapshot!(host.says(RULE).join("\n"), @"warning 2 threads like reactor_0[4000] (SPDK reactor of Longhorn's v2 data engine) keep CPUs 0-1 busy all the time, where work waits that cannot run elsewhere.");
    let evidence = hits[0].evidence.join("\n");
    for fact in [
        "reactor_1 is bound to CPU 1 and used 100 % of it so far",
        "CPU 0 was busy for 99.4 % of the time since boot",
        "a worker (1024) gets 50.0 % of the CPU",
        "kworker/0:1-events can run on CPU 0 alone",
        "CPU 0 served 360,000 network interrupts of eth0",
    ] {
        assert!(evidence.contains(fact), "{fact}: {evidence}");
    }
    let fixes: Vec<&str> = hits[0].fixes.iter().map(|fix| fix.text.as_str()).collect();
    assert!(fixes[0].contains("data-engine-cpu-mask") && fixes[0].contains("only when the instance manager starts"));
    assert!(hits[0].fixes[0].source.contains("longhorn/issues/14035"));
    assert!(hits[0].consequence.contains("Raising kworkers alone does not end it"), "{}", hits[0].consequence);
    assert!(!hits[0].fixes.iter().any(|fix| fix.apply.contains("kworker")), "no fix raises workers");
    assert!(
        hits[0].fixes.iter().any(|fix| fix.text.contains("echo fc > /sys/devices/virtual/workqueue/cpumask (now ff)"))
    );
}

#[test]
fn how_bad_it_is_depends_on_who_goes_first() {
    let worst = |change: &dyn Fn(&mut Host)| {
        let mut host = node(&["2"], 0.999);
        change(&mut host);
        host.worst(RULE)
    };
    let group =
        |weight: u32| move |host: &mut Host| host.0.cgroups.iter_mut().for_each(|group| group.weight = Some(weight));
    assert_eq!(worst(&|_| ()), Some(Severity::Warning), "equal weights");
    assert_eq!(worst(&group(400)), Some(Severity::Warning));
    assert_eq!(worst(&group(1000)), Some(Severity::Critical));
    let fifo = |host: &mut Host| {
        reactors(host).for_each(|task| (task.policy, task.rt_priority) = (SchedPolicy::Fifo, 1));
    };
    assert_eq!(worst(&fifo), Some(Severity::Critical));
    let unknown = |host: &mut Host| reactors(host).for_each(|task| task.comm = "renderer".into());
    assert_eq!(worst(&unknown), Some(Severity::Info), "a program of equal weight that computes");
    let on_a_kernel_with_the_bug = |host: &mut Host| {
        unknown(host);
        host.kernel("6.12.73", "#1 SMP");
    };
    assert_eq!(worst(&on_a_kernel_with_the_bug), Some(Severity::Warning), "zero-vruntime");
    let on_a_kernel_with_the_fix = |host: &mut Host| {
        unknown(host);
        host.kernel("6.12.81", "#1 SMP");
    };
    assert_eq!(worst(&on_a_kernel_with_the_fix), Some(Severity::Info));
}

#[test]
fn it_is_silent_where_nothing_is_wrong() {
    let silent = |change: &dyn Fn(&mut Host)| {
        let mut host = node(&["2"], 0.999);
        change(&mut host);
        host.says(RULE)
    };
    assert_eq!(silent(&|_| ()).len(), 1);
    let none = [""; 0];
    assert_eq!(silent(&|host| host.0.cpus.isolated = Some("2-3".parse().expect("CPUs"))), none, "isolated");
    assert_eq!(silent(&|host| reactors(host).for_each(|task| task.allowed = Some("2-5".parse().expect("CPUs")))), none);
    assert_eq!(silent(&|host| reactors(host).for_each(|task| task.cpu_ticks = Some(9_000))), none, "it sleeps");
    assert_eq!(silent(&|host| reactors(host).for_each(|task| task.policy = SchedPolicy::Idle)), none);
    let nothing_lives_there = |host: &mut Host| {
        host.0.tasks.retain(|task| !task.kernel_thread);
        host.0.irqs.clear();
    };
    assert_eq!(silent(&nothing_lives_there), none, "the snapshot shows no work of this CPU");
    assert_eq!(healthy().says(RULE), none);
}

#[test]
fn a_young_thread_is_known_by_its_name_if_it_always_polls() {
    let young = |name: &str| {
        let mut host = node(&["2"], 0.0);
        reactors(&mut host).for_each(|task| (task.comm, task.start_ticks) = (name.into(), UPTIME - 5));
        host.says(RULE).len()
    };
    assert_eq!((young("reactor_2"), young("pmd-c02/id:1"), young("reactor-2"), young("renderer")), (1, 1, 0, 0));
}

#[test]
fn a_worker_that_waited_is_evidence() {
    let mut host = node(&["3"], 0.999);
    let worker = host.0.tasks.iter_mut().find(|task| task.comm == "kworker/3:1-events").expect("a worker");
    worker.seen = Some(Seen { state: 'R', cpu: Some(3), sums: Some(RunSums { ran_ns: 1, run_delay_ns: 1, turns: 1 }) });
    host.0.softirqs = Some([("RCU".to_owned(), [(3, 3_600_000)].into())].into());
    let evidence = host.hits(RULE).remove(0).evidence.join("\n");
    assert!(evidence.contains("kworker/3:1-events was runnable when this was read"), "{evidence}");
    assert!(evidence.contains("CPU 3 ran 1000 RCU softirqs a second since boot"), "{evidence}");
}

#[test]
fn a_cpu_other_than_the_first_can_be_isolated_at_boot() {
    let boot = |places: &[&str]| {
        let fixes = node(places, 0.999).hits(RULE).remove(0).fixes;
        let text = serde_json::to_string(&fixes).expect("JSON");
        text.contains("isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3")
    };
    assert!(boot(&["2", "3"]));
    assert!(!boot(&["0", "2"]), "the first CPU keeps the housekeeping");
}
