//! Parses the part of a line after `event:`, as printed by the kernel's `print fmt` and by libtraceevent's plugins,
//! whose shorter form `trace-cmd report` uses.
//!
//! A comm may contain any text, even the keys that follow it, so lines are parsed from their ends.

use memchr::memmem;
use unstarve_model::{BlockRequest, Comm, EventKind, EventType, NameId, PrevState, TaskRef};

use super::number::{any_base, cpu, hexadecimal, number, prio, tid};
use super::{fields, raw};
use crate::interner::Interner;
use crate::task_names::name_of_program;

/// Parses the body of an event's line. `None` if a part is missing or impossible.
pub fn decode(event: EventType, body: &[u8], names: &mut Interner) -> Option<EventKind> {
    let body = body.trim_ascii();
    decode_one(event, body, names).or_else(|| decode_one(event, &fields::in_decimal(body)?, names))
}

fn decode_one(event: EventType, body: &[u8], names: &mut Interner) -> Option<EventKind> {
    Some(match event {
        EventType::Switch => switch(body)?,
        EventType::Waking => {
            let (task, target_cpu) = woken(body)?;
            EventKind::Waking { task, target_cpu }
        }
        EventType::Wakeup => {
            let (task, target_cpu) = woken(body)?;
            EventKind::Wakeup { task, target_cpu }
        }
        EventType::WakeupNew => {
            let (task, target_cpu) = woken(body)?;
            EventKind::WakeupNew { task, target_cpu }
        }
        EventType::Migrate => {
            let (rest, dest) = split_last(body, b" dest_cpu=")?;
            let (rest, orig) = split_last(rest, b" orig_cpu=")?;
            EventKind::Migrate { task: named_task(rest)?, orig_cpu: cpu(orig)?, dest_cpu: cpu(dest)? }
        }
        EventType::Fork => {
            let (rest, child) = split_last(body, b" child_pid=")?;
            let (rest, child_comm) = split_last(rest, b" child_comm=")?;
            // `trace-cmd report -R` prints the field's own name.
            let (_, parent) = split_last(rest, b" pid=").or_else(|| split_last(rest, b" parent_pid="))?;
            EventKind::Fork { parent: tid(parent)?, child: tid(child)?, child_comm: Comm::new(child_comm) }
        }
        EventType::Exec => {
            let (rest, _) = split_last(body, b" old_pid=")?;
            let (program, pid) = split_last(rest, b" pid=")?;
            EventKind::Exec { tid: tid(pid)?, comm: name_of_program(program.strip_prefix(b"filename=")?) }
        }
        EventType::Rename => {
            let (rest, _) = split_last(body, b" oom_score_adj=")?;
            let (rest, new) = split_last(rest, b" newcomm=")?;
            let renamed = rest.strip_prefix(b"pid=").map(|rest| tid(split_first(rest, b" oldcomm=")?.0));
            EventKind::Rename { tid: renamed.map_or(Some(None), |tid| Some(Some(tid?)))?, comm: Comm::new(new) }
        }
        EventType::SetPrio => {
            let (rest, new) = split_last(body, b" newprio=")?;
            let (rest, _) = split_last(rest, b" oldprio=")?;
            EventKind::SetPrio { tid: tid(split_last(rest, b" pid=")?.1)?, prio: prio(new)? }
        }
        EventType::Exit => {
            let task = named_task(body)?;
            EventKind::Exit { tid: task.tid(), comm: *task.comm() }
        }
        EventType::IrqEntry => {
            let (irq, name) = split_first(body.strip_prefix(b"irq=")?, b" name=")?;
            let name = (!name.is_empty()).then(|| names.intern(name));
            EventKind::IrqEntry { irq: number(irq)?.try_into().ok()?, name }
        }
        EventType::IrqExit => EventKind::IrqExit { irq: number(body.strip_prefix(b"irq=")?)?.try_into().ok()? },
        EventType::SoftirqEntry => EventKind::SoftirqEntry { vec: vector(body)? },
        EventType::SoftirqExit => EventKind::SoftirqExit { vec: vector(body)? },
        EventType::SoftirqRaise => EventKind::SoftirqRaise { vec: vector(body)? },
        EventType::WorkQueued => work_queued(body, names)?,
        EventType::WorkStart => {
            let (work, function) = work_executed(body, names)?;
            EventKind::WorkStart { work, function }
        }
        EventType::WorkEnd => {
            let (work, function) = work_executed(body, names)?;
            EventKind::WorkEnd { work, function }
        }
        EventType::BlockInsert => EventKind::BlockInsert(block_request(body)?),
        EventType::BlockIssue => EventKind::BlockIssue(block_request(body)?),
        EventType::BlockComplete => EventKind::BlockComplete(block_request(body)?),
    })
}

