/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* The programs themselves, compiled for the host: what has to happen on two CPUs at once, or takes days, is made to happen here. */
#include "watch.bpf.c"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL
#define CHECK(what, ...)                                     \
	do {                                                 \
		if (!(what)) {                               \
			printf("%d: %s: ", __LINE__, #what); \
			printf(__VA_ARGS__);                 \
			printf("\n");                        \
			exit(1);                             \
		}                                            \
	} while (0)

static struct cpu the_cpus[2];
static struct slot the_slots[SLOTS];
/* The id of a group is the number of its role. */
static u32 roles_of_groups[ROLES];
static u32 places_of_groups[ROLES];
static u32 here;
static u64 mono = 1000 * MS;
/* What the clock takes to be read. */
static u64 stolen;
/* What happens at the barrier of this number from now. */
static void (*meanwhile)(void);
static u32 barriers;
static struct task_struct *running;
/* As where a program that looks at task storage was interrupted. */
static bool is_busy;

void *bpf_map_lookup_elem(const void *map, const void *key)
{
	u32 at = *(const u32 *)key;

	if (map == &cpus)
		return at < 2 ? &the_cpus[at] : 0;
	if (map == &groups)
		return *(const u64 *)key < ROLES ? &roles_of_groups[*(const u64 *)key] : 0;
	if (map == &places)
		return *(const u64 *)key < ROLES ? &places_of_groups[*(const u64 *)key] : 0;
	return map == &slots ? &the_slots[at] : 0;
}

long bpf_map_update_elem(const void *map, const void *key, const void *value, u64 flags)
{
	return -1;
}

long bpf_map_delete_elem(const void *map, const void *key)
{
	return 0;
}

void *bpf_task_storage_get(const void *map, struct task_struct *task, void *value, u64 flags)
{
	if (is_busy)
		return 0;
	if (!task->storage && flags)
		task->storage = calloc(1, sizeof(struct task));
	return task->storage;
}

u32 bpf_get_smp_processor_id(void)
{
	return here;
}

u64 bpf_ktime_get_ns(void)
{
	mono += stolen;
	return mono;
}

void at_barrier(void)
{
	void (*happens)(void) = meanwhile;

	if (!happens || barriers--)
		return;
	meanwhile = 0;
	happens();
}

struct task_struct *bpf_get_current_task(void)
{
	return running;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return 0;
}

long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	return bpf_probe_read_kernel(to, size, from);
}

long bpf_seq_write(void *seq, const void *data, u32 size)
{
	return 0;
}

static struct rq runqueue;
static struct cfs_rq fair = { &runqueue };
static struct cgroup root;
static struct css_set in_root = { &root };
static struct task_struct idle = { .comm = "swapper", .prio = 120, .normal_prio = 120 };

static struct task_struct named(int pid, int prio)
{
	struct task_struct task = { .pid = pid, .tgid = pid, .prio = prio, .normal_prio = prio, .on_rq = 1, .comm = "x" };

	task.se.load.weight = NICE_0_WEIGHT << 10;
	task.se.cfs_rq = &fair;
	task.cgroups = &in_root;
	return task;
}

/* The CPU goes from one to the other; `sleeps`, or stays on the queue. */
static void go(struct task_struct *from, struct task_struct *to, bool sleeps)
{
	from->__state = sleeps;
	from->on_rq = !sleeps;
	from->nvcsw++;
	to->on_cpu = 1;
	running = from;
	switched(0, from, to);
	from->on_cpu = 0;
}

/* How many are believed to wait for a CPU. */
static s64 waiting(u32 cpu)
{
	s64 sum = 0;
	u32 id;

	for (id = 0; id < QUEUES; id++)
		sum += tasks_in(queue_of(&the_cpus[cpu], id)->own.load + queue_of(&the_cpus[cpu], id)->others.load);
	return sum;
}

static u64 blamed(u32 cpu, u32 role, u32 rule)
{
	u64 sum = 0;
	u32 occupant;

	for (occupant = 0; occupant < ROLES; occupant++)
		sum += the_cpus[cpu].rows[role].sums.blame[occupant * RULES + rule];
	return sum;
}

