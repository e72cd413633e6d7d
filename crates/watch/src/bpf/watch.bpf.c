/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Sums up, all the time, for how long tasks of each role wait for a CPU, who has it meanwhile, and by which rule. Linux 5.10 and
 * later. Nothing here changes anything, and nothing is sent for each wait.
 *
 * Each CPU has how many tasks of each role wait for it. Whenever that number or who has the CPU changes, the time since the last
 * change, times the number, goes to the sum of (who waits, who has the CPU, why): so the sums are those of the waits to the
 * nanosecond, and they have what lasts.
 *
 * Who writes: all of a `struct cpu` but its notes is written by programs on that CPU alone, while interrupts are off: at its
 * switches, its own wakeups, and when user space pokes it. Whatever comes from another CPU (most wakeups, all migrations) leaves a
 * note by atomic additions, and the CPU takes it in at its next turn: the sum of the moments at which tasks came is all that it
 * needs. Nobody waits for anybody, and no lock of the scheduler has to be held for it to be right.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define ROLES 32
#define RULES 8
/* `Histogram::STEPS` of histogram.rs. */
#define STEPS 106
#define WORDS (ROLES / 8)

/* `RoleKind::FIXED` of role.rs, in its order; what is beyond are groups. */
enum role {
	UNKNOWN,
	IDLE,
	KSOFTIRQD,
	DIRECT_IO,
	KWORKER,
	RCU,
	STORAGE,
	NFSD,
	KERNEL,
	REAL_TIME,
	OTHER,
	GONE,
};

/* `RULES` of ebpf.rs, in its order. */
enum rule { BY_UNKNOWN, BY_THROTTLED, BY_IDLE, BY_CLASS, BY_WAKEUP, BY_WEIGHT, BY_FAIR };

enum state { NEVER_SEEN, SLEEPING, WAITING, RUNNING };
enum came { WOKEN, PREEMPTED };

/* What is known of a task. Its own CPU writes it, or who wakes or moves it: the scheduler lets one at a time. */
struct task {
	/* When the wait began, and when it came to the queue where it is now. */
	u64 start;
	u64 since;
	/* Of what its role was made. */
	u64 css;
	u32 generation;
	s32 prio;
	u32 cpu;
	u32 weight;
	u8 state;
	u8 came;
	/* As what it waits. */
	u8 slot;
	/* What it is, and, of a worker, what its work makes of it. */
	u8 role;
	u8 work;
	u8 pad[3];
};

/* What other CPUs leave for a CPU, of one role. Sums since the beginning, of which the CPU knows what it has taken in. */
struct note {
	/* Tasks that came, less those that went; and the moments, likewise. */
	u64 n;
	u64 moments;
	u64 pad;
	/* Priority and weight of the last one that came. */
	u64 like;
};

struct queue {
	s64 n;
	/* The moments at which tasks came, less those at which they went: n * now - moments is how long all have waited here. */
	u64 moments;
	/* Waited while the CPU is idle: it counts when a switch confirms that it was. */
	u64 deferred;
	/* When the last one came, and what it is like. */
	u64 joined;
	s32 prio;
	u32 weight;
	u64 seen_n;
	u64 seen_moments;
};

struct sums {
	u64 ended;
	u64 steps[STEPS];
	u64 blame[ROLES * RULES];
};

/* One role on one CPU, which user space copies as a whole. */
struct row {
	struct queue queue;
	struct sums sums;
};

struct cpu {
	/* Odd while it is written. */
	u64 sequence;
	/* Up to when everything is counted. */
	u64 since;
	/* Who has the CPU, since when. */
	u64 run_start;
	u32 tid;
	u32 tgid;
	s32 prio;
	u32 weight;
	u32 role;
	u32 known;
	/* Who was pushed off by it just after it was woken: the task, and as what it waits. */
	u64 victim;
	u32 victim_role;
	/* Roles whose queues are not empty. */
	u32 active_count;
	u8 active[ROLES];
	u8 is_active[ROLES];
	u64 seen_marks[WORDS];
	u64 missing;
	u64 disbelieved;
	char comm[16];
	u64 pad[6];

	/* Written by others: for each role a byte that changes with its notes. */
	u64 marks[WORDS] __attribute__((aligned(64)));
	u64 pad_marks[4];
	struct note notes[ROLES];
	struct row rows[ROLES];
	u64 pad_pages[280];
};
/* User space maps one CPU's at a time. */
_Static_assert(sizeof(struct cpu) % 4096 == 0, "whole pages");

