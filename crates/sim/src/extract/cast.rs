//! Who is played: every thread that ran or waited enough to be felt by others, except the recorder and what every kernel has of
//! its own.

use unstarve_facts::Snapshot;
use unstarve_model::Nanos;
use unstarve_sched::KernelThread;

use super::report::{Evidence, Inference};
use super::thread::Thread;
use super::{is_nothing, recorder_of};

pub(super) struct Cast {
    /// Indices of threads, in the order of actors.
    pub played: Vec<usize>,
    pub inferences: Vec<Inference>,
}

/// Why a thread is not played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeftOut {
    Recorder,
    /// Every kernel has its own: migration/N stops the CPU for the scheduler itself.
    OfEveryKernel,
    /// It neither ran nor waited long enough to be felt.
    Small,
}

pub(super) fn choose(threads: &[Thread], snapshot: Option<&Snapshot>, length: Nanos) -> Cast {
    let mut played = Vec::new();
    let mut left = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        match left_out(thread, snapshot, length) {
            None => played.push(index),
            Some(why) => left.push((why, thread)),
        }
    }
    let row = |why: LeftOut, what: &str| {
        let of: Vec<&Thread> = left.iter().filter(|(reason, _)| *reason == why).map(|(_, thread)| *thread).collect();
        let ran: Nanos = of.iter().map(|thread| thread.ran).sum();
        Inference::of_threads(of.len(), &format!("{what}, with {} µs of CPU time", ran.0 / 1000), Evidence::Event)
    };
    let rows = [
        row(LeftOut::Recorder, "left out: the recorder"),
        row(LeftOut::OfEveryKernel, "left out: every kernel has its own"),
        row(LeftOut::Small, "left out: too little to be felt"),
    ];
    Cast { played, inferences: rows.into_iter().flatten().collect() }
}

fn left_out(thread: &Thread, snapshot: Option<&Snapshot>, length: Nanos) -> Option<LeftOut> {
    let process = snapshot.and_then(|snapshot| snapshot.process_of(thread.tid)).unwrap_or(thread.tid);
    let name = thread.kernel_name().as_bytes();
    // The recorder's other threads, and in guests the lab's own.
    if Some(process) == recorder_of(snapshot) || name.starts_with(b"unstarve-") {
        return Some(LeftOut::Recorder);
    }
    if thread.is_kernel_thread && matches!(KernelThread::of(thread.kernel_name()), Some(KernelThread::Migration)) {
        return Some(LeftOut::OfEveryKernel);
    }
    is_nothing(thread.ran + thread.waited, length).then_some(LeftOut::Small)
}
