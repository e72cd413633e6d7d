//! What names the source of metrics: the resource of OTLP, and `target_info` of OpenMetrics.
//!
//! Keys by OpenTelemetry's conventions (opentelemetry.io/docs/specs/semconv/resource: service, host). `service.instance.id` outlives a restart, so
//! that the series go on.

use crate::agent::config::label_word;
use crate::agent::machine::Machine;

/// Key and value of each attribute: the watch's own, then the labels of the configuration. A label named like one of the watch's own replaces it: in
/// a cloud `host.id` may be the instance's.
pub fn attributes(machine: &Machine) -> Vec<(&str, String)> {
    let own = [
        ("service.name", Some("unstarve-watch".to_owned())),
        ("service.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", machine.instance()),
        ("host.name", Some(machine.host())),
        ("host.id", machine.machine_id.clone()),
    ];
    let is_replaced = |key: &str| machine.labels.keys().any(|label| label_word(label) == label_word(key));
    let own = own.into_iter().filter_map(|(key, value)| Some((key, value?))).filter(|(key, _)| !is_replaced(key));
    own.chain(machine.labels.iter().map(|(key, value)| (key.as_str(), value.clone()))).collect()
}

/// The labels of `target_info`: Prometheus has name and instance of a service as `job` and `instance`.
pub fn target_labels(machine: &Machine) -> Vec<(String, String)> {
    let are_others = |(key, _): &(&str, String)| !matches!(*key, "service.name" | "service.instance.id");
    attributes(machine).into_iter().filter(are_others).map(|(key, value)| (label_word(key), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_attribute_is_there_once_and_absent_where_it_is_not_known() {
        let id = "0123456789abcdef0123456789abcdef".to_owned();
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let machine = |machine_id: Option<String>, pairs: &[(&str, &str)]| Machine {
            named: Some("web1".into()),
            machine_id,
            boot_id: None,
            labels: labels(pairs),
        };
        let words = |machine: &Machine| -> Vec<String> {
            target_labels(machine).iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        let version = format!("service_version={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(words(&machine(None, &[])), [version.as_str(), "host_name=web1"]);
        let host_id = format!("host_id={id}");
        let expected = [version.as_str(), "host_name=web1", host_id.as_str(), "topology_zone=a"];
        assert_eq!(words(&machine(Some(id.clone()), &[("topology.zone", "a")])), expected);
        for own in ["host.id", "host_id"] {
            let named = machine(Some(id.clone()), &[(own, "i-07")]);
            assert_eq!(words(&named), [version.as_str(), "host_name=web1", "host_id=i-07"], "{own}");
            let keys: Vec<&str> = attributes(&named).iter().map(|(key, _)| *key).collect();
            assert_eq!(keys, ["service.name", "service.version", "service.instance.id", "host.name", own]);
        }
    }
}
