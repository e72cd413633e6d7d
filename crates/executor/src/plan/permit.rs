//! Checks whether a plan's authority permits its steps, by [`crate::authority`].

use unstarve_change::{Change, Place, Target, TaskKey, Thread, Value};
use unstarve_facts::flag;
use unstarve_model::{Comm, Tid, clean};
use unstarve_sched::KernelThread;
use unstarve_sched::setting::File;

use super::{Obstacle, Planned};
use crate::authority::{self, Authority, Named, Needs, Subject, Thing, Toward};
use crate::journal::Step;
use crate::look::Look;
use crate::manual_changes::named;

/// Refuses each change with a step that requires more than was named, and records the users of programs.
pub(super) fn check<L: Look>(look: &L, plans: &mut [Planned<'_>], authority: &Authority) {
    for planned in plans.iter_mut().filter(|planned| planned.obstacle.is_none()) {
        let thread = planned.change.target.thread().map(|thread| thread.tid);
        for step in &planned.steps {
            if let (Some(tid), Ok(Subject::Program(user))) = (tid_of(step, thread), subject(look, step, thread)) {
                planned.users.insert(tid, user);
            }
        }
        let refusal = planned.steps.iter().find_map(|step| refusal(look, step, thread, authority).err());
        if let Some(obstacle) = refusal {
            planned.steps.clear();
            planned.obstacle = Some(obstacle);
        }
    }
}

fn refusal<L: Look>(look: &L, step: &Step, thread: Option<Tid>, authority: &Authority) -> Result<(), Obstacle> {
    let subject = subject(look, step, thread)?;
    let needed = authority::needs(authority.author, subject, toward(step));
    let is_enough = match needed {
        Needs::Nothing => true,
        Needs::Remedy => authority.named != Named::Nothing,
        Needs::Thing => is_named(look, step, thread, authority),
    };
    if is_enough {
        return Ok(());
    }
    let whose = match subject {
        Subject::Program(user) => format!("{}, uid {user}", named(step)),
        Subject::Group(owner) => format!("{}, whose directory belongs to uid {owner}", named(step)),
        _ => named(step),
    };
    let with = (needed == Needs::Thing).then(|| thing_of(look, step, thread)).flatten();
    let shown = |value: &Value| clean(&value.to_string()).into_owned();
    Err(obstacle(authority, whose, shown(&step.old), shown(&step.new), with))
}

fn obstacle(authority: &Authority, what: String, old: String, new: String, with: Option<String>) -> Obstacle {
    match authority.author {
        authority::Author::Trusted => Obstacle::NotAsked { what, old, new },
        author => Obstacle::Unnamed { what, old, new, author, with },
    }
}

/// Checks a change whose thread or group does not exist here: its printed command or file would take effect elsewhere.
pub(super) fn unseen<'a>(change: &'a Change, authority: &Authority) -> Option<Obstacle> {
    let (subject, toward, what, with) = match &change.target {
        Target::File { path } if group_file(path).is_some() => {
            let (file, directory) = group_file(path)?;
            let content = |value: Option<&'a Value>| value.and_then(Value::as_content);
            let toward = authority::of_group(file, content(change.was.as_ref()), content(change.value()));
            (Subject::Group(0), toward, clean(path).into_owned(), directory.to_owned())
        }
        target => {
            let thread = target.thread()?;
            let what = format!("{} (thread {})", clean(&thread.comm), thread.tid);
            (kind_elsewhere(thread), toward_elsewhere(change), what, thread.tid.to_string())
        }
    };
    let is_named = |thing: &Thing| match thing {
        Thing::Task(tid) => tid.to_string() == with,
        Thing::Group(directory) => *directory == with,
    };
    let is_enough = match authority::needs(authority.author, subject, toward) {
        Needs::Nothing => true,
        Needs::Remedy => authority.named != Named::Nothing,
        Needs::Thing => names(authority, is_named),
    };
    let old = change.was.as_ref().map_or("?".to_owned(), |was| clean(&was.to_string()).into_owned());
    let what = format!("{what}, which is not here");
    let new = change.value().map_or("less".to_owned(), |new| clean(&new.to_string()).into_owned());
    (!is_enough).then(|| obstacle(authority, what, old, new, Some(clean(&with).into_owned())))
}

