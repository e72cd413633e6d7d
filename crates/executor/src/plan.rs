//! Plans changes on this host: which targets exist, their current values, and what prevents the changes.

mod answer;
mod permit;
mod this_host;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use unstarve_change::{Aspect, Change, Place, Relative, Selector, Target, TaskKey, Thread, To, Value};
use unstarve_facts::flag;
use unstarve_model::Tid;
use unstarve_sched::setting::cgroup;
use unstarve_sched::setting::{self, Content, File, Harm, check_harm, feature};

pub use crate::look::{Ids, Look};
pub use answer::{Answer, answer, obstacles};

use crate::authority::{Author, Authority};
use crate::claim::{self, Contradiction, Direction, Live, Verdict};
use crate::journal::Step;

/// A change as planned for this host.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The change.
    pub change: &'a Change,
    /// The writes to make. Empty if the value is already set, or if there is an obstacle.
    pub steps: Vec<Step>,
    /// How many targets already have the value.
    pub already: usize,
    /// What prevents the change.
    pub obstacle: Option<Obstacle>,
    /// The thread has exited, and others of the same change still exist: nothing is left to do for it.
    pub gone: Option<Tid>,
    /// The users of the programs to change.
    pub users: BTreeMap<Tid, u32>,
}

/// Why a change cannot be made here.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Only a person can do it.
    #[error("only a person can do this")]
    ForAPerson,
    /// It takes effect only at boot.
    #[error("it is read at boot: put it on the kernel's command line (--as cmdline)")]
    AtBoot,
    /// The recording is of another host or boot.
    #[error("thread {0} is of another host or boot than this one; its number means nothing here")]
    Strange(Tid),
    /// The recording does not say of which host and boot it is.
    #[error(
        "thread {0} may be of another host or boot than this one: the recording does not say; its number may mean nothing here"
    )]
    OfUnknownHost(Tid),
    /// The same for a file with a number in its path.
    #[error(
        "{path} may be of another host or boot than this one: the recording does not say; the number of the {thing} may mean nothing here"
    )]
    NumberOfUnknownHost {
        /// The path.
        path: String,
        /// What the number counts.
        thing: &'static str,
    },
    /// The recording is of another host or boot, and the file has a number in its path.
    #[error("{path} is of another host or boot than this one; the number of the {thing} means nothing here")]
    StrangeNumber {
        /// The path.
        path: String,
        /// What the number counts.
        thing: &'static str,
    },
    /// The number belongs to another interrupt now.
    #[error("interrupt {irq} is another one by now: its handler was {was}, and is {now}")]
    AnotherInterrupt {
        /// The number.
        irq: u32,
        /// Its handlers when it was recorded.
        was: String,
        /// Its handlers now.
        now: String,
    },
    /// The thread has exited.
    #[error("thread {0} has ended")]
    Ended(Tid),
    /// The tid belongs to another thread now.
    #[error("thread {0} is another one by now")]
    Another(Tid),
    /// The init process: everything that it starts would inherit the value.
    #[error("thread {0} is the host's init, whose scheduling everything that it starts would inherit")]
    Init(Tid),
    /// Threads that must not be changed.
    #[error("thread {0} ({1}) is one that stands above all others for the kernel's own safety")]
    Untouchable(Tid, String),
    /// It would raise a program that has a kernel thread's name.
    #[error(
        "thread {0} is a program that calls itself {1}, as a kernel thread is called; it is not raised for its name"
    )]
    Impostor(Tid, String),
    /// The recording says that it is a kernel thread, but it is a program.
    #[error(
        "thread {0} ({1}) is a program, and the recording says that it is a kernel thread: nothing is changed on its word"
    )]
    NoKernelThread(Tid, String),
    /// The recording says that it is a program, but it is a kernel thread.
    #[error(
        "thread {0} ({1}) is a kernel thread, and the recording says that it is a program: nothing is changed on its word"
    )]
    KernelThread(Tid, String),
    /// The thread's uid differs from the recording, and it would be raised.
    #[error("thread {tid} runs for uid {now}, and the recording says for uid {was}; it is not raised: record again")]
    OtherUser {
        /// The thread.
        tid: Tid,
        /// The recorded uid.
        was: u32,
        /// The uid now.
        now: u32,
    },
    /// The value differs from the recording, and an undo would restore the recorded one.
    #[error(
        "{what} is {now}, and the recording says {was}: a printed undo would write what the recording says; use --apply, which reads it here"
    )]
    OtherValue {
        /// What would be changed.
        what: String,
        /// The recorded value.
        was: String,
        /// The value now.
        now: String,
    },
    /// The thread's name differs from the recording, and it would be raised.
    #[error("thread {tid} is called {now}, and was {was} when it was recorded; it is not raised: record again")]
    Renamed {
        /// The thread.
        tid: Tid,
        /// The recorded name.
        was: String,
        /// The name now.
        now: String,
    },
    /// Nobody has named the change.
    #[error(
        "{what}: {old} -> {new}: a program is put before all ordinary tasks only if the remedy is named (--remedy)"
    )]
    NotAsked {
        /// What would be changed.
        what: String,
        /// The value now.
        old: String,
        /// The value to set.
        new: String,
    },
    /// Only a recording that other users could have written asks for the change.
    #[error("{what}: {old} -> {new}: {} could have written this into the recording; {}", author, asked(with))]
    Unnamed {
        /// What would be changed.
        what: String,
        /// The value now.
        old: String,
        /// The value to set.
        new: String,
        /// Who could have written the recording.
        author: Author,
        /// What `--target` must name; `None` if `--remedy` is enough.
        with: Option<String>,
    },
    /// It would raise programs of several users: they have only a name in common, which any user can choose.
    #[error(
        "these threads belong to several users ({0}), so that one may have taken the name of another's; name each that you \
         know (--remedy N --target TID)"
    )]
    SeveralUsers(String),
    /// `PF_NO_SETAFFINITY`.
    #[error("the kernel does not let thread {0} be moved to other CPUs")]
    Bound(Tid),
    /// This kernel or host lacks it.
    #[error("{what} is not here{hint}")]
    NotHere {
        /// What is missing.
        what: String,
        /// A possible reason.
        hint: &'static str,
    },
    /// The path is not a known setting.
    #[error("{0} is no setting of the scheduler's, so it is not written")]
    NoSetting(String),
    /// The value would harm the machine.
    #[error("{path} = {value}: {harm}")]
    Harm {
        /// The path.
        path: String,
        /// The value.
        value: String,
        /// The reason.
        harm: Harm,
    },
    /// The setting does not take this value.
    #[error("{0} is not what it can be set to")]
    Unfit(String),
    /// The value has changed since it was recorded.
    #[error("{what} was {was} when it was recorded, and is {now} now: record again")]
    ChangedSince {
        /// What would be changed.
        what: String,
        /// The recorded value.
        was: String,
        /// The value now.
        now: String,
    },
    /// The value cannot be read.
    #[error("{what} cannot be read: {}", unstarve_host::refusal(what, error))]
    Unreadable {
        /// What cannot be read.
        what: String,
        /// The error.
        error: Arc<io::Error>,
    },
}

