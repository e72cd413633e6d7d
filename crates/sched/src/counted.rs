//! The rules that in-kernel counters distinguish, and the C header that gives the eBPF programs the same numbers.
//!
//! A counter knows the run queue of a waiting task and the running task, but not each wait. So it has fewer rules than a
//! recording, and a wait that the task itself asked for counts as fair sharing.

use std::fmt::Write;

use unstarve_model::{Nanos, Prio};

use crate::{DEADLINE_RANK, FIRST_FAIR_PRIO, Rule, load_weight_of_nice};

/// Number of counted rules; a power of two.
pub const COUNTED_RULES: usize = 8;

/// Rules by their index in a counter. The last one is the time of interrupts and softirqs, which user space counts.
pub const COUNTED: [Rule; COUNTED_RULES] = [
    Rule::Unknown,
    Rule::Throttled,
    Rule::Idle,
    Rule::Class,
    Rule::WakeupPreemption,
    Rule::Weight,
    Rule::Fair,
    Rule::Irq,
];

/// A task that was woken and runs within this time preempted the running task.
pub const WAKEUP_PREEMPTION_WITHIN: Nanos = Nanos::from_millis(1);

/// The nice value of tasks that want to run after all others, such as khugepaged.
const LAST_NICE: i32 = 19;

/// The index of a rule in [`COUNTED`]. Rules that only a recording can distinguish count as the rule that contains them.
pub fn place(rule: Rule) -> usize {
    let rule = match rule {
        Rule::Softirq => Rule::Irq,
        // The counter has the classes of both tasks, which show an occupant of a lower class.
        Rule::Count | Rule::Order | Rule::NotPreempted => Rule::Fair,
        Rule::Priority => Rule::Class,
        Rule::Unranked => Rule::Unknown,
        rule => rule,
    };
    COUNTED.iter().position(|counted| *counted == rule).unwrap_or_default()
}

/// The tasks that a task yields to because its nice value asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yields {
    /// None: nice 0 or less, and tasks outside the fair class.
    ToNobody,
    /// Heavier tasks of the fair class: nice 1 to 18.
    ToHeavier,
    /// All tasks, real-time tasks included: nice 19.
    ToAll,
}

impl Yields {
    /// From the task's priority.
    pub fn of(prio: Prio) -> Yields {
        match prio.nice() {
            Some(LAST_NICE..) => Yields::ToAll,
            Some(1..) => Yields::ToHeavier,
            _ => Yields::ToNobody,
        }
    }
}

/// The rule that a counter uses for a wait with `rule`. What the task asked for counts as fair sharing: running after others
/// because of its nice value, if its own weight decides (against another cgroup the group's weight does); and waiting for the
/// next period of its reservation, which is what `sched_yield` does for a deadline task.
pub fn as_counted(rule: Rule, yields: Yields, competes_by_own_weight: bool, has_reservation: bool) -> Rule {
    match rule {
        Rule::Class | Rule::Priority if yields == Yields::ToAll => Rule::Fair,
        Rule::Weight | Rule::WakeupPreemption if yields != Yields::ToNobody && competes_by_own_weight => Rule::Fair,
        Rule::Throttled if has_reservation => Rule::Fair,
        rule => COUNTED[place(rule)],
    }
}

/// The C header for the eBPF programs: `rules.h`.
pub fn c_header() -> String {
    let mut header = String::from(
        "/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */\n/* Made by unstarve_sched::counted::c_header. */\n\
         #ifndef UNSTARVE_RULES_H\n#define UNSTARVE_RULES_H\n\n",
    );
    let constants = [
        ("FIRST_FAIR_PRIO", FIRST_FAIR_PRIO as u64),
        ("DEADLINE_RANK", DEADLINE_RANK.into()),
        ("NICE_0_WEIGHT", load_weight_of_nice(0).into()),
        ("NICE_19_WEIGHT", load_weight_of_nice(LAST_NICE).into()),
        ("PREEMPTS_WITHIN_NS", WAKEUP_PREEMPTION_WITHIN.0),
        ("RULES", COUNTED_RULES as u64),
    ];
    for (name, value) in constants {
        let _ = writeln!(header, "#define {name} {value}");
    }
    header += "\nenum rule {\n";
    for rule in COUNTED {
        let _ = writeln!(header, "\tBY_{},", rule.word().to_uppercase().replace('-', "_"));
    }
    header + "};\n\n#endif\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_place() {
        for rule in Rule::ALL {
            let counted = COUNTED[place(rule)];
            let is_finer = matches!(
                rule,
                Rule::Softirq | Rule::Count | Rule::Order | Rule::Unranked | Rule::Priority | Rule::NotPreempted
            );
            assert!(counted == rule || is_finer, "{rule} is counted as {counted}");
        }
    }

    #[test]
    fn a_task_that_asks_to_come_last_loses_to_nobody_by_weight_or_wakeup() {
        use Yields::{ToAll, ToHeavier, ToNobody};
        // khugepaged is nice 19, a build nice 5, jbd2 nice 0, kworker/0:1H nice -20.
        let of = [139, 125, 120, 100, 50].map(|prio| Yields::of(Prio(prio)));
        assert_eq!(of, [ToAll, ToHeavier, ToNobody, ToNobody, ToNobody]);
        for rule in Rule::ALL {
            let counted = COUNTED[place(rule)];
            let of_fair = matches!(rule, Rule::Weight | Rule::WakeupPreemption);
            let fair_if = |is_fair: bool| if is_fair { Rule::Fair } else { counted };
            for alone in [true, false] {
                assert_eq!(as_counted(rule, ToNobody, alone, false), counted);
                assert_eq!(as_counted(rule, ToHeavier, alone, false), fair_if(of_fair && alone));
                assert_eq!(as_counted(rule, ToAll, alone, false), fair_if(of_fair && alone || counted == Rule::Class));
                assert_eq!(as_counted(rule, ToNobody, alone, true), fair_if(rule == Rule::Throttled));
            }
        }
    }

    #[test]
    fn the_header_has_the_numbers_of_the_kernel() {
        insta::assert_snapshot!(c_header(), @"
        /* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
        /* Made by unstarve_sched::counted::c_header. */
        #ifndef UNSTARVE_RULES_H
        #define UNSTARVE_RULES_H

        #define FIRST_FAIR_PRIO 100
        #define DEADLINE_RANK 200
        #define NICE_0_WEIGHT 1024
        #define NICE_19_WEIGHT 15
        #define PREEMPTS_WITHIN_NS 1000000
        #define RULES 8

        enum rule {
        	BY_UNKNOWN,
        	BY_THROTTLED,
        	BY_IDLE,
        	BY_CLASS,
        	BY_WAKEUP_PREEMPTION,
        	BY_WEIGHT,
        	BY_FAIR,
        	BY_IRQ,
        };

        #endif
        ");
    }
}
