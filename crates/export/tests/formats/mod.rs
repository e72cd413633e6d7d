//! Every format is read back, mostly by an independent reader, and matches the report: for each recording in
//! `testdata/traces`, with hostile names, and for arbitrary events.

#[cfg(feature = "columnar")]
mod columnar;
mod firefox;
mod folded;
mod hostile;
mod perfetto;
mod stage;
mod tables;
