//! Rules as counters in the kernel distinguish them, and the header that gives the eBPF programs the same numbers.
//!
//! A counter knows the queue a task waits in and who has the CPU, not each wait. So it has fewer rules than a recording, and it counts as
//! an ordinary turn what the waiting task itself asked for.

use std::fmt::Write;

use unstarve_model::{Nanos, Prio};

use crate::{DEADLINE_RANK, FIRST_FAIR_PRIO, Rule, load_weight_of_nice};

/// How many rules are counted; a power of two.
pub const COUNTED_RULES: usize = 8;

/// Rules by their places in a counter. The last one is for what interrupts take, softirqs included: user space counts it.
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

/// A task that was woken and runs within this time preempted the one that had the CPU.
pub const WAKEUP_PREEMPTION_WITHIN: Nanos = Nanos::from_millis(1);

/// The nice value whose tasks ask to come after all others, as khugepaged does.
const LAST_NICE: i32 = 19;

/// The place of a rule in [`COUNTED`]. Rules that only a recording shows count as the one that they are a kind of.
pub fn place(rule: Rule) -> usize {
    let rule = match rule {
        Rule::Softirq => Rule::Irq,
        // That the occupant is of a lower class the counters say by both roles.
        Rule::Count | Rule::Order | Rule::NotPreempted => Rule::Fair,
        Rule::Priority => Rule::Class,
        Rule::Unranked => Rule::Unknown,
        rule => rule,
    };
    COUNTED.iter().position(|counted| *counted == rule).unwrap_or_default()
}

/// Whom a task lets go first because its nice value asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yields {
    /// Nobody: nice 0 or less, and all tasks that are not of the fair class.
    ToNobody,
    /// Heavier tasks of the fair class: nice 1 to 18.
    ToHeavier,
    /// All others, real-time tasks included: nice 19.
    ToAll,
}

impl Yields {
    /// By the task's priority.
    pub fn of(prio: Prio) -> Yields {
        match prio.nice() {
            Some(LAST_NICE..) => Yields::ToAll,
            Some(1..) => Yields::ToHeavier,
            _ => Yields::ToNobody,
        }
    }
}

/// The rule by which a counter counts what a task waited by `rule`.
///
/// What the task asked for is its ordinary turn: to come last, by its nice value, where only its own weight competes (beside another
/// cgroup the group's weight does); and to wait for the next period of its reservation, which is how `sched_yield` ends the turn of a
/// deadline task.
pub fn as_counted(rule: Rule, yields: Yields, competes_by_own_weight: bool, has_reservation: bool) -> Rule {
    match rule {
        Rule::Class | Rule::Priority if yields == Yields::ToAll => Rule::Fair,
        Rule::Weight | Rule::WakeupPreemption if yields != Yields::ToNobody && competes_by_own_weight => Rule::Fair,
        Rule::Throttled if has_reservation => Rule::Fair,
        rule => COUNTED[place(rule)],
    }
}

/// What the eBPF programs share with this crate, as a C header: `rules.h`.
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