static u64 waited(u32 cpu, u32 role)
{
	u64 sum = 0;
	u32 rule;

	for (rule = 0; rule < RULES; rule++)
		sum += blamed(cpu, role, rule);
	return sum;
}

static u32 draw(u32 below)
{
	static u64 state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 33) % below;
}

/* How wrong the beginning of a wait is. */
struct errors {
	s64 early;
	s64 late;
};

/*
 * A wakeup each `gap` ns for so long, while the monotonic clock runs by `slew` millionths faster than the runqueue's. Where `steals`, one in
 * fifty wakeups loses the CPU for 10 ms between the two clocks. What begins with the monotonic clock itself is left out.
 */
static struct errors wake_for(u64 ns, u64 gap, s64 slew, bool steals)
{
	struct task_struct task = named(1, 120);
	struct errors errors = { 0, 0 };
	u64 end = runqueue.clock + ns, at, start;
	s64 error;

	while (runqueue.clock < end) {
		runqueue.clock += gap;
		mono += gap + (s64)gap * slew / 1000000;
		at = mono;
		stolen = steals && !draw(50) ? 10 * MS : 200;
		start = clock_at_wakeup(&task, &the_cpus[0], 1);
		runqueue.clock += mono - at;
		if (start == mono && mono > at)
			continue;
		error = at - start;
		if (error > errors.early)
			errors.early = error;
		if (-error > errors.late)
			errors.late = -error;
	}
	return errors;
}

static void a_slew_begins_no_wait_too_early(void)
{
	/* NTP's slews, then chronyd's; each with many wakeups and with few. */
	const s64 slews[] = { 0, 500, -500, 83333, -83333 };
	const u64 gaps[] = { 10000, 100000, 700000 };
	u32 i, k, steals;

	runqueue.clock = 5 * MS;
	for (i = 0; i < 5; i++) {
		for (k = 0; k < 3; k++) {
			for (steals = 0; steals < 2; steals++) {
				struct errors during = wake_for(1200 * MS, gaps[k], slews[i], steals), after;
				/* The time between two samples, slewed; by NTP's slews nothing that counts. */
				s64 most = slews[i] > 1000 ? 1800000 : 2000;

				CHECK(during.early <= most && during.late <= 200000, "slew %lld, gap %llu, stolen %u: %lld ns early, %lld late",
				      slews[i], gaps[k], steals, during.early, during.late);
				wake_for(20 * MS, gaps[k], 0, 0);
				after = wake_for(100 * MS, gaps[k], 0, steals);
				CHECK(after.early <= 1000 && after.late <= 2000, "after slew %lld, gap %llu, stolen %u: %lld ns early, %lld late",
				      slews[i], gaps[k], steals, after.early, after.late);
			}
		}
	}
}

static void a_step_begins_no_wait_too_early(void)
{
	const s64 steps[] = { 50 * MS, -50 * (s64)MS, 900 * MS, 5000 * MS };
	struct errors errors;
	u32 i;

	runqueue.clock = 5 * MS;
	wake_for(50 * MS, 100000, 0, 0);
	for (i = 0; i < 4; i++) {
		mono += steps[i];
		/* Until the next sample. */
		wake_for(MS + 200000, 100000, 0, 0);
		errors = wake_for(10 * MS, 100000, 0, 0);
		CHECK(errors.early <= 1100000, "step %lld: %lld ns early", steps[i], errors.early);
		errors = wake_for(100 * MS, 100000, 0, 1);
		CHECK(errors.early <= 1000 && errors.late <= 2000, "step %lld: %lld ns early, %lld late", steps[i], errors.early,
		      errors.late);
	}
}