impl Obstacle {
    fn unreadable(what: String, error: io::Error) -> Obstacle {
        Obstacle::Unreadable { what, error: Arc::new(error) }
    }
}

fn asked(with: &Option<String>) -> String {
    match with {
        Some(thing) => format!("name it to allow it: --remedy N --target {thing}"),
        None => "name the remedy to allow it: --remedy N".to_owned(),
    }
}

impl Obstacle {
    /// Whether it concerns the identity of the target or the authority of the caller: then commands and files that make the
    /// change elsewhere or later are not printed either.
    pub fn is_about_identity(&self) -> bool {
        matches!(
            self,
            Obstacle::Init(_)
                | Obstacle::Untouchable(..)
                | Obstacle::Impostor(..)
                | Obstacle::NoKernelThread(..)
                | Obstacle::KernelThread(..)
                | Obstacle::OtherUser { .. }
                | Obstacle::Renamed { .. }
                | Obstacle::NotAsked { .. }
                | Obstacle::Unnamed { .. }
                | Obstacle::SeveralUsers(_)
        )
    }

    /// If it concerns one thread and may be the same for others: the thread, and the text for several.
    pub fn of_threads(&self) -> Option<(Tid, &'static str)> {
        match self {
            Obstacle::Strange(tid) => {
                Some((*tid, "are of another host or boot than this one; their numbers mean nothing here"))
            }
            Obstacle::OfUnknownHost(tid) => Some((
                *tid,
                "may be of another host or boot than this one: the recording does not say; their numbers may mean nothing here",
            )),
            Obstacle::Ended(tid) => Some((*tid, "have ended")),
            Obstacle::Another(tid) => Some((*tid, "are other ones by now")),
            Obstacle::Bound(tid) => Some((*tid, "cannot be moved to other CPUs: the kernel does not let them")),
            _ => None,
        }
    }
}

