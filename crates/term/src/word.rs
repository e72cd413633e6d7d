//! Words in reports that are not findings, rules or remedies.

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its id.
    pub id: &'static str,
    /// Other names under which it is asked for, in lower case, with `-` between words.
    pub also: &'static [&'static str],
    /// Its meaning in one line.
    pub title: &'static str,
    /// The full explanation.
    pub text: &'static [&'static str],
    /// What to type.
    pub commands: &'static [&'static str],
}

/// How to read a line about the lab; also printed below such lines.
pub(crate) const LAB_LINE_HELP: &[&str] = &[
    "`on 6.1 for a kworker: ping.max −86 % (−91 % to −81 %), in spike` says: in guests with Linux 6.1, where a kworker was the victim, \
     the number ping.max of the lab's scenario `spike` fell by 86 % with the remedy; its 95 % interval is in brackets. \
     `unstarve lab list` has the scenarios.",
    "`only a part of it could be applied there`: the guest lacked a thread, or had it with another policy. The number is the effect of \
     the other changes.",
    "`it could not be undone there: PATH: Device or resource busy (os error 16)`: the undo was refused. `os error 16` is EBUSY: the kernel \
     refuses to change a CPU's fair server for a while. `unstarve fix --undo` tries again.",
    "`it got worse`: the remedy harmed the number. `no effect`: the whole interval lies within 3 %. `no clear effect`: the runs differ too \
     much to say.",
];

/// All words.
pub const WORDS: &[Word] = &[
    Word {
        id: "role",
        also: &[],
        title: "what `watch` and `top` sum tasks up as",
        text: &[
            "Of the kernel's threads: `ksoftirqd`, `direct-io` (workers that complete direct I/O), `kworker` (all other workers), `rcu`, \
             `storage` (journals and writeback), `nfsd`, and `kernel` (the rest). Of programs: `real-time` (a real-time or deadline policy, in any \
             cgroup), the path of a top-level cgroup such as `/system.slice`, and `other`.",
            "Only ever the one that has the CPU: `idle`, `unknown` (events are missing). `gone` has the sums of cgroups that were removed.",
        ],
        commands: &["sudo unstarve top", "unstarve help direct-io"],
    },
    Word {
        id: "episode",
        also: &[],
        title: "a time in which threads wait longer than a threshold, as `watch` keeps it",
        text: &[
            "An episode begins when the waits of a role are above one of its thresholds while others are preferred, and ends when nothing was \
             above any for `calm`. It has an id, a trace of the seconds around its beginning, and what `explain` says of that trace. \
             `unstarve watch episodes` lists them, `unstarve watch show ID` shows one.",
        ],
        commands: &["sudo unstarve watch episodes --since 2h", "sudo unstarve watch show ID"],
    },
    Word {
        id: "kworker",
        also: &[],
        title: "a kernel worker: a thread that works for many parts of the kernel",
        text: &[
            "`kworker/3:1H`: of CPU 3, its worker 1; `H` is a pool of nice −20; `u` instead of a number is a pool of several CPUs. What a \
             worker does changes from item to item: reports name the function and the workqueue where the recording has them.",
        ],
        commands: &["unstarve explain FILE --task 'kworker/*'", "unstarve help workqueue"],
    },
    Word {
        id: "confidence",
        also: &[],
        title: "how sure a finding is, in percent",
        text: &[
            "It is lower where the recording lacks what could overturn the finding: lost events, unknown priorities, no host snapshot. How \
             bad a finding is says its severity; below 75 % a finding is never called critical, and the report says why the confidence is low.",
        ],
        commands: &["unstarve explain FILE --full"],
    },
    Word {
        id: "lab-line",
        also: &[],
        title: "how the lines about the lab (`lab: …`) below a remedy are read",
        text: LAB_LINE_HELP,
        commands: &["unstarve lab list", "unstarve help remedies"],
    },
];
