/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* Who waits for a CPU, and for how long because of whom. */
#ifndef UNSTARVE_QUEUES_H
#define UNSTARVE_QUEUES_H

#include "roles.h"

/* Added to each moment: a note of which only one sum is seen yet is far from any time that can have passed. */
#define BIAS (1ULL << 56)
#define TOO_FAR (1ULL << 54)
#define WEIGHT_FROM 24
#define INLINED 2
/* Turns have 32 bits, of which the difference is looked at. A queue that grew longer ago grew so long ago, until the numbers come round. */
#define LONG_AGO (1U << 30)
/* No CPU: only programs that run with interrupts off may change a CPU's own sums. */
#define ANYWHERE ~0U

/* How a CPU's queues are counted. */
enum manner {
	/* At a switch: one that is empty is left out from now on. */
	AT_SWITCH,
	/* The CPU was not idle, as was thought: somebody ran, and nobody knows who. */
	UNSEEN,
	/* Wakeups may come in between: what is empty stays, because they rely on it. */
	POKED,
};

static __always_inline s64 tasks_in(u64 load)
{
	return (s64)(load << (64 - WEIGHT_FROM)) >> (64 - WEIGHT_FROM);
}

static __always_inline struct queue *queue_of(struct cpu *c, u32 id)
{
	return &c->rows[id / BANDS & (ROLES - 1)].queues[id % BANDS];
}

static __always_inline u32 turn_of(struct cpu *c)
{
	return c->sequence;
}

static __always_inline void activate(struct cpu *c, struct queue *q, u32 id)
{
	u32 count = c->active_count;

	if (q->is_active || count >= QUEUES)
		return;
	c->active[count & (QUEUES - 1)] = id;
	c->active_count = count + 1;
	q->is_active = 1;
}

/*
 * Who is of nice > 0 asked to come last: that it does is nobody's precedence. Beside other groups a group's weight counts alone. Who is of nice 19 or
 * SCHED_IDLE asked to come after all others, real-time tasks included.
 */
static __always_inline bool asks_to_be_last(struct cpu *c, u32 id)
{
	return id % BANDS == LIGHT && (id / BANDS <= OTHER || id / BANDS == c->role);
}

/* Why the task that has the CPU has it, and not those of this queue. */
static __always_inline u32 rule_of(struct cpu *c, struct queue *q, u32 id, u64 load)
{
	u32 role = id / BANDS, its = c->rank, rival = c->weight, of_group;
	u64 n = tasks_in(load), sum = (load - n) >> WEIGHT_FROM;
	bool was_there = (s32)(q->grown - c->run_turn) <= 0;
	/* Deadline tasks that have used up their reservation wait for the next, which is how sched_yield() ends their turn. */
	u32 by_limit = id % BANDS == FIRST && sum == n * DEADLINE_RANK ? BY_FAIR : BY_THROTTLED;

	/* It came and left since the last count, for another CPU: no more is known of its weight than the band. */
	if (!n) {
		n = 1;
		sum = id % BANDS == FIRST ? 1 : NICE_0_WEIGHT;
		was_there = 0;
	}
	if (c->role == IDLE)
		return role >= REAL_TIME && was_there ? by_limit : BY_IDLE;
	if (c->role == UNKNOWN)
		return BY_UNKNOWN;
	if (id % BANDS == FIRST) {
		if (its * n > sum)
			return BY_CLASS;
		/*
		 * They were there when it was chosen: something forbids their class to run. Else it is about to be preempted, or of the same
		 * class and priority: no weight counts.
		 */
		return !its && was_there ? by_limit : BY_FAIR;
	} else if (its) {
		return id % BANDS == LIGHT && sum <= n * NICE_19_WEIGHT ? BY_FAIR : BY_CLASS;
	}
	if (asks_to_be_last(c, id))
		return BY_FAIR;
	if (role != c->role) {
		of_group = group_weights[role & (ROLES - 1)];
		if (of_group)
			sum = n * of_group;
		of_group = group_weights[c->role & (ROLES - 1)];
		if (of_group)
			rival = of_group;
	}
	return rival * n > sum ? BY_WEIGHT : BY_FAIR;
}