/* A wait that lasts, for user space. */
struct oldest {
	u64 start;
	u32 tid;
	u32 tgid;
	u32 cpu;
	u32 role;
	char comm[16];
};

/* So that the types are in the object's BTF. */
struct cpu *a_cpu = 0;
struct oldest an_oldest = {};

/* Whether the kernel has task storage for programs like these (5.12). */
const volatile bool has_storage = 1;
/* Whether groups are those of the unified hierarchy; else those of the cpu controller's. */
const volatile bool is_unified = 1;

/* Changed whenever roles of groups change; never 0 once tasks are looked at. */
volatile u32 generation = 0;
/* By role: the weight of a group beside nice 0 = 1024; 0 for what is none, or has none. */
volatile u32 group_weights[ROLES] = {};
/* Waits that are younger are not listed. */
volatile u64 least_age = 0;
/* Tasks for which there was no room. */
u64 untracked = 0;
/* Waits that a second wakeup disproved. */
u64 rewoken = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

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

#define barrier() asm volatile("" ::: "memory")
#define SECOND 1000000000ULL
/* A wakeup preemption takes effect within this time, as in `explain`. */
#define PREEMPTS_WITHIN 1000000ULL
/* Added to each moment in a note: one of which only a part is written yet is far from any time that can have passed. */
#define BIAS (1ULL << 56)
#define TOO_FAR (1LL << 54)
/* MAX_RT_PRIO */
#define FIRST_FAIR 100
#define NICE_0 1024

static __always_inline struct cpu *cpu_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

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

/* What a kernel thread is by its name. `kernel_role` of classify.rs says the same. */
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

static __always_inline u64 group_of(struct task_struct *task)
{
	struct cgroup *group, *top;
	u64 id;

	if (is_unified)
		group = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	else
		group = BPF_CORE_READ(task, sched_task_group, css.cgroup);
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
	if (BPF_CORE_READ(task, prio) < FIRST_FAIR)
		return REAL_TIME;
	group = group_of(task);
	if (!group)
		return OTHER;
	role = bpf_map_lookup_elem(&groups, &group);
	return role ? *role : OTHER;
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
	}
	return (it->work ? it->work : it->role) & (ROLES - 1);
}

/* The larger goes first: deadline over real-time by its priority over all others, which are alike. */
static __always_inline u32 rank(s32 prio)
{
	if (prio < 0)
		return 200;
	return prio < FIRST_FAIR ? 199 - prio : 0;
}

/* Why the task that has the CPU has it, and not those of this queue. */
static __always_inline u32 rule_of(struct cpu *c, struct queue *q, u32 role)
{
	u32 its = rank(c->prio), mine = rank(q->prio), weight = q->weight, rival = c->weight, of_group;

	if (c->role == UNKNOWN)
		return BY_UNKNOWN;
	if (its > mine)
		return BY_CLASS;
	/* They were there when it was chosen: something forbids their class to run. */
	if (its < mine && !its && q->joined <= c->run_start)
		return BY_THROTTLED;
	/* A kernel thread of nice > 0, as khugepaged, is made to come last: that it does is nobody's precedence. */
	if (role >= KSOFTIRQD && role <= KERNEL && weight < NICE_0)
		return BY_FAIR;
	if (role != c->role) {
		of_group = group_weights[role & (ROLES - 1)];
		if (of_group)
			weight = of_group;
		of_group = group_weights[c->role & (ROLES - 1)];
		if (of_group)
			rival = of_group;
	}
	return rival > weight ? BY_WEIGHT : BY_FAIR;
}

static __always_inline void blame(struct cpu *c, u32 role, u32 rule, u64 ns)
{
	c->rows[role & (ROLES - 1)].sums.blame[((c->role & (ROLES - 1)) * RULES + rule) & (ROLES * RULES - 1)] += ns;
}

static __always_inline void activate(struct cpu *c, u32 role)
{
	u32 count = c->active_count;

	role &= ROLES - 1;
	if (c->is_active[role] || count >= ROLES)
		return;
	c->active[count & (ROLES - 1)] = role;
	c->active_count = count + 1;
	c->is_active[role] = 1;
}

/*
 * Functions that are not static are verified once each and not at each call, so that their branches do not multiply. Up to 5.12
 * they take numbers only.
 */

