//! The pages of the book, which agents read by name.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    println!("cargo::rerun-if-changed={}", docs.join("SUMMARY.md").display());
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("docs/SUMMARY.md");
    let mut pages = String::from("&[\n");
    for line in summary.lines() {
        let link =
            line.split_once('[').and_then(|(_, rest)| rest.split_once("](")).filter(|(_, rest)| rest.ends_with(')'));
        let Some((title, path)) = link.map(|(title, rest)| (title, rest.trim_end_matches(')'))) else { continue };
        let file = docs.join(path).canonicalize().expect(path);
        println!("cargo::rerun-if-changed={}", file.display());
        writeln!(
            pages,
            "Page {{ path: {path:?}, title: {title:?}, text: include_str!({:?}) }},",
            file.display().to_string()
        )
        .expect("a string");
    }
    pages.push(']');
    let out = env::var_os("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join("pages.rs"), pages).expect("written");
}
