//! The program `unstarve-load`; see the library.

use clap::Parser;

fn main() {
    unstarve_load::run(unstarve_load::Args::parse());
}
