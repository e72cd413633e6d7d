//! One C file without any library but libc and pthreads, as the kernel's selftests have them.

use std::fmt::Write;

use unstarve_model::SchedPolicy;

use super::{names, phases};
use crate::{Actor, Class, Op, Program};

/// What every program has.
const HEAD: &str = r#"// SPDX-License-Identifier: GPL-2.0
// Needs root for real-time policies and cgroups. Ends by itself.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

/* struct sched_attr of the kernel; not every libc has it. */
struct attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

#define UNUSED __attribute__((unused))

static uint64_t t0;
static uint64_t at(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static UNUSED void run(uint64_t ns)
{
	uint64_t end = at(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (at(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static UNUSED void run_by_clock(uint64_t ns)
{
	uint64_t end = at(CLOCK_MONOTONIC) + ns;

	while (at(CLOCK_MONOTONIC) < end)
		;
}

static void sleep_until(uint64_t ns)
{
	struct timespec end = { (t0 + ns) / 1000000000ull, (t0 + ns) % 1000000000ull };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL))
		;
}

static UNUSED void sleep_for(uint64_t ns)
{
	sleep_until(at(CLOCK_MONOTONIC) - t0 + ns);
}

static _Atomic int tokens[ACTORS];
static UNUSED void block(int self)
{
	for (;;) {
		int have = atomic_load(&tokens[self]);

		if (have > 0 && atomic_compare_exchange_strong(&tokens[self], &have, have - 1))
			return;
		if (have == 0)
			syscall(SYS_futex, &tokens[self], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	}
}

static UNUSED void wake(int other)
{
	atomic_fetch_add(&tokens[other], 1);
	syscall(SYS_futex, &tokens[other], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		perror(path);
	if (file >= 0)
		close(file);
}

static void enter(const char *name, const char *cgroup, uint64_t cpus)
{
	char tid[16];

	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1);
	snprintf(tid, sizeof(tid), "%ld", syscall(SYS_gettid));
	if (cgroup)
		put(cgroup, tid);
	if (syscall(SYS_sched_setaffinity, 0, sizeof(cpus), &cpus))
		perror("sched_setaffinity");
}

static void policy(struct attr attr)
{
	attr.size = sizeof(attr);
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		perror("sched_setattr");
}

"#;

/// The program as one C file.
pub fn c_file(program: &Program, title: &str) -> String {
    let names = names(program);
    let mut text = format!("// {}\n#define ACTORS {}\n", title.replace(['\n', '\r', '\\'], " "), program.actors.len());
    text += HEAD;
    for ((id, actor), name) in program.actors().zip(&names) {
        thread(&mut text, actor, program, name, id.index());
    }
    main(&mut text, program, &names);
    text
}

fn thread(text: &mut String, actor: &Actor, program: &Program, name: &str, index: usize) {
    let mut mask = 0_u64;
    program.places_of(&actor.placement.cpus).iter().filter(|cpu| cpu.0 < 64).for_each(|cpu| mask |= 1 << cpu.0);
    let group = actor.placement.cgroup.and_then(|index| program.cgroups.get(index));
    let group =
        group.map_or("NULL".to_owned(), |group| format!("{}\"/cgroup.threads\"", quoted(&directory(&group.path))));
    let mut line = |indent: usize, line: &str| {
        let _ = writeln!(text, "{}{line}", "\t".repeat(indent));
    };
    line(0, &format!("static void *{name}(void *unused)"));
    line(0, "{");
    line(1, &format!("enter({}, {group}, {mask:#x});", quoted(&actor.comm)));
    line(1, &format!("policy((struct attr){{ {} }});", attributes(actor)));
    line(1, "sleep_until(0);");
    for phase in phases(&actor.ops) {
        let indent = if phase.times > 1 {
            line(1, &format!("for (int n = 0; n < {}; n++) {{", phase.times));
            2
        } else {
            1
        };
        phase.ops.iter().for_each(|op| line(indent, &call(*op, index)));
        if phase.times > 1 {
            line(1, "}");
        }
    }
    line(1, "return NULL;");
    line(0, "}\n");
}

fn attributes(actor: &Actor) -> String {
    match actor.placement.class {
        Class::Fair { policy, nice } => {
            format!(".policy = {}, .nice = {nice}", policy.number().unwrap_or_default())
        }
        Class::Realtime { policy, priority } => {
            let number = if policy == SchedPolicy::Rr { "SCHED_RR" } else { "SCHED_FIFO" };
            format!(".policy = {number}, .priority = {priority}")
        }
        Class::Deadline(of) => format!(
            ".policy = 6, .runtime = {}, .deadline = {}, .period = {}",
            of.runtime.0, of.deadline.0, of.period.0
        ),
    }
}

fn call(op: Op, own: usize) -> String {
    match op {
        Op::Run(time) => format!("run({});", time.0),
        Op::RunByClock(time) => format!("run_by_clock({});", time.0),
        Op::SleepFor(time) => format!("sleep_for({});", time.0),
        Op::SleepUntil(time) => format!("sleep_until({});", time.0),
        Op::Block | Op::Take => format!("block({own});"),
        Op::Wake(actor) => format!("wake({});", actor.0),
        Op::WakeAfter(actor, delay) => format!("wake({}); /* in the recording {} ns later */", actor.0, delay.0),
    }
}

fn main(text: &mut String, program: &Program, names: &[String]) {
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    line("int main(void)\n{\n\tpthread_t thread;\n");
    if !program.cgroups.is_empty() {
        line("\tput(\"/sys/fs/cgroup/cgroup.subtree_control\", \"+cpu\");");
    }
    for group in &program.cgroups {
        let path = directory(&group.path);
        line(&format!("\tmkdir({}, 0755);", quoted(&path)));
        line(&format!("\tput({}\"/cgroup.type\", \"threaded\");", quoted(&path)));
        let weight = unstarve_sched::cpu_weight_of_load_weight(group.load_weight).clamp(1, 10_000);
        line(&format!("\tput({}\"/cpu.weight\", \"{weight}\");", quoted(&path)));
        if let Some(quota) = group.quota {
            let (runtime, period) = (quota.runtime.0 / 1000, quota.period.0 / 1000);
            line(&format!("\tput({}\"/cpu.max\", \"{runtime} {period}\");", quoted(&path)));
        }
        if program.cgroups.iter().any(|below| below.path.starts_with(&format!("{}/", group.path))) {
            line(&format!("\tput({}\"/cgroup.subtree_control\", \"+cpu\");", quoted(&path)));
        }
    }
    line("\tt0 = at(CLOCK_MONOTONIC) + 100000000;");
    for name in names {
        line(&format!("\tpthread_create(&thread, NULL, {name}, NULL);"));
    }
    line(&format!("\tsleep_until({});\n\treturn 0;\n}}", program.length.0));
}

/// A directory of its own below the root group.
fn directory(path: &str) -> String {
    format!("/sys/fs/cgroup/unstarve-case{path}").replace("unstarve-case/", "unstarve-case-")
}

/// A string of C: what is not plain is left out.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '?')).collect();
    format!("\"{plain}\"")
}
