/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* Where what is known of each task is kept, and what the kernel says of it. */
#ifndef UNSTARVE_TASKS_H
#define UNSTARVE_TASKS_H

#include "counted.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} storage SEC(".maps");

/* Instead of it, by the address of the task. Preallocated: memory must not be asked for under the scheduler's locks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct task);
} table SEC(".maps");

/* MAX_RT_PRIO */
#define FIRST_FAIR 100
#define NICE_0 1024

static __always_inline struct task *find(struct task_struct *task)
{
	u64 key = (u64)task;

	if (has_storage)
		return bpf_task_storage_get(&storage, task, 0, 0);
	return bpf_map_lookup_elem(&table, &key);
}

static __always_inline struct task *make(struct task_struct *task)
{
	struct task fresh = {}, *made;
	u64 key = (u64)task;

	if (has_storage) {
		made = bpf_task_storage_get(&storage, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	} else {
		bpf_map_update_elem(&table, &key, &fresh, BPF_NOEXIST);
		made = bpf_map_lookup_elem(&table, &key);
	}
	if (!made)
		__sync_fetch_and_add(&untracked, 1);
	return made;
}

static __always_inline u32 cpu_of_task(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct___5_16, thread_info.cpu))
		return ((struct task_struct___5_16 *)task)->thread_info.cpu;
	return ((struct task_struct___5_15 *)task)->cpu;
}

static __always_inline bool is_runnable(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct___5_14, __state))
		return !((struct task_struct___5_14 *)task)->__state;
	return !((struct task_struct___5_13 *)task)->state;
}

/* Own weight beside nice 0 = 1024; real-time tasks count as such. */
static __always_inline u32 weight_of(struct task_struct *task)
{
	return task->prio < FIRST_FAIR ? NICE_0 : task->se.load.weight >> 10;
}

#define DEADLINE 200

/* The larger goes first: deadline over real-time by its priority over all others, which are alike. */
static __always_inline u32 rank(s32 prio)
{
	if (prio < 0)
		return DEADLINE;
	return prio < FIRST_FAIR ? 199 - prio : 0;
}

#endif
