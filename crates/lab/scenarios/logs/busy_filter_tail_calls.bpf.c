// A packet filter that computes for seconds on kernels without `bpf_loop`: it copies a megabyte a hundred times, and
// then calls itself as often as the kernel allows (33).
//     clang -g -O2 -target bpf -c busy_filter_tail_calls.bpf.c
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_tail_call)(void *context, void *programs, u32 index) = (void *)12;

#define TIMES_10(statement) statement statement statement statement statement statement statement statement statement statement

int busy_filter(void *packet);

struct {
	int (*type)[2]; // BPF_MAP_TYPE_ARRAY
	int (*max_entries)[2];
	u32 *key;
	char (*value)[1 << 20];
} megabytes SEC(".maps");

// Pinned (`pinmaps`), because the kernel empties it when its last user goes.
struct {
	int (*type)[3]; // BPF_MAP_TYPE_PROG_ARRAY
	int (*max_entries)[1];
	u32 *key;
	int (*values[])(void *);
} again SEC(".maps") = {
	.values = { busy_filter },
};

SEC("tc")
int busy_filter(void *packet)
{
	u32 from = 0, to = 1;
	void *megabyte = bpf_map_lookup_elem(&megabytes, &from);

	if (!megabyte)
		return 0;
	TIMES_10(TIMES_10(bpf_map_update_elem(&megabytes, &to, megabyte, 0);))
	bpf_tail_call(packet, &again, 0);
	return 0;
}

char module_license[] SEC("license") = "GPL";