/* Between the runqueue's clock and the report another CPU of the machine may have run for a while. */
static void who_is_woken_elsewhere_waits_from_the_report_on(void)
{
	struct task_struct task = named(1, 120);
	u64 start;

	runqueue.clock = 5 * MS;
	stolen = 0;
	/* The difference of both clocks is found. */
	clock_at_wakeup(&task, &the_cpus[0], 1);
	runqueue.clock += 100000;
	mono += 100000 + 400000;
	start = clock_at_wakeup(&task, &the_cpus[0], 0);
	CHECK(start == mono, "%lld ns early", mono - start);
	start = clock_at_wakeup(&task, &the_cpus[0], 1);
	CHECK(mono - start > 390000, "the test shows nothing: %lld ns early", mono - start);
}

static void who_was_not_found_waits_no_longer(void)
{
	struct task_struct one = named(1, 120), other = named(2, 120);
	u64 before;

	seeded = 1;
	make(&one);
	make(&other);
	stolen = 0;
	go(&idle, &one, 0);
	other.on_rq = 0;
	mono += MS;
	runqueue.clock_update_flags = IS_OLD;
	other.on_rq = 1;
	woken(&other);
	CHECK(waiting(0) == 1, "%lld", waiting(0));
	mono += MS;
	is_busy = 1;
	go(&one, &other, 1);
	is_busy = 0;
	mono += 5 * MS;
	go(&other, &idle, 1);
	CHECK(waiting(0) == 0, "%lld", waiting(0));
	before = waited(0, OTHER);
	CHECK(before == MS, "%llu", before);
	mono += 500 * MS;
	go(&idle, &one, 0);
	CHECK(waited(0, OTHER) == before, "%llu", waited(0, OTHER));
}

static struct task_struct sleeper;

/* Another CPU runs it, until it sleeps. */
static void it_runs_and_sleeps(void)
{
	here = 1;
	go(&idle, &sleeper, 0);
	go(&sleeper, &idle, 1);
	here = 0;
}

static void it_runs_and_is_woken(void)
{
	it_runs_and_sleeps();
	here = 1;
	sleeper.__state = 0;
	sleeper.on_rq = 1;
	runqueue.clock_update_flags = IS_OLD;
	woken(&sleeper);
	here = 0;
}

static void it_runs(void)
{
	here = 1;
	go(&idle, &sleeper, 0);
	here = 0;
}

/* Where looking at all tasks at the start is overtaken by what they do. */
static void seed_while(void (*happens)(void), u32 at)
{
	struct bpf_iter__task context = { .task = &sleeper };

	memset(the_cpus, 0, sizeof(the_cpus));
	sleeper = named(7, 120);
	sleeper.thread_info.cpu = 1;
	meanwhile = happens;
	barriers = at;
	seed(&context);
}

static void who_runs_while_all_are_looked_at_is_in_one_queue_at_most(void)
{
	u32 at;

	seed_while(0, 0);
	CHECK(waiting(1) == 1, "%lld", waiting(1));
	for (at = 0; at < 4; at++) {
		seed_while(it_runs_and_sleeps, at);
		CHECK(!meanwhile && waiting(1) == 0, "at barrier %u: %lld", at, waiting(1));
		seed_while(it_runs_and_is_woken, at);
		CHECK(!meanwhile && waiting(1) == 1, "at barrier %u: %lld", at, waiting(1));
		seed_while(it_runs, at);
		CHECK(!meanwhile, "at barrier %u", at);
		here = 1;
		go(&sleeper, &idle, 1);
		here = 0;
		CHECK(waiting(1) == 0, "at barrier %u: %lld", at, waiting(1));
	}
}

static void a_queue_that_does_not_grow_for_days_was_there(void)
{
	struct task_struct hog = named(1, 120), other = named(2, 120), real_time = named(3, 50);
	struct cpu *c = &the_cpus[0];
	u64 stopped;
	u32 i;

	seeded = 1;
	stolen = 0;
	make(&hog);
	make(&other);
	make(&real_time);
	go(&idle, &hog, 0);
	mono += MS;
	runqueue.clock_update_flags = IS_OLD;
	woken(&real_time);
	mono += MS;
	go(&hog, &other, 1);
	for (i = 0; i < 40; i++) {
		mono += MS;
		go(&other, &hog, 1);
		mono += MS;
		go(&hog, &other, 1);
		/* Days of it. */
		c->sequence += 1U << 28;
		mono += MS;
		running = &other;
		poke(0);
		stopped = blamed(0, REAL_TIME, BY_THROTTLED);
	}
	/* All but what it waited for the one that had the CPU as it came. */
	CHECK(stopped == 40 * 3 * MS, "%llu of %llu", stopped, waited(0, REAL_TIME));
}

