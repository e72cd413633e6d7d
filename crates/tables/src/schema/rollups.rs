//! Tables of hosts over time, written by `unstarve watch`.

use crate::column::Kind::{Counts, I64, Moment, Text};
use crate::column::{Column, column, optional};
use crate::schema::Fold;
use crate::schema::hosts::MACHINE_ID_MEANING;

const HOST_MEANING: &str = "the name of the machine";
const BOOT_MEANING: &str = "the boot of the machine";
const TS_MEANING: &str = "when the interval began";
const SPAN_MEANING: &str = "the length of the interval";
const KERNEL_MEANING: &str = "the running kernel (`uname -r`)";
const LABELS_MEANING: &str = "`[labels]` of the configuration: `key=value`, apart by commas, in the order of the keys";

pub(crate) const WAIT_ROLLUP: &[Column] = &[
    column("host", Text, "", HOST_MEANING),
    optional("machine_id", Text, "", MACHINE_ID_MEANING),
    optional("boot_id", Text, "", BOOT_MEANING),
    column("ts", Moment, "", TS_MEANING),
    column("span_ns", I64, "ns", SPAN_MEANING),
    column(
        "victim_role",
        Text,
        "",
        "who waited: `ksoftirqd`, `kworker`, …, or the path of a top-level cgroup (docs/watch.md); where nobody did, one row with `n` 0 of `unknown`",
    ),
    column("victim_kind", Text, "", "the kind of the role: its name, `group` for a cgroup"),
    optional("cgroup", Text, "", "the path of the cgroup, of a group"),
    column("n", I64, "", "waits that ended in the interval"),
    column("sum_ns", I64, "ns", "for how long its tasks waited in the interval, waits that had not ended included"),
    optional(
        "max_ns",
        I64,
        "ns",
        "the waits that ended were shorter than this, the upper bound of the last step that is not 0; empty if none ended, or one \
         was longer than 64 s",
    ),
    column(
        "buckets",
        Counts,
        "",
        "waits that ended, by length: below 2⁻²⁰ s, then four steps for each power of two of a second up to 64 s, then longer; steps \
         after the last that is not 0 are left out",
    ),
    optional("kernel", Text, "", KERNEL_MEANING),
    optional("labels", Text, "", LABELS_MEANING),
];

pub(crate) const WAIT_FOLDS: &[(&str, Fold)] = &[
    ("ts", Fold::First),
    ("span_ns", Fold::Added),
    ("n", Fold::Added),
    ("sum_ns", Fold::Added),
    ("max_ns", Fold::Greatest),
    ("buckets", Fold::Histogram),
];

pub(crate) const BLAME_FOLDS: &[(&str, Fold)] = &[("ts", Fold::First), ("span_ns", Fold::Added), ("ns", Fold::Added)];

pub(crate) const BLAME_ROLLUP: &[Column] = &[
    column("host", Text, "", HOST_MEANING),
    optional("machine_id", Text, "", MACHINE_ID_MEANING),
    optional("boot_id", Text, "", BOOT_MEANING),
    column("ts", Moment, "", TS_MEANING),
    column("span_ns", I64, "ns", SPAN_MEANING),
    column("victim_role", Text, "", "who waited, as in `wait_rollup`"),
    column("victim_kind", Text, "", "the kind of the role: its name, `group` for a cgroup"),
    column("occupant", Text, "", "who had the CPU meanwhile: a role, `idle` or `unknown`"),
    column("rule", Text, "", "why (docs/blame.md)"),
    column("ns", I64, "ns", "for how long, summed up over the waiting tasks"),
    optional("kernel", Text, "", KERNEL_MEANING),
    optional("labels", Text, "", LABELS_MEANING),
];

pub(crate) const EPISODE_COLUMNS: &[Column] = &[
    column("id", Text, "", "the name of its directory on the host; unique together with `host`"),
    optional("host", Text, "", HOST_MEANING),
    optional("machine_id", Text, "", MACHINE_ID_MEANING),
    column("ts", Moment, "", "when it was seen"),
    optional("finding", Text, "", "the finding of `explain` about its victim"),
    optional("severity", Text, "", "`critical`, `warning` or `info`"),
    optional("victim", Text, "", "whose waits: the name of a task"),
    optional("victim_role", Text, "", "the same as a role"),
    optional("victim_cgroup", Text, "", "its cgroup"),
    optional("culprit", Text, "", "who had the CPU meanwhile"),
    optional("culprit_role", Text, "", "the same as a role"),
    optional("culprit_cgroup", Text, "", "its cgroup"),
    optional("rule", Text, "", "why (docs/blame.md)"),
    optional("ns", I64, "ns", "the part of the victim's waits that this culprit and rule are to blame for"),
    column("victims", I64, "", "how many were starved at its time"),
    optional("remedy", Text, "", "what to do first (docs/remedies.md)"),
    optional("verdict", Text, "", "what `explain` says of the whole trace"),
    optional("trace_uri", Text, "", "where its trace is on the host"),
    optional("trace_bytes", I64, "B", "the size of its trace"),
    optional("problem", Text, "", "why something is absent"),
    optional("kernel", Text, "", KERNEL_MEANING),
    optional("labels", Text, "", LABELS_MEANING),
    optional("ended_at", Moment, "", "when its condition was last above its threshold; empty if nobody saw it"),
    optional(
        "ended_by",
        Text,
        "",
        "why it counts as over: `calm`, `continued`, `watch-ended`, `watch-killed`, `machine-stood`, `crowded`",
    ),
    optional("duration_ns", I64, "ns", "from the first reading in which its waits can have begun to `ended_at`"),
    optional(
        "total_ns",
        I64,
        "ns",
        "of what all tasks of the victim's role waited in that time, the part that the culprit's role and the rule are to blame for",
    ),
    optional("waited_ns", I64, "ns", "all that the tasks of that role waited in that time"),
    optional(
        "continued_as",
        Text,
        "",
        "the id of the episode that goes on in its place, and has the duration and the sums of both",
    ),
];
