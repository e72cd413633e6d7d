/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Sums up, all the time, for how long tasks of each role wait for a CPU, who has it meanwhile, and by which rule. Linux 5.10 and
 * later. Nothing here changes anything, and nothing is sent for each wait. counted.h says how it counts.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "counted.h"
#include "clock.h"
#include "histogram.h"
#include "queues.h"
#include "recent.h"
#include "roles.h"
#include "tasks.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A test on the host has its own. */
#ifndef barrier
#define barrier() asm volatile("" ::: "memory")
#endif

/*
 * The task that left was believed to wait: its switch to the CPU was not reported, or the task was not found then. When it came is known in the
 * latter case, unless it was counted since, and of an idle CPU at most.
 */
static __always_inline void disbelieve(struct cpu *c, u32 cpu, struct task *it, u64 now)
{
	u64 end = now, counted;

	if (it->cpu == cpu && (c->role == IDLE || c->doubtful)) {
		end = c->run_start;
		counted = queue_of(c, it->queue)->at;
		if (c->doubtful && counted > end)
			end = counted;
	}
	take(it, cpu, end > it->since ? end : it->since);
	c->disbelieved++;
}

/* Who has the CPU has become real-time since it took it, which no event says: all that waits behind it and is not counted yet waits for that. Its own priority, which no lock that it holds raises. */
static __always_inline void see_raised(struct cpu *c, s32 prio)
{
	if (c->rank || !rank(prio))
		return;
	c->rank = rank(prio);
	c->weight = NICE_0_WEIGHT;
	/* Kernel threads keep their roles. */
	if (c->role >= REAL_TIME)
		c->role = REAL_TIME;
}

/* Everything is counted up to now; who has had the CPU until now is still in its place. */
static __always_inline void pass(struct cpu *c, u64 now)
{
	if (c->rank)
		c->real_time += now - c->since;
	c->since = now;
}

static __always_inline void take_cpu(struct cpu *c, u32 cpu, struct task_struct *next, u64 now, bool pushed_off)
{
	struct task *it = find(next);
	bool keeps = 0;
	struct sums *sums;
	u32 at, role;
	u64 end;

	c->rank = rank(next->prio);
	c->weight = weight_of(next);
	if (!it) {
		c->doubtful = 1;
		c->victim = 0;
		c->role = classify(next);
		c->place = ELSEWHERE;
		c->place_generation = generation;
		return;
	}
	/* First: while it waited the number of its pod may have become another one's. The queue where it waits stays. */
	role = role_of(next, it);
	if (it->state == WAITING) {
		end = now > it->since ? now : it->since;
		take_here(c, it, cpu, end);
		count_place(c, it, cpu, end);
		sums = &c->rows[it->queue / BANDS & (ROLES - 1)].sums;
		at = bounded(step(end - it->start), 127);
		if (at < STEPS)
			sums->steps[at]++;
		keeps = pushed_off && it->came == WOKEN && it->start >= c->run_start && end - it->start <= PREEMPTS_WITHIN_NS;
	}
	if (!keeps)
		c->victim = 0;
	c->role = role;
	c->place = it->place;
	c->place_generation = it->generation;
	it->state = RUNNING;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id(), tid = prev->pid;
	struct cpu *c = cpu_of(cpu);
	bool as_thought, stays;
	struct task *it = 0;
	u64 now;

	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	c->sequence++;
	barrier();
	if (now < c->since)
		now = c->since;
	as_thought = !c->known || c->tid == tid;
	stays = tid && (preempt || is_runnable(prev));
	/* Of one that was seen to take the CPU, and sleeps, nothing has to be kept. */
	if (tid && (stays || !as_thought || c->doubtful || c->run_start <= seeded - 1))
		it = find(prev);
	if (it && it->state == WAITING)
		disbelieve(c, cpu, it, now);
	c->doubtful = 0;
	if (tid && as_thought)
		see_raised(c, prev->normal_prio);
	account(c, cpu, now, as_thought || c->role != IDLE ? AT_SWITCH : UNSEEN);
	pass(c, now);
	if (!as_thought)
		c->missing++;
	/* Who keeps the CPU for long may have had a number that is another one's by now. */
	if (tid && as_thought && c->place_generation != generation)
		locate_run(cpu);
	end_run(c, now, as_thought ? c->place : ELSEWHERE);
	if (as_thought && c->role == REAL_TIME)
		remember(c, prev, now);
	c->victim = 0;
	if (it) {
		it->state = SLEEPING;
		if (stays) {
			begin(prev, it, cpu, now, PREEMPTED);
			stay(c, it, now);
			c->victim = (u64)prev;
			c->victim_queue = it->queue;
		}
	}
	c->known = 1;
	c->tid = next->pid;
	c->tgid = next->tgid;
	if (next->pid) {
		take_cpu(c, cpu, next, now, stays);
	} else {
		c->victim = 0;
		c->role = IDLE;
		c->place = NOBODY;
		c->rank = 0;
	}
	c->run_start = now;
	c->run_turn = turn_of(c);
	barrier();
	c->sequence++;
	return 0;
}

