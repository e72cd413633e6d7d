use unstarve_diagnose::{ExplainError, Options, TaskFilter, explain};
use unstarve_model::{MemorySource, Names, Tid, TraceInfo};

#[test]
fn an_empty_trace_cannot_be_explained() {
    let source = MemorySource::new(TraceInfo::default(), Vec::new(), Names::default());
    let outcome = explain(Box::new(source), &Options::default(), |_| {});
    assert!(matches!(outcome, Err(ExplainError::NoEvents { .. })), "{outcome:?}");
}

#[test]
fn a_task_is_named_or_numbered() {
    assert_eq!(TaskFilter::parse("fio"), TaskFilter::Comm("fio".into()));
    assert_eq!(TaskFilter::parse("4711"), TaskFilter::Tid(Tid(4711)));
}