/* It was woken here, and taken to another CPU before anything was counted. */
static void a_task_that_is_moved_at_once_is_judged_by_its_band(void)
{
	struct task_struct hog = named(1, 50), other = named(2, 125), real_time = named(3, 50), program = named(4, 120);

	seeded = 1;
	stolen = 0;
	runqueue.clock_update_flags = IS_OLD;
	make(&hog);
	make(&other);
	make(&real_time);
	make(&program);
	other.se.load.weight = 335 << 10;
	go(&idle, &hog, 0);
	mono += MS;
	woken(&other);
	mono += 10 * MS;
	migrated(&other, 1);
	mono += MS;
	go(&hog, &program, 1);
	CHECK(blamed(0, OTHER, BY_CLASS) == 10 * MS, "%llu of %llu", blamed(0, OTHER, BY_CLASS), waited(0, OTHER));
	mono += MS;
	woken(&real_time);
	mono += MS;
	migrated(&real_time, 1);
	mono += MS;
	go(&program, &idle, 1);
	CHECK(blamed(0, REAL_TIME, BY_FAIR) == MS, "%llu throttled of %llu", blamed(0, REAL_TIME, BY_THROTTLED), waited(0, REAL_TIME));
}

#define TASKS 16
static struct task_struct tasks[TASKS];
static struct cgroup groups_by_role[ROLES];
static struct kernfs_node nodes[ROLES];
static struct css_set in_group[ROLES];

static struct task_struct *by_number(u32 number)
{
	return number ? &tasks[number & (TASKS - 1)] : &idle;
}

static void in_role(struct task_struct *task, u32 role)
{
	if (role == KWORKER) {
		task->flags = PF_KTHREAD;
		strcpy(task->comm, "kworker/0:1");
	} else if (role > GONE) {
		nodes[role].id = role;
		roles_of_groups[role] = role;
		groups_by_role[role] = (struct cgroup){ .level = 1, .kn = &nodes[role] };
		groups_by_role[role].ancestors[1] = &groups_by_role[role];
		in_group[role].dfl_cgrp = &groups_by_role[role];
		task->cgroups = &in_group[role];
	}
}

/*
 * Two pods, and a task of none. A pod's own threads do not count against it, and the sums by who waited and by who had the CPU are one.
 *
 *       0    1    2    3    5    7    8 ms
 * CPU 0 hog  .    .    none hog  own  victim
 * waits:     victim                   |
 *                 own            |
 */
