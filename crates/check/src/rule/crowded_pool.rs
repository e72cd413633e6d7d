//! Rule `crowded-pool`: a thread pool has far more threads than CPUs.

use std::collections::BTreeMap;

use unstarve_change::{Change, Value};
use unstarve_facts::{Holds, TaskFacts};

use super::Rule;
use crate::case::{AuditInput, counted};
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "crowded-pool",
    title: "nfsd or another pool has far more threads than there are CPUs",
    about: "Each request wakes another idle thread of the pool. With many short requests nearly all threads are runnable, few \
            can run, and unrelated tasks wait behind all of them.",
    source: "commit 59a252ff8c0f (SGI, 2009); svc_pool_wake_idle_thread() in net/sunrpc/svc_xprt.c of 6.1 and 6.12, commit \
             5b80147e0c70 (6.7); case C",
    check,
    upgrade: None,
};

/// Threads for each CPU above which nfsd's pool is too large. Its default is 8 in all.
const NFSD_PER_CPU: usize = 8;
/// Other pools are only mentioned: most of their threads sleep for other reasons.
const OTHERS_PER_CPU: usize = 32;
/// Fewer threads are never a crowd.
const LEAST: usize = 32;

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let cpus = case.online.len();
    if cpus == 0 {
        return Vec::new();
    }
    nfsd(case, cpus).into_iter().chain(others(case, cpus)).collect()
}

fn nfsd(case: &AuditInput<'_>, cpus: usize) -> Option<Hit> {
    let services = case.snapshot.services.as_ref();
    let configured = services.and_then(|services| services.nfsd.as_ref());
    let seen = case.kernel_threads().filter(|task| task.comm == "nfsd").count();
    let threads = configured.map_or(seen, |nfsd| nfsd.threads as usize);
    if threads < LEAST || threads < NFSD_PER_CPU * cpus {
        return None;
    }
    let gentle = case.facts.nfsd_wakes_one_at_a_time();
    let severity = if gentle == Holds::Yes { Severity::Info } else { Severity::Warning };
    let mode = configured.and_then(|nfsd| nfsd.pool_mode.as_deref()).unwrap_or("unknown");
    let fewer = 4 * cpus;
    Some(
        Draft::new(RULE.id, severity, "nfsd")
            .says(format!("nfsd has {threads} threads on {}, {} for each.", counted(cpus as u64, "CPU"), threads / cpus))
            .brief(format!("{threads} threads on {}, {} for each", counted(cpus as u64, "CPU"), threads / cpus))
            .because(format!("pool mode {mode}"))
            .because(match gentle {
                Holds::Yes => format!("{} wakes one idle nfsd at a time, the one that ran last", case.facts.name()),
                Holds::No => format!("{} wakes another idle nfsd for each request that comes in", case.facts.name()),
                Holds::Depends(_) => "before 6.7 the kernel wakes another idle nfsd for each request that comes in".to_owned(),
            })
            .would(match gentle {
                Holds::Yes => {
                    "Under load the threads take turns one by one; too many of them only cost memory, unless most requests wait \
                     for disks."
                }
                _ => "With many short requests nearly all threads become runnable and everybody else waits for a turn behind them.",
            })
            .priced(
                "128 nfsd on 4 CPUs at 60,000 calls a second: load average above 120, 12 % of each CPU spent on scheduling, portmap \
                 and mountd did not run for tens of seconds and mounts timed out (SGI, 2009).",
            )
            .fix(Fix::of(
                FixNotes {
                    text: &format!("Four threads for each CPU are enough unless requests wait for slow disks: {fewer}."),
                    risk: "Requests that wait for a slow disk hold a thread each; make it last with threads= in /etc/nfs.conf.",
                    valid_on: "all kernels",
                },
                vec![
                    Change::file("/proc/fs/nfsd/threads", fewer)
                        .from(configured.map(|nfsd| Value::content(nfsd.threads))),
                ],
            ))
            .done(),
    )
}

/// Processes with many threads of one name (without a number at its end), largest first.
fn others(case: &AuditInput<'_>, cpus: usize) -> Vec<Hit> {
    let mut pools: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    for task in case.snapshot.tasks.iter().filter(|task| !task.kernel_thread) {
        let process = task.tgid.unwrap_or(task.tid).0;
        *pools.entry((process, stem(task))).or_default() += 1;
    }
    let mut large: Vec<_> = pools.into_iter().filter(|(_, count)| *count >= LEAST.max(OTHERS_PER_CPU * cpus)).collect();
    large.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    large.into_iter().take(5).map(|((process, name), count)| pool(process, name, count, cpus)).collect()
}

fn stem(task: &TaskFacts) -> &str {
    task.comm.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | '/' | '#'))
}

fn pool(process: u32, name: &str, count: usize, cpus: usize) -> Hit {
    Draft::new(RULE.id, Severity::Info, format!("pool {name}"))
        .says(format!("{name} (process {process}) has {count} threads on {}.", counted(cpus as u64, "CPU")))
        .brief(format!("{count} threads on {} (process {process})", counted(cpus as u64, "CPU")))
        .because(format!("{} for each CPU", count / cpus))
        .would(
            "Harmless while they sleep. If requests are short and each wakes another thread, nearly all of them become runnable \
             and wait for each other; record it under load: unstarve record, unstarve explain.",
        )
        .done()
}
