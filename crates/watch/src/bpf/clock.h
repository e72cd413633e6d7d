/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The monotonic clock, from that of a runqueue: the scheduler has just read the hardware's, and to read it once more is a quarter of what a
 * switch costs. The difference of both is found anew each millisecond.
 */
#ifndef UNSTARVE_CLOCK_H
#define UNSTARVE_CLOCK_H

#include "counted.h"

#define RENEW_AFTER 1000000ULL
/* RQCF_ACT_SKIP: the clock is as old as the wakeup for which the CPU switches. */
#define IS_OLD 2

enum whose { OWN, OF_ANOTHER };

/*
 * A switch is reported a moment after the clock was read, or much later where the CPU looked for tasks elsewhere. So the difference never
 * shrinks by that, and what is found too large only adds what two clocks may part in that time.
 */
static __always_inline void renew(struct cpu *c, u64 clock, u64 now)
{
	u64 found = now - clock, least = c->offset + ((clock - c->sampled) >> 10);

	/* Unless one of the clocks jumped. */
	if (c->sampled && found > least && found - least < RENEW_AFTER)
		found = least;
	c->offset = found;
	c->sampled = clock;
}

/* Of a task on the runqueue of this CPU, whose lock is held: a switch, or a wakeup. */
static __always_inline u64 clock_of(struct task_struct *task, struct cpu *c, enum whose whose)
{
	struct rq *rq;
	u64 clock, now;

	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) || !bpf_core_field_exists(struct rq, clock_update_flags))
		return bpf_ktime_get_ns();
	rq = task->se.cfs_rq->rq;
	if (rq->clock_update_flags & IS_OLD)
		return bpf_ktime_get_ns();
	clock = rq->clock;
	if (clock - c->sampled < RENEW_AFTER)
		return clock + c->offset;
	now = bpf_ktime_get_ns();
	if (whose == OWN)
		renew(c, clock, now);
	return now;
}

#endif
