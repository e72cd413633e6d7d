//! Snapshots that no host gave: whatever stands in them, the audit answers or the reader refuses, and nobody panics.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unstarve_facts::{Snapshot, changes_between_snapshots, drifts};

/// A generator whose numbers are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// What a field may hold that nobody expects.
fn strange(random: &mut Random) -> Value {
    let all = [
        json!(0),
        json!(1),
        json!(u64::MAX),
        json!(u32::MAX),
        json!(i64::MIN),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{9b}31m\n\u{202e}"),
        json!("0-8191"),
        json!("99999999999999999999"),
        json!("/"),
        json!("//a/../.."),
        json!("-"),
        json!("6.12.107"),
        json!(null),
        json!(true),
        json!([]),
        json!({}),
    ];
    all[random.below(all.len())].clone()
}

/// Changes one thing somewhere below `value`.
fn damage(value: &mut Value, random: &mut Random) {
    let replace = random.below(6) == 0;
    match value {
        Value::Array(items) if !items.is_empty() && !replace => {
            let index = random.below(items.len());
            match random.below(8) {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                _ => damage(&mut items[index], random),
            }
        }
        Value::Object(fields) if !fields.is_empty() && !replace => {
            let index = random.below(fields.len());
            let key = fields.keys().nth(index).cloned().unwrap_or_default();
            match random.below(12) {
                0 => drop(fields.remove(&key)),
                _ => fields.get_mut(&key).into_iter().for_each(|field| damage(field, random)),
            }
        }
        other => *other = strange(random),
    }
}

#[test]
fn no_snapshot_makes_it_panic() {
    let read = |name: &str| {
        let path = format!("{}/../../testdata/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("testdata")
    };
    let text = read("storage-controller-5.10.json");
    let good: Value = serde_json::from_str(&text).expect("JSON");
    let whole = Snapshot::from_json(&text).expect("a snapshot");
    let mut random = Random(0x5eed);
    let end = Instant::now() + Duration::from_secs(3);
    let (mut read, mut refused) = (0, 0);
    while Instant::now() < end && read < 400 {
        let mut broken = good.clone();
        for _ in 0..=random.below(12) {
            damage(&mut broken, &mut random);
        }
        let Ok(snapshot) = Snapshot::from_json(&broken.to_string()) else {
            refused += 1;
            continue;
        };
        read += 1;
        let version = ["5.10", "6.12", "7.2"][random.below(3)].parse().expect("a version");
        let audit = unstarve_check::audit_upgrade(&snapshot, version);
        let forms = serde_json::to_string(&audit).expect("JSON") + &unstarve_check::sarif(&audit, "0").to_string();
        let leak = forms.find(['\u{9b}', '\u{202e}']);
        assert_eq!(
            leak.map(|at| forms[..at].chars().rev().take(80).collect::<String>()),
            None,
            "what stands before it, backwards"
        );
        drifts(&snapshot, Some(version));
        changes_between_snapshots(&whole, &snapshot);
        let redacted = snapshot.redacted();
        assert!(Snapshot::from_json(&redacted.to_json()).is_ok());
    }
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}
