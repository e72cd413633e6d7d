//! Words of the kernel and of neighbouring tools, as far as they concern waiting for a CPU: what each means here, and what to type.

use crate::word::Word;

/// All of them, by alphabet. The facts have their sources in `crates/facts/data/` and `docs/kernel-facts.md`.
pub const KERNEL_WORDS: &[Word] = &[
    Word {
        id: "affinity",
        also: &["taskset", "pinning", "cpuset", "cpus"],
        title: "the CPUs that a thread may use",
        text: &[
            "A thread with one CPU waits for that CPU, even beside idle ones. Workers named `kworker/3:1` and `ksoftirqd/3` are bound to their CPU: the kernel refuses `taskset` for them, but takes `renice` and `chrt`.",
            "`explain` says whether another CPU was idle (idle-while-runnable), and offers to move the culprit where the victim cannot move.",
        ],
        commands: &["unstarve help idle-while-runnable", "unstarve explain FILE --cpu 3", "unstarve fix FILE"],
    },
    Word {
        id: "autogroup",
        also: &["sched_autogroup_enabled", "session", "sessions"],
        title: "one CPU share for each login session",
        text: &[
            "With autogroup, all threads of a session compete as one, for tasks in the root cgroup only. A kernel worker then competes with one session, not with its hundred threads. A thread's nice counts within its session alone.",
        ],
        commands: &["unstarve knobs get sched_autogroup_enabled", "sudo unstarve check"],
    },
    Word {
        id: "busy-polling",
        also: &["busy-poll", "busypoll", "polling", "spdk", "dpdk", "pmd", "spin", "busy-loop", "napi"],
        title: "a thread that asks its device in a loop and never sleeps (DPDK, SPDK)",
        text: &[
            "A polling thread uses all of its CPU. Nothing else can run there if it is real-time; with a normal policy the others share the CPU by weight. The kernel's own workers of that CPU are the usual victims: kworker/N, ksoftirqd/N, rcuc/N.",
            "Give the poller a CPU of its own (isolcpus or a cpuset), and keep it out of the real-time class. `explain` names the threads that it starves; `check` names real-time threads on CPUs that serve interrupts.",
        ],
        commands: &[
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat --task POLLER",
            "sudo unstarve check",
            "unstarve help isolcpus",
        ],
    },
    Word {
        id: "cfs",
        also: &["fair", "sched_normal", "sched_other", "sched_batch", "sched_idle", "scheduler", "normal", "vruntime"],
        title: "the scheduler of normal threads up to Linux 6.5",
        text: &[
            "CFS gives each runnable thread CPU time by its weight: nice, and the weight of its cgroup. EEVDF took its place in 6.6. Three settings went with CFS: sched_latency_ns, sched_min_granularity_ns, sched_wakeup_granularity_ns. Files that still set them do nothing.",
            "`knobs diff` lists what is gone between two kernels. `check` finds lines of this host that lost their effect.",
        ],
        commands: &[
            "unstarve knobs diff 6.1 6.12",
            "unstarve knobs explain sched_wakeup_granularity_ns",
            "sudo unstarve check --upgrade-to 6.12",
        ],
    },
    Word {
        id: "context-switch",
        also: &["switch", "sched_switch", "csw", "cs"],
        title: "one thread leaves a CPU, the next one gets it",
        text: &[
            "A recording consists of context switches (sched:sched_switch) and wakeups. Without sched_switch nothing can be explained; without wakeups the beginnings of waits are unknown.",
            "Very many switches are a finding only if somebody loses by them: wake-storm, preemption-thrash, completion-ping-pong.",
        ],
        commands: &[
            "sudo unstarve record --for 10s",
            "unstarve timeline unstarve.dat",
            "unstarve help preemption-thrash",
        ],
    },
    Word {
        id: "cpu.max",
        also: &[
            "cpu-limit",
            "limit",
            "limits",
            "quota",
            "cfs_quota_us",
            "cpu.cfs_quota_us",
            "throttling",
            "throttle",
            "bandwidth",
            "cpuquota",
            "cpu.stat",
            "nr_throttled",
        ],
        title: "a cgroup's CPU limit: its time in each period (in Kubernetes the CPU limit)",
        text: &[
            "When the cgroup has used its time, the kernel stops its threads until the next period, even beside idle CPUs. A period is 100 ms if not set otherwise. Many threads use up a small limit in the first milliseconds. No priority helps against it.",
            "`explain` reports this as throttled and names the cgroup or pod. The remedy raises the limit. cgroup v1 calls the file cpu.cfs_quota_us.",
        ],
        commands: &[
            "unstarve help throttled",
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat",
            "unstarve fix unstarve.dat --remedy raise-limit",
        ],
    },
    Word {
        id: "cpu.weight",
        also: &["weight", "weights", "shares", "cpu.shares", "cpu-weight", "cpuweight", "requests", "request"],
        title: "a cgroup's share of a CPU beside others (in Kubernetes the CPU request)",
        text: &[
            "100 is the default, and weighs as much as one thread of nice 0. Kernel workers live in the root cgroup: each competes with whole top-level groups. A group of cpu.weight 1000 whose threads sit on one CPU leaves a kworker there 9 % of it.",
            "`check` names such groups before anything is slow (heavy-cgroup). `explain` reports weight-starvation when it happens. cgroup v1 calls the file cpu.shares (1024 is the default).",
        ],
        commands: &["sudo unstarve check", "unstarve help weight-starvation", "unstarve help heavy-cgroup"],
    },
    Word {
        id: "cyclictest",
        also: &["rt-tests", "rtla", "timerlat", "osnoise", "jitter", "latency", "hwlat", "hwlatdetect"],
        title: "a test of wakeup latency: it says how late a thread ran, not why",
        text: &[
            "Record while cyclictest shows the spike. `explain` says who had the CPU while cyclictest was runnable, and by which rule. `timeline` lists each of its waits.",
            "If no wait is shown, cyclictest was woken late: a late timer interrupt, a deep power state, firmware (SMI) or a hypervisor. See `help steal`. Start cyclictest with -m and the priority that your program has.",
        ],
        commands: &[
            "sudo unstarve record -- cyclictest -m -p 80 -D 8",
            "unstarve explain unstarve.dat --task cyclictest",
            "unstarve timeline unstarve.dat --task cyclictest --summary",
        ],
    },
    Word {
        id: "eevdf",
        also: &["slice", "time-slice", "timeslice", "lag", "run_to_parity", "place_lag"],
        title: "the scheduler of normal threads since Linux 6.6",
        text: &[
            "EEVDF runs the thread with the earliest virtual deadline among those that have not had more than their share. A thread that runs is protected for a slice (base_slice_ns, on 8 CPUs or more: 2.8 ms since 6.15, 6.14.9 and 6.12.31, 3 ms before; half of that on 2 CPUs). A woken thread can wait that long.",
            "Reports of slower programs after 6.6 have numbers here: R04 (databases), R05 (mixed readers and writers), R06 (thin pools).",
        ],
        commands: &[
            "unstarve knobs explain base_slice_ns",
            "unstarve help R04",
            "unstarve knobs diff 6.1 6.12",
            "sudo unstarve check --upgrade-to 6.12",
        ],
    },
    Word {
        id: "fair-server",
        also: &["dl_server", "ext_server", "rt-throttling"],
        title: "what the kernel keeps for normal threads beside a real-time thread that does not sleep",
        text: &[
            "Linux 6.12 and later: a normal thread that starved for about 950 ms gets 50 ms of each second of its CPU (debugfs sched/fair_server). Linux 5.10 to 6.11: real-time threads are stopped after 950 ms of each second (sched_rt_runtime_us), and the log says `sched: RT throttling activated`.",
            "Both are a last resort: kernel workers still wait 950 ms. `explain` shows waits of this length as rt-starvation.",
        ],
        commands: &[
            "unstarve help rt-starvation",
            "unstarve knobs explain sched_rt_runtime_us",
            "unstarve knobs explain fair_server_runtime",
        ],
    },
    Word {
        id: "hung-task",
        also: &["hung", "blocked", "d-state", "uninterruptible", "iowait", "psi", "pressure", "stall"],
        title: "a thread that sleeps in state D for long, often behind a starved kernel worker",
        text: &[
            "`INFO: task … blocked for more than 120 seconds` names who sleeps, not who is to blame. A thread in state D waits for I/O or a lock; the worker that would finish the I/O may be runnable without getting a CPU.",
            "`explain` follows the wakeup from the sleeper to the starved worker (line Cost). If nobody is starved, look at the device. `record --io` adds the block layer's events.",
        ],
        commands: &["sudo unstarve record --for 10s --io", "unstarve explain unstarve.dat"],
    },
    Word {
        id: "irq",
        also: &[
            "interrupt",
            "interrupts",
            "hardirq",
            "irqbalance",
            "smp_affinity",
            "/proc/interrupts",
            "threadirqs",
            "irqs",
        ],
        title: "an interrupt: it takes the CPU from every thread, whatever its priority",
        text: &[
            "A thread on a CPU that serves a busy device waits for each interrupt. `explain` reports irq-interference when they take much of the thread's time, and names the interrupt.",
            "Remedies move the interrupt (/proc/irq/N/smp_affinity_list) or the thread. irqbalance may move the interrupt back: exclude it there. With threadirqs or PREEMPT_RT the handler is a thread `irq/N-name` of priority FIFO 50.",
        ],
        commands: &["unstarve help irq-interference", "unstarve explain FILE", "unstarve fix FILE"],
    },
    Word {
        id: "isolcpus",
        also: &["isolation", "isolated", "cpu-isolation", "housekeeping", "cpuset.cpus.partition"],
        title: "CPUs that the load balancer leaves alone (boot option)",
        text: &[
            "Threads run on isolated CPUs only if they are put there. Two threads on one isolated CPU stay there, beside idle isolated CPUs: nothing moves them. Bound kernel workers (kworker/N, ksoftirqd/N) still run there and can be starved there.",
            "`check` reads isolcpus and nohz_full of this host. A cpuset partition (cpuset.cpus.partition = isolated) does the same without a reboot.",
        ],
        commands: &["sudo unstarve check", "unstarve explain FILE --cpu 2-3", "unstarve help idle-while-runnable"],
    },
    Word {
        id: "lock",
        also: &["locks", "mutex", "futex", "futexes", "rwsem", "deadlock", "priority-inversion", "inversion", "pi"],
        title: "a thread that waits for a lock sleeps; it does not wait for a CPU",
        text: &[
            "unstarve measures the time a thread is runnable without running. It shows a lock only in one case: the lock's holder is starved. Then the holder is the victim, and the threads that wait for its lock are in the line Cost (priority inversion).",
            "Otherwise measure locks with other tools: `perf lock`, or offcputime of bcc.",
        ],
        commands: &["unstarve explain FILE", "unstarve timeline FILE --task NAME"],
    },
    Word {
        id: "nice",
        also: &["renice", "niceness", "priority", "prio", "priorities"],
        title: "a normal thread's own weight: −20 (heavy) to 19 (light)",
        text: &[
            "Each step changes the weight by a quarter. nice counts among threads of one cgroup: nice −20 in a light pod stays light. No nice value helps against a real-time thread.",
            "`kworker/3:1H` has nice −20, `kworker/3:1` has nice 0. Remedies that change nice show the old and the new value in the plan, and `fix --undo` restores it.",
        ],
        commands: &["unstarve fix FILE", "unstarve help cpu.weight", "unstarve help real-time"],
    },
    Word {
        id: "nohz_full",
        also: &["nohz", "tickless", "tick", "rcu_nocbs"],
        title: "CPUs whose periodic tick stops while one thread runs (boot option)",
        text: &[
            "nohz_full saves interruptions. It isolates nothing: a second thread on the CPU brings the tick back, and the kernel's bound workers still need the CPU. Combine it with isolcpus or a cpuset partition, and rcu_nocbs.",
            "`check` says what this host has. A CPU whose tick stays away without nohz_full did not run at all: the finding cpu-stopped.",
        ],
        commands: &["sudo unstarve check", "unstarve help cpu-stopped", "unstarve help isolcpus"],
    },
    Word {
        id: "numa",
        also: &["numa_balancing", "numad", "numactl", "node", "migration"],
        title: "memory and CPUs in nodes; far memory is slower",
        text: &[
            "NUMA is no wait for a CPU: a slow remote access counts as running. Two things are visible. numa_balancing and the load balancer move threads (migration-churn). A thread limited to one node waits while the other node is idle (idle-while-runnable).",
            "`check` names the setting. TuneD profiles switch it off for several databases.",
        ],
        commands: &[
            "unstarve knobs explain numa_balancing",
            "unstarve help migration-churn",
            "unstarve explain FILE --full",
        ],
    },
    Word {
        id: "overhead",
        also: &["cost", "costs", "price", "production", "impact"],
        title: "what unstarve costs the machine",
        text: &[
            "Recording: 3.6 to 4.6 % on a load that does nothing but switch; `perf sched record` takes 10 to 13 % there. Loads that compute notice nothing. `watch`: about 0.1 % of one CPU. `explain` needs no root and can run on another machine.",
            "`record` uses its own ring buffers, writes one file, and leaves no setting behind. docs/cost.md has the measurements.",
        ],
        commands: &["sudo unstarve record --for 10s", "unstarve doctor"],
    },
    Word {
        id: "pod",
        also: &[
            "pods",
            "kubernetes",
            "k8s",
            "container",
            "containers",
            "docker",
            "kubelet",
            "kubepods",
            "cgroup",
            "cgroups",
        ],
        title: "a cgroup below kubepods; its request is a weight, its limit is cpu.max",
        text: &[
            "`explain` on the node names pods by the uid in the cgroup's path. It says whether a pod was throttled by its own limit, or starved by another pod. `kubectl get pods -A -o custom-columns=NAME:.metadata.name,UID:.metadata.uid` has the names.",
            "The whole of kubepods outweighs kernel workers on big nodes: `check` says so.",
        ],
        commands: &[
            "sudo unstarve check",
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat",
            "sudo unstarve watch",
        ],
    },
    Word {
        id: "preempt_rt",
        also: &["rt-kernel", "preemption", "preempt", "preempt_dynamic", "preempt_lazy", "lazy", "realtime-kernel"],
        title: "a kernel that can be preempted nearly everywhere",
        text: &[
            "PREEMPT_RT shortens the time that a thread in the kernel keeps the CPU (finding not-preemptible). Interrupt handlers become threads of FIFO 50, softirqs run in them. It does not protect kernel workers: a real-time thread that does not sleep starves them here, too.",
            "Give your thread a priority above 50 only if it may delay interrupts. unstarve records and explains both kinds of kernel alike.",
        ],
        commands: &[
            "unstarve help not-preemptible",
            "sudo unstarve check",
            "unstarve explain FILE --task NAME",
            "unstarve help xrun",
        ],
    },
    Word {
        id: "rcu",
        also: &["rcu_preempt", "rcu_sched", "rcu-stall", "grace-period", "rcuc", "rcuog", "rcub"],
        title: "the kernel's deferred freeing; its threads must run soon",
        text: &[
            "`rcu_preempt` (or `rcu_sched`) ends grace periods. If it starves, memory is freed late, and calls such as synchronize_rcu() wait. The log's `rcu_preempt kthread starved for … jiffies` is this case: 21 s without progress.",
            "`explain` shows who starves it, long before the kernel complains. Remedies raise it or lower the culprit.",
        ],
        commands: &[
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat --task 'rcu*'",
            "unstarve help watchdog",
        ],
    },
    Word {
        id: "real-time",
        also: &["rt", "fifo", "rr", "sched_fifo", "sched_rr", "chrt", "realtime", "rtprio", "rtkit"],
        title: "the policies SCHED_FIFO and SCHED_RR, priority 1 to 99: before all normal threads",
        text: &[
            "A real-time thread has its CPU until it sleeps. Kernel workers and ksoftirqd are normal threads: they wait. Among real-time threads the higher priority runs first; equal FIFO threads do not share.",
            "The usual fixes: take the culprit out of the class, keep it off the victim's CPU, or raise the victim above it. Children inherit the class unless it was set with SCHED_RESET_ON_FORK (`chrt -R`).",
        ],
        commands: &[
            "unstarve help rt-starvation",
            "unstarve explain FILE",
            "sudo unstarve check",
            "unstarve help fair-server",
        ],
    },
    Word {
        id: "runqueue-latency",
        also: &[
            "runqlat",
            "run-queue",
            "runqueue",
            "sched-delay",
            "sch-delay",
            "run-delay",
            "schedstat",
            "wait",
            "waits",
            "runnable",
            "timehist",
            "loadavg",
            "load",
        ],
        title: "the time a thread is ready to run without running: a wait",
        text: &[
            "`perf sched` calls it `sch delay`, bcc's runqlat shows its histogram, /proc/PID/schedstat its sum. unstarve adds who had the CPU meanwhile, and by which rule. Sleeping is never a wait; waiting after a preemption is.",
            "A load average says how many threads wait or sleep in state D. It does not say who waits for whom.",
        ],
        commands: &["unstarve timeline FILE --summary", "unstarve timeline FILE --task NAME", "sudo unstarve top"],
    },
    Word {
        id: "sched-deadline",
        also: &["deadline", "dl"],
        title: "a policy with a runtime in each period, before all real-time threads",
        text: &[
            "The kernel stops a deadline thread that used up its runtime until the next period: finding deadline-overrun. It admits new ones only while their sum fits the CPUs. unstarve never changes a deadline thread: that would break its guarantee.",
        ],
        commands: &["unstarve help deadline-overrun", "unstarve explain FILE --task NAME", "sudo unstarve check"],
    },
    Word {
        id: "sched_ext",
        also: &["scx", "bpf-scheduler", "scx_lavd", "scx_rusty"],
        title: "schedulers that are loaded as BPF programs (Linux 6.12 and later)",
        text: &[
            "Such a scheduler decides for normal threads. Weights and slices of EEVDF then explain little. Its own rules are unknown to unstarve: `explain` still measures who waited and who ran, and shows less confidence in the reason.",
            "Real-time threads stay above it. To see whether the scheduler is the reason, record once with it and once without.",
        ],
        commands: &[
            "unstarve doctor",
            "sudo unstarve record --for 10s -o with.dat",
            "unstarve compare without.dat with.dat",
        ],
    },
    Word {
        id: "softirq",
        also: &["softirqs", "ksoftirqd", "net_rx", "bottom-half", "tasklet", "napi-thread", "softnet_stat"],
        title: "the kernel's deferred part of interrupts: network, timers, block, RCU",
        text: &[
            "Softirqs run at the end of an interrupt. After 2 ms, or ten rounds, ksoftirqd/N takes over: a normal thread of nice 0, bound to its CPU. A real-time thread there starves it, and packets are late.",
            "Up to 6.4 a runnable ksoftirqd kept most softirqs away from interrupts. From 6.5 on they run at once, and threads of that CPU wait for them (R19). `explain` shows both: a starved ksoftirqd, or irq-interference.",
        ],
        commands: &[
            "unstarve explain FILE --task 'ksoftirqd/*'",
            "unstarve help irq-interference",
            "unstarve help R19",
        ],
    },
    Word {
        id: "steal",
        also: &[
            "steal-time",
            "st",
            "hypervisor",
            "vm",
            "smi",
            "vcpu",
            "guest",
            "noisy-neighbour",
            "noisy-neighbor",
            "cpu-steal",
        ],
        title: "time in which the hypervisor ran another guest on this CPU",
        text: &[
            "Inside a guest nothing runs then, not even the tick. `explain` reports cpu-stopped: the CPU itself did not run. No priority, weight or setting of the guest helps. Firmware (SMI) looks the same.",
            "Column `st` of vmstat and the 8th number of `cpu` in /proc/stat count it. Record on the hypervisor to see which thread was preferred to the vCPU's.",
        ],
        commands: &["unstarve help cpu-stopped", "unstarve help find-stopper", "sudo unstarve record --for 10s"],
    },
    Word {
        id: "swap",
        also: &["kswapd", "reclaim", "memory", "oom", "thp", "khugepaged"],
        title: "memory pressure: unstarve sees its threads wait for a CPU, not for memory",
        text: &[
            "`kswapd`, `kcompactd` and `khugepaged` are normal threads. If they starve, programs reclaim memory themselves and are late. `explain` shows who starves them. Time that a program sleeps for a page from disk is no wait for a CPU.",
        ],
        commands: &["unstarve explain FILE --task 'kswapd*'", "sudo unstarve top"],
    },
    Word {
        id: "tgid",
        also: &["tid", "pid", "process", "thread", "threads", "task", "tasks", "comm"],
        title: "the number of a process: the tid of its first thread",
        text: &[
            "The kernel schedules threads. `worker[812]` is the thread with tid 812. What top and ps show as PID is the tgid, which all threads of a process share; `ps -L` lists their tids.",
            "`--task` takes a tid or a thread's name, which may differ from the program's name; `*` stands for anything. A recording without tgids knows threads alone.",
        ],
        commands: &[
            "unstarve explain FILE --task 812",
            "unstarve explain FILE --task 'worker*'",
            "unstarve timeline FILE --summary",
        ],
    },
    Word {
        id: "tuned",
        also: &["tuned-adm", "profile", "profiles", "sysctl", "sysctls", "settings", "tuning", "tunables"],
        title: "TuneD and sysctl files: settings that are written at boot",
        text: &[
            "Since 5.13 many scheduler settings are in debugfs, not in sysctl; old lines write nothing. TuneD 2.25 and later writes sched_min_granularity_ns to base_slice_ns on 6.6 and later: a 10 ms setting then makes slices of 10 ms (R43).",
            "`check` compares the files of this host with the values in force. `fix FILE --as tuned` or `--as sysctl` prints a remedy in that form.",
        ],
        commands: &[
            "sudo unstarve check",
            "unstarve knobs list --changed",
            "unstarve help R43",
            "unstarve knobs explain base_slice_ns",
        ],
    },
    Word {
        id: "upgrade",
        also: &["upgrades", "regression", "regressions", "kernel-upgrade", "migrate", "downgrade", "slower"],
        title: "another kernel: which settings go, which defaults change, which known bugs hit this host",
        text: &[
            "`check --upgrade-to` answers before the reboot, from a table of settings and reported regressions with sources. After the upgrade, two recordings of the same load show what became slower.",
            "Name the whole version (6.12.107) where you know it: stable releases differ.",
        ],
        commands: &[
            "sudo unstarve check --upgrade-to 6.12",
            "unstarve knobs diff 5.10 6.12",
            "unstarve compare before.dat after.dat",
            "unstarve help R04",
        ],
    },
    Word {
        id: "wakeup",
        also: &["wake", "sched_waking", "sched_wakeup", "wakee", "waker", "wakeups"],
        title: "a sleeping thread becomes runnable: its wait begins",
        text: &[
            "The waker and the time are in sched_waking. The wait ends when the thread gets a CPU. A thread that is late without a wait was woken late: look at its waker, a timer or a device.",
        ],
        commands: &["unstarve timeline FILE --task NAME", "unstarve explain FILE --task NAME"],
    },
    Word {
        id: "watchdog",
        also: &[
            "softlockup",
            "soft-lockup",
            "lockup",
            "hardlockup",
            "hard-lockup",
            "nmi_watchdog",
            "watchdog_thresh",
            "dmesg",
            "rcu-stalls",
        ],
        title: "the kernel's own alarms, which come after seconds",
        text: &[
            "Soft lockup: 20 s without a chance for another thread (twice watchdog_thresh). RCU stall: 21 s. Workqueue watchdog: 30 s. Hung task: 120 s. Shorter starvation leaves no line in dmesg, and `RT throttling activated` is gone since 6.12.",
            "unstarve reports waits from milliseconds on. `watch` keeps a recording of the seconds around an episode.",
        ],
        commands: &["sudo unstarve record --for 10s", "sudo unstarve watch", "sudo unstarve watch episodes --since 2h"],
    },
    Word {
        id: "workqueue",
        also: &["workqueues", "kworkers", "wq", "work", "dio", "kblockd", "writeback", "jbd2", "xfs"],
        title: "the kernel's queue of work items; kworkers execute them",
        text: &[
            "A pool wakes a second worker only if the first sleeps. A worker that is runnable without a CPU counts as busy: one starved worker blocks all items of its pool. Direct I/O, XFS, device mapper and network file systems complete I/O there.",
            "`explain` names the function and the workqueue where the recording has workqueue events, as `unstarve record` does.",
        ],
        commands: &[
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat --task 'kworker/*'",
            "unstarve help raise-worker",
        ],
    },
    Word {
        id: "xrun",
        also: &[
            "xruns",
            "jack",
            "pipewire",
            "alsa",
            "audio",
            "dropout",
            "dropouts",
            "underrun",
            "glitch",
            "pulseaudio",
        ],
        title: "a sound buffer that ran empty or full because its thread ran too late",
        text: &[
            "Record while xruns happen, then ask about the sound thread. Its wait shows who had the CPU: a real-time thread of a higher priority, interrupts, a limit, or a thread in the kernel that was not preempted.",
            "No wait in the table: the thread was woken late. Look at the device, at USB, and at power states. docs/start/real-time.md goes through it step by step.",
        ],
        commands: &[
            "sudo unstarve record --for 10s",
            "unstarve explain unstarve.dat --task 'pw-data-loop*,jackd'",
            "sudo unstarve check",
        ],
    },
];
