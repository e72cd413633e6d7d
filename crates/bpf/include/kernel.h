/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * The few kernel types that the programs here read. Offsets are those of the running kernel: libbpf relocates every access
 * by the kernel's own BTF (CO-RE), so only names and kinds of members matter here, and members not listed do not.
 */
#ifndef UNSTARVE_KERNEL_H
#define UNSTARVE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __u8 u8;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#define CO_RE __attribute__((preserve_access_index))

/* include/linux/ns_common.h, pid_namespace.h, pid.h */
struct ns_common {
	unsigned int inum;
} CO_RE;

struct pid_namespace {
	struct ns_common ns;
} CO_RE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CO_RE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} CO_RE;

struct load_weight {
	unsigned long weight;
} CO_RE;

/* kernel/sched/sched.h */
struct rq {
	u64 clock;
	unsigned int clock_update_flags;
} CO_RE;

struct cfs_rq {
	struct rq *rq;
} CO_RE;

struct sched_entity {
	struct load_weight load;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
} CO_RE;

/* include/linux/kernfs.h, include/linux/cgroup-defs.h */
struct kernfs_node {
	u64 id;
} CO_RE;

struct cgroup {
	int level;
	struct kernfs_node *kn;
} CO_RE;

/* From 6.1 on. */
struct cgroup___6_1 {
	struct cgroup *ancestors[1];
} CO_RE;

struct cgroup___5_10 {
	u64 ancestor_ids[1];
} CO_RE;

struct css_set {
	struct cgroup *dfl_cgrp;
} CO_RE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CO_RE;

/* kernel/sched/sched.h */
struct task_group {
	struct cgroup_subsys_state css;
} CO_RE;

struct task_struct {
	int pid;
	int tgid;
	int prio;
	int normal_prio;
	/* Integers of another size, without a sign, from 7.0 on: libbpf adapts loads of such only. */
	unsigned int on_cpu;
	unsigned int on_rq;
	unsigned int flags;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_boottime;
	unsigned long stack_canary;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	char comm[16];
} CO_RE;

/* The CPU of a task: in its thread_info from 5.16 on. */
struct thread_info {
	u32 cpu;
} CO_RE;

struct task_struct___5_16 {
	struct thread_info thread_info;
} CO_RE;

struct task_struct___5_15 {
	unsigned int cpu;
} CO_RE;

/* From 5.17 on; before, a kernel thread's own structure hung at set_child_tid. */
struct task_struct___5_17 {
	void *worker_private;
} CO_RE;

struct task_struct___5_10 {
	int *set_child_tid;
} CO_RE;

/* Renamed and made an int in 5.14. */
struct task_struct___5_14 {
	unsigned int __state;
} CO_RE;

struct task_struct___5_13 {
	volatile long state;
} CO_RE;

/* kernel/kthread.c */
struct kthread {
	void *data;
} CO_RE;

/* kernel/workqueue_internal.h, kernel/workqueue.c, include/linux/workqueue.h */
struct workqueue_struct {
	char name[24];
} CO_RE;

struct pool_workqueue {
	struct workqueue_struct *wq;
} CO_RE;

struct worker {
	struct pool_workqueue *current_pwq;
} CO_RE;

struct work_struct {
	void (*func)(struct work_struct *work);
} CO_RE;

/* include/linux/trace_events.h; the arguments follow the number. */
struct syscall_enter {
	u64 common;
	long id;
	unsigned long args[6];
};

struct syscall_exit {
	u64 common;
	long id;
	long ret;
};

/* include/linux/bpf.h, kernel/bpf/task_iter.c */
struct bpf_iter_meta {
	struct seq_file *seq;
} CO_RE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CO_RE;

#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000

#endif