static void a_wait_is_divided_among_the_pods_that_ran(void)
{
	struct task_struct hog = named(1, 120), victim = named(2, 120), own = named(3, 120), none = named(4, 120);
	struct place_sums *sums = the_cpus[0].places, all = {};
	u32 i;

	seeded = 1;
	generation = 1;
	stolen = 0;
	runqueue.clock_update_flags = IS_OLD;
	in_role(&hog, 20);
	in_role(&own, 20);
	in_role(&victim, 21);
	places_of_groups[20] = 5;
	places_of_groups[21] = 6;
	make(&hog);
	make(&victim);
	make(&own);
	make(&none);
	running = &idle;
	poke(0);
	go(&idle, &hog, 0);
	mono += MS;
	woken(&victim);
	mono += MS;
	woken(&own);
	mono += MS;
	go(&hog, &none, 0);
	mono += 2 * MS;
	go(&none, &hog, 1);
	mono += 2 * MS;
	go(&hog, &own, 1);
	mono += MS;
	go(&own, &victim, 1);
	mono += MS;
	go(&victim, &idle, 1);
	CHECK(sums[6].waited == 7 * MS && sums[6].behind == 7 * MS, "%llu, %llu", sums[6].waited, sums[6].behind);
	/* 2, 2 and 1 ms of the victim's wait; of the others' waits behind `none` nothing. */
	CHECK(sums[5].kept == 5 * MS, "%llu", sums[5].kept);
	/* `own` waited 5 ms, and `hog` 2, behind `none` 2 each; the rest behind their own pod. */
	CHECK(sums[5].waited == 7 * MS && sums[5].behind == 4 * MS, "%llu, %llu", sums[5].waited, sums[5].behind);
	CHECK(sums[ELSEWHERE].kept == 6 * MS, "%llu", sums[ELSEWHERE].kept);

	/* Of more runs than the CPU remembers the first ones are nobody's. */
	woken(&victim);
	go(&idle, &hog, 0);
	for (i = 0; i < 2 * RUNS; i++) {
		mono += MS;
		go(i % 2 ? &none : &hog, i % 2 ? &hog : &none, 0);
	}
	mono += MS;
	go(&hog, &victim, 1);
	CHECK(sums[6].waited == 7 * MS + (2 * RUNS + 1) * MS, "%llu", sums[6].waited);
	CHECK(sums[5].kept >= (5 + RUNS / 2 - 1) * MS, "%llu", sums[5].kept);
	/* An idle CPU. */
	mono += MS;
	go(&victim, &idle, 0);
	mono += 3 * MS;
	go(&idle, &victim, 0);
	CHECK(sums[6].idle == 3 * MS, "%llu", sums[6].idle);
	/* It is moved: behind whom it waited on the other CPU is not known here. */
	hog.on_rq = 1;
	woken(&hog);
	mono += MS;
	hog.thread_info.cpu = 1;
	migrated(&hog, 1);
	here = 1;
	running = &idle;
	poke(0);
	mono += 2 * MS;
	go(&idle, &hog, 0);
	for (i = 0; i < PLACES; i++) {
		all.behind += the_cpus[0].places[i].behind + the_cpus[1].places[i].behind;
		all.kept += the_cpus[0].places[i].kept + the_cpus[1].places[i].kept;
	}
	CHECK(all.behind == all.kept && all.kept > 70 * MS, "%llu, %llu", all.behind, all.kept);
	CHECK(the_cpus[1].places[5].waited == 3 * MS && the_cpus[1].places[5].idle == 2 * MS, "%llu, %llu",
	      the_cpus[1].places[5].waited, the_cpus[1].places[5].idle);
}

/* Two pods, of groups 20 and 21, and a task of none. */
static struct task_struct in_first, in_second, in_none;

static void two_pods(void)
{
	seeded = 1;
	generation = 1;
	stolen = 0;
	runqueue.clock_update_flags = IS_OLD;
	in_first = named(1, 120);
	in_second = named(2, 120);
	in_none = named(3, 120);
	in_role(&in_first, 20);
	in_role(&in_second, 21);
	places_of_groups[20] = 5;
	places_of_groups[21] = 6;
	make(&in_first);
	make(&in_second);
	make(&in_none);
	running = &idle;
	poke(0);
}

/* User space gives the number of a group to group 22, of which no task has run yet. */
static void give_away(u32 group)
{
	place_since[places_of_groups[group]] = mono;
	places_of_groups[22] = places_of_groups[group];
	places_of_groups[group] = ELSEWHERE;
	generation++;
}

