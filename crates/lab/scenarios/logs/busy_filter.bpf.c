// A packet filter that computes for 12 s for one packet (`bpf_loop`, 5.17 and later). `bpftool prog run` runs it inside
// rcu_read_lock(), in a system call of its own.
//     clang -g -O2 -target bpf -c busy_filter.bpf.c
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;

// Kernels that preempt system calls (7.0 and later, all) have these since 6.10.
#ifdef UNPREEMPTED
extern void bpf_preempt_disable(void) SEC(".ksyms");
extern void bpf_preempt_enable(void) SEC(".ksyms");
#define NO_PREEMPTION(call) call
#else
#define NO_PREEMPTION(call)
#endif

enum { AT_MOST = 1 << 23 };
static const u64 BUSY_NS = 12000000000ULL;

static long is_over(u32 turn, u64 *end)
{
	return bpf_ktime_get_ns() >= *end;
}

static long many_turns(u32 turn, u64 *end)
{
	bpf_loop(AT_MOST, is_over, end, 0);
	return bpf_ktime_get_ns() >= *end;
}

SEC("tc")
int busy_filter(void *packet)
{
	u64 end = bpf_ktime_get_ns() + BUSY_NS;

	NO_PREEMPTION(bpf_preempt_disable());
	bpf_loop(AT_MOST, many_turns, &end, 0);
	NO_PREEMPTION(bpf_preempt_enable());
	return 0;
}

char module_license[] SEC("license") = "GPL";
