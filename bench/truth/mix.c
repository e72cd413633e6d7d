/* The loads of these scenarios: victims, culprits and healthy programs, each of which says what it felt.
 *
 *   mix [OPTION=VALUE …] VERB ARGUMENTS
 *
 * It sleeps first, then changes itself as the options say, then does what the verb says until its time is over, and prints
 * one line: `NAME n=… mean_us=… p50_us=… p99_us=… max_us=…` of what it measured, or `NAME units=…` of what it computed, and
 * `waited_us=…`, how long the kernel says that it wanted a CPU and had none.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

typedef long long ns;

static ns end;

static ns now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void nap(ns length) {
    struct timespec t = {length / 1000000000LL, length % 1000000000LL};
    if (length > 0) nanosleep(&t, 0);
}

static void spin(ns length) {
    ns until = now() + length;
    while (now() < until);
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int check(int result, const char *what) {
    if (result < 0) die(what);
    return result;
}

static void call_me(const char *name) { prctl(PR_SET_NAME, name); }

static void put(const char *path, const char *text) {
    int file = check(open(path, O_WRONLY), path);
    check(write(file, text, strlen(text)), path);
    close(file);
}

/* What was measured: kept and printed at the end. */
enum { MOST = 200000 };
static ns *felt;
static int count;

static void feel(ns length) {
    if (!felt) felt = malloc(sizeof(ns) * MOST);
    if (count < MOST) felt[count++] = length;
}

static int by_length(const void *a, const void *b) {
    ns x = *(const ns *)a, y = *(const ns *)b;
    return x < y ? -1 : x > y;
}

/* How long this thread was runnable and did not run, says the kernel. */
static ns waited(void) {
    ns ran = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file && fscanf(file, "%lld %lld", &ran, &waited) != 2) waited = 0;
    if (file) fclose(file);
    return waited;
}

static void tell(const char *name) {
    ns sum = 0;
    if (!count) {
        printf("%s n=0 waited_us=%lld\n", name, waited() / 1000);
        return;
    }
    qsort(felt, count, sizeof *felt, by_length);
    for (int i = 0; i < count; i++) sum += felt[i];
    printf("%s n=%d mean_us=%lld p50_us=%lld p99_us=%lld max_us=%lld waited_us=%lld\n", name, count,
           sum / count / 1000, felt[count / 2] / 1000, felt[(ns)count * 99 / 100] / 1000, felt[count - 1] / 1000,
           waited() / 1000);
    fflush(stdout);
}

/* Options. */
struct attributes {
    unsigned size, policy;
    unsigned long long flags;
    int nice;
    unsigned priority;
    unsigned long long runtime, deadline, period;
};

static void set_policy(const char *text) {
    struct sched_param parameter = {0};
    int policy = SCHED_OTHER;
    ns runtime, period;
    if (sscanf(text, "deadline:%lld:%lld", &runtime, &period) == 2) {
        struct attributes a = {.size = sizeof a, .policy = 6, .runtime = runtime * 1000, .deadline = period * 1000,
                               .period = period * 1000};
        check(syscall(SYS_sched_setattr, 0, &a, 0), "deadline");
        return;
    }
    if (sscanf(text, "fifo:%d", &parameter.sched_priority) == 1) policy = SCHED_FIFO;
    if (sscanf(text, "rr:%d", &parameter.sched_priority) == 1) policy = SCHED_RR;
    if (!strcmp(text, "idle")) policy = SCHED_IDLE;
    if (!strcmp(text, "batch")) policy = SCHED_BATCH;
    check(sched_setscheduler(0, policy, &parameter), text);
}

static void set_cpu(int cpu) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    check(sched_setaffinity(0, sizeof mask, &mask), "affinity");
}

static void join(const char *group) {
    char path[256];
    const char *root = getenv("CGROUPS");
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", root ? root : "/sys/fs/cgroup", group);
    put(path, "0");
}

/* Goes on in the background, in a session of its own, and lets whoever started it go on. */
static void detach(void) {
    if (check(fork(), "fork")) exit(0);
    setsid();
    int null = check(open("/dev/null", O_RDWR), "/dev/null");
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
}

