/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* What a task is: kernel threads by name and work, programs by policy and group. */
#ifndef UNSTARVE_ROLES_H
#define UNSTARVE_ROLES_H

#include "tasks.h"

/* Roles of top-level groups by the cgroup's id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u32);
} groups SEC(".maps");

/* Roles of workers by the address of the function that they were called with; others are KWORKER. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u32);
} functions SEC(".maps");

/* Numbers of pods and units by the id of a group at any depth; several groups can be of one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} places SEC(".maps");

/* Groups that have no entry in `places`, each with a task of it: user space reads its path, and empties this. What finds no room comes again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u64);
	__type(value, u32);
} unplaced SEC(".maps");

/* The first bytes of a name as a number. */
static __always_inline u64 word(const char *text, u32 length)
{
	u64 word = 0;
	u32 i;

#pragma unroll
	for (i = 0; i < 8; i++)
		if (i < length)
			word |= (u64)(u8)text[i] << (8 * i);
	return word;
}

#define BEGINS(name, text) (((name) & (~0ULL >> (8 * (8 - (sizeof(text) - 1))))) == word(text, sizeof(text) - 1))

/* What a kernel thread is by its name. `of_kernel` of tracefs/sums.rs says the same. */
static __always_inline u32 kernel_role(u64 name)
{
	if (BEGINS(name, "kworker/"))
		return KWORKER;
	if (BEGINS(name, "ksoftirq"))
		return KSOFTIRQD;
	if (BEGINS(name, "rcu"))
		return RCU;
	if (BEGINS(name, "jbd2/") || BEGINS(name, "xfsaild/") || BEGINS(name, "kswapd"))
		return STORAGE;
	if (BEGINS(name, "nfsd\0"))
		return NFSD;
	return KERNEL;
}

static __always_inline struct cgroup *own_group(struct task_struct *task)
{
	if (is_unified)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp);
	return BPF_CORE_READ(task, sched_task_group, css.cgroup);
}

static __always_inline u64 group_of(struct task_struct *task)
{
	struct cgroup *group = own_group(task), *top;
	u64 id;

	if (!group || BPF_CORE_READ(group, level) < 1)
		return 0;
	if (bpf_core_field_exists(struct cgroup___6_1, ancestors)) {
		bpf_probe_read_kernel(&top, sizeof(top), (void *)((struct cgroup___6_1 *)group)->ancestors + sizeof(top));
		return BPF_CORE_READ(top, kn, id);
	}
	bpf_probe_read_kernel(&id, sizeof(id), (void *)((struct cgroup___5_10 *)group)->ancestor_ids + sizeof(id));
	return id;
}

/* What a task is. Slow, and done when what it rests on has changed. */
static __noinline u32 classify(struct task_struct *task)
{
	u64 name[2] = {}, group;
	u32 *role;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD) {
		bpf_probe_read_kernel(name, sizeof(name), &task->comm);
		return kernel_role(name[0]);
	}
	if (BPF_CORE_READ(task, prio) < FIRST_FAIR_PRIO)
		return REAL_TIME;
	group = group_of(task);
	if (!group)
		return OTHER;
	role = bpf_map_lookup_elem(&groups, &group);
	return role ? *role : OTHER;
}

/* The pod or unit of a task, as slow as `classify` and done with it. */
static __noinline u32 locate(struct task_struct *task)
{
	struct cgroup *group;
	u32 *place, tid;
	u64 id;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return ELSEWHERE;
	group = own_group(task);
	if (!group || BPF_CORE_READ(group, level) < 1)
		return ELSEWHERE;
	id = BPF_CORE_READ(group, kn, id);
	place = bpf_map_lookup_elem(&places, &id);
	if (place)
		return *place;
	tid = BPF_CORE_READ(task, pid);
	bpf_map_update_elem(&unplaced, &id, &tid, BPF_NOEXIST);
	return ELSEWHERE;
}

static __always_inline u32 role_of(struct task_struct *task, struct task *it)
{
	u64 css = (u64)task->cgroups;
	s32 prio = task->prio;

	if (it->generation != generation || it->css != css || it->prio != prio) {
		it->generation = generation;
		it->css = css;
		it->prio = prio;
		it->role = classify(task);
		it->place = locate(task);
	}
	return (it->work ? it->work : it->role) & (ROLES - 1);
}

#endif
