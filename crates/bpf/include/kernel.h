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
typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };

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

struct sched_entity {
	u64 sum_exec_runtime;
} CO_RE;

struct task_struct {
	int pid;
	int tgid;
	int prio;
	unsigned int flags;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct sched_entity se;
	char comm[16];
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

#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000

#endif
