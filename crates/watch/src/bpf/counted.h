/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What is counted, and where it is kept.
 *
 * Tasks of one role that wait for one CPU are in queues, one for each band, so that the tasks of a queue are alike and one rule says why all
 * of them wait. Of a queue two sums are kept: how many tasks are in it, and the moments at which they came, less those of the tasks
 * that left. n * now - moments is how long all of them have waited here. Whenever who has the CPU changes, what has been added since the
 * last time goes to the sum of (who waits, who had the CPU, why): so the sums are those of the waits to the nanosecond.
 *
 * Who writes: programs on another CPU than the one it is about (most wakeups, all migrations) change a `struct note` by atomic additions. All
 * else of a `struct cpu` is written by programs on that CPU alone: at its switches, its own wakeups, and when user space pokes it. Nobody
 * waits for anybody, and no lock of the scheduler has to be held for it to be right.
 *
 * What a switch touches is kept in few cache lines: the first, that of the marks, and of each queue that is not empty its own and
 * that of a sum.
 */
#ifndef UNSTARVE_COUNTED_H
#define UNSTARVE_COUNTED_H

#include "rules.h"

#define ROLES 32
#define BANDS 4
#define QUEUES (ROLES * BANDS)
/* `Workloads::LIMIT` of workload.rs: pods and units by number. */
#define PLACES 256
/* Runs by place that a CPU remembers. */
#define RUNS 32
/* Real-time tasks that a CPU remembers; `RecentRuns` of recent_runs.rs. */
#define RECENT 4
/* Their sums halve each 2^29 ns (0.5 s). */
#define HALVES_SHIFT 29
/* Shorter runs are not remembered: 2^15 ns. Threads of interrupts make most of them. */
#define LEAST_RUN (1ULL << 15)
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

/* Real-time and deadline tasks; others by their nice value: below 0, 0, above 0. */
enum band { FIRST, HEAVY, PLAIN, LIGHT };

/* Places that are no pod and no unit: kernel threads, and groups that user space has given no number; and an idle CPU. */
enum place { ELSEWHERE, NOBODY };

enum state { NEVER_SEEN, SLEEPING, WAITING, RUNNING };
enum came { WOKEN, PREEMPTED };

/* What is known of a task. Its own CPU writes it, or who wakes or moves it: the scheduler lets one at a time. */
struct task {
	/* When the wait began, and when it came to the queue where it is now. */
	u64 start;
	u64 since;
	/* What it added to the load of its queue. */
	u64 unit;
	/* Of what its role was made. */
	u64 css;
	u32 generation;
	s32 prio;
	u32 cpu;
	u8 state;
	u8 came;
	/* Where it waits: role * BANDS + band. */
	u8 queue;
	/* What it is, and, of a worker, what its work makes of it. */
	u8 role;
	u8 work;
	/* The number of its pod or unit. */
	u8 place;
	u8 pad[2];
};

struct note {
	/* How many tasks wait, in the low 24 bits; above them the sum of their weights, of the first band that of their ranks. */
	u64 load;
	u64 moments;
};

struct queue {
	/* From other CPUs, and from its own: sums since the beginning. */
	struct note others;
	struct note own;
	/* What was counted of both, and when. */
	struct note counted;
	u64 at;
	/* At which turn it was last seen to grow. */
	u32 grown;
	u32 is_active;
};

struct sums {
	u64 steps[STEPS];
	u64 blame[ROLES * RULES];
};

/* One role on one CPU, which user space copies as a whole. */
struct row {
	struct queue queues[BANDS];
	/* For how long others were preferred while somebody of the role waited here: of all that wait at once in a queue, each moment once. */
	u64 preferred;
	struct sums sums;
	u64 pad[5];
};

/*
 * Waits by pod or unit, each counted when it ends. What a place waited behind others is in `behind`, and the same time in `kept` of those others, so that
 * over all places both have one sum. Behind whom a task waited before it was moved here, or more than RUNS runs ago, is not known: ELSEWHERE.
 */
