//! Forms that last: what each can keep, in the words of its own manual.

use unstarve_change::{Change, FeatureState, Form, Relative, Target, Thread, Value, Whose, durable, service_of};
use unstarve_model::{SchedPolicy, Tid};

fn thread(comm: &str) -> Target {
    Target::Thread(Thread::known_by(Tid(7), comm))
}

fn fifo(rt_priority: u32) -> Value {
    Value::Class { policy: SchedPolicy::Fifo, rt_priority, slice: None }
}

fn text(changes: &[Change], form: Form, whose: &Whose) -> Result<String, String> {
    let files = durable(changes, form, &|_| whose.clone()).map_err(|not| not.why)?;
    Ok(files.iter().map(|file| format!("{}|{}", file.file.clone().unwrap_or_default(), file.text)).collect())
}

#[test]
fn a_service_gets_a_drop_in_and_nobody_elses_unit_is_touched() {
    let service = Whose { unit: Some("db.service".to_owned()), kernel_thread: Some(false), workqueue: None };
    let affinity = Change::of(thread("db"), Value::Affinity("4-5".parse().expect("CPUs")));
    let drop_in = text(&[Change::of(thread("db"), fifo(3)), affinity.clone()], Form::Systemd, &service);
    let expected = "/etc/systemd/system/db.service.d/60-unstarve.conf|[Service]\nCPUSchedulingPolicy=fifo\n\
                    CPUSchedulingPriority=3\nCPUAffinity=\nCPUAffinity=4-5\n";
    assert_eq!(drop_in.as_deref(), Ok(expected));
    let both = [Change::of(thread("a"), Value::Nice(1)), Change::of(thread("b"), Value::Nice(2))];
    assert!(text(&both, Form::Systemd, &service).is_err());
    let scope = Whose { unit: Some("docker-1.scope".to_owned()), kernel_thread: Some(false), workqueue: None };
    assert!(text(std::slice::from_ref(&affinity), Form::Systemd, &scope).is_err());
    let kernel = Whose { unit: None, kernel_thread: Some(true), workqueue: None };
    assert!(text(&[affinity], Form::Systemd, &kernel).is_err());
    assert_eq!(service_of("/system.slice/db.service"), Some("db.service"));
    assert_eq!(service_of("/system.slice/db.service/worker"), Some("db.service"));
    for inner in [
        "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service",
        "/system.slice/docker-1.scope/system.slice/nginx.service",
        "/machine.slice/x/system.slice/nginx.service",
        "/kubepods/pod1",
    ] {
        assert_eq!(service_of(inner), None, "{inner}");
    }
}

#[test]
fn limits_and_weights_of_groups_are_in_systemds_units() {
    let of = |path: &str, value: &str| text(&[Change::file(path, value)], Form::Systemd, &Whose::default());
    let slice = "/etc/systemd/system/a.slice.d/60-unstarve.conf|[Slice]\n";
    assert_eq!(of("/sys/fs/cgroup/a.slice/cpu.weight", "100"), Ok(format!("{slice}CPUWeight=100\n")));
    assert_eq!(of("/sys/fs/cgroup/a.slice/cpu.max", "12500 100000"), Ok(format!("{slice}CPUQuota=13%\n")));
    assert_eq!(of("/sys/fs/cgroup/a.slice/cpu.max", "max 100000"), Ok(format!("{slice}CPUQuota=\n")));
    assert!(of("/sys/fs/cgroup/kubepods/pod1/cpu.weight", "100").is_err());
    assert!(of("/sys/fs/cgroup/x.scope/system.slice/cpu.weight", "100").is_err());
}

#[test]
fn names_that_tasks_choose_stay_text() {
    let whose = Whose::default();
    let odd = "a\"]\n[limits]\nrt-priority = 90 #";
    let policy = text(&[Change::of(thread(odd), Value::Nice(-5))], Form::Guard, &whose).expect("a policy");
    assert!(!policy.contains("\n[limits]") && policy.matches("[[rule]]").count() == 1, "{policy}");
    assert!(text(&[Change::of(thread("x"), fifo(1))], Form::Tuned, &whose).is_err(), "a program");
    let kernel = Whose { unit: None, kernel_thread: Some(true), workqueue: None };
    let profile = text(&[Change::of(thread("ksoftirqd/1"), fifo(1))], Form::Tuned, &kernel).expect("a profile");
    assert!(profile.contains("=0:f:1:*:^\\[ksoftirqd/1\\]$"), "{profile}");
    assert!(profile.contains("# TuneD takes a program whose command line is one of these names"), "{profile}");
    assert!(text(&[Change::of(thread(odd), fifo(1))], Form::Tuned, &kernel).is_err());
}

