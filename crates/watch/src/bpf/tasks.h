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

/*
 * Task storage takes 12 ns each time, an array 1.4. So a task whose place in this array is free when it is born has it until it is gone;
 * all others have task storage. No task moves from one to the other, or its wait would be in both. Its place has to be a number that stays the
 * same: ids change when a thread calls exec(), and addresses are no numbers to the verifier. The kernel draws one at random for each task
 * (dup_task_struct() in kernel/fork.c), of which these few bits are used, as an index alone.
 */
#define SLOTS 8192

struct slot {
	/* The address of the task whose it is, or 0. */
	u64 of;
	struct task task;
};
_Static_assert(sizeof(struct slot) == 64, "a cache line");

/* Mapped by nobody; but such an array begins at a page, and no slot is in two cache lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* By the number of a slot the address of the task that came first. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, u64);
} owners SEC(".maps");

static __always_inline bool may_have_slot(struct task_struct *task)
{
	return bpf_core_field_exists(task->stack_canary);
}

static __always_inline u32 number_of(struct task_struct *task)
{
	/* The lowest byte is always 0. */
	return task->stack_canary >> 8 & (SLOTS - 1);
}

static __always_inline struct task *find(struct task_struct *task)
{
	u64 key = (u64)task;
	struct slot *slot;
	u32 number;

	if (!has_storage)
		return bpf_map_lookup_elem(&table, &key);
	if (may_have_slot(task)) {
		number = number_of(task);
		slot = bpf_map_lookup_elem(&slots, &number);
		if (slot && slot->of == key)
			return &slot->task;
	}
	return bpf_task_storage_get(&storage, task, 0, 0);
}

/*
 * Both of who looks at all tasks and of the task's birth may come here for one task at once: the first owner of a slot stays it, so
 * both find the same. Until all tasks are seeded no slot is given back, and afterwards births alone come here.
 */
static __always_inline struct task *slot_for(struct task_struct *task)
{
	u64 key = (u64)task, *owner;
	struct slot *slot;
	u32 number;

	if (!may_have_slot(task))
		return 0;
	number = number_of(task);
	if (bpf_map_update_elem(&owners, &number, &key, BPF_NOEXIST)) {
		owner = bpf_map_lookup_elem(&owners, &number);
		if (!owner || *owner != key)
			return 0;
	}
	slot = bpf_map_lookup_elem(&slots, &number);
	if (!slot)
		return 0;
	slot->of = key;
	return &slot->task;
}

/* The task has made its last switch. */
static __always_inline void give_back(struct task_struct *task)
{
	struct slot *slot;
	u32 number;

	if (!may_have_slot(task))
		return;
	number = number_of(task);
	slot = bpf_map_lookup_elem(&slots, &number);
	if (!slot || slot->of != (u64)task)
		return;
	slot->of = 0;
	slot->task = (struct task){};
	if (seeded)
		bpf_map_delete_elem(&owners, &number);
}

static __always_inline struct task *make(struct task_struct *task)
{
	struct task fresh = {}, *made;
	u64 key = (u64)task;

	if (has_storage) {
		made = bpf_task_storage_get(&storage, task, 0, 0);
		if (!made)
			made = slot_for(task);
		if (!made)
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
	return task->prio < FIRST_FAIR_PRIO ? NICE_0_WEIGHT : task->se.load.weight >> 10;
}

/* The larger goes first: deadline, real-time by priority, all others alike. unstarve_sched::rank is the same. */
static __always_inline u32 rank(s32 prio)
{
	if (prio < 0)
		return DEADLINE_RANK;
	return prio < FIRST_FAIR_PRIO ? 2 * FIRST_FAIR_PRIO - 1 - prio : 0;
}

#endif