static __always_inline void blame(struct row *row, u32 occupant, u32 rule, u64 ns)
{
	u32 at = bounded(occupant * RULES + rule, ROLES * RULES - 1);

	row->sums.blame[at] += ns;
}

static __always_inline bool is_precedence(u32 rule)
{
	return rule == BY_THROTTLED || rule == BY_CLASS || rule == BY_WAKEUP_PREEMPTION || rule == BY_WEIGHT;
}

/* Counts what has been waited in a queue, the k-th of those to count, since it was last counted. */
static __always_inline void charge(struct cpu *c, u32 k, u64 now, enum manner manner)
{
	u32 id = c->active[k & (QUEUES - 1)] & (QUEUES - 1), rule, last;
	struct row *row = &c->rows[id / BANDS];
	struct queue *q = &row->queues[id % BANDS];
	u64 load = q->others.load + q->own.load, moments = q->others.moments + q->own.moments;
	u64 before = q->counted.load, from = q->at, waited, pushed, preferred = 0, passed;
	s64 n = tasks_in(load), was = tasks_in(before);
	bool pushes;

	waited = n * (now + BIAS) - moments - (was * (from + BIAS) - q->counted.moments);
	/* A part of a note is still to come, or it is a little ahead: all of it at the next turn. */
	if (waited > TOO_FAR)
		return;
	if (n > was)
		q->grown = turn_of(c);
	else if (manner == POKED && c->run_turn - q->grown - LONG_AGO < LONG_AGO)
		q->grown = c->run_turn - LONG_AGO;
	q->counted.load = load;
	q->counted.moments = moments;
	q->at = now;
	if (!waited) {
		if (!load && manner != POKED) {
			/* From the last to the first: one that goes is replaced by one that has been counted. */
			last = --c->active_count & (QUEUES - 1);
			c->active[k & (QUEUES - 1)] = c->active[last];
			q->is_active = 0;
		}
		return;
	}
	if (manner == UNSEEN) {
		blame(row, UNKNOWN, BY_UNKNOWN, waited);
		return;
	}
	rule = rule_of(c, q, id, load ? load : before);
	passed = now - (from > c->run_start ? from : c->run_start);
	pushes = c->victim && id == c->victim_queue && (!c->rank || id % BANDS == FIRST);
	if (pushes && rule != BY_CLASS && !asks_to_be_last(c, id)) {
		pushed = passed;
		if (pushed > waited)
			pushed = waited;
		blame(row, c->role, BY_WAKEUP_PREEMPTION, pushed);
		waited -= pushed;
		/* Threads of a pool that push each other off are all of the role: what one of them waits another one has. */
		if (c->role != id / BANDS)
			preferred = pushed;
	}
	blame(row, c->role, rule, waited);
	if (is_precedence(rule))
		preferred += waited;
	/* Whoever has the CPU has it once, however many wait for it. Mostly nobody is preferred, and nothing is written. */
	if (preferred)
		row->preferred += preferred < passed ? preferred : passed;
}

/*
 * Functions that are not static are verified once each and not at each call, so that their branches do not multiply. Up to 5.12
 * they take numbers only. Each call costs 8 ns where returns are guarded, so the way that most switches take has none.
 */

__noinline int charge_one(u32 cpu, u32 k, u64 now, u32 manner)
{
	struct cpu *c = cpu_of(cpu);

	if (c && k < c->active_count)
		charge(c, k, now, manner);
	return 0;
}

/* All but the first INLINED. */
__noinline int charge_others(u32 cpu, u64 now, u32 manner)
{
	struct cpu *c = cpu_of(cpu);
	u32 i, k, count;

	if (!c)
		return 0;
	count = c->active_count;
	for (i = 1; i < QUEUES; i++) {
		k = count - i;
		if (k < INLINED || k >= QUEUES)
			break;
		charge_one(cpu, k, now, manner);
	}
	return 0;
}

