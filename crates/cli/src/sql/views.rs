//! Questions with a name: `views/*.sql`, which other engines are asked, too (docs/engines.md).

/// A question with a name.
pub struct View {
    pub name: &'static str,
    /// How it is answered; its first line says what it answers.
    pub query: &'static str,
}

/// Tables over the files of a store, then functions, then a view that each engine says in its own way.
const SHIM: &str = include_str!("../../../../views/duckdb.sql");
const BEFORE_FUNCTIONS: &str = "-- Functions.\n";
const AFTER_FUNCTIONS: &str = "-- End of the functions.\n";

/// The name of that view.
pub const WAIT_STEPS: &str = "wait_steps";

/// Its definition.
pub fn wait_steps() -> &'static str {
    SHIM.split_once(AFTER_FUNCTIONS).map_or("", |(_, rest)| rest)
}

/// Functions that views use.
pub fn functions() -> &'static str {
    let functions = SHIM.split_once(BEFORE_FUNCTIONS).and_then(|(_, rest)| rest.split_once(AFTER_FUNCTIONS));
    functions.map_or("", |(functions, _)| functions)
}

macro_rules! view {
    ($name:literal) => {
        View { name: $name, query: include_str!(concat!("../../../../views/", $name, ".sql")) }
    };
}

/// All of them; what one is made of comes before it.
pub const VIEWS: [View; 29] = [
    view!("marked_hourly"),
    view!("starved_hourly"),
    view!("starved"),
    view!("starved_kernel_threads"),
    view!("watched"),
    view!("kernel_thread_waits"),
    view!("table_rows"),
    view!("starved_roles"),
    view!("starved_io_workers"),
    view!("kernels"),
    view!("top_culprits"),
    view!("wait_quantiles"),
    view!("by_day"),
    view!("new_since_yesterday"),
    view!("setting_outliers"),
    view!("worst_episodes"),
    view!("silent_hosts"),
    view!("rules"),
    view!("by_hour"),
    view!("throttled_groups"),
    view!("longest_waits"),
    view!("kernel_changes"),
    view!("label_changes"),
    view!("episode_causes"),
    view!("worst_hosts"),
    view!("top_victims"),
    view!("by_labels"),
    view!("peer_outliers"),
    view!("proved_for_episodes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_all_engines_in_their_order() {
        let order: Vec<&str> = include_str!("../../../../views/ORDER").split_whitespace().collect();
        assert_eq!(VIEWS.iter().map(|view| view.name).collect::<Vec<_>>(), order);
        let documented = include_str!("../../../../docs/sql.md");
        assert!(order.iter().all(|name| documented.contains(&format!("`{name}`"))), "docs/sql.md");
        assert!(wait_steps().contains(WAIT_STEPS) && functions().contains("macro share("));
    }
}