pub fn split_last<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::rfind(text, key)?;
    Some((&text[..at], &text[at + key.len()..]))
}

pub fn split_first<'a>(text: &'a [u8], key: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(text, key)?;
    Some((&text[..at], &text[at + key.len()..]))
}

fn switch(body: &[u8]) -> Option<EventKind> {
    if let Some(body) = body.strip_prefix(b"prev_comm=") {
        let Some((prev, next)) = split_last(body, b" ==> next_comm=") else { return raw::switch(body) };
        let (prev, state) = split_last(prev, b" prev_state=")?;
        return Some(EventKind::Switch {
            prev: task(prev, b" prev_pid=", b" prev_prio=")?,
            prev_state: state_of_kernel(state),
            next: task(next, b" next_pid=", b" next_prio=")?,
        });
    }
    let (prev, next) = split_last(body, b" ==> ")?;
    let (prev, state) = split_last(prev, b" ")?;
    Some(EventKind::Switch { prev: short_task(prev)?, prev_state: state_of_plugin(state), next: short_task(next)? })
}

fn woken(body: &[u8]) -> Option<(TaskRef, unstarve_model::CpuId)> {
    if body.starts_with(b"comm=") {
        let (rest, target) = split_last(body, b" target_cpu=")?;
        return Some((named_task(rest)?, cpu(target)?));
    }
    let (rest, target) = split_last(body, b" CPU:")?;
    Some((short_task(rest)?, cpu(target)?))
}

/// `comm=fio pid=128 prio=120`.
fn named_task(text: &[u8]) -> Option<TaskRef> {
    task(text.strip_prefix(b"comm=")?, b" pid=", b" prio=")
}

pub(super) fn task(text: &[u8], pid_key: &[u8], prio_key: &[u8]) -> Option<TaskRef> {
    let (rest, priority) = split_last(text, prio_key)?;
    let (comm, pid) = split_last(rest, pid_key)?;
    Some(TaskRef::new(tid(pid)?, Comm::new(comm), Some(prio(priority)?)))
}

/// `kworker/0:1:45 [120]`.
fn short_task(text: &[u8]) -> Option<TaskRef> {
    let (rest, priority) = split_last(text, b" [")?;
    let (comm, pid) = split_last(rest, b":")?;
    Some(TaskRef::new(tid(pid)?, Comm::new(comm), Some(prio(priority)?)))
}

/// The state as the kernel's `print fmt` prints it; `+` marks a task that lost the CPU while runnable.
fn state_of_kernel(text: &[u8]) -> PrevState {
    let text = text.trim_ascii();
    if text.contains(&b'+') {
        return PrevState::Preempted;
    }
    match text {
        b"R" => PrevState::Runnable,
        // Before 4.14 an idle kernel thread was uninterruptible and "no load".
        b"I" | b"D|N" => PrevState::Idle,
        b"P" => PrevState::Parked,
        b"x" => PrevState::Dead,
        _ => state_of_letter(text),
    }
}

/// The state as libtraceevent's sched_switch plugin prints it, with the letters of an old kernel's bits: the bit that
/// means "idle" since 4.14 prints as `W`, "parked" as `x`, and "preempted" is lost and prints as `R`.
fn state_of_plugin(text: &[u8]) -> PrevState {
    match text.trim_ascii() {
        b"R" => PrevState::Runnable,
        b"R+" => PrevState::Preempted,
        b"W" | b"I" => PrevState::Idle,
        b"x" | b"P" => PrevState::Parked,
        text => state_of_letter(text),
    }
}

fn state_of_letter(text: &[u8]) -> PrevState {
    match text.first() {
        Some(b'S') => PrevState::Sleeping,
        Some(b'D') => PrevState::Uninterruptible,
        Some(b'T' | b't') => PrevState::Stopped,
        Some(b'X' | b'Z') => PrevState::Dead,
        _ => PrevState::Unknown,
    }
}