/* Takes in what others have left for a role; 0 if a part of a note is still to come. */
__noinline int take_in(u32 cpu, u32 role, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u64 n, moments, like, came, their;
	struct queue *q;
	struct note *note;
	s64 waited;

	if (!c)
		return 1;
	q = &c->rows[role & (ROLES - 1)].queue;
	note = &c->notes[role & (ROLES - 1)];
	n = note->n;
	moments = note->moments;
	like = note->like;
	came = n - q->seen_n;
	their = moments - q->seen_moments;
	waited = came * (now + BIAS) - their;
	/* A part of a note is still to come. */
	if (waited > TOO_FAR || waited < -TOO_FAR)
		return 0;
	q->seen_n = n;
	q->seen_moments = moments;
	q->n += came;
	q->moments += their - came * BIAS;
	if ((s64)came > 0) {
		q->prio = (s32)(like >> 32);
		q->weight = (u32)like;
		q->joined = now;
	}
	if (c->role == IDLE)
		q->deferred += waited;
	else
		blame(c, role, rule_of(c, q, role), waited);
	activate(c, role);
	return 1;
}

/* Counts what waits as this role for the time that has passed. */
__noinline int charge(u32 cpu, u32 role, u64 passed)
{
	struct cpu *c = cpu_of(cpu);
	struct queue *q;
	u64 waited;
	u32 rule;

	if (!c)
		return 0;
	q = &c->rows[role & (ROLES - 1)].queue;
	waited = passed * q->n;
	if (c->role == IDLE) {
		q->deferred += waited;
		return 0;
	}
	rule = rule_of(c, q, role);
	if (c->victim && role == c->victim_role && q->n > 0 && rule != BY_CLASS) {
		blame(c, role, BY_WAKEUP, passed);
		waited -= passed;
	}
	blame(c, role, rule, waited);
	return 0;
}

/* Counts up to now what is waiting for a CPU, for who has it. Runs on that CPU, with interrupts off. */
__noinline int account(u32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u32 i, k, count, role, word, byte;
	u64 passed, changed, marks;
	struct queue *q;
	int whole;

	if (!c)
		return 0;
	if (now < c->since)
		now = c->since;
	passed = now - c->since;
	c->since = now;
	count = c->active_count;
	for (i = 0; i < ROLES; i++) {
		/* From the last to the first: one that goes is replaced by one that has been counted. */
		k = count - 1 - i;
		if (k >= ROLES)
			break;
		role = c->active[k] & (ROLES - 1);
		charge(cpu, role, passed);
		q = &c->rows[role].queue;
		if (!q->n && !q->deferred) {
			/* The last one has had its turn. */
			c->active_count--;
			c->active[k] = c->active[c->active_count & (ROLES - 1)];
			c->is_active[role] = 0;
		}
	}
	for (word = 0; word < WORDS; word++) {
		marks = c->marks[word];
		changed = marks ^ c->seen_marks[word];
		if (!changed)
			continue;
		whole = 1;
		for (byte = 0; byte < 8; byte++) {
			if (changed >> (8 * byte) & 0xff)
				whole &= take_in(cpu, word * 8 + byte, now);
		}
		if (whole)
			c->seen_marks[word] = marks;
	}
	return 0;
}

/*
 * The CPU was idle, as was thought, or it was not: then somebody ran meanwhile, and nobody knows who. Who was waiting when the CPU
 * went idle was not allowed to run.
 */
__noinline int settle(u32 cpu, u32 role, u32 was_idle)
{
	struct cpu *c = cpu_of(cpu);
	struct queue *q;
	u32 at;

	if (!c)
		return 0;
	role &= ROLES - 1;
	q = &c->rows[role].queue;
	at = UNKNOWN * RULES + BY_UNKNOWN;
	if (was_idle)
		at = IDLE * RULES + (role >= REAL_TIME && q->joined <= c->run_start ? BY_THROTTLED : BY_IDLE);
	c->rows[role].sums.blame[at & (ROLES * RULES - 1)] += q->deferred;
	q->deferred = 0;
	return 0;
}

static __always_inline void settle_all(struct cpu *c, u32 cpu, u32 was_idle)
{
	u32 i;

	for (i = 0; i < ROLES; i++) {
		if (i >= c->active_count)
			break;
		settle(cpu, c->active[i], was_idle);
	}
}

/* Leaves a note for a CPU: tasks that came there (1) or went (-1). */
static __always_inline void leave_note(struct task *it, u32 cpu, s64 n, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	u32 role = it->slot & (ROLES - 1);
	struct note *note;

	if (!c)
		return;
	note = &c->notes[role];
	note->like = (u64)(u32)it->prio << 32 | it->weight;
	__sync_fetch_and_add(&note->n, n);
	__sync_fetch_and_add(&note->moments, n * (now + BIAS));
	__sync_fetch_and_add(&c->marks[role / 8], 1ULL << (8 * (role % 8)));
}

