/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The moment of a wakeup, from the clock of the runqueue, which the scheduler has just read: to read the hardware's once more takes a quarter of
 * what a wakeup costs. At a switch that clock may be as old as the wakeup that led to it, so there the monotonic one is read.
 */
#ifndef UNSTARVE_CLOCK_H
#define UNSTARVE_CLOCK_H

#include "counted.h"

/* The difference of both clocks is found anew after so long, at a wakeup on the CPU itself. */
#define RENEW_AFTER 1000000ULL
/* A difference that grows by more is that of another time: the machine was stopped. */
#define JUMP 1000000000ULL
/* RQCF_ACT_SKIP: the clock was not read for this wakeup. */
#define IS_OLD 2

/*
 * A wakeup is reported a moment after the clock was read, or much later where somebody took the CPU away from this machine. So the difference
 * never grows by that, and what is found too large only adds what two clocks may part in that time.
 */
static __always_inline void renew(struct cpu *c, u64 clock, u64 now)
{
	u64 found = now - clock, least = c->offset + ((clock - c->sampled) >> 10);

	if (c->sampled && found > least && found - least < JUMP)
		found = least;
	c->offset = found;
	c->sampled = clock;
}

static __always_inline struct rq *rq_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) || !bpf_core_field_exists(struct rq, clock_update_flags))
		return 0;
	return task->se.cfs_rq->rq;
}

/* Of a wakeup on a runqueue whose lock is held. */
static __always_inline u64 clock_at_wakeup(struct task_struct *task, struct cpu *c, bool is_own)
{
	struct rq *rq = rq_of(task);
	u64 clock, now;

	if (!rq || rq->clock_update_flags & IS_OLD)
		return bpf_ktime_get_ns();
	clock = rq->clock;
	if (clock - c->sampled < RENEW_AFTER)
		return clock + c->offset;
	now = bpf_ktime_get_ns();
	if (is_own)
		renew(c, clock, now);
	return now;
}

#endif
