// busy_filter.bpf.c with preemption off.
#define UNPREEMPTED
#include "busy_filter.bpf.c"
