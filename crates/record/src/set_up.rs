//! Prepares an instance so that recording starts as soon as possible: the load to be recorded is often the reason why
//! the preparation takes long.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use unstarve_model::{CpuId, EventType};
use unstarve_readers::TICK_FUNCTIONS;

use crate::cpus::{CpuAvoidance, CpuProbes, GracePeriod, SetUpSpeed};
use crate::extra_events::{EXTRA_EVENTS, ExtraEvent, Filter};
use crate::instance::{EventName, Instance, KernelNames, name_of};
use crate::tracefs::TraceFs;
use crate::{BufferSize, Events, Guess, Notice, RecordError, buffer};

/// After this time the user is shown what the preparation waits for.
const MAX_SILENCE: Duration = Duration::from_millis(500);

/// An instance that is ready to record.
pub(crate) struct Ready {
    pub(crate) instance: Instance,
    pub(crate) set_up: SetUp,
    /// Keeps this thread off CPUs where it would not run.
    pub(crate) away: Option<CpuAvoidance>,
}

/// What was chosen for this kernel.
pub(crate) struct SetUp {
    pub(crate) clock: String,
    pub(crate) names: KernelNames,
    pub(crate) events: Vec<EventType>,
    pub(crate) absent: Vec<&'static str>,
    /// What predictions have to guess because events are absent, although they were requested.
    pub(crate) guesses: Vec<Guess>,
    /// All recorded events, including those for other programs.
    pub(crate) recorded: Vec<EventName>,
    pub(crate) interval: Duration,
}

/// The current step, to be shown to a user who waits.
#[derive(Default)]
pub(crate) struct Step(Mutex<String>);

