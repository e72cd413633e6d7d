//! JSON of rt-app, the scheduler's load generator (`doc/tutorial.txt` of its sources).

use serde_json::{Map, Value, json};
use unstarve_model::SchedPolicy;

use super::{micros, names, phases};
use crate::{Actor, Class, Op, Program};

/// The program for rt-app, and what it cannot say.
pub fn rt_app(program: &Program) -> (String, Vec<String>) {
    let names = names(program);
    let mut lacks = Vec::new();
    let mut tasks = Map::new();
    for ((_, actor), name) in program.actors().zip(&names) {
        tasks.insert(name.clone(), task(actor, program, &names, &mut lacks));
    }
    if !program.cgroups.is_empty() {
        lacks.push("weights of cgroups: make the groups, and start rt-app with `taskgroup` as it is given".to_owned());
    }
    lacks.dedup();
    let global = json!({
        "duration": program.length.0.div_ceil(1_000_000_000),
        "calibration": "CPU0",
        "default_policy": "SCHED_OTHER",
        "pi_enabled": false,
        "lock_pages": true,
        "gnuplot": false,
    });
    let all = json!({ "tasks": tasks, "global": global });
    (serde_json::to_string_pretty(&all).unwrap_or_default() + "\n", lacks)
}

fn task(actor: &Actor, program: &Program, names: &[String], lacks: &mut Vec<String>) -> Value {
    let mut task = Map::new();
    let places: Vec<u32> = program.places_of(&actor.placement.cpus).iter().map(|cpu| cpu.0).collect();
    task.insert("cpus".to_owned(), json!(places));
    match actor.placement.class {
        Class::Fair { policy, nice } => {
            task.insert(
                "policy".to_owned(),
                json!(if policy == SchedPolicy::Idle { "SCHED_IDLE" } else { "SCHED_OTHER" }),
            );
            task.insert("priority".to_owned(), json!(nice));
        }
        Class::Realtime { policy, priority } => {
            task.insert("policy".to_owned(), json!(if policy == SchedPolicy::Rr { "SCHED_RR" } else { "SCHED_FIFO" }));
            task.insert("priority".to_owned(), json!(priority));
        }
        Class::Deadline(of) => {
            task.insert("policy".to_owned(), json!("SCHED_DEADLINE"));
            task.insert("dl-runtime".to_owned(), json!(micros(of.runtime)));
            task.insert("dl-deadline".to_owned(), json!(micros(of.deadline)));
            task.insert("dl-period".to_owned(), json!(micros(of.period)));
        }
    }
    if let Some(group) = actor.placement.cgroup.and_then(|index| program.cgroups.get(index)) {
        task.insert("taskgroup".to_owned(), json!(group.path));
    }
    let mut all = Map::new();
    for (number, phase) in phases(&actor.ops).into_iter().enumerate() {
        let mut one = Map::new();
        one.insert("loop".to_owned(), json!(phase.times));
        for (place, op) in phase.ops.iter().enumerate() {
            // Keys that begin with the event's name are events; the number tells them apart.
            let (event, value) = event(*op, names, lacks);
            one.insert(format!("{event}{place}"), value);
        }
        all.insert(format!("p{number}"), Value::Object(one));
    }
    task.insert("loop".to_owned(), json!(1));
    task.insert("phases".to_owned(), Value::Object(all));
    Value::Object(task)
}

fn event(op: Op, names: &[String], lacks: &mut Vec<String>) -> (&'static str, Value) {
    let name = |index: usize| names.get(index).cloned().unwrap_or_default();
    match op {
        Op::Run(time) => ("run", json!(micros(time))),
        Op::RunByClock(time) => ("runtime", json!(micros(time))),
        Op::SleepFor(time) => ("sleep", json!(micros(time))),
        Op::SleepUntil(time) => {
            lacks.push("a time at which a sleep ends: it sleeps for as long from its own beginning".to_owned());
            ("sleep", json!(micros(time)))
        }
        // A wakeup that comes before is lost in rt-app.
        Op::Block | Op::Take => ("suspend", json!("")),
        Op::Wake(actor) => ("resume", json!(name(actor.index()))),
        Op::WakeAfter(actor, _) => {
            lacks.push("a device that answers after a time: it answers at once".to_owned());
            ("resume", json!(name(actor.index())))
        }
    }
}