#[test]
fn a_policy_says_whom_its_rules_match() {
    let rule = |comm: &str, whose: &Whose| {
        let policy = text(&[Change::of(thread(comm), Value::Nice(1))], Form::Guard, whose).expect("a policy");
        policy.lines().find_map(|line| line.strip_prefix("# Matches ").map(str::to_owned)).expect("a comment")
    };
    let anybody = "every thread called python3, of any program and any user: add `unit` or `user` to narrow it.";
    assert_eq!(rule("python3", &Whose::default()), anybody);
    let service = Whose { unit: Some("db.service".to_owned()), kernel_thread: Some(false), workqueue: None };
    assert_eq!(rule("python3", &service), "every thread called python3 of db.service.");
    let kernel = Whose { unit: None, kernel_thread: Some(true), workqueue: None };
    assert_eq!(rule("ksoftirqd/1", &kernel), "the kernel thread ksoftirqd/1.");
    let queue = |kernel_thread| Whose { kernel_thread, workqueue: Some("dio/sda".to_owned()), unit: None };
    for kernel_thread in [Some(true), None] {
        assert_eq!(rule("kworker/0:1-events", &queue(kernel_thread)), "every worker of dio/sda, on all CPUs.");
    }
    // What it works on when somebody looks is not what was meant.
    let refused =
        text(&[Change::of(thread("kworker/0:1-events"), Value::Nice(1))], Form::Guard, &kernel).expect_err("refused");
    assert!(refused.contains("serves one workqueue now and another next"), "{refused}");
    // Every program had the name of what started it.
    for starter in ["init", "systemd"] {
        let change = [Change::of(thread(starter), Value::Nice(1))];
        let refused = text(&change, Form::Guard, &Whose::default()).expect_err("refused");
        assert!(refused.contains("would match far more"), "{refused}");
        let of_unit = Whose { unit: Some("a.service".to_owned()), ..Whose::default() };
        text(&change, Form::Guard, &of_unit).expect("the unit narrows it");
    }
}

#[test]
fn what_no_form_can_keep_is_said_and_what_another_can_is_named() {
    let none = |_: &Thread| Whose::default();
    let half = Change::relative(thread("x"), Relative::RuntimePercent(50));
    let not = durable(&[half], Form::Guard, &none).expect_err("half of a runtime");
    assert!(not.instead.is_empty() && not.why.contains("thread 7"), "{not:?}");
    let sysctl = Change::file("/proc/sys/kernel/sched_rt_runtime_us", "950000");
    let not = durable(std::slice::from_ref(&sysctl), Form::Systemd, &none).expect_err("a sysctl");
    assert_eq!(not.instead, [Form::Sysctl, Form::Tmpfiles, Form::Cmdline, Form::Guard, Form::Tuned]);
    let group = Change::file("/sys/fs/cgroup/a.slice/cpu.weight", "100");
    for form in [Form::Tmpfiles, Form::Tuned] {
        let not = durable(std::slice::from_ref(&group), form, &none).expect_err("a group");
        assert!(not.why.contains("CPUWeight=") && not.instead.contains(&Form::Systemd), "{not:?}");
    }
    let other = Value::Class { policy: SchedPolicy::Other, rt_priority: 0, slice: None };
    let not = durable(&[Change::of(thread("x"), other)], Form::Sysctl, &none).expect_err("a policy");
    assert_eq!(not.why, "sysctl.d cannot set the policy other of thread 7 (x)");
    let features = [Change::feature("A", FeatureState::On), Change::feature("B", FeatureState::Off)];
    assert!(durable(&features[..1], Form::Tmpfiles, &none).is_ok());
    assert!(durable(&features, Form::Tmpfiles, &none).is_err());
    assert!(Form::ALL.into_iter().all(|form| durable(&[Change::advice()], form, &none).is_err()));
}

#[test]
fn an_interrupt_is_kept_by_the_name_of_its_handler_alone() {
    let cpus = "2-3".parse().expect("CPUs");
    let change = Change::of_interrupt(24, &cpus, ["virtio0-input.0".to_owned()]);
    for form in Form::ALL.into_iter().filter(|form| *form != Form::Guard) {
        let not = durable(std::slice::from_ref(&change), form, &|_| Whose::default()).expect_err(form.word());
        assert_eq!(not.instead, [Form::Guard], "{}", not.why);
        assert!(form != Form::Tmpfiles || not.why.contains("of this boot"), "{}", not.why);
    }
    let policy = text(&[change], Form::Guard, &Whose::default()).expect("a policy");
    assert!(policy.contains("[[irq]]\naction = \"virtio0-input.0\"\naffinity = \"2-3\"\n"), "{policy}");
    let unnamed = Change::of_interrupt(24, &cpus, []);
    for form in Form::ALL {
        assert!(text(std::slice::from_ref(&unnamed), form, &Whose::default()).is_err(), "{}", form.word());
    }
}