/* Leads a session of its own; who leads a group of processes cannot, but its child can. */
static void lead(void) {
    pid_t child;
    if (setsid() >= 0) return;
    child = check(fork(), "fork");
    if (child) {
        waitpid(child, 0, 0);
        exit(0);
    }
    check(setsid(), "setsid");
}

static double seconds = 1;

/* One `key=value`; 0 if it is none. */
static int option(const char *word) {
    const char *value = strchr(word, '=');
    if (!value) return 0;
    value++;
#define IS(key) (!strncmp(word, key "=", sizeof key))
    if (IS("for")) seconds = atof(value);
    else if (IS("start")) nap(atoll(value) * 1000000);
    else if (IS("cgroup")) join(value);
    else if (IS("policy")) set_policy(value);
    else if (IS("nice")) check(setpriority(PRIO_PROCESS, 0, atoi(value)), "nice");
    else if (IS("cpu")) set_cpu(atoi(value));
    else if (IS("session")) lead();
    else if (IS("slack_us")) check(prctl(PR_SET_TIMERSLACK, atoll(value) * 1000), "slack");
    else if (IS("detach")) detach();
    else return 0;
    return 1;
}

/* Verbs. */
static char **arg;
static int args;

static ns number(int i) { return i < args ? atoll(arg[i]) : 0; }
static ns micros(int i) { return number(i) * 1000; }
static const char *text(int i) { return i < args ? arg[i] : ""; }

/* spin NAME [HOW_MANY]: computes. */
static void do_spin(void) {
    ns units = 0;
    for (ns i = 1; i < number(2); i++)
        if (!fork()) break;
    call_me(text(1));
    while (now() < end) {
        for (volatile int i = 0; i < 10000; i++);
        units++;
    }
    printf("%s units=%lld waited_us=%lld\n", text(1), units, waited() / 1000);
}

/* threads NAME HOW_MANY: computes in threads of one process. */
struct computed {
    ns units, waited;
};

static void *thread(void *computed) {
    struct computed *mine = computed;
    call_me(text(1));
    while (now() < end) {
        for (volatile int i = 0; i < 10000; i++);
        mine->units++;
    }
    mine->waited = waited();
    return 0;
}

static void do_threads(void) {
    pthread_t all[64];
    struct computed each[64] = {0}, sum = {0};
    for (int i = 0; i < number(2); i++) pthread_create(&all[i], 0, thread, &each[i]);
    for (int i = 0; i < number(2); i++) {
        pthread_join(all[i], 0);
        sum.units += each[i].units;
        sum.waited += each[i].waited;
    }
    printf("%s units=%lld waited_us=%lld\n", text(1), sum.units, sum.waited / 1000);
}

/* burn NAME BUSY_US PERIOD_US: computes now and then; says how long a busy time took. */
static void do_burn(void) {
    call_me(text(1));
    while (now() < end) {
        ns began = now();
        spin(micros(2));
        feel(now() - began);
        nap(began + micros(3) - now());
    }
    tell(text(1));
}

/* work NAME UNITS GAP_US: a fixed amount of computing, a sleep; says how long the computing took. */
static void do_work(void) {
    call_me(text(1));
    while (now() < end) {
        ns began = now();
        for (ns i = 0; i < number(2); i++)
            for (volatile int k = 0; k < 10000; k++);
        feel(now() - began);
        nap(micros(3));
    }
    tell(text(1));
}

/* daemon NAME PERIOD_US WORK_US: how much later than planned its work was done. */
static void do_daemon(void) {
    call_me(text(1));
    ns next = now() + micros(2);
    while (now() < end) {
        nap(next - now());
        spin(micros(3));
        ns late = now() - next - micros(3);
        feel(late > 0 ? late : 0);
        next += micros(2);
        if (next < now()) next = now() + micros(2);
    }
    tell(text(1));
}

/* lock HOLD_US GAP_US [OPTION=VALUE …]: `keeper`, to which the options apply, holds a lock that `asker` wants. */
static void do_lock(void) {
    pthread_mutex_t *lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, 1);
    pthread_mutex_init(lock, &how);
    if (!check(fork(), "fork")) {
        call_me("keeper");
        for (int i = 3; i < args; i++) option(arg[i]);
        while (now() < end) {
            pthread_mutex_lock(lock);
            spin(micros(1));
            pthread_mutex_unlock(lock);
            nap(micros(2));
        }
        _exit(0);
    }
    call_me("asker");
    nap(2000000);
    while (now() < end) {
        ns began = now();
        pthread_mutex_lock(lock);
        feel(now() - began);
        pthread_mutex_unlock(lock);
        nap(3 * micros(2));
    }
    tell("asker");
    while (wait(0) > 0);
}