/* The task waits, from now on, as what it is now. */
static __always_inline void begin(struct task_struct *task, struct task *it, u32 cpu, u64 now, u8 came)
{
	it->start = now;
	it->since = now;
	it->cpu = cpu;
	it->came = came;
	it->slot = role_of(task, it);
	it->weight = weight_of(task);
	it->state = WAITING;
}

/* A task that begins to wait comes to the queue of this CPU. */
static __always_inline void join(struct cpu *c, struct task *it, u64 now)
{
	u32 role = it->slot & (ROLES - 1);
	struct queue *q = &c->rows[role].queue;

	q->n++;
	q->moments += now;
	q->joined = now;
	q->prio = it->prio;
	q->weight = it->weight;
	activate(c, role);
}

/* A task that waited leaves the queue where it is; `end` is when that was. */
static __always_inline void leave(struct cpu *c, u32 cpu, struct task *it, u64 end)
{
	u32 role = it->slot & (ROLES - 1);
	struct queue *q = &c->rows[role].queue;

	if (it->cpu == cpu) {
		q->n--;
		q->moments -= end;
	} else {
		leave_note(it, it->cpu, -1, end);
	}
}

/* `step` of histogram.rs. */
__noinline u32 step(u64 ns)
{
	u64 units, rest, mantissa;
	u32 power, shift, step;

	if (ns >= 1ULL << 33)
		units = (ns >> 10) * 1152921505ULL >> 20;
	else
		units = ns * 1152921505ULL >> 30;
	if (units < 1024)
		return 0;
	if (ns >= 1ULL << 37)
		return STEPS - 1;
	rest = units;
	power = (rest > 0xffffffffULL) << 5;
	rest >>= power;
	shift = (rest > 0xffff) << 4;
	rest >>= shift;
	power |= shift;
	shift = (rest > 0xff) << 3;
	rest >>= shift;
	power |= shift;
	shift = (rest > 0xf) << 2;
	rest >>= shift;
	power |= shift;
	shift = (rest > 3) << 1;
	rest >>= shift;
	power |= shift;
	power |= rest >> 1;
	mantissa = units << ((62 - power) & 63);
	step = (power - 10) * 4 + 1 + (mantissa >= 0x4C1BF828C6DC54B8ULL) + (mantissa >= 0x5A827999FCEF3242ULL) +
	       (mantissa >= 0x6BA27E656B4EB57AULL);
	return step < STEPS ? step : STEPS - 1;
}

/* The task that left was believed to wait: its switch to the CPU was not reported. When it came is known of an idle CPU at most. */
static __always_inline void disbelieve(struct cpu *c, u32 cpu, struct task *it, u64 now)
{
	struct queue *q = &c->rows[it->slot & (ROLES - 1)].queue;
	u64 end = now;

	if (it->cpu == cpu && c->role == IDLE) {
		end = it->since > c->run_start ? it->since : c->run_start;
		q->deferred -= now - end;
	}
	leave(c, cpu, it, end);
	c->disbelieved++;
}