/* Tasks came to queues of this role. */
__noinline int look_at(u32 cpu, u32 role)
{
	struct cpu *c = cpu_of(cpu);
	struct queue *q;
	u32 band;

	if (!c)
		return 0;
	role &= ROLES - 1;
	for (band = 0; band < BANDS; band++) {
		q = &c->rows[role].queues[band];
		if (q->others.load + q->own.load != q->counted.load ||
		    q->others.moments + q->own.moments != q->counted.moments)
			activate(c, q, role * BANDS + band);
	}
	return 0;
}

/* Which queues tasks came to. */
__noinline int look(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);
	u64 changed, marks;
	u32 word, byte;

	if (!c)
		return 0;
	for (word = 0; word < WORDS; word++) {
		marks = c->marks[word];
		changed = marks ^ c->seen_marks[word];
		if (!changed)
			continue;
		c->seen_marks[word] = marks;
		for (byte = 0; byte < 8; byte++) {
			if (changed >> (8 * byte) & 0xff)
				look_at(cpu, word * 8 + byte);
		}
	}
	return 0;
}

/* Counts up to now what is waiting for a CPU, for who has it. Runs on that CPU, with interrupts off. */
static __always_inline void account(struct cpu *c, u32 cpu, u64 now, enum manner manner)
{
	u64 changed = (c->marks[0] ^ c->seen_marks[0]) | (c->marks[1] ^ c->seen_marks[1]) | (c->marks[2] ^ c->seen_marks[2]) |
		      (c->marks[3] ^ c->seen_marks[3]);

	if (changed)
		look(cpu);
	if (!c->active_count)
		return;
	if (c->active_count > INLINED)
		charge_others(cpu, now, manner);
	if (c->active_count > 1)
		charge(c, 1, now, manner);
	charge(c, 0, now, manner);
}

/*
 * The end of a run that was over at `now`. What is remembered comes round after 834 days, and a machine may be up for longer: it is the latest
 * such moment up to `now`.
 */
static __always_inline u64 end_of(u64 run, u64 now)
{
	return now - ((now - run / PLACES) & (~0ULL / PLACES));
}

/*
 * Whose run it is, if numbers were given since that was found: the number that the CPU has may be another one's by now. What ran before and had
 * the new number has to stay a run of its own, because it may have been another one's.
 */
__noinline int locate_run(u32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return 0;
	c->place_generation = generation;
	c->place = locate((void *)bpf_get_current_task());
	if (c->place != ELSEWHERE && (c->runs[c->last_run & (RUNS - 1)] & (PLACES - 1)) == c->place)
		c->runs[++c->last_run & (RUNS - 1)] = c->run_start * PLACES | ELSEWHERE;
	return 0;
}

/* The place that had this CPU until `now` gives it away. */
static __always_inline void end_run(struct cpu *c, u64 now, u32 place)
{
	u64 *last = &c->runs[c->last_run & (RUNS - 1)];

	if ((*last & (PLACES - 1)) != place)
		last = &c->runs[++c->last_run & (RUNS - 1)];
	*last = now * PLACES | place;
}

/* A part of a wait, behind a run of `by` that ended at `run_end`. */
static __always_inline void kept_by(struct cpu *c, struct place_sums *victim, u32 of, u32 by, u64 run_end, u64 ns)
{
	by = bounded(by, PLACES - 1);
	if (run_end < place_since[by])
		by = ELSEWHERE;
	if (by == NOBODY) {
		victim->idle += ns;
	} else if (by != of || by == ELSEWHERE) {
		victim->behind += ns;
		c->places[bounded(by, PLACES - 1)].kept += ns;
	}
}

/* A wait of a place ends that was behind more than one run: `since` it came to this CPU. */
__noinline int kept_by_runs(u32 cpu, u32 of, u64 since, u64 end)
{
	struct cpu *c = cpu_of(cpu);
	struct place_sums *victim;
	u64 run, run_end = end, from, to = end;
	u32 i;

	if (!c)
		return 0;
	victim = &c->places[bounded(of, PLACES - 1)];
	for (i = 0; i < RUNS - 1; i++) {
		run = c->runs[(c->last_run - i) & (RUNS - 1)];
		from = end_of(c->runs[(c->last_run - i - 1) & (RUNS - 1)], end);
		if (from < since)
			from = since;
		if (from < to) {
			kept_by(c, victim, of, run & (PLACES - 1), run_end, to - from);
			to = from;
		}
		if (to <= since)
			return 0;
		run_end = from;
	}
	kept_by(c, victim, of, ELSEWHERE, end, to - since);
	return 0;
}

