//! What `lab run` keeps of a run (`outcome.json`), and what `compare` makes of two.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_lab::compare::{Plan, of_outcomes};
use unstarve_lab::run::Outcome;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Two results with a NUL between, or one that is compared with itself.
    let (first, second) = match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, bytes),
    };
    let (Ok(first), Ok(second)) = (serde_json::from_slice::<Outcome>(first), serde_json::from_slice(second)) else {
        return Corpus::Keep;
    };
    let scenario = first.request.scenario.clone();
    let pairs = vec![(first.clone(), second), (first.clone(), first)];
    let compared = of_outcomes(&scenario, ("a".to_owned(), "b".to_owned()), &pairs, Plan::default().matters);
    let text = compared.to_string();
    assert!(!text.is_empty());
    serde_json::to_string(&compared).expect("JSON");
    Corpus::Keep
});
