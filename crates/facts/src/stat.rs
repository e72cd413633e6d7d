//! Parses `/proc/PID/stat`.

use unstarve_model::{SchedPolicy, Tid};

/// `PF_*` of `include/linux/sched.h`; unchanged from 3.10 to 7.2.
pub mod flag {
    /// A workqueue worker.
    pub const WQ_WORKER: u64 = 0x0000_0020;
    /// A kernel thread.
    pub const KTHREAD: u64 = 0x0020_0000;
    /// User space may not change its affinity.
    pub const NO_SETAFFINITY: u64 = 0x0400_0000;
}

/// Fields of `/proc/PID/stat` (proc_pid_stat(5)). Fields that a kernel does not print, or that are not numbers, are
/// absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its name; for a worker with its workqueue.
    pub comm: String,
    /// One letter: `R` runs or waits for a CPU, `S` sleeps, `Z` has exited.
    pub state: char,
    /// The parent of its process.
    pub parent: Tid,
    /// The process group of its process.
    pub group: Option<Tid>,
    /// `PF_*`, see [`flag`].
    pub flags: u64,
    /// Page faults of its process's reaped children.
    pub child_faults: Option<u64>,
    /// CPU time used, user and system, in clock ticks.
    pub cpu_ticks: Option<u64>,
    /// CPU time of its process's reaped children.
    pub child_ticks: Option<u64>,
    /// −20 to 19.
    pub nice: Option<i32>,
    /// When it was created, in clock ticks since boot.
    pub start: u64,
    /// The CPU on which it ran last.
    pub cpu: Option<u32>,
    /// 1 to 99, or 0.
    pub rt_priority: Option<u32>,
    /// Its policy.
    pub policy: Option<SchedPolicy>,
}

impl Stat {
    /// Parses the text. The name is in parentheses and may itself contain parentheses, spaces and newlines, so fields
    /// are counted from the last parenthesis.
    pub fn parse(text: &str) -> Option<Stat> {
        /// The number of the last field used.
        const POLICY: usize = 41;
        let (head, tail) = text.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        // The manual numbers fields from 1; the third is the first after the name.
        let mut fields = [None; POLICY + 1];
        for (field, word) in fields[3..].iter_mut().zip(tail.split_ascii_whitespace()) {
            *field = Some(word);
        }
        let number = |field: usize| -> Option<u64> { fields[field]?.parse().ok() };
        let sum = |one: usize, other: usize| number(one)?.checked_add(number(other)?);
        Some(Stat {
            comm: comm.to_owned(),
            state: fields[3]?.chars().next()?,
            parent: fields[4]?.parse().ok().map(Tid)?,
            group: fields[5].and_then(|word| word.parse().ok()).map(Tid),
            flags: number(9)?,
            child_faults: number(11),
            cpu_ticks: sum(14, 15),
            child_ticks: sum(16, 17),
            nice: fields[19].and_then(|word| word.parse().ok()),
            start: number(22)?,
            cpu: number(39).and_then(|cpu| cpu.try_into().ok()),
            rt_priority: number(40).and_then(|priority| priority.try_into().ok()),
            policy: number(POLICY).and_then(|policy| policy.try_into().ok()).map(SchedPolicy::from_number),
        })
    }

    /// Whether it has exited but has not been reaped.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it is a kernel thread.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & flag::KTHREAD != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: &str =
        "7 (a) R) b) S 2 0 0 0 -1 69238880 0 5 0 0 30 12 4 2 -51 -5 1 0 123 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 3 50 1 0";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(THREAD).expect("a whole line");
        let expected = Stat {
            comm: "a) R) b".to_owned(),
            state: 'S',
            parent: Tid(2),
            group: Some(Tid(0)),
            flags: 69_238_880,
            child_faults: Some(5),
            cpu_ticks: Some(42),
            child_ticks: Some(6),
            nice: Some(-5),
            start: 123,
            cpu: Some(3),
            rt_priority: Some(50),
            policy: Some(SchedPolicy::Fifo),
        };
        assert_eq!(stat, expected);
        assert!(stat.is_kernel_thread() && !stat.has_ended());
        assert_eq!(Stat::parse(&THREAD.replace("a) R) b", "new\nline")).map(|stat| stat.start), Some(123));
    }

    #[test]
    fn what_is_cut_off_or_no_number_is_absent() {
        let ends: Vec<usize> = (0..THREAD.len()).filter(|end| THREAD.is_char_boundary(*end)).collect();
        for end in ends {
            // It must never panic, and text that ends before the creation time is not enough.
            let stat = Stat::parse(&THREAD[..end]);
            assert!(stat.is_none_or(|stat| stat.start > 0));
        }
        let odd = THREAD.replace(" 17 3 50 1 0", " 17 x -1 4294967296 0");
        let stat = Stat::parse(&odd).expect("the rest is as it should be");
        assert_eq!((stat.cpu, stat.rt_priority, stat.policy, stat.nice), (None, None, None, Some(-5)));
        for bad in ["", ")", "7 (x)", "7 x) S 2", "7 (x) S"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }
}