/* rpc SERVER WORK_US GAP_US [OPTION=VALUE …]: `client` asks SERVER, to which the options apply, over pipes. */
static void do_rpc(void) {
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back)) die("pipe");
    pid_t server = check(fork(), "fork");
    if (!server) {
        call_me(text(1));
        for (int i = 4; i < args; i++) option(arg[i]);
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) {
            spin(micros(2));
            if (write(back[1], &byte, 1) != 1) break;
        }
        _exit(0);
    }
    call_me("client");
    while (now() < end) {
        ns began = now();
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) break;
        feel(now() - began);
        nap(micros(3));
    }
    tell("client");
    kill(server, SIGKILL);
}

/* pool HOW_MANY JOB_US GAP_US: jobs for threads that sleep in each; how long a job takes from its arrival to its end. */
static int jobs[2];

static void *sleeper(void *unused) {
    ns arrived;
    call_me("poolwork");
    while (read(jobs[0], &arrived, sizeof arrived) == sizeof arrived) {
        nap(micros(2));
        feel(now() - arrived);
    }
    return unused;
}

static void do_pool(void) {
    pthread_t one;
    if (pipe(jobs)) die("pipe");
    for (int i = 0; i < number(1); i++) pthread_create(&one, 0, sleeper, 0);
    call_me("dispatch");
    while (now() < end) {
        ns arrived = now();
        check(write(jobs[1], &arrived, sizeof arrived), "job");
        nap(micros(3));
    }
    tell("pool");
    exit(0);
}

/* reader FILE: through the page cache, a MiB at a time. */
static void do_reader(void) {
    static char piece[1 << 20];
    int file = check(open(text(1), O_RDONLY), text(1));
    call_me("reader");
    while (now() < end) {
        ns began = now();
        ssize_t got = read(file, piece, sizeof piece);
        check(got, "read");
        if (!got) lseek(file, 0, SEEK_SET);
        feel(now() - began);
    }
    tell("reader");
}

/* writer FILE SIZE_MIB [SYNC]: buffered, 64 KiB at a time; with SYNC followed by fsync. */
static void do_writer(void) {
    static char piece[1 << 16];
    int file = check(open(text(1), O_RDWR | O_CREAT, 0600), text(1));
    call_me("writer");
    for (ns at = 0; now() < end; at = (at + sizeof piece) % (number(2) << 20)) {
        ns began = now();
        check(pwrite(file, piece, sizeof piece, at), "write");
        if (*text(3)) check(fsync(file), "fsync");
        feel(now() - began);
    }
    tell("writer");
}

/* uring CPU GAP_US: operations that io_uring's own threads do, which may run on CPU only. */
static void do_uring(void) {
    struct io_uring_params p = {0};
    int ring = check(syscall(SYS_io_uring_setup, 8, &p), "io_uring_setup");
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), 3, MAP_SHARED | MAP_POPULATE, ring,
                    IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqe = mmap(0, p.sq_entries * sizeof *sqe, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    unsigned *array = (unsigned *)(sq + p.sq_off.array), *head = (unsigned *)(cq + p.cq_off.head);
    static char piece[4096];
    int file = check(open("/dev/zero", O_RDONLY), "/dev/zero");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(number(1), &cpus);
    check(syscall(SYS_io_uring_register, ring, IORING_REGISTER_IOWQ_AFF, &cpus, sizeof cpus), "IOWQ_AFF");
    call_me("ringapp");
    while (now() < end) {
        ns began = now();
        unsigned slot = *tail & mask;
        sqe[slot] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = file,
                                          .addr = (unsigned long)piece, .len = sizeof piece};
        array[slot] = slot;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0), "io_uring_enter");
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
        feel(now() - began);
        nap(micros(2));
    }
    tell("ringapp");
}

