/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* Instead of the kernel's types, where the programs are compiled for a test on the host. */
#ifndef UNSTARVE_KERNEL_H
#define UNSTARVE_KERNEL_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SEC(name)
#define __uint(name, number) int (*name)[number]
#define __type(name, of) __typeof__(of) *name
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define bpf_core_field_exists(...) 1
#define READ_2(a, b) ((a)->b)
#define READ_3(a, b, c) ((a)->b->c)
#define READ(a, b, c, which, ...) which
#define BPF_CORE_READ(...) READ(__VA_ARGS__, READ_3, READ_2, )(__VA_ARGS__)

enum { BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_TASK_STORAGE, BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_ANY, BPF_NOEXIST, BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
#define PF_KTHREAD 0x00200000

struct rq {
	u64 clock;
	unsigned int clock_update_flags;
};
struct cfs_rq {
	struct rq *rq;
};
struct kernfs_node {
	u64 id;
};
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[2];
	u64 ancestor_ids[2];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct task_group {
	struct {
		struct cgroup *cgroup;
	} css;
};
struct task_struct {
	int pid, tgid, prio, normal_prio;
	unsigned int on_cpu, on_rq, flags, __state, cpu;
	long state;
	unsigned long nvcsw, nivcsw, stack_canary;
	struct {
		struct {
			unsigned long weight;
		} load;
		struct cfs_rq *cfs_rq;
	} se;
	struct {
		u32 cpu;
	} thread_info;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	char comm[16];
	/* Task storage, if it has some. */
	void *storage;
};
#define task_struct___5_13 task_struct
#define task_struct___5_14 task_struct
#define task_struct___5_15 task_struct
#define task_struct___5_16 task_struct
#define cgroup___5_10 cgroup
#define cgroup___6_1 cgroup
struct work_struct {
	void (*func)(struct work_struct *work);
};
struct bpf_iter_meta {
	void *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Something may happen on another CPU here. */
void at_barrier(void);
#define barrier() at_barrier()

void *bpf_map_lookup_elem(const void *map, const void *key);
long bpf_map_update_elem(const void *map, const void *key, const void *value, u64 flags);
long bpf_map_delete_elem(const void *map, const void *key);
void *bpf_task_storage_get(const void *map, struct task_struct *task, void *value, u64 flags);
u32 bpf_get_smp_processor_id(void);
u64 bpf_ktime_get_ns(void);
struct task_struct *bpf_get_current_task(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_probe_read_kernel(void *to, u32 size, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 size, const void *from);
long bpf_seq_write(void *seq, const void *data, u32 size);

#endif
