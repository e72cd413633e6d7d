//! What changes mean on this host: what is there, what it holds now, and what stands in the way.

mod answer;
mod permit;
mod this_host;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustc_hash::FxHashSet;
use unstarve_change::{Aspect, Change, Place, Relative, Selector, Target, TaskKey, Thread, To, Value};
use unstarve_facts::flag;
use unstarve_model::Tid;
use unstarve_sched::setting::cgroup::{self, CgroupVersion};
use unstarve_sched::setting::{self, Content, File, Harm, check_harm, feature};

pub use answer::{Answer, answer, obstacles};

use crate::authority::{Author, Authority};
use crate::claim::{self, Contradiction, Direction, Live, Verdict};
use crate::host::Host;
use crate::journal::Step;

/// What a plan has to know of a host beside values.
pub trait Look: Host {
    /// When a thread was created; `None` if there is none of this id.
    fn start_of(&self, tid: Tid) -> Option<u64>;
    /// Its name.
    fn comm_of(&self, tid: Tid) -> Option<String>;
    /// Its `PF_*` flags.
    fn flags_of(&self, tid: Tid) -> Option<u64>;
    /// The user that it runs for.
    fn user_of(&self, tid: Tid) -> Option<u32>;
    /// Who owns the directory of a file: of a cgroup, to whom it was delegated.
    fn owner_of_directory(&self, path: &str) -> Option<u32>;
    /// The threads of a process.
    fn threads_of(&self, process: Tid) -> Vec<Tid>;
    /// Kernel threads whose names begin so.
    fn kernel_threads(&self, prefix: &str) -> Vec<Tid>;
    /// The file's place, if it is there.
    fn file(&self, path: &str) -> Option<Place>;
    /// What a file holds.
    fn text(&self, path: &str) -> io::Result<String>;
    /// The names of an interrupt's handlers; `None` if there is no such interrupt.
    fn handlers_of(&self, irq: u32) -> Option<Vec<String>>;
    /// The number of the session by which a thread competes with those of other sessions: its autogroup.
    fn session_of(&self, tid: Tid) -> Option<u64>;
    /// The file with the weight of the top-level group in which a thread sits, and of which hierarchy it is; `None` in the root group.
    fn weight_file(&self, tid: Tid) -> Option<(String, CgroupVersion)>;
}

/// Whether numbers in a recording (of threads, interrupts, queues, CPUs) mean the same on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// It was made here, since this boot.
    Hold,
    /// It was made elsewhere, or before; or nobody knows.
    AreStrange,
}

/// A change as it would be made here.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The change.
    pub change: &'a Change,
    /// What would be written. Empty if it is so already, or if something stands in the way.
    pub steps: Vec<Step>,
    /// How many things have the value already.
    pub already: usize,
    /// What stands in the way.
    pub obstacle: Option<Obstacle>,
    /// It has ended, and others that are to have the same are still there: nothing is left to do for it.
    pub gone: Option<Tid>,
    /// For whom the programs run that would be changed.
    pub users: BTreeMap<Tid, u32>,
}