struct place_sums {
	u64 waited;
	u64 behind;
	u64 idle;
	u64 kept;
};

/* A real-time or deadline task, and for how long it has had a CPU lately. */
struct recent {
	u64 ns;
	u32 tid;
	u32 tgid;
	char comm[16];
};

struct cpu {
	/* Odd while it is written. */
	u64 sequence;
	/* Up to when everything is counted. */
	u64 since;
	/* Who has the CPU, since when and from which turn on. */
	u64 run_start;
	/* Who was pushed off by it just after it was woken: the task, and where it waits. */
	u64 victim;
	/* For how long real-time and deadline tasks had the CPU, up to `since`. */
	u64 real_time;
	u32 run_turn;
	u32 tid;
	u32 tgid;
	u32 weight;
	/* Of real-time and deadline tasks; 0 of all others, and of an idle CPU. */
	u8 rank;
	u8 role;
	u8 known;
	u8 victim_queue;
	/* Queues to count at each turn. */
	u8 active_count;
	u8 active[QUEUES];
	/* Who has the CPU was not found when it took it: it may be in a queue still. */
	u8 doubtful;
	/* The pod or unit of who has the CPU. */
	u8 place;
	u8 pad_active[1];
	u64 missing;
	u64 disbelieved;
	/* What its runqueue's clock needs to be the monotonic one, and both when that was found. */
	u64 sampled;
	u64 sampled_at;
	u64 offset;
	/* How often in a row it was found to need much more, and the least of that. */
	u64 exceeded;
	u64 least;

	/* Written by others: for each role a byte that changes when tasks come. */
	u64 marks[WORDS] __attribute__((aligned(64)));
	/* As they were when they were last looked at, by the CPU itself. */
	u64 seen_marks[WORDS];
	/* Who had the CPU lately: the low 56 bits of the end of each run in ns, and below them its place. Runs of one place in a row are one. */
	u64 runs[RUNS];
	u32 last_run;
	/* The generation in which `place` was found. */
	u32 place_generation;
	struct recent recent[RECENT];
	/* At which half-life the sums of `recent` are right. */
	u64 recent_at;
	u64 pad_pages[422];
	struct row rows[ROLES];
	struct place_sums places[PLACES];
};
/* User space maps one CPU's at a time. */
_Static_assert(sizeof(struct cpu) % 4096 == 0, "whole pages");

/* A wait that lasts, for user space. */
struct oldest {
	u64 start;
	u32 tid;
	u32 tgid;
	u32 cpu;
	/* The number of its pod or unit when the wait began. */
	u8 place;
	u8 role;
	u8 pad[2];
	char comm[16];
};

/* So that the types are in the object's BTF. */
struct cpu *a_cpu = 0;
struct oldest an_oldest = {};

/* Whether the kernel has task storage for programs like these (5.12). */
const volatile bool has_storage = 1;
/* Whether groups are those of the unified hierarchy; else those of the cpu controller's. */
const volatile bool is_unified = 1;

/* Changed whenever roles of groups or numbers of places change; never 0 once tasks are looked at. */
volatile u32 generation = 0;
/* By role: the weight of a group beside nice 0 = 1024; 0 for what is none, or has none. */
volatile u32 group_weights[ROLES] = {};
/* By place: when its number was given to the pod or unit that has it. Runs that ended before were another one's. */
volatile u64 place_since[PLACES] = {};
/* Waits that are younger are not listed. */
volatile u64 least_age = 0;
/* From when on every task that takes a CPU is seen to; 0 as long as that is to come. */
volatile u64 seeded = 0;
/* Tasks for which there was no room; and how often one was not found as it took a CPU. */
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

/* The compiler leaves out a mask that it knows to change nothing, of which verifiers before 6.3 have lost sight. */
static __always_inline u32 bounded(u32 index, u32 mask)
{
	asm volatile("" : "+r"(index));
	return index & mask;
}

static __always_inline struct cpu *cpu_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

#endif
