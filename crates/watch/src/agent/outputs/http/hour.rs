//! The page's panel of the last hour.

use unstarve_html::live::{Bar, Panel};
use unstarve_model::{Nanos, WallTime};

use super::page::short;
use crate::agent::history::{History, Minute};

/// A panel for the roles that waited longest.
pub(super) fn hour(history: &History) -> Option<Panel> {
    let roles = history.roles();
    if roles.is_empty() {
        return None;
    }
    let places = history.places();
    let bars = roles.into_iter().take(8).map(|(role, sum)| {
        let of_role = |minute: &&Minute| minute.waited.get(role).copied();
        let most = history.minutes.iter().filter_map(|minute| of_role(&minute)).max().unwrap_or(Nanos(0));
        Bar {
            name: role.to_owned(),
            sum: format!("{sum}, up to {most} a minute"),
            parts: places.iter().map(|minute| part(*minute, role, most)).collect(),
        }
    });
    Some(Panel {
        title: "The last hour, by role".to_owned(),
        note: "waits of each minute, UTC, of all tasks of a role added up: ten that wait all the time are ten minutes in one. Each row has \
               a scale of its own, up to its highest bar"
            .to_owned(),
        bars: bars.collect(),
        axis: axis(history),
        ..Panel::default()
    })
}

fn part(minute: Option<&Minute>, role: &str, most: Nanos) -> (f64, String) {
    let Some(minute) = minute else { return (0.0, String::new()) };
    let waited = minute.waited.get(role).copied().unwrap_or(Nanos(0));
    (waited.share_of(most), format!("{}: {waited}", short(minute.at)))
}

/// Labels every ten minutes, up to the present minute.
fn axis(history: &History) -> Vec<String> {
    let Some(last) = history.minutes.back() else { return Vec::new() };
    let label = |ago: u64| {
        let at = WallTime(last.at.0.saturating_sub(ago * 60_000_000_000));
        at.clock().chars().take(5).collect::<String>()
    };
    // The last minute ends at the right edge.
    (1..=6).rev().map(|tens| label(tens * 10 - 1)).chain(["now".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    #[test]
    fn each_role_of_the_hour_has_a_scale_of_its_own() {
        let mut history = History::default();
        history.add(&Scene::new().reading(at(0)));
        let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5).blame("rcu", RoleKind::RealTime, 5_000_000);
        history.add(&scene.reading(at(250)));
        let panel = hour(&history).expect("somebody waited");
        assert!(panel.bars.len() == 2 && panel.note.contains("added up"), "{panel:?}");
        for bar in &panel.bars {
            assert_eq!(bar.parts.iter().map(|(part, _)| *part).fold(0.0, f64::max), 1.0, "{}", bar.name);
        }
        assert_eq!(panel.bars[0].sum, "5.00 ms, up to 5.00 ms a minute");
    }

    #[test]
    fn the_hour_has_its_times() {
        let mut history = History::default();
        history.add(&Scene::new().reading(at(0)));
        let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5);
        history.add(&scene.reading(at(250)));
        let panel = hour(&history).expect("somebody waited");
        // 16:03 UTC.
        assert_eq!(panel.axis, ["15:04", "15:14", "15:24", "15:34", "15:44", "15:54", "now"]);
        assert_eq!(panel.bars[0].parts.len(), 60);
        assert_eq!(panel.bars[0].parts.iter().filter(|(part, _)| *part > 0.0).count(), 1);
        assert!(panel.bars[0].parts[59].1.starts_with("2025-11-24 16:03"), "{:?}", panel.bars[0].parts[59]);
    }
}