/// Why a change cannot be made here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Only a person can do it.
    #[error("only a person can do this")]
    ForAPerson,
    /// From the next boot on.
    #[error("it is read at boot: put it on the kernel's command line (--as cmdline)")]
    AtBoot,
    /// The recording is of another host or boot.
    #[error("thread {0} is of another host or boot than this one; its number means nothing here")]
    Strange(Tid),
    /// As of a thread, of a file with a number in its path.
    #[error("{path} is of another host or boot than this one; the number of the {thing} means nothing here")]
    StrangeNumber {
        /// Where.
        path: String,
        /// What is numbered.
        thing: &'static str,
    },
    /// The number belongs to another interrupt now.
    #[error("interrupt {irq} is another one by now: its handler was {was}, and is {now}")]
    AnotherInterrupt {
        /// Which.
        irq: u32,
        /// Its handlers when it was recorded.
        was: String,
        /// Those that it has.
        now: String,
    },
    /// The thread has ended.
    #[error("thread {0} has ended")]
    Ended(Tid),
    /// The id belongs to another thread now.
    #[error("thread {0} is another one by now")]
    Another(Tid),
    /// The first process: what it has, all that is started has.
    #[error("thread {0} is the host's init, whose scheduling everything that it starts would inherit")]
    Init(Tid),
    /// Threads that must not be touched.
    #[error("thread {0} ({1}) is one that stands above all others for the kernel's own safety")]
    Untouchable(Tid, String),
    /// A program under a kernel thread's name would be raised.
    #[error(
        "thread {0} is a program that calls itself {1}, as a kernel thread is called; it is not raised for its name"
    )]
    Impostor(Tid, String),
    /// The recording says that it is a kernel thread, which it is not.
    #[error(
        "thread {0} ({1}) is a program, and the recording says that it is a kernel thread: nothing is changed on its word"
    )]
    NoKernelThread(Tid, String),
    /// The recording says that it is a program, which it is not.
    #[error(
        "thread {0} ({1}) is a kernel thread, and the recording says that it is a program: nothing is changed on its word"
    )]
    KernelThread(Tid, String),
    /// It runs for another user than the recording says, and would be raised.
    #[error("thread {tid} runs for uid {now}, and the recording says for uid {was}; it is not raised: record again")]
    OtherUser {
        /// Which.
        tid: Tid,
        /// As recorded.
        was: u32,
        /// As it is.
        now: u32,
    },
    /// It has another value than the recording says, which an undo would write.
    #[error(
        "{what} is {now}, and the recording says {was}: a printed undo would write what the recording says; use --apply, which reads it here"
    )]
    OtherValue {
        /// What.
        what: String,
        /// As recorded.
        was: String,
        /// As it is.
        now: String,
    },
    /// It has another name than the recording says, and would be raised.
    #[error("thread {tid} is called {now}, and was {was} when it was recorded; it is not raised: record again")]
    Renamed {
        /// Which.
        tid: Tid,
        /// As recorded.
        was: String,
        /// As it is.
        now: String,
    },
    /// Nobody has asked for it.
    #[error(
        "{what}: {old} -> {new}: a program is put before all ordinary tasks only if the remedy is named (--remedy)"
    )]
    NotAsked {
        /// Whose value.
        what: String,
        /// What it is.
        old: String,
        /// What it would be.
        new: String,
    },
    /// It would be changed on the word of a recording that others could have written.
    #[error("{what}: {old} -> {new}: {} could have written this into the recording; {}", author, asked(with))]
    Unnamed {
        /// Whose value.
        what: String,
        /// What it is.
        old: String,
        /// What it would be.
        new: String,
        /// Who could have written it.
        author: Author,
        /// What `--target` has to name; nothing if `--remedy` is enough.
        with: Option<String>,
    },
    /// Programs of several users would be raised: all that is known to be alike is a name, and anybody can take a name.
    #[error(
        "these threads belong to several users ({0}), so that one may have taken the name of another's; name each that you \
         know (--remedy N --target TID)"
    )]
    SeveralUsers(String),
    /// `PF_NO_SETAFFINITY`.
    #[error("the kernel does not let thread {0} be moved to other CPUs")]
    Bound(Tid),
    /// This kernel or host does not have it.
    #[error("{what} is not here{hint}")]
    NotHere {
        /// What.
        what: String,
        /// Why perhaps.
        hint: &'static str,
    },
    /// Nothing that any unstarve sets.
    #[error("{0} is no setting of the scheduler's, so it is not written")]
    NoSetting(String),
    /// It would harm the machine.
    #[error("{path} = {value}: {harm}")]
    Harm {
        /// Where.
        path: String,
        /// What.
        value: String,
        /// Why.
        harm: Harm,
    },
    /// The value has no meaning for it.
    #[error("{0} is not what it can be set to")]
    Unfit(String),
    /// Somebody has changed it since it was recorded.
    #[error("{what} was {was} when it was recorded, and is {now} now: record again")]
    ChangedSince {
        /// What.
        what: String,
        /// Then.
        was: String,
        /// Now.
        now: String,
    },
    /// It cannot be read.
    #[error("{what} cannot be read: {}", unstarve_host::refusal(what, error))]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        error: io::Error,
    },
}

