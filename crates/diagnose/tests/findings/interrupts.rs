use unstarve_model::EventType;

use crate::findings::scene::{Scene, times};

/// A server s on one CPU; NET_RX is served on top of it in the marked columns of 100 µs.
fn flood(softirq: &str) -> Scene {
    let rounds = 1000;
    Scene::new(100)
        .task('s', "server", 120)
        .cpu(&times(rounds, "ssssssssss.."))
        .wakes('s', &times(rounds, "!           "))
        .softirq(0, &times(rounds, softirq))
}

#[test]
fn packets_that_take_the_receivers_cpu_are_told_with_what_they_take() {
    let scene = flood("ss s s s    ");
    let report = scene.explain();
    assert_eq!(report.findings[0].id.as_str(), "irq-interference");
    assert!(report.findings[0].sentence.contains("softirq NET_RX"), "{}", report.findings[0].sentence);
    assert!(!scene.alarms().is_empty());
}

/// Whether a device interrupts for each softirq, for a few or for none; whether interrupts were recorded at all.
#[test]
fn packets_that_no_device_brought_are_the_senders_own_work() {
    let by_device = flood("dd d d d    ");
    assert!(by_device.alarms().iter().any(|alarm| alarm.starts_with("irq-interference")), "{:?}", by_device.alarms());
    let over_loopback = flood("s  s s s    ").softirq(0, "        d");
    assert_eq!(over_loopback.alarms(), Vec::<String>::new());
    assert!(over_loopback.findings().contains("irq-interference"), "a remark: {}", over_loopback.findings());
    let of_half = flood("ss s s s    ").softirq(0, "        d");
    assert!(!of_half.alarms().is_empty(), "half of its time is no remark: {}", of_half.findings());
    // The interrupts of another CPU may have brought them.
    let steered = flood("ss s s s    ").cpu(&times(12000, ".")).softirq(1, &times(1000, "d           "));
    assert!(steered.alarms().iter().any(|alarm| alarm.starts_with("irq-interference")), "{:?}", steered.alarms());
    assert!(!flood("ss s s s    ").alarms().is_empty(), "no interrupt at all is no proof");
}

#[test]
fn who_is_woken_by_an_interrupt_loses_nothing_to_its_end() {
    // The softirq wakes the server and goes on for a little, the CPU is idle before and after.
    let scene = Scene::new(100)
        .task('s', "server", 120)
        .cpu(&times(1000, "..s........."))
        .wakes('s', &times(1000, " !          "))
        .softirq(0, &times(1000, "d"));
    assert_eq!(scene.alarms(), Vec::<String>::new());
    let scene = Scene::new(100)
        .task('s', "server", 120)
        .cpu(&times(1000, "..s........."))
        .wakes('s', &times(1000, "!           "))
        .softirq(0, &times(1000, "dd          "));
    assert_eq!(scene.alarms(), Vec::<String>::new());
}

#[test]
fn who_never_waits_loses_its_time_all_the_same() {
    let scene =
        Scene::new(100).task('s', "poller", 120).cpu(&times(12_000, "s")).softirq(0, &times(1000, "ddddddd     "));
    assert!(scene.alarms().iter().any(|alarm| alarm.starts_with("irq-interference")), "{:?}", scene.alarms());
    let sentence = scene.explain().findings.remove(0).sentence;
    assert!(sentence.contains("softirq NET_RX"), "{sentence}");
}

#[test]
fn a_little_is_normal() {
    assert_eq!(flood("s           ").alarms(), Vec::<String>::new());
}

#[test]
fn a_few_packets_within_a_long_wait_for_something_else_are_no_stall() {
    // One column is 1 ms: the hog h has the CPU for 900 ms, and a softirq takes every fiftieth.
    let scene = Scene::new(1000)
        .task('h', "hog", 49)
        .task('s', "server", 49)
        .cpu(&format!("s{}{}", times(900, "h"), times(99, "s")))
        .wakes('h', "!")
        .wakes('s', &format!("! ! {}", times(996, " ")))
        .softirq(0, &times(20, &format!("s{}", times(49, " "))));
    let alarms = scene.alarms();
    assert!(!alarms.iter().any(|alarm| alarm.starts_with("irq-interference")), "{alarms:?}");
}

#[test]
fn without_interrupt_events_nothing_is_claimed() {
    let scene = flood("ss s s s    ").without(EventType::SoftirqEntry).without(EventType::SoftirqExit);
    let report = scene.explain();
    assert!(report.findings.is_empty());
    assert!(report.losses.iter().any(|loss| loss.contains("softirq_entry")), "{:?}", report.losses);
}
