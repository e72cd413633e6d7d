//! Policies that cannot be used: each says where, what was found and what was expected.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use unstarve_guard::Policy;
use unstarve_testing::grows_with_its_input;

fn complaint(text: &str) -> String {
    match Policy::parse(Path::new("p.toml"), text) {
        Ok(_) => "no complaint".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_mistake_has_its_place() {
    let rule = |selector: &str, set: &str| {
        format!("version = 1\n[[rule]]\nname = \"r\"\nmatch = {{ {selector} }}\nset = {{ {set} }}\n")
    };
    let cases = [
        "".to_owned(),
        "version = 2".to_owned(),
        "version = 1\nversion = 1".to_owned(),
        "version = 1\n[[rules]]".to_owned(),
        "version = 1\n[limits]\nrt-priority = 99".to_owned(),
        "version = 1\n[[rule]]\nname = \"x\"".to_owned(),
        rule("kind = \"kworkers\"", "nice = 1"),
        rule("", "nice = 1"),
        rule("kind = \"kworker\"", ""),
        rule("kind = \"kworker\"", "nice = -21"),
        rule("kind = \"kworker\"", "nice = 99999999999999999999"),
        rule("kind = \"kworker\"", "nice = \"-5\""),
        rule("kind = \"kworker\"", "rt-priority = 0"),
        rule("kind = \"kworker\"", "policy = \"fifo\""),
        rule("kind = \"kworker\"", "policy = \"fifo\", rt-priority = 50"),
        rule("kind = \"kworker\"", "policy = \"batch\", rt-priority = 5"),
        rule("kind = \"kworker\"", "policy = \"deadline\""),
        rule("kind = \"kworker\"", "affinity = \"3-1\""),
        rule("kind = \"kworker\"", "affinity = \"\""),
        rule("kind = \"kworker\"", "slice = \"3s\""),
        rule("kind = \"kworker\"", "uclamp-min = 800, uclamp-max = 700"),
        rule("kind = \"kworker\"", "nicee = 3"),
        rule("parent = \"pid:x\"", "nice = 3"),
        rule("kind = \"user\"", "policy = \"fifo\", rt-priority = 1"),
        rule("kind = \"kworker\"", "nice = 3") + "[[rule]]\nname = \"r\"\nmatch = { comm = \"x\" }\nset = { nice = 1 }",
        rule("kind = \"kworker\"", "nice = 3")
            + "[[rule]]\nname = \"s\"\nmatch = { kind = \"kworker\" }\nset = { nice = 1 }",
        "version = 1\n[[cgroup]]\npath = \"/\"\nweight = 100".to_owned(),
        "version = 1\n[[cgroup]]\npath = \"/../x\"\nweight = 100".to_owned(),
        "version = 1\n[[cgroup]]\npath = \"/x\"\nweight = 0".to_owned(),
        "version = 1\n[[tunable]]\nname = \"../../etc/passwd\"\nvalue = 1".to_owned(),
        "version = 1\n[[tunable]]\nname = \"kernel.core_pattern\"\nvalue = \"|x\"".to_owned(),
        "version = 1\n[[tunable]]\nname = \"kernel.sched_rt_runtime_us\"\nvalue = 0".to_owned(),
        "version = 1\n[[feature]]\nname = \"NO_WA_WEIGHT\"\non = true".to_owned(),
        "version = 1\n[[feature]]\nname = \"WA_IDLE\"\non = true\n[[feature]]\nname = \"WA_IDLE\"\non = false"
            .to_owned(),
    ];
    let mut table = String::new();
    for case in cases {
        let _ = writeln!(table, "{}", complaint(&case));
    }
    insta::assert_snapshot!(table);
}

fn rule(selector: &str, set: &str) -> String {
    format!("version = 1\n[[rule]]\nname = \"r\"\nmatch = {{ {selector} }}\nset = {{ {set} }}\n")
}

#[test]
fn every_program_real_time_is_refused_however_it_is_written() {
    let refused = [
        "comm = \"*\"",
        "comm = \"**\"",
        "comm = \"?*\"",
        "comm = \"*?\"",
        "comm = \"??*\"",
        "comm = \"?????*\"",
        "comm = \"*\", kind = \"any\"",
        "comm = \"?*\", kind = \"user\", cpu = \"0-4095\"",
        "cmdline = \"*\"",
        "cmdline = \"*?*\"",
        "cgroup = \"/*\"",
        "cgroup = \"*/*\"",
        "cgroup = \"/?*\"",
        "cgroup = \"*.slice/*\"",
        "cgroup = \"/system.slice/*\"",
        "cgroup = \"/user.slice/*\"",
        "unit = \"*\"",
        "unit = \"?*\"",
        "unit = \"*.service\"",
        "unit = \"user@*.service\"",
        "unit = \"session-*\"",
        "parent = \"*\"",
        "parent = \"pid:1\"",
        "parent = \"systemd\"",
        "parent = \"init*\", comm = \"?*\"",
        "uid = \"0-4294967295\"",
        "uid = \"1000-60000\"",
        "uid = 0",
        "user = \"root\"",
        "user = \"root\", unit = \"*.service\", comm = \"?*\", parent = \"**\"",
        "kind = \"kthread\"",
        "kind = \"kthread\", comm = \"*\"",
        "parent = \"kthreadd\"",
        "parent = \"pid:2\", kind = \"kthread\"",
    ];
    for selector in refused {
        for set in ["policy = \"fifo\", rt-priority = 1", "policy = \"rr\", rt-priority = 1", "rt-priority = 5"] {
            let error = complaint(&rule(selector, set));
            let known = ["this would make every program", "this would make every kernel thread"];
            assert!(known.iter().any(|text| error.contains(text)), "{selector}: {error}");
        }
    }
    let accepted = [
        "comm = \"s*\"",
        "comm = \"???\"",
        "comm = \"postgres\", unit = \"*.service\"",
        "unit = \"postgresql*.service\"",
        "unit = \"user@1001.service\"",
        "cgroup = \"/system.slice/docker-*\"",
        "cgroup = \"/kubepods*\"",
        "user = \"root\", comm = \"irqbalance\"",
        "uid = 1001",
        "uid = \"1000-1010\"",
        "parent = \"pid:1\", comm = \"nginx\"",
        "kind = \"kworker\"",
        "kind = \"kthread\", cpu = \"2-7\"",
        "comm = \"ksoftirqd/*\"",
    ];
    for selector in accepted {
        assert_eq!(complaint(&rule(selector, "policy = \"fifo\", rt-priority = 1")), "no complaint", "{selector}");
    }
    // Weights only: nothing is taken from anybody for good.
    assert_eq!(complaint(&rule("comm = \"*\"", "nice = 5")), "no complaint");
}

#[test]
fn values_that_stop_a_machine_are_refused_however_they_are_written() {
    let tunables = |lines: &[(&str, &str)]| {
        let tables = lines.iter().map(|(name, value)| format!("[[tunable]]\nname = \"{name}\"\nvalue = {value}\n"));
        format!("version = 1\n{}", tables.collect::<String>())
    };
    let (runtime, period) = ("kernel.sched_rt_runtime_us", "kernel.sched_rt_period_us");
    for value in ["0", "1", "999", "\"00\"", "\"-0\"", "\"0x0\"", "\" 0\"", "\"0x1\"", "\"0 950000\""] {
        let error = complaint(&tunables(&[(runtime, value)]));
        assert!(error.starts_with("p.toml:4:9: ") && error.contains("would harm"), "{value}: {error}");
    }
    for (first, second) in [
        ((runtime, "1000"), (period, "2000000")),
        ((period, "2000000"), (runtime, "1000")),
        ((runtime, "2000"), (period, "1000")),
        ((runtime, "1"), (period, "1")),
        ((period, "2000000000"), (runtime, "950000")),
    ] {
        assert!(complaint(&tunables(&[first, second])).contains("would harm"), "{first:?} {second:?}");
    }
    for (name, value) in [
        (period, "10"),
        (period, "2000000000"),
        ("min_granularity_ns", "0"),
        ("./base_slice_ns", "0"),
        ("numa_balancing//scan_size_mb", "\"0x0\""),
        ("latency_ns", "4294967296"),
        ("features", "\"NO_WA_WEIGHT\""),
        ("sched_features", "\"NO_WA_WEIGHT\""),
    ] {
        let error = complaint(&tunables(&[(name, value)]));
        assert!(error != "no complaint", "{name} {value}");
    }
    for text in [
        tunables(&[(runtime, "-1")]),
        tunables(&[(runtime, "1000")]),
        tunables(&[(period, "500000"), (runtime, "500")]),
        tunables(&[("base_slice_ns", "3000000")]),
    ] {
        assert_eq!(complaint(&text), "no complaint", "{text}");
    }
    for path in ["/*", "/**", "*/*", "/?*"] {
        let error = complaint(&format!("version = 1\n[[cgroup]]\npath = \"{path}\"\nweight = 1\n"));
        assert!(error.starts_with("p.toml:3:8: "), "{path}: {error}");
    }
}

#[test]
fn users_are_those_of_passwd_and_sets_of_numbers() {
    let mut table = String::new();
    for selector in [
        "user = \"*\"",
        "user = \"\"",
        "user = \"no such user\"",
        "uid = -1",
        "uid = 4294967296",
        "uid = \"*\"",
        "uid = \"9-1\"",
        "uid = \"1,\"",
        "uid = 1.5",
        "user = \"root\", uid = 5",
        "user = \"root\", uid = \"0-5\"",
    ] {
        let _ = writeln!(table, "{selector}: {}", complaint(&rule(selector, "nice = 1")));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn policies_that_include_each_other_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    write("a.toml", "version = 1\ninclude = [\"b.toml\"]\n");
    write("b.toml", "version = 1\ninclude = [\"a.toml\"]\n");
    let error = Policy::load(&path("a.toml")).unwrap_err().to_string();
    assert!(error.contains("b.toml:2:12") && error.contains("includes itself"), "{error}");
    write("b.toml", "version = 1\n[[rule]]\nname = \"b\"\nmatch = { comm = \"x\" }\nset = { nice = 1 }\n");
    assert_eq!(Policy::load(&path("a.toml")).unwrap().rules.len(), 1);
    write("b.toml", "version = 1\ninclude = [\"/dev/zero\"]\n");
    let error = Policy::look_at(&path("a.toml")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero: cannot be read"), "{error}");
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    write("b.toml", "version = 1\ninclude = [\"pipe\"]\n");
    let error = Policy::look_at(&path("a.toml")).unwrap_err().to_string();
    assert!(error.contains("pipe: cannot be read"), "{error}");
    write("b.toml", "version = 1\ninclude = [\"absent.toml\"]\n");
    let error = Policy::load(&path("a.toml")).unwrap_err().to_string();
    assert!(error.contains("b.toml:2:12") && error.contains("absent.toml"), "{error}");
}

#[test]
fn a_policy_that_others_can_write_is_refused_with_all_that_it_includes() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mode = |name: &str, mode| fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    fs::write(path("a.toml"), "version = 1\ninclude = [\"b.toml\"]\n").unwrap();
    fs::write(path("b.toml"), "version = 1\n").unwrap();
    mode("a.toml", 0o644);
    mode("b.toml", 0o644);
    assert!(Policy::load(&path("a.toml")).is_ok());
    for name in ["a.toml", "b.toml"] {
        for (others, who) in [(0o664, "lets its group write it"), (0o646, "lets others write it")] {
            mode(name, others);
            let error = Policy::load(&path("a.toml")).unwrap_err();
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains(name) && text.contains(who), "{text}");
            assert!(Policy::look_at(&path("a.toml")).is_ok(), "to look at it is harmless");
        }
        mode(name, 0o600);
    }
}

#[test]
fn what_a_stricter_file_includes_is_held_to_its_limits() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(
        path("lax.toml"),
        "version = 1\n[limits]\nrt-priority = 80\n[[rule]]\nname = \"b\"\nmatch = { comm = \"x\" }\n\
         set = { policy = \"fifo\", rt-priority = 70 }\n",
    )
    .unwrap();
    fs::write(path("strict.toml"), "version = 1\ninclude = [\"lax.toml\"]\n").unwrap();
    assert!(Policy::load(&path("lax.toml")).is_ok());
    let error = Policy::load(&path("strict.toml")).unwrap_err().to_string();
    assert!(error.contains("70") && error.contains("limit 49"), "{error}");
}

#[test]
fn rules_of_many_names_are_read_and_asked_as_fast_as_a_few() {
    let text = |rules: u32| {
        let mut text = "version = 1\n".to_owned();
        for number in 0..rules {
            let _ = writeln!(
                text,
                "[[rule]]\nname = \"r{number}\"\nmatch = {{ comm = \"task{number}\" }}\nset = {{ nice = {} }}",
                number % 20
            );
        }
        text
    };
    let (few, many) = (text(5_000), text(50_000));
    let parse = |text: &str| Policy::parse(Path::new("p.toml"), text).unwrap();
    grows_with_its_input(10, || drop(parse(&few)), || drop(parse(&many)));
    let policy = parse(&many);
    // Each name leads to its own rule alone: what is asked for is not compared with the others.
    for number in 0..50_000 {
        let found: Vec<usize> = policy.candidates(&format!("task{number}")).collect();
        assert_eq!(found, [number]);
    }
}

#[test]
fn the_examples_are_good_policies() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        Policy::look_at(&entry.unwrap().path()).unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(count >= 3);
}

#[test]
fn a_group_gets_what_its_settings_take() {
    let of = |line: &str| complaint(&format!("version = 1\n[[cgroup]]\npath = \"/maint\"\n{line}\n"));
    for line in ["uclamp-min = 20", "uclamp-min = \"12.5\"\nweight = 50", "uclamp-min = \"max\""] {
        assert_eq!(of(line), "no complaint", "{line}");
    }
    let takes = "expected a percentage from 0 to 100 with two digits at most, or max";
    assert_eq!(of("uclamp-min = 101"), format!("p.toml:4:14: uclamp-min = 101; {takes}"));
    assert_eq!(of("uclamp-min = \"much\""), format!("p.toml:4:14: uclamp-min = much; {takes}"));
    assert_eq!(of("wait = 3"), "p.toml:4:8: unknown field `wait`; expected path, uclamp-max, uclamp-min, weight");
    assert!(of("").starts_with("p.toml:2:1: this sets nothing"), "{}", of(""));
}
