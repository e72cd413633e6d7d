//! A commit of `fleet compact`, which lies where hosts write.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use unstarve_fleet::{Commit, Head, Name, counting};

const HOUR: &str = "table=hosts/date=2026-11-22/hour=00";

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
    let head = Head::decode(1, HOUR, &bytes[..end]);
    let Ok(commit) = Commit::decode(1, HOUR, bytes) else { return };
    assert_eq!(head.as_ref(), Ok(&commit.head));
    // What it names lies beside it, and it is read as it is written.
    let outputs = commit.head.outputs.iter().map(|output| &output.name);
    assert!(outputs.clone().all(|name| matches!(Name::of(name), Name::Merged(_))));
    assert!(commit.inputs.iter().all(|input| !input.name.contains('/') && input.line_bytes() > 0));
    assert_eq!(Commit::decode(1, HOUR, &commit.encode()).as_ref(), Ok(&commit));
    let names: Vec<String> = commit.inputs.iter().map(|input| input.name.clone()).chain(["new.parquet".to_owned()]).collect();
    let Ok(files) = counting(&names, Some(&commit.head), || Ok::<_, Infallible>(commit.clone()));
    assert_eq!(files.loose.len(), usize::from(!commit.head.dropped));
    assert!(commit.head.dropped || files.outputs.iter().map(|output| &output.name).eq(outputs));
});
