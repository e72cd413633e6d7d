//! Long paths of cgroups, as users can create them.

use serde_json::json;

use super::super::{Episode, Trigger};
use super::tests::{explained, finding};
use super::*;
use crate::testing::at;

/// A path of about 3,900 bytes, which grows when it is escaped.
fn long(last: &str) -> String {
    format!("/system.slice/a.service/{}{last}", "b\u{1}/".repeat(1300))
}

#[test]
fn an_episode_names_no_path_at_length() {
    let mut found = finding("kworker", "kworker/0:1");
    found["victim"]["cgroups"] = json!([long("victim")]);
    found["culprits"][0]["cgroups"] = json!([long("hog")]);
    found["culprits"][0]["tasks"] = 1.into();
    let mut group = finding("cgroup", &long("group"));
    group["id"] = "throttled".into();
    for (findings, parties) in [(vec![found; 30], 34), (vec![group; 30], 17)] {
        let mut episode = Episode::default();
        episode.note_trace(&explained(&findings, &[]));
        let text = serde_json::to_string(&episode).expect("JSON");
        assert!(text.len() < 64 << 10, "{} bytes", text.len());
        let victims = episode.victims.iter().flat_map(|one| [Some(&one.victim), one.culprit.as_ref()]).flatten();
        let all: Vec<&Party> = victims.chain(&episode.victim).chain(&episode.culprit).collect();
        assert_eq!(all.len(), parties);
        for party in all {
            let longest = party.cgroup.iter().chain([&party.comm]).map(String::len).max();
            assert!(longest <= Some(512), "{party:?}");
            // The place comes from the whole path.
            assert!(party.cgroup.is_none() || party.place.unit.as_deref() == Some("a.service"), "{party:?}");
        }
    }
}

/// A group that its own quota throttles is identified by its path only.
#[test]
fn a_finding_about_a_group_of_a_long_path_is_its_own() {
    let path = |last: &str| format!("/system.slice/a.service/{}{last}", "b/".repeat(1900));
    let role = Role { kind: RoleKind::Group, cgroup: Some("/system.slice".into()), weight: None, generation: 1 };
    let begun = Begun {
        number: 0,
        continues: None,
        at: at(500),
        trigger: Trigger::Stopped { share: 0.9, threshold: 0.75 },
        since: at(0).trace,
        victim: role,
        group: Some(path("own").into()),
        victim_task: None,
        culprit: None,
        culprit_task: None,
        rule: Some(Rule::Throttled),
        ns: Nanos(900_000_000),
        longest: Nanos::ZERO,
    };
    let mut episode = Episode::default();
    episode.note_counters(&begun);
    let victim = episode.victim.expect("a victim");
    assert!(victim.cgroup.as_ref().is_some_and(|path| path.len() <= 512 && path.ends_with("/own")), "{victim:?}");
    assert_eq!(victim.place.unit.as_deref(), Some("a.service"));
    let of_tasks = |path: String| {
        let mut found = finding("task", "webapi");
        found["victim"]["cgroups"] = json!([path]);
        found
    };
    let all = [
        of_tasks(path("own")),
        finding("cgroup", &path("own")),
        of_tasks(path("other")),
        finding("cgroup", &path("other")),
    ];
    let explained = explained(&all, &[]);
    let about: Vec<bool> = explained.report.findings.iter().map(|finding| is_about(finding, &victim)).collect();
    assert_eq!(about, [true, true, false, false]);
}