/// A printed command checks itself whether the thread is a kernel thread, and a policy's rule does not take a program for one.
fn kind_elsewhere(thread: &Thread) -> Subject {
    let is_called_so = || KernelThread::is_name_of_one(&Comm::from(thread.comm.as_str()));
    match thread.kernel_thread.unwrap_or_else(is_called_so) {
        true => Subject::KernelThread,
        false => Subject::Elsewhere,
    }
}

fn toward_elsewhere(change: &Change) -> Toward {
    match change.value() {
        Some(new) if new.is_above_all_ordinary() => Toward::RealTime,
        Some(new) if new.is_privileged() => Toward::More,
        _ => Toward::Other,
    }
}

/// Whether the changed thing itself was named.
pub(super) fn is_named<L: Look>(look: &L, step: &Step, thread: Option<Tid>, authority: &Authority) -> bool {
    let tid = tid_of(step, thread);
    let process = tid.and_then(|tid| look.process_of(TaskKey { tid, start: look.start_of(tid)? })).map(|key| key.tid);
    names(authority, |thing| match (thing, &step.target) {
        (Thing::Task(named), _) => tid == Some(*named) || process == Some(*named),
        (Thing::Group(directory), Place::File { path, .. }) => directory_of(path) == Some(directory),
        _ => false,
    })
}

fn names(authority: &Authority, is_it: impl Fn(&Thing) -> bool) -> bool {
    match &authority.named {
        Named::Nothing => false,
        Named::Remedy(things) => things.iter().any(is_it),
        Named::Everything => true,
    }
}

/// What `--target` would have to name.
fn thing_of<L: Look>(look: &L, step: &Step, thread: Option<Tid>) -> Option<String> {
    if let Place::File { path, .. } = &step.target {
        return directory_of(path).map(|directory| clean(directory).into_owned());
    }
    let tid = tid_of(step, thread)?;
    // Name the process instead of many threads of it.
    let is_process = thread.is_some_and(|named| named != tid && look.threads_of(named).contains(&tid));
    Some(if is_process { thread? } else { tid }.to_string())
}

fn directory_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(directory, _)| directory)
}

/// A cgroup's setting, and the cgroup's directory.
fn group_file(path: &str) -> Option<(File<'_>, &str)> {
    let file = File::at(path)?;
    Some((file, file.group()?))
}

fn tid_of(step: &Step, thread: Option<Tid>) -> Option<Tid> {
    match &step.target {
        Place::Task(key) => Some(key.tid),
        Place::Session { .. } => thread,
        _ => None,
    }
}

fn subject<L: Look>(look: &L, step: &Step, thread: Option<Tid>) -> Result<Subject, Obstacle> {
    if let Place::File { path, .. } = &step.target {
        if group_file(path).is_none() {
            return Ok(Subject::Machine);
        }
        let unknown = || Obstacle::NotHere { what: clean(path).into_owned(), hint: "" };
        return look.owner_of_directory(path).map(Subject::Group).ok_or_else(unknown);
    }
    let Some(tid) = tid_of(step, thread) else { return Ok(Subject::Machine) };
    if look.flags_of(tid).ok_or(Obstacle::Ended(tid))? & flag::KTHREAD != 0 {
        return Ok(Subject::KernelThread);
    }
    look.user_of(tid).map(Subject::Program).ok_or(Obstacle::Ended(tid))
}

fn toward(step: &Step) -> Toward {
    match (&step.target, &step.old, &step.new) {
        (Place::File { path, .. }, old, new) => group_file(path)
            .map_or(Toward::Other, |(file, _)| authority::of_group(file, old.as_content(), new.as_content())),
        (Place::Feature { .. }, ..) => Toward::Other,
        (_, old, new) if new.raises(old) && new.is_above_all_ordinary() => Toward::RealTime,
        (_, old, new) if new.raises(old) => Toward::More,
        _ => Toward::Other,
    }
}
