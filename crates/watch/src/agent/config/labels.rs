//! The section `[labels]`: what this host is called by, beside its name.

use std::collections::BTreeMap;

/// Labels are in every episode, push and scrape, so there are few, and they are short. A journal's field has 64 characters, of which 15 are a
/// prefix.
const MOST_LABELS: usize = 32;
const LONGEST_KEY: usize = 48;
const LONGEST_VALUE: usize = 256;

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// A label's key in names that have letters, digits and `_` only: `topology.zone` becomes `topology_zone`.
pub fn label_word(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The first label that could be confused with others, or that an output could not carry, and why.
pub(super) fn bad_label(labels: &Labels) -> Option<(&str, String)> {
    let is_name = |text: &str| {
        text.len() <= LONGEST_KEY
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    let is_value =
        |text: &str| text.len() <= LONGEST_VALUE && !text.contains([',', '=']) && !text.chars().any(char::is_control);
    let mut words: BTreeMap<String, &str> = BTreeMap::new();
    for (number, (key, value)) in labels.iter().enumerate() {
        if !is_name(key) || !is_value(value) {
            let expected =
                "expected a key of letters, digits and _-./ that begins with a letter, and a value without comma and =";
            return Some((
                key,
                format!("label `{key}` = `{value}`: {expected}; at most {LONGEST_KEY} and {LONGEST_VALUE} bytes"),
            ));
        }
        if number >= MOST_LABELS {
            return Some((key, format!("label `{key}`: there are more than {MOST_LABELS} labels")));
        }
        // The journal's fields are in capitals.
        if let Some(other) = words.insert(label_word(key).to_ascii_uppercase(), key) {
            let what = format!("label `{key}`: in metrics and in the journal `{other}` has the same name");
            return Some((key, what));
        }
    }
    None
}
