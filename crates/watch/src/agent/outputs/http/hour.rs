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
    let most_of = |role: &str| {
        history.minutes.iter().filter_map(|minute| minute.waited.get(role).copied()).max().unwrap_or(Nanos(0))
    };
    let roles: Vec<_> = roles.into_iter().take(8).collect();
    let highest = roles.iter().map(|(role, _)| most_of(role)).max().unwrap_or(Nanos(0));
    let bars = roles.iter().map(|(role, sum)| Bar {
        name: (*role).to_owned(),
        sum: format!("{sum}, up to {} a minute", most_of(role)),
        parts: places.iter().map(|minute| part(*minute, role, highest)).collect(),
    });
    Some(Panel {
        title: "The last hour, by role".to_owned(),
        note: "Wait time per minute (UTC), summed over the threads of a role. All rows have one scale.".to_owned(),
        bars: bars.collect(),
        axis: axis(history),
        ..Panel::default()
    })
}

fn part(minute: Option<&Minute>, role: &str, highest: Nanos) -> (f64, String) {
    let Some(minute) = minute else { return (0.0, String::new()) };
    let waited = minute.waited.get(role).copied().unwrap_or(Nanos(0));
    (waited.share_of(highest), format!("{}: {waited}", short(minute.at)))
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
    fn the_roles_of_the_hour_have_one_scale() {
        let mut history = History::default();
        history.add(&Scene::new().reading(at(0)));
        let scene = Scene::new().blame("kworker", RoleKind::RealTime, 5).blame("rcu", RoleKind::RealTime, 5_000_000);
        history.add(&scene.reading(at(250)));
        let panel = hour(&history).expect("somebody waited");
        assert!(panel.bars.len() == 2 && panel.note.contains("one scale"), "{panel:?}");
        let highest: Vec<f64> =
            panel.bars.iter().map(|bar| bar.parts.iter().map(|(part, _)| *part).fold(0.0, f64::max)).collect();
        assert!(highest[0] == 1.0 && highest[1] < 0.001, "{highest:?}");
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
