//! What the commands print as JSON is what `unstarve schema` says, and has no field that it does not describe.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};
use unstarve_watch::episode::{Episode, Seen, Trigger};

fn unstarve(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    let output = command.args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A schema, as far as schemars writes it.
struct Schema(Value);

/// Whether fields that a node does not describe are errors: in a part of a node that is described by several they are not.
#[derive(Clone, Copy, PartialEq)]
enum Fields {
    Described,
    Any,
}

const COMBINED_SCHEMAS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

impl Schema {
    fn named(name: &str) -> Schema {
        Schema(json(&unstarve(&["schema", name])))
    }

    fn target<'a>(&'a self, node: &Value) -> Option<&'a Value> {
        let path = node.get("$ref")?.as_str()?.strip_prefix('#')?;
        Some(self.0.pointer(path).unwrap_or_else(|| panic!("{path} is not in the schema")))
    }

    /// The fields that a node describes, together with its parts.
    fn fields(&self, node: &Value) -> BTreeSet<String> {
        let own = node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned();
        let parts = COMBINED_SCHEMAS.iter().filter_map(|part| node.get(part)?.as_array()).flatten();
        own.chain(parts.chain(self.target(node)).flat_map(|part| self.fields(part))).collect()
    }

    fn fits(&self, node: &Value, value: &Value, fields: Fields) -> Result<(), String> {
        if node == &Value::Bool(true) {
            return Ok(());
        }
        let has_own = node.get("properties").is_some();
        let within = if has_own { Fields::Any } else { fields };
        if let Some(target) = self.target(node) {
            self.fits(target, value, within)?;
        }
        for part in COMBINED_SCHEMAS {
            let Some(choices) = node.get(part).and_then(Value::as_array) else { continue };
            let tried: Vec<Result<(), String>> = choices.iter().map(|one| self.fits(one, value, within)).collect();
            let is_met =
                if part == "allOf" { tried.iter().all(Result::is_ok) } else { tried.iter().any(Result::is_ok) };
            if !is_met {
                return Err(format!("none of {part} fits: {tried:?}"));
            }
        }
        let is_of = |kind: &Value| match kind.as_str() {
            Some("null") => value.is_null(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("string") => value.is_string(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => false,
        };
        let is_right = match node.get("type") {
            None => true,
            Some(Value::Array(kinds)) => kinds.iter().any(is_of),
            Some(kind) => is_of(kind),
        };
        let is_listed = node.get("enum").and_then(Value::as_array).is_none_or(|all| all.contains(value));
        if !is_right || !is_listed || node.get("const").is_some_and(|only| only != value) {
            return Err(format!("{value} is not {node}"));
        }
        if let (Some(items), Some(list)) = (node.get("items"), value.as_array()) {
            for (index, item) in list.iter().enumerate() {
                self.fits(items, item, Fields::Described).map_err(|wrong| format!("[{index}] {wrong}"))?;
            }
        }
        match value.as_object() {
            Some(object) if has_own => self.object_fits(node, object, fields),
            _ => Ok(()),
        }
    }

    fn object_fits(&self, node: &Value, object: &Map<String, Value>, fields: Fields) -> Result<(), String> {
        let required = node.get("required").and_then(Value::as_array).into_iter().flatten();
        if let Some(name) = required.filter_map(Value::as_str).find(|name| !object.contains_key(*name)) {
            return Err(format!("{name} is missing"));
        }
        for (name, value) in object {
            if let Some(described) = node["properties"].get(name) {
                self.fits(described, value, Fields::Described).map_err(|wrong| format!(".{name} {wrong}"))?;
            }
        }
        let described = self.fields(node);
        match object.keys().find(|name| fields == Fields::Described && !described.contains(*name)) {
            Some(name) => Err(format!("{name} is not described")),
            None => Ok(()),
        }
    }

    fn takes(&self, value: &Value) -> Result<(), String> {
        self.fits(&self.0, value, Fields::Described)
    }
}

#[test]
fn what_commands_print_is_what_their_schemas_say() {
    let sick = testdata("traces/linux-5.10-net-rt.dat");
    let good = testdata("traces/linux-5.10-net-good.dat");
    let snapshot = testdata("snapshots/storage-controller-5.10.json");
    let cases: [(&str, &[&str]); 6] = [
        ("explain", &["explain", "--json", &sick]),
        ("explain", &["explain", "--json", &good]),
        ("compare", &["compare", "--json", &good, &sick]),
        ("check", &["check", "--json", "--snapshot", &snapshot]),
        ("check", &["check", "--json", "--snapshot", &snapshot, "--upgrade-to", "6.12"]),
        ("top", &["top", "--json", "--once", &sick]),
    ];
    for (name, arguments) in cases {
        assert_eq!(Schema::named(name).takes(&json(&unstarve(arguments))), Ok(()), "{arguments:?}");
    }
}

/// The stored recordings have all kinds of findings, losses and remedies.
#[test]
fn every_stored_recording_is_explained_as_the_schema_says() {
    let schema = Schema::named("explain");
    let mut explained = 0;
    for entry in std::fs::read_dir(testdata("traces")).expect("the recordings") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "dat")
            && path.metadata().is_ok_and(|of| of.len() < 16 << 20)
        {
            let report = json(&unstarve(&["explain", "--json", path.to_str().expect("UTF-8")]));
            assert_eq!(schema.takes(&report), Ok(()), "{}", path.display());
            explained += 1;
        }
    }
    assert!(explained > 5, "{explained} recordings");
}

#[test]
fn an_episode_is_what_its_schema_says() {
    let seen = Seen {
        trigger: Trigger::Wait { ns: 54_000_000, threshold_ns: 50_000_000 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule: None,
        blamed_ns: Some(1),
    };
    let episode = Episode { trigger: Some(seen), verdict: Some("Nobody is starved.".to_owned()), ..Episode::default() };
    let schema = Schema::named("episode");
    assert_eq!(schema.takes(&serde_json::to_value(&episode).expect("JSON")), Ok(()));
}

#[test]
fn what_is_wrong_is_seen() {
    let schema = Schema::named("explain");
    let mut report = json(&unstarve(&["explain", "--json", &testdata("traces/linux-5.10-net-rt.dat")]));
    report["findings"][0]["culprits"][0]["rule"] = "luck".into();
    assert!(schema.takes(&report).is_err_and(|wrong| wrong.starts_with(".findings [0] .culprits [0] .rule")));
    report["findings"][0]["culprits"][0]["rule"] = "class".into();
    assert_eq!(schema.takes(&report), Ok(()));
    report["colour"] = "red".into();
    assert_eq!(schema.takes(&report), Err("colour is not described".to_owned()));
}
