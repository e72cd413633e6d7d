/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* What programs cost that do nothing, or read the clock (-DCLOCK): what is left is what `watch.bpf.c` does. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

u64 seen = 0;

static __always_inline int look(void)
{
#ifdef CLOCK
	seen = bpf_ktime_get_ns();
#endif
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return look();
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *task)
{
	return look();
}
