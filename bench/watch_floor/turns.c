/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * Two tasks of SCHED_FIFO on CPU 1 that write to each other by pipes: bare, then with each object's programs attached, in turn. So
 * other load of the machine, which comes and goes, is the same for all. Each turn has BLOCK rounds, with the object loaded anew: what happens
 * while programs are not attached would leave tasks in their queues that are not there. Time by the clock; with STATS=1 the programs' own by the kernel's
 * measurement, too. With TABLE=1 as on kernels without task storage.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/btf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 16
#define PROGRAMS 16
#define BLOCK 50

struct way {
	const char *name, *path;
	struct bpf_object *object;
	struct bpf_link *links[PROGRAMS];
	int attached;
	double *by_clock;
	double own[PROGRAMS];
	unsigned long long ns[PROGRAMS], runs[PROGRAMS];
};

static int there[2], back[2];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void run_on(int cpu, int priority)
{
	struct sched_param parameters = { priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &parameters))
		fail("CPU 1 and SCHED_FIFO");
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

/* ns for a switch and a wakeup: a round trip has two of both. */
static double round_trips(int count)
{
	double start = now();
	char byte = 0;

	for (int i = 0; i < count; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			fail("pipe");
	return (now() - start) / count / 2;
}

/* Sets a variable of the object before its programs are loaded. */
static void set(struct bpf_object *object, const char *section, const char *name, unsigned long long value)
{
	const struct btf *btf = bpf_object__btf(object);
	int id = btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC);
	struct bpf_map *map;
	size_t size;

	bpf_object__for_each_map(map, object) {
		if (id < 0 || !strstr(bpf_map__name(map), section))
			continue;
		const struct btf_type *type = btf__type_by_id(btf, id);
		const struct btf_var_secinfo *vars = btf_var_secinfos(type);
		char *data = bpf_map__initial_value(map, &size);

		for (int i = 0; i < btf_vlen(type); i++)
			if (!strcmp(btf__name_by_offset(btf, btf__type_by_id(btf, vars[i].type)->name_off), name))
				memcpy(data + vars[i].offset, &value, vars[i].size);
	}
}

static struct bpf_object *load(const char *path)
{
	struct bpf_object *object = bpf_object__open(path);
	struct bpf_program *freed;
	struct bpf_map *cpus, *storage;

	if (!object)
		fail(path);
	freed = bpf_object__find_program_by_name(object, "freed");
	storage = bpf_object__find_map_by_name(object, "storage");
	if (storage && getenv("TABLE")) {
		set(object, ".rodata", "has_storage", 0);
		bpf_map__set_autocreate(storage, 0);
	} else if (freed && !bpf_object__find_map_by_name(object, "slots")) {
		/* Of earlier commits. */
		bpf_program__set_autoload(freed, 0);
	}
	cpus = bpf_object__find_map_by_name(object, "cpus");
	if (cpus)
		bpf_map__set_max_entries(cpus, libbpf_num_possible_cpus());
	set(object, ".rodata", "is_unified", access("/sys/fs/cgroup/cpu", F_OK) != 0);
	set(object, ".bss", "generation", 1);
	set(object, ".bss", "seeded", 1);
	if (bpf_object__load(object))
		fail(path);
	return object;
}

static void attach(struct way *way)
{
	struct bpf_program *program;

	way->attached = 0;
	if (!way->path)
		return;
	way->object = load(way->path);
	bpf_object__for_each_program(program, way->object) {
		if (strncmp(bpf_program__section_name(program), "tp_btf", 6) || !bpf_program__autoload(program))
			continue;
		if (!(way->links[way->attached++] = bpf_program__attach(program)))
			fail(bpf_program__name(program));
	}
	program = bpf_object__find_program_by_name(way->object, "seed");
	if (program) {
		struct bpf_link *link = bpf_program__attach(program);
		int all = bpf_iter_create(bpf_link__fd(link));
		char bytes[256];

		while (read(all, bytes, sizeof(bytes)) > 0)
			;
		close(all);
		bpf_link__destroy(link);
	}
}

static void look(struct way *way, int after)
{
	struct bpf_program *program;
	int k = 0;

	if (!way->object)
		return;
	bpf_object__for_each_program(program, way->object) {
		struct bpf_prog_info info = {};
		unsigned length = sizeof(info);
		double each;

		if (bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &length))
			info.run_cnt = 0;
		each = (double)(info.run_time_ns - way->ns[k]) / (info.run_cnt - way->runs[k] + !info.run_cnt);
		if (after && info.run_cnt > way->runs[k] + 300 && (!way->own[k] || each < way->own[k]))
			way->own[k] = each;
		way->ns[k] = info.run_time_ns;
		way->runs[k++] = info.run_cnt;
	}
}

static int ascending(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

int main(int count, char **arguments)
{
	int rounds = count > 2 ? atoi(arguments[1]) : 0, ways = 1, measured = getenv("STATS") != 0;
	struct way all[MOST] = { { .name = "bare" } };
	char byte;

	if (rounds < 1 || count - 1 > MOST)
		return fprintf(stderr, "usage: [STATS=1] [TABLE=1] turns ROUNDS OBJECT...\n"), 2;
	for (int i = 2; i < count; i++)
		all[ways++] = (struct way){ .name = arguments[i], .path = arguments[i] };
	if (measured && bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
		fail("statistics");
	if (pipe(there) || pipe(back))
		fail("pipe");
	pid_t other = fork();
	if (!other) {
		run_on(1, 50);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	for (int i = 0; i < ways; i++)
		all[i].by_clock = calloc(rounds, sizeof(double));
	for (int first = 0; first < rounds; first += BLOCK)
		for (int i = 0; i < ways; i++) {
			attach(&all[i]);
			for (int round = first; round < rounds && round < first + BLOCK; round++) {
				/* Who waits for CPU 1 meanwhile is counted at each switch: they get it in between. */
				run_on(0, 0);
				usleep(3000);
				run_on(1, 50);
				round_trips(200);
				look(&all[i], 0);
				all[i].by_clock[round] = round_trips(400);
				look(&all[i], 1);
			}
			run_on(0, 0);
			while (all[i].attached)
				bpf_link__destroy(all[i].links[--all[i].attached]);
			if (all[i].path && first + BLOCK < rounds)
				bpf_object__close(all[i].object);
		}
	kill(other, SIGKILL);
	for (int i = 0; i < ways; i++) {
		double *times = all[i].by_clock;
		struct bpf_program *program;
		int k = 0;

		qsort(times, rounds, sizeof(double), ascending);
		printf("%s: %.0f ns least, %.0f ns median for a switch and a wakeup\n", all[i].name, times[0], times[rounds / 2]);
		if (all[i].object && measured)
			bpf_object__for_each_program(program, all[i].object) {
				if (all[i].own[k])
					printf("    %s %.0f ns\n", bpf_program__name(program), all[i].own[k]);
				k++;
			}
	}
	return 0;
}
