//! What `--predictable` records besides, and which guess of a prediction each event settles.

use crate::instance::EventName;

/// An event that only predictions need.
pub(crate) struct ExtraEvent {
    pub(crate) name: EventName,
    /// Which of its records are kept; empty for all.
    pub(crate) filter: Filter,
    /// What stays a guess without it.
    pub(crate) settles: Guess,
}

/// Which records of an event are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filter {
    All,
    /// Those for which this expression is true (`Documentation/trace/events.rst`).
    Expression(&'static str),
    /// Timers other than those of ticks: a tick comes hundreds of times a second on each CPU, and is armed each time.
    NoTicks,
}

/// What a prediction has to guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Guess {
    /// Whether a sleep was asked for as a length or as a time.
    Sleeps,
    /// Which time in interrupts is the interrupted thread's own work.
    Interrupts,
    /// Who caused a packet, or the completion of a request.
    Softirqs,
    /// In which cgroup a thread is that was moved.
    Cgroups,
}

impl Guess {
    /// In a message, after "predictions will guess".
    pub fn words(self) -> &'static str {
        match self {
            Guess::Sleeps => "whether sleeps are lengths or end at a time",
            Guess::Interrupts => "how much time of threads is that of interrupts",
            Guess::Softirqs => "which softirqs are a thread's own work",
            Guess::Cgroups => "in which cgroup a moved thread is",
        }
    }
}

/// All of them, in the order of the table in `docs/decisions/0603-what-predictable-records.md`.
pub(crate) const EXTRA_EVENTS: &[ExtraEvent] = &[
    extra(("timer", "hrtimer_start"), Filter::NoTicks, Guess::Sleeps),
    extra(("timer", "hrtimer_expire_entry"), Filter::NoTicks, Guess::Sleeps),
    extra(("timer", "timer_expire_entry"), Filter::All, Guess::Sleeps),
    vector("local_timer_entry"),
    vector("local_timer_exit"),
    vector("reschedule_entry"),
    vector("reschedule_exit"),
    vector("call_function_entry"),
    vector("call_function_exit"),
    vector("call_function_single_entry"),
    vector("call_function_single_exit"),
    // NET_TX, NET_RX and BLOCK: the kernel raises others for itself.
    extra(("irq", "softirq_raise"), Filter::Expression("vec >= 2 && vec <= 4"), Guess::Softirqs),
    extra(("cgroup", "cgroup_attach_task"), Filter::All, Guess::Cgroups),
];

const fn extra(name: EventName, filter: Filter, settles: Guess) -> ExtraEvent {
    ExtraEvent { name, filter, settles }
}

const fn vector(name: &'static str) -> ExtraEvent {
    extra(("irq_vectors", name), Filter::All, Guess::Interrupts)
}

#[cfg(test)]
mod tests {
    use unstarve_model::Vector;

    use super::*;

    #[test]
    fn each_vector_that_is_read_is_recorded_from_entry_to_exit() {
        let names: Vec<&str> = EXTRA_EVENTS.iter().map(|event| event.name.1).collect();
        for vector in Vector::ALL {
            for end in ["entry", "exit"] {
                let name = format!("{}_{end}", vector.name());
                assert!(names.contains(&name.as_str()), "{name}");
            }
        }
    }
}
