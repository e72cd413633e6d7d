//! Prepares an instance so that recording starts as soon as possible: the load to be recorded is often the reason why
//! the preparation takes long.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use unstarve_model::{CpuId, EventType};

use crate::cpus::{CpuAvoidance, CpuProbes, GracePeriod, SetUpSpeed};
use crate::instance::{EventName, Instance, KernelNames, name_of};
use crate::tracefs::TraceFs;
use crate::{BlockEvents, BufferSize, Notice, RecordError, buffer};

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
enum Kernel {
    /// They do.
    Answers,
    /// They do not, as long as a task monopolises a CPU.
    Waits,
}

/// Creates an instance that is ready except for `tracing_on`.
pub(crate) fn prepare(
    tracefs: &Arc<TraceFs>,
    block: BlockEvents,
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
        let kernel = if grace_period.has_ended().unwrap_or(true) { Kernel::Answers } else { Kernel::Waits };
        step.is("the clock of a tracing instance, which waits for RCU");
        let clock = match kernel {
            Kernel::Answers => instance.choose_clock()?,
            Kernel::Waits => instance.clock()?,
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
    if !silent.is_empty() || kernel == Kernel::Waits {
        let kernel_waits = kernel == Kernel::Waits;
        let cpus = silent.iter().copied().map(CpuId).collect();
        notices(Notice::Starved { cpus, waited: speed.late(), kernel_waits });
    }
    let set_up = watched(&step, notices, || {
        let small = if kernel == Kernel::Waits { cpus } else { &silent };
        let smallest = buffer::size(&instance, buffer, cpus, small, &step)?;
        step.is("the events of a tracing instance");
        instance.set("tracing_on", "0")?;
        let (events, absent, recorded) = enable_events(&instance, block)?;
        Ok(SetUp { clock, names, events, absent, recorded, interval: buffer::fetch_interval(smallest) })
    })?;
    Ok(Ready { instance, set_up, away })
}

/// The events that the analysis uses, the names of those that this kernel lacks, and all events that are enabled.
type Enabled = (Vec<EventType>, Vec<&'static str>, Vec<EventName>);

/// Enables the events that the analysis uses, as far as this kernel has them.
fn enable_events(instance: &Instance, block: BlockEvents) -> Result<Enabled, RecordError> {
    // `softirq_raise` comes with nearly each `softirq_entry`, and the raiser does not change how long a softirq took.
    // Block events come with every request, and some hosts have more requests than switches.
    let used = EventType::ALL.iter().copied().filter(|&event| match event {
        EventType::SoftirqRaise => false,
        event if event.is_of_block_layer() => block == BlockEvents::On,
        _ => true,
    });
    let (events, absent): (Vec<_>, Vec<_>) = used.partition(|&event| instance.has(name_of(event)));
    if absent.contains(&EventType::Switch) {
        return Err(RecordError::NoSwitchEvent);
    }
    let recorded: Vec<EventName> = events.iter().copied().map(name_of).collect();
    for &event in &recorded {
        instance.enable(event)?;
    }
    Ok((events, absent.into_iter().map(EventType::name).collect(), recorded))
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
