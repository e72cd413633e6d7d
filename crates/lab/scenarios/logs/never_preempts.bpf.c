// A scheduler for sched_ext (6.12 and later with CONFIG_SCHED_CLASS_EXT) that gives every thread an endless slice on its
// own CPU: beside a thread that never sleeps nothing of the same class runs, until the kernel's watchdog ends the scheduler.
//     clang -g -O2 -target bpf -c never_preempts.bpf.c
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

enum { LOCAL_QUEUE_BUILT_IN = 2 };
static const u64 SCX_DSQ_LOCAL = 1ULL << 63 | LOCAL_QUEUE_BUILT_IN;
static const u64 SCX_SLICE_INF = ~0ULL;

// Of both only members by which libbpf finds the kernel's own.
struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	u32 timeout_ms;
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) SEC(".ksyms");

SEC("struct_ops/lab_enqueue")
int lab_enqueue(u64 *arguments)
{
	struct task_struct *p = (struct task_struct *)arguments[0];

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, arguments[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops never_preempts = {
	.enqueue = (void *)lab_enqueue,
	.timeout_ms = 3000,
	.name = "never_preempts",
};

char module_license[] SEC("license") = "GPL";
