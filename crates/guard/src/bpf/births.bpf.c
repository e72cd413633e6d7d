/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Tells user space of births, names, programs, what workers work on, who changed whose scheduling, and the ends of tasks in
 * the guard's care. Linux 5.10 and later: BTF tracepoints (5.5), ring buffer (5.8). Nothing here changes anything.
 *
 * Anybody may start programs, so what a birth costs is decided here: one that no rule can be about is not reported, and
 * no user has more than so many reported in a second.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum kind { BORN = 1, RENAMED = 2, EXECUTED = 3, WORKED = 4, CHANGED = 5, ENDED = 6, REOWNED = 7, MOVED = 8 };

/* One for all kinds: the Rust type is made from this one. Ids are those of the guard's PID namespace. */
struct event {
	u64 time;
	/* When the task was created, ns of the boot clock. */
	u64 start;
	/* WORKED: the address of the function. BORN: the flags of clone(2). */
	u64 function;
	/* ENDED: how long it ran, in ns. */
	u64 ran;
	u32 kind;
	u32 tid;
	u32 tgid;
	u32 flags;
	/* The task that made it; the process that changed it. */
	u32 by;
	/* ENDED: the CPU on which it was. */
	u32 cpu;
	/* ENDED: as the kernel counts, below 100 is real-time. */
	s32 prio;
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
/* The inode of the guard's PID namespace, if that is not the initial one. */
const volatile u32 own_namespace = 0;
/* Whether programs are asked for at all. */
const volatile bool programs = 1;
/* How the names begin that rules are about; none: any name may be meant. */
#define MOST_NAMES 32
#define NAME 16
struct beginning {
	char text[NAME];
	u32 length;
};
const volatile struct beginning names[MOST_NAMES] = {};
const volatile u32 name_count = 0;

/* Set while tasks in the guard's care are more than the map holds. */
volatile bool follow_all = 0;
/* Events for which there was no room. */
u64 lost = 0;
/* Events of users who had too many. */
u64 throttled = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/*
 * Tasks in the guard's care, whose children inherit what it has set, and the task from which they have it. The guard adds those
 * that it changes; children are added here at once, so that whoever takes everything back finds them, though nobody was
 * told yet.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	/* Preallocated: up to 6.0 the kernel warns of anything else in programs of system calls. */
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, u32);
} kept SEC(".maps");

/* How many more events of a user are reported now. */
struct allowance {
	u64 time;
	u64 left;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct allowance);
} allowances SEC(".maps");

#define PER_SECOND 3000
#define AT_ONCE 4000
/* (uid_t) -1 is no user. */
#define ALL_USERS 0xffffffffU
#define SECOND 1000000000ULL

/* Whether a user may have one more of so many. Two CPUs may let one more through than meant. */
static bool allow(u32 user, u64 at_once, u64 interval)
{
	u64 now = bpf_ktime_get_ns();
	struct allowance *known = bpf_map_lookup_elem(&allowances, &user);
	struct allowance fresh = { .time = now, .left = at_once - 1 };
	u64 gained;

	if (!known) {
		bpf_map_update_elem(&allowances, &user, &fresh, BPF_ANY);
		return 1;
	}
	gained = (now - known->time) / interval;
	/* Another CPU's clock may be a little behind. */
	if (now > known->time && gained) {
		if (gained > at_once - known->left)
			known->left = at_once;
		else
			known->left += gained;
		known->time = now;
	}
	if (!known->left) {
		__sync_fetch_and_add(&throttled, 1);
		return 0;
	}
	known->left--;
	return 1;
}

/* Whether the current user may have one more, and all users together: a container has thousands of them. */
static bool allowed(void)
{
	u32 user = (u32)bpf_get_current_uid_gid();

	return allow(user, AT_ONCE, SECOND / PER_SECOND) && allow(ALL_USERS, 2 * AT_ONCE, SECOND / (2 * PER_SECOND));
}

