//! Whether JSON is what a schema of schemars says.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A schema, as far as schemars writes it.
#[derive(Debug)]
pub struct JsonSchema(Value);

/// Whether fields that a node does not describe are errors: in a part of a node that is described by several they are not.
#[derive(Clone, Copy, PartialEq)]
enum Fields {
    Described,
    Any,
}

/// Whether fields that are always printed may be missing.
#[derive(Clone, Copy, PartialEq)]
enum Release {
    Today,
    /// A later one may have added them.
    Earlier,
}

const COMBINED_SCHEMAS: [&str; 3] = ["oneOf", "anyOf", "allOf"];

impl JsonSchema {
    /// A schema as it is printed.
    pub fn of(schema: Value) -> JsonSchema {
        JsonSchema(schema)
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

    fn fits(&self, node: &Value, value: &Value, fields: Fields, release: Release) -> Result<(), String> {
        if node == &Value::Bool(true) {
            return Ok(());
        }
        let has_own = node.get("properties").is_some();
        let within = if has_own { Fields::Any } else { fields };
        if let Some(target) = self.target(node) {
            self.fits(target, value, within, release)?;
        }
        for part in COMBINED_SCHEMAS {
            let Some(choices) = node.get(part).and_then(Value::as_array) else { continue };
            let tried: Vec<Result<(), String>> =
                choices.iter().map(|one| self.fits(one, value, within, release)).collect();
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
                self.fits(items, item, Fields::Described, release).map_err(|wrong| format!("[{index}] {wrong}"))?;
            }
        }
        match value.as_object() {
            Some(object) if has_own => self.object_fits(node, object, fields, release),
            _ => Ok(()),
        }
    }

    fn object_fits(
        &self,
        node: &Value,
        object: &Map<String, Value>,
        fields: Fields,
        release: Release,
    ) -> Result<(), String> {
        let required = node.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing = required.filter_map(Value::as_str).find(|name| !object.contains_key(*name));
        if let Some(name) = missing.filter(|_| release == Release::Today) {
            return Err(format!("{name} is missing"));
        }
        for (name, value) in object {
            if let Some(described) = node["properties"].get(name) {
                self.fits(described, value, Fields::Described, release).map_err(|wrong| format!(".{name} {wrong}"))?;
            }
        }
        let described = self.fields(node);
        match object.keys().find(|name| fields == Fields::Described && !described.contains(*name)) {
            Some(name) => Err(format!("{name} is not described")),
            None => Ok(()),
        }
    }

    /// Whether a value is what it says, and has no field that it does not describe; the error says where not.
    pub fn takes(&self, value: &Value) -> Result<(), String> {
        self.fits(&self.0, value, Fields::Described, Release::Today)
    }

    /// The same for what an earlier release printed, whose fields this one may have more of.
    pub fn takes_earlier(&self, value: &Value) -> Result<(), String> {
        self.fits(&self.0, value, Fields::Described, Release::Earlier)
    }
}
