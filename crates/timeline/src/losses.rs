//! Counts what a trace cannot show.

use unstarve_model::{EventType, Loss, LossKind, Tid, counted};

use crate::cpus::ticks::AllSilent;

/// Counts of what could not be followed.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Waits of tasks that no event names.
    guessed: u64,
    /// Waits moved to the CPU where the task ran next.
    followed: u64,
    missing_switches: u64,
    /// Those away from an idle CPU.
    missing_idle_exits: u64,
    impossible_cpus: u64,
    late: u64,
}

impl Losses {
    /// Counts waits of tasks that no event names.
    pub fn note_guessed(&mut self, waits: u64) {
        self.guessed += waits;
    }

    /// Counts a wait moved to the CPU where the task ran next.
    pub fn note_followed(&mut self) {
        self.followed += 1;
    }

    /// Counts a missing switch, away from this task if that is known.
    pub fn note_missing_switch(&mut self, believed: Option<Tid>) {
        self.missing_switches += 1;
        self.missing_idle_exits += u64::from(believed == Some(Tid::IDLE));
    }

    /// Whether any switch is missing.
    #[inline(always)]
    pub fn switches_are_missing(&self) -> bool {
        self.missing_switches > 0
    }

    /// Counts an event of a CPU that cannot exist.
    pub fn note_impossible_cpu(&mut self) {
        self.impossible_cpus += 1;
    }

    /// Counts an event that may have come too late.
    #[inline(always)]
    pub fn note_order(&mut self, is_late: bool) {
        self.late += u64::from(is_late);
    }

    /// The losses, if any.
    pub fn report(&self, all_silent: &AllSilent) -> Vec<Loss> {
        let mut losses = Vec::new();
        let mut add = |kind, count, detail: &str| {
            if count > 0 {
                losses.push(Loss::new(kind, count).with_detail(detail));
            }
        };
        // Lost events do not look like that, but some kernels issue no such events on some CPUs.
        let touched = if self.missing_idle_exits > self.missing_switches / 2 {
            "mostly when a CPU left idle, which some kernels do not report; the waits they touch are left out"
        } else {
            "the waits they touch are left out"
        };
        let next = format!(
            "nor sched_migrate_task: for {}, the CPU where the task ran next is taken to be where it waited",
            counted(self.followed, "wait")
        );
        add(LossKind::NotRecorded(EventType::Wakeup), u64::from(self.followed > 0), &next);
        add(LossKind::SilentTasks, self.guessed, "`unstarve record` of this version keeps what they did");
        add(LossKind::MissingSwitch, self.missing_switches, touched);
        add(LossKind::Undecodable, self.impossible_cpus, "events of CPUs that cannot exist");
        add(LossKind::OutOfOrder, self.late, "");
        let stood_still =
            format!("up to {}: the whole machine stood still, or nothing was recorded", all_silent.longest());
        add(LossKind::AllCpusSilent, all_silent.count(), &stood_still);
        losses
    }
}
