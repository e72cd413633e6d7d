//! The events of a recording, one by one.

use unstarve_model::{Batch, Event, EventSource, Names, SourceError, TraceInfo};

/// Iterates over the events of a recording in time order, in bounded memory.
///
/// ```
/// use unstarve_trace::{EventKind, events, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/traces/fsdevel-perf-script.txt");
/// let mut switches = 0;
/// for event in events(open(path.as_ref())?) {
///     if let EventKind::Switch { prev, next, .. } = event?.kind {
///         assert_ne!(prev.tid(), next.tid());
///         switches += 1;
///     }
/// }
/// assert!(switches > 0);
/// # Ok(())
/// # }
/// ```
pub fn events(source: Box<dyn EventSource>) -> Events {
    Events { source, batch: Batch::with_room(), next: 0, names: Names::default(), ended: false }
}

/// The iterator that [`events`] returns. It ends after the first error.
pub struct Events {
    source: Box<dyn EventSource>,
    batch: Batch,
    next: usize,
    names: Names,
    ended: bool,
}

impl Events {
    /// The texts of the [`NameId`](crate::NameId)s in the events so far: work functions, workqueues, interrupt handlers.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What the recording says about itself; some formats complete it only at their end.
    pub fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    /// What the recording could not give; complete once the iterator has ended.
    pub fn losses(&self) -> Vec<unstarve_model::Loss> {
        self.source.losses()
    }
}

impl Iterator for Events {
    type Item = Result<Event, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.batch.events.get(self.next) {
                self.next += 1;
                return Some(Ok(*event));
            }
            if self.ended {
                return None;
            }
            self.next = 0;
            match self.source.read(&mut self.batch) {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    self.batch.clear();
                    return Some(Err(error));
                }
            }
            self.names.extend(self.batch.names.drain(..));
        }
    }
}