static void a_number_that_is_another_pods_by_now_is_not_charged(void)
{
	struct place_sums *sums = the_cpus[0].places;
	struct task_struct heir = named(4, 120);

	/* The first pod keeps the CPU: no switch says whose it is. */
	two_pods();
	in_role(&heir, 22);
	make(&heir);
	go(&idle, &in_first, 0);
	mono += MS;
	woken(&in_second);
	mono += 70000 * MS;
	give_away(20);
	mono += MS;
	go(&in_first, &in_second, 1);
	CHECK(sums[5].kept == 0 && sums[ELSEWHERE].kept == 70001 * MS, "%llu, %llu", sums[5].kept, sums[ELSEWHERE].kept);
	CHECK(sums[6].waited == 70001 * MS, "%llu", sums[6].waited);

	/* The second one's task waits all the time. */
	go(&in_second, &in_none, 0);
	mono += 70000 * MS;
	give_away(21);
	mono += MS;
	go(&in_none, &in_second, 1);
	CHECK(sums[6].waited == 70001 * MS && sums[6].behind == 70001 * MS, "%llu, %llu", sums[6].waited, sums[6].behind);
	CHECK(sums[ELSEWHERE].waited == 70001 * MS, "%llu", sums[ELSEWHERE].waited);

	/* It has ended, and is remembered; the one that has its number then follows at once. */
	places_of_groups[20] = 7;
	places_of_groups[22] = ELSEWHERE;
	generation++;
	go(&in_second, &in_first, 1);
	mono += MS;
	woken(&in_second);
	mono += 2 * MS;
	go(&in_first, &heir, 1);
	mono += 4 * MS;
	give_away(20);
	mono += 8 * MS;
	go(&heir, &in_second, 1);
	CHECK(sums[7].kept == 12 * MS, "%llu", sums[7].kept);
}

/* What a CPU remembers of a run are 56 bits. */
static void pods_are_charged_after_years_of_uptime(void)
{
	struct place_sums *sums = the_cpus[0].places;
	u32 i;

	for (i = 0; i < 3; i++) {
		memset(the_cpus, 0, sizeof(the_cpus));
		/* The moment at which they come round, and another time before and after. */
		mono = (1ULL << 56) + (i - 1) * 1000000 * MS - 2 * MS;
		two_pods();
		go(&idle, &in_first, 0);
		mono += MS;
		woken(&in_second);
		mono += 2 * MS;
		go(&in_first, &in_none, 1);
		mono += 4 * MS;
		go(&in_none, &in_second, 1);
		CHECK(sums[6].waited == 6 * MS && sums[6].behind == 6 * MS, "%u: %llu, %llu", i, sums[6].waited, sums[6].behind);
		CHECK(sums[5].kept == 2 * MS && sums[ELSEWHERE].kept == 4 * MS, "%u: %llu, %llu", i, sums[5].kept,
		      sums[ELSEWHERE].kept);
		go(&in_second, &idle, 1);
	}
}

/* Reads a stream of events (streams.rs writes it) and prints the sums: who waited, who had the CPU, by which rule, for how long. */
static void follow_stream(void)
{
	u32 cpu, number, next, role, occupant, rule, sleeps;
	static struct task_struct *current[2] = { &idle, &idle };
	struct task_struct *task;
	char kind;
	u64 ns;

	seeded = 1;
	generation = 1;
	stolen = 0;
	runqueue.clock_update_flags = IS_OLD;
	/* Both CPUs are known to be idle. */
	for (cpu = 0; cpu < 2; cpu++) {
		here = cpu;
		running = &idle;
		poke(0);
	}
	while (scanf(" %c", &kind) == 1) {
		if (kind == 'T') {
			int prio;
			unsigned long weight;

			CHECK(scanf("%u %d %lu %u", &number, &prio, &weight, &role) == 4, "a task");
			tasks[number] = named(number, prio);
			tasks[number].on_rq = 0;
			tasks[number].se.load.weight = weight << 10;
			in_role(&tasks[number], role);
			make(&tasks[number]);
			continue;
		}
		if (kind == 'G') {
			CHECK(scanf("%u %u", &role, &number) == 2, "a group");
			group_weights[role] = number;
			continue;
		}
		CHECK(scanf("%llu", &mono) == 1, "a time");
		if (kind == 'W') {
			CHECK(scanf("%u %u", &cpu, &number) == 2, "a wakeup");
			task = by_number(number);
			task->thread_info.cpu = cpu;
			task->__state = 0;
			task->on_rq = 1;
			here = number & 1;
			woken(task);
		} else if (kind == 'S') {
			CHECK(scanf("%u %u %u %u", &cpu, &number, &next, &sleeps) == 4, "a switch");
			here = cpu;
			by_number(next)->thread_info.cpu = cpu;
			go(by_number(number), by_number(next), sleeps);
			current[cpu] = by_number(next);
		} else if (kind == 'M') {
			CHECK(scanf("%u %u", &number, &cpu) == 2, "a migration");
			migrated(by_number(number), cpu);
			by_number(number)->thread_info.cpu = cpu;
		} else {
			CHECK(scanf("%u", &cpu) == 1, "a poll");
			here = cpu;
			running = current[cpu];
			poke(0);
		}
	}
	for (cpu = 0; cpu < 2; cpu++)
		for (role = 0; role < ROLES; role++)
			for (occupant = 0; occupant < ROLES; occupant++)
				for (rule = 0; rule < RULES; rule++) {
					ns = the_cpus[cpu].rows[role].sums.blame[occupant * RULES + rule];
					if (ns)
						printf("%u %u %u %llu\n", role, occupant, rule, ns);
				}
}