/* The number of a task in the guard's namespace; 0 if it has none there. */
static u32 number_of(struct task_struct *task)
{
	struct pid *pid;
	struct upid *number;
	unsigned int level, i;

	if (!own_namespace)
		return BPF_CORE_READ(task, pid);
	pid = BPF_CORE_READ(task, thread_pid);
	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	/* MAX_PID_NS_LEVEL */
	for (i = 0; i <= 32; i++) {
		if (i > level)
			break;
		number = (void *)__builtin_preserve_access_index(&pid->numbers) + i * bpf_core_type_size(struct upid);
		if (BPF_CORE_READ(number, ns, ns.inum) == own_namespace)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

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

static void about(struct event *event, struct task_struct *task, u32 tid)
{
	event->tid = tid;
	event->tgid = own_namespace ? number_of(BPF_CORE_READ(task, group_leader)) : BPF_CORE_READ(task, tgid);
	event->flags = BPF_CORE_READ(task, flags);
	event->start = BPF_CORE_READ(task, start_boottime);
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), &task->comm);
}

/* Whether a rule may be about a program of this name. */
static bool may_be_meant(const char *comm)
{
	u32 i, j;

	if (!name_count)
		return 1;
	for (i = 0; i < MOST_NAMES; i++) {
		if (i >= name_count)
			break;
		for (j = 0; j < NAME; j++) {
			if (j >= names[i].length)
				return 1;
			if (comm[j] != names[i].text[j])
				break;
		}
	}
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(born, struct task_struct *task, u64 clone_flags)
{
	struct task_struct *parent = (void *)bpf_get_current_task();
	bool is_kernel = task->flags & PF_KTHREAD;
	struct event *event;
	char comm[NAME] = {};
	u32 tid, by, from, *known;
	bool heir;

	if (!is_kernel && !programs)
		return 0;
	tid = number_of(task);
	if (!tid)
		return 0;
	by = number_of(parent);
	known = bpf_map_lookup_elem(&kept, &by);
	/* The kernel sets its own threads up anew (kthread()). */
	heir = !is_kernel && (follow_all || known);
	if (!is_kernel && !heir) {
		bpf_probe_read_kernel_str(comm, sizeof(comm), &task->comm);
		if (!may_be_meant(comm) || !allowed())
			return 0;
	}
	if (heir && known) {
		from = *known;
		if (bpf_map_update_elem(&kept, &tid, &from, BPF_ANY))
			__sync_fetch_and_add(&lost, 1);
		/* It is noted; whether it is told at once is a matter of how many there are. */
		if (!allowed())
			return 0;
	}
	event = reserve(BORN);
	if (!event)
		return 0;
	about(event, task, tid);
	event->function = clone_flags;
	event->by = by;
	bpf_get_current_comm(event->by_comm, sizeof(event->by_comm));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(renamed, struct task_struct *task, const char *comm)
{
	struct event *event;
	char name[NAME] = {};
	u32 tid;

	if (!(task->flags & PF_KTHREAD)) {
		if (!programs)
			return 0;
		tid = number_of(task);
		bpf_probe_read_kernel_str(name, sizeof(name), comm);
		/* One in the guard's care may be nobody's by its new name. */
		if (!may_be_meant(name) && !bpf_map_lookup_elem(&kept, &tid))
			return 0;
		if (!allowed())
			return 0;
	}
	tid = number_of(task);
	if (!tid)
		return 0;
	event = reserve(RENAMED);
	if (!event)
		return 0;
	about(event, task, tid);
	/* The tracepoint comes before the name is written. */
	bpf_probe_read_kernel_str(event->comm, sizeof(event->comm), comm);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executed, struct task_struct *task, int before)
{
	u32 tid, old = before, from, *known;
	struct event *event;
	char comm[NAME] = {};

	if (!programs)
		return 0;
	tid = number_of(task);
	if (!tid)
		return 0;
	/* A thread that is not the first takes over the number of the first. What it was before is a number of the initial namespace. */
	known = bpf_map_lookup_elem(&kept, &tid);
	if (!known && !own_namespace)
		known = bpf_map_lookup_elem(&kept, &old);
	if (known) {
		from = *known == old ? tid : *known;
		bpf_map_update_elem(&kept, &tid, &from, BPF_ANY);
	} else {
		bpf_probe_read_kernel_str(comm, sizeof(comm), &task->comm);
		if (!may_be_meant(comm) || !allowed())
			return 0;
	}
	event = reserve(EXECUTED);
	if (!event)
		return 0;
	about(event, task, tid);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* Whether somebody wants to know what became of a task: it is in the guard's care, or a rule may be about its name. */
static bool is_of_interest(struct task_struct *task, u32 tid)
{
	char comm[NAME] = {};

	if (bpf_map_lookup_elem(&kept, &tid))
		return allowed();
	bpf_probe_read_kernel_str(comm, sizeof(comm), &task->comm);
	return may_be_meant(comm) && allowed();
}

/* A rule may be about whose a task is, and setuid(2) needs no exec. */
static int reowned(struct syscall_exit *call)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct event *event;
	u32 tid;

	if (call->ret)
		return 0;
	tid = number_of(task);
	if (!tid || !is_of_interest(task, tid))
		return 0;
	event = reserve(REOWNED);
	if (!event)
		return 0;
	about(event, task, tid);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("tp/syscalls/sys_exit_setuid")
int exit_setuid(struct syscall_exit *exit)
{
	return reowned(exit);
}
SEC("tp/syscalls/sys_exit_setreuid")
int exit_setreuid(struct syscall_exit *exit)
{
	return reowned(exit);
}
SEC("tp/syscalls/sys_exit_setresuid")
int exit_setresuid(struct syscall_exit *exit)
{
	return reowned(exit);
}

/* A rule may be about a group or a unit: logind puts a session into its scope before it belongs to its user. */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(moved, struct cgroup *group, const char *path, struct task_struct *task)
{
	struct event *event;
	u32 tid;

	if (task->flags & PF_KTHREAD)
		return 0;
	tid = number_of(task);
	if (!tid || !is_of_interest(task, tid))
		return 0;
	event = reserve(MOVED);
	if (!event)
		return 0;
	about(event, task, tid);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* The end of a task in the guard's care: how much it ran is part of the budget, also if it lived for a moment only. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(ended, struct task_struct *task)
{
	struct event *event;
	u32 tid = number_of(task);

	if (!tid || !bpf_map_lookup_elem(&kept, &tid))
		return 0;
	bpf_map_delete_elem(&kept, &tid);
	event = reserve(ENDED);
	if (!event)
		return 0;
	about(event, task, tid);
	event->ran = BPF_CORE_READ(task, se.sum_exec_runtime);
	event->cpu = bpf_get_smp_processor_id();
	event->prio = BPF_CORE_READ(task, prio);
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
	item.tid = number_of(task);
	if (!item.tid)
		return 0;
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

/*
 * Whom a system call in progress is about. The number is one of the caller's PID namespace; what that is in the guard's is known if
 * both are the same, and else the change is seen at the next look.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} changing SEC(".maps");

/* The PID namespace of the current task, and whether it is the guard's. */
static bool speaks_our_numbers(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level;
	struct upid *number;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	if (!own_namespace)
		return !level;
	if (level > 32)
		return 0;
	number = (void *)__builtin_preserve_access_index(&pid->numbers) + level * bpf_core_type_size(struct upid);
	return BPF_CORE_READ(number, ns, ns.inum) == own_namespace;
}

static int changes(u32 target)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 self = bpf_get_current_pid_tgid();

	if (!speaks_our_numbers(task) || number_of(BPF_CORE_READ(task, group_leader)) == own_tgid)
		return 0;
	if (!target)
		target = number_of(task);
	/* Any user may call these for its own tasks, as often as it likes: of interest are those that the guard has set. */
	if (!follow_all && !bpf_map_lookup_elem(&kept, &target))
		return 0;
	bpf_map_update_elem(&changing, &self, &target, BPF_ANY);
	return 0;
}

static int changed(struct syscall_exit *call)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u64 self = bpf_get_current_pid_tgid();
	u32 *target = bpf_map_lookup_elem(&changing, &self);
	struct event *event;

	if (!target)
		return 0;
	if (call->ret >= 0 && allowed() && (event = reserve(CHANGED))) {
		event->tid = *target;
		event->by = number_of(BPF_CORE_READ(task, group_leader));
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

/* PRIO_PROCESS; changes of groups and of all of a user's are seen at the next look. */
SEC("tp/syscalls/sys_enter_setpriority")
int enter_setpriority(struct syscall_enter *enter)
{
	return enter->args[0] ? 0 : changes(enter->args[1]);
}
SEC("tp/syscalls/sys_exit_setpriority")
int exit_setpriority(struct syscall_exit *exit)
{
	return changed(exit);
}
