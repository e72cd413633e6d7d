use unstarve_model::EventType;

use crate::scene::{Scene, times};

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
    assert_eq!(report.findings[0].id, "irq-interference");
    assert!(report.findings[0].sentence.contains("softirq NET_RX"), "{}", report.findings[0].sentence);
    assert!(!scene.alarms().is_empty());
}

#[test]
fn a_little_is_normal() {
    assert_eq!(flood("s           ").alarms(), Vec::<String>::new());
}

#[test]
fn without_interrupt_events_nothing_is_claimed() {
    let scene = flood("ss s s s    ").without(EventType::SoftirqEntry).without(EventType::SoftirqExit);
    let report = scene.explain();
    assert!(report.findings.is_empty());
    assert!(report.losses.iter().any(|loss| loss.contains("softirq_entry")), "{:?}", report.losses);
}