/* Of which program a CPU was when a wait for it is over. */
static void real_time_programs_are_remembered(void)
{
	struct task_struct hog = named(7, 50), raised = named(8, 120), short_ones = named(9, 50), fair_one = named(10, 120);
	struct recent *r = the_cpus[0].recent;
	u32 i;

	seeded = 1;
	stolen = 0;
	make(&hog);
	make(&raised);
	make(&short_ones);
	make(&fair_one);
	go(&idle, &hog, 0);
	mono += 160 * MS;
	go(&hog, &fair_one, 1);
	CHECK(r[0].tid == 7 && r[0].ns == 160 * MS && !strcmp(r[0].comm, "x"), "%u %llu", r[0].tid, r[0].ns);
	mono += 100 * MS;
	go(&fair_one, &raised, 1);
	mono += 100 * MS;
	/* No switch said so. */
	raised.prio = raised.normal_prio = 50;
	go(&raised, &short_ones, 1);
	CHECK(r[1].tid == 8 && r[1].ns == 100 * MS, "%u %llu", r[1].tid, r[1].ns);
	for (i = 0; i < 1000; i++) {
		mono += LEAST_RUN / 2;
		go(&short_ones, &fair_one, 1);
		go(&fair_one, &short_ones, 1);
	}
	CHECK(!r[2].tid && !r[3].tid, "%u %u", r[2].tid, r[3].tid);
	go(&short_ones, &hog, 1);
	/* Two half-lives later. */
	mono = (((mono >> HALVES_SHIFT) + 2) << HALVES_SHIFT) + MS;
	the_cpus[0].run_start = mono - MS;
	go(&hog, &idle, 1);
	CHECK(r[0].ns == 41 * MS && r[1].ns == 25 * MS, "%llu %llu", r[0].ns, r[1].ns);
}

static const struct {
	const char *name;
	void (*run)(void);
} TESTS[] = {
#define TEST(name) { #name, name }
	TEST(a_slew_begins_no_wait_too_early),
	TEST(a_step_begins_no_wait_too_early),
	TEST(who_is_woken_elsewhere_waits_from_the_report_on),
	TEST(who_was_not_found_waits_no_longer),
	TEST(who_runs_while_all_are_looked_at_is_in_one_queue_at_most),
	TEST(a_queue_that_does_not_grow_for_days_was_there),
	TEST(a_task_that_is_moved_at_once_is_judged_by_its_band),
	TEST(a_wait_is_divided_among_the_pods_that_ran),
	TEST(a_number_that_is_another_pods_by_now_is_not_charged),
	TEST(pods_are_charged_after_years_of_uptime),
	TEST(real_time_programs_are_remembered),
	TEST(follow_stream),
};

int main(int count, char **arguments)
{
	u32 i;

	for (i = 0; i < sizeof(TESTS) / sizeof(*TESTS); i++) {
		if (count == 2 && !strcmp(arguments[1], TESTS[i].name)) {
			TESTS[i].run();
			return 0;
		}
	}
	printf("no such test\n");
	return 2;
}