fn vector(body: &[u8]) -> Option<u8> {
    number(body.strip_prefix(b"vec=")?)?.try_into().ok()
}

fn work_queued(body: &[u8], names: &mut Interner) -> Option<EventKind> {
    let body = body.strip_prefix(b"work struct=").or_else(|| body.strip_prefix(b"work="))?;
    let (work, rest) = split_first(body, b" function=")?;
    let (function, workqueue) = split_last(rest, b" workqueue=")?;
    let workqueue = split_first(workqueue, b" req_cpu=")?.0;
    Some(EventKind::WorkQueued {
        work: hexadecimal(work)?,
        function: symbol(function, names),
        workqueue: workqueue_name(workqueue, names),
    })
}

fn work_executed(body: &[u8], names: &mut Interner) -> Option<(u64, Option<NameId>)> {
    if let Some(raw) = body.strip_prefix(b"work=") {
        let (work, function) = split_first(raw, b" function=").map_or((raw, None), |(work, name)| (work, Some(name)));
        return Some((hexadecimal(work)?, function.and_then(|function| symbol(function, names))));
    }
    let body = body.strip_prefix(b"work struct ")?;
    match split_first(body, b": function ") {
        Some((work, function)) => Some((hexadecimal(work)?, symbol(function, names))),
        None if body.ends_with(b":") => None,
        None => Some((hexadecimal(body)?, None)),
    }
}

/// `254,0 WS 4096 () 25526415 + 8 [fio]`, since 6.11 with the request's priority before the bracket. With the option
/// `fields`: `dev=0x700000 (7340032) sector=0x68 (104) nr_sector=0x8 (8) …`. With `trace-cmd report -R`: `dev=7340032
/// sector=104 nr_sector=8 …`. Between the device and the sector there may be a command in parentheses.
fn block_request(body: &[u8]) -> Option<BlockRequest> {
    if let Some(raw) = body.strip_prefix(b"dev=") {
        let (device, rest) = split_first(raw, b" sector=")?;
        let (sector, rest) = split_first(rest, b" nr_sector=")?;
        let sectors = u32::try_from(any_base(rest)?).ok()?;
        return Some(BlockRequest { device: any_base(device)?, sector: any_base(sector)?, sectors });
    }
    let (major, rest) = split_first(body, b",")?;
    let (minor, rest) = split_first(rest, b" ")?;
    let (_, range) = split_first(rest, b") ")?;
    let (sector, sectors) = split_first(range, b" + ")?;
    Some(BlockRequest {
        device: device(number(major)?, number(minor)?)?,
        sector: number(sector)?,
        sectors: u32::try_from(number(sectors)?).ok()?,
    })
}

/// A device number as the kernel encodes it (`MKDEV` in `include/linux/kdev_t.h`).
fn device(major: u64, minor: u64) -> Option<u64> {
    const MINOR_BITS: u32 = 20;
    (major < 1 << 12 && minor < 1 << MINOR_BITS).then_some(major << MINOR_BITS | minor)
}

/// A function's name without its module; `None` for a bare address.
fn symbol(text: &[u8], names: &mut Interner) -> Option<NameId> {
    let name = text.split(|&byte| byte == b' ').next()?;
    // The option `fields` also prints the offset in the function: `vmstat_update+0x0/0x80`.
    let name = split_first(name, b"+0x").map_or(name, |(name, _)| name);
    if name.is_empty() {
        return None;
    }
    let is_address = name.starts_with(b"0x") || name.iter().all(u8::is_ascii_hexdigit) && name.len() >= 8;
    (!is_address).then(|| names.intern(name))
}

/// The workqueue's name. `None` before 5.12, where the field is an address.
fn workqueue_name(text: &[u8], names: &mut Interner) -> Option<NameId> {
    let is_address = text.starts_with(b"0x") || text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit);
    (!is_address && !text.is_empty() && !text.starts_with(b"(")).then(|| names.intern(text))
}

#[cfg(test)]
mod tests {
    use unstarve_model::Names;

    use super::*;

    fn shown(event: &str, body: &str) -> String {
        let mut interner = Interner::new();
        let event = EventType::from_name(event).unwrap();
        let Some(kind) = decode(event, body.as_bytes(), &mut interner) else { return "-".into() };
        let (mut new, mut names) = (Vec::new(), Names::default());
        interner.take_new(&mut new);
        names.extend(new);
        crate::picture::kind(&kind, &names)
    }