static __always_inline int wakes(struct task_struct *task)
{
	u32 here = bpf_get_smp_processor_id(), cpu;
	struct task *it;
	struct cpu *c;
	u64 now;

	/* One that still runs is about to sleep, and goes on instead. */
	if (bpf_core_field_exists(task->on_cpu) && task->on_cpu)
		return 0;
	cpu = cpu_of_task(task);
	c = cpu_of(cpu);
	if (!c)
		return 0;
	/* First: on kernels without task storage it takes long to find a task. */
	now = clock_at_wakeup(task, c, cpu == here);
	it = find(task);
	if (!it)
		return 0;
	if (it->state == WAITING) {
		/* Preempted on its way to sleep. */
		if (it->came == PREEMPTED)
			return 0;
		/* The kernel wakes none that waits after a wakeup: it ran and slept meanwhile, and no switch was reported. */
		take(it, here, now > it->since ? now : it->since);
		__sync_fetch_and_add(&rewoken, 1);
	}
	begin(task, it, cpu, now, WOKEN);
	put(c, it, here, now);
	/* This CPU's own switches are not between: interrupts are off. */
	if (cpu != here || !queue_of(c, it->queue)->is_active)
		mark(c, it);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *task)
{
	return wakes(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(woken_first, struct task_struct *task)
{
	return wakes(task);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(migrated, struct task_struct *task, int to)
{
	struct cpu *from, *c;
	struct task *it;
	u64 now;

	/* Most are placed as they are woken. */
	if (!task->on_rq)
		return 0;
	it = find(task);
	if (!it || it->state != WAITING || it->cpu == (u32)to)
		return 0;
	c = cpu_of(to);
	from = cpu_of(it->cpu);
	if (!c || !from)
		return 0;
	now = bpf_ktime_get_ns();
	if (now < it->since)
		now = it->since;
	/* Who pushed it off has nothing to do with it any more. At worst another one's reason is lost, no time. */
	if (from->victim == (u64)task)
		from->victim = 0;
	take(it, ANYWHERE, now);
	it->cpu = to;
	it->since = now;
	put(c, it, ANYWHERE, now);
	mark(c, it);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(born, struct task_struct *task, u64 flags)
{
	make(task);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(renamed, struct task_struct *task, const char *comm)
{
	struct task *it = find(task);

	if (it)
		it->generation = 0;
	return 0;
}

/* Task storage goes with its task by itself. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(freed, struct task_struct *task)
{
	u64 key = (u64)task;

	if (has_storage)
		give_back(task);
	else
		bpf_map_delete_elem(&table, &key);
	return 0;
}

/* A worker is what it last worked on, also when it is woken the next time: what for is not known then. */
SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(works, struct work_struct *work)
{
	u64 function = (u64)work->func;
	u32 *role = bpf_map_lookup_elem(&functions, &function);
	struct task_struct *task;
	struct task *it;

	task = has_storage ? (void *)bpf_get_current_task_btf() : (void *)bpf_get_current_task();
	it = find(task);
	if (it)
		it->work = role ? *role : 0;
	return 0;
}

/* What it weighs against those that wait. */
static __always_inline void rate(struct cpu *c, struct task_struct *task)
{
	c->rank = rank(BPF_CORE_READ(task, prio));
	c->weight = c->rank ? NICE_0_WEIGHT : BPF_CORE_READ(task, se.load.weight) >> 10;
}

/*
 * Run on a CPU by user space: what waits there is counted up to now, though nothing happens. Who has had the CPU all the time is
 * seen here for the first time. Preemption is off; on the CPU of who asks interrupts are not.
 */
SEC("raw_tp/sched_switch")
int poke(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 cpu = bpf_get_smp_processor_id(), role;
	struct cpu *c = cpu_of(cpu);
	u64 now = bpf_ktime_get_ns();

	if (!c)
		return 0;
	c->sequence++;
	barrier();
	if (now < c->since)
		now = c->since;
	if (c->known && c->role != IDLE && c->tid == BPF_CORE_READ(task, pid))
		see_raised(c, BPF_CORE_READ(task, normal_prio));
	pass(c, now);
	/* All of them: what is seen of a note on some machines is a mark alone. */
	for (role = 0; role < ROLES; role++)
		look_at(cpu, role);
	if (!c->known) {
		c->known = 1;
		c->tid = BPF_CORE_READ(task, pid);
		c->tgid = BPF_CORE_READ(task, tgid);
		c->run_start = now;
		c->run_turn = turn_of(c);
		c->role = c->tid ? classify(task) : IDLE;
		c->place = NOBODY;
		if (c->tid)
			locate_run(cpu);
		rate(c, task);
	} else if (c->role != IDLE) {
		/* What is waited while the CPU is idle counts when a switch confirms that it was. */
		if (c->active_count) {
			charge_others(cpu, now, POKED);
			charge_one(cpu, 1, now, POKED);
			charge_one(cpu, 0, now, POKED);
		}
		/* It may have become ordinary again, or nicer. */
		if (c->tid == BPF_CORE_READ(task, pid)) {
			rate(c, task);
			if (c->role >= REAL_TIME)
				c->role = classify(task);
			if (c->place_generation != generation)
				locate_run(cpu);
		}
	}
	barrier();
	c->sequence++;
	return 0;
}

/* How often it has left a CPU. */
static __always_inline u64 left(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/*
 * All tasks that are there at the beginning. One that waits does so for longer than anybody knows: it counts from now.
 *
 * No lock is held, so it may run meanwhile, on another CPU, and sleep or wait again. It was never seen, so all that others write of it begins
 * with its taking a CPU: whoever has left one since it was found waiting, or is on one, is no longer put into a queue.
 */
SEC("iter/task")
int seed(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u64 now, before;
	struct task *it;
	struct cpu *c;
	u32 cpu;

	if (!task)
		return 0;
	it = make(task);
	if (!it)
		return 0;
	before = left(task);
	barrier();
	if (!is_runnable(task) || !task->on_rq || task->on_cpu || !task->pid)
		return 0;
	cpu = cpu_of_task(task);
	c = cpu_of(cpu);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	/* What takes long, before it is looked at the last time. */
	role_of(task, it);
	barrier();
	if (it->state != NEVER_SEEN)
		return 0;
	describe(task, it, cpu, now, PREEMPTED);
	barrier();
	if (it->state != NEVER_SEEN || left(task) != before || task->on_cpu)
		return 0;
	it->state = WAITING;
	barrier();
	put(c, it, ANYWHERE, now);
	mark(c, it);
	return 0;
}

/* Waits that have lasted for long, of tasks that really are runnable and not on a CPU. */
SEC("iter/task")
int list(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct oldest oldest = {};
	struct task *it;
	u64 now = bpf_ktime_get_ns();

	/* Most tasks sleep: that is looked at first. */
	if (!task || !is_runnable(task) || task->on_cpu)
		return 0;
	it = find(task);
	if (!it || it->state != WAITING || it->start + least_age > now)
		return 0;
	oldest.start = it->start;
	oldest.tid = task->pid;
	oldest.tgid = task->tgid;
	oldest.cpu = it->cpu;
	oldest.place = it->place;
	oldest.role = it->queue / BANDS;
	bpf_probe_read_kernel_str(oldest.comm, sizeof(oldest.comm), &task->comm);
	bpf_seq_write(context->meta->seq, &oldest, sizeof(oldest));
	return 0;
}