/// Plans each change on this host, and checks whether the authority permits it. Changes nothing. `rule` is the rule name for
/// the journal.
pub fn plan<'a, L: Look>(look: &L, changes: &'a [Change], rule: &str, authority: &Authority) -> Vec<Planned<'a>> {
    permit(look, draft(look, changes, rule, authority.ids), authority)
}

/// A plan before any authority was asked: reads the values of this host. Nothing is applied of it until [`permit`] has
/// checked it.
pub fn draft<'a, L: Look>(look: &L, changes: &'a [Change], rule: &str, ids: Ids) -> Vec<Planned<'a>> {
    let none =
        |change| Planned { change, steps: Vec::new(), already: 0, obstacle: None, gone: None, users: BTreeMap::new() };
    let mut plans: Vec<Planned<'a>> = changes
        .iter()
        .map(|change| match steps(look, change, rule, ids) {
            Ok((steps, already)) => Planned { steps, already, ..none(change) },
            Err(obstacle) => Planned { obstacle: Some(obstacle), ..none(change) },
        })
        .collect();
    // A thread that is listed twice is changed once.
    let mut seen: FxHashSet<(Place, Aspect)> = FxHashSet::default();
    for planned in &mut plans {
        planned.steps.retain(|step| seen.insert((step.target.clone(), step.new.aspect())));
    }
    plans
}

/// Refuses what the authority does not permit of a draft.
pub fn permit<'a, L: Look>(look: &L, draft: Vec<Planned<'a>>, authority: &Authority) -> Vec<Planned<'a>> {
    let mut plans = draft;
    refuse_several_users(look, &mut plans, authority);
    permit::check(look, &mut plans, authority);
    leave_the_ended(&mut plans);
    plans
}

/// Why these changes are not printed as commands or files that make them later or on another host. Changes whose thread or file
/// does not exist here now are printed, because commands check that themselves.
pub fn refusals_to_print(plan: &[Planned<'_>], authority: &Authority) -> Vec<Obstacle> {
    let refusal = |planned: &Planned<'_>| match &planned.obstacle {
        Some(obstacle) if obstacle.is_about_identity() => Some(obstacle.clone()),
        Some(
            Obstacle::Ended(_)
            | Obstacle::Another(_)
            | Obstacle::Strange(_)
            | Obstacle::OfUnknownHost(_)
            | Obstacle::NotHere { .. },
        ) => permit::unseen(planned.change, authority),
        None if planned.gone.is_some() => permit::unseen(planned.change, authority),
        None if authority.author != Author::Trusted => other_value(planned),
        _ => None,
    };
    plan.iter().filter_map(refusal).collect()
}

/// Reports a file whose value here differs from the recording. Printed lines for threads compare the value themselves.
fn other_value(planned: &Planned<'_>) -> Option<Obstacle> {
    let was = planned.change.was.as_ref()?;
    let is_other = |step: &&Step| !matches!(step.target, Place::Task(_)) && !step.old.same(was);
    let step = planned.steps.iter().find(is_other)?;
    let (what, was, now) = (step.target.to_string(), was.to_string(), step.old.to_string());
    Some(Obstacle::OtherValue { what, was, now })
}