    #[test]
    fn each_event_in_each_of_its_forms() {
        let table = [
            (
                "sched_switch",
                "prev_comm=fio prev_pid=28143 prev_prio=120 prev_state=R ==> next_comm=kworker/11:68 next_pid=27489 next_prio=100",
            ),
            (
                "sched_switch",
                "prev_comm=a b=c prev_pid=1 prev_prio=-1 prev_state=R+ ==> next_comm= ==> x next_pid=2 next_prio=0",
            ),
            ("sched_switch", "fio:123 [120] R ==> kworker/0:1:45 [120]"),
            ("sched_switch", "my task:123 [120] W ==> swapper/0:0 [120]"),
            (
                "sched_switch",
                "prev_comm=fio prev_pid=28143 prev_prio=120 prev_state=D|K ==> next_comm=x next_pid=1 next_prio=120",
            ),
            ("sched_switch", "prev_comm=fio prev_pid=28143 prev_prio=120 prev_state=S ==> next_comm=x next_pid=1"),
            ("sched_waking", "comm=kworker/11:68 pid=27489 prio=120 target_cpu=011"),
            ("sched_waking", "comm=x pid=1 prio=120 success=1 target_cpu=002"),
            ("sched_wakeup", "wl:116 [120] success=1 CPU:000"),
            ("sched_wakeup_new", "fio:127 [120] CPU:001"),
            ("sched_migrate_task", "comm=pid=1 pid=123 prio=120 orig_cpu=1 dest_cpu=0"),
            ("sched_process_fork", "comm=sh pid=120 child_comm=sh child_pid=121"),
            ("sched_process_exec", "filename=/dev/fd/3 pid=123 old_pid=123"),
            ("task_rename", "pid=7 oldcomm=a pid=b newcomm=my prog oom_score_adj=-100"),
            ("task_rename", "oldcomm=a newcomm=b oom_score_adj=0"),
            ("sched_pi_setprio", "comm=a b pid=7 oldprio=120 newprio=49"),
            ("sched_process_exec", "filename=/bin/my prog pid=123 old_pid=123"),
            ("sched_process_exit", "comm=fio pid=128 prio=120 group_dead=true"),
            ("irq_handler_entry", "irq=24 name=virtio0-input.0"),
            ("irq_handler_exit", "irq=24 ret=handled"),
            ("softirq_entry", "vec=9 [action=RCU]"),
            ("softirq_raise", "vec=300 [action=?]"),
            (
                "workqueue_queue_work",
                "work struct=0xffffffff82b81aa0 function=kernfs_notify_workfn workqueue=events req_cpu=8192 cpu=0",
            ),
            (
                "workqueue_queue_work",
                "work struct=00000000ba7307c0 function=xfs_end_io [xfs] workqueue=0xffff888003550200 req_cpu=2 cpu=2",
            ),
            ("workqueue_execute_start", "work struct 0xffff8880ba7307c0: function vmstat_update"),
            ("workqueue_execute_start", "work struct 0xffff8880ba7307c0: function 0xffffffff81234567"),
            ("workqueue_execute_end", "work struct 00000000ba7307c0"),
            (
                "sched_switch",
                "prev_comm=sh prev_pid=1642 prev_prio=120 prev_state=4096 next_comm=kworker/u12:1 next_pid=46 next_prio=120",
            ),
            ("sched_switch", "prev_comm=a b prev_pid=7 prev_prio=-1 prev_state=0x1 next_comm=x next_pid=2 next_prio=0"),
            ("sched_switch", "prev_comm=a prev_pid=7 prev_prio=120 next_comm=x next_pid=2 next_prio=0"),
            ("sched_process_fork", "parent_comm=wl parent_pid=120 child_comm=wl child_pid=121"),
            (
                "workqueue_queue_work",
                "work=0xffffffff82b638a0 function=vmstat_update workqueue=events req_cpu=8192 cpu=-1",
            ),
            ("workqueue_execute_start", "work=0xffffffff82b638a0 function=vmstat_update"),
            ("workqueue_execute_end", "work=0xffffffff82b638a0"),
            (
                "sched_switch",
                "prev_comm=cc1 prev_pid=0x1ad5 (6869) prev_prio=0x87 (135) prev_state=0x0 (0) next_comm=cargo next_pid=0x1b21 (6945) next_prio=0x78 (120)",
            ),
            ("sched_waking", "comm=cargo pid=0x1b21 (6945) prio=0x78 (120) target_cpu=0x1 (1)"),
            ("softirq_entry", "vec=0x4 (4)"),
            (
                "workqueue_queue_work",
                "work=0xffff8881020f7c40 (-131387309982656) function=blk_mq_run_work_fn+0x0/0x80 (-2119160320) workqueue=kblockd req_cpu=0x100 (256) cpu=0x1 (1)",
            ),
            (
                "workqueue_execute_start",
                "work=0xffff8881020f7c40 (-131387309982656) function=blk_mq_run_work_fn+0x0/0x80 (-2119160320)",
            ),
            ("sched_process_fork", "parent_comm=bash parent_pid=0x1b48 (6984) child_comm=bash child_pid=0x1b4d (6989)"),
            ("sched_process_exit", "comm=sleep pid=0x1b4d (6989) prio=0x78 (120) group_dead=(1)"),
            ("irq_handler_entry", "irq=0x24 (36) name=virtio1-req.0"),
            ("block_rq_issue", "7,0 RS 4096 () 104 + 8 be,0,4 [dd]"),
            ("block_rq_insert", "254,0 WS 4096 () 25526415 + 8 [a, b) + 1]"),
            ("block_rq_complete", "7,0 RS () 104 + 8 be,0,4 [0]"),
            ("block_rq_complete", "259,1048575 N (4d 00 0d) 18446744073709551615 + 0 [-5]"),
            ("block_rq_complete", "dev=7340032 sector=104 nr_sector=8 error=0 rwbs=RS cmd="),
            (
                "block_rq_issue",
                "dev=0x700000 (7340032) sector=0x68 (104) nr_sector=0x8 (8) bytes=0x1000 (4096) rwbs=RS comm=dd",
            ),
            ("block_rq_issue", "7 RS 4096 () 104 + 8 [dd]"),
            ("block_rq_issue", "7,1048576 RS 4096 () 104 + 8 [dd]"),
        ];
        let shown: Vec<String> = table.iter().map(|(event, body)| shown(event, body)).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        switch fio:28143(120) R -> kworker/11:68:27489(100)
        switch a b=c:1(-1) R+ ->  ==> x:2(0)
        switch fio:123(120) R -> kworker/0:1:45(120)
        switch my task:123(120) I -> swapper/0:0(120)
        switch fio:28143(120) D -> x:1(120)
        -
        waking kworker/11:68:27489(120) cpu 11
        waking x:1(120) cpu 2
        wakeup wl:116(120) cpu 0
        wakeup-new fio:127(120) cpu 1
        migrate pid=1:123(120) cpu 1 -> 0
        fork 120 -> sh:121
        exec <...>:123
        rename 7 to my prog
        rename current to b
        prio 7 to 49
        exec my prog:123
        exit fio:128
        irq-entry 24 virtio0-input.0
        irq-exit 24
        softirq-entry 9
        -
        work-queued ffffffff82b81aa0 kernfs_notify_workfn on events
        work-queued ba7307c0 xfs_end_io on ?
        work-start ffff8880ba7307c0 vmstat_update
        work-start ffff8880ba7307c0 ?
        work-end ba7307c0 ?
        switch sh:1642(120) R+ -> kworker/u12:1:46(120)
        switch a b:7(-1) S -> x:2(0)
        -
        fork 120 -> wl:121
        work-queued ffffffff82b638a0 vmstat_update on events
        work-start ffffffff82b638a0 vmstat_update
        work-end ffffffff82b638a0 ?
        switch cc1:6869(135) R -> cargo:6945(120)
        waking cargo:6945(120) cpu 1
        softirq-entry 4
        work-queued ffff8881020f7c40 blk_mq_run_work_fn on kblockd
        work-start ffff8881020f7c40 blk_mq_run_work_fn
        fork 6984 -> bash:6989
        exit sleep:6989
        irq-entry 36 virtio1-req.0
        block-issue 700000 104 + 8
        block-insert fe00000 25526415 + 8
        block-complete 700000 104 + 8
        block-complete 103fffff 18446744073709551615 + 0
        block-complete 700000 104 + 8
        block-issue 700000 104 + 8
        -
        -
        ");
    }
}