static __always_inline void take_cpu(struct cpu *c, u32 cpu, struct task_struct *next, u64 now, bool pushed_off)
{
	struct task *it = find(next);
	struct sums *sums;
	u32 at;

	c->prio = next->prio;
	c->weight = weight_of(next);
	if (!it) {
		c->victim = 0;
		c->role = classify(next);
		return;
	}
	if (it->state == WAITING) {
		leave(c, cpu, it, now);
		sums = &c->rows[it->slot & (ROLES - 1)].sums;
		sums->ended++;
		at = step(now - it->start);
		if (at < STEPS)
			sums->steps[at]++;
		if (!pushed_off || it->came != WOKEN || it->start < c->run_start || now - it->start > PREEMPTS_WITHIN)
			c->victim = 0;
	} else {
		c->victim = 0;
	}
	c->role = role_of(next, it);
	it->state = RUNNING;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id(), tid = prev->pid;
	struct cpu *c = cpu_of(cpu);
	u64 now = bpf_ktime_get_ns();
	bool as_thought, stays = 0;
	struct task *it;

	if (!c)
		return 0;
	c->sequence++;
	barrier();
	account(cpu, now);
	now = c->since;
	as_thought = !c->known || c->tid == tid;
	if (!as_thought)
		c->missing++;
	c->victim = 0;
	it = tid ? find(prev) : 0;
	if (it && it->state == WAITING)
		disbelieve(c, cpu, it, now);
	if (c->role == IDLE && c->active_count)
		settle_all(c, cpu, as_thought);
	if (it) {
		stays = preempt || is_runnable(prev);
		if (stays) {
			begin(prev, it, cpu, now, PREEMPTED);
			join(c, it, now);
			c->victim = (u64)prev;
			c->victim_role = it->slot;
		} else {
			it->state = SLEEPING;
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
	}
	c->run_start = now;
	barrier();
	c->sequence++;
	return 0;
}

static __always_inline int wakes(struct task_struct *task)
{
	u32 here = bpf_get_smp_processor_id(), cpu;
	struct task *it = find(task);
	struct cpu *c;
	u64 now;

	/* One that still runs is about to sleep, and goes on instead. */
	if (!it || (bpf_core_field_exists(task->on_cpu) && task->on_cpu))
		return 0;
	now = bpf_ktime_get_ns();
	if (it->state == WAITING) {
		/* Preempted on its way to sleep. */
		if (it->came == PREEMPTED)
			return 0;
		/* The kernel wakes none that waits after a wakeup: it ran and slept meanwhile, and no switch was reported. */
		leave_note(it, it->cpu, -1, now);
		__sync_fetch_and_add(&rewoken, 1);
	}
	cpu = cpu_of_task(task);
	if (cpu != here) {
		begin(task, it, cpu, now, WOKEN);
		leave_note(it, cpu, 1, now);
		return 0;
	}
	c = cpu_of(cpu);
	if (!c)
		return 0;
	c->sequence++;
	barrier();
	account(cpu, now);
	begin(task, it, cpu, c->since, WOKEN);
	join(c, it, c->since);
	barrier();
	c->sequence++;
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
	struct task *it = find(task);
	u64 now = bpf_ktime_get_ns();
	struct cpu *from;

	if (!it || it->state != WAITING || it->cpu == (u32)to)
		return 0;
	if (now < it->since)
		now = it->since;
	from = cpu_of(it->cpu);
	/* Who pushed it off has nothing to do with it any more. At worst another one's reason is lost, no time. */
	if (from && from->victim == (u64)task)
		from->victim = 0;
	leave_note(it, it->cpu, -1, now);
	leave_note(it, to, 1, now);
	it->cpu = to;
	it->since = now;
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

/* Task storage goes with its task. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(freed, struct task_struct *task)
{
	u64 key = (u64)task;

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

/*
 * Run on a CPU by user space: what waits there is counted up to now, though nothing happens. Who has had the CPU all the time is
 * seen here for the first time.
 */
SEC("raw_tp/sched_switch")
int poke(void *context)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return 0;
	c->sequence++;
	barrier();
	account(cpu, bpf_ktime_get_ns());
	if (!c->known) {
		c->known = 1;
		c->tid = BPF_CORE_READ(task, pid);
		c->tgid = BPF_CORE_READ(task, tgid);
		c->prio = BPF_CORE_READ(task, prio);
		c->weight = c->prio < FIRST_FAIR ? NICE_0 : BPF_CORE_READ(task, se.load.weight) >> 10;
		c->run_start = c->since;
		c->role = c->tid ? classify(task) : IDLE;
	}
	bpf_get_current_comm(c->comm, sizeof(c->comm));
	barrier();
	c->sequence++;
	return 0;
}

/* All tasks that are there at the beginning. One that waits does so for longer than anybody knows: it counts from now. */
SEC("iter/task")
int seed(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct task *it;

	if (!task)
		return 0;
	it = make(task);
	if (!it || it->state != NEVER_SEEN || !is_runnable(task) || !task->on_rq || task->on_cpu || !task->pid)
		return 0;
	begin(task, it, cpu_of_task(task), bpf_ktime_get_ns(), PREEMPTED);
	leave_note(it, it->cpu, 1, it->start);
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

	if (!task)
		return 0;
	it = find(task);
	if (!it || it->state != WAITING || it->start + least_age > now)
		return 0;
	if (!is_runnable(task) || task->on_cpu)
		return 0;
	oldest.start = it->start;
	oldest.tid = task->pid;
	oldest.tgid = task->tgid;
	oldest.cpu = it->cpu;
	oldest.role = it->slot;
	bpf_probe_read_kernel_str(oldest.comm, sizeof(oldest.comm), &task->comm);
	bpf_seq_write(context->meta->seq, &oldest, sizeof(oldest));
	return 0;
}
