//! Formats events as short lines, for tests that read as pictures.

use std::fmt::Write;

use unstarve_model::{BlockRequest, Context, Event, EventKind, NameId, Names, PrevState, TaskRef};

/// `1.234567890 [001] 47 s switch fio:12 R+ -> kworker/0:2:47`: time, CPU, current task, context (as in ftrace's flags
/// column; `?` is unknown), event.
pub fn event(event: &Event, names: &Names) -> String {
    let context = match event.issuer.context() {
        Context::Task => '.',
        Context::Softirq => 's',
        Context::Hardirq => 'h',
        Context::Nmi => 'z',
        Context::Unknown => '?',
    };
    let current = event.issuer.current().map_or("-".to_owned(), |tid| tid.to_string());
    let (seconds, nanos) = (event.time.0 / 1_000_000_000, event.time.0 % 1_000_000_000);
    format!("{seconds}.{nanos:09} [{:03}] {current} {context} {}", event.cpu.0, kind(&event.kind, names))
}

/// All `events`, one line each.
pub fn events(events: &[Event], names: &Names) -> String {
    events.iter().map(|e| event(e, names)).collect::<Vec<_>>().join("\n")
}

/// The event's content in a few words.
pub fn kind(kind: &EventKind, names: &Names) -> String {
    let mut text = String::new();
    write_kind(&mut text, kind, names).expect("writing to a String does not fail");
    text
}

fn write_kind(out: &mut String, kind: &EventKind, names: &Names) -> std::fmt::Result {
    let name = |id: &Option<NameId>| id.map_or("?", |id| names.get(id));
    match kind {
        EventKind::Switch { prev, prev_state, next } => {
            write!(out, "switch {} {} -> {}", task(prev), state(*prev_state), task(next))
        }
        EventKind::Waking { task: t, target_cpu } => write!(out, "waking {} cpu {target_cpu}", task(t)),
        EventKind::Wakeup { task: t, target_cpu } => write!(out, "wakeup {} cpu {target_cpu}", task(t)),
        EventKind::WakeupNew { task: t, target_cpu } => write!(out, "wakeup-new {} cpu {target_cpu}", task(t)),
        EventKind::Migrate { task: t, orig_cpu, dest_cpu } => {
            write!(out, "migrate {} cpu {orig_cpu} -> {dest_cpu}", task(t))
        }
        EventKind::Fork { parent, child, child_comm } => write!(out, "fork {parent} -> {child_comm}:{child}"),
        EventKind::Exec { tid, comm } => write!(out, "exec {comm}:{tid}"),
        EventKind::Rename { tid: Some(tid), comm } => write!(out, "rename {tid} to {comm}"),
        EventKind::Rename { tid: None, comm } => write!(out, "rename current to {comm}"),
        EventKind::SetPrio { tid, prio } => write!(out, "prio {tid} to {}", prio.0),
        EventKind::Exit { tid, comm } => write!(out, "exit {comm}:{tid}"),
        EventKind::IrqEntry { irq, name: n } => write!(out, "irq-entry {irq} {}", name(n)),
        EventKind::IrqExit { irq } => write!(out, "irq-exit {irq}"),
        EventKind::SoftirqEntry { vec } => write!(out, "softirq-entry {vec}"),
        EventKind::SoftirqExit { vec } => write!(out, "softirq-exit {vec}"),
        EventKind::SoftirqRaise { vec } => write!(out, "softirq-raise {vec}"),
        EventKind::WorkQueued { work, function, workqueue } => {
            write!(out, "work-queued {work:x} {} on {}", name(function), name(workqueue))
        }
        EventKind::WorkStart { work, function } => write!(out, "work-start {work:x} {}", name(function)),
        EventKind::WorkEnd { work, function } => write!(out, "work-end {work:x} {}", name(function)),
        EventKind::BlockInsert(request) => write!(out, "block-insert {}", block_request(request)),
        EventKind::BlockIssue(request) => write!(out, "block-issue {}", block_request(request)),
        EventKind::BlockComplete(request) => write!(out, "block-complete {}", block_request(request)),
        EventKind::WorkOnStack { tid, function } => write!(out, "work-on-stack {tid} {}", names.get(*function)),
        EventKind::Tick { heard: Some(heard) } => write!(out, "tick after {}", heard.0),
        EventKind::Tick { heard: None } => write!(out, "tick"),
        EventKind::TickStop => write!(out, "tick-stop"),
        EventKind::VectorEntry { vector } => write!(out, "vector-entry {}", vector.name()),
        EventKind::VectorExit { vector } => write!(out, "vector-exit {}", vector.name()),
        EventKind::TimerStart { timer, due, is_relative } => {
            write!(out, "timer-start {timer:x} due {due}{}", if *is_relative { " relative" } else { "" })
        }
        EventKind::TimerExpire { timer, now } => write!(out, "timer-expire {timer:x} at {now}"),
        EventKind::TimeoutExpire => write!(out, "timeout-expire"),
        EventKind::Attach { tid, hierarchy, group } => write!(out, "attach {tid} to {hierarchy}:{}", name(group)),
        EventKind::Lost { count: Some(count) } => write!(out, "lost {count}"),
        EventKind::Lost { count: None } => write!(out, "lost ?"),
    }
}

fn task(task: &TaskRef) -> String {
    let prio = task.prio().map_or("?".to_owned(), |prio| prio.0.to_string());
    format!("{}:{}({prio})", task.comm(), task.tid())
}

fn block_request(request: &BlockRequest) -> String {
    format!("{:x} {} + {}", request.device, request.sector, request.sectors)
}

fn state(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable => "R",
        PrevState::Preempted => "R+",
        PrevState::Sleeping => "S",
        PrevState::Uninterruptible => "D",
        PrevState::Idle => "I",
        PrevState::Stopped => "T",
        PrevState::Parked => "P",
        PrevState::Dead => "X",
        PrevState::Unknown => "?",
    }
}
