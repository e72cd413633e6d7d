/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * How long the tasks that user space marks wait for a CPU and run, summed up for each set of tasks. A set is what the same
 * rules select, so that a task is in one only and nothing here loops: the verifier would go through every turn. Linux
 * 5.10 and later. Nothing here changes anything.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "log2.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define SETS 1024
/* Four for each power of two up to 2^48 ns, some three days. */
#define BUCKETS 192
/* /proc counts starts in 10 ms. */
#define TICK 10000000ULL

struct watched {
	/* When the task was created, in ticks of the boot clock: ids are used again. */
	u64 start;
	u64 set;
	/* Since when it has been waiting, or running; 0 if it does not. */
	u64 waiting;
	u64 running;
	/* Whether it ran or waited at all. */
	u64 seen;
};

struct fared {
	u64 waits;
	u64 waited;
	u64 ran;
	u64 longest;
	u64 buckets[BUCKETS];
};

/* So that the types are in the object's BTF. */
struct watched a_watched = {};
struct fared a_fared = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct watched);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SETS);
	__type(key, u32);
	__type(value, struct fared);
} sums SEC(".maps");

static struct watched *watched(struct task_struct *task)
{
	u32 tid = task->pid;
	struct watched *watched = bpf_map_lookup_elem(&tasks, &tid);

	return watched && watched->start == task->start_boottime / TICK ? watched : 0;
}

static u32 bucket(u64 ns)
{
	u32 power = log2_of(ns | 4);

	return power * 4 + ((ns >> (power - 2)) & 3);
}

static struct fared *sums_of(struct watched *watched)
{
	u32 set = watched->set;

	return bpf_map_lookup_elem(&sums, &set);
}

static void ran(struct watched *watched, u64 ns)
{
	struct fared *fared = sums_of(watched);

	if (fared)
		fared->ran += ns;
}

static void waited(struct watched *watched, u64 ns)
{
	struct fared *fared = sums_of(watched);
	u32 at = bucket(ns);

	if (!fared)
		return;
	fared->waits++;
	fared->waited += ns;
	if (ns > fared->longest)
		fared->longest = ns;
	if (at >= BUCKETS)
		at = BUCKETS - 1;
	fared->buckets[at]++;
}

static int begins_to_wait(struct task_struct *task)
{
	struct watched *it = watched(task);

	/* Woken while it waits or runs: nothing new. */
	if (it && !it->waiting && !it->running) {
		it->waiting = bpf_ktime_get_ns();
		it->seen = 1;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *task)
{
	return begins_to_wait(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(woken_first, struct task_struct *task)
{
	return begins_to_wait(task);
}

static bool still_runnable(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct___5_14, __state))
		return !BPF_CORE_READ((struct task_struct___5_14 *)task, __state);
	return !BPF_CORE_READ((struct task_struct___5_13 *)task, state);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct watched *it = watched(prev);
	u64 now = bpf_ktime_get_ns();

	if (it) {
		if (it->running)
			ran(it, now - it->running);
		it->running = 0;
		it->waiting = preempt || still_runnable(prev) ? now : 0;
	}
	it = watched(next);
	if (it) {
		if (it->waiting && now > it->waiting)
			waited(it, now - it->waiting);
		it->waiting = 0;
		it->running = now;
		it->seen = 1;
	}
	return 0;
}
