//! Every format is read back, most often by a reader of its own kind, and says what the report says: on each recording of
//! `testdata/traces`, with hostile names, and whatever the events are.

#[cfg(feature = "columnar")]
mod columnar;
mod firefox;
mod folded;
mod hostile;
mod perfetto;
mod stage;
mod tables;
