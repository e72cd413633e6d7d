//! `unstarve`: finds the threads that a Linux scheduler starves and says who starved them, by which rule.

fn main() {}