impl Step {
    pub(crate) fn is(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether RCU grace periods end at the moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GracePeriods {
    /// They do.
    End,
    /// They do not, as long as a task monopolises a CPU.
    Waits,
}

/// Creates an instance that is ready except for `tracing_on`.
pub(crate) fn prepare(
    tracefs: &Arc<TraceFs>,
    events: Events,
    buffer: BufferSize,
    cpus: &[u32],
    speed: SetUpSpeed,
    notices: &mut dyn FnMut(Notice),
) -> Result<Ready, RecordError> {
    let calls = CpuProbes::start(cpus, speed);
    // A CPU that a real-time task monopolises has no ordinary load, so the scheduler prefers it for tasks that wake up,
    // including our threads, which would not run there.
    let absent = calls.absent();
    let away = CpuAvoidance::from(&absent);
    let grace_period = GracePeriod::begin(speed);
    let step = Step::default();
    // The kernel can block any of this, so another thread reports what is being waited for.
    let (instance, clock, names, kernel) = watched(&step, notices, || {
        step.is("a tracing instance");
        let instance = Instance::create(Arc::clone(tracefs))?;
        // If the kernel cannot tell, a user who waits is still shown the current step.
        let kernel = if grace_period.has_ended().unwrap_or(true) { GracePeriods::End } else { GracePeriods::Waits };
        step.is("the clock of a tracing instance, which waits for RCU");
        let clock = match kernel {
            GracePeriods::End => instance.choose_clock()?,
            GracePeriods::Waits => instance.clock()?,
        };
        step.is("the options of a tracing instance");
        instance.reset_options()?;
        let names = instance.stop_noting_names();
        Ok((instance, clock, names, kernel))
    })?;
    // Asked late, because longer watching makes it more reliable, and used at once.
    let silent = calls.silent();
    drop(away);
    let away = CpuAvoidance::from(&silent);
    if !silent.is_empty() || kernel == GracePeriods::Waits {
        let kernel_waits = kernel == GracePeriods::Waits;
        let cpus = silent.iter().copied().map(CpuId).collect();
        notices(Notice::Starved { cpus, waited: speed.late(), kernel_waits });
    }
    let set_up = watched(&step, notices, || {
        let small = if kernel == GracePeriods::Waits { cpus } else { &silent };
        let smallest = buffer::size(&instance, buffer, cpus, small, &step)?;
        step.is("the events of a tracing instance");
        instance.set("tracing_on", "0")?;
        let Enabled { events, absent, recorded, guesses } = enable_events(&instance, events)?;
        let interval = buffer::fetch_interval(smallest);
        Ok(SetUp { clock, names, events, absent, guesses, recorded, interval })
    })?;
    Ok(Ready { instance, set_up, away })
}

/// What was enabled.
struct Enabled {
    /// The events that the analysis uses.
    events: Vec<EventType>,
    /// The names of those that this kernel lacks.
    absent: Vec<&'static str>,
    /// All enabled events.
    recorded: Vec<EventName>,
    /// What stays a guess because this kernel lacks an event.
    guesses: Vec<Guess>,
}

/// Enables the events that the analysis uses, as far as this kernel has them.
fn enable_events(instance: &Instance, events: Events) -> Result<Enabled, RecordError> {
    // `softirq_raise` comes with nearly each `softirq_entry`, and the raiser does not change how long a softirq took.
    // Block events come with every request, and some hosts have more requests than switches.
    let used = EventType::ALL.iter().copied().filter(|&event| match event {
        EventType::SoftirqRaise => false,
        event if event.is_of_block_layer() => events >= Events::WithBlock,
        _ => true,
    });
    let (mut events_read, absent): (Vec<_>, Vec<_>) = used.partition(|&event| instance.has(name_of(event)));
    if absent.contains(&EventType::Switch) {
        return Err(RecordError::NoSwitchEvent);
    }
    let mut recorded: Vec<EventName> = events_read.iter().copied().map(name_of).collect();
    for &event in &recorded {
        instance.enable(event)?;
    }
    let mut absent: Vec<&str> = absent.into_iter().map(EventType::name).collect();
    let extra = if events == Events::Predictable { EXTRA_EVENTS } else { &[] };
    let (present, missing): (Vec<&ExtraEvent>, Vec<_>) = extra.iter().partition(|event| instance.has(event.name));
    absent.extend(missing.iter().map(|event| event.name.1));
    let mut guesses: Vec<Guess> = missing.iter().map(|event| event.settles).collect();
    if !present.is_empty() {
        let no_ticks = no_ticks();
        for event in present {
            // Without its filter an event costs more, and says the same.
            let _ = match &event.filter {
                Filter::All => Ok(()),
                Filter::Expression(expression) => instance.filter(event.name, expression),
                Filter::NoTicks => instance.filter(event.name, &no_ticks),
            };
            // One that cannot be enabled is as good as absent: what it would settle stays a guess.
            if instance.enable(event.name).is_err() {
                absent.push(event.name.1);
                guesses.push(event.settles);
                continue;
            }
            recorded.push(event.name);
            events_read.extend(EventType::from_name(event.name.1));
        }
    }
    guesses.sort_unstable();
    guesses.dedup();
    Ok(Enabled { events: events_read, absent, recorded, guesses })
}

/// Keeps records of timers whose function is not a tick's. Empty, which is no filter, if the functions' addresses are hidden.
fn no_ticks() -> String {
    let symbols = File::open("/proc/kallsyms").map(|file| BufReader::with_capacity(1 << 16, file));
    let lines = symbols.into_iter().flat_map(|symbols| symbols.split(b'\n').map_while(Result::ok));
    lines.filter_map(|line| tick_filter(&line)).collect::<Vec<_>>().join(" && ")
}

/// Of a line `ffffffff81234560 t tick_nohz_handler`.
fn tick_filter(line: &[u8]) -> Option<String> {
    let mut fields = line.split(u8::is_ascii_whitespace);
    let (address, name) = (fields.next()?, fields.nth(1)?);
    let address = std::str::from_utf8(address).ok().filter(|address| address.bytes().any(|digit| digit != b'0'))?;
    TICK_FUNCTIONS.contains(&name).then(|| format!("function != 0x{address}"))
}

/// Runs `work` in a thread of its own, and reports the current step if it takes long.
pub(crate) fn watched<T: Send>(
    step: &Step,
    notices: &mut dyn FnMut(Notice),
    work: impl FnOnce() -> Result<T, RecordError> + Send,
) -> Result<T, RecordError> {
    let (done, waits) = channel::<()>();
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("unstarve-record".into());
        let worker = worker.spawn_scoped(scope, move || {
            let result = work();
            drop(done);
            result
        });
        let worker = worker.map_err(RecordError::system("cannot start a thread"))?;
        let mut said = String::new();
        while waits.recv_timeout(MAX_SILENCE) == Err(RecvTimeoutError::Timeout) {
            let what = step.text();
            if what != said {
                notices(Notice::Waiting { what: what.clone() });
                said = what;
            }
        }
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_ticks_are_left_out_where_addresses_are_known() {
        let filter = |line: &str| tick_filter(line.as_bytes());
        assert_eq!(filter("ffffffff811c3f70 t tick_nohz_handler").as_deref(), Some("function != 0xffffffff811c3f70"));
        assert_eq!(filter("0000000000000000 t tick_nohz_handler"), None, "kptr_restrict");
        assert_eq!(filter("ffffffff811c3f70 t hrtimer_wakeup"), None);
        assert_eq!(filter("nonsense"), None);
    }

    #[test]
    fn a_step_that_takes_long_is_reported() {
        let mut received = Vec::new();
        let step = Step::default();
        let result = watched(&step, &mut |notice| received.push(notice), || {
            step.is("a slow kernel");
            thread::sleep(MAX_SILENCE + Duration::from_millis(300));
            Ok(7)
        });
        assert!(matches!(result, Ok(7)));
        assert_eq!(received, [Notice::Waiting { what: "a slow kernel".into() }]);
    }
}
