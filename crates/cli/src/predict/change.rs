//! A change as typed: `nice:kworker/*=-11`, `weight:/kubepods=100`.

use anyhow::{Context, Result, bail};
use unstarve_change::{Change, FeatureState, Target, Thread, Value};
use unstarve_lab::scenario::Placement;
use unstarve_model::clean;
use unstarve_sim::Program;
use unstarve_timeline::TaskPattern;

/// What `--change` takes, for `--help` and messages.
pub const FORMS_OF_CHANGES: &str = "nice:TASK=N, policy:TASK=POLICY, cpus:TASK=LIST, weight:/GROUP=N, max:/GROUP=QUOTA/PERIOD (in us), \
                         sysctl.NAME=VALUE, debugfs.PATH=VALUE or sched_feature.NAME=on|off";

/// The changes of one `--change`, for the threads and groups of this program.
pub fn typed(text: &str, program: &Program) -> Result<Vec<Change>> {
    changes(text, program).with_context(|| format!("--change {}", clean(text)))
}

fn changes(text: &str, program: &Program) -> Result<Vec<Change>> {
    // Names of tasks may have colons and equals signs in them; settings and values have not.
    let Some((left, value)) = text.rsplit_once('=').filter(|(left, value)| !left.is_empty() && !value.is_empty())
    else {
        bail!("expected {FORMS_OF_CHANGES}");
    };
    if let Some(change) = of_kernel(left, value) {
        return Ok(vec![change?]);
    }
    let Some((key, of)) = left.split_once(':').filter(|(_, of)| !of.is_empty()) else {
        bail!("expected {FORMS_OF_CHANGES}")
    };
    match key {
        "nice" => {
            let nice: i32 =
                value.parse().ok().with_context(|| format!("`{value}` is no nice value; expected -20 to 19"))?;
            of_tasks(of, Placement::read(None, Some(nice), None), program)
        }
        "policy" => of_tasks(of, Placement::read(Some(value), None, None), program),
        "cpus" => of_tasks(of, Placement::read(None, None, Some(value)), program),
        "weight" if !value.parse().is_ok_and(|weight: u32| (1..=10_000).contains(&weight)) => {
            bail!("`{}` is no weight; expected 1 to 10000, 100 is the default", clean(value))
        }
        "weight" => Ok(vec![of_group(of, "cpu.weight", value, program)?]),
        "max" => Ok(vec![of_group(of, "cpu.max", &value.replace('/', " "), program)?]),
        _ => bail!("there is no setting `{}`; expected {FORMS_OF_CHANGES}", clean(key)),
    }
}

fn of_kernel(left: &str, value: &str) -> Option<Result<Change>> {
    let (family, name) = left.split_once('.')?;
    Some(Ok(match family {
        "sysctl" => Change::file(format!("/proc/sys/{}", name.replace('.', "/")), value),
        "debugfs" => Change::file(format!("/sys/kernel/debug/{name}"), value),
        "sched_feature" => {
            let state = match value {
                "on" => FeatureState::On,
                "off" => FeatureState::Off,
                _ => return Some(Err(anyhow::anyhow!("`{value}`: expected on or off"))),
            };
            Change::feature(name, state)
        }
        _ => return None,
    }))
}

fn of_tasks(of: &str, placement: Result<Placement, String>, program: &Program) -> Result<Vec<Change>> {
    let values: Vec<Value> = placement.map_err(anyhow::Error::msg)?.0;
    let pattern: TaskPattern = of.parse().ok().context("expected a task: its id or its name")?;
    let meant = program.actors.iter().filter(|actor| pattern.matches(&actor.comm.as_str().into(), actor.tid));
    for value in &values {
        if let Value::Affinity(cpus) = value
            && let Some(cpu) = cpus.iter().find(|cpu| !program.cpus.contains(*cpu))
        {
            bail!("the recorded host has no CPU {cpu}; it has {}", program.cpus);
        }
    }
    let changes: Vec<Change> = meant
        .flat_map(|actor| {
            let thread = Thread::known_by(actor.tid, &actor.comm);
            values.iter().map(move |value| Change::of(Target::Thread(thread.clone()), value.clone()))
        })
        .collect();
    if changes.is_empty() {
        bail!("no thread that ran or waited in the recording is `{}`", clean(of));
    }
    Ok(changes)
}

fn of_group(path: &str, file: &str, value: &str, program: &Program) -> Result<Change> {
    if !program.cgroups.iter().any(|group| group.path == path) {
        let known: Vec<&str> = program.cgroups.iter().map(|group| group.path.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { clean(&known.join(", ")).into_owned() };
        bail!("no cgroup of the recording with threads and a weight is `{}`; there is {known}", clean(path));
    }
    Ok(Change::file(format!("{}{path}/{file}", program.cgroup_mount()), value))
}