/// Drops exited threads if others of the same change still exist: a child of the culprit that exited must not prevent changing
/// the culprit.
fn leave_the_ended(plans: &mut [Planned<'_>]) {
    let live: Vec<&To> = plans
        .iter()
        .filter(|planned| !planned.steps.is_empty())
        .filter_map(|planned| planned.change.to.as_ref())
        .collect();
    let ended = |planned: &Planned<'_>| match planned.obstacle {
        Some(Obstacle::Ended(tid)) if planned.change.to.as_ref().is_some_and(|to| live.contains(&to)) => Some(tid),
        _ => None,
    };
    let gone: Vec<Option<Tid>> = plans.iter().map(ended).collect();
    for (planned, gone) in plans.iter_mut().zip(gone).filter(|(_, gone)| gone.is_some()) {
        planned.gone = gone;
        planned.obstacle = None;
    }
}

/// A role is a name, and any user can choose a name, so raising by role is limited to programs of one user.
fn refuse_several_users<L: Look>(look: &L, plans: &mut [Planned<'_>], authority: &Authority) {
    let raised = |step: &Step| match &step.target {
        Place::Task(key) if step.new.raises(&step.old) => {
            let of_kernel = look.flags_of(key.tid).is_some_and(|flags| flags & flag::KTHREAD != 0);
            (!of_kernel).then(|| look.user_of(key.tid)).flatten()
        }
        _ => None,
    };
    let users: BTreeSet<u32> = plans.iter().flat_map(|planned| &planned.steps).filter_map(raised).collect();
    let is_unnamed = |step: &&Step| raised(step).is_some() && !permit::is_named(look, step, None, authority);
    if users.len() < 2 || !plans.iter().flat_map(|planned| &planned.steps).any(|step| is_unnamed(&step)) {
        return;
    }
    let list = users.iter().map(|user| format!("uid {user}")).collect::<Vec<_>>().join(", ");
    for planned in plans.iter_mut().filter(|planned| planned.steps.iter().any(|step| raised(step).is_some())) {
        planned.steps.clear();
        planned.obstacle = Some(Obstacle::SeveralUsers(list.clone()));
    }
}

type Steps = (Vec<Step>, usize);

fn steps<L: Look>(look: &L, change: &Change, rule: &str, ids: Ids) -> Result<Steps, Obstacle> {
    match &change.target {
        Target::Advice => Err(Obstacle::ForAPerson),
        Target::Boot { .. } => Err(Obstacle::AtBoot),
        Target::Thread(thread) => {
            let key = identify(look, thread, ids)?;
            of_tasks(look, change, rule, &[key])
        }
        Target::Session(thread) => {
            let key = identify(look, thread, ids)?;
            of_session(look, change, rule, key)
        }
        Target::Threads(selector) => {
            let keys = select(look, selector, ids)?;
            of_tasks(look, change, rule, &keys)
        }
        Target::File { path } => {
            let content = content_of(change)?;
            check_number(look, path, &change.handlers, ids)?;
            of_file(look, path, content, change.was.as_ref(), rule)
        }
        Target::GroupWeightOf(thread) => {
            let key = identify(look, thread, ids)?;
            let (path, version) = look.weight_file(key.tid).ok_or_else(|| Obstacle::NotHere {
                what: format!("a cgroup with a weight around thread {}", key.tid),
                hint: "",
            })?;
            let Some(To::Relative(Relative::WeightAtMost(weight))) = &change.to else { return Err(unfit(change)) };
            let weight = Content::of(cgroup::weight_in(version, *weight));
            let (steps, already) = of_file(look, &path, &weight, None, rule)?;
            let gets_more = |step: &Step| {
                let both = step.old.as_content().zip(step.new.as_content());
                both.zip(File::at(&path)).is_some_and(|((old, new), file)| file.gives_more(old, new))
            };
            if steps.iter().any(gets_more) { Ok((Vec::new(), 1)) } else { Ok((steps, already)) }
        }
        Target::Feature { name } => of_feature(look, name, content_of(change)?, change.was.as_ref(), rule),
        other => Err(Obstacle::Unfit(format!("{other:?}"))),
    }
}

fn content_of(change: &Change) -> Result<&Content, Obstacle> {
    let content = change.value().and_then(Value::as_content).filter(|content| content.is_line());
    content.ok_or_else(|| unfit(change))
}

fn unfit(change: &Change) -> Obstacle {
    let text = match &change.to {
        Some(To::Value(value)) => value.to_string(),
        Some(To::Relative(relative)) => format!("{relative:?}"),
        None => "nothing".to_owned(),
    };
    Obstacle::Unfit(unstarve_model::clean(&text).into_owned())
}

/// The thread in the recording, if it still exists.
fn identify<L: Look>(look: &L, thread: &Thread, ids: Ids) -> Result<TaskKey, Obstacle> {
    match ids {
        Ids::Hold => {}
        Ids::AreStrange => return Err(Obstacle::Strange(thread.tid)),
        Ids::AreUnknown => return Err(Obstacle::OfUnknownHost(thread.tid)),
    }
    let live = compared(look, thread, Direction::Otherwise)?;
    Ok(TaskKey { tid: thread.tid, start: live.start })
}

/// The live thread, if it agrees with the recording.
fn compared<L: Look>(look: &L, thread: &Thread, direction: Direction) -> Result<Live, Obstacle> {
    let tid = thread.tid;
    let live = Live::of(look, tid).ok_or(Obstacle::Ended(tid))?;
    let Verdict::Refused(contradiction) = claim::compare(thread, &live, direction) else { return Ok(live) };
    let comm = unstarve_model::clean(&live.comm).into_owned();
    Err(match contradiction {
        Contradiction::Another => Obstacle::Another(tid),
        Contradiction::Program => Obstacle::NoKernelThread(tid, comm),
        Contradiction::ProgramByName => Obstacle::Impostor(tid, comm),
        Contradiction::Kernel => Obstacle::KernelThread(tid, comm),
        Contradiction::User { was, now } => Obstacle::OtherUser { tid, was, now },
        Contradiction::Renamed => {
            Obstacle::Renamed { tid, was: unstarve_model::clean(&thread.comm).into_owned(), now: comm }
        }
    })
}

/// What a change claims about one of its threads: other threads of a process have names of their own.
fn claims(change: &Change, tid: Tid) -> Thread {
    match &change.target {
        Target::Thread(thread) | Target::Threads(Selector::Process(thread)) if thread.tid == tid => thread.clone(),
        Target::Threads(Selector::Process(process)) => {
            Thread { kernel_thread: process.kernel_thread, user: process.user, ..Thread::known_by(tid, "") }
        }
        // Selected among kernel threads.
        _ => Thread { kernel_thread: Some(true), ..Thread::known_by(tid, "") },
    }
}

fn select<L: Look>(look: &L, selector: &Selector, ids: Ids) -> Result<Vec<TaskKey>, Obstacle> {
    let (tids, what) = match selector {
        Selector::Process(process) => {
            let key = identify(look, process, ids)?;
            (look.threads_of(key.tid), format!("process {}", key.tid))
        }
        Selector::KernelThreads { prefix } => (look.kernel_threads(prefix), format!("a kernel thread {prefix}*")),
        workers @ Selector::Workers { .. } => {
            let mut tids = look.kernel_threads("kworker/");
            tids.retain(|&tid| look.comm_of(tid).is_some_and(|comm| workers.takes(&comm)));
            (tids, "a worker bound to a CPU".to_owned())
        }
        other => return Err(Obstacle::Unfit(format!("{other:?}"))),
    };
    let keys: Vec<TaskKey> =
        tids.into_iter().filter_map(|tid| Some(TaskKey { tid, start: look.start_of(tid)? })).collect();
    if keys.is_empty() { Err(Obstacle::NotHere { what, hint: "" }) } else { Ok(keys) }
}

fn of_tasks<L: Look>(look: &L, change: &Change, rule: &str, keys: &[TaskKey]) -> Result<Steps, Obstacle> {
    let aspect = change.aspect().ok_or_else(|| unfit(change))?;
    let (mut steps, mut already) = (Vec::new(), 0);
    for key in keys {
        let comm = look.comm_of(key.tid).unwrap_or_default();
        match check_task(look, key.tid, &comm, aspect) {
            // If one of several threads has exited, nothing is left to do for it.
            Err(Obstacle::Ended(_)) if keys.len() > 1 => continue,
            checked => checked?,
        }
        let place = Place::Task(*key);
        let unreadable = |error| Obstacle::unreadable(format!("thread {}", key.tid), error);
        let Some(old) = look.read(&place, aspect).map_err(unreadable)? else { continue };
        let new = match &change.to {
            Some(To::Value(value)) => value.clone(),
            Some(To::Relative(relative)) => relative_to(*relative, &old).ok_or_else(|| unfit(change))?,
            None => return Err(unfit(change)),
        };
        if old.same(&new) {
            already += 1;
        } else {
            let direction = if new.raises(&old) { Direction::Raised } else { Direction::Otherwise };
            let claims = claims(change, key.tid);
            // It was just found by tid, so only the other claims are checked.
            compared(look, &Thread { start: Some(key.start), ..claims }, direction)?;
            check_since(change.was.as_ref(), &old, || format!("thread {}", key.tid))?;
            steps.push(Step::new(place, &comm, rule, old, new));
        }
    }
    match keys {
        [key] if steps.is_empty() && already == 0 => Err(Obstacle::Ended(key.tid)),
        _ => Ok((steps, already)),
    }
}

/// The nice value of a thread's session.
fn of_session<L: Look>(look: &L, change: &Change, rule: &str, key: TaskKey) -> Result<Steps, Obstacle> {
    let Some(new @ Value::Nice(_)) = change.value() else { return Err(unfit(change)) };
    let missing = || Obstacle::NotHere { what: format!("a session (autogroup) of thread {}", key.tid), hint: "" };
    let id = look.session_of(key.tid).ok_or_else(missing)?;
    if look.session_of(Tid(1)) == Some(id) {
        return Err(Obstacle::Init(Tid(1)));
    }
    let place = Place::Session { id };
    let unreadable = |error| Obstacle::unreadable(place.to_string(), error);
    let old = look.read(&place, Aspect::Nice).map_err(unreadable)?.ok_or(Obstacle::Ended(key.tid))?;
    if old.same(new) {
        return Ok((Vec::new(), 1));
    }
    check_since(change.was.as_ref(), &old, || place.to_string())?;
    let comm = look.comm_of(key.tid).unwrap_or_default();
    Ok((vec![Step::new(place, &comm, rule, old, new.clone())], 0))
}

/// If the value has changed since the recording, the proposed value may now make things worse.
fn check_since(was: Option<&Value>, now: &Value, what: impl Fn() -> String) -> Result<(), Obstacle> {
    match was.filter(|was| !was.same(now)) {
        None => Ok(()),
        Some(was) => Err(Obstacle::ChangedSince { what: what(), was: was.to_string(), now: now.to_string() }),
    }
}

/// CPU stoppers, hotplug and idle injection run above everything for the kernel's own safety.
const UNTOUCHABLE: [&str; 5] = ["migration/", "cpuhp/", "watchdog/", "idle_inject/", "stopper/"];

fn check_task<L: Look>(look: &L, tid: Tid, comm: &str, aspect: Aspect) -> Result<(), Obstacle> {
    let flags = look.flags_of(tid).ok_or(Obstacle::Ended(tid))?;
    // All of its threads, because the children of each would inherit the value.
    if tid == Tid(1) || look.threads_of(Tid(1)).contains(&tid) {
        return Err(Obstacle::Init(tid));
    }
    let of_kernel = flags & flag::KTHREAD != 0;
    if of_kernel && UNTOUCHABLE.iter().any(|prefix| comm.starts_with(prefix)) {
        return Err(Obstacle::Untouchable(tid, comm.to_owned()));
    }
    if aspect == Aspect::Affinity && flags & flag::NO_SETAFFINITY != 0 {
        return Err(Obstacle::Bound(tid));
    }
    Ok(())
}

fn relative_to(relative: Relative, old: &Value) -> Option<Value> {
    match (relative, old) {
        (Relative::RuntimePercent(percent), Value::Deadline { runtime, deadline, period }) => {
            let runtime = (u128::from(*runtime) * u128::from(percent) / 100).try_into().ok()?;
            Some(Value::Deadline { runtime, deadline: *deadline, period: *period })
        }
        _ => None,
    }
}

fn of_file<L: Look>(look: &L, path: &str, to: &Content, was: Option<&Value>, rule: &str) -> Result<Steps, Obstacle> {
    let shown = || unstarve_model::clean(path).into_owned();
    if File::at(path).is_none() {
        return Err(Obstacle::NoSetting(shown()));
    }
    let other = |name: &str| look.text(&format!("/proc/sys/kernel/{name}")).ok();
    check_harm(path, to.as_str(), other).map_err(|harm| Obstacle::Harm {
        path: shown(),
        value: to.to_string(),
        harm,
    })?;
    let place = look.file(path).ok_or_else(|| Obstacle::NotHere { what: shown(), hint: hint(path) })?;
    one(look, place, Value::Content(to.clone()), was, rule)
}

/// Interrupts and queues are numbered at each boot, and differently on each host.
fn check_number<L: Look>(look: &L, path: &str, handlers: &[String], ids: Ids) -> Result<(), Obstacle> {
    let shown = |text: &str| unstarve_model::clean(text).into_owned();
    if let Some(thing) = File::at(path).and_then(File::numbered_thing) {
        let path = shown(path);
        match ids {
            Ids::Hold => {}
            Ids::AreStrange => return Err(Obstacle::StrangeNumber { path, thing }),
            Ids::AreUnknown => return Err(Obstacle::NumberOfUnknownHost { path, thing }),
        }
    }
    let Some(irq) = setting::interrupt_of(path) else { return Ok(()) };
    // A missing interrupt is reported for its file.
    let Some(now) = look.handlers_of(irq) else { return Ok(()) };
    if handlers.iter().all(|handler| now.contains(handler)) {
        return Ok(());
    }
    let now = if now.is_empty() { "none".to_owned() } else { shown(&now.join(", ")) };
    Err(Obstacle::AnotherInterrupt { irq, was: shown(&handlers.join(", ")), now })
}

fn hint(path: &str) -> &'static str {
    if path.starts_with("/sys/kernel/debug/") {
        ": mount debugfs, as root, on a kernel that is not locked down"
    } else {
        ""
    }
}

