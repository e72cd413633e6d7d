/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The moment of a wakeup, from the clock of the runqueue, which the scheduler has just read: to read the hardware's once more takes a quarter of
 * what a wakeup costs. At a switch that clock may be as old as the wakeup that led to it, so there the monotonic one is read. So it is at a wakeup
 * on another CPU: there the scheduler sends an interrupt in between, at which a hypervisor may let another CPU run for a while.
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

/* So often in a row nobody takes the CPU away in the middle of a wakeup: the clocks part. */
#define BELIEVED 4

/*
 * A wakeup is reported a moment after the clock was read, or much later where somebody took the CPU away from this machine. So the difference
 * does not grow by that, and what is found too large only adds what two clocks part in that time: 977 millionths, where NTP slews by 500. But
 * chronyd slews by 83,333 millionths, and then each one is found too large: the least of a few is taken.
 */
static __always_inline void renew(struct cpu *c, u64 clock, u64 now)
{
	u64 found = now - clock, most = c->offset + ((clock - c->sampled) >> 10);

	if (!c->sampled || found <= most || found - most >= JUMP) {
		c->exceeded = 0;
	} else {
		if (!c->exceeded || found < c->least)
			c->least = found;
		found = most;
		if (++c->exceeded >= BELIEVED) {
			found = c->least;
			c->exceeded = 0;
		}
	}
	c->offset = found;
	c->sampled = clock;
	c->sampled_at = now;
}

static __always_inline struct rq *rq_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) || !bpf_core_field_exists(struct rq, clock_update_flags))
		return 0;
	return task->se.cfs_rq->rq;
}

/* Of a wakeup on a runqueue whose lock is held: `c` is that of this CPU if it is its own. */
static __always_inline u64 clock_at_wakeup(struct task_struct *task, struct cpu *c, bool is_own)
{
	struct rq *rq = is_own ? rq_of(task) : 0;
	u64 clock, now, at;

	if (!rq || rq->clock_update_flags & IS_OLD)
		return bpf_ktime_get_ns();
	clock = rq->clock;
	if (clock - c->sampled < RENEW_AFTER) {
		at = clock + c->offset;
		/* The sample was taken before, under the same lock: whatever the difference is by now, no wait begins earlier. */
		return at > c->sampled_at ? at : c->sampled_at;
	}
	now = bpf_ktime_get_ns();
	renew(c, clock, now);
	return now;
}

#endif