fn asked(with: &Option<String>) -> String {
    match with {
        Some(thing) => format!("name it to allow it: --remedy N --target {thing}"),
        None => "name the remedy to allow it: --remedy N".to_owned(),
    }
}

impl Obstacle {
    /// Whether it is about who is meant and who asks: then nothing is printed either that does it somewhere else or later.
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

    /// If it is one thread's, and others' may be the same: the thread, and what is said of several.
    pub fn of_threads(&self) -> Option<(Tid, &'static str)> {
        match self {
            Obstacle::Strange(tid) => {
                Some((*tid, "are of another host or boot than this one; their numbers mean nothing here"))
            }
            Obstacle::Ended(tid) => Some((*tid, "have ended")),
            Obstacle::Another(tid) => Some((*tid, "are other ones by now")),
            Obstacle::Bound(tid) => Some((*tid, "cannot be moved to other CPUs: the kernel does not let them")),
            _ => None,
        }
    }
}

/// What each change would do on this host, and whether it may by that authority. Changes nothing. `rule` is what the journal will say it
/// was for.
pub fn plan<'a, L: Look>(look: &L, changes: &'a [Change], rule: &str, authority: &Authority) -> Vec<Planned<'a>> {
    let none =
        |change| Planned { change, steps: Vec::new(), already: 0, obstacle: None, gone: None, users: BTreeMap::new() };
    let mut plans: Vec<Planned<'a>> = changes
        .iter()
        .map(|change| match steps(look, change, rule, authority.ids) {
            Ok((steps, already)) => Planned { steps, already, ..none(change) },
            Err(obstacle) => Planned { obstacle: Some(obstacle), ..none(change) },
        })
        .collect();
    // A thread that is named twice is changed once.
    let mut seen: FxHashSet<(Place, Aspect)> = FxHashSet::default();
    for planned in &mut plans {
        planned.steps.retain(|step| seen.insert((step.target.clone(), step.new.aspect())));
    }
    refuse_several_users(look, &mut plans, authority);
    permit::check(look, &mut plans, authority);
    leave_the_ended(&mut plans);
    plans
}

/// Why these changes are not printed as commands or files that make them, here later or on another host. What merely has no thread or
/// file here now is printed: commands look for themselves.
pub fn refusals_to_print<L: Look>(look: &L, changes: &[Change], authority: &Authority) -> Vec<Obstacle> {
    let plans = plan(look, changes, "", authority);
    let refusal = |planned: Planned<'_>| match planned.obstacle {
        Some(obstacle) if obstacle.is_about_identity() => Some(obstacle),
        Some(Obstacle::Ended(_) | Obstacle::Another(_) | Obstacle::Strange(_) | Obstacle::NotHere { .. }) => {
            permit::unseen(planned.change, authority)
        }
        None if planned.gone.is_some() => permit::unseen(planned.change, authority),
        None if authority.author != Author::Trusted => other_value(&planned),
        _ => None,
    };
    plans.into_iter().filter_map(refusal).collect()
}

/// A file's value that is another one here than the recording claims. Printed lines for threads compare it themselves.
fn other_value(planned: &Planned<'_>) -> Option<Obstacle> {
    let was = planned.change.was.as_ref()?;
    let is_other = |step: &&Step| !matches!(step.target, Place::Task(_)) && !step.old.same(was);
    let step = planned.steps.iter().find(is_other)?;
    let (what, was, now) = (step.target.to_string(), was.to_string(), step.old.to_string());
    Some(Obstacle::OtherValue { what, was, now })
}

/// Of several threads that are to have the same, those that have ended need nothing: what a culprit started meanwhile is no reason to
/// leave the culprit alone.
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

/// A role is a name, and anybody can take one: what raises programs raises those of one user.
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

/// The thread that a recording means, if it is still there.
fn identify<L: Look>(look: &L, thread: &Thread, ids: Ids) -> Result<TaskKey, Obstacle> {
    if ids == Ids::AreStrange {
        return Err(Obstacle::Strange(thread.tid));
    }
    let live = compared(look, thread, Direction::Otherwise)?;
    Ok(TaskKey { tid: thread.tid, start: live.start })
}

