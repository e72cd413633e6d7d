//! Runs the readers on the fuzzing corpus and on what fuzzing found.

use std::path::Path;

#[path = "../../../fuzz/fuzz_targets/drained.rs"]
mod drained;

#[test]
fn readers_end_on_every_file_of_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files = 0;
    for target in std::fs::read_dir(corpus).unwrap() {
        for file in std::fs::read_dir(target.unwrap().path()).unwrap() {
            drained::drain_bytes(&std::fs::read(file.unwrap().path()).unwrap());
            files += 1;
        }
    }
    assert!(files > 20, "{files} files");
}
