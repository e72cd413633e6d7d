/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Tells user space of births, names, programs, what workers work on, and who changed whose scheduling. Linux 5.10 and
 * later: BTF tracepoints (5.5), ring buffer (5.8). Nothing here changes anything.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum kind { BORN = 1, RENAMED = 2, EXECUTED = 3, WORKED = 4, CHANGED = 5 };

/* One for all kinds: the Rust type is made from this one. */
struct event {
	u64 time;
	/* When the task was created, ns of the boot clock. */
	u64 start;
	/* WORKED: the address of the function. */
	u64 function;
	u32 kind;
	u32 tid;
	u32 tgid;
	u32 flags;
	/* The process that made the task, or that changed it. */
	u32 by;
	u32 pad;
	char comm[16];
	char by_comm[16];
	/* WORKED. */
	char workqueue[32];
};

/* So that the type is in the object's BTF. */
struct event an_event = {};

/* The guard's own process, whose changes are no news. */
const volatile u32 own_tgid = 0;
/* Whether births of programs' threads are asked for. */
const volatile bool programs = 1;

/* Events for which there was no room. */
u64 lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

static struct event *reserve(u32 kind)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->kind = kind;
	return event;
}

static void about(struct event *event, struct task_struct *task)
{
	event->tid = task->pid;
	event->tgid = task->tgid;
	event->flags = task->flags;
	event->start = task->start_boottime;
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), &task->comm);
}

static bool asked_for(struct task_struct *task)
{
	return programs || (task->flags & PF_KTHREAD);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(born, struct task_struct *task, u64 clone_flags)
{
	struct event *event;

	if (!asked_for(task))
		return 0;
	event = reserve(BORN);
	if (!event)
		return 0;
	about(event, task);
	event->by = BPF_CORE_READ(task, real_parent, tgid);
	bpf_get_current_comm(event->by_comm, sizeof(event->by_comm));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(renamed, struct task_struct *task, const char *comm)
{
	struct event *event;

	if (!asked_for(task))
		return 0;
	event = reserve(RENAMED);
	if (!event)
		return 0;
	about(event, task);
	/* The tracepoint comes before the name is written. */
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), comm);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executed, struct task_struct *task)
{
	struct event *event;

	if (!programs)
		return 0;
	event = reserve(EXECUTED);
	if (!event)
		return 0;
	about(event, task);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* What was told already: once for each worker, workqueue and function, not for each of a million items. */
struct item {
	u64 start;
	u64 workqueue;
	u64 function;
	u64 tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct item);
	__type(value, u8);
} told SEC(".maps");

static struct worker *worker_of(struct task_struct *task)
{
	struct kthread *kthread;

	if (bpf_core_field_exists(struct task_struct___5_17, worker_private))
		kthread = BPF_CORE_READ((struct task_struct___5_17 *)task, worker_private);
	else
		kthread = (void *)BPF_CORE_READ((struct task_struct___5_10 *)task, set_child_tid);
	return kthread ? BPF_CORE_READ(kthread, data) : 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(worked, struct work_struct *work)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct worker *worker = worker_of(task);
	struct workqueue_struct *workqueue;
	struct item item = {};
	struct event *event;
	u8 yes = 1;

	if (!worker)
		return 0;
	workqueue = BPF_CORE_READ(worker, current_pwq, wq);
	item.start = BPF_CORE_READ(task, start_boottime);
	item.workqueue = (u64)workqueue;
	item.function = (u64)work->func;
	item.tid = (u32)bpf_get_current_pid_tgid();
	if (bpf_map_lookup_elem(&told, &item))
		return 0;
	event = reserve(WORKED);
	if (!event)
		return 0;
	bpf_map_update_elem(&told, &item, &yes, BPF_ANY);
	event->tid = item.tid;
	event->tgid = item.tid;
	event->start = item.start;
	event->flags = BPF_CORE_READ(task, flags);
	event->function = item.function;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	bpf_probe_read_kernel_str(event->workqueue, sizeof(event->workqueue), &workqueue->name);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* Whom a system call in progress is about. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} changing SEC(".maps");

static int changes(u32 target)
{
	u64 self = bpf_get_current_pid_tgid();

	if (self >> 32 == own_tgid)
		return 0;
	if (!target)
		target = (u32)self;
	bpf_map_update_elem(&changing, &self, &target, BPF_ANY);
	return 0;
}

static int changed(struct syscall_exit *call)
{
	u64 self = bpf_get_current_pid_tgid();
	u32 *target = bpf_map_lookup_elem(&changing, &self);
	struct event *event;

	if (!target)
		return 0;
	if (call->ret >= 0 && (event = reserve(CHANGED))) {
		event->tid = *target;
		event->by = self >> 32;
		bpf_get_current_comm(event->by_comm, sizeof(event->by_comm));
		bpf_ringbuf_submit(event, 0);
	}
	bpf_map_delete_elem(&changing, &self);
	return 0;
}

#define CHANGES(call, argument)                                                                                        \
	SEC("tp/syscalls/sys_enter_" #call)                                                                                \
	int enter_##call(struct syscall_enter *enter)                                                                      \
	{                                                                                                                  \
		return changes(enter->args[argument]);                                                                         \
	}                                                                                                                  \
	SEC("tp/syscalls/sys_exit_" #call)                                                                                 \
	int exit_##call(struct syscall_exit *exit)                                                                         \
	{                                                                                                                  \
		return changed(exit);                                                                                          \
	}

CHANGES(sched_setattr, 0)
CHANGES(sched_setscheduler, 0)
CHANGES(sched_setparam, 0)
CHANGES(sched_setaffinity, 0)
CHANGES(setpriority, 1)