/// The thread as it is, if it is what the recording says.
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

/// What a change claims of one of its threads: of a process's other threads their names are their own.
fn claims(change: &Change, tid: Tid) -> Thread {
    match &change.target {
        Target::Thread(thread) | Target::Threads(Selector::Process(thread)) if thread.tid == tid => thread.clone(),
        Target::Threads(Selector::Process(process)) => {
            Thread { kernel_thread: process.kernel_thread, user: process.user, ..Thread::known_by(tid, "") }
        }
        // Selected among the kernel's.
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
            // One of several that has ended meanwhile needs nothing.
            Err(Obstacle::Ended(_)) if keys.len() > 1 => continue,
            checked => checked?,
        }
        let place = Place::Task(*key);
        let unreadable = |error| Obstacle::Unreadable { what: format!("thread {}", key.tid), error };
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
            // Found by its number a moment ago: what is asked here is the rest.
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

/// The nice value of the session in which a thread is.
fn of_session<L: Look>(look: &L, change: &Change, rule: &str, key: TaskKey) -> Result<Steps, Obstacle> {
    let Some(new @ Value::Nice(_)) = change.value() else { return Err(unfit(change)) };
    let missing = || Obstacle::NotHere { what: format!("a session (autogroup) of thread {}", key.tid), hint: "" };
    let id = look.session_of(key.tid).ok_or_else(missing)?;
    if look.session_of(Tid(1)) == Some(id) {
        return Err(Obstacle::Init(Tid(1)));
    }
    let place = Place::Session { id };
    let unreadable = |error| Obstacle::Unreadable { what: place.to_string(), error };
    let old = look.read(&place, Aspect::Nice).map_err(unreadable)?.ok_or(Obstacle::Ended(key.tid))?;
    if old.same(new) {
        return Ok((Vec::new(), 1));
    }
    check_since(change.was.as_ref(), &old, || place.to_string())?;
    let comm = look.comm_of(key.tid).unwrap_or_default();
    Ok((vec![Step::new(place, &comm, rule, old, new.clone())], 0))
}

/// Somebody may have changed it since it was recorded: what was proposed then may be the opposite of a cure now.
fn check_since(was: Option<&Value>, now: &Value, what: impl Fn() -> String) -> Result<(), Obstacle> {
    match was.filter(|was| !was.same(now)) {
        None => Ok(()),
        Some(was) => Err(Obstacle::ChangedSince { what: what(), was: was.to_string(), now: now.to_string() }),
    }
}

/// The CPU stoppers, hotplug and idle injection run above everybody for the kernel's own safety.
const UNTOUCHABLE: [&str; 5] = ["migration/", "cpuhp/", "watchdog/", "idle_inject/", "stopper/"];

fn check_task<L: Look>(look: &L, tid: Tid, comm: &str, aspect: Aspect) -> Result<(), Obstacle> {
    let flags = look.flags_of(tid).ok_or(Obstacle::Ended(tid))?;
    // All of its threads: their children, too, would inherit what is changed.
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

/// Numbers of interrupts and queues are given out at each boot, and another host has other ones.
fn check_number<L: Look>(look: &L, path: &str, handlers: &[String], ids: Ids) -> Result<(), Obstacle> {
    let shown = |text: &str| unstarve_model::clean(text).into_owned();
    if let Some(thing) = File::at(path).and_then(File::numbered_thing).filter(|_| ids == Ids::AreStrange) {
        return Err(Obstacle::StrangeNumber { path: shown(path), thing });
    }
    let Some(irq) = setting::interrupt_of(path) else { return Ok(()) };
    // An interrupt that is gone is said of its file.
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
        Obstacle::Unreadable { what, error }
    };
    let old = look.read(&place, Aspect::Content).map_err(unreadable)?;
    let old = old.ok_or_else(|| Obstacle::NotHere { what: what(), hint: "" })?;
    if old.same(&new) {
        return Ok((Vec::new(), 1));
    }
    check_since(was, &old, what)?;
    Ok((vec![Step::new(place, "", rule, old, new)], 0))
}
