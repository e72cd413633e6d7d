//! The watch's configuration: refused with a place, or what holds, which printed in full means the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_watch::config::Config;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    match Config::parse(Path::new("w.toml"), text) {
        Err(error) => assert!(error.to_string().starts_with("w.toml"), "{error}"),
        Ok(config) => {
            let printed = config.to_toml();
            let again = Config::parse(Path::new("w.toml"), &printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert_eq!(again.to_toml(), printed);
        }
    }
    Corpus::Keep
});