/* vsock GAP_US: a byte there and back through the kernel's loopback for virtual machines. */
static void do_vsock(void) {
    struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_LOCAL, .svm_port = 5000};
    int door = check(socket(AF_VSOCK, SOCK_STREAM, 0), "vsock");
    char byte = 0;
    check(bind(door, (void *)&address, sizeof address), "bind");
    check(listen(door, 1), "listen");
    pid_t server = check(fork(), "fork");
    if (!server) {
        call_me("vmserver");
        int peer = check(accept(door, 0, 0), "accept");
        while (read(peer, &byte, 1) == 1)
            if (write(peer, &byte, 1) != 1) break;
        _exit(0);
    }
    call_me("vmclient");
    int peer = check(socket(AF_VSOCK, SOCK_STREAM, 0), "vsock");
    check(connect(peer, (void *)&address, sizeof address), "connect");
    while (now() < end) {
        ns began = now();
        if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1) break;
        feel(now() - began);
        nap(micros(1));
    }
    tell("vmclient");
    kill(server, SIGKILL);
}

/* flood PORT SIZE: datagrams to this host, as many as go. sink PORT: takes them. */
static void do_flood(void) {
    static char datagram[9000];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(number(1)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int sender = check(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    ns sent = 0;
    call_me("sender");
    while (now() < end)
        if (sendto(sender, datagram, number(2), 0, (void *)&to, sizeof to) > 0) sent++;
    printf("sender units=%lld\n", sent);
}

static void do_sink(void) {
    static char datagram[9000];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(number(1)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int socket_ = check(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    check(bind(socket_, (void *)&at, sizeof at), "bind");
    call_me("sink");
    for (;;) check(recv(socket_, datagram, sizeof datagram, 0), "recv");
}

/* deadline NAME WORK_US: one piece of work for each period; says how long each took. */
static void do_deadline(void) {
    call_me(text(1));
    while (now() < end) {
        struct timespec before, after;
        ns began = now();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        while ((after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec < micros(2));
        feel(now() - began);
        sched_yield();
    }
    tell(text(1));
}

/* make HOW_MANY WORK_US: short programs one after another, so many at a time, as a build has them. */
static void do_make(void) {
    ns made = 0, running = 0;
    call_me("make");
    while (now() < end) {
        if (!check(fork(), "fork")) {
            call_me(made % 3 ? "cc1" : "as");
            spin(micros(2));
            _exit(0);
        }
        made++;
        if (++running >= number(1) && wait(0) > 0) running--;
    }
    while (wait(0) > 0);
    printf("make units=%lld\n", made);
}

/* drain GAP_US: moves pages between nodes of memory, for which every CPU's worker has to empty its lists first. */
static void do_drain(void) {
    enum { LENGTH = 1 << 16, BIND = 2, MOVE = 2 };
    unsigned long node = 1;
    char *pages = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    call_me("mover");
    while (now() < end) {
        memset(pages, 1, LENGTH);
        ns began = now();
        check(syscall(SYS_mbind, pages, LENGTH, BIND, &node, 8, MOVE), "mbind");
        feel(now() - began);
        nap(micros(1));
    }
    tell("mover");
}

/* pty GAP_US: a byte through a terminal, whose line discipline the kernel serves in a worker. */
static void do_pty(void) {
    int master = check(open("/dev/ptmx", O_RDWR | O_NOCTTY), "/dev/ptmx");
    char byte = '\n';
    unsigned unlock = 0;
    struct termios raw;
    check(ioctl(master, TIOCSPTLCK, &unlock), "unlock");
    int slave = check(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY), "peer");
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    call_me("terminal");
    while (now() < end) {
        ns began = now();
        if (write(master, &byte, 1) != 1 || read(slave, &byte, 1) != 1) break;
        feel(now() - began);
        nap(micros(1));
    }
    tell("terminal");
}

/* batch HOW_MANY WORK_US GAP_US: wakes so many workers at once; how long until the last of them is done. */
static void do_batch(void) {
    int jobs[64][2], done[2];
    char byte = 0;
    if (pipe(done)) die("pipe");
    for (int i = 0; i < number(1); i++) {
        if (pipe(jobs[i])) die("pipe");
        if (check(fork(), "fork")) continue;
        call_me("batchwork");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (read(jobs[i][0], &byte, 1) == 1) {
            ns units = micros(2) / 60000;
            while (units--)
                for (volatile int k = 0; k < 10000; k++);
            check(write(done[1], &byte, 1), "done");
        }
        _exit(0);
    }
    call_me("dispatch");
    while (now() < end) {
        ns began = now();
        for (int i = 0; i < number(1); i++) check(write(jobs[i][1], &byte, 1), "job");
        for (int i = 0; i < number(1); i++) check(read(done[0], &byte, 1), "done");
        feel(now() - began);
        nap(micros(3));
    }
    tell("dispatch");
}

/* backlog READER WORK_US GAP_US [OPTION=VALUE …]: `app` writes lines to a pipe that READER, to which the options apply, empties. */
static void do_backlog(void) {
    static char line[4096];
    int pipe_[2];
    if (pipe(pipe_)) die("pipe");
    pid_t reader = check(fork(), "fork");
    if (!reader) {
        call_me(text(1));
        for (int i = 4; i < args; i++) option(arg[i]);
        close(pipe_[1]);
        while (read(pipe_[0], line, sizeof line) > 0) spin(micros(2));
        _exit(0);
    }
    call_me("app");
    while (now() < end) {
        ns began = now();
        check(write(pipe_[1], line, sizeof line), "line");
        feel(now() - began);
        nap(micros(3));
    }
    tell("app");
    kill(reader, SIGKILL);
}

/* pipeline STAGES WORK_US: pieces that each stage works on before the next one does; how long from the first to the last. */
static void do_pipeline(void) {
    static ns piece[64];
    int in, next[2];
    if (pipe(next)) die("pipe");
    check(fcntl(next[1], F_SETPIPE_SZ, 4096), "pipe size");
    for (int stage = 0; stage < number(1); stage++) {
        in = next[0];
        int out = next[1];
        if (stage && pipe(next)) die("pipe");
        if (stage) {
            check(fcntl(next[1], F_SETPIPE_SZ, 4096), "pipe size");
            out = next[1];
        }
        if (check(fork(), "fork")) {
            close(out);
            if (stage) close(in);
            continue;
        }
        char name[16];
        snprintf(name, sizeof name, "stage%d", stage);
        call_me(name);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            if (stage && read(in, piece, sizeof piece) != sizeof piece) break;
            if (!stage) piece[0] = now();
            for (ns units = micros(2) / 60000; units > 0; units--)
                for (volatile int k = 0; k < 10000; k++);
            if (write(out, piece, sizeof piece) != sizeof piece) break;
        }
        _exit(0);
    }
    call_me("last");
    while (now() < end && read(next[0], piece, sizeof piece) == sizeof piece) feel(now() - piece[0]);
    tell("last");
}

/* yield WORK_US GAP_US SPIN_US [OPTION=VALUE …]: `poller`, to which the options apply, wants something of `feeder`; it yields until
 * it is there, and sleeps a little after each SPIN_US. */
static void do_yield(void) {
    volatile int *done = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ask[2];
    char byte = 0;
    if (pipe(ask)) die("pipe");
    pid_t feeder = check(fork(), "fork");
    if (!feeder) {
        call_me("feeder");
        close(ask[1]);
        while (read(ask[0], &byte, 1) == 1) {
            spin(micros(1));
            *done = 1;
        }
        _exit(0);
    }
    call_me("poller");
    for (int i = 4; i < args; i++) option(arg[i]);
    while (now() < end) {
        ns began = now(), spun = began;
        *done = 0;
        check(write(ask[1], &byte, 1), "ask");
        while (!*done && now() < end) {
            sched_yield();
            if (now() - spun < micros(3)) continue;
            nap(1000000);
            spun = now();
        }
        feel(now() - began);
        nap(micros(2));
    }
    tell("poller");
    kill(feeder, SIGKILL);
}

/* guise BUSY_US PERIOD_US: computes now and then, each time with another name and another real-time priority. */
static void do_guise(void) {
    for (int turn = 0; now() < end; turn++) {
        char text[16];
        ns began = now();
        snprintf(text, sizeof text, "stage-%d", turn % 8);
        call_me(text);
        snprintf(text, sizeof text, "%s:%d", turn % 2 ? "rr" : "fifo", 10 + turn * 7 % 50);
        set_policy(text);
        spin(micros(1));
        nap(began + micros(2) - now());
    }
}

/* cgi WORK_US GAP_US: `inetd` starts a short, ordinary program for each question and goes on; each says how long it took, and
 * waited. */
static void do_cgi(void) {
    struct answer { ns took, waited; } *answers = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ns started = 0, waits = 0;
    call_me("inetd");
    while (now() < end && started < 10000) {
        ns began = now();
        if (!check(fork(), "fork")) {
            call_me("cgi");
            set_policy("other");
            for (ns units = micros(1) / 60000; units > 0; units--)
                for (volatile int k = 0; k < 10000; k++);
            answers[started] = (struct answer){now() - began, waited()};
            _exit(0);
        }
        started++;
        while (waitpid(-1, 0, WNOHANG) > 0);
        nap(began + micros(2) - now());
    }
    while (wait(0) > 0);
    for (int i = 0; i < started; i++) {
        feel(answers[i].took);
        waits += answers[i].waited;
    }
    tell("inetd");
    printf("cgi units=%lld waited_us=%lld\n", started, waits / 1000);
}

/* hop NAME BUSY_US GAP_US CPUS: computes on one CPU after the other, to which it binds itself. */
static void do_hop(void) {
    call_me(text(1));
    for (int cpu = 0; now() < end; cpu++) {
        set_cpu(cpu % number(4));
        ns began = now();
        spin(micros(2));
        feel(now() - began);
        nap(micros(3));
    }
    tell(text(1));
}

/* rotate GROUP_A GROUP_B PAUSE_MS: gives CPU 0 to one and CPU 1 to the other, and then the other way. */
static void do_rotate(void) {
    char path[2][256];
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "/sys/fs/cgroup/%s/cpuset.cpus", text(1 + i));
    call_me("cpumanager");
    for (int turn = 0; now() < end; turn++) {
        put(path[0], "0-1");
        put(path[1], "0-1");
        put(path[0], turn % 2 ? "0" : "1");
        put(path[1], turn % 2 ? "1" : "0");
        nap(number(3) * 1000000);
    }
}

/* run PROGRAM ARGUMENTS: until its time is over, if it has not ended before. */
static void do_run(void) {
    pid_t program = check(fork(), "fork");
    if (!program) {
        execvp(arg[1], arg + 1);
        die(arg[1]);
    }
    call_me("runner");
    while (now() < end && waitpid(program, 0, WNOHANG) == 0) nap(50000000);
    kill(program, SIGINT);
    nap(100000000);
    kill(program, SIGKILL);
}

/* put PATH TEXT [PATH TEXT PAUSE_MS …]: writes settings while others run. */
static void do_put(void) {
    call_me("admin");
    for (int i = 1; i + 1 < args; i += 3) {
        put(text(i), text(i + 1));
        nap(number(i + 2) * 1000000);
    }
    nap(end - now());
}

/* hold NAME: never sleeps, and touches new memory each millisecond, so that its CPU has statistics to be folded by a worker. */
static void do_hold(void) {
    enum { PAGES = 1 << 16 };
    call_me(text(1));
    while (now() < end) {
        char *pages = mmap(0, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) die("mmap");
        memset(pages, 1, PAGES);
        munmap(pages, PAGES);
        spin(1000000);
    }
    printf("%s waited_us=%lld\n", text(1), waited() / 1000);
}

/* pollfds NAME DESCRIPTORS GAP_US: asks the kernel about so many descriptors at once; do_poll() (fs/select.c) goes through them
 * without cond_resched(). Says how long a call took. */
static void do_pollfds(void) {
    ns descriptors = number(2);
    struct rlimit limit = {descriptors + 64, descriptors + 64};
    struct pollfd *all = malloc(sizeof *all * descriptors);
    int pipe_[2];
    if (!all || pipe(pipe_)) die("pipe");
    check(setrlimit(RLIMIT_NOFILE, &limit), "RLIMIT_NOFILE");
    for (ns i = 0; i < descriptors; i++) all[i] = (struct pollfd){.fd = pipe_[0], .events = POLLIN};
    call_me(text(1));
    while (now() < end) {
        ns began = now();
        check(poll(all, descriptors, 0), "poll");
        feel(now() - began);
        nap(micros(3));
    }
    tell(text(1));
}

/* lookout CPU PERIOD_US: looks at the kernel threads of CPU, and says of each how long it was runnable without running, by /proc
 * alone: state R, and neither the number of its runs nor its run time (schedstat) grew. Times are from look to look. */
struct seen {
    int tid;
    char name[32];
    ns ran, runs, since, until, longest;
};
static struct seen seen[512];
static int known;

static struct seen *seen_as(int tid, const char *name) {
    for (int i = 0; i < known; i++)
        if (seen[i].tid == tid) return &seen[i];
    if (known == sizeof seen / sizeof *seen) return 0;
    seen[known] = (struct seen){.tid = tid};
    snprintf(seen[known].name, sizeof seen[known].name, "%s", name);
    return &seen[known++];
}

static int line_of(int tid, const char *file, char *line, int size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", tid, file);
    FILE *open_ = fopen(path, "r");
    int got = open_ && fgets(line, size, open_);
    if (open_) fclose(open_);
    return got;
}

static void spell_ends(struct seen *one) {
    ns length = one->until - one->since;
    if (one->until && length > one->longest) one->longest = length;
    if (one->until) feel(length);
    one->since = one->until = 0;
}

static void look_at(int tid, int cpu) {
    enum { KTHREAD = 0x200000 };
    char line[1024], state, *name, *rest;
    unsigned flags;
    int on;
    ns ran, runs;
    if (!line_of(tid, "stat", line, sizeof line) || !(name = strchr(line, '(')) || !(rest = strrchr(line, ')'))) return;
    *rest = 0;
    if (sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %*d %*u %*u %*u %*u "
                         "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d", &state, &flags, &on) != 3) return;
    struct seen *one = flags & KTHREAD && on == cpu ? seen_as(tid, name + 1) : 0;
    if (!one || !line_of(tid, "schedstat", line, sizeof line) || sscanf(line, "%lld %*d %lld", &ran, &runs) != 2) return;
    if (state == 'R' && one->since && one->ran == ran && one->runs == runs) {
        one->until = now();
        return;
    }
    spell_ends(one);
    if (state == 'R') one->since = now();
    one->ran = ran;
    one->runs = runs;
}

static void do_lookout(void) {
    call_me("lookout");
    while (now() < end) {
        struct dirent *entry;
        DIR *proc = opendir("/proc");
        if (!proc) die("/proc");
        while ((entry = readdir(proc)))
            if (isdigit(entry->d_name[0])) look_at(atoi(entry->d_name), number(1));
        closedir(proc);
        nap(micros(2));
    }
    for (int i = 0; i < known; i++) {
        spell_ends(&seen[i]);
        if (seen[i].longest > 2 * micros(2)) printf("%s[%d] stuck_us=%lld\n", seen[i].name, seen[i].tid, seen[i].longest / 1000);
    }
    tell("lookout");
}

static const struct { const char *name; void (*run)(void); } VERBS[] = {
    {"spin", do_spin}, {"threads", do_threads}, {"burn", do_burn}, {"work", do_work}, {"daemon", do_daemon},
    {"lock", do_lock}, {"rpc", do_rpc}, {"pool", do_pool}, {"reader", do_reader}, {"writer", do_writer},
    {"uring", do_uring}, {"vsock", do_vsock}, {"flood", do_flood}, {"sink", do_sink}, {"deadline", do_deadline},
    {"make", do_make}, {"put", do_put}, {"run", do_run},
    {"drain", do_drain}, {"pty", do_pty}, {"batch", do_batch}, {"backlog", do_backlog}, {"pipeline", do_pipeline},
    {"yield", do_yield}, {"guise", do_guise}, {"cgi", do_cgi}, {"hop", do_hop}, {"rotate", do_rotate},
    {"hold", do_hold}, {"pollfds", do_pollfds}, {"lookout", do_lookout},
};

int main(int argc, char **argv) {
    int first = 1;
    ns began = now();
    setvbuf(stdout, 0, _IOLBF, 0);
    while (first < argc && option(argv[first])) first++;
    end = began + (ns)(seconds * 1e9);
    arg = argv + first;
    args = argc - first;
    for (size_t i = 0; args > 0 && i < sizeof VERBS / sizeof *VERBS; i++)
        if (!strcmp(arg[0], VERBS[i].name)) {
            VERBS[i].run();
            return 0;
        }
    fprintf(stderr, "mix [OPTION=VALUE …] VERB ARGUMENTS: no such verb\n");
    return 2;
}