fn of_feature<L: Look>(
    look: &L,
    name: &str,
    word: &Content,
    was: Option<&Value>,
    rule: &str,
) -> Result<Steps, Obstacle> {
    let path = feature::FILES.into_iter().find(|path| look.file(path).is_some());
    let missing = || Obstacle::NotHere { what: format!("the feature {name}"), hint: hint(feature::FILES[0]) };
    let path = path.ok_or_else(missing)?.to_owned();
    if feature::name_of(word.as_str()) != name {
        return Err(Obstacle::Unfit(word.to_string()));
    }
    one(look, Place::Feature { path, name: name.to_owned(), root: None }, Value::Content(word.clone()), was, rule)
}

fn one<L: Look>(look: &L, place: Place, new: Value, was: Option<&Value>, rule: &str) -> Result<Steps, Obstacle> {
    let what = || unstarve_model::clean(&place.to_string()).into_owned();
    let unreadable = |error| {
        let what = if let Place::Feature { path, .. } = &place { path.clone() } else { what() };
        Obstacle::unreadable(what, error)
    };
    let old = look.read(&place, Aspect::Content).map_err(unreadable)?;
    let old = old.ok_or_else(|| Obstacle::NotHere { what: what(), hint: "" })?;
    if old.same(&new) {
        return Ok((Vec::new(), 1));
    }
    check_since(was, &old, what)?;
    Ok((vec![Step::new(place, "", rule, old, new)], 0))
}