/* The task that waited takes this CPU; whose run ended is noted already. */
static __always_inline void count_place(struct cpu *c, struct task *it, u32 cpu, u64 end)
{
	u64 last = c->runs[c->last_run & (RUNS - 1)], since = it->cpu == cpu ? it->since : end;
	u64 began = end_of(c->runs[(c->last_run - 1) & (RUNS - 1)], end);
	struct place_sums *victim = &c->places[it->place];

	victim->waited += end - it->start;
	if (since > end)
		since = end;
	if (since > it->start)
		kept_by(c, victim, it->place, ELSEWHERE, end, since - it->start);
	if (since >= began)
		kept_by(c, victim, it->place, last & (PLACES - 1), end, end - since);
	else
		kept_by_runs(cpu, it->place, since, end);
}

/* A task comes to its queue, or goes: `now` and `unit`, or less than nothing of both. */
static __always_inline void change(struct queue *q, bool is_own, u64 unit, u64 moment)
{
	if (is_own) {
		q->own.load += unit;
		q->own.moments += moment;
	} else {
		__sync_fetch_and_add(&q->others.load, unit);
		__sync_fetch_and_add(&q->others.moments, moment);
	}
}

static __always_inline void put(struct cpu *c, struct task *it, u32 here, u64 now)
{
	change(queue_of(c, it->queue), it->cpu == here, it->unit, now + BIAS);
}

static __always_inline void take(struct task *it, u32 here, u64 end)
{
	struct cpu *c = cpu_of(it->cpu);

	if (c)
		change(queue_of(c, it->queue), it->cpu == here, -it->unit, -(end + BIAS));
}

/* Takes a task that mostly waits on this CPU itself. */
static __always_inline void take_here(struct cpu *c, struct task *it, u32 here, u64 end)
{
	if (it->cpu == here)
		change(queue_of(c, it->queue), 1, -it->unit, -(end + BIAS));
	else
		take(it, ANYWHERE, end);
}

/* The task that leaves the CPU stays on its queue: it was there from the beginning of the next one's turn on. */
static __always_inline void stay(struct cpu *c, struct task *it, u64 now)
{
	struct queue *q = queue_of(c, it->queue);

	change(q, 1, it->unit, now + BIAS);
	if (!tasks_in(q->counted.load))
		q->at = now;
	if (q->at == now) {
		q->counted.load += it->unit;
		q->counted.moments += now + BIAS;
	}
	q->grown = turn_of(c);
	activate(c, q, it->queue);
}

/* The CPU does not look at all queues at each turn. */
static __always_inline void mark(struct cpu *c, struct task *it)
{
	u32 role = it->queue / BANDS & (ROLES - 1);

	__sync_fetch_and_add(&c->marks[role / 8], 1ULL << (8 * (role % 8)));
}

/* What is known of a task that waits from now on, as what it is now. */
static __always_inline void describe(struct task_struct *task, struct task *it, u32 cpu, u64 now, enum came came)
{
	u32 weight, band = FIRST, of_prio = rank(task->prio);

	weight = of_prio;
	if (!of_prio) {
		weight = task->se.load.weight >> 10;
		band = weight == NICE_0_WEIGHT ? PLAIN : weight > NICE_0_WEIGHT ? HEAVY : LIGHT;
	}
	it->start = now;
	it->since = now;
	it->cpu = cpu;
	it->came = came;
	it->queue = role_of(task, it) * BANDS + band;
	it->unit = 1 + ((u64)weight << WEIGHT_FROM);
}

static __always_inline void begin(struct task_struct *task, struct task *it, u32 cpu, u64 now, enum came came)
{
	describe(task, it, cpu, now, came);
	it->state = WAITING;
}

#endif
