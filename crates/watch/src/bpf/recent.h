/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Remembers which real-time programs ran on a CPU lately. A wait that is over can then be blamed on one of them. recent_runs.rs does the same for
 * tracefs.
 */
#ifndef UNSTARVE_RECENT_H
#define UNSTARVE_RECENT_H

#include "counted.h"
#include "tasks.h"

/* A real-time program leaves a CPU. One that became real-time while it ran counts as a whole. */
static __always_inline void remember(struct cpu *c, struct task_struct *task, u64 now)
{
	u64 ran = now - c->run_start, at = now >> HALVES_SHIFT, passed = at - c->recent_at;
	struct recent *it = 0, *least = &c->recent[0];
	u32 i;

	if (ran < LEAST_RUN)
		return;
	c->recent_at = at;
	for (i = 0; i < RECENT; i++) {
		if (passed)
			c->recent[i].ns = passed < 64 ? c->recent[i].ns >> passed : 0;
		if (c->recent[i].tid == (u32)task->pid)
			it = &c->recent[i];
		if (c->recent[i].ns < least->ns)
			least = &c->recent[i];
	}
	if (!it) {
		/* Many that have little take nothing from one that has much. */
		if (ran <= least->ns)
			return;
		it = least;
		it->ns = 0;
		it->tid = task->pid;
	}
	it->ns += ran;
	it->tgid = task->tgid;
	/* It may have another name now, or be another task of that id. */
	bpf_probe_read_kernel(it->comm, sizeof(it->comm), &task->comm);
}

#endif
